package exec

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"unicode"

	"attend/internal/engine"
	"attend/internal/judge"
	"attend/internal/judge/wire"
)

// What a hook may bring.
const (
	maxPredicates = 199      // a hosted judge takes 200 questions, and the route is one
	maxImages     = 128      // as many as a judge takes (seed, "Images"); the rest is left out
	maxImageBytes = 32 << 20 // in all, decoded

	// maxCapture is what such images take as text, with room for the frame and
	// for line breaks.
	maxCapture = maxImageBytes/3*4 + maxImageBytes/16
)

// Context makes a function that asks a hook for what a judge should know about
// a scope (docs/judges-programs.md has the contract). It returns when the
// context ends, or soon after. Its errors hold nothing of what was answered.
func Context(e Endpoint) func(ctx context.Context, scope string) (judge.Context, error) {
	return func(ctx context.Context, scope string) (judge.Context, error) {
		raw, err := e.ask(ctx, scopeOf(scope), wire.MaxBody, nil)
		if err != nil {
			return judge.Context{}, unjudged(err)
		}
		c, err := parseContext(raw)
		if err != nil {
			return judge.Context{}, errors.New(e.hide(err.Error()))
		}
		return hide(c, e.hide), nil
	}
}

// Capture makes a function that asks a hook for images of a scope, as [Context]
// does.
func Capture(e Endpoint) func(ctx context.Context, scope string) ([]judge.Image, error) {
	return func(ctx context.Context, scope string) ([]judge.Image, error) {
		raw, err := e.ask(ctx, scopeOf(scope), maxCapture, nil)
		if err != nil {
			return nil, unjudged(err)
		}
		return parseImages(raw)
	}
}

func scopeOf(scope string) []byte {
	return encode(struct {
		Scope string `json:"scope"`
	}{scope})
}

// unjudged words an error of a status for what is no judge.
func unjudged(err error) error {
	var e *judge.Error
	if errors.As(err, &e) && e.Status >= 300 {
		return fmt.Errorf("the hook answered with status %d", e.Status)
	}
	return err
}

// parseContext reads {"facts"?: object, "predicates"?: {name: question}}. Any
// other key is a mistake: what it holds would be lost without a word.
func parseContext(raw []byte) (judge.Context, error) {
	if string(bytes.TrimSpace(raw)) == "null" {
		return judge.Context{}, nil
	}
	fields, err := object(raw, "facts", "predicates")
	if err != nil {
		return judge.Context{}, fmt.Errorf("the hook's answer %w", err)
	}
	for _, key := range slices.Sorted(maps.Keys(fields)) {
		if key != "facts" && key != "predicates" {
			key = engine.Shorten(engine.EscapeLine(key), 64)
			return judge.Context{}, fmt.Errorf("the hook's answer has the key %q besides facts and predicates", key)
		}
	}
	var c judge.Context
	if facts, ok := fields["facts"]; ok && string(facts) != "null" {
		if _, err := object(facts); err != nil {
			return judge.Context{}, fmt.Errorf("the hook's facts: what it wrote %w", err)
		}
		c.Facts = facts
	}
	var questions map[string]string
	if err := take(fields, "predicates", &questions, "an object of questions, each a text"); err != nil {
		return judge.Context{}, err
	}
	if len(questions) > maxPredicates {
		return judge.Context{}, fmt.Errorf("the hook asks %d questions: may ask at most %d", len(questions), maxPredicates)
	}
	for _, name := range slices.Sorted(maps.Keys(questions)) {
		if name == "" || strings.ContainsFunc(name, unicode.IsControl) || questions[name] == "" {
			return judge.Context{}, errors.New("the hook's predicates: each needs a name without control characters, and a question")
		}
		c.Predicates = append(c.Predicates, engine.Predicate{Name: name, Question: questions[name]})
	}
	return c, nil
}

// parseImages reads {"images": [image, …]}, a list, one image, or null.
func parseImages(raw []byte) ([]judge.Image, error) {
	images, err := readImages(bytes.TrimSpace(raw))
	if err != nil {
		return nil, errors.New(`the hook's answer is none of {"images": [{"data", "mimeType"}]}, a list of images, one image, and null`)
	}
	return check(images)
}

// check keeps the first images, as many as may be, and takes the line breaks out
// of their base64. The error tells of those that are left out, or why none is
// kept.
func check(images []judge.Image) (kept []judge.Image, err error) {
	brought := len(images)
	images = images[:min(brought, maxImages)]
	total := 0
	for i := range images {
		image := &images[i]
		if strings.HasPrefix(image.Data, "data:") {
			return nil, fmt.Errorf("the hook's image %d has a data: prefix: write the base64 alone", i+1)
		}
		image.Data = strings.ReplaceAll(strings.ReplaceAll(image.Data, "\n", ""), "\r", "")
		picture, err := judge.Look(*image)
		if err != nil {
			return nil, fmt.Errorf("the hook's image %d: %w", i+1, err)
		}
		if total += picture.Bytes; total > maxImageBytes {
			images = images[:i]
			break
		}
	}
	if len(images) < brought {
		err = fmt.Errorf("of %d images the first %d are taken: at most %d, of %d bytes in all", brought, len(images), maxImages, maxImageBytes)
	}
	return images, err
}

// readImages reads them as they are. It goes over the text as few times as can
// be: there may be much of it.
func readImages(raw []byte) ([]judge.Image, error) {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields() // what they hold would be lost without a word
	var answer struct {
		Images []judge.Image `json:"images"`
		judge.Image
	}
	var into any = &answer
	if bytes.HasPrefix(raw, []byte("[")) {
		into = &answer.Images
	}
	if err := d.Decode(into); err != nil {
		return nil, err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("something follows")
	}
	if answer.Image != (judge.Image{}) {
		answer.Images = append(answer.Images, answer.Image)
	}
	return answer.Images, nil
}
