package fields_test

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"attend/internal/field"
	"attend/internal/fields"
	"attend/internal/store/memory"
	"attend/internal/store/storetest"
)

func TestMetrics(t *testing.T) {
	r := prometheus.NewRegistry()
	registered := func(o *fields.Options) { o.Registerer = r }
	faulty := storetest.Faulty(memory.New(memory.Options{}), storetest.Fault{N: 2, Ops: []storetest.Op{storetest.OpAppend}})
	s := open(t, faulty, registered)
	defer s.Close()

	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for _, c := range []struct {
		ctx    context.Context
		op     field.Op
		params []byte
		result string
	}{
		{ended, field.OpRetract, params(), "canceled"},
		{t.Context(), field.OpWrite, note("gull", "tide"), "ok"},
		{t.Context(), field.OpWrite, note("gull", "tide"), "unknown"},
		{t.Context(), field.OpCommit, params("draft_id", "none"), "refused"},
		{t.Context(), field.OpRead, params(), "ok"},
	} {
		_, err := s.Do(c.ctx, "", c.op, c.params)
		if n := counted(t, r, "attend_field_operations_total", "op", string(c.op), "result", c.result); n != 1 {
			t.Errorf("%s that ends with %v is not counted as %s", c.op, err, c.result)
		}
	}
	if _, err := s.Do(t.Context(), "", "merge", nil); err == nil {
		t.Error("there is no merge")
	}
	if n := counted(t, r, "attend_fields_loaded"); n != 1 {
		t.Errorf("%v Fields are in memory, want 1", n)
	}
	sub := subscribe(t, s, field.OpAttune, params("agent", "kelp"))
	if _, ok := next(t, sub, fields.Mark{}); !ok || counted(t, r, "attend_field_pushes_total") != 1 {
		t.Error("a push is not counted")
	}
	sub.Close()
	sub.Close()
	if n := counted(t, r, "attend_field_subscriptions"); n != 0 {
		t.Errorf("%v subscriptions are open, want none", n)
	}
	problems, err := testutil.GatherAndLint(r)
	if err != nil || len(problems) > 0 {
		t.Errorf("promlint: %v, %v", problems, err)
	}
	var already prometheus.AlreadyRegisteredError
	if _, err := fields.New(fields.Options{Registerer: r}); !errors.As(err, &already) {
		t.Errorf("a second service on one registerer: %v", err)
	}
}

// Where intents have no minimum the operator is told so, once for each Field, by
// the first write that passes.
func TestService_WarnsOfNoMinimum(t *testing.T) {
	for least, want := range map[int]int{0: 2, -1: 0, 1: 0} { //arch:sorted each by itself
		var log strings.Builder
		s := open(t, memory.New(memory.Options{}), func(o *fields.Options) {
			o.Settings.MinIntent, o.Logger = least, slog.New(slog.NewTextHandler(&log, nil))
		})
		do[field.Drafted](t, s, "", field.OpDraft, note("gull", "tide"))
		if _, err := s.Do(t.Context(), "", field.OpWrite, json.RawMessage(`{"entry":{}}`)); err == nil {
			t.Error("a write without an intent passes")
		}
		if log.Len() > 0 {
			t.Errorf("minimum %d: before a write that passes it says %s", least, &log)
		}
		for _, name := range []string{"", "default", "other", "other"} {
			do[field.Written](t, s, name, field.OpWrite, note("gull", "tide"))
		}
		s.Close()
		if n := strings.Count(log.String(), "level=WARN"); n != want {
			t.Errorf("minimum %d: %d warnings, want %d:\n%s", least, n, want, &log)
		}
	}
}
