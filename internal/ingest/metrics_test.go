package ingest

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"attend/internal/engine"
)

func TestMetrics(t *testing.T) {
	w := newWorld(t, func(w *world, _ *Options) {
		w.owner.refuse = func(scope string, _ engine.Kind) string {
			return map[string]string{"full": "windowFull"}[scope]
		}
	})
	w.send(t, line("1")+"\n"+line("1")+"\n{}\n{\"scope\":\"full\",\"name\":\"n\"}\n{\"scope\":\"s\",\"name\":\"other\",\"x\":1,\"y\":2}\n")
	w.send(t, line("1"), func(r *http.Request) { r.Header.Del("Content-Type") })
	want := `
# HELP attend_ingest_events_total Lines of ingested bodies by what became of them: accepted, duplicate, rejected for good, or retryable (refused for now).
# TYPE attend_ingest_events_total counter
attend_ingest_events_total{result="accepted"} 2
attend_ingest_events_total{result="duplicate"} 1
attend_ingest_events_total{result="rejected"} 1
attend_ingest_events_total{result="retryable"} 1
# HELP attend_ingest_unknown_fields_total Fields of ingested lines that attend does not know and ignored.
# TYPE attend_ingest_unknown_fields_total counter
attend_ingest_unknown_fields_total 2
# HELP attend_unmapped_events_total Committed events whose name no configured kind matches: they can never wake an agent.
# TYPE attend_unmapped_events_total counter
attend_unmapped_events_total 1
`
	if err := testutil.GatherAndCompare(w.reg, strings.NewReader(want), "attend_ingest_events_total", "attend_ingest_unknown_fields_total", "attend_unmapped_events_total"); err != nil {
		t.Error(err)
	}
	all, err := w.reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range all {
		if m.GetName() == "attend_ingest_request_duration_seconds" && m.GetMetric()[0].GetHistogram().GetSampleCount() != 2 {
			t.Errorf("%d requests were timed, want 2", m.GetMetric()[0].GetHistogram().GetSampleCount())
		}
	}
	problems, err := testutil.GatherAndLint(w.reg)
	if err != nil || len(problems) > 0 {
		t.Errorf("promlint: %v, %v", problems, err)
	}
}

// warned counts what was logged with this message.
func (w *world) warned(message string) int { return strings.Count(w.out.String(), message) }

func TestWarnings_OncePerName(t *testing.T) {
	const noKind, unknown = "no kind is set for this event name", "a field that attend does not know"
	w := newWorld(t)
	odd := `{"scope":"s","name":"odd","x":1,"x":2,"y":3}` + "\n"
	w.send(t, odd+odd)
	w.send(t, odd+`{"scope":"s","name":"odder","y":3}`)
	if got := w.warned(noKind); got != 2 {
		t.Errorf("%d warnings of names, want 2: %s", got, w.out)
	}
	if got := w.warned(unknown); got != 2 {
		t.Errorf("%d warnings of fields, want 2: %s", got, w.out)
	}
	if got := testutil.ToFloat64(w.metrics.unmapped); got != 4 {
		t.Errorf("%v unmapped events, want 4", got)
	}
	if got := testutil.ToFloat64(w.metrics.unknown); got != 10 {
		t.Errorf("%v unknown fields, want 10", got)
	}
}

// Names come from outside: memory for them is bounded, and so is the log.
func TestWarnings_AreBounded(t *testing.T) {
	var b strings.Builder
	for i := range 3 * maxOnce {
		fmt.Fprintf(&b, `{"scope":"s","name":"n%d","f%d":1}`+"\n", i, i)
	}
	w := newWorld(t)
	w.send(t, b.String())
	w.send(t, b.String())
	for message, want := range map[string]int{
		"no kind is set for this event name": maxOnce, "more event names without a kind": 1,
		"a field that attend does not know": maxOnce, "more unknown fields": 1,
	} {
		if got := w.warned(message); got != want {
			t.Errorf("%q: %d times, want %d", message, got, want)
		}
	}
	if w.unmappedNames.seen != nil || w.unknownFields.seen != nil {
		t.Error("names are kept that are no longer needed")
	}

	// One line with more unknown fields than are looked at.
	b.Reset()
	b.WriteString(`{"scope":"s","name":"n"`)
	for i := range 2 * maxUnknown {
		fmt.Fprintf(&b, `,"g%d":1`, i)
	}
	b.WriteString("}")
	w = newWorld(t)
	w.send(t, b.String())
	if got := w.warned("a field that attend does not know"); got != maxUnknown {
		t.Errorf("%d warnings, want %d", got, maxUnknown)
	}
	if got := testutil.ToFloat64(w.metrics.unknown); got != 2*maxUnknown {
		t.Errorf("%v unknown fields, want %d", got, 2*maxUnknown)
	}
}

func TestInterned_IsBounded(t *testing.T) {
	m := make(interned)
	for i := range 3 * maxInterned {
		name := fmt.Sprint(i)
		if got := m.string([]byte(name)); got != name {
			t.Fatalf("%q for %q", got, name)
		}
		if len(m) > maxInterned {
			t.Fatalf("%d names are kept", len(m))
		}
	}
}
