package mcpserve

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"attend/internal/engine"
	"attend/internal/feed"
	"attend/internal/fields"
	"attend/internal/store/memory"
)

// quick lets pushes follow each other without a pause.
func quick(o *fields.Options) { o.PushEvery = time.Nanosecond }

const (
	attuneMara = `"name":"field.attune","arguments":{"agent":"mara","topic":"price"}`
	reckonMara = `"name":"field.reckon","arguments":{"agent":"mara","topic":"price"}`
)

// note writes an entry on the topic price.
func (d *daemon) note(agent string, amount int) (id string) {
	d.t.Helper()
	return d.noteOn("price", agent, amount)
}

func (d *daemon) noteOn(topic, agent string, amount int) (id string) {
	d.t.Helper()
	_, out := d.does("write", fmt.Sprintf(`{"agent":%q,"intent":"so that others know","entry":{"topic":%q,"amount":%d}}`, agent, topic, amount))
	return out["id"].(string)
}

func idsOf(list any, of string) []string {
	ids := []string{}
	items, _ := list.([]any)
	for _, each := range items {
		item := each.(map[string]any)
		if of != "" {
			item = item[of].(map[string]any)
		}
		ids = append(ids, item["id"].(string))
	}
	return ids
}

func TestFieldEvents_List(t *testing.T) {
	d := newDaemon(t, withFields())
	for _, era := range []string{legacy, modern} {
		types, _ := d.call(era, "events/list", "").msg.Result["events"].([]any)
		var names []string
		for _, each := range types {
			e := each.(map[string]any)
			names = append(names, e["name"].(string))
			in, out := e["inputSchema"].(map[string]any), e["payloadSchema"].(map[string]any)
			if in["additionalProperties"] != false || out["type"] != "object" || len(e["description"].(string)) < 100 {
				t.Errorf("%s: %v", era, e)
			}
		}
		if diff := cmp.Diff([]string{"attention.decision", "attention.deadLetter", "field.attune", "field.reckon"}, names); diff != "" {
			t.Errorf("%s: %s", era, diff)
		}
	}
}

// A poll tells the level: nothing from now on, then the current result once.
func TestFieldPoll(t *testing.T) {
	for _, era := range []string{legacy, modern} {
		t.Run(era, func(t *testing.T) {
			d := newDaemon(t, withFields())
			first := d.note("kelp", 39)
			start := d.poll(era, attuneMara)
			if len(start.Events) != 0 || start.Truncated || start.HasMore || start.Cursor == "" || *start.NextPollMs == 0 {
				t.Fatalf("from now: %+v", start)
			}
			from := func(cursor, more string) *polled {
				return d.poll(era, fmt.Sprintf(`%s,"cursor":%q%s`, attuneMara, cursor, more))
			}
			d.noteOn("weather", "kelp", 1) // nothing to do with it
			d.note("mara", 7)              // her own
			if got := from(start.Cursor, ""); len(got.Events) != 0 || got.Truncated || got.Cursor == start.Cursor {
				t.Errorf("nothing of hers has changed: %+v; the cursor moves", got)
			}
			second := d.note("gull", 49)
			third := d.note("gull", 50)
			got := from(start.Cursor, `,"maxEvents":1`)
			if len(got.Events) != 1 || got.HasMore || got.Truncated {
				t.Fatalf("after three changes: %+v", got)
			}
			e := got.Events[0]
			d.fits("field.attune", e.Data)
			if _, err := time.Parse(time.RFC3339, e.Timestamp); err != nil || e.Name != "field.attune" || e.Cursor != nil || e.Data["field"] != "default" {
				t.Errorf("event: %+v, %v", e, err)
			}
			if diff := cmp.Diff([]string{third, second, first}, idsOf(e.Data["entries"], "")); diff != "" {
				t.Error(diff)
			}
			if again := from(start.Cursor, ""); len(again.Events) != 1 || again.Events[0].EventID != e.EventID {
				t.Errorf("the same cursor again gives %+v", again)
			}
			if next := from(got.Cursor, ""); len(next.Events) != 0 || next.Truncated {
				t.Errorf("then %+v", next)
			}
			d.does("retract", fmt.Sprintf(`{"id":%q,"agent":"gull","intent":"it was not so at all"}`, third))
			if next := from(got.Cursor, ""); len(next.Events) != 1 || next.Events[0].EventID == e.EventID {
				t.Errorf("after a retract %+v", next)
			}
		})
	}
}

// Of a reckoning the conflicts are told, unless more is asked for.
func TestFieldPoll_Reckon(t *testing.T) {
	d := newDaemon(t, withFields())
	all := strings.Replace(reckonMara, `"price"`, `"price","conflictsOnly":false,"deep":true,"max_units":5,"role":"cook","only_topic":false,"field":"default"`, 1)
	start, startAll := d.poll(modern, reckonMara), d.poll(modern, all)
	first := d.note("kelp", 39)
	if got := d.poll(modern, fmt.Sprintf(`%s,"cursor":%q`, reckonMara, start.Cursor)); len(got.Events) != 0 {
		t.Errorf("without a conflict: %+v", got)
	}
	if got := d.poll(modern, fmt.Sprintf(`%s,"cursor":%q`, all, startAll.Cursor)); len(got.Events) != 1 {
		t.Errorf("an entry of which all is to be told: %+v", got)
	}
	second := d.note("gull", 49)
	got := d.poll(modern, fmt.Sprintf(`%s,"cursor":%q`, reckonMara, start.Cursor))
	if len(got.Events) != 1 {
		t.Fatalf("got %+v", got)
	}
	data := got.Events[0].Data
	d.fits("field.reckon", data)
	if !cmp.Equal(idsOf(data["conflicts"], "a"), []string{second}) || !cmp.Equal(idsOf(data["conflicts"], "b"), []string{first}) || data["entries"] != nil {
		t.Errorf("data is %v", data)
	}
	gotAll := d.poll(modern, fmt.Sprintf(`%s,"cursor":%q`, all, startAll.Cursor))
	d.fits("field.reckon", gotAll.Events[0].Data)
	if ids := idsOf(gotAll.Events[0].Data["entries"], ""); !cmp.Equal(ids, []string{second, first}) {
		t.Errorf("with the entries: %v", gotAll.Events[0].Data)
	}
}

func TestFieldEvents_WrongArguments(t *testing.T) {
	d := newDaemon(t, withFields())
	for _, c := range []struct{ params, path, reason, code string }{
		{`"name":"field.attune"`, "/arguments/agent", "is required", "AGENT_REQUIRED"},
		{`"name":"field.attune","arguments":{"agent":7}`, "/arguments/agent", "must be a string", "AGENT_REQUIRED"},
		{`"name":"field.attune","arguments":{"agent":"mara","deep":true}`, "/arguments/deep", "is unknown", "INVALID_QUERY"},
		{`"name":"field.reckon","arguments":{"agent":"mara","colour":"red"}`, "/arguments/colour", "conflictsOnly, deep", "INVALID_QUERY"},
		{`"name":"field.reckon","arguments":{"agent":"mara","topic":[]}`, "/arguments/topic", "a string, or a number, or true or false", "INVALID_QUERY"},
		{`"name":"field.reckon","arguments":{"agent":"mara","max_units":-1}`, "/arguments/max_units", "at least 0", "INVALID_QUERY"},
		{`"name":"field.reckon","arguments":{"agent":"mara","max_units":1.5}`, "/arguments/max_units", "integer", "INVALID_QUERY"},
		{`"name":"field.reckon","arguments":{"agent":"mara","field":7}`, "/arguments/field", "must be a string", "INVALID_QUERY"},
		{`"name":"field.reckon","arguments":[]`, "/arguments", "must be an object", "AGENT_REQUIRED"},
		{`"name":"attention.decision","arguments":{"agent":"mara"}`, "/arguments/agent", "is unknown", ""},
		{`"name":"field.attune","arguments":{"agent":" "}`, "/arguments", "agent", "AGENT_REQUIRED"},
		{`"name":"field.attune","arguments":{"agent":"mara","field":"a\u0000"}`, "/arguments", "control character", "INVALID_QUERY"},
		{attuneMara + `,"cursor":"made up"`, "/cursor", "not base64url", ""},
		{attuneMara + fmt.Sprintf(`,"cursor":%q`, d.cursor(0)), "/cursor", "it is a cursor of the log, and a cursor of a Field is wanted here", ""},
		{decisions + fmt.Sprintf(`,"cursor":%q`, feed.FieldCursor{Epoch: "e"}.Encode()), "/cursor", "it is a cursor of a Field, and a cursor of the log is wanted here", ""},
	} {
		for _, method := range []string{"events/poll", "events/stream"} {
			r := d.call(legacy, method, c.params)
			if r.msg.Error == nil || r.msg.Error.Code != -32602 {
				t.Errorf("%s {%s}: %s", method, c.params, r.body)
				continue
			}
			data := r.msg.Error.Data
			if reason, _ := data["reason"].(string); data["path"] != c.path || !strings.Contains(reason, c.reason) || (data["code"] != nil) != (c.code != "") || c.code != "" && data["code"] != c.code {
				t.Errorf("%s {%s}: %s", method, c.params, r.body)
			}
		}
	}
}

// stale are cursors that tell nothing of what the reader has.
func (d *daemon) stale() map[string]string {
	d.t.Helper()
	head, err := d.store.Head(d.t.Context())
	if err != nil {
		d.t.Fatal(err)
	}
	return map[string]string{
		"of another log":      feed.FieldCursor{Epoch: "before the restore", Number: 1}.Encode(),
		"ahead of the Field":  feed.FieldCursor{Epoch: head.Epoch, Number: 99}.Encode(),
		"of an older restore": feed.FieldCursor{Epoch: "e", Number: 99, Identity: [8]byte{1}}.Encode(),
	}
}

func TestFieldEvents_StaleCursors(t *testing.T) {
	d := newDaemon(t, withFields(quick))
	id := d.note("kelp", 39)
	for name, cursor := range d.stale() { //arch:sorted each by itself
		params := fmt.Sprintf(`%s,"cursor":%q`, attuneMara, cursor)
		p := d.poll(modern, params)
		if !p.Truncated || len(p.Events) != 1 || !cmp.Equal(idsOf(p.Events[0].Data["entries"], ""), []string{id}) {
			t.Errorf("%s: polled %+v", name, p)
		}
		if again := d.poll(modern, fmt.Sprintf(`%s,"cursor":%q`, attuneMara, p.Cursor)); again.Truncated || len(again.Events) != 0 {
			t.Errorf("%s: then %+v", name, again)
		}
		r := d.stream(modern, params)
		active := r.want("active")
		if !*active.Params.Truncated {
			t.Errorf("%s: %s", name, active.raw)
		}
		if m := r.want("event"); m.Params.EventID != p.Events[0].EventID {
			t.Errorf("%s: %s", name, m.raw)
		}
		r.close()
		// Whoever is cut off before the event is given it again.
		late := d.stream(modern, fmt.Sprintf(`%s,"cursor":%q`, attuneMara, active.Params.Cursor))
		if m := late.want("active"); *m.Params.Truncated {
			t.Errorf("%s: %s", name, m.raw)
		}
		late.want("event")
		late.close()
	}
}

func TestFieldEvents_MaxAge(t *testing.T) {
	now := &clock{now: time.UnixMilli(1764547200000)}
	set := withFields(quick)
	set.store = memory.New(memory.Options{Now: now.Now})
	set.options = func(o *Options) { o.Now = now.Now }
	d := newDaemon(t, set)
	start := d.poll(modern, attuneMara)
	d.note("kelp", 39)
	now.turn(time.Minute)
	for _, c := range []struct {
		age       string
		events    int
		truncated bool
	}{
		{`60000`, 1, false},
		{`59999`, 0, true},
		{`null`, 1, false},
	} {
		params := fmt.Sprintf(`%s,"cursor":%q,"maxAgeMs":%s`, attuneMara, start.Cursor, c.age)
		p := d.poll(modern, params)
		if len(p.Events) != c.events || p.Truncated != c.truncated {
			t.Errorf("maxAgeMs %s: %+v", c.age, p)
		}
		if c.events > 0 && p.Events[0].Timestamp != "2025-12-01T00:00:00.000Z" {
			t.Errorf("the change is of %s", p.Events[0].Timestamp)
		}
		if again := d.poll(modern, fmt.Sprintf(`%s,"cursor":%q,"maxAgeMs":1`, attuneMara, p.Cursor)); len(again.Events) != 0 || again.Truncated {
			t.Errorf("maxAgeMs %s: then %+v", c.age, again)
		}
		r := d.stream(legacy, params)
		if m := r.want("active"); *m.Params.Truncated != c.truncated {
			t.Errorf("maxAgeMs %s: %s", c.age, m.raw)
		}
		if c.events > 0 {
			r.want("event")
		}
		r.close()
	}
	// What comes while it is open is told, whatever the age.
	r := d.stream(legacy, fmt.Sprintf(`%s,"cursor":%q,"maxAgeMs":1`, attuneMara, start.Cursor))
	r.want("active")
	d.note("gull", 49)
	if m := r.want("event"); len(idsOf(m.Params.Data["entries"], "")) != 2 {
		t.Errorf("then %s", m.raw)
	}
}

// A daemon that is killed has forgotten nothing, and tells each change once.
func TestFieldEvents_AcrossARestart(t *testing.T) {
	before := newDaemon(t, withFields(quick))
	r := before.stream(modern, attuneMara)
	begin := r.want("active").Params.Cursor
	before.note("kelp", 39)
	told := r.want("event")
	before.stop()

	set := withFields(quick)
	set.store = before.store
	d := newDaemon(t, set)
	for cursor, events := range map[string]int{begin: 1, told.Params.Cursor: 0} { //arch:sorted each by itself
		p := d.poll(modern, fmt.Sprintf(`%s,"cursor":%q`, attuneMara, cursor))
		if len(p.Events) != events || p.Truncated {
			t.Errorf("from %s: %+v", cursor, p)
		}
		if events == 1 && p.Events[0].EventID != told.Params.EventID {
			t.Errorf("the same result has another id after a restart: %+v", p)
		}
	}
	again := d.stream(modern, fmt.Sprintf(`%s,"cursor":%q`, attuneMara, told.Params.Cursor))
	if m := again.want("active"); *m.Params.Truncated {
		t.Errorf("active: %s", m.raw)
	}
	id := d.note("gull", 49)
	if m := again.want("event"); idsOf(m.Params.Data["entries"], "")[0] != id {
		t.Errorf("event: %s", m.raw)
	}
}

// The feed of decisions and a Field are followed side by side.
func TestFieldEvents_BesideDecisions(t *testing.T) {
	d := newDaemon(t, withFields(quick))
	field, log := d.stream(modern, reckonMara), d.stream(modern, decisions)
	field.want("active")
	log.want("active")
	d.decide("a", engine.Queue, nil)
	d.note("kelp", 39)
	d.note("gull", 49)
	if m := field.want("event"); m.Params.Name != "field.reckon" || len(idsOf(m.Params.Data["conflicts"], "a")) != 1 {
		t.Errorf("of the Field: %s", m.raw)
	}
	if m := log.want("event"); m.Params.EventID != "d1" {
		t.Errorf("of the log: %s", m.raw)
	}
	if n := d.gauge("attend_event_streams"); n != 2 {
		t.Errorf("%v streams are counted", n)
	}
}
