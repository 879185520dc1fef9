package expr

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"

	"attend/internal/engine"
)

// Program is a compiled expression. It is safe for concurrent use.
type Program struct {
	source  string
	program cel.Program
	uses    map[string]bool
	quotes  bool // its failures are told to who sent what it looks at
}

// What an expression may look at besides its variables; see [Program.Uses].
const (
	// Bodies are what events say: their id, text and data.
	Bodies = "bodies"
	// Zone is a time zone by name, or one that is not written down: what it
	// means depends on the machine, and so may the expression's value.
	Zone = "zone"
)

// Uses reports whether the expression looks at a variable, or at [Bodies] or
// [Zone]. In doubt it says yes.
func (p *Program) Uses(name string) bool { return p.uses[name] }

// Keys lists the keys that the expression looks for in a variable that is a
// map, where it names them, in order.
func (p *Program) Keys(variable string) []string {
	var keys []string
	for use := range p.uses { //arch:sorted below
		if key, ok := strings.CutPrefix(use, variable+keyMark); ok {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return keys
}

// Source returns the expression as it was written.
func (p *Program) Source() string { return p.source }

// Met reports whether a condition is met. One that fails is not, and err says
// why, as a rule as a *[Failure].
func (p *Program) Met(vars *Vars) (bool, error) {
	v, err := p.eval(vars)
	if err != nil {
		return false, err
	}
	met, ok := v.(types.Bool)
	if !ok {
		return false, fmt.Errorf("is %s, and must be true or false", plainType(typeOf(v)))
	}
	return bool(met), nil
}

// String returns the value as a string. Whole numbers are written without a
// fraction; null is "".
func (p *Program) String(vars *Vars) (string, error) {
	v, err := p.eval(vars)
	if err != nil {
		return "", err
	}
	switch v := v.(type) {
	case types.Null:
		return "", nil
	case types.String, types.Int, types.Uint, types.Bool, types.Double:
		s, ok := v.ConvertToType(types.StringType).(types.String)
		if ok {
			return string(s), nil
		}
	}
	return "", fmt.Errorf("is %s, and must be a string", plainType(typeOf(v)))
}

// Time returns the value as an instant. ok is false for null.
func (p *Program) Time(vars *Vars) (at engine.Time, ok bool, err error) {
	v, err := p.eval(vars)
	if err != nil {
		return 0, false, err
	}
	switch v := v.(type) {
	case types.Null:
		return 0, false, nil
	case types.Timestamp:
		return engine.Time(v.UnixMilli()), true, nil
	case types.Int:
		return engine.Time(v), true, nil
	case types.String:
		t, err := time.Parse(time.RFC3339Nano, string(v))
		if err != nil {
			return 0, false, errors.New("is text that is no RFC 3339 time, as 2026-01-02T15:04:05Z is")
		}
		return engine.Time(t.UnixMilli()), true, nil
	default:
		return 0, false, fmt.Errorf("is %s, and must be a timestamp, RFC 3339 text or Unix milliseconds", plainType(typeOf(v)))
	}
}

// JSON returns the value as JSON, compact, the keys of objects in order.
func (p *Program) JSON(vars *Vars) (json.RawMessage, error) {
	v, err := p.eval(vars)
	if err != nil {
		return nil, err
	}
	native, err := nativeOf(v)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false) // it is read by people and models, not by a browser
	if err := enc.Encode(native); err != nil {
		return nil, fmt.Errorf("is no JSON value: %w", err)
	}
	return bytes.TrimRight(b.Bytes(), "\n"), nil
}

func (p *Program) eval(vars *Vars) (ref.Val, error) {
	if vars.spent >= TotalLimit {
		return nil, fmt.Errorf("was not looked at: the expressions before it cost more than %d together", TotalLimit)
	}
	v, details, err := p.program.Eval(vars)
	if details != nil && details.ActualCost() != nil {
		vars.spent += *details.ActualCost()
	}
	if err != nil {
		return nil, p.failure(err.Error())
	}
	return v, nil
}
