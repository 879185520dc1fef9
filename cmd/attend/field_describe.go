package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"attend/internal/field"
)

// fieldEntry is what a person reads of an entry.
type fieldEntry struct {
	ID            string          `json:"id"`
	Timestamp     int64           `json:"timestamp"` // Unix milliseconds
	Epoch         int64           `json:"epoch"`
	Agent         *string         `json:"agent"`
	Status        string          `json:"status"`
	Entry         json.RawMessage `json:"entry"`
	Intent        string          `json:"intent"`
	Supersedes    string          `json:"supersedes"`
	SupersededBy  string          `json:"superseded_by"`
	RetractIntent string          `json:"retract_intent"`

	Score  float64 `json:"relevance_score"`
	Reason struct {
		Summary string `json:"summary"`
	} `json:"relevance_reason"`
}

// author names who wrote the entry.
func (e *fieldEntry) author() string {
	if e.Agent == nil {
		return "(nobody)"
	}
	return visible(*e.Agent)
}

// fate says what an entry is, and what stands before and behind it.
func (e *fieldEntry) fate() string {
	text := visible(e.Status)
	if e.SupersededBy != "" {
		text += " by " + visible(e.SupersededBy)
	}
	if e.Supersedes != "" {
		text += ", supersedes " + visible(e.Supersedes)
	}
	return text
}

// fieldConflict is a pair of entries that contradict each other.
type fieldConflict struct {
	A     fieldEntry `json:"a"`
	B     fieldEntry `json:"b"`
	Keys  []string   `json:"keys"`
	Paths []string   `json:"paths"` // with --deep: inside objects
}

// fieldAnswer is what the operations that show entries answer with.
type fieldAnswer struct {
	Entries       []fieldEntry    `json:"entries"`
	More          bool            `json:"more"` // the limit has cut it
	Conflicts     []fieldConflict `json:"conflicts"`
	MoreConflicts bool            `json:"more_conflicts"`
	Cut           int             `json:"cut"` // entries and conflicts, for the size of the answer
}

func readFieldAnswer(raw []byte) (*fieldAnswer, error) {
	var answer fieldAnswer
	if err := json.Unmarshal(raw, &answer); err != nil {
		return nil, fmt.Errorf("answer about entries: %w", err)
	}
	return &answer, nil
}

// describeAttune ranks entries: score and author, why, and what they say.
func describeAttune(_ map[string]any, raw []byte) (string, error) {
	answer, err := readFieldAnswer(raw)
	if err != nil {
		return "", err
	}
	return describeRanked(answer) + describeCut(answer, "entries"), nil
}

// describeCut says how much of an answer was left out.
func describeCut(answer *fieldAnswer, what string) string {
	if answer.Cut == 0 {
		return ""
	}
	return fmt.Sprintf("\nand %d more %s, for which the answer had no room: ask for fewer", answer.Cut, what)
}

// describeReckon does the same, and names each contradiction behind.
func describeReckon(_ map[string]any, raw []byte) (string, error) {
	answer, err := readFieldAnswer(raw)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	b.WriteString(describeRanked(answer))
	if len(answer.Conflicts) == 0 {
		return b.String() + "\nno conflicts" + describeCut(answer, "entries"), nil
	}
	for i := range answer.Conflicts {
		b.WriteString("\n" + describeConflict(&answer.Conflicts[i]))
	}
	if answer.MoreConflicts {
		b.WriteString("\nand more: not every pair was compared")
	}
	return b.String() + describeCut(answer, "entries and conflicts"), nil
}

func describeRanked(answer *fieldAnswer) string {
	entries := answer.Entries
	if len(entries) == 0 {
		return "no entries"
	}
	var lines []string
	for i := range entries {
		e := &entries[i]
		status := ""
		if e.Status != "committed" {
			status = ", " + visible(e.Status)
		}
		lines = append(lines, fmt.Sprintf("%.2f  %s  %s%s  %s\n    %s\n    %s",
			e.Score, visible(e.ID), e.author(), status, visible(e.Reason.Summary), visibleData(string(e.Entry)), visible(e.Intent)))
	}
	if answer.More {
		lines = append(lines, "and more: the daemon shows no more than these")
	}
	return strings.Join(lines, "\n")
}

// describeConflict names the two entries, and under each key both values.
func describeConflict(c *fieldConflict) string {
	var b strings.Builder
	fmt.Fprintf(&b, "conflict  %s (%s) and %s (%s)", visible(c.A.ID), c.A.author(), visible(c.B.ID), c.B.author())
	for _, key := range c.Keys {
		fmt.Fprintf(&b, "\n    %s: %s and %s", visible(key), valueAt(c.A.Entry, key), valueAt(c.B.Entry, key))
	}
	for _, path := range c.Paths {
		keys := field.SplitPath(path)
		fmt.Fprintf(&b, "\n    %s: %s and %s", visible(path), valueAt(c.A.Entry, keys...), valueAt(c.B.Entry, keys...))
	}
	return b.String()
}

// valueAt is the text of the value to which keys lead in an entry.
func valueAt(entry json.RawMessage, keys ...string) string {
	value := field.ValueAt(entry, keys...)
	if value == nil {
		return "?"
	}
	return visibleData(string(value))
}

// describeRead lists entries with what became of them.
func describeRead(_ map[string]any, raw []byte) (string, error) {
	answer, err := readFieldAnswer(raw)
	if err != nil {
		return "", err
	}
	if len(answer.Entries) == 0 {
		return "no entries", nil
	}
	var lines []string
	for i := range answer.Entries {
		e := &answer.Entries[i]
		at := time.UnixMilli(e.Timestamp).Format("2006-01-02T15:04:05.000Z07:00")
		lines = append(lines, fmt.Sprintf("%s  %s  epoch %d  %s  %s\n    %s\n    %s", at, visible(e.ID), e.Epoch, e.author(), e.fate(), visibleData(string(e.Entry)), visible(e.Intent)))
		if e.RetractIntent != "" {
			lines = append(lines, "    retracted: "+visible(e.RetractIntent))
		}
	}
	if answer.More {
		lines = append(lines, "and more: --after "+visible(answer.Entries[len(answer.Entries)-1].ID))
	}
	return strings.Join(lines, "\n"), nil
}

// describeRegister says what a Field knows of an agent now.
func describeRegister(params map[string]any, raw []byte) (string, error) {
	var answer struct {
		Session string `json:"session_id"`
	}
	if err := json.Unmarshal(raw, &answer); err != nil {
		return "", fmt.Errorf("answer to register: %w", err)
	}
	role, _ := params["role"].(string)
	return fmt.Sprintf("%s: registered as %s", visible(answer.Session), visible(role)), nil
}

// describeWritten says what an entry is now.
func describeWritten(status string) func(map[string]any, []byte) (string, error) {
	return func(_ map[string]any, raw []byte) (string, error) {
		var answer struct {
			ID    string `json:"id"`
			Epoch int64  `json:"epoch"`
		}
		if err := json.Unmarshal(raw, &answer); err != nil {
			return "", fmt.Errorf("answer about the entry: %w", err)
		}
		return fmt.Sprintf("%s  %s, epoch %d", visible(answer.ID), status, answer.Epoch), nil
	}
}

// describeDraft names a draft.
func describeDraft(_ map[string]any, raw []byte) (string, error) {
	var answer struct {
		ID string `json:"draft_id"`
	}
	if err := json.Unmarshal(raw, &answer); err != nil {
		return "", fmt.Errorf("answer to draft: %w", err)
	}
	return visible(answer.ID) + "  draft", nil
}

// describeDone says what was done to what a parameter names.
func describeDone(param, what string) func(map[string]any, []byte) (string, error) {
	return func(params map[string]any, _ []byte) (string, error) {
		name, _ := params[param].(string)
		return visible(name) + "  " + what, nil
	}
}
