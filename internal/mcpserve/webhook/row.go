package webhook

import (
	"encoding/json"
	"fmt"

	"attend/internal/engine"
	"attend/internal/store"
)

// rowFormat numbers the rows' format; a higher one is refused.
const rowFormat = 1

// grant is what a subscriber was given, as it is stored. Whoever answers a
// subscribe writes it.
type grant struct {
	Format    int             `json:"format"`
	ID        string          `json:"id"`
	Principal string          `json:"principal"`
	URL       string          `json:"url"`
	Name      string          `json:"name"`
	Arguments json.RawMessage `json:"arguments,omitempty"`

	Secret sealed   `json:"secret"`
	Former []former `json:"former,omitempty"` // those before, the latest first
	// Old and OldUntil are what older versions have written of those. Nothing but
	// decodeGrant reads them.
	Old      *sealed     `json:"old,omitempty"`
	OldUntil engine.Time `json:"oldUntil,omitempty"`

	Expires   engine.Time `json:"expires,omitempty"` // 0 for never
	Created   engine.Time `json:"created"`
	Refreshes int         `json:"refreshes,omitempty"`
	// Life is drawn whenever a subscription begins: how far an earlier one of
	// the same key had come is of no use to it.
	Life    string `json:"life"`
	Start   string `json:"start"`   // the cursor at which it began
	Consent string `json:"consent"` // how the receiver has agreed
}

// former is a secret that another has taken the place of.
type former struct {
	Secret sealed      `json:"secret"`
	Until  engine.Time `json:"until"` // signed with before then
}

// live reports whether the grant still holds.
func (g *grant) live(now engine.Time) bool { return g.Expires == 0 || now < g.Expires }

// progress is how far the delivery of a subscription has come, as it is stored.
// The owner of the subscription's shard writes it, under its fence.
type progress struct {
	Format int    `json:"format"`
	ID     string `json:"id"`
	Life   string `json:"life"`
	Cursor string `json:"cursor"` // everything up to here is acknowledged or given up
	// What is beyond the cursor: what was tried without success, and what was
	// acknowledged already.
	Trying []trying `json:"trying,omitempty"`
	Done   []string `json:"done,omitempty"`

	LastDelivery engine.Time `json:"lastDelivery,omitempty"`
	LastError    string      `json:"lastError,omitempty"`
	FailedSince  engine.Time `json:"failedSince,omitempty"`
	Suspended    engine.Time `json:"suspended,omitempty"`
	SuspendedAt  int         `json:"suspendedAt,omitempty"` // the refresh; a later one revives

	Abandoned     int64       `json:"abandoned,omitempty"` // occurrences given up
	LastAbandoned string      `json:"lastAbandoned,omitempty"`
	AbandonedAt   engine.Time `json:"abandonedAt,omitempty"`
}

// trying is an occurrence that was not taken yet.
type trying struct {
	ID    string      `json:"id"`
	Tries int         `json:"tries"`
	Next  engine.Time `json:"next"`
}

// suspends tells whether nothing is delivered until the subscriber refreshes.
func (p *progress) suspends(g *grant) bool { return p.Suspended != 0 && p.SuspendedAt == g.Refreshes }

func decode[T any](b []byte, format func(*T) int) (*T, error) {
	row := new(T)
	if err := json.Unmarshal(b, row); err != nil {
		return nil, fmt.Errorf("decode the row of a webhook subscription: %w", err)
	}
	if n := format(row); n > rowFormat {
		return nil, fmt.Errorf("the row of a webhook subscription has format %d, and this binary reads up to %d: use a newer version", n, rowFormat)
	}
	return row, nil
}

func decodeGrant(b []byte) (*grant, error) {
	g, err := decode(b, func(g *grant) int { return g.Format })
	if err == nil && g.Old != nil {
		g.Former = append(g.Former, former{*g.Old, g.OldUntil})
		g.Old, g.OldUntil = nil, 0
	}
	return g, err
}

func decodeProgress(b []byte) (*progress, error) {
	return decode(b, func(p *progress) int { return p.Format })
}

func put(space, id string, row any) (store.Put, error) {
	b, err := json.Marshal(row)
	if err != nil {
		return store.Put{}, fmt.Errorf("encode the row of webhook subscription %s: %w", id, err)
	}
	return store.Put{Space: space, Key: id, Value: b}, nil
}
