package runner_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"attend/internal/engine"
	"attend/internal/runner"
	"attend/internal/store"
)

// unsaved counts the scopes of one event each that were read and have no row
// yet: those are in memory. Its rows are slow to write.
type unsaved struct {
	store.Store
	mu                sync.Mutex
	read, saved, most int
	rows              map[string]bool
}

func (u *unsaved) Read(ctx context.Context, after engine.Position, limit int) ([]engine.Record, error) {
	recs, err := u.Store.Read(ctx, after, limit)
	u.mu.Lock()
	defer u.mu.Unlock()
	for i := range recs {
		if recs[i].Event != nil {
			u.read++
		}
	}
	u.most = max(u.most, u.read-u.saved)
	return recs, err
}

// SaveStates implements store.States.
func (u *unsaved) SaveStates(ctx context.Context, fence store.Fence, rows []store.StateRow, checkpoint engine.Position) error {
	time.Sleep(10 * time.Millisecond) // of the bubble: as a database takes
	if err := u.Store.SaveStates(ctx, fence, rows, checkpoint); err != nil {
		return err
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	for i := range rows {
		if !u.rows[rows[i].Scope] {
			u.rows[rows[i].Scope] = true
			u.saved++
		}
	}
	return nil
}

// TestRunner_ManyNewScopesLeaveMemory has events of new scopes come faster than
// rows can be written, before the runner starts and after. At no time may it
// hold far more states than it should, and every scope settles when it is due.
func TestRunner_ManyNewScopesLeaveMemory(t *testing.T) {
	const scopes = 16_000
	for _, live := range []bool{false, true} {
		t.Run(fmt.Sprint("live=", live), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				u := &unsaved{Store: open(t), rows: make(map[string]bool)}
				p := policy("rule", kinds)
				p.Default.ClosingGraceMs, p.Default.MaxWindowMs = 3_600_000, 7_200_000
				fillStore := func() {
					for n := 0; n < scopes; n += 1000 {
						var e store.Entry
						for i := range 1000 {
							e.Events = append(e.Events, store.NewEvent{Scope: fmt.Sprint("s", n+i), Event: engine.Event{
								ID: "e", Name: "done", Kind: engine.Closing, Policy: 1,
							}})
						}
						if _, err := u.Append(t.Context(), e); err != nil {
							t.Fatal(err)
						}
					}
				}
				if !live {
					fillStore()
				}
				w := start(t, u, p, runner.Options{MaxScopes: 10})
				if live {
					synctest.Wait()
					fillStore()
				}
				time.Sleep(time.Minute)
				synctest.Wait()
				u.mu.Lock()
				if u.read != scopes || u.saved < scopes-10 {
					t.Errorf("of %d scopes %d were read, and %d left memory", scopes, u.read, u.saved)
				}
				if most := 3 * 4096; u.most > most { // what one read brings, and as much again while rows are written
					t.Errorf("%d states were in memory at once, want at most %d", u.most, most)
				}
				u.mu.Unlock()
				time.Sleep(2 * time.Hour)
				synctest.Wait()
				for i := 0; i < scopes; i += 999 {
					w.want(fmt.Sprint("s", i), "settled closing 1", "decision queue")
				}
			})
		})
	}
}
