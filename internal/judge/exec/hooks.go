package exec

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
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
	maxPredicates = 199 // a hosted judge takes 200 questions, and the route is one
	maxImages     = 16
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
		return parseContext(raw)
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
	fields, err := object(raw)
	if err != nil {
		return judge.Context{}, fmt.Errorf("the hook's answer %w", err)
	}
	for key := range fields {
		if key != "facts" && key != "predicates" {
			return judge.Context{}, errors.New("the hook's answer has a key besides facts and predicates")
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
	const want = `the hook's answer is none of {"images": [{"data", "mimeType"}]}, a list of images, one image, and null`
	var images []judge.Image
	if fields, err := object(raw); err == nil {
		list, many := fields["images"]
		if _, one := fields["data"]; one && !many {
			list = slices.Concat([]byte("["), raw, []byte("]"))
		} else if !many {
			return nil, errors.New(want)
		}
		raw = list
	}
	if err := json.Unmarshal(raw, &images); err != nil {
		return nil, errors.New(want)
	}
	if len(images) > maxImages {
		return nil, fmt.Errorf("the hook brought %d images: may bring at most %d", len(images), maxImages)
	}
	total := 0
	for i := range images {
		n, err := check(&images[i])
		if err != nil {
			return nil, fmt.Errorf("the hook's image %d: %w", i+1, err)
		}
		if total += n; total > maxImageBytes {
			return nil, fmt.Errorf("the hook's images have more than %d bytes", maxImageBytes)
		}
	}
	return images, nil
}

// check checks an image, takes the line breaks out of its base64, and returns
// its size in bytes.
func check(image *judge.Image) (int, error) {
	if strings.HasPrefix(image.Data, "data:") {
		return 0, errors.New("it has a data: prefix: write the base64 alone")
	}
	image.Data = strings.NewReplacer("\n", "", "\r", "").Replace(image.Data)
	picture, err := judge.Look(*image)
	return picture.Bytes, err
}
