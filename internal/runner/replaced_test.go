package runner_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"attend/internal/engine"
	"attend/internal/runner"
	"attend/internal/store"
)

// putBack is a link to a store that is put back to an earlier moment, or
// replaced by another.
type putBack struct {
	*link
	back  engine.Position // by how much its log ends earlier
	epoch string          // "" for that of before
}

func (p *putBack) Head(ctx context.Context) (store.Head, error) {
	h, err := p.link.Head(ctx)
	p.set(func() {
		h.Position -= p.back
		if p.epoch != "" {
			h.Epoch = p.epoch
		}
	})
	return h, err
}

func (p *putBack) Claim(ctx context.Context, replica string, ttl time.Duration) (store.Claimed, error) {
	c, err := p.link.Claim(ctx, replica, ttl)
	p.set(func() { c.Head -= p.back })
	return c, err
}

func (p *putBack) Append(ctx context.Context, e ...store.Entry) ([]store.Receipt, error) {
	receipts, err := p.link.Append(ctx, e...)
	p.set(func() {
		for i := range receipts {
			receipts[i].First, receipts[i].Last = receipts[i].First-p.back, receipts[i].Last-p.back
		}
	})
	return receipts, err
}

func TestReplaced_EndsTheLoop(t *testing.T) {
	for name, replace := range map[string]func(p *putBack){
		"Earlier": func(p *putBack) { p.back = 3 },
		"Another": func(p *putBack) { p.epoch = "ANOTHER" },
		"ByAppend": func(p *putBack) { // the claims do not tell
			p.noLease, p.back = true, 3
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				st, scopes := cluster(t)
				var through *putBack
				r := join(t, st, "a", policy("rule", kinds), runner.Options{CheckpointInterval: time.Hour}, func(l *link) store.Store {
					through = &putBack{link: l}
					return through
				})
				settle()
				r.push(scopes[0], "done") // due in two seconds: a claim comes before
				synctest.Wait()
				before, saves := r.written(), r.saves
				r.set(func() { replace(through) })
				time.Sleep(5 * time.Second)
				synctest.Wait()
				select {
				case err := <-r.world.ended:
					r.ended = true
					if !errors.Is(err, store.ErrReplaced) {
						t.Errorf("it ended with %v, want replaced", err)
					}
				default:
					t.Fatal("it goes on")
				}
				most := 0
				if name == "ByAppend" {
					most = 1 // by which it is known
				}
				if n := r.written() - before; n > most || r.saves != saves {
					t.Errorf("it wrote %d entries and %d states", n, r.saves-saves)
				}
			})
		})
	}
}
