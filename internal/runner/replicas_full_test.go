package runner_test

import (
	"testing"
	"testing/synctest"
	"time"

	"attend/internal/engine"
	"attend/internal/runner"
)

// A scope whose window is full while its judge is asked is full for every
// replica, whoever owns it and whoever took the events: each has folded them.
// None says so any longer once the judge has answered.
func TestReplicas_FullForAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st, scopes := cluster(t)
		small := func(s *engine.Settings) { s.MaxEvents = 2 }
		var all []*replica
		for _, name := range []string{"a", "b", "c"} {
			all = append(all, join(t, st, name, policy("script", kinds, small), runner.Options{Judge: slow(10*time.Second, engine.Queue)}))
		}
		settle()
		for i, s := range scopes {
			all[i%3].push(s, "ask") // the judge is asked for ten seconds
		}
		time.Sleep(time.Second)
		for i, s := range scopes {
			for range 20 { // ten times maxEvents
				all[(i+1)%3].push(s, "done")
			}
		}
		time.Sleep(time.Second)
		refused := func(want string) {
			t.Helper()
			for _, s := range scopes {
				for i, r := range all {
					if got := r.Refuses(s, engine.Closing); got != want {
						t.Errorf("%s, replica %d: refused for %q, want %q", s, i, got, want)
					}
					if got := r.Refuses(s, engine.Consequence); got != "" {
						t.Errorf("%s, replica %d: a consequence is refused for %q", s, i, got)
					}
				}
			}
		}
		refused("windowFull")
		time.Sleep(9 * time.Second)
		synctest.Wait()
		refused("") // what was open has settled and is with the judge now
	})
}
