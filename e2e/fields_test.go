//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// reckoned is what crosses of a Field's conflicts.
type reckoned struct {
	Conflicts []struct {
		A, B struct{ ID string }
		Keys []string
	} `json:"conflicts"`
}

// ids are those of the entries that contradict each other.
func (r *reckoned) ids() []string {
	ids := []string{}
	for _, c := range r.Conflicts {
		ids = append(ids, c.A.ID, c.B.ID)
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}

// fieldTool calls a tool of the Field.
func (g *golang) fieldTool(op string, args map[string]any, into any) (isError bool) {
	g.t.Helper()
	res, err := g.CallTool(g.t.Context(), &mcp.CallToolParams{Name: "field_" + op, Arguments: args})
	if err != nil {
		g.t.Fatal(err)
	}
	content, err := json.Marshal(res.StructuredContent)
	if err == nil {
		err = json.Unmarshal(content, into)
	}
	if err != nil {
		g.t.Fatal(err)
	}
	return res.IsError
}

// note writes an entry and returns its id.
func (g *golang) note(agent string, amount int) string {
	g.t.Helper()
	var written struct{ ID string }
	if g.fieldTool("write", map[string]any{
		"agent": agent, "intent": "seen on their page today", "entry": map[string]any{"topic": "price", "amount": amount},
	}, &written) {
		g.t.Fatalf("%s could not write", agent)
	}
	return written.ID
}

var reckonPrices = eventsParams{Name: "field.reckon", Arguments: map[string]any{"agent": "mara", "topic": "price"}}

// from is the same from a cursor.
func (p eventsParams) from(cursor string) eventsParams {
	p.Cursor = cursor
	return p
}

// reckonings opens a stream, and tells what has come on it.
func (g *golang) reckonings(ctx context.Context, cursor string) (ended chan error, told func() []heard) {
	g.t.Helper()
	before, _ := g.tap.of("active")
	ended = make(chan error, 1)
	go func() {
		_, err := g.events(ctx, "events/stream", reckonPrices.from(cursor))
		ended <- err
	}()
	var mine any
	eventually(g.t, "the stream is active", func() bool {
		now, _ := g.tap.of("active")
		if len(now) > len(before) {
			mine = now[len(now)-1]
		}
		return len(now) > len(before)
	})
	return ended, func() []heard {
		g.tap.mu.Lock()
		defer g.tap.mu.Unlock()
		return slices.DeleteFunc(slices.Clone(g.tap.heard), func(h heard) bool { return h.Kind != "event" || h.Subscription != mine })
	}
}

func TestGo_Fields(t *testing.T) {
	for _, c := range []struct {
		name, version string
		stdio         bool
	}{
		{"2025-11-25", "2025-11-25", false},
		{"2026-07-28", modern, false},
		{"2026-07-28 over stdio", modern, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := start(t, token)
			g := connectGo(d, c.version, c.stdio)
			now, err := g.events(t.Context(), "events/poll", reckonPrices)
			if err != nil || len(now.Events) != 0 {
				t.Fatalf("from now: %+v, %v", now, err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			ended, told := g.reckonings(ctx, "")
			pair := []string{g.note("kelp", 39), g.note("gull", 49)}
			slices.Sort(pair)
			eventually(t, "the conflict is told", func() bool { return len(told()) == 1 })
			first := told()[0]
			if got := first.Data.ids(); !slices.Equal(got, pair) || !slices.Equal(first.Data.Conflicts[0].Keys, []string{"amount"}) {
				t.Errorf("told %+v, want a conflict of %q", first, pair)
			}
			polled, err := g.events(t.Context(), "events/poll", reckonPrices.from(now.Cursor))
			if err != nil || !slices.Equal(polled.ids(), []string{first.EventID}) {
				t.Errorf("polled %+v, %v, want %s", polled, err, first.EventID)
			}
			g.fieldFaults(now.Cursor)

			d.kill()
			cancel()
			<-ended
			d.start()
			if g.ID() != "" { // the session is gone with the daemon
				g = connectGo(d, c.version, c.stdio)
			}
			ctx, cancel = context.WithCancel(t.Context())
			defer cancel()
			ended, told = g.reckonings(ctx, first.Cursor)
			third := g.note("ada", 59)
			eventually(t, "what changes is told", func() bool { return len(told()) > 0 })
			if got := told(); len(got) != 1 || len(got[0].Data.ids()) != 3 || !slices.Contains(got[0].Data.ids(), third) {
				t.Errorf("after the crash came %+v", got)
			}
			cancel()
			<-ended
		})
	}
}

// fieldFaults are what the Field and its cursors refuse.
func (g *golang) fieldFaults(cursor string) {
	t := g.t
	t.Helper()
	var refused struct{ Code, Message string }
	if !g.fieldTool("attune", map[string]any{}, &refused) || refused.Code != "AGENT_REQUIRED" || refused.Message == "" {
		t.Errorf("without an agent: %+v", refused)
	}
	_, err := g.events(t.Context(), "events/poll", eventsParams{Name: decision, Cursor: cursor})
	if wire := (*jsonrpc.Error)(nil); !errors.As(err, &wire) || wire.Code != -32602 {
		t.Errorf("a cursor of a Field for decisions: %v", err)
	}
}
