package store_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"attend/internal/engine"
	"attend/internal/store"
)

// TestClock_RunsOnWhenTheWallClockIsBehind starts a clock at a stamp that the
// wall clock has yet to reach.
func TestClock_RunsOnWhenTheWallClockIsBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ahead := engine.Time(time.Now().Add(time.Hour).UnixMilli())
		c := store.NewClock(nil, ahead)
		for i := range engine.Time(5) {
			if got := c.Stamp(); got != ahead+1000*i {
				t.Errorf("after %d s: %d, want %d", i, got-ahead, 1000*i)
			}
			time.Sleep(time.Second)
		}
		time.Sleep(2 * time.Hour) // its lead stays: it never stood still
		if got := c.Stamp(); got != ahead+engine.Time((2*time.Hour+5*time.Second).Milliseconds()) {
			t.Errorf("after two hours: %d", got-ahead)
		}
	})
}

func TestClock_NeverFallsAndKeepsItsLead(t *testing.T) {
	at := time.UnixMilli(1000)
	c := store.NewClock(func() time.Time { return at }, 0)
	for _, step := range []struct{ wall, want int64 }{
		{1000, 1000}, {1500, 1500}, {200, 1500}, {250, 1550}, {9000, 10_300}, {20_000, 21_300}, {90_000, 91_300},
	} {
		at = time.UnixMilli(step.wall)
		if got := int64(c.Stamp()); got != step.want {
			t.Errorf("wall clock %d: %d, want %d", step.wall, got, step.want)
		}
	}
}

func TestEntry_Check(t *testing.T) {
	fence := store.Fence{Shard: -1, Token: 1}
	event := store.NewEvent{Scope: "a", Event: engine.Event{ID: "1", Name: "n"}}
	field := func(name string, after int64, changes ...store.FieldChange) store.Entry {
		return store.Entry{Field: &store.FieldAppend{Name: name, After: after, Changes: changes}}
	}
	change := store.FieldChange{Format: 1, Body: []byte("{}")}
	for name, c := range map[string]struct {
		entry store.Entry
		ok    bool
	}{
		"Empty":                   {store.Entry{}, true},
		"Event":                   {store.Entry{Events: []store.NewEvent{event}}, true},
		"EventWithoutScope":       {store.Entry{Events: []store.NewEvent{event, {}}}, false},
		"StepOfAnyone":            {store.Entry{Steps: []engine.Step{{Kind: engine.StepFlush}}, Scope: "a"}, true},
		"StepOfEveryScope":        {store.Entry{Steps: []engine.Step{{Kind: engine.StepPolicy}}}, true},
		"StepWithoutKind":         {store.Entry{Steps: []engine.Step{{}}, Fence: fence}, false},
		"OwnersStepWithoutFence":  {store.Entry{Steps: []engine.Step{{Kind: engine.StepCall}}, Scope: "a"}, false},
		"OwnersStepUnderAFence":   {store.Entry{Steps: []engine.Step{{Kind: engine.StepCall}}, Scope: "a", Fence: fence}, true},
		"RowWithoutSpace":         {store.Entry{Puts: []store.Put{{Key: "k"}}}, false},
		"RowWithoutKeyIsOneAlone": {store.Entry{Puts: []store.Put{{Space: "x"}}}, true},
		"Change":                  {field("f", 0, change), true},
		"ChangesAfterOthers":      {field("f", 7, change, store.FieldChange{Number: 9, Format: 2, Body: []byte("1")}), true},
		"ChangeOfNoField":         {field("", 0, change), false},
		"ChangeAfterLessThanNone": {field("f", -1, change), false},
		"NoChange":                {field("f", 0), false},
		"ChangeOfAnotherNumber":   {field("f", 7, change, store.FieldChange{Number: 8, Format: 1, Body: []byte("1")}), false},
		"ChangeOfNoFormat":        {field("f", 0, change, store.FieldChange{Body: []byte("1")}), false},
		"ChangeWithoutBody":       {field("f", 0, change, store.FieldChange{Format: 1}), false},
	} {
		err := c.entry.Check()
		if (err == nil) != c.ok || (err != nil && !errors.Is(err, store.ErrInvalid)) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestStepQuery_Matches(t *testing.T) {
	decision := engine.Record{Position: 5, Scope: "a", Step: &engine.Step{Kind: engine.StepDecision, Window: "w", ID: "w"}}
	event := engine.Record{Position: 5, Scope: "a", Event: &engine.Event{}}
	for _, c := range []struct {
		q    store.StepQuery
		want bool
	}{
		{store.StepQuery{}, true},
		{store.StepQuery{After: 4}, true},
		{store.StepQuery{After: 5}, false},
		{store.StepQuery{Kinds: []engine.StepKind{engine.StepFlush, engine.StepDecision}}, true},
		{store.StepQuery{Kinds: []engine.StepKind{engine.StepFlush}}, false},
		{store.StepQuery{Scope: "a", Window: "w", ID: "w"}, true},
		{store.StepQuery{Scope: "b"}, false},
		{store.StepQuery{Window: "v"}, false},
		{store.StepQuery{ID: "v"}, false},
	} {
		if got := c.q.Matches(&decision); got != c.want {
			t.Errorf("%+v: %t", c.q, got)
		}
		if c.q.Matches(&event) {
			t.Errorf("%+v selects an event", c.q)
		}
	}
}
