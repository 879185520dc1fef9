package postgres

import (
	"testing"
	"testing/synctest"
	"time"
)

func TestClock_FollowsTheDatabasesAndNeverFalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClock()
		at := func(s float64) time.Duration {
			return 1_760_000_000*time.Second + time.Duration(s*float64(time.Second))
		}
		shows := func(s float64) {
			t.Helper()
			if got := time.Duration(c.read().UnixNano()); got != at(s) {
				t.Errorf("it shows %s, want %s", got-at(0), at(s)-at(0))
			}
		}
		c.observe(at(0))
		shows(0)
		time.Sleep(10 * time.Second) // it runs on by itself
		shows(10)
		c.observe(at(10.2)) // the database's runs faster
		shows(10.2)
		time.Sleep(time.Second)
		shows(11.2)
		c.observe(at(11)) // and slower: the estimate waits for it
		shows(11.2)
		time.Sleep(time.Second)
		shows(12)
		c.observe(at(5)) // set back: the estimate goes on
		shows(12)
		time.Sleep(time.Second)
		c.observe(at(6))
		shows(13)
		c.observe(at(40)) // set forwards
		shows(40)
	})
}
