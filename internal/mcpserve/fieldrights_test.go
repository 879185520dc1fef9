package mcpserve

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"attend/internal/field"
	"attend/internal/fields"
)

// as lets a caller speak for some agents, in some Fields.
func as(rights string, fieldNames, agents string) func(*Options) {
	return func(o *Options) {
		o.Caller = func(context.Context) Caller {
			return Caller{
				Name: "ann",
				May:  func(right, _ string) bool { return strings.Contains(rights, right) },
				Fields: fields.Access{
					MayField: func(name string, _ bool) bool { return strings.Contains(fieldNames, name) },
					MayAgent: func(agent string) bool { return agent != "" && strings.Contains(agents, agent) },
				},
			}
		}
	}
}

func TestFieldTools_Rights(t *testing.T) {
	const intent = `"intent":"long enough to do"`
	set := withFields()
	set.options = as("read ingest", "default mine", "mara kelp")
	d := newDaemon(t, set)
	d.does("write", `{"agent":"kelp","entry":{},`+intent+`}`)
	d.does("write", `{"field":"mine","agent":"mara","entry":{},`+intent+`}`)
	d.does("read", `{}`)
	for _, c := range []struct{ op, args, reason string }{
		{"write", `{"field":"theirs","agent":"mara","entry":{},` + intent + `}`, "field"},
		{"attune", `{"field":"theirs","agent":"mara"}`, "field"},
		{"write", `{"agent":"gull","entry":{},` + intent + `}`, "agent"},
		{"write", `{"entry":{},` + intent + `}`, "agent"}, // nobody's
		{"draft", `{"agent":"gull","entry":{},` + intent + `}`, "agent"},
		{"register", `{"id":"gull","role":"cook"}`, "agent"},
		{"deregister", `{"id":"gull"}`, "agent"},
		{"read", `{"caller":"gull"}`, "agent"},
		{"attune", `{"agent":"gull"}`, "agent"},
		{"reckon", `{"agent":"gull"}`, "agent"},
		{"retract", `{"id":"E1","agent":"gull",` + intent + `}`, "agent"},
		{"supersede", `{"superseding_id":"E1","agent":"gull","entry":{},` + intent + `}`, "agent"},
	} {
		r := d.tool(modern, "field_"+c.op, c.args)
		if r.msg.Error == nil || r.msg.Error.Code != codeForbidden || r.msg.Error.Data["reason"] != c.reason {
			t.Errorf("%s %s: got %s, want Forbidden for the %s", c.op, c.args, r.body, c.reason)
		}
	}
	for _, name := range []string{"field.attune", "field.reckon"} {
		for _, method := range []string{"events/poll", "events/stream"} {
			for arguments, reason := range map[string]string{`{"agent":"gull"}`: "agent", `{"agent":"mara","field":"theirs"}`: "field"} {
				r := d.call(modern, method, fmt.Sprintf(`"name":%q,"arguments":%s`, name, arguments))
				if r.msg.Error == nil || r.msg.Error.Code != codeForbidden || r.msg.Error.Data["reason"] != reason {
					t.Errorf("%s %s: got %s, want Forbidden for the %s", method, arguments, r.body, reason)
				}
			}
		}
	}
}

// A draft belongs to its agent, where callers speak for some agents alone.
func TestFieldTools_DraftsBelongToTheirAgent(t *testing.T) {
	speaks := "kelp gull"
	set := withFields()
	set.options = func(o *Options) {
		o.Caller = func(context.Context) Caller {
			return Caller{Fields: fields.Access{MayAgent: func(agent string) bool { return agent == "" || strings.Contains(speaks, agent) }}}
		}
	}
	d := newDaemon(t, set)
	drafts := map[string]string{}
	for _, agent := range []string{"kelp", "gull"} {
		_, out := d.does("draft", fmt.Sprintf(`{"agent":%q,"entry":{},"intent":"long enough to do"}`, agent))
		drafts[agent] = fmt.Sprintf(`{"draft_id":%q`, out["draft_id"])
	}
	speaks = "kelp"
	for op, more := range map[string]string{"commit": `}`, "discard": `,"agent":"kelp","intent":"long enough to do"}`} {
		r := d.tool(modern, "field_"+op, drafts["gull"]+more)
		if r.msg.Error == nil || r.msg.Error.Code != codeForbidden || r.msg.Error.Data["reason"] != "agent" {
			t.Errorf("%s of another's draft: %s", op, r.body)
		}
		for _, id := range []string{`"none"`, `7`} {
			if got, out := d.use(modern, "field_"+op, `{"draft_id":`+id+more); !got.IsError || out["code"] != "DRAFT_NOT_FOUND" {
				t.Errorf("%s of the draft %s: %s", op, id, got.Out)
			}
		}
	}
	d.does("commit", drafts["kelp"]+`}`)
}

// Whoever may only read changes nothing, and the other way round.
func TestFieldTools_NeedTheirRight(t *testing.T) {
	for _, right := range []string{RightRead, RightIngest} {
		set := withFields()
		set.options = as(right, "default", "mara")
		d := newDaemon(t, set)
		for _, op := range field.Ops() {
			r := d.tool(modern, "field_"+string(op), `{}`)
			forbidden := r.msg.Error != nil && r.msg.Error.Code == codeForbidden && r.msg.Error.Data["reason"] == "right"
			if op.Changes() == (right == RightIngest) == forbidden {
				t.Errorf("with the right %s, %s: %s", right, op, r.body)
			}
		}
	}
}
