-- The side table: events that were deleted from the log while a window or a
-- dead letter still named them. They stand under their old positions, and are
-- no records of the log.
CREATE TABLE aside (
	position INTEGER PRIMARY KEY,
	stamp    INTEGER NOT NULL,
	shard    INTEGER NOT NULL,
	scope    TEXT    NOT NULL,
	id       TEXT    NOT NULL,
	name     TEXT    NOT NULL,
	kind     INTEGER NOT NULL,
	policy   INTEGER NOT NULL,
	at       INTEGER,
	data     BLOB,
	text     TEXT,
	format   INTEGER NOT NULL
);

-- New facts in meta: kept_events and kept_steps (everything at or before them
-- was deleted of the table), importing (while an import is not finished).
