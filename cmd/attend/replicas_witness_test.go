package main_test

import "strings"

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
	INSERT INTO @saw_owners VALUES (NEW.shard, NEW.token, convert_from(NEW.owner, 'UTF8'), extract(epoch FROM clock_timestamp()) * 1000);
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
