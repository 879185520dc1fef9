package ingest

import (
	"context"
	"log/slog"
	"time"

	"github.com/oklog/ulid/v2"

	"attend/internal/engine"
	"attend/internal/store"
)

// intake takes lines in, one after the other, and commits them in groups. It
// is what a body and a push have in common. One goroutine at a time uses it.
type intake struct {
	h     *Handler
	scope string                  // for lines without one; "" for none
	may   func(scope string) bool // nil allows every scope
	desk  *desk

	group  group
	total  Result // of the groups that are done
	failed error  // why the last commit failed; nothing is taken in after it
}

// desk is what an intake works with and the next one can use again.
type desk struct {
	decoder
	names interned
}

// piece takes one line of a body in. It returns what is wrong with the line.
func (in *intake) piece(p piece) *fault {
	in.open(p.number, len(p.bytes))
	f := p.fault
	if f == nil {
		f = in.desk.decode(p.bytes)
	}
	if f == nil {
		f = in.fields(p.number, len(p.bytes))
	}
	if f != nil {
		in.group.cut = f.code == CodeBodyCut
		in.group.result.refuse(p.number, f)
	}
	return f
}

// open counts a line into the group.
func (in *intake) open(number, size int) {
	g := &in.group
	if g.policy == nil {
		g.open(in.h.owner.Policy(), time.Now())
	}
	g.lines++
	g.bytes += size
	g.last = number
}

// fields takes the line in that the decoder has just read.
func (in *intake) fields(number, size int) *fault {
	d := &in.desk.decoder
	if d.unknowns > 0 {
		in.h.strangers(d)
	}
	scope := in.scope
	if d.has&fieldScope != 0 {
		scope = string(d.scope)
	}
	if scope == "" {
		return &fault{code: CodeMissingField, text: `field "scope" is missing: give it on the line, or give ?scope= for the whole body`}
	}
	if d.has&fieldName == 0 {
		return &fault{code: CodeMissingField, text: `field "name" is missing: it says what sort of event this is`}
	}
	e, f := in.admit(number, size, scope, in.desk.names.string(d.name), string(d.id))
	if e == nil {
		return f
	}
	if d.has&fieldAt != 0 {
		at := d.at
		e.At = &at
	}
	if d.has&fieldData != 0 {
		e.Data = append([]byte(nil), d.data...)
	}
	e.Text = string(d.text)
	return nil
}

// admit decides what becomes of an event that is well formed. It returns the
// event, which stands in the group and wants its other fields; or nil, when it
// is refused or is a duplicate.
func (in *intake) admit(number, size int, scope, name, id string) (*engine.Event, *fault) {
	g, limits := &in.group, &in.h.limits
	settings := g.policy.For(scope)
	if int64(size) > settings.MaxEventBytes {
		return nil, tooLarge(size, settings.MaxEventBytes)
	}
	if in.may != nil && !in.may(scope) {
		return nil, &fault{code: CodeForbiddenScope, text: "this caller may not write to this scope"}
	}
	var key idKey
	if id != "" {
		key = idKey{scope, engine.DigestOf(id)}
		if in.h.owner.Remembers(scope, key.digest) {
			g.result.Duplicates++
			return nil, nil
		}
		if _, there := g.ids[key]; there {
			g.copies = append(g.copies, number)
			return nil, nil
		}
	}
	kind, pattern := g.policy.KindOf(name)
	if why := in.h.owner.Refuses(scope, kind); why != "" {
		return nil, refusal(why)
	}
	if pattern == "" {
		g.unmapped++
		in.h.unmapped(name)
	}
	switch {
	case id == "":
		id = ulid.Make().String()
	case copied(settings, limits):
		if g.ids == nil {
			g.ids = make(map[idKey]struct{})
		}
		g.ids[key] = struct{}{}
	}
	if g.events == nil {
		g.events = make([]store.NewEvent, 0, g.expect)
	}
	g.numbers = append(g.numbers, number)
	g.events = append(g.events, store.NewEvent{
		Scope: scope,
		Event: engine.Event{ID: id, Name: name, Kind: kind, Policy: g.policy.Number},
	})
	return &g.events[len(g.events)-1].Event, nil
}

// refusal words the owner's reason to take no more events of a scope for now.
func refusal(why string) *fault {
	if Code(why) == CodeOutboxFull {
		return &fault{code: CodeOutboxFull, text: "as many of the scope's decisions or dead letters as may be wait for their sink: send the line again later"}
	}
	return &fault{code: CodeWindowFull, text: "the scope's window is full while the judge has the one before: send the line again later"}
}

// full reports whether the group is to be committed without waiting for more.
func (in *intake) full() bool {
	return in.group.lines >= in.h.limits.GroupLines || in.group.bytes >= in.h.limits.GroupBytes
}

// commit makes the group durable and counts what became of its lines. The
// context is the request's; that it is cancelled breaks off nothing, since a
// connection that was cut keeps what came before.
func (in *intake) commit(ctx context.Context) {
	g := &in.group
	if g.lines == 0 {
		return
	}
	if len(g.events) > 0 {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), in.h.limits.CommitTimeout)
		defer cancel()
		if receipt, err := in.append(ctx); err != nil {
			in.failed = err
			g.lost(&fault{code: CodeStoreUnavailable, text: "the store did not take the line: send it again later"})
		} else {
			in.committed(ctx, receipt)
		}
	}
	in.h.metrics.count(&g.result)
	in.total.add(&g.result)
	g.clear()
}

func (in *intake) append(ctx context.Context) (store.Receipt, error) {
	receipts, err := in.h.log.Append(ctx, store.Entry{Events: in.group.events})
	if err == nil {
		err = receipts[0].Err
	}
	if err != nil {
		in.h.outage.Failed("", err)
		return store.Receipt{}, store.Describe("append events", err)
	}
	in.h.outage.Worked("")
	return receipts[0], nil
}

// committed asks the fold how many of the group's events were duplicates.
func (in *intake) committed(ctx context.Context, receipt store.Receipt) {
	g := &in.group
	duplicates, err := in.h.owner.Duplicates(ctx, receipt.First, receipt.Last)
	if err != nil {
		// They are durable, and that is what the answer promises first.
		in.h.logger.Warn("duplicates among committed events are not known", slog.Int("events", len(g.events)), slog.Any("error", err))
		duplicates = 0
	}
	g.result.Accepted += len(g.events) - duplicates
	g.result.Duplicates += duplicates + len(g.copies)
	in.h.metrics.unmapped.Add(float64(g.unmapped))
}

// interned keeps one copy of each event name: there are few, and windows hold
// them for as long as they are open.
type interned map[string]string

// maxInterned is how many names are kept before all are forgotten.
const maxInterned = 512

func (m interned) string(b []byte) string {
	if s, ok := m[string(b)]; ok {
		return s
	}
	if len(m) >= maxInterned {
		clear(m)
	}
	s := string(b)
	m[s] = s
	return s
}

// result returns the total, with a list of errors even where there are none.
func (in *intake) result() Result {
	r := in.total
	if r.Errors == nil {
		r.Errors = []LineError{}
	}
	return r
}
