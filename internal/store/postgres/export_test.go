package postgres

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"

	"attend/internal/store"
)

// ModeOf tells how statements are sent to a database.
func ModeOf(ctx context.Context, t *testing.T, address string) pgx.QueryExecMode {
	t.Helper()
	d, err := parse(address, "")
	if err == nil {
		err = d.inspect(ctx, false)
	}
	if err != nil {
		t.Fatal(err)
	}
	return d.pool.ConnConfig.DefaultQueryExecMode
}

// OnCommit has a function called before a group's last turn is sent.
func OnCommit(o Options, f func()) Options {
	o.onCommit = f
	return o
}

// Share is share, for replicas by name: shards[i] is the owner of shard i, ""
// for none, of which those that are dead count as none.
func Share(owners []string, dead map[string]bool, replica string, replicas int) (give, take []int) {
	shards := make([]shard, len(owners))
	for i, o := range owners {
		shards[i] = shard{number: i, owner: o, alive: o != "" && !dead[o]}
	}
	return share(shards, replica, replicas)
}

// OnTail bounds how many records are held in memory.
func OnTail(o Options, records int) Options {
	o.tailRecords = records
	return o
}

// CoverAll has every shard covered up to the checkpoint of the fence's.
func (s *Store) CoverAll(ctx context.Context, f store.Fence) error {
	_, err := s.pool.Exec(ctx, s.names.sql("UPDATE @shards SET checkpoint = (SELECT checkpoint FROM @shards WHERE shard = $1::integer)"), f.Shard)
	return err
}

// Hears tells whether the store is told of commits.
func Hears(s *Store) bool { return s.follower.hears.Load() }
