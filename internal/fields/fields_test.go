package fields_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"attend/internal/field"
	"attend/internal/fields"
	"attend/internal/store"
	"attend/internal/store/memory"
)

// tester is what tests and rapid's checks have in common.
type tester interface {
	Helper()
	Fatal(args ...any)
	Fatalf(format string, args ...any)
	Errorf(format string, args ...any)
}

// open returns a service on a store; with changes its options.
func open(t tester, st fields.Store, with ...func(*fields.Options)) *fields.Service {
	t.Helper()
	opt := fields.Options{Store: st, Settings: field.DefaultSettings(), Logger: slog.New(slog.DiscardHandler)}
	for _, w := range with {
		w(&opt)
	}
	s, err := fields.New(opt)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func shared(o *fields.Options) { o.Shared = true }

// params writes parameters: keys and values in turn.
func params(pairs ...any) json.RawMessage {
	m := make(map[string]any)
	for i := 0; i < len(pairs); i += 2 {
		m[pairs[i].(string)] = pairs[i+1]
	}
	b, err := json.Marshal(m)
	if err != nil {
		panic(err)
	}
	return b
}

// note writes an entry's parameters.
func note(agent, topic string, pairs ...any) json.RawMessage {
	entry := params(append([]any{"topic", topic}, pairs...)...)
	return params("agent", agent, "entry", entry, "intent", "so that the others know")
}

// do carries out an operation that must succeed.
func do[T any](t tester, s *fields.Service, name string, op field.Op, p json.RawMessage) T {
	t.Helper()
	got, err := s.Do(context.Background(), name, op, p)
	if err != nil {
		t.Fatalf("%s %s: %v", op, p, err)
	}
	result, ok := got.(T)
	if !ok {
		t.Fatalf("%s answers %T", op, got)
	}
	return result
}

// all is everything that a Field has, as JSON: its entries with the drafts of
// an agent, and what that agent is given.
func all(t tester, s *fields.Service, name, agent string) string {
	t.Helper()
	b, err := json.MarshalIndent([]any{
		do[field.Page](t, s, name, field.OpRead, params("caller", agent, "limit", 10000)),
		do[field.Reckoned](t, s, name, field.OpReckon, params("agent", agent)),
	}, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestService_AnswersByName(t *testing.T) {
	s := open(t, memory.New(memory.Options{}))
	defer s.Close()
	do[field.Registered](t, s, "", field.OpRegister, params("id", "gull", "role", "pilot"))
	first := do[field.Written](t, s, "", field.OpWrite, note("gull", "tide", "height", 4))
	do[field.Written](t, s, "other", field.OpWrite, note("gull", "tide", "height", 5))

	got := do[field.Attuned](t, s, "default", field.OpAttune, params("agent", "kelp", "topic", "tide"))
	if len(got.Entries) != 1 || got.Entries[0].ID != first.ID || got.Epoch != 1 {
		t.Errorf("attune gives %+v, want the one entry %s at epoch 1", got, first.ID)
	}
	names, err := s.Names(t.Context())
	if diff := cmp.Diff([]string{"default", "other"}, names); err != nil || diff != "" {
		t.Errorf("names: %v\n%s", err, diff)
	}
}

func TestService_ReadingMakesNothing(t *testing.T) {
	st := memory.New(memory.Options{})
	s := open(t, st)
	defer s.Close()
	got := do[field.Attuned](t, s, "nowhere", field.OpAttune, params("agent", "kelp"))
	if len(got.Entries) != 0 {
		t.Errorf("a Field that does not exist gives %v", got.Entries)
	}
	do[field.Done](t, s, "nowhere", field.OpDeregister, params("id", "kelp"))
	if names, err := s.Names(t.Context()); err != nil || len(names) != 0 {
		t.Errorf("names are %q, %v after reading: want none", names, err)
	}
}

func TestService_Refuses(t *testing.T) {
	s := open(t, memory.New(memory.Options{}))
	defer s.Close()
	for _, c := range []struct {
		name   string
		op     field.Op
		params json.RawMessage
		code   string
	}{
		{"", field.OpAttune, params(), field.AgentRequired},
		{"", field.OpWrite, params("entry", 1), field.InvalidEntry},
		{"", field.OpCommit, params("draft_id", "x"), field.DraftNotFound},
		{strings.Repeat("n", 129), field.OpAttune, params("agent", "a"), field.InvalidQuery},
		{"a\nb", field.OpWrite, note("a", "b"), field.InvalidEntry},
		{"a\xff", field.OpRead, params(), field.InvalidQuery},
		{"", field.OpWrite, note("a", "b", "c", strings.Repeat("x", 600<<10)), field.InvalidEntry},
	} {
		_, err := s.Do(t.Context(), c.name, c.op, c.params)
		var refused *field.Error
		if !errors.As(err, &refused) || refused.Code != c.code {
			t.Errorf("%s in %.20q: error %v, want code %s", c.op, c.name, err, c.code)
		}
	}
	if _, err := s.Do(t.Context(), "", "merge", nil); !errors.Is(err, fields.ErrUnknownOperation) {
		t.Errorf("an operation that there is not: %v", err)
	}
	if names, err := s.Names(t.Context()); err != nil || len(names) != 0 {
		t.Errorf("what was refused made the Fields %q, %v", names, err)
	}
}

func TestService_RestartGivesTheSameAnswers(t *testing.T) {
	st := memory.New(memory.Options{})
	s := open(t, st)
	do[field.Registered](t, s, "", field.OpRegister, params("id", "gull", "role", "pilot"))
	old := do[field.Written](t, s, "", field.OpWrite, note("gull", "tide", "height", 4))
	do[field.Written](t, s, "", field.OpWrite, note("kelp", "tide", "height", 5))
	do[field.Written](t, s, "", field.OpSupersede, params("superseding_id", old.ID, "agent", "gull", "intent", "measured once more", "entry", params("topic", "tide", "height", 6)))
	draft := do[field.Drafted](t, s, "", field.OpDraft, note("mara", "tide", "height", 7))
	before := all(t, s, "", "mara")
	s.Close()

	s = open(t, st)
	defer s.Close()
	if diff := cmp.Diff(before, all(t, s, "", "mara")); diff != "" {
		t.Errorf("after a restart (-before +after):\n%s", diff)
	}
	if got := do[field.Written](t, s, "", field.OpCommit, params("draft_id", draft.DraftID)); got.ID != draft.DraftID {
		t.Errorf("the draft was committed as %s", got.ID)
	}
}

func TestService_LongLogIsReadInPages(t *testing.T) {
	st := memory.New(memory.Options{})
	s := open(t, st)
	for i := range 1200 {
		do[field.Written](t, s, "", field.OpWrite, note("gull", fmt.Sprint(i%7), "i", i))
	}
	before := all(t, s, "", "mara")
	s.Close()
	s = open(t, st)
	defer s.Close()
	if after := all(t, s, "", "mara"); before != after {
		t.Errorf("1,200 changes read again give other answers:\n%s", cmp.Diff(before, after))
	}
}

func TestService_RefusesANewerFormat(t *testing.T) {
	st := memory.New(memory.Options{})
	append1(t, st, &store.FieldAppend{Name: "default", Changes: []store.FieldChange{{Format: field.Format + 1, Body: []byte("{}")}}})
	s := open(t, st)
	defer s.Close()
	_, err := s.Do(t.Context(), "", field.OpRead, params())
	if err == nil || !strings.Contains(err.Error(), "change 1") || !strings.Contains(err.Error(), "format 2") {
		t.Errorf("a change of a newer format: %v", err)
	}
}

func append1(t tester, st *memory.Store, a *store.FieldAppend) {
	t.Helper()
	receipts, err := st.Append(context.Background(), store.Entry{Field: a})
	if err == nil {
		err = receipts[0].Err
	}
	if err != nil {
		t.Fatal(err)
	}
}

func TestService_ClosedRefuses(t *testing.T) {
	s := open(t, memory.New(memory.Options{}))
	sub, err := s.Subscribe(t.Context(), field.OpAttune, "", params("agent", "kelp"))
	if err != nil {
		t.Fatal(err)
	}
	seen, err := sub.Look(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error)
	go func() {
		_, err := sub.Next(context.Background(), seen.Mark)
		ended <- err
	}()
	s.Close()
	s.Close()
	if err := <-ended; !errors.Is(err, fields.ErrStopping) {
		t.Errorf("Next ends with %v", err)
	}
	sub.Close()
	for _, op := range []field.Op{field.OpWrite, field.OpRead} {
		if _, err := s.Do(t.Context(), "", op, note("a", "b")); !errors.Is(err, fields.ErrStopping) {
			t.Errorf("%s after Close: %v", op, err)
		}
	}
	if _, err := s.Subscribe(t.Context(), field.OpAttune, "", params("agent", "kelp")); !errors.Is(err, fields.ErrStopping) {
		t.Errorf("Subscribe after Close: %v", err)
	}
}
