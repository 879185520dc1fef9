package field_test

import (
	"encoding/json"
	"testing"

	"attend/internal/field"
)

func TestSmoke(t *testing.T) {
	s := field.NewState()
	d, err := s.Decide(field.OpWrite, json.RawMessage(`{"entry":{"topic":"tide"},"intent":"0123456789","agent":"kelp"}`), field.DefaultSettings(), field.Draw{Now: 1, ID: "A"})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Apply(d.Change); err != nil {
		t.Fatal(err)
	}
	d, err = s.Decide(field.OpReckon, json.RawMessage(`{"agent":"mara","topic":"tide"}`), field.DefaultSettings(), field.Draw{Now: 1})
	if err != nil {
		t.Fatal(err)
	}
	b, _ := json.Marshal(d.Result)
	t.Log(string(b))
}
