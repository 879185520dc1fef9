package app

import (
	"encoding/json"
	"log/slog"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"attend/internal/config"
	"attend/internal/field"
	"attend/internal/fields"
	"attend/internal/store/memory"
)

func newFields(t *testing.T) *fields.Service {
	t.Helper()
	st := memory.New(memory.Options{})
	service, err := fields.New(fields.Options{
		Store: st, Settings: field.DefaultSettings(), Logger: slog.New(slog.DiscardHandler), Registerer: prometheus.NewRegistry(),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		service.Close()
		_ = st.Close()
	})
	return service
}

func writeField(t *testing.T, service *fields.Service, entry string) {
	t.Helper()
	params := `{"agent":"kelp","intent":"what the status page says","entry":` + entry + `}`
	if _, err := service.Do(t.Context(), "ops", field.OpWrite, json.RawMessage(params)); err != nil {
		t.Fatal(err)
	}
}

func facts(t *testing.T, service *fields.Service, ask config.Attune) (got fieldFacts) {
	t.Helper()
	b, err := attuneFacts(func() *fields.Service { return service }, &ask)(t.Context(), "any")
	if err != nil {
		t.Fatal(err)
	}
	if len(b) > 64<<10 {
		t.Errorf("the facts have %d bytes", len(b))
	}
	if err := json.Unmarshal(b, &got); err != nil {
		t.Fatal(err)
	}
	return got
}

func TestFacts_AreWhatTheFieldHoldsForTheAgent(t *testing.T) {
	service := newFields(t)
	writeField(t, service, `{"topic":"outage","region":"eu"}`)
	writeField(t, service, `{"topic":"weather","rain":true}`)
	got := facts(t, service, config.Attune{Field: "ops", Agent: "judge", Topic: "outage", MaxUnits: 1})
	if len(got.Field.Entries) != 1 {
		t.Fatalf("%d entries, want the most relevant one", len(got.Field.Entries))
	}
	e := got.Field.Entries[0]
	if diff := cmp.Diff(`{"topic":"outage","region":"eu"}`, string(e.Entry)); diff != "" || e.Agent != "kelp" || e.Score < 0.6 || !strings.HasPrefix(e.Why, "topic match") {
		t.Errorf("got %+v", e)
	}
	if got := facts(t, service, config.Attune{Field: "ops", Agent: "kelp", MaxUnits: 20}); len(got.Field.Entries) != 0 {
		t.Error("an agent is shown its own entries")
	}
	if got := facts(t, service, config.Attune{Field: "none", Agent: "judge", MaxUnits: 20}); got.Field.Entries == nil || len(got.Field.Entries) != 0 {
		t.Errorf("a Field that is not: %+v", got)
	}
}

func TestFacts_AreCutWithACount(t *testing.T) {
	service := newFields(t)
	for range 5 {
		writeField(t, service, `{"topic":"outage","log":"`+strings.Repeat("x", 20<<10)+`"}`)
	}
	writeField(t, service, `{"topic":"weather","rain":true}`)
	got := facts(t, service, config.Attune{Field: "ops", Agent: "judge", Topic: "outage", MaxUnits: 20})
	if len(got.Field.Entries) != 3 || got.Field.Cut != 3 {
		t.Errorf("%d entries and %d cut, want 3 and 3: what is small stands although larger ones did not fit", len(got.Field.Entries), got.Field.Cut)
	}
}

func TestFacts_NoneAreAskedFor(t *testing.T) {
	if attuneFacts(nil, nil) != nil {
		t.Error("facts without a question")
	}
}
