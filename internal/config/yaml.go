package config

import (
	"bytes"
	"errors"
	"io"
	"regexp"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

func parseYAML(source string, b []byte) (*yaml.Node, Mistakes) {
	in := &lineReader{rest: b}
	dec := yaml.NewDecoder(in)
	var doc, second yaml.Node
	if err := dec.Decode(&doc); errors.Is(err, io.EOF) {
		return nil, nil
	} else if err != nil {
		return nil, Mistakes{yamlSyntax(source, b, in.lines, err)}
	}
	switch err := dec.Decode(&second); {
	case errors.Is(err, io.EOF):
		return doc.Content[0], nil
	case err != nil:
		return nil, Mistakes{yamlSyntax(source, b, in.lines, err)}
	default:
		return nil, Mistakes{{
			Place:   Place{source, second.Line, second.Column},
			Problem: "a second document starts here; one file holds one document",
		}}
	}
}

// yamlSyntax says where the YAML is broken; read is how many lines the parser
// had taken when it gave up. It gives no column.
func yamlSyntax(source string, b []byte, read int, err error) Mistake {
	m := Mistake{Place: Place{Source: source}, Problem: strings.TrimPrefix(err.Error(), "yaml: ")}
	if found := regexp.MustCompile(`(?s)^line (\d+): (.*)$`).FindStringSubmatch(m.Problem); found != nil {
		m.Line, _ = strconv.Atoi(found[1])
		m.Problem = found[2]
	}
	m.Line = brokenLine(b, read, m.Line)
	switch {
	case strings.Contains(m.Problem, "alphabetic or numeric character"):
		m.Problem += `; text that starts with * must be quoted, as "*"`
	case strings.HasPrefix(m.Problem, "did not find expected ',' or '"):
		m.Problem += "; text that holds braces, brackets or commas must be quoted where an object or a list stands on one line"
	case strings.HasPrefix(m.Problem, "unknown anchor"):
		// The parser would quote the name, which may be a secret.
		m.Problem = `an alias stands for nothing; text that starts with * must be quoted, as "*"`
	}
	m.Problem = "not valid YAML: " + m.Problem
	return m
}

// brokenLine finds the line that breaks the document: the one before which
// all is well. The parser often names the line where the enclosing object
// began, far above. It has read little more than up to the broken line, unless
// a quote was left open; then its own word is right.
func brokenLine(b []byte, read, said int) int {
	const most = 20
	ends := make([]int, 1, read+1) // where the first n lines end
	for i, c := range b {
		if c == '\n' {
			ends = append(ends, i+1)
		}
	}
	reading := min(read+1, len(ends)) // a long line is read in parts
	for n := reading; n > max(0, reading-most); n-- {
		var node yaml.Node
		if err := yaml.Unmarshal(b[:ends[n-1]], &node); err == nil {
			return n
		}
	}
	return max(said, 1)
}

// lineReader hands out one line a call, so that lines says how far the parser
// has read.
type lineReader struct {
	rest  []byte
	lines int
}

// Read implements [io.Reader].
func (r *lineReader) Read(p []byte) (int, error) {
	if len(r.rest) == 0 {
		return 0, io.EOF
	}
	line := r.rest
	if i := bytes.IndexByte(r.rest, '\n'); i >= 0 {
		line = r.rest[:i+1]
	}
	n := copy(p, line)
	if n == len(line) {
		r.lines++
	}
	r.rest = r.rest[n:]
	return n, nil
}
