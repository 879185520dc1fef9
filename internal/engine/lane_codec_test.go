package engine_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"attend/internal/engine"
)

// lanesInput leaves a scope with a delivery on its way, another waiting behind
// it, and a dead letter in its backoff.
const lanesInput = `policy retryBackoffMs=[50000] retryJitter=0 deliveryTimeoutMs=9000
sinks interrupt=agent queue=inbox letters=alerts
sink error gone permanent
sink error down after 20
sink ok after 50
sink ok after 5000
0 event flush a e1
100 event closing b e2
3000 event flush a e3
3100 event flush a e4
3200 requeue d1
3300 pause
`

// What is written in format 1 with lanes is read for ever: a state, and every
// step about them.
func TestLanes_Golden(t *testing.T) {
	told := tell(t, lanesInput)
	live := told.world.State("s")
	want := golden(t, "testdata/state-lanes.v1.json", indent(t, encode(t, live)))
	back, err := engine.DecodeState(told.world.Rules(), want, 1, nil)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(encode(t, live)), string(encode(t, back))); diff != "" {
		t.Errorf("-live +golden:\n%s", diff)
	}
	if back.Outbox.Len() < 2 || back.Letters == nil || back.Letters.Failed == nil || back.Outbox.Phase != engine.LaneSends {
		t.Errorf("the golden state does not hold everything: %s", want)
	}
	var got []byte
	seen := make(map[engine.StepKind]bool)
	for i := range told.rec.log {
		st := told.rec.log[i].Step
		if st == nil || seen[st.Kind] || st.Delivery == nil && st.Policy == nil && st.Requeue == nil && st.DeadLetter == nil {
			continue
		}
		seen[st.Kind] = true
		b, err := engine.EncodeStep(st)
		if err != nil {
			t.Fatal(err)
		}
		got = append(append(got, b...), '\n')
	}
	if diff := cmp.Diff(string(golden(t, "testdata/steps-lanes.v1.ndjson", got)), string(got)); diff != "" || len(seen) != 6 {
		t.Errorf("%v: steps are written in another way (-golden +now):\n%s", seen, diff)
	}
}

// A row whose lanes cannot be is refused, not folded.
func TestDecodeState_DamagedLanes(t *testing.T) {
	for name, row := range map[string]string{
		"an empty lane":             `{"outbox":{"queue":[]}}`,
		"a lane without a queue":    `{"letters":{}}`,
		"a phase that there is not": `{"outbox":{"queue":[{"id":"x","position":1}],"phase":9}}`,
		"a backoff without a time":  `{"letters":{"queue":[{"id":"x","position":1}],"phase":2}}`,
	} {
		if s, err := engine.DecodeState(engine.NewRules(nil), []byte(row), engine.Format, nil); err == nil {
			t.Errorf("%s: %+v", name, s)
		}
	}
}

// Only what is delivered has a sink, and each has a name.
func TestPolicy_Sinks(t *testing.T) {
	for _, sinks := range []map[engine.Route]string{{engine.Skip: "a"}, {engine.Wait: "a"}, {engine.Queue: ""}} {
		p := engine.Policy{Default: engine.Defaults(), Sinks: sinks}
		if err := p.Compile(); err == nil {
			t.Errorf("%v is taken", sinks)
		}
	}
}
