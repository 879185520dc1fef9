-- Names that begin with @ stand for tables and indexes under the prefix.
-- Strings are bytea: they are kept byte for byte, zero bytes and bytes that are
-- no UTF-8 too, and sort as they do everywhere else in attend.

-- One row. Who writes to the log holds it, FOR UPDATE, until the commit: that
-- is what makes the order of commits the order of positions. It is not
-- rewritten for each commit, so that it leaves no dead rows behind: the end of
-- the log is where its tables end, or where this row says when what stood
-- there has been deleted.
CREATE TABLE @head (
	one         boolean PRIMARY KEY DEFAULT true CHECK (one),
	position    bigint  NOT NULL,
	stamp       bigint  NOT NULL, -- Unix ms
	kept_events bigint  NOT NULL DEFAULT 0, -- every event up to here was deleted
	kept_steps  bigint  NOT NULL DEFAULT 0, -- every step up to here was, but policies and silences
	importing   boolean NOT NULL DEFAULT false, -- while an import is not finished
	epoch       text    NOT NULL,
	secret      bytea   NOT NULL,
	format      integer NOT NULL  -- of the records
);

-- The log: two tables, one sequence of positions. Events have no index but
-- their place.
CREATE TABLE @events (
	position bigint   PRIMARY KEY,
	stamp    bigint   NOT NULL, -- Unix ms
	shard    smallint NOT NULL, -- of the scope
	kind     smallint NOT NULL, -- as fixed at acceptance
	format   smallint NOT NULL,
	policy   bigint   NOT NULL, -- number of the policy that fixed it
	at       bigint,            -- Unix ms by the source's clock
	scope    bytea    NOT NULL,
	id       bytea    NOT NULL,
	name     bytea    NOT NULL,
	data     bytea,             -- JSON as it was sent
	text     bytea
);

-- The side table: events that were deleted from the log while a window or a
-- dead letter still named them. They stand under their old positions, and are
-- no records of the log.
CREATE TABLE @aside (LIKE @events INCLUDING INDEXES);

-- Steps are all else that happens, and far fewer.
CREATE TABLE @steps (
	position  bigint   PRIMARY KEY,
	stamp     bigint   NOT NULL,
	shard     smallint NOT NULL,
	format    smallint NOT NULL,
	owned     boolean  NOT NULL, -- one of the owner's numbered steps
	scope     bytea    NOT NULL, -- empty for steps of every scope
	kind      bytea    NOT NULL,
	window_id bytea,             -- the window that the step is about
	id        bytea,             -- of a decision or dead letter
	body      bytea    NOT NULL  -- JSON
);

CREATE INDEX @steps_by_scope ON @steps (scope, owned, position);
CREATE INDEX @steps_by_kind ON @steps (kind, position);
CREATE INDEX @steps_by_window ON @steps (window_id, position) WHERE window_id IS NOT NULL;
CREATE INDEX @steps_by_id ON @steps (id, position) WHERE id IS NOT NULL;

-- Stored folds: hints that can be rebuilt from the log.
CREATE TABLE @states (
	scope    bytea   PRIMARY KEY,
	position bigint  NOT NULL, -- the row covers the scope's records up to here
	wake_at  bigint  NOT NULL, -- Unix ms, 0 for never
	live     boolean NOT NULL,
	format   integer NOT NULL,
	body     bytea   NOT NULL
);

CREATE INDEX @states_live ON @states (scope) WHERE live OR wake_at <> 0;

-- Dedup blocks are added and dropped, never rewritten.
CREATE TABLE @blocks (
	scope bytea  NOT NULL,
	seq   bigint NOT NULL,
	body  bytea  NOT NULL,
	PRIMARY KEY (scope, seq)
);

-- Small rows that are written in the commit of a log entry.
CREATE TABLE @rows (
	space bytea NOT NULL,
	key   bytea NOT NULL,
	value bytea NOT NULL,
	PRIMARY KEY (space, key)
);

-- Fields: each has a log of changes of its own, written in the commit of an
-- entry of the log.
CREATE TABLE @fields (
	name bytea PRIMARY KEY
);

CREATE TABLE @field_changes (
	name   bytea   NOT NULL,
	number bigint  NOT NULL, -- 1, 2, 3 and so on, without gaps
	format integer NOT NULL,
	body   bytea   NOT NULL,
	PRIMARY KEY (name, number)
);

-- Replicas that are alive until a time of the log's clock, in Unix ms. A shard
-- belongs to its owner while that one is alive: a renewal writes one row.
CREATE TABLE @replicas (
	name  bytea  PRIMARY KEY,
	until bigint NOT NULL
);

CREATE TABLE @shards (
	shard      smallint PRIMARY KEY,
	owner      bytea,           -- null when the shard is free
	token      bigint NOT NULL, -- grows whenever the shard changes hands
	checkpoint bigint NOT NULL  -- position that every state row of the shard covers
);

INSERT INTO @shards (shard, token, checkpoint) SELECT generate_series(0, 255), 0, 0;
