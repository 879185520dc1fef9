package main

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"attend/internal/engine"
)

func TestExportLine_DataIsWhatWasSent(t *testing.T) {
	for _, c := range []struct{ data, want string }{
		{`{"a":1}`, `{"a":1}`},
		{`{ "a" :	[1.50, 1E3,"\u0041<&\/"] , "a":  -0 }`, `{ "a" :	[1.50, 1E3,"\u0041<&\/"] , "a":  -0 }`},
		{"{\r\n  \"a\": [\n\t1\n  ]\r}", "{    \"a\": [ \t1   ] }"},
		{"\"\u009b2J \u202e \u007f سلام\"", `"\u009b2J \u202e \u007f سلام"`},
		{`"a\nb"`, `"a\nb"`},
		{`null`, `null`},
		{`"}}"`, `"}}"`},
	} {
		r := &engine.Record{Position: 7, Stamp: 9, Scope: "s", Event: &engine.Event{ID: "1", Name: "x", Kind: engine.Flush, Policy: 1, Text: "t}}", Data: []byte(c.data)}}
		line, err := exportLine(r)
		if err != nil {
			t.Fatal(err)
		}
		want := `{"position":7,"stamp":9,"scope":"s","event":{"id":"1","name":"x","kind":"flush","policy":1,"text":"t}}","data":` + c.want + "}}\n"
		if line != want {
			t.Errorf("%q:\n got %s\nwant %s", c.data, line, want)
		}
		var got struct {
			Event struct{ Data, Text any }
		}
		var sent any
		if err := json.Unmarshal([]byte(line), &got); err != nil {
			t.Fatalf("%v in %s", err, line)
		}
		if err := json.Unmarshal([]byte(c.data), &sent); err != nil {
			t.Fatal(err)
		}
		a, _ := json.Marshal(sent)
		b, _ := json.Marshal(got.Event.Data)
		if !bytes.Equal(a, b) || got.Event.Text != "t}}" {
			t.Errorf("%q is another value in the line: %s", c.data, line)
		}
	}
}

func TestExportLine_WithoutData(t *testing.T) {
	for _, r := range []*engine.Record{
		{Position: 1, Event: &engine.Event{ID: "1", Name: "x", Kind: engine.Flush}},
		{Position: 2, Step: &engine.Step{Kind: engine.StepFlush}},
	} {
		line, err := exportLine(r)
		if err != nil || !json.Valid([]byte(line)) || strings.Count(line, "\n") != 1 || strings.Contains(line, "data") {
			t.Errorf("line %q (%v)", line, err)
		}
	}
}
