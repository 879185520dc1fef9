package llm

import (
	"bytes"
	"encoding/json"

	"attend/internal/judge"
)

// object is a JSON object whose members stay in order: some hosts have the
// answer written in the order of its schema.
type object []member

type member struct {
	key   string
	value any
}

// canonical is compact JSON as it is sent, < and > as they are. It is written
// in one pass: an image in it may have megabytes.
func canonical(v any) []byte {
	var b bytes.Buffer
	write(&b, v)
	return b.Bytes()
}

func write(b *bytes.Buffer, v any) {
	switch v := v.(type) {
	case object:
		b.WriteByte('{')
		for i, m := range v {
			if i > 0 {
				b.WriteByte(',')
			}
			write(b, m.key)
			b.WriteByte(':')
			write(b, m.value)
		}
		b.WriteByte('}')
	case []object:
		b.WriteByte('[')
		for i, o := range v {
			if i > 0 {
				b.WriteByte(',')
			}
			write(b, o)
		}
		b.WriteByte(']')
	default: // texts, numbers and lists of texts: none of them can fail
		e := json.NewEncoder(b)
		e.SetEscapeHTML(false)
		_ = e.Encode(v)
		b.Truncate(b.Len() - len("\n"))
	}
}

// answerSchema is strict: every property required, no others. The questions
// come first, so that the route is chosen in view of their answers. A range is
// said in words, since strict modes know no minimum.
func answerSchema(in *judge.Input) object {
	share := func(what string) object { return object{{"type", "number"}, {"description", what + ", from 0 to 1"}} }
	var routes []string
	var shares, answers object
	for _, o := range in.Routes {
		routes = append(routes, o.Route.String())
		shares = append(shares, member{o.Route.String(), share("probability that " + o.Route.String() + " is right")})
	}
	for i := range in.Predicates {
		answers = append(answers, member{predicateKey(i), share("probability of yes to question " + predicateKey(i))})
	}
	var properties object
	if len(answers) > 0 {
		properties = append(properties, member{"predicates", closed(answers)})
	}
	return closed(append(properties,
		member{"probabilities", closed(shares)},
		member{"route", object{{"type", "string"}, {"enum", routes}}},
		member{"confidence", share("how sure the route is")},
	))
}

func closed(properties object) object {
	required := make([]string, len(properties))
	for i, p := range properties {
		required[i] = p.key
	}
	return object{{"type", "object"}, {"properties", properties}, {"required", required}, {"additionalProperties", false}}
}
