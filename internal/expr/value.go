package expr

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/common/types/traits"
)

// adapter makes values of what an expression is given. Maps become ones that
// are walked in the order of their keys.
type adapter struct{ types.Adapter }

func (a adapter) NativeToValue(v any) ref.Val {
	switch v := v.(type) {
	case map[string]any:
		return orderedMap(v)
	default:
		return a.Adapter.NativeToValue(v)
	}
}

// ordered is a map that is walked in the order of its keys. It hides that the
// map below can be folded, which would walk in Go's order, which is none.
type ordered struct {
	traits.Mapper
	keys []ref.Val
}

func orderedMap(entries map[string]any) ordered {
	keys := make([]string, 0, len(entries))
	for k := range entries { //arch:sorted below
		keys = append(keys, k)
	}
	slices.Sort(keys)
	m := ordered{Mapper: types.NewStringInterfaceMap(types.DefaultTypeAdapter, entries), keys: make([]ref.Val, len(keys))}
	for i, k := range keys {
		m.keys[i] = types.String(k)
	}
	return m
}

func (m ordered) Iterator() traits.Iterator {
	return types.NewRefValList(types.DefaultTypeAdapter, m.keys).Iterator()
}

// MaxValues is how many values the data of a window's events may have together,
// the keys of objects counted too.
const MaxValues = 250_000

const tooManyValues = "too many to look at"

// decoder makes values of JSON. What it has made is counted, so that a window
// full of the smallest of values cannot take long to read: the JSON by which
// [MaxValues] is passed is an error.
type decoder struct{ made int }

// value makes a value of JSON: a whole number that fits is an int, any other a
// double. Nothing at all is an empty object, so that has() can be asked of it.
// What is not JSON is an error.
func (d *decoder) value(raw []byte) ref.Val {
	if len(raw) == 0 {
		return orderedMap(nil)
	}
	if d.made += valuesIn(raw); d.made > MaxValues {
		return types.NewErr("there are more than %d JSON values together: %s", MaxValues, tooManyValues)
	}
	read := json.NewDecoder(bytes.NewReader(raw))
	read.UseNumber()
	var v any
	if err := read.Decode(&v); err != nil {
		return types.NewErr("not JSON: %v", err)
	}
	return valueOf(v)
}

// valuesIn counts the values and keys of JSON without reading it: no fewer than
// there are.
func valuesIn(raw []byte) int {
	n, text := 1, false
	for i := 0; i < len(raw); i++ {
		switch c := raw[i]; {
		case text && c == '\\':
			i++
		case c == '"':
			text = !text
		case !text && (c == ',' || c == ':' || c == '[' || c == '{'):
			n++
		}
	}
	return n
}

func valueOf(v any) ref.Val {
	switch v := v.(type) {
	case nil:
		return types.NullValue
	case bool:
		return types.Bool(v)
	case string:
		return types.String(v)
	case json.Number:
		return number(string(v))
	case []any:
		elements := make([]ref.Val, len(v))
		for i := range v {
			elements[i] = valueOf(v[i])
		}
		return types.NewRefValList(types.DefaultTypeAdapter, elements)
	case map[string]any:
		for k, e := range v { //arch:sorted each entry is turned by itself
			v[k] = valueOf(e)
		}
		return orderedMap(v)
	default:
		return types.NewErr("no JSON value: %T", v)
	}
}

// number reads a JSON number. 3.0 and 3e2 are whole, as JSON has one type of
// number and producers write it as it comes.
func number(s string) ref.Val {
	if i, err := strconv.ParseInt(s, 10, 64); err == nil {
		return types.Int(i)
	}
	f, _ := strconv.ParseFloat(s, 64) // it is a number: out of range alone fails, and is then infinite
	if i := int64(f); strings.ContainsAny(s, ".eE") && f > -1<<53 && f < 1<<53 && float64(i) == f {
		return types.Int(i)
	}
	return types.Double(f)
}

// MaxResult bounds the JSON that an expression may make: bytes of text, and one
// for each value. A list may hold the same value many times.
const MaxResult = 4 << 20

// nativeOf makes what encoding/json writes, out of a value.
func nativeOf(v ref.Val) (any, error) {
	left := MaxResult
	return native(v, &left)
}

func native(v ref.Val, left *int) (any, error) {
	if *left -= 1 + int(length(v)); *left < 0 { //nolint:gosec // of a text that is in memory
		return nil, fmt.Errorf("is more than %d bytes of JSON", MaxResult)
	}
	switch v := v.(type) {
	case types.Null:
		return nil, nil
	case types.Bool, types.Int, types.Uint, types.Double, types.String:
		return v.Value(), nil
	case types.Timestamp:
		return v.UTC().Format(time.RFC3339Nano), nil
	case traits.Lister:
		list := []any{}
		for it := v.Iterator(); it.HasNext() == types.True; {
			element, err := native(it.Next(), left)
			if err != nil {
				return nil, err
			}
			list = append(list, element)
		}
		return list, nil
	case traits.Mapper:
		object := make(map[string]any)
		for it := v.Iterator(); it.HasNext() == types.True; {
			key := it.Next()
			element, err := native(v.Get(key), left)
			if err != nil {
				return nil, err
			}
			name := fmt.Sprint(key.Value())
			*left -= len(name)
			object[name] = element
		}
		return object, nil
	default:
		return nil, fmt.Errorf("holds %s, and must be JSON", plainType(typeOf(v)))
	}
}

// short cuts what is quoted in an error: an event may say very much.
func short(s string) string {
	const most = 300
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}
