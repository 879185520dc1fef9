-- Fields: each has a log of changes of its own, written in the commit of an
-- entry of the log.
CREATE TABLE fields (
	id   INTEGER PRIMARY KEY,
	name TEXT    NOT NULL UNIQUE
);

-- Changes are rows in the order of their arrival, as events are, with one small
-- index to find those of a Field. A table in the order of the index would be
-- read several times as fast when many Fields grow side by side, but written
-- at a third to two thirds of the speed of events: one page for each Field of
-- a group, and one for each change above a kilobyte.
--
-- No column says which change of a Field is the last: it would be one more page
-- to write, and the index ends in it.
CREATE TABLE changes (
	field  INTEGER NOT NULL, -- id of fields
	number INTEGER NOT NULL, -- 1, 2, 3 and so on, without gaps
	format INTEGER NOT NULL,
	body   BLOB    NOT NULL,
	UNIQUE (field, number)
);
