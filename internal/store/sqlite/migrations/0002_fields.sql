-- Fields: each has a log of changes of its own, written in the commit of an
-- entry of the log, in the same file.
CREATE TABLE fields (
	id   INTEGER PRIMARY KEY,
	name TEXT    NOT NULL UNIQUE
);

-- The changes of one Field stand together, in order: a Field is read from its
-- first change to its last. No column says which the last one is: it would be
-- one more page to write for each group, and the key finds it.
CREATE TABLE changes (
	field  INTEGER NOT NULL, -- id of fields
	number INTEGER NOT NULL, -- 1, 2, 3 and so on, without gaps
	format INTEGER NOT NULL,
	body   BLOB    NOT NULL,
	PRIMARY KEY (field, number)
) WITHOUT ROWID;
