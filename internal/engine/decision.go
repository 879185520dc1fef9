package engine

// Answer is what a judge said. Numbers out of [0, 1] and NaN count as absent.
type Answer struct {
	Route         Route              `json:"route"`
	Probabilities map[Route]float64  `json:"probabilities,omitempty"`
	Predicates    map[string]float64 `json:"predicates,omitempty"`
	Confidence    *float64           `json:"confidence,omitempty"`
	By            string             `json:"by,omitempty"`      // of a pure judge: which of its rules it was
	Trouble       string             `json:"trouble,omitempty"` // of a pure judge: what failed on the way, in a line
}

// Change names what changed a judged route.
type Change string

// The changes, in the order in which they are applied.
const (
	ChangedByOverride  Change = "override"
	ChangedByThreshold Change = "threshold"
	ChangedByFloor     Change = "floor"
	ChangedBySilence   Change = "silence"
)

// Verdict is an answer after normalising and after everything that may change
// its route. It is what moves the fold.
type Verdict struct {
	Window        string             `json:"window"`
	Attempt       int                `json:"attempt"` // 0: no call was made (a pure judge, a silence)
	Route         Route              `json:"route"`
	JudgedRoute   Route              `json:"judgedRoute,omitempty"` // 0 when no judge was asked
	Changed       []Change           `json:"changed,omitempty"`
	Override      string             `json:"override,omitempty"`      // the name of the override that changed the route; "" for none, and for one without a name
	Probabilities *Probabilities     `json:"probabilities,omitempty"` // nil when no judge was asked
	Predicates    map[string]float64 `json:"predicates,omitempty"`
	Confidence    *float64           `json:"confidence,omitempty"`
	At            Time               `json:"at"` // when the judge answered; for a pure judge the close
	Judge         *JudgeName         `json:"judge,omitempty"`
	Policy        uint32             `json:"policy"`              // whose judge settings held
	HeldUntil     Time               `json:"heldUntil,omitempty"` // of a wait
	Calls         []Exchange         `json:"calls,omitempty"`     // what was exchanged with judges; nothing of it moves the fold
}

// Exchange is one request to a judge and what came back, for people who ask
// why. Prompt and Answer are bounded, and left out where the configuration says
// judgeRecord: false. It holds neither keys nor images.
type Exchange struct {
	Judge        string     `json:"judge"`           // as configured
	Model        string     `json:"model,omitempty"` // as the answer names it
	Outcome      string     `json:"outcome"`         // answered, below, passed (its condition failed), or a class of failure: error, malformed, permanent, refused, held, timeout
	Message      string     `json:"message,omitempty"`
	Status       int        `json:"status,omitempty"`       // of the HTTP response
	RequestID    string     `json:"requestId,omitempty"`    // as the judge's host names the call
	RetryAfterMs int64      `json:"retryAfterMs,omitempty"` // as the judge asked
	TookMs       int64      `json:"tookMs"`
	InputTokens  int64      `json:"inputTokens,omitempty"`
	OutputTokens int64      `json:"outputTokens,omitempty"`
	Images       []ImageRef `json:"images,omitempty"` // that were sent
	Cut          int        `json:"cut,omitempty"`    // events of the window for which there was no room
	Prompt       string     `json:"prompt,omitempty"` // what was sent, without images
	Answer       string     `json:"answer,omitempty"` // what came back, as text
}

// ImageRef tells an image apart without holding it.
type ImageRef struct {
	SHA256 string `json:"sha256"` // of its bytes, in hex
	MIME   string `json:"mimeType"`
	Bytes  int    `json:"bytes"`
}

// Probabilities holds one number for each route, in the fixed route order,
// summing to 1.
type Probabilities [routeCount]float64

// Of returns the probability of a route.
func (p *Probabilities) Of(r Route) float64 { return p[r-1] }

// JudgeName tells who judged.
type JudgeName struct {
	Name  string `json:"name"`
	Model string `json:"model,omitempty"`
}

// Recent is one of the scope's last verdicts as a judge sees it.
type Recent struct {
	Window      string `json:"window"`
	At          Time   `json:"at"`
	Route       Route  `json:"route"` // as finally decided
	JudgedRoute Route  `json:"judgedRoute"`
}

// Decision is D, the one shape in which a decision is shown everywhere
// (design, section 6). Times are Unix milliseconds.
type Decision struct {
	ID            string             `json:"id"`
	Kind          string             `json:"kind"` // always "decision"
	Scope         string             `json:"scope"`
	Route         Route              `json:"route"`
	JudgedRoute   *Route             `json:"judgedRoute"`
	Changed       []Change           `json:"changed"`
	Reason        Reason             `json:"reason"`
	Trigger       Trigger            `json:"trigger"`
	Probabilities map[string]float64 `json:"probabilities"`
	Predicates    map[string]float64 `json:"predicates"`
	Confidence    *float64           `json:"confidence"`
	Waits         int                `json:"waits"`
	Dropped       int                `json:"dropped"`
	Gap           bool               `json:"gap"`
	At            Time               `json:"at"`
	Due           Time               `json:"due"`
	SettledAt     Time               `json:"settledAt"`
	Notice        string             `json:"notice"`
	Events        []EventView        `json:"events"`
	Cut           int                `json:"cut"` // events left out of Events
	Judge         *JudgeName         `json:"judge"`
}

// EventView is an event as D shows it. Data is filled over HTTP alone.
type EventView struct {
	ID       string   `json:"id"`
	Name     string   `json:"name"`
	Kind     Kind     `json:"kind"`
	SeenAt   Time     `json:"seenAt"`
	Text     string   `json:"text,omitempty"`
	Data     RawJSON  `json:"data,omitempty"`
	Position Position `json:"-"`
}

// RawJSON is a JSON value kept byte for byte.
type RawJSON []byte

// MarshalJSON writes the bytes as they are; nil is null.
func (r RawJSON) MarshalJSON() ([]byte, error) {
	if r == nil {
		return []byte("null"), nil
	}
	return r, nil
}

// UnmarshalJSON keeps a copy of the bytes.
func (r *RawJSON) UnmarshalJSON(b []byte) error {
	*r = append((*r)[:0], b...)
	return nil
}

// DeadLetter is what is left when a stage gives up on a window or decision.
type DeadLetter struct {
	ID        string      `json:"id"`
	Kind      string      `json:"kind"`  // always "deadLetter"
	Stage     string      `json:"stage"` // judge, sink or webhook
	Scope     string      `json:"scope"`
	WindowID  string      `json:"windowId"`
	Decision  *Decision   `json:"decision"` // null when the judge gave up
	Message   string      `json:"message"`
	Permanent bool        `json:"permanent"`
	Attempts  int         `json:"attempts"`
	At        Time        `json:"at"`
	Events    []EventView `json:"events"`
	Cut       int         `json:"cut"`
	Number    int         `json:"number"`            // 1 is the window's first dead letter
	Settled   *Settled    `json:"settled,omitempty"` // so that it can be requeued
	Members   Members     `json:"members,omitempty"`
}
