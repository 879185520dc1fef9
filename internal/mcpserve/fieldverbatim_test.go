package mcpserve

import (
	"encoding/json"
	"fmt"
	"testing"

	"attend/internal/field"
)

// What is written over MCP is kept byte for byte, as over HTTP: a model that
// writes "<" finds "<", and numbers stay as they were written.
func TestFieldTools_KeepAnEntryAsItCame(t *testing.T) {
	const (
		odd    = `{"topic":"<$40 & up>","z":1e2,"a":12345678901234567890,"line":"one` + "\u2028" + `two","escaped":"\u003c","a":-0.0}`
		intent = `seen on <their> page & noted`
	)
	for _, era := range []string{legacy, modern} {
		d := newDaemon(t, withFields())
		for _, op := range []string{
			fmt.Sprintf(`{"agent":"kelp","intent":%s,"entry":%s}`, quotedJSON(t, intent), odd),
			fmt.Sprintf(`{"intent":%s,"field":"default","entry":  %s,"agent":"kelp"}`, quotedJSON(t, intent), odd),
		} {
			if r := d.tool(era, "field_write", op); r.msg.Error != nil {
				t.Fatal(r.body)
			}
		}
		got, err := d.server.opts.Fields.Do(t.Context(), "", field.OpRead, nil)
		if err != nil {
			t.Fatal(err)
		}
		entries := got.(field.Page).Entries
		if len(entries) != 2 {
			t.Fatalf("%s: there are %d entries, want 2", era, len(entries))
		}
		for _, e := range entries {
			if string(e.Entry) != odd || e.Intent != intent {
				t.Errorf("%s: kept\n%s\n%q, want\n%s\n%q", era, e.Entry, e.Intent, odd, intent)
			}
		}
	}
}

func quotedJSON(t *testing.T, s string) string {
	t.Helper()
	b, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
