// Package llm judges with a model: it asks for one structured answer over the
// Messages API of Anthropic, the Responses API of OpenAI, Gemini's
// generateContent, or the chat completions that most other servers speak (seed,
// "llmJudge").
//
// What strangers wrote reaches the model as JSON between two lines with a
// marker that they cannot know, and never in the system part. Whatever a model
// answers is checked here, whether its host promised a schema or not.
package llm

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"attend/internal/engine"
	"attend/internal/judge"
	"attend/internal/judge/wire"
)

// API names a model API.
type API string

// The APIs.
const (
	Anthropic API = "anthropic" // POST {url}/messages
	OpenAI    API = "openai"    // POST {url}/responses
	Gemini    API = "gemini"    // POST {url}/models/{model}:generateContent
	Chat      API = "chat"      // POST {url}/chat/completions
)

// DefaultModel is asked where the API is Anthropic's and no model is named. A
// judge is asked about every window, day and night: where nobody chose, the
// cheaper of the seed's two does.
const DefaultModel = "claude-haiku-5-5"

// DefaultMaxBytes is the size of the rendered window: some 16,000 tokens.
const DefaultMaxBytes = 64 << 10

const leastBytes = 4 << 10

// Options are what a judge is made of.
type Options struct {
	API      API
	Model    string                  // as its host names it; "" is DefaultModel with Anthropic, and an error elsewhere
	URL      string                  // base, as https://host/v1; "" is the vendor's, and an error with Chat
	Key      string                  // "" only with a URL of one's own
	System   string                  // replaces DefaultSystem
	Criteria map[engine.Route]string // for routes that have none in the input
	NoImages bool                    // never send images
	MaxBytes int                     // of the rendered window; 0 is DefaultMaxBytes
	Secret   []byte                  // of the store: the fence's marker is derived from it
	Client   *wire.Client            // nil is one of its own
}

// New makes a judge.
//
// Errors: what is missing or cannot be, and how to mend it.
func New(o Options) (judge.Judge, error) {
	d, err := dialectOf(o.API)
	if err != nil {
		return nil, err
	}
	own := o.URL != ""
	if o.URL == "" {
		o.URL = d.base()
	}
	if o.Model == "" && o.API == Anthropic {
		o.Model = DefaultModel
	}
	base, err := url.Parse(o.URL)
	switch {
	case o.URL == "":
		return nil, fmt.Errorf("judge %s: no url: set the server's base URL, as http://127.0.0.1:11434/v1", o.API)
	case err != nil || base.Host == "" || base.Scheme != "http" && base.Scheme != "https":
		return nil, fmt.Errorf("judge %s: the url cannot be called: want a base URL, as https://host/v1", o.API) // it may hold a key
	case o.Model == "":
		return nil, fmt.Errorf("judge %s: no model: set model to an id that its host knows", o.API)
	case o.API == Gemini && leadsAway(o.Model):
		return nil, fmt.Errorf("judge %s: the model %q is no id: want one as its host lists it, as gemini-2.5-flash or tunedModels/mine", o.API, o.Model)
	case o.Key == "" && !own:
		return nil, fmt.Errorf("judge %s: no key for %s", o.API, base.Host)
	case len(o.Secret) == 0:
		return nil, fmt.Errorf("judge %s: no secret to derive the fence from", o.API)
	case o.MaxBytes != 0 && o.MaxBytes < leastBytes:
		return nil, fmt.Errorf("judge %s: max bytes is %d: must be at least %d", o.API, o.MaxBytes, leastBytes)
	}
	if o.MaxBytes == 0 {
		o.MaxBytes = DefaultMaxBytes
	}
	if o.System == "" {
		o.System = DefaultSystem
	}
	if o.Client == nil {
		o.Client = wire.New()
	}
	return &model{Options: o, dialect: d, endpoint: endpoint(base, d.version(), d.path(o.Model))}, nil
}

// endpoint is the base with the path below it. A URL that is the whole endpoint
// already stays as it is; one that is a host alone gets the API's version.
func endpoint(base *url.URL, version string, path []string) string {
	if strings.Trim(base.Path, "/") == "" {
		base = base.JoinPath(version)
	}
	if strings.HasSuffix(base.Path, "/"+strings.Join(path, "/")) {
		return base.String()
	}
	return base.JoinPath(path...).String()
}

// model is a judge.
type model struct {
	Options
	dialect  dialect
	endpoint string
}

// Judge implements judge.Judge: one request, which asks everything.
//
// Errors: *judge.Error with the exchange. Refused where the model or its host
// will not answer; Malformed where the answer was cut or is not what was asked
// for; Permanent for two predicates of one name, before any call; else those
// of wire.
func (m *model) Judge(ctx context.Context, in *judge.Input) (judge.Reply, error) {
	q, cut, err := m.question(in)
	if err != nil {
		return judge.Reply{}, err
	}
	x := engine.Exchange{Model: m.Model, Cut: cut, Prompt: wire.Clip(q.system + "\n\n" + q.prompt)}
	for i := range q.pictures {
		x.Images = append(x.Images, q.pictures[i].Ref())
	}
	resp, err := m.dialectCall(ctx, q, &x)
	var a engine.Answer
	if err == nil {
		a, err = m.read(&resp, in, &x)
	}
	if err != nil {
		return judge.Reply{}, failed(err, &x, q.dropped)
	}
	x.Outcome = "answered"
	x.Message = told("", q.dropped)
	return judge.Reply{
		Answer: a, Judge: engine.JudgeName{Name: string(m.API), Model: x.Model}, Calls: []engine.Exchange{x},
	}, nil
}

func (m *model) dialectCall(ctx context.Context, q *question, x *engine.Exchange) (wire.Response, error) {
	return m.Client.Exchange(ctx, wire.Request{URL: m.endpoint, Header: m.dialect.header(m.Key), Body: canonical(m.dialect.request(m.Model, q))}, x)
}

// read takes the answer out of a response, and writes on x whose it is and what
// it cost.
func (m *model) read(resp *wire.Response, in *judge.Input, x *engine.Exchange) (engine.Answer, error) {
	said, err := m.dialect.answer(resp.Body)
	if said.model != "" {
		x.Model = wire.Model(said.model, m.Key)
	}
	x.InputTokens, x.OutputTokens = said.input, said.output
	var a engine.Answer
	if err == nil {
		a, err = parse(said.text, in)
	}
	if err != nil {
		err.Status, err.RequestID, err.RetryAfter = resp.Status, resp.RequestID, resp.RetryAfter
		wire.Fail(x, err)
		return engine.Answer{}, err
	}
	return a, nil
}

// failed gives an error its exchange.
func failed(err error, x *engine.Exchange, dropped []string) error {
	e := wire.Classed(err)
	x.Message = told(x.Message, dropped)
	e.Calls = []engine.Exchange{*x}
	return e
}

// told adds to a message which images were not sent.
func told(message string, dropped []string) string {
	if len(dropped) == 0 {
		return message
	}
	if message != "" {
		message += "; "
	}
	const most = 4
	rest := ""
	if n := len(dropped) - most; n > 0 {
		dropped, rest = dropped[:most], fmt.Sprintf("; and %d more", n)
	}
	return message + "images that were not sent: " + strings.Join(dropped, "; ") + rest
}

// question writes down what is asked.
func (m *model) question(in *judge.Input) (q *question, cut int, err error) {
	seen := make([]string, 0, len(in.Predicates))
	for _, p := range in.Predicates {
		if slices.Contains(seen, p.Name) {
			return nil, 0, &judge.Error{Class: judge.Permanent, Message: fmt.Sprintf("two predicates are named %.100q", p.Name)}
		}
		seen = append(seen, p.Name)
	}
	data := *in
	data.Guidance, data.Predicates = "", nil // they are no data: see prompt.go
	doc := judge.Render(&data, m.MaxBytes)
	marker := judge.Fence(m.Secret, in.Window.ID)
	q = &question{
		system:     system(m.System, in, m.Criteria, marker),
		prompt:     prompt(in, judge.Enclose(marker, doc.JSON)),
		schema:     answerSchema(in),
		predicates: len(in.Predicates),
	}
	if !m.NoImages {
		q.pictures, q.dropped = m.dialect.limits().choose(in.Images)
	}
	return q, doc.Cut, nil
}

// question is what every API is asked, in its own words.
type question struct {
	system     string
	prompt     string
	schema     object
	predicates int
	pictures   []judge.Picture
	dropped    []string // why images are not among the pictures
}
