package sim_test

import (
	"encoding/json"
	"flag"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"go.uber.org/goleak"

	"attend/internal/sim"
)

// The flags of a run: make sim SEEDS=n, and SEED=n for one that failed.
var (
	seeds = flag.Int("sim.seeds", 0, "how many seeds to run; 0 is 1,000, and fewer with the race detector")
	first = flag.Uint64("sim.first", 1, "the first of them")
	seed  = flag.Uint64("sim.seed", 0, "run this seed alone, and tell all of it")
)

func TestMain(m *testing.M) {
	flag.Parse()
	goleak.VerifyTestMain(m)
	os.Exit(m.Run())
}

// run runs a plan in a bubble of its own.
func run(t *testing.T, p *sim.Plan) (r *sim.Result) {
	t.Helper()
	synctest.Test(t, func(*testing.T) { r = sim.Run(p) })
	return r
}

func TestSeeds(t *testing.T) {
	if *seed != 0 {
		one(t, *seed)
		return
	}
	n := uint64(*seeds)
	if n == 0 {
		n = defaultSeeds
	}
	var next atomic.Uint64
	next.Store(*first)
	totals := make(chan sim.Totals, runtime.GOMAXPROCS(0))
	t.Run("worlds", func(t *testing.T) {
		for range runtime.GOMAXPROCS(0) {
			t.Run("", func(t *testing.T) {
				t.Parallel()
				var sum sim.Totals
				for s := next.Add(1) - 1; s < *first+n && !t.Failed(); s = next.Add(1) - 1 {
					r := run(t, sim.NewPlan(s))
					sum.Add(&r.Totals)
					fail(t, sim.NewPlan(s), r)
				}
				totals <- sum
			})
		}
	})
	close(totals)
	var sum sim.Totals
	for one := range totals {
		sum.Add(&one)
	}
	t.Logf("%d seeds: %+v", n, sum)
	if missing := sum.Missing(); len(missing) > 0 && n >= 100 && !t.Failed() {
		t.Errorf("in %d seeds there were no %s: the worlds prove nothing of them", n, strings.Join(missing, ", "))
	}
}

// fail tells what a run has found, and looks for the least that still does.
func fail(t *testing.T, p *sim.Plan, r *sim.Result) {
	t.Helper()
	if len(r.Findings) == 0 {
		return
	}
	least, lr := sim.Shrink(p, r, func(p *sim.Plan) *sim.Result { return run(t, p) })
	t.Errorf("seed %d: %s\nagain: make sim SEED=%d\n\nThe least that still fails, %d of %d ops and %d of %d faults:\n%s\n%s\n%s",
		p.Seed, strings.Join(r.Findings[:min(len(r.Findings), 5)], "\n"), p.Seed, len(least.Ops), len(p.Ops), len(lr.Faults), len(r.Faults), strings.Join(lr.Findings, "\n"), least, sim.History(least, lr))
}

// one runs a seed, tells its story, and whether it has failed.
func one(t *testing.T, seed uint64) {
	p := sim.NewPlan(seed)
	r := run(t, p)
	t.Logf("%s\nfaults %v\n%s\n%+v in %v", p, r.Faults, sim.History(p, r), r.Totals, r.Elapsed)
	fail(t, p, r)
}

// One seed is one run, to the byte: else a failure could not be told again.
func TestSeeds_AreTheSameTwice(t *testing.T) {
	for s := range uint64(repeatedSeeds) {
		s += 7000
		a, b := run(t, sim.NewPlan(s)), run(t, sim.NewPlan(s))
		left, right := encode(t, a), encode(t, b)
		if i := differ(left, right); i >= 0 {
			t.Fatalf("seed %d ran otherwise the second time, from record %d:\n%s\n%s", s, i+1, at(left, i), at(right, i))
		}
		if !slices.Equal(a.Faults, b.Faults) || a.Elapsed != b.Elapsed {
			t.Fatalf("seed %d: other faults the second time, or another time: %v and %v, %v and %v", s, a.Elapsed, b.Elapsed, a.Faults, b.Faults)
		}
	}
}

func encode(t *testing.T, r *sim.Result) []string {
	t.Helper()
	var out []string
	for i := range r.Log {
		b, err := json.Marshal(r.Log[i])
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, string(b))
	}
	return out
}

func differ(a, b []string) int {
	for i := range max(len(a), len(b)) {
		if at(a, i) != at(b, i) {
			return i
		}
	}
	return -1
}

func at(s []string, i int) string {
	if i < len(s) {
		return s[i]
	}
	return "nothing"
}
