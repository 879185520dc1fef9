package llm

import (
	"encoding/json"
	"fmt"
	"net/http"

	"attend/internal/judge"
)

// dialect is how one API is asked, and how it answers.
type dialect interface {
	base() string    // the vendor's URL, "" for none
	version() string // the first part of a path, where the URL has none
	path(model string) []string
	header(key string) http.Header
	limits() limits
	// request is the body of a question.
	request(model string, q *question) object
	// answer finds the model's text in the body of a 2xx. What was said of model
	// and tokens stands beside an error too.
	answer(body []byte) (said, *judge.Error)
}

// said is what an answer holds.
type said struct {
	text          string
	model         string
	input, output int64 // tokens
}

func dialectOf(api API) (dialect, error) {
	switch api {
	case Anthropic:
		return anthropic{}, nil
	case OpenAI:
		return openai{}, nil
	case Gemini:
		return gemini{}, nil
	case Chat:
		return chat{}, nil
	default:
		return nil, fmt.Errorf("unknown model API %q: want %s, %s, %s or %s", api, Anthropic, OpenAI, Gemini, Chat)
	}
}

func bearer(key string) http.Header {
	if key == "" {
		return http.Header{}
	}
	return http.Header{"Authorization": {"Bearer " + key}}
}

// decode reads the frame of an answer. Members that are not known are passed
// over: APIs grow.
func decode(body []byte, into any) *judge.Error {
	if err := json.Unmarshal(body, into); err != nil {
		return malformed("the answer has not the shape of its API")
	}
	return nil
}

// jsonSchema is a named schema, strict where the host can be.
func jsonSchema(schema object) object {
	return object{{"name", "judgment"}, {"strict", true}, {"schema", schema}}
}

func dataURL(p *judge.Picture) string { return "data:" + p.MIME + ";base64," + p.Data }
