package field_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"attend/internal/field"
)

// What becomes of entries: ids are e1, e2, ... and the clock moves a
// millisecond an operation, from 1001.

func TestLifecycle_Drafts(t *testing.T) {
	t.Parallel()
	w := newWorld(t, referenceMode)
	d := w.draft("mara", `{"n":1}`)
	w.write("kelp", `{"n":2}`, intent20)
	equal(t, "others", listed(w.read(`{}`)), "e2:committed:1")
	equal(t, "the author", listed(w.read(`{"caller":"mara"}`)), "e2:committed:1 e1:draft:0")
	equal(t, "another caller", listed(w.read(`{"caller":"kelp"}`)), "e2:committed:1")

	got := w.do(field.OpCommit, `{"draft_id":%q}`, d)
	if diff := cmp.Diff(field.Written{ID: d, Epoch: 2, Timestamp: w.now}, got); diff != "" {
		t.Errorf("commit (-want +got):\n%s", diff)
	}
	equal(t, "after the commit", listed(w.read(`{"caller":"mara"}`)), "e2:committed:1 e1:committed:2")
	equal(t, "a second commit", w.code(field.OpCommit, `{"draft_id":"e1"}`), field.DraftNotFound)
	equal(t, "the author", ids(w.attune(`{"agent":"mara"}`)), "e2")
	equal(t, "the other", ids(w.attune(`{"agent":"kelp"}`)), "e1")
	if e, _ := w.state.Entry(d); e.Timestamp != 1006 || e.Intent != intent20 || string(e.Entry) != `{"n":1}` {
		t.Errorf("the entry is %+v: want the time of its commit, and else what was drafted", e)
	}
}

func TestLifecycle_DraftOfNobody(t *testing.T) {
	t.Parallel()
	w := newWorld(t, referenceMode)
	w.do(field.OpDraft, `{"entry":{},"intent":%q}`, intent20)
	equal(t, "read", listed(w.read(`{"caller":"mara"}`)), "")
	equal(t, "read by nobody", listed(w.read(`{"caller":""}`)), "")
	equal(t, "attune", ids(w.attune(`{"agent":"mara"}`)), "")
	w.do(field.OpCommit, `{"draft_id":"e1"}`)
	equal(t, "committed", listed(w.read(`{}`)), "e1:committed:1")
}

func TestLifecycle_DraftOutlivesItsSession(t *testing.T) {
	t.Parallel()
	w := newWorld(t, referenceMode)
	w.register("mara", "pilot")
	w.draft("mara", `{}`)
	w.do(field.OpDeregister, `{"id":"mara"}`)
	equal(t, "attune", ids(w.attune(`{"agent":"mara"}`)), "e1")
	w.do(field.OpCommit, `{"draft_id":"e1"}`)
}

func TestLifecycle_Discard(t *testing.T) {
	t.Parallel()
	w := newWorld(t, referenceMode)
	w.draft("mara", `{"n":1}`)
	w.write("kelp", `{}`, intent20)
	if got := w.do(field.OpDiscard, `{"draft_id":"e1","intent":"came to nothing","agent":"someone else"}`); got != (field.Done{}) {
		t.Errorf("discard answers %v", got)
	}
	equal(t, "read", listed(w.read(`{"caller":"mara"}`)), "e2:committed:1 e1:retracted:0")
	e, _ := w.state.Entry("e1")
	want := field.Entry{
		ID: "e1", Timestamp: 1001, Epoch: 0, Agent: "mara", Status: field.StatusRetracted,
		Entry: json.RawMessage(`{"n":1}`), Intent: "came to nothing", RetractedAt: 1003,
	}
	if diff := cmp.Diff(want, e); diff != "" {
		t.Errorf("the entry (-want +got):\n%s", diff)
	}
	equal(t, "no epoch used", listed(w.read(`{"caller":"mara"}`)), "e2:committed:1 e1:retracted:0")
	w.write("kelp", `{}`, intent20)
	equal(t, "the next epoch", listed(w.read(`{"after":"e1"}`)), "e3:committed:2")
	for _, op := range []field.Op{field.OpCommit, field.OpDiscard} {
		equal(t, string(op)+" again", w.code(op, `{"draft_id":"e1","intent":"came to nothing"}`), field.DraftNotFound)
	}
	equal(t, "superseding it", w.code(field.OpSupersede, `{"superseding_id":"e1","entry":{},"agent":"mara","intent":"0123456789"}`), field.EntryNotFound)
}

func TestLifecycle_Retract(t *testing.T) {
	t.Parallel()
	w := newWorld(t, referenceMode)
	w.write("kelp", `{}`, intent20)
	by := func(agent string) string { return fmt.Sprintf(`{"id":"e1","agent":%q,"intent":"it was wrong"}`, agent) }
	equal(t, "another", w.code(field.OpRetract, by("gull")), field.RetractNotAuthorized)
	equal(t, "the author", w.code(field.OpRetract, by("kelp")), "")
	number := w.state.Number()
	equal(t, "the author again", w.code(field.OpRetract, by("kelp")), "")
	if w.state.Number() != number {
		t.Error("a second retract is a change")
	}
	equal(t, "another again", w.code(field.OpRetract, by("gull")), field.RetractNotAuthorized)
	want := field.Entry{
		ID: "e1", Timestamp: 1001, Epoch: 0, Agent: "kelp", Status: field.StatusRetracted, Entry: json.RawMessage(`{}`),
		Intent: intent20, RetractIntent: "it was wrong", RetractedAt: 1003,
	}
	got, _ := w.state.Entry("e1")
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the entry (-want +got):\n%s", diff)
	}
	w.write("kelp", `{}`, intent20)
	equal(t, "the next epoch", listed(w.read(`{}`)), "e1:retracted:0 e2:committed:2")

	w.do(field.OpWrite, `{"entry":{},"intent":%q}`, intent20)
	equal(t, "what nobody wrote", w.code(field.OpRetract, `{"id":"e3","agent":"kelp","intent":"it was wrong"}`), field.RetractNotAuthorized)
}

func TestLifecycle_Supersede(t *testing.T) {
	t.Parallel()
	w := newWorld(t, referenceMode)
	supersede := func(id, by string) string {
		return fmt.Sprintf(`{"superseding_id":%q,"entry":{"by":%q},"agent":%q,"intent":"it is better known"}`, id, by, by)
	}
	w.write("kelp", `{}`, intent20)
	got := w.do(field.OpSupersede, "%s", supersede("e1", "gull"))
	if diff := cmp.Diff(field.Written{ID: "e2", Epoch: 1, Timestamp: w.now}, got); diff != "" {
		t.Errorf("supersede (-want +got):\n%s", diff)
	}
	w.do(field.OpSupersede, "%s", supersede("e1", "mara")) // e2 is the last of the chain
	equal(t, "read", listed(w.read(`{}`)), "e1:superseded:0 e2:superseded:1 e3:committed:2")
	var links []string
	for _, e := range w.read(`{}`).Entries {
		links = append(links, e.Supersedes+">"+e.ID+">"+e.SupersededBy)
	}
	if diff := cmp.Diff([]string{">e1>e2", "e1>e2>e3", "e2>e3>"}, links); diff != "" {
		t.Errorf("links (-want +got):\n%s", diff)
	}
	equal(t, "its author retracts what is superseded", w.code(field.OpRetract, `{"id":"e1","agent":"kelp","intent":"it was wrong"}`), "")
	equal(t, "nothing changes", listed(w.read(`{"limit":1}`)), "e1:superseded:0 more")

	w.do(field.OpRetract, `{"id":"e3","agent":"mara","intent":"it was wrong"}`)
	for _, id := range []string{"e1", "e2", "e3"} {
		equal(t, "the chain is dead: "+id, w.code(field.OpSupersede, supersede(id, "gull")), field.EntryNotFound)
	}
	equal(t, "read", listed(w.read(`{}`)), "e1:superseded:0 e2:superseded:1 e3:retracted:2")
}

// Only what makes or ends an entry takes an epoch.
func TestLifecycle_Epochs(t *testing.T) {
	t.Parallel()
	w := newWorld(t, referenceMode)
	for _, c := range []struct {
		op     field.Op
		params string
		takes  int64
	}{
		{field.OpRegister, `{"id":"kelp","role":"pilot"}`, 0},
		{field.OpWrite, `{"entry":{},"intent":"0123456789","agent":"kelp"}`, 1},
		{field.OpDraft, `{"entry":{},"intent":"0123456789","agent":"kelp"}`, 1},
		{field.OpCommit, `{"draft_id":"e2"}`, 1},
		{field.OpDraft, `{"entry":{},"intent":"0123456789","agent":"kelp"}`, 1},
		{field.OpDiscard, `{"draft_id":"e3","intent":"0123456789"}`, 0},
		{field.OpRetract, `{"id":"e2","agent":"kelp","intent":"0123456789"}`, 1},
		{field.OpRetract, `{"id":"e2","agent":"kelp","intent":"0123456789"}`, 0},
		{field.OpSupersede, `{"superseding_id":"e1","agent":"kelp","entry":{},"intent":"0123456789"}`, 1},
		{field.OpRead, `{}`, 0},
		{field.OpAttune, `{"agent":"mara"}`, 0},
		{field.OpReckon, `{"agent":"mara"}`, 0},
		{field.OpDeregister, `{"id":"kelp"}`, 0},
		{field.OpDeregister, `{"id":"kelp"}`, 0},
	} {
		before := w.state.Epoch()
		w.do(c.op, "%s", c.params)
		if took := w.state.Epoch() - before; took != c.takes {
			t.Errorf("%s takes %d epochs, want %d", c.op, took, c.takes)
		}
	}
}

// Timestamps do not fall, whatever the clock does.
func TestLifecycle_TimeDoesNotFall(t *testing.T) {
	t.Parallel()
	w := newWorld(t, referenceMode)
	w.write("kelp", `{}`, intent20)
	w.now = 10
	w.write("kelp", `{}`, intent20)
	e, _ := w.state.Entry("e2")
	if at := w.state.ChangedAt(); at != 1001 {
		t.Errorf("the last change is of %d", at)
	}
	if e.Timestamp != 1001 {
		t.Errorf("timestamp %d: want that of the entry before", e.Timestamp)
	}
}

// What comes out is a copy, and so is what goes in.
func TestLifecycle_Copies(t *testing.T) {
	t.Parallel()
	w := newWorld(t, referenceMode)
	params := []byte(`{"entry":{"n":1},"intent":"0123456789","agent":"kelp"}`)
	d, err := w.state.Decide(field.OpWrite, params, w.set, field.Draw{ID: "e1"})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.state.Apply(d.Change); err != nil {
		t.Fatal(err)
	}
	clear(params)
	clear(d.Change.Entry)
	clear(w.attune(`{"agent":"mara"}`)[0].Entry.Entry)
	clear(w.read(`{}`).Entries[0].Entry)
	equal(t, "the entry", string(w.read(`{}`).Entries[0].Entry), `{"n":1}`)
}

// Several writes may be decided before the first is applied.
func TestDecide_Pending(t *testing.T) {
	t.Parallel()
	s := field.NewState()
	var log []*field.Change
	for i := range 3 {
		op := field.OpWrite
		if i == 1 {
			op = field.OpDraft
		}
		d, err := s.Decide(op, json.RawMessage(`{"entry":{},"intent":"0123456789"}`), gradedMode, field.Draw{Now: 5, ID: fmt.Sprint(i), Pending: i})
		if err != nil {
			t.Fatal(err)
		}
		log = append(log, d.Change)
	}
	for i, c := range log {
		if err := s.Apply(c); err != nil || c.Epoch != int64(i) {
			t.Errorf("change %d has epoch %d: %v", i, c.Epoch, err)
		}
	}
}
