package config

import (
	"cmp"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"attend/internal/engine"
)

// Judges says who judges settled windows, what they are shown, and what may
// change their answer.
type Judges struct {
	// Entries are asked in order: the next one where an entry's condition does
	// not fit, where it fails or is not sure enough. There is at least one.
	Entries []Judge
	// Record keeps what was sent to judges and what came back in the log.
	Record bool
	// Calls is how many calls run at once, over all scopes.
	Calls int
	// Overrides may replace a judge's route: the first whose condition holds.
	Overrides []Override
	// Context brings facts and questions for each call, Capture brings images.
	Context, Capture Hook
}

// Judge is one entry: its type, and the options of that type. An option that
// was not given is zero, but for Images.
type Judge struct {
	Place Place
	Name  string // unlike that of any other entry; its type, unless given
	Type  JudgeType

	When   string  // a condition (CEL) on the window, "" for always
	Below  float64 // an answer with less confidence asks the next entry; 0 for none
	OnNext bool    // onError: next: a failure asks the next entry

	Model        string
	URL          string // base URL, "" for the one of the type
	Key          Secret // "" where none is sent
	System       string // replaces the system prompt
	Instructions string // replaces the instructions of the route's question
	Criteria     map[engine.Route]string
	LongContext  bool
	Images       bool // captured images are sent

	Rules     string // text of the rules, in YAML
	Command   []string
	Variables []Variable // of the command's environment, in the order of the file

	Timeout     time.Duration // of one call; 0 leaves it to judgeTimeoutMs
	Concurrency int           // calls at once; 0 for no limit of its own
	PerSecond   float64       // calls; 0 for no limit
	DailyCalls  int64         // requests in a day of UTC; 0 for no limit
	DailyTokens int64         // in and out, in a day of UTC; 0 for no limit

	keyVariable string // that holds the key, "" for none
	command     Place  // of Command
}

// JudgeType names a type of judge.
type JudgeType string

// The types of judge.
const (
	JudgeRule      JudgeType = "rule"      // a flush interrupts, anything else queues
	JudgeRules     JudgeType = "rules"     // conditions in a file
	JudgeJev       JudgeType = "jev"       // TypeSafe System One
	JudgeDecisions JudgeType = "decisions" // OpenAI Decisions
	JudgeAnthropic JudgeType = "anthropic" // Messages
	JudgeOpenAI    JudgeType = "openai"    // Responses
	JudgeGemini    JudgeType = "gemini"    // generateContent
	JudgeChat      JudgeType = "chat"      // OpenAI-compatible chat completions
	JudgeHTTP      JudgeType = "http"      // anything that takes and answers JSON
	JudgeCommand   JudgeType = "command"   // a program
)

// Override replaces a judge's route where its condition holds.
type Override struct {
	Place Place
	Name  string // what the record calls it, "" for none
	When  string // a condition (CEL) on the window and the verdict
	Then  engine.Route
}

// Label is what an override is called: its name, or "override 2", by its place
// among the others, counted from 0 here.
func (o *Override) Label(at int) string { return cmp.Or(o.Name, fmt.Sprintf("override %d", at+1)) }

// Hook is asked before each call of a judge: over HTTP, or as a command. The
// zero Hook is none.
type Hook struct {
	Place     Place
	URL       string
	Key       Secret // the bearer token that is sent, "" for none
	Command   []string
	Variables []Variable
}

// IsZero reports whether there is no such hook.
func (h *Hook) IsZero() bool { return h.URL == "" && len(h.Command) == 0 }

// Variable is one of a command's environment.
type Variable struct {
	Name  string
	Value Secret
}

// pure reports whether the fold can ask the judge itself: it alone, always.
func (j *Judges) pure() bool {
	return len(j.Entries) == 1 && j.Entries[0].When == "" && (j.Entries[0].Type == JudgeRule || j.Entries[0].Type == JudgeRules)
}

// String names the judges in the order in which they are asked.
func (j *Judges) String() string {
	names := make([]string, len(j.Entries))
	for i := range j.Entries {
		names[i] = j.Entries[i].Name
	}
	return strings.Join(names, ", ")
}

// LogValue shows an entry in a log, without its key.
func (j Judge) LogValue() slog.Value {
	return slog.GroupValue(slog.String("name", j.Name), slog.String("type", string(j.Type)), slog.String("model", j.Model))
}

// name is what the policy calls the judges. The fold knows rule by it, and rules
// by their text.
func (j *Judges) name() string {
	if j.pure() && j.Entries[0].Type == JudgeRule {
		return string(JudgeRule)
	}
	return j.String()
}
