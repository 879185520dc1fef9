package field

import (
	"bytes"
	"encoding/json"
	"maps"
	"math"
	"slices"
	"strings"
	"unicode/utf8"
)

// input is an operation's object of parameters. Its readers make the checks
// that are the same for all; the order of checks is the caller's.
type input struct {
	op     Op
	known  []string          // parameters that there are
	params map[string]string // JSON by name
}

func parseInput(op Op, params json.RawMessage) (*input, error) {
	return parse(&input{op: op, known: op.spec().params}, params)
}

// parsePushed is parseInput for a subscription.
func parsePushed(op Op, params json.RawMessage) (*input, error) {
	spec := op.spec()
	return parse(&input{op: op, known: slices.Concat(spec.params, spec.pushed)}, params)
}

func parse(in *input, params json.RawMessage) (*input, error) {
	op, absent := in.op, in.op.spec().absent
	text := bytes.TrimSpace(params)
	in.params = make(map[string]string)
	switch {
	case len(text) == 0 || string(text) == "null":
		if op == OpRead {
			return in, nil
		}
		return nil, refuse(absent, "%s needs an object of parameters (%s)", op, in.names())
	case !utf8.Valid(text) || !json.Valid(text):
		return nil, refuse(absent, "the parameters of %s are not valid JSON in UTF-8", op)
	case text[0] != '{':
		return nil, refuse(absent, "the parameters of %s are not an object: want one with %s", op, in.names())
	}
	for key, raw := range members(string(text)) {
		in.params[key] = raw
	}
	return in, nil
}

func (in *input) names() string { return strings.Join(in.known, ", ") }

// closed refuses parameters that the operation does not have. The Field's own
// name may stand among them: who calls the rules has chosen the Field by it.
func (in *input) closed() error {
	for _, name := range slices.Sorted(maps.Keys(in.params)) {
		if name != "field" && !slices.Contains(in.known, name) {
			return refuse(in.op.spec().unknown, "%s has no parameter %q: it has %s", in.op, shortened(name), in.names())
		}
	}
	return nil
}

// value returns a parameter, or one of kindNone.
func (in *input) value(name string) value {
	raw, ok := in.params[name]
	switch {
	case !ok:
		return value{}
	case raw[0] == '"' && half(raw):
		return value{kind: kindBroken}
	default:
		return valueOf(raw)
	}
}

// bad refuses a parameter, with what is said of it unless it is no text at all.
func (in *input) bad(param, code, format string, args ...any) *Error {
	if in.value(param).kind == kindBroken {
		return refuse(code, "%s of %s holds %s", param, in.op, halfPair)
	}
	return refuse(code, format, args...)
}

// given returns a parameter for which null says the same as nothing.
func (in *input) given(name string) (value, bool) {
	v := in.value(name)
	return v, v.kind > kindNull
}

// name reads who someone is: a text that must be there and not be blank.
func (in *input) name(param string) (string, error) {
	v := in.value(param)
	if v.kind != kindString || blank(v.text) {
		return "", in.bad(param, AgentRequired, "%s needs %s: a text that is not blank", in.op, param)
	}
	return v.text, checkName(param, v.text, AgentRequired)
}

// nameIfGiven reads a text that may be left out.
func (in *input) nameIfGiven(param, code string) (string, error) {
	v, ok := in.given(param)
	if !ok {
		return "", nil
	}
	if v.kind != kindString {
		return "", in.bad(param, code, "%s of %s is not a text", param, in.op)
	}
	return v.text, checkName(param, v.text, code)
}

func checkName(param, text, code string) error {
	if len(text) > MaxName {
		return refuse(code, "%s is %d bytes long: at most %d", param, len(text), MaxName)
	}
	return nil
}

// flag reads true or false; left out is false.
func (in *input) flag(param string) (bool, error) {
	v, ok := in.given(param)
	if ok && v.kind != kindBool {
		return false, refuse(in.op.spec().unknown, "%s of %s is neither true nor false", param, in.op)
	}
	return v.num == 1, nil
}

// count reads a whole number of at least 0; one beyond limit is the limit.
func (in *input) count(param string, usual, limit int) (n int, beyond bool, err error) {
	v, ok := in.given(param)
	switch {
	case !ok:
		return usual, false, nil
	case v.kind != kindNumber:
		return 0, false, refuse(InvalidQuery, "%s of %s is not a number", param, in.op)
	case v.num < 0:
		return 0, false, refuse(InvalidQuery, "%s of %s is negative: want 0 or more", param, in.op)
	case v.num != math.Trunc(v.num):
		return 0, false, refuse(InvalidQuery, "%s of %s is not a whole number", param, in.op)
	case v.num > float64(limit):
		return limit, true, nil
	}
	return int(v.num), false, nil
}

// entry reads an entry's payload, without insignificant space.
func (in *input) entry() (string, error) {
	raw := in.params["entry"]
	if !isObject(raw) {
		return "", refuse(InvalidEntry, "%s needs entry: an object", in.op)
	}
	var b bytes.Buffer
	if err := json.Compact(&b, []byte(raw)); err != nil {
		return "", refuse(InvalidEntry, "entry is not valid JSON: %v", err)
	}
	if b.Len() > MaxEntry {
		return "", refuse(InvalidEntry, "entry is %d bytes of JSON: at most %d; keep what is large elsewhere, and write where", b.Len(), MaxEntry)
	}
	if why := flaw("entry", b.String()); why != "" {
		return "", refuse(InvalidEntry, "%s", why)
	}
	return b.String(), nil
}

// intentRule says which intents an operation refuses, and how: they differ
// (docs/field.md, "Errors").
type intentRule uint8

const (
	intentOfWrite   intentRule = iota // not a text: required
	intentOfDraft                     // nor may it be blank, whatever the minimum
	intentOfDiscard                   // nor empty
	intentOfAct                       // retract and supersede: whatever is wrong, it is too short
)

func (in *input) intent(rule intentRule, least int) (string, error) {
	v := in.value("intent")
	missing := v.kind != kindString ||
		rule == intentOfDraft && blank(v.text) ||
		rule == intentOfDiscard && v.text == ""
	length := units(trim(v.text))
	switch {
	case missing && rule != intentOfAct:
		return "", in.bad("intent", IntentRequired, "%s needs intent: a text that says why", in.op)
	case v.kind != kindString, least > 0 && length < least:
		e := refuse(IntentTooShort, "intent has %d characters: %s needs at least %d", length, in.op, max(least, 0))
		if v.kind != kindString {
			e = in.bad("intent", IntentTooShort, "intent is not a text: %s needs one that says why", in.op)
			length = 0
		}
		e.Details = map[string]any{"minIntentLength": least, "actualLength": length}
		return "", e
	case len(v.text) > MaxIntent:
		return "", refuse(InvalidEntry, "intent is %d bytes long: at most %d", len(v.text), MaxIntent)
	}
	return v.text, nil
}
