package silences

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"strings"

	"attend/internal/engine"
)

// File is who made a silence that stands in the configuration.
const File = "attend.yaml"

// filePrefix begins the ids of those.
const filePrefix = "file-"

// Configured is a silence of the configuration.
type Configured struct {
	Scope, Event string
	Until        engine.Time // Forever where it ends with its entry
	IncludeFlush bool
	Why          string
}

// id derives the silence's id from what it says, so that every replica and every
// start finds the same; number counts how often it was ended before.
func (c *Configured) id(number uint64) string {
	h := sha256.New()
	flush := "acts"
	if c.IncludeFlush {
		flush = "flush"
	}
	var b [8]byte
	for _, part := range []string{c.Scope, c.Event, flush, c.Why} {
		binary.BigEndian.PutUint64(b[:], uint64(len(part)))
		h.Write(b[:])
		h.Write([]byte(part))
	}
	for _, n := range []uint64{uint64(c.Until), number} { //nolint:gosec // two's complement on purpose
		binary.BigEndian.PutUint64(b[:], n)
		h.Write(b[:])
	}
	return filePrefix + hex.EncodeToString(h.Sum(nil)[:12])
}

// Configure brings the log in line with the configuration: it makes the silences
// that are new in it, and ends those that have left it. Those that stand in both
// go on. changed tells whether something was written.
func (s *Service) Configure(ctx context.Context, want []Configured) (changed bool, err error) {
	s.making.Lock()
	defer s.making.Unlock()
	all, err := s.read(ctx)
	if err != nil {
		return false, err
	}
	known := make(map[string]*engine.Silence, len(all))
	for i := range all {
		known[all[i].ID] = &all[i]
	}
	kept := make(map[string]bool, len(want))
	var steps []engine.Silence
	for i := range want {
		c := &want[i]
		id := c.id(0)
		// One that was ended before its time is made anew, under the next id.
		for n := uint64(1); known[id] != nil && known[id].Until < c.Until; n++ {
			id = c.id(n)
		}
		if kept[id] {
			continue // it is written twice
		}
		kept[id] = true
		if known[id] == nil && engine.Time(s.now().UnixMilli()) < c.Until {
			steps = append(steps, engine.Silence{
				ID: id, Scope: c.Scope, Event: c.Event, Until: c.Until, IncludeFlush: c.IncludeFlush, Who: File, Why: c.Why,
			})
		}
	}
	for i := range all {
		of := &all[i]
		if strings.HasPrefix(of.ID, filePrefix) && !kept[of.ID] && s.active(of) {
			steps = append(steps, engine.Silence{ID: of.ID, Scope: of.Scope, Who: File, Ended: true})
		}
	}
	if len(steps) == 0 {
		return false, nil
	}
	_, err = s.write(ctx, steps...)
	return true, err
}
