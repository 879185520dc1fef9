package app

import (
	"context"
	"crypto/rand"
	"fmt"
	"os"

	"attend/internal/config"
	"attend/internal/engine"
	"attend/internal/store"
	"attend/internal/store/postgres"
)

// openPostgres opens a store that this daemon shares with others. A database
// that does not answer, or whose tables are another version's, ends the start:
// whoever starts daemons finds out at once, and tries again. A daemon that runs
// waits for its database for ever.
func (a *App) openPostgres(ctx context.Context) (store.Store, error) {
	st, err := postgres.Open(ctx, a.cfg.Store.Address.Reveal(), postgres.Options{
		Migrate:    !a.cfg.Replicas.NoMigrate,
		Logger:     a.log,
		Registerer: a.opt.Registry,
	})
	if err != nil {
		return nil, err
	}
	a.leases, a.replica = st, replicaName(a.cfg.Replicas.Name)
	return st, nil
}

// replicaName makes up a name that no other process has had: for people by what
// is configured, else by its host and number, and by a draw. Two daemons that
// are given one name are then two replicas still; one that was killed and is
// started again waits, as any other would, until its leases of before expire.
func replicaName(configured string) string {
	if configured == "" {
		host, err := os.Hostname()
		if err != nil || host == "" {
			host = "attend"
		}
		configured = fmt.Sprintf("%.64s-%d", host, os.Getpid())
	}
	return configured + "-" + rand.Text()[:10]
}

// refuseNoKinds ends the start of a replica that was given no kinds, where the
// others have some: its policy would be in force for all, and nothing would
// wake anyone. Kinds that are given as empty are meant.
func refuseNoKinds(ctx context.Context, log store.Log) error {
	newest := engine.Policy{}
	q := store.StepQuery{Kinds: []engine.StepKind{engine.StepPolicy}, Limit: policiesAtOnce}
	for {
		recs, err := log.Steps(ctx, q)
		if err != nil {
			return fmt.Errorf("read the policies: %w", err)
		}
		for i := range recs {
			if q.After = recs[i].Position; recs[i].Step.Policy.Number > newest.Number {
				newest = *recs[i].Step.Policy
			}
		}
		if len(recs) < q.Limit {
			break
		}
	}
	if len(newest.Kinds) == 0 {
		return nil
	}
	return fmt.Errorf("this daemon is given no kinds, and the policy in force has %d: it would switch waking off for every replica; start it with their kinds (--kinds, ATTEND_KINDS), or with --kinds '{}' if none are meant", len(newest.Kinds))
}

const policiesAtOnce = 256

// Migration is what Migrate has to do, or has done.
type Migration struct {
	Store  config.Store
	From   int      // the version of the tables; 0 for none
	To     int      // the version of this binary
	Steps  []string // the scripts between the two, in order
	Prefix string   // of the tables' names
}

// PlanMigration looks how far the tables of a store in Postgres are. It changes
// nothing, and fails when a table is missing that no migration makes again.
func PlanMigration(ctx context.Context, s config.Store) (*Migration, error) {
	if s.Kind != config.StorePostgres {
		return nil, fmt.Errorf("the store %s is brought up to date by the daemon that opens it: migrate is for postgres:<url>", s)
	}
	schema, err := postgres.Inspect(ctx, s.Address.Reveal(), "")
	if err == nil && len(schema.Absent) > 0 {
		err = &postgres.AbsentError{Tables: schema.Absent}
	}
	if err != nil {
		return nil, fmt.Errorf("look at the tables in %s: %w", s, err)
	}
	return &Migration{Store: s, From: schema.Version, To: schema.Known, Steps: schema.Missing, Prefix: schema.Prefix}, nil
}

// Migrate brings the tables up to date. It is safe beside others that do the
// same.
func Migrate(ctx context.Context, s config.Store) error {
	if err := postgres.Migrate(ctx, s.Address.Reveal(), ""); err != nil {
		return fmt.Errorf("migrate the tables in %s: %w", s, err)
	}
	return nil
}
