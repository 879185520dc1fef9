package source

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
)

// Page is the answer of events/poll. Each event is looked at by itself, so that
// one that is broken costs no other.
type Page struct {
	Events     Occurrences `json:"events"`
	Cursor     *string     `json:"cursor"`
	Truncated  bool        `json:"truncated"`
	HasMore    bool        `json:"hasMore"`
	NextPollMs *float64    `json:"nextPollMs"`
}

// Occurrences are the events of a page, none of them read yet.
type Occurrences []json.RawMessage

// maxPageEvents bounds the events of a page. It is one commit, whatever it
// holds, since it has one cursor.
const maxPageEvents = 100_000

// ErrPage says that a page holds too many events.
var ErrPage = fmt.Errorf("a page has more than %d events: set maxEvents of the source", maxPageEvents)

// UnmarshalJSON reads as many as a page may hold.
func (o *Occurrences) UnmarshalJSON(b []byte) error {
	*o = nil
	return elements(b, func(d *json.Decoder) error {
		if len(*o) == maxPageEvents {
			return ErrPage
		}
		var raw json.RawMessage
		err := d.Decode(&raw)
		*o = append(*o, raw)
		return err
	})
}

// listing is a page of events/list, of which one entry is kept.
type listing struct {
	name  string // of the entry
	found *EventType
	next  string // the cursor of the next page, "" for none
	size  int    // in bytes
}

// UnmarshalJSON looks for the entry. Others may be as they like.
func (l *listing) UnmarshalJSON(b []byte) error {
	var page struct {
		Events     json.RawMessage `json:"events"`
		NextCursor *string         `json:"nextCursor"`
	}
	if err := json.Unmarshal(b, &page); err != nil {
		return err
	}
	if l.size = len(b); page.NextCursor != nil {
		l.next = *page.NextCursor
	}
	return elements(page.Events, func(d *json.Decoder) error {
		var entry EventType
		err := d.Decode(&entry)
		if odd := (*json.UnmarshalTypeError)(nil); errors.As(err, &odd) {
			return nil
		}
		if err == nil && l.found == nil && entry.Name == l.name {
			l.found = &entry
		}
		return err
	})
}

// elements has each element of a JSON array decoded, by itself. What is absent
// or null has none.
func elements(array []byte, decode func(*json.Decoder) error) error {
	if len(array) == 0 || string(array) == "null" {
		return nil
	}
	d := json.NewDecoder(bytes.NewReader(array))
	if start, err := d.Token(); err != nil || start != json.Delim('[') {
		return errors.New("events is no list")
	}
	for d.More() {
		if err := decode(d); err != nil {
			return err
		}
	}
	return nil
}
