// Package exec asks programs of the operator's own: judges, and the hooks that
// bring a judge its facts and images. Each is a URL or a command, and what is
// asked and answered is the same JSON on both ways.
//
// What a judge is given holds text that strangers wrote. It is passed on as it
// is: to a program, data is data. A program that shows it to a model, a shell
// or a page must treat it as untrusted.
package exec

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"time"

	"attend/internal/engine"
	"attend/internal/judge"
	"attend/internal/judge/wire"
	"attend/internal/program"
)

// Endpoint is who is asked: see [HTTP] and [Command].
type Endpoint interface {
	// ask puts one question, JSON, and returns the answer, which has at most so
	// many bytes. Where x is given, it writes on it what came of it. Its errors
	// are classed (*judge.Error), and hold no key and nothing of the question; but
	// see [Command].
	ask(ctx context.Context, question []byte, most int, x *engine.Exchange) ([]byte, error)
	// hide takes the secrets of the endpoint out of a text that it wrote.
	hide(text string) string
}

// HTTP is a URL that takes the question as the body of a POST and answers with
// a 2xx and JSON. A key that is not empty is sent as a bearer token.
func HTTP(client *wire.Client, url, key string) Endpoint {
	e := &httpEndpoint{client: client, url: url, key: key, header: make(http.Header)}
	if key != "" {
		e.header.Set("Authorization", "Bearer "+key)
	}
	return e
}

type httpEndpoint struct {
	client *wire.Client
	url    string
	key    string
	header http.Header
}

func (e *httpEndpoint) hide(text string) string { return wire.Hide(text, e.key) }

func (e *httpEndpoint) ask(ctx context.Context, question []byte, most int, x *engine.Exchange) ([]byte, error) {
	request := wire.Request{URL: e.url, Header: e.header, Body: question, MaxBody: most}
	if x == nil {
		response, err := e.client.Post(ctx, request)
		return response.Body, err
	}
	response, err := e.client.Exchange(ctx, request, x)
	return response.Body, err
}

// Command is a command that finds the question on its standard input and
// answers on its standard output. It ends with status 0 when it has answered,
// with [program.ExitPermanent] when asking again will not help, with any other
// to be asked again.
//
// An error holds the end of what the command wrote to its standard error, which
// may be what it read.
func Command(s program.Spec) Endpoint { return commandEndpoint{spec: s} }

// Quiet is a [Command] whose errors hold nothing that it wrote.
func Quiet(s program.Spec) Endpoint { return commandEndpoint{spec: s, quiet: true} }

type commandEndpoint struct {
	spec  program.Spec
	quiet bool
}

func (e commandEndpoint) hide(text string) string { return e.spec.Redact(text) }

func (e commandEndpoint) ask(ctx context.Context, question []byte, most int, x *engine.Exchange) ([]byte, error) {
	start := time.Now()
	out, err := program.Run(ctx, e.spec.Bounded(most), question)
	if err != nil {
		err = e.classed(err)
	}
	if x != nil {
		x.TookMs = time.Since(start).Milliseconds()
		said := out.Stdout
		if json.Valid(said) {
			said = hideIn(said, e.hide) // however JSON writes them
		}
		x.Answer = wire.Clip(e.hide(strings.ToValidUTF8(string(said), "\uFFFD")))
		if err != nil {
			wire.Fail(x, err)
		}
		if err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded) {
			x.Outcome = "timeout"
		}
	}
	return out.Stdout, err
}

// Through returns an endpoint whose questions go through a function: it sees
// each, and asks it, or does not.
func Through(e Endpoint, f func(ctx context.Context, question []byte, ask func() ([]byte, error)) ([]byte, error)) Endpoint {
	return through{e, f}
}

type through struct {
	Endpoint
	f func(ctx context.Context, question []byte, ask func() ([]byte, error)) ([]byte, error)
}

func (t through) ask(ctx context.Context, question []byte, most int, x *engine.Exchange) ([]byte, error) {
	return t.f(ctx, question, func() ([]byte, error) { return t.Endpoint.ask(ctx, question, most, x) })
}

// classed tells what a failed command means.
func (e commandEndpoint) classed(err error) *judge.Error {
	out := &judge.Error{Class: judge.Transient, Message: err.Error()}
	var failed *program.Error
	if !errors.As(err, &failed) {
		return out
	}
	if failed.Permanent() {
		out.Class = judge.Permanent
	}
	if e.quiet {
		out.Message = failed.What()
	}
	return out
}
