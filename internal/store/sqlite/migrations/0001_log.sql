-- The log: two tables, one sequence of positions.
--
-- Events are rows in the order of their arrival, without any secondary index:
-- an index on anything that producers choose would dirty about one page for
-- each event, ten times what the event itself takes.
CREATE TABLE events (
	position INTEGER PRIMARY KEY,
	stamp    INTEGER NOT NULL, -- Unix ms
	shard    INTEGER NOT NULL, -- of the scope
	scope    TEXT    NOT NULL,
	id       TEXT    NOT NULL,
	name     TEXT    NOT NULL,
	kind     INTEGER NOT NULL, -- as fixed at acceptance
	policy   INTEGER NOT NULL, -- number of the policy that fixed it
	at       INTEGER,          -- Unix ms by the source's clock
	data     BLOB,             -- JSON as it was sent
	text     TEXT,
	format   INTEGER NOT NULL
);

-- Steps are all else that happens, and far fewer.
CREATE TABLE steps (
	position  INTEGER PRIMARY KEY,
	stamp     INTEGER NOT NULL,
	shard     INTEGER NOT NULL,
	scope     TEXT    NOT NULL, -- '' for steps of every scope
	kind      TEXT    NOT NULL,
	window_id TEXT,             -- the window that the step is about
	id        TEXT,             -- of a decision or dead letter
	route     TEXT,             -- of a decision
	owned     INTEGER NOT NULL, -- 1 for the owner's numbered steps
	format    INTEGER NOT NULL,
	body      BLOB    NOT NULL  -- JSON
);

-- Each index ends in the position, as every index of a rowid table does.
CREATE INDEX steps_by_scope ON steps (scope, owned);
CREATE INDEX steps_by_kind ON steps (kind);
CREATE INDEX steps_by_window ON steps (window_id) WHERE window_id IS NOT NULL;
CREATE INDEX steps_by_id ON steps (id) WHERE id IS NOT NULL;

-- Stored folds: hints that can be rebuilt from the log.
CREATE TABLE states (
	scope    TEXT    PRIMARY KEY,
	position INTEGER NOT NULL, -- the row covers the scope's records up to here
	wake_at  INTEGER NOT NULL, -- Unix ms, 0 for never
	live     INTEGER NOT NULL,
	format   INTEGER NOT NULL,
	body     BLOB    NOT NULL
);

CREATE INDEX states_live ON states (scope) WHERE live <> 0 OR wake_at <> 0;

-- Dedup blocks are added and dropped, never rewritten.
CREATE TABLE blocks (
	scope TEXT    NOT NULL,
	seq   INTEGER NOT NULL,
	body  BLOB    NOT NULL,
	PRIMARY KEY (scope, seq)
);

-- Small rows that are written in the commit of a log entry.
CREATE TABLE rows (
	space TEXT NOT NULL,
	key   TEXT NOT NULL,
	value BLOB NOT NULL,
	PRIMARY KEY (space, key)
) WITHOUT ROWID;

-- One row for each fact about the store: epoch, secret, fence (the token last
-- given), checkpoint, head_position and head_stamp (the end of the log when the
-- checkpoint was written: the log may be compacted up to its very end).
CREATE TABLE meta (
	key   TEXT PRIMARY KEY,
	value
) WITHOUT ROWID;
