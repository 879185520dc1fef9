package main_test

import (
	"fmt"
	"strings"
	"time"

	"attend/internal/engine"
)

// witness has the database itself write down who wrote each of the owners'
// steps, and to whom each token of each shard was given: the sessions of a
// replica bear its name.
func witness(prefix string) string {
	return strings.NewReplacer("@", prefix).Replace(`
CREATE TABLE @saw_steps (position bigint, shard int, token bigint, writer text);
CREATE TABLE @saw_owners (shard int, token bigint, owner text, at bigint);
CREATE FUNCTION @saw_step() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
	INSERT INTO @saw_steps SELECT NEW.position, NEW.shard, s.token, current_setting('application_name') FROM @shards s WHERE s.shard = NEW.shard;
	RETURN NULL;
END $$;
CREATE FUNCTION @saw_owner() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
	INSERT INTO @saw_owners VALUES (NEW.shard, NEW.token, split_part(convert_from(NEW.owner, 'UTF8'), '-', 1), extract(epoch FROM clock_timestamp()) * 1000);
	RETURN NULL;
END $$;
CREATE TRIGGER saw AFTER INSERT ON @steps FOR EACH ROW WHEN (NEW.owned) EXECUTE FUNCTION @saw_step();
CREATE TRIGGER saw AFTER UPDATE ON @shards FOR EACH ROW WHEN (NEW.token <> OLD.token) EXECUTE FUNCTION @saw_owner();
`)
}

// checkFences: every step of an owner was written by the replica that the
// shard's token had been given to, and each token was given once.
func (f *fleet) checkFences(found *findings) (steps, handovers int) {
	f.t.Helper()
	rows, err := f.conn().Query(f.t.Context(), strings.NewReplacer("@", f.prefix).Replace(`
		SELECT w.position, w.shard, w.token, w.writer, coalesce(o.owner, '')
		FROM @saw_steps w LEFT JOIN @saw_owners o USING (shard, token) WHERE o.owner IS DISTINCT FROM w.writer`))
	if err != nil {
		f.t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var position, token int64
		var shard int
		var writer, owner string
		if err := rows.Scan(&position, &shard, &token, &writer, &owner); err != nil {
			f.t.Fatal(err)
		}
		found.add("fences", "the step at position %d of shard %d was written by %q under token %d, which was given to %q", position, shard, writer, token, owner)
	}
	if err := rows.Err(); err != nil {
		f.t.Fatal(err)
	}
	if n := f.ask("SELECT count(*) FROM (SELECT FROM " + f.prefix + "saw_owners GROUP BY shard, token HAVING count(*) > 1) twice"); n > 0 {
		found.add("fences", "%d tokens were given twice", n)
	}
	steps, handovers = f.ask("SELECT count(*) FROM "+f.prefix+"saw_steps"), f.ask("SELECT count(*) FROM "+f.prefix+"saw_owners")
	return steps, handovers
}

// story tells to whom the shard of a window was given from before it was due
// until it had settled.
func (f *fleet) story(w *window) string {
	f.t.Helper()
	due, settled, shard := int64(w.settled.Due), int64(w.stamp), engine.Shard(w.scope)
	rows, err := f.conn().Query(f.t.Context(), `SELECT owner, token, at - $2 FROM `+f.prefix+`saw_owners
		WHERE shard = $1 AND at BETWEEN $2 - 30000 AND $3 ORDER BY token`, shard, due, settled)
	if err != nil {
		f.t.Fatal(err)
	}
	defer rows.Close()
	var b strings.Builder
	fmt.Fprintf(&b, "scope %s, shard %d, settled %d ms after it was due;", w.scope, shard, settled-due)
	for rows.Next() {
		var owner string
		var token, at int64
		if err := rows.Scan(&owner, &token, &at); err != nil {
			f.t.Fatal(err)
		}
		fmt.Fprintf(&b, " %s has it from %d ms;", owner, at)
	}
	if err := rows.Err(); err != nil {
		f.t.Fatal(err)
	}
	for _, blow := range f.blows {
		if at := blow.at.UnixMilli() - due; at > -30000 && at <= settled-due {
			fmt.Fprintf(&b, " %s at %d ms;", blow.what, at)
		}
	}
	return b.String()
}

// blow is something that was done to a fleet.
type blow struct {
	at   time.Time
	what string
}

func (f *fleet) note(format string, args ...any) {
	f.blows = append(f.blows, blow{time.Now(), fmt.Sprintf(format, args...)})
}
