package config

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Place is where something was written. Line and Column start at 1 and count
// characters; they are 0 where there are none (a flag, a variable) or where
// the parser gives none.
type Place struct {
	Source string `json:"source"` // a file, "--port", "ATTEND_PORT"
	Line   int    `json:"line,omitempty"`
	Column int    `json:"column,omitempty"`
}

// String writes "attend.yaml:12:5", or as much of it as is known.
func (p Place) String() string {
	switch {
	case p.Line == 0:
		return p.Source
	case p.Column == 0:
		return fmt.Sprintf("%s:%d", p.Source, p.Line)
	default:
		return fmt.Sprintf("%s:%d:%d", p.Source, p.Line, p.Column)
	}
}

// Mistake is one thing that must be mended before the daemon starts.
type Mistake struct {
	Place
	Key     string `json:"key,omitempty"` // as "policy.maxEvents"; "" when it concerns the whole source
	Problem string `json:"problem"`       // what is wrong, and how to mend it
}

// String writes the mistake on one line:
// "attend.yaml:12:5: policy.maxEvent: unknown setting; did you mean maxEvents?".
func (m Mistake) String() string {
	parts := make([]string, 0, 3)
	for _, s := range []string{m.Place.String(), m.Key, m.Problem} {
		if s != "" {
			parts = append(parts, s)
		}
	}
	return strings.Join(parts, ": ")
}

// Mistakes is the error of [Load] and [LoadKinds]: every mistake, in the order
// in which a person reads the sources.
type Mistakes []Mistake

// maxShown bounds the length of an error; a report holds every mistake.
const maxShown = 50

// Error writes one mistake a line, at most 50 of them.
func (ms Mistakes) Error() string {
	lines := make([]string, 0, min(len(ms), maxShown)+1)
	for i, m := range ms {
		if i == maxShown {
			lines = append(lines, fmt.Sprintf("and %d more", len(ms)-maxShown))
			break
		}
		lines = append(lines, m.String())
	}
	return strings.Join(lines, "\n")
}

// sorted orders mistakes by line and column within each source, and keeps the
// sources in the order in which they were read.
func (ms Mistakes) sorted() Mistakes {
	rank := make(map[string]int)
	for _, m := range ms {
		if _, seen := rank[m.Source]; !seen {
			rank[m.Source] = len(rank)
		}
	}
	slices.SortStableFunc(ms, func(a, b Mistake) int {
		return cmp.Or(
			cmp.Compare(rank[a.Source], rank[b.Source]),
			cmp.Compare(a.Line, b.Line),
			cmp.Compare(a.Column, b.Column))
	})
	return ms
}

// err is nil when nothing is wrong, so that no caller meets a typed nil.
func (ms Mistakes) err() error {
	if len(ms) == 0 {
		return nil
	}
	return ms.sorted()
}

// WarningCode names a kind of warning, for scripts.
type WarningCode string

// The warnings.
const (
	WarnNoKinds        WarningCode = "noKinds"        // no kinds: nothing can wake anyone
	WarnNoActs         WarningCode = "noActs"         // kinds, but no act among them: the same
	WarnNoFlush        WarningCode = "noFlush"        // nothing wakes the agent at once
	WarnShadowed       WarningCode = "shadowed"       // a pattern that can never match
	WarnUnmapped       WarningCode = "unmapped"       // an event name that no pattern matches
	WarnWorldReadable  WarningCode = "worldReadable"  // a file with secrets that everyone may read
	WarnRemoteOpen     WarningCode = "remoteOpen"     // other machines reach the daemon without a token
	WarnShortToken     WarningCode = "shortToken"     // a token that could be guessed
	WarnNoTokens       WarningCode = "noTokens"       // a reload took the tokens away
	WarnExpired        WarningCode = "expired"        // a token with which nobody gets in any more
	WarnIgnored        WarningCode = "ignored"        // a setting for another kind of store
	WarnShortRetention WarningCode = "shortRetention" // events go before their windows settle
	WarnWideAllow      WarningCode = "wideAllow"      // callbacks may lead almost everywhere
	WarnNoLastResort   WarningCode = "noLastResort"   // nobody hears of what the judge cannot answer
	WarnPlainHTTP      WarningCode = "plainHttp"      // what is judged crosses the network in the clear
	WarnNoFacts        WarningCode = "noFacts"        // a condition looks at facts, and nothing brings any
	WarnNoPredicate    WarningCode = "noPredicate"    // an override looks for an answer that nobody gives
	WarnSharedSecret   WarningCode = "sharedSecret"   // the sender of one hook may send as that of another
	WarnUnsignedID     WarningCode = "unsignedId"     // a delivery could be sent again under another id
	WarnNoKey          WarningCode = "noKey"          // a judge elsewhere is called without a key
)

// Warning is something legal that is probably not meant.
type Warning struct {
	Place
	Code    WarningCode `json:"code"`
	Message string      `json:"message"`
}

// String writes the warning on one line.
func (w Warning) String() string {
	if w.Source == "" {
		return w.Message
	}
	return w.Place.String() + ": " + w.Message
}
