package storetest

import (
	"encoding/json"
	"testing"

	"attend/internal/engine"
	"attend/internal/store"
)

// Fill writes one of everything that a store can hold into an empty store:
// events of every kind and with every field, steps of every kind, rows, states
// with blocks, a checkpoint, and Fields.
func Fill(t *testing.T, s store.Store) {
	t.Helper()
	e := &env{T: t, s: s}
	fence := e.own()
	for i, text := range strange() {
		ev := event("scope "+string(rune('a'+i%3)), text)
		ev.Kind, ev.Text = engine.Kinds()[i%len(engine.Kinds())], text
		e.write(store.Entry{Events: []store.NewEvent{ev, {Scope: "bare", Event: engine.Event{ID: text, Name: "n", Kind: engine.Closing}}}})
	}
	e.write(store.Entry{
		Events: events("scope a", 3), Steps: stepsOfEveryKind(), Scope: "scope a", Fence: fence,
		Puts: []store.Put{{Space: store.SpaceConsumer, Key: "agent", Value: []byte(`{"position":7}`)}, {Space: "empty", Key: "", Value: []byte{}}},
	})
	e.write(store.Entry{Steps: []engine.Step{{Kind: engine.StepSilence, Silence: &engine.Silence{ID: "s2", Scope: "*"}}}})
	for _, name := range strange() {
		e.write(change(name, 0, name))
	}
	e.write(store.Entry{Events: events("scope b", 1), Field: changes("default", 0, `{"kind":"write"}`, "\x00\x01\xff")}, change("default", 2, "third"))
	live := state("scope a", 40, `{"open":{}}`, block(0, "\x00\x01\xff"), block(64, "second"))
	live.Live, live.WakeAt = true, start+5000
	e.save(fence, 12, live, state("scope b", 20, ""))
	if _, ok := s.(store.Compactor); ok {
		e.compact(fence, store.Compaction{Events: 5, Steps: 3, Keep: []engine.Position{2, 5}, Limit: 3})
	}
}

// Dump reads back everything that a store filled by Fill holds, as indented
// JSON, so that stores of different ages can be compared as text.
func Dump(t *testing.T, s store.Store) string {
	t.Helper()
	e := &env{T: t, s: s}
	type event struct {
		ID, Name   []byte
		Kind       engine.Kind
		Policy     uint32
		At         *engine.Time
		Data, Text []byte
	}
	type record struct {
		Position engine.Position
		Stamp    engine.Time
		Scope    string
		Event    *event       `json:",omitempty"`
		Step     *engine.Step `json:",omitempty"`
	}
	type field struct {
		Name    []byte
		Changes []store.FieldChange
	}
	dump := struct {
		Epoch      string
		Secret     []byte
		Log        []record
		Live       []store.StateRow
		States     []store.StateRow
		Checkpoint engine.Position
		Consumers  []store.Put
		Empty      []store.Put
		Fields     []field     `json:",omitempty"` // none in a store of before there were any
		Kept       *store.Kept `json:",omitempty"` // nil in a log that is whole
		Aside      []record    `json:",omitempty"`
	}{Epoch: e.head().Epoch}
	show := func(r engine.Record) record {
		out := record{Position: r.Position, Stamp: r.Stamp, Scope: r.Scope, Step: r.Step}
		if ev := r.Event; ev != nil {
			out.Event = &event{[]byte(ev.ID), []byte(ev.Name), ev.Kind, ev.Policy, ev.At, ev.Data, []byte(ev.Text)}
		}
		return out
	}
	for _, r := range e.log(0, 100) {
		dump.Log = append(dump.Log, show(r))
	}
	if _, ok := s.(store.Compactor); ok && e.kept() != (store.Kept{}) {
		kept := e.kept()
		dump.Kept = &kept
		for _, r := range e.events(e.aside(0, 100)...) {
			dump.Aside = append(dump.Aside, show(r))
		}
	}
	names, err := s.ScopeNames(t.Context(), "", 100)
	if err != nil {
		t.Fatalf("scope names: %v", err)
	}
	for _, n := range names {
		dump.States = append(dump.States, e.state(n))
	}
	if dump.Live, err = s.LiveStates(t.Context(), "", 100); err != nil {
		t.Fatalf("live states: %v", err)
	}
	if dump.Secret, err = s.Secret(t.Context()); err != nil {
		t.Fatalf("secret: %v", err)
	}
	if dump.Checkpoint, err = s.Checkpoint(t.Context(), store.Fence{Shard: -1}); err != nil {
		t.Fatalf("checkpoint: %v", err)
	}
	if dump.Consumers, err = s.Rows(t.Context(), store.SpaceConsumer); err != nil {
		t.Fatalf("rows: %v", err)
	}
	if dump.Empty, err = s.Rows(t.Context(), "empty"); err != nil {
		t.Fatalf("rows: %v", err)
	}
	for _, n := range e.fieldNames("", 100) {
		dump.Fields = append(dump.Fields, field{[]byte(n), e.field(n, 100)})
	}
	b, err := json.MarshalIndent(dump, "", "  ")
	if err != nil {
		t.Fatalf("encode the dump: %v", err)
	}
	return string(b) + "\n"
}
