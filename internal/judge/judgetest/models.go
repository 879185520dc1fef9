package judgetest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
)

// Asked is a request to a model API, whatever its dialect.
type Asked struct {
	API     string // anthropic, openai, gemini or chat
	Model   string
	System  string
	Prompt  string
	Images  []string // their media types
	Schema  json.RawMessage
	Key     string
	Header  http.Header
	Body    []byte
	Routes  []string // on offer, as the schema has them
	Numbers []string // of predicates, as the schema has them
}

// Said is what a scripted model answers. The zero Said but for Text is an
// answer as it should be.
type Said struct {
	Text    string
	Model   string // "" is the one that was asked
	Stop    string // in the dialect's own words; "" is its good end
	Refusal string // set: a refusal, where the dialect has one in the answer
	Status  int    // 0 is 200
	Header  map[string]string
	Raw     []byte // set: the body, whole
}

// Models is a host that speaks every model API, each strictly: a member that it
// does not know is 400, as with the vendors.
type Models struct {
	URL string // base: below it are /v1 and /v1beta

	t      testing.TB
	answer func(Asked) Said
	mu     sync.Mutex
	asked  []Asked
}

// ServeModels starts a host whose models answer as told. It ends with the test.
func ServeModels(t testing.TB, answer func(Asked) Said) *Models {
	t.Helper()
	m := &Models{t: t, answer: answer}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/messages", m.serve(readMessages, writeMessages))
	mux.HandleFunc("POST /v1/responses", m.serve(readResponses, writeResponses))
	mux.HandleFunc("POST /v1beta/models/{model}", m.serve(readGemini, writeGemini))
	mux.HandleFunc("POST /v1/chat/completions", m.serve(readChat, writeChat))
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	m.URL = s.URL
	return m
}

// Base is the base URL of an API, as a judge is configured with it.
func (m *Models) Base(api string) string {
	if api == "gemini" {
		return m.URL + "/v1beta"
	}
	return m.URL + "/v1"
}

// Asked are the requests so far.
func (m *Models) Asked() []Asked {
	m.mu.Lock()
	defer m.mu.Unlock()
	return append([]Asked(nil), m.asked...)
}

// Frame is the body in which a dialect gives an answer.
func Frame(api string, a Asked, s Said) []byte {
	if s.Model == "" {
		s.Model = a.Model
	}
	switch api {
	case "anthropic":
		return writeMessages(s)
	case "openai":
		return writeResponses(s)
	case "gemini":
		return writeGemini(s)
	default:
		return writeChat(s)
	}
}

func (m *Models) serve(read func(*http.Request, []byte) (Asked, error), write func(Said) []byte) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return // the caller has gone
		}
		asked, err := read(r, body)
		if err == nil {
			err = asked.readSchema()
		}
		if err != nil {
			m.t.Errorf("%s: a request that its API does not take: %v\n%s", r.URL.Path, err, body)
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		asked.Header, asked.Body = r.Header, body
		m.mu.Lock()
		m.asked = append(m.asked, asked)
		m.mu.Unlock()
		said := m.answer(asked)
		if said.Model == "" {
			said.Model = asked.Model
		}
		if said.Raw == nil {
			said.Raw = write(said)
		}
		for name, value := range said.Header {
			w.Header().Set(name, value)
		}
		if said.Status != 0 {
			w.WriteHeader(said.Status)
		}
		w.Write(said.Raw)
	}
}

// readSchema checks that a schema is strict, as the hosts do, and takes the
// routes out of it.
func (a *Asked) readSchema() error {
	type strict struct {
		Type                 string
		Properties           map[string]json.RawMessage
		Required             []string
		AdditionalProperties *bool
		Enum                 []string
		Description          string
	}
	var look func(name string, raw json.RawMessage) error
	look = func(name string, raw json.RawMessage) error {
		var s strict
		if err := exactly(raw, &s); err != nil {
			return fmt.Errorf("schema of %s: %w", name, err)
		}
		if s.Type != "object" {
			return nil
		}
		if s.AdditionalProperties == nil || *s.AdditionalProperties || len(s.Required) != len(s.Properties) {
			return fmt.Errorf("schema of %s is not strict: %s", name, raw)
		}
		for _, key := range s.Required {
			if err := look(key, s.Properties[key]); err != nil {
				return err
			}
			var inner strict
			if err := json.Unmarshal(s.Properties[key], &inner); err != nil {
				return err
			}
			switch key {
			case "route":
				a.Routes = inner.Enum
			case "predicates":
				a.Numbers = inner.Required
			}
		}
		return nil
	}
	return look("the answer", a.Schema)
}

// exactly decodes JSON of which every member is known.
func exactly(body []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(body))
	d.DisallowUnknownFields()
	return d.Decode(into)
}

func encode(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return b
}

func bearer(r *http.Request) string {
	return strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
}
