package hooks

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"attend/internal/engine"
)

// Media types of CloudEvents.
const (
	typeCloudEvent  = "application/cloudevents+json"
	typeCloudEvents = "application/cloudevents-batch+json"
)

// cloudevents reads CloudEvents 1.0 over HTTP, in its three modes.
type cloudevents struct{ scope scoper }

// read implements the HTTP protocol binding: https://github.com/cloudevents/spec.
func (c cloudevents) read(r *request) (*reading, *refusal) {
	read := r.reading()
	media := mediaOf(r.header)
	switch {
	case media == typeCloudEvents:
		var batch []json.RawMessage
		if err := json.Unmarshal(r.body, &batch); err != nil {
			return nil, invalid("the batch is no JSON array")
		}
		for i, raw := range batch {
			c.structured(raw, read, i+1)
		}
	case media == typeCloudEvent:
		c.structured(r.body, read, 1)
	case strings.HasPrefix(media, "application/cloudevents"):
		return nil, wrongType("CloudEvents as JSON")
	case r.header.Get("Ce-Specversion") != "":
		c.binary(r, read)
	default:
		return nil, wrongType(typeCloudEvent + ", " + typeCloudEvents + ", or an event whose attributes are headers (ce-id, ce-source, …)")
	}
	return read, nil
}

func (c cloudevents) structured(raw json.RawMessage, read *reading, number int) {
	var members map[string]json.RawMessage
	if json.Unmarshal(raw, &members) != nil || members == nil {
		read.fault(number, "is no JSON object")
		return
	}
	data, err := structuredData(members)
	c.add(members, data, err, read, number)
}

// binary takes the attributes from headers; the body is the data.
func (c cloudevents) binary(r *request, read *reading) {
	members := make(map[string]json.RawMessage)
	var wrong []string
	for header, values := range r.header { //arch:sorted into a map again, and sorted
		if name, is := strings.CutPrefix(strings.ToLower(header), "ce-"); is {
			text, ok := decodeHeader(values[0])
			if !ok {
				wrong = append(wrong, "ce-"+name)
			}
			members[name] = encode(text)
		}
	}
	var err error
	if len(wrong) > 0 {
		slices.Sort(wrong)
		err = fmt.Errorf("%s is not UTF-8 once it is percent-decoded", line(strings.Join(wrong, ", "), maxTitle))
	}
	media := r.header.Get("Content-Type")
	members["datacontenttype"] = encode(media)
	var data json.RawMessage
	if len(r.body) > 0 {
		data = dataOf(r.body, media)
	}
	c.add(members, data, err, read, 1)
}

// decodeHeader returns an attribute's text as the HTTP binding has it (3.1.3.2):
// quoted strings are opened, then percent-encoding is undone, once. A percent sign
// that encodes nothing stands for itself. It is not ok where that is not UTF-8.
func decodeHeader(value string) (text string, ok bool) {
	plain := unquote(value)
	b := make([]byte, 0, len(plain))
	for i := 0; i < len(plain); i++ {
		if plain[i] == '%' && i+2 < len(plain) {
			if n, err := strconv.ParseUint(plain[i+1:i+3], 16, 8); err == nil {
				b, i = append(b, byte(n)), i+2
				continue
			}
		}
		b = append(b, plain[i])
	}
	return string(b), utf8.Valid(b)
}

// unquote opens the quoted strings of a header's value (RFC 7230, 3.2.6). A quote
// that is not closed stands for itself.
func unquote(value string) string {
	var b strings.Builder
	for {
		before, quoted, found := strings.Cut(value, `"`)
		end := closing(quoted)
		if !found || end < 0 {
			return b.String() + value
		}
		b.WriteString(before)
		for i := 0; i < end; i++ {
			if quoted[i] == '\\' {
				i++
			}
			b.WriteByte(quoted[i])
		}
		value = quoted[end+1:]
	}
}

// closing finds the quote that ends a quoted string, -1 for none.
func closing(quoted string) int {
	for i := 0; i < len(quoted); i++ {
		switch quoted[i] {
		case '\\':
			i++
		case '"':
			return i
		}
	}
	return -1
}

// add makes an event of the attributes, or a fault.
func (c cloudevents) add(members map[string]json.RawMessage, data json.RawMessage, err error, read *reading, number int) {
	at, wrong := attributes(members)
	if err = errors.Join(err, wrong); err != nil {
		read.fault(number, err.Error())
		return
	}
	source, name := textOf(members["source"]), textOf(members["type"])
	text := ""
	if subject := textOf(members["subject"]); subject != "" {
		text = line(name, maxTitle) + ": " + line(subject, maxQuote)
	}
	read.add(&Event{
		Scope: c.scope.of(members), Name: name, ID: pair(source, textOf(members["id"])), At: at, Data: data, Text: text, number: number,
	})
}

// pair makes one id of source and id, which are unique together: no blank of the
// source is taken for the one between them.
func pair(source, id string) string {
	return fitted(strings.NewReplacer("%", "%25", " ", "%20").Replace(source)+" "+id, maxID)
}

// attributes checks those that every event has, and reads its time.
func attributes(members map[string]json.RawMessage) (*engine.Time, error) {
	for _, name := range []string{"id", "source", "type", "specversion"} {
		if textOf(members[name]) == "" {
			return nil, fmt.Errorf("%s is missing, empty or no text", name)
		}
	}
	if textOf(members["specversion"]) != "1.0" {
		return nil, errors.New("specversion is not 1.0")
	}
	when, there := members["time"]
	if !there || string(when) == "null" {
		return nil, nil //nolint:nilnil // an event need not have a time
	}
	at := instant(textOf(when))
	if at == nil {
		return nil, errors.New("time is no RFC 3339 time")
	}
	return at, nil
}

// structuredData returns data, or what data_base64 holds.
func structuredData(members map[string]json.RawMessage) (json.RawMessage, error) {
	encoded, there := members["data_base64"]
	if !there {
		return members["data"], nil
	}
	if members["data"] != nil {
		return nil, errors.New("has both data and data_base64")
	}
	raw, err := base64.StdEncoding.DecodeString(textOf(encoded))
	if err != nil {
		return nil, errors.New("data_base64 is no base64")
	}
	return dataOf(raw, textOf(members["datacontenttype"])), nil
}

// dataOf makes JSON of what may be anything: JSON stays what it is, text is a
// string, and all else is told as it came.
func dataOf(raw []byte, contentType string) json.RawMessage {
	media, params, _ := mime.ParseMediaType(contentType)
	charset := params["charset"]
	text := utf8.Valid(raw) && (charset == "" || strings.EqualFold(charset, "utf-8"))
	switch {
	case (isJSON(media) || media == "") && json.Valid(raw):
		return raw
	case text && (strings.HasPrefix(media, "text/") || isJSON(media) || strings.HasSuffix(media, "xml")):
		return encode(string(raw))
	default:
		return encode(map[string]string{"datacontenttype": contentType, "data_base64": base64.StdEncoding.EncodeToString(raw)})
	}
}

func isJSON(media string) bool { return media == typeJSON || strings.HasSuffix(media, "+json") }

// handshake agrees to be sent events (HTTP 1.1 Web Hooks for Event Delivery, 4).
// That a sender may ask is no right to send: each delivery has to show its own.
func handshake(w http.ResponseWriter, r *http.Request) {
	header := w.Header()
	header.Set("Allow", http.MethodPost)
	header.Set("Cache-Control", "no-store")
	if origin := r.Header.Get("WebHook-Request-Origin"); origin != "" {
		header.Set("WebHook-Allowed-Origin", "*")
		if r.Header.Get("WebHook-Request-Rate") != "" {
			header.Set("WebHook-Allowed-Rate", "*")
		}
	}
	w.WriteHeader(http.StatusOK)
}
