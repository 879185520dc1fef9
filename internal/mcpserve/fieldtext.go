package mcpserve

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"

	"attend/internal/field"
)

// How much of a result is told in words: the structured content has all of it.
const (
	maxFieldText = 64 << 10 // bytes; what goes beyond is counted
	maxShown     = 2 << 10  // bytes of one entry or intent
	maxValue     = 200      // bytes of one value of a conflict
)

// text is a result for reading. Whatever agents have written is quoted, so that
// it cannot pass for a line of ours.
func (f *fieldResult) text(op field.Op) string {
	var b strings.Builder
	switch r := f.result.(type) {
	case field.Page:
		fmt.Fprintf(&b, "%s, in the order in which they were written.\n", entriesCounted(len(r.Entries)))
		writeEntries(&b, r.Entries[:f.entries], len(r.Entries), writeEntry)
		if n := f.entries; n > 0 && (r.More || n < len(r.Entries)) {
			fmt.Fprintf(&b, "\nThere are more: call field_read with after %q.\n", r.Entries[n-1].ID)
		}
	case field.Attuned:
		writeAttuned(&b, r.Entries[:f.entries], len(r.Entries)+r.Cut, r.More)
	case field.Reckoned:
		f.writeConflicts(&b, &r)
		b.WriteString("\n")
		writeAttuned(&b, r.Entries[:f.entries], len(r.Entries)+r.Cut-r.CutConflicts, r.More)
	case field.Registered:
		fmt.Fprintf(&b, "The Field knows the role of %q.\n", r.Session)
	case field.Written:
		fmt.Fprintf(&b, "%s: id %s, epoch %d.\n", writtenText(op), r.ID, r.Epoch)
	case field.Drafted:
		fmt.Fprintf(&b, "Only you see the draft: show it to all by field_commit with draft_id %q, or give it up by field_discard.\n", r.DraftID)
	default:
		b.WriteString(doneText(op))
	}
	return b.String()
}

func entriesCounted(n int) string {
	if n == 1 {
		return "1 entry"
	}
	return fmt.Sprintf("%d entries", n)
}

func writtenText(op field.Op) string {
	switch op {
	case field.OpCommit:
		return "Everybody sees it now"
	case field.OpSupersede:
		return "It has taken the place of the other"
	default:
		return "Everybody sees it"
	}
}

func doneText(op field.Op) string {
	switch op {
	case field.OpDeregister:
		return "Your role is out of the Field.\n"
	case field.OpDiscard:
		return "The draft is given up.\n"
	case field.OpRetract:
		return "The entry is taken back.\n"
	default:
		return "Done.\n"
	}
}

func writeAttuned(b *strings.Builder, shown []field.Scored, all int, more bool) {
	if all == 0 {
		b.WriteString("No entry of another agent is relevant to you.\n")
		return
	}
	fmt.Fprintf(b, "%s, the most relevant first.\n", entriesCounted(all))
	writeEntries(b, shown, all, writeScored)
	if more {
		fmt.Fprintf(b, "\n(there are more: the daemon gives %d at most)\n", all)
	}
}

// writeEntries writes entries for as long as there is room.
func writeEntries[T any](b *strings.Builder, entries []T, all int, write func(*strings.Builder, int, *T)) {
	for i := range entries {
		if b.Len() > maxFieldText {
			entries = entries[:i]
			break
		}
		b.WriteString("\n")
		write(b, i+1, &entries[i])
	}
	if left := all - len(entries); left > 0 {
		fmt.Fprintf(b, "\n(%d more not shown here)\n", left)
	}
}

func writeScored(b *strings.Builder, n int, e *field.Scored) {
	fmt.Fprintf(b, "%d. %.2f (%s), by %s, id %s, epoch %d%s\n", n, e.Score, e.Reason.Summary, author(&e.Entry), e.ID, e.Epoch, draftMark(&e.Entry))
	writePayload(b, &e.Entry)
}

func writeEntry(b *strings.Builder, n int, e *field.Entry) {
	fmt.Fprintf(b, "%d. %s, by %s, id %s, epoch %d", n, e.Status, author(e), e.ID, e.Epoch)
	if e.Supersedes != "" {
		fmt.Fprintf(b, ", in the place of %s", e.Supersedes)
	}
	if e.SupersededBy != "" {
		fmt.Fprintf(b, ", now %s", e.SupersededBy)
	}
	b.WriteString("\n")
	writePayload(b, e)
	if e.RetractIntent != "" {
		fmt.Fprintf(b, "> taken back: %s\n", quoted(e.RetractIntent))
	}
}

func writePayload(b *strings.Builder, e *field.Entry) {
	fmt.Fprintf(b, "> %s\n> why: %s\n", cutText(compacted(e.Entry), maxShown), quoted(e.Intent))
}

func author(e *field.Entry) string {
	if e.Agent == "" {
		return "nobody named"
	}
	return fmt.Sprintf("%q", e.Agent)
}

func draftMark(e *field.Entry) string {
	if e.Status == field.StatusDraft {
		return ", your draft"
	}
	return ""
}

// writeConflicts names what contradicts what, with both values.
func (f *fieldResult) writeConflicts(b *strings.Builder, r *field.Reckoned) {
	all := len(r.Conflicts) + r.CutConflicts
	switch all {
	case 0:
		b.WriteString("Nothing here contradicts anything.\n")
		return
	case 1:
		b.WriteString("1 conflict.\n")
	default:
		fmt.Fprintf(b, "%d conflicts, the oldest first.\n", all)
	}
	told := 0
	for i := range r.Conflicts[:f.conflicts] {
		if b.Len() > maxFieldText/2 {
			break
		}
		writeConflict(b, &r.Conflicts[i])
		told++
	}
	if left := all - told; left > 0 {
		fmt.Fprintf(b, "(%d more not shown here)\n", left)
	}
	if r.MoreConflicts {
		b.WriteString("(there may be more: not every pair was compared)\n")
	}
	b.WriteString("Which of the two is right is for you to find out: then field_supersede the other, or field_retract it if it is yours.\n")
}

func writeConflict(b *strings.Builder, c *field.Conflict) {
	for _, key := range c.Keys {
		writeSides(b, c, key, []string{key})
	}
	for _, path := range c.Paths {
		writeSides(b, c, path, field.SplitPath(path))
	}
}

func writeSides(b *strings.Builder, c *field.Conflict, name string, path []string) {
	fmt.Fprintf(b, "> %q: %s says %s (id %s), %s says %s (id %s)\n", name,
		author(&c.A.Entry), valueAt(c.A.Entry.Entry, path), c.A.ID, author(&c.B.Entry), valueAt(c.B.Entry.Entry, path), c.B.ID)
}

// valueAt is the JSON of what stands at a path of an entry.
func valueAt(entry json.RawMessage, path []string) string {
	value := field.ValueAt(entry, path...)
	if value == nil {
		return "nothing"
	}
	return cutText(compacted(value), maxValue)
}

// compacted writes JSON on one line.
func compacted(raw json.RawMessage) string {
	var b bytes.Buffer
	if json.Compact(&b, raw) != nil {
		return "?"
	}
	return b.String()
}

func quoted(s string) string { return fmt.Sprintf("%q", cutText(s, maxShown)) }

// cutText shortens a text to about so many bytes, and says by how much.
func cutText(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	at := limit
	for at > 0 && !utf8.RuneStart(s[at]) {
		at--
	}
	return fmt.Sprintf("%s… (%d bytes more)", s[:at], len(s)-at)
}
