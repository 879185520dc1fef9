package ingest

import (
	"fmt"
	"mime"
	"net/http"
	"strconv"
	"strings"

	"attend/internal/problem"
)

// Media types of bodies.
const (
	typeLines = "application/x-ndjson"
	typeJSON  = "application/json"
)

// bodyForm is how a body is written.
type bodyForm struct {
	json   bool // one value or an array; else lines
	coding coding
}

// formOf reads Content-Type and Content-Encoding.
func formOf(r *http.Request) (bodyForm, *problem.Problem) {
	var form bodyForm
	given := r.Header.Get("Content-Type")
	media, params, err := mime.ParseMediaType(given)
	switch {
	case err != nil || media != typeLines && media != typeJSON:
		return form, unsupported(r, describeType(given))
	case params["charset"] != "" && !strings.EqualFold(params["charset"], "utf-8") && !strings.EqualFold(params["charset"], "us-ascii"):
		return form, unsupported(r, fmt.Sprintf("the charset is %q: events are UTF-8", params["charset"]))
	}
	form.json = media == typeJSON
	switch given := strings.ToLower(strings.TrimSpace(strings.Join(r.Header.Values("Content-Encoding"), ", "))); given {
	case "", "identity":
	case "gzip", "x-gzip":
		form.coding = codingGzip
	case "zstd":
		form.coding = codingZstd
	default:
		return form, unsupported(r, fmt.Sprintf("the Content-Encoding is %q: send gzip or zstd, or leave it out", given))
	}
	return form, nil
}

func describeType(given string) string {
	if given == "" {
		return "the request names no Content-Type: events come as " + typeLines + " or " + typeJSON
	}
	return fmt.Sprintf("the Content-Type is %q: events come as %s or %s", given, typeLines, typeJSON)
}

// unsupported answers with a command that works.
func unsupported(r *http.Request, what string) *problem.Problem {
	scheme := "http"
	if r.TLS != nil {
		scheme = "https"
	}
	curl := fmt.Sprintf("curl -H 'Content-Type: %s' --data-binary @events.ndjson '%s://%s%s'", typeLines, scheme, r.Host, r.URL.EscapedPath())
	p := problem.New(http.StatusUnsupportedMediaType, "unsupportedMediaType", what+". Like this: "+curl)
	return &p
}

// wantsLines reports whether the answer is to stream.
func wantsLines(r *http.Request) bool {
	for _, header := range r.Header.Values("Accept") {
		for one := range strings.SplitSeq(header, ",") {
			media, params, err := mime.ParseMediaType(one)
			if err != nil || media != typeLines {
				continue
			}
			if q, err := strconv.ParseFloat(params["q"], 64); err != nil || q > 0 {
				return true
			}
		}
	}
	return false
}
