package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"
)

// item is what a person reads of a decision or a dead letter.
type item struct {
	ID      string            `json:"id"`
	Kind    string            `json:"kind"`
	Scope   string            `json:"scope"`
	Route   string            `json:"route"`
	Reason  string            `json:"reason"`
	At      int64             `json:"at"` // Unix milliseconds
	Notice  string            `json:"notice"`
	Events  []json.RawMessage `json:"events"`
	Cut     int               `json:"cut"`
	Dropped int               `json:"dropped"`
	Gap     bool              `json:"gap"`

	// Of a dead letter.
	Stage    string `json:"stage"`
	Message  string `json:"message"`
	Attempts int    `json:"attempts"`
}

// describe renders a decision or a dead letter: one line about it, and its
// notice indented below.
func describe(raw []byte) (string, error) {
	var it item
	if err := json.Unmarshal(raw, &it); err != nil {
		return "", fmt.Errorf("a decision that cannot be read: %w", err)
	}
	at := time.UnixMilli(it.At).Format("2006-01-02T15:04:05.000Z07:00")
	var b strings.Builder
	if it.Kind == "deadLetter" {
		fmt.Fprintf(&b, "%s  deadLetter  %s  %s gave up after %s  %s\n    %s",
			at, visible(it.Scope), visible(it.Stage), count(it.Attempts, "attempt"), visible(it.ID), visible(it.Message))
		return b.String(), nil
	}
	fmt.Fprintf(&b, "%s  %-9s  %s  %s, %s", at, visible(it.Route), visible(it.Scope), visible(it.Reason), count(len(it.Events)+it.Cut, "event"))
	if it.Dropped > 0 {
		fmt.Fprintf(&b, ", %d dropped", it.Dropped)
	}
	if it.Gap {
		b.WriteString(", gap")
	}
	fmt.Fprintf(&b, "  %s", visible(it.ID))
	for line := range strings.Lines(it.Notice) {
		fmt.Fprintf(&b, "\n    %s", visible(strings.TrimSuffix(line, "\n")))
	}
	return b.String(), nil
}

func count(n int, of string) string {
	if n == 1 {
		return "1 " + of
	}
	return fmt.Sprintf("%d %ss", n, of)
}
