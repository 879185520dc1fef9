package feed

import (
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"unicode"
	"unicode/utf8"

	"attend/internal/engine"
	"attend/internal/store"
)

// Errors about consumers. They are wrapped with what to do about it.
var (
	ErrConsumerName = errors.New("bad consumer name")
	ErrAck          = errors.New("bad ack")
	ErrNotYours     = errors.New("the consumer belongs to another principal")
	ErrNoConsumer   = errors.New("no such consumer")
)

// LimitError reports a limit of the daemon's.
type LimitError struct {
	Limit string // what is limited
	Max   int
}

func (e *LimitError) Error() string {
	return fmt.Sprintf("too many %s: at most %d; end one that is no longer used", e.Limit, e.Max)
}

// MaxConsumerName is how many bytes a consumer's name may have.
const MaxConsumerName = 128

// CheckConsumerName reports why a name cannot be a consumer's.
func CheckConsumerName(name string) error {
	switch {
	case name == "" || len(name) > MaxConsumerName:
		return fmt.Errorf("%w: it has %d bytes; want 1 to %d", ErrConsumerName, len(name), MaxConsumerName)
	case !utf8.ValidString(name):
		return fmt.Errorf("%w: it is not valid UTF-8", ErrConsumerName)
	}
	for _, r := range name {
		if unicode.IsControl(r) {
			return fmt.Errorf("%w: it holds a control character", ErrConsumerName)
		}
	}
	return nil
}

// Consumer is a reader whose position the daemon keeps, as it is shown.
type Consumer struct {
	Name      string          `json:"name"`
	Owner     string          `json:"owner,omitempty"` // the principal; "" where there are no tokens
	Position  engine.Position `json:"position"`        // everything up to here is acknowledged
	Lag       int64           `json:"lag"`             // records between it and the head
	Pending   int             `json:"pending"`         // decisions of the last answer, not acknowledged
	Created   engine.Time     `json:"created"`
	LastHeard engine.Time     `json:"lastHeard"`
}

// consumerRow is a consumer as it is stored, JSON under its name.
type consumerRow struct {
	Format    int             `json:"format"`
	Name      string          `json:"name"`
	Owner     string          `json:"owner,omitempty"`
	Position  engine.Position `json:"position"`
	Pending   *pending        `json:"pending,omitempty"`
	Truncated bool            `json:"truncated,omitempty"` // to be told until something is acknowledged
	Created   engine.Time     `json:"created"`
	LastHeard engine.Time     `json:"lastHeard"`
	// Dropped, unless 0, is when the consumer was given up because nothing had
	// been heard of it. What is left of the row tells it so when it returns.
	Dropped engine.Time `json:"dropped,omitempty"`
}

// pending is an answer that was given and not acknowledged.
type pending struct {
	Items []engine.Position `json:"items"`
	Next  engine.Position   `json:"next"` // where its ack moves the consumer
}

func decodeRow(b []byte) (consumerRow, error) {
	var row consumerRow
	if err := json.Unmarshal(b, &row); err != nil {
		return row, fmt.Errorf("decode consumer row: %w", err)
	}
	return row, engine.CheckFormat(row.Format)
}

func (row *consumerRow) put() (store.Put, error) {
	row.Format = engine.Format
	b, err := json.Marshal(row)
	if err != nil {
		return store.Put{}, fmt.Errorf("encode consumer row: %w", err)
	}
	return store.Put{Space: store.SpaceConsumer, Key: row.Name, Value: b}, nil
}

func (row *consumerRow) view(head engine.Position) Consumer {
	v := Consumer{
		Name: row.Name, Owner: row.Owner, Position: row.Position, Lag: int64(head - row.Position),
		Created: row.Created, LastHeard: row.LastHeard,
	}
	if row.Pending != nil {
		v.Pending = len(row.Pending.Items)
	}
	return v
}

// ackToken is what acknowledges the pending answer.
func (row *consumerRow) ackToken(epoch string) string {
	return token{what: whatAck, epoch: epoch, position: row.Pending.Next, mark: consumerMark(row.Name)}.encode()
}

func consumerMark(name string) uint32 { return crc32.ChecksumIEEE([]byte(name)) }

// acknowledge moves the position if ack is that of the pending answer, and
// reports whether it did. The ack of an answer that is acknowledged already,
// or that was given before the log was restored, is ignored: a caller whose
// last answer got lost can do no better than to send it again.
func (row *consumerRow) acknowledge(ack string, head store.Head, shared bool) (moved bool, err error) {
	t, err := decodeToken(ack, whatAck)
	switch {
	case err != nil:
		return false, fmt.Errorf("ack: %w", err)
	case t.mark != consumerMark(row.Name):
		return false, fmt.Errorf("%w: it was given to another consumer than %q", ErrAck, row.Name)
	case t.epoch != head.Epoch || t.position <= row.Position:
		return false, nil
	case shared && t.position <= head.Position:
		row.moveTo(t.position)
		return true, nil
	case row.Pending == nil || t.position != row.Pending.Next:
		return false, fmt.Errorf("%w: it is not of the last answer to %q; send back that answer's ack, or none to get it again", ErrAck, row.Name)
	}
	row.Position, row.Pending, row.Truncated = t.position, nil, false
	return true, nil
}
