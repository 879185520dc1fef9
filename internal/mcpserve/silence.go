package mcpserve

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"attend/internal/engine"
	"attend/internal/silences"
)

// maxSilence is the longest that a tool may silence anything: who forgets about
// it hears of things again tomorrow.
const maxSilence = 24 * time.Hour

// Silencer makes and ends silences, as *silences.Service does.
type Silencer interface {
	Add(ctx context.Context, who silences.Maker, ask *silences.Request) (silences.Silence, error)
	End(ctx context.Context, who, id string, may func(*engine.Silence) bool) (silences.Silence, error)
}

func (s *Server) silenceTool() *tool {
	return &tool{
		name:  "attend_silence",
		title: "Silence scopes for a time",
		description: "Keeps what happens in some scopes from waking anyone, for at most a day: what comes is gathered and kept as always, with the route skip, and no judge is asked. " +
			"Use it before you cause noise on purpose (a deploy, a migration), and say why. Flush events still get through unless includeFlush is true. " +
			"To end one early, call it with end and the id that it was given.",
		annotations: mcp.ToolAnnotations{DestructiveHint: new(true), OpenWorldHint: new(bool)},
		right:       RightAdmin,
		call:        s.callSilence,
	}
}

func (s *Server) callSilence(ctx context.Context, caller *Caller, members map[string]json.RawMessage) (*answered, error) {
	var end string
	if bad := member(members, "end", &end); bad != nil {
		return nil, bad
	}
	if end != "" {
		if len(members) > 1 {
			return nil, &fault{"/end", "stands alone: a silence is made or ended"}
		}
		return s.endSilence(ctx, caller, end)
	}
	ask := new(silences.Request)
	forMs := int64(0)
	for _, bad := range []*fault{
		member(members, "scope", &ask.Scope),
		member(members, "event", &ask.Event),
		member(members, "forMs", &forMs),
		member(members, "includeFlush", &ask.IncludeFlush),
		member(members, "why", &ask.Why),
	} {
		if bad != nil {
			return nil, bad
		}
	}
	ask.ForMs = &forMs
	if ask.Scope != "" && !caller.mayAll(RightAdmin, ask.Scope) {
		return nil, notYours(ask.Scope, "silence")
	}
	if most := maxSilence.Milliseconds(); forMs < 1 || forMs > most {
		return nil, &fault{"/forMs", fmt.Sprintf("is %d: must be from 1 to %d, a day", forMs, most)}
	}
	made, err := s.opts.Silences.Add(ctx, silences.Maker{Name: caller.Name, Limited: !caller.mayAll(RightAdmin, "*")}, ask)
	var wrong *silences.Mistake
	switch {
	case errors.As(err, &wrong):
		return nil, &fault{"/" + wrong.Field, wrong.Problem}
	case errors.Is(err, silences.ErrTooMany):
		return &answered{structured: struct{}{}, text: err.Error() + "\n", failed: true}, nil
	case err != nil:
		return nil, err
	}
	return &answered{structured: &made, text: silenceText(&made)}, nil
}

func (s *Server) endSilence(ctx context.Context, caller *Caller, id string) (*answered, error) {
	ended, err := s.opts.Silences.End(ctx, caller.Name, id, func(of *engine.Silence) bool { return caller.mayAll(RightAdmin, of.Scope) })
	if errors.Is(err, silences.ErrNotFound) {
		return nil, &fault{"/end", "is no silence that you may end"}
	}
	if err != nil {
		return nil, err
	}
	return &answered{structured: &ended, text: silenceText(&ended)}, nil
}

// silenceText is an answer of attend_silence for reading.
func silenceText(s *silences.Silence) string {
	var b strings.Builder
	state := "is ended"
	if s.Active {
		state = "is in force"
		if s.Until != nil {
			state += " until " + time.UnixMilli(int64(*s.Until)).UTC().Format(time.RFC3339)
		}
	}
	fmt.Fprintf(&b, "The silence %s of %q %s.", s.ID, s.Scope, state)
	if !s.Active && s.Hid != nil {
		fmt.Fprintf(&b, " It hid %s with %s.", counted(s.Hid.Windows, "window"), counted(s.Hid.Events, "event"))
	}
	b.WriteString("\n")
	return b.String()
}
