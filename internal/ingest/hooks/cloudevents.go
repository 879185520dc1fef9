package hooks

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"net/url"
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
	read := new(reading)
	media, _, _ := mime.ParseMediaType(r.header.Get("Content-Type"))
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
		read.faults = append(read.faults, Fault{number, "is no JSON object"})
		return
	}
	data, err := structuredData(members)
	c.add(members, data, err, read, number)
}

// binary takes the attributes from headers; the body is the data.
func (c cloudevents) binary(r *request, read *reading) {
	members := make(map[string]json.RawMessage)
	for header, values := range r.header { //arch:sorted into a map again
		if name, is := strings.CutPrefix(strings.ToLower(header), "ce-"); is {
			members[name] = encode(decodeHeader(values[0]))
		}
	}
	media := r.header.Get("Content-Type")
	members["datacontenttype"] = encode(media)
	var data json.RawMessage
	if len(r.body) > 0 {
		data = dataOf(r.body, media)
	}
	c.add(members, data, nil, read, 1)
}

// decodeHeader undoes percent-encoding, which is how anything beyond ASCII gets
// into a header.
func decodeHeader(value string) string {
	if text, err := url.PathUnescape(value); err == nil {
		value = text
	}
	return strings.ToValidUTF8(value, "\ufffd")
}

// add makes an event of the attributes, or a fault.
func (c cloudevents) add(members map[string]json.RawMessage, data json.RawMessage, err error, read *reading, number int) {
	at, wrong := attributes(members)
	if err = errors.Join(err, wrong); err != nil {
		read.faults = append(read.faults, Fault{number, err.Error()})
		return
	}
	source, name := textOf(members["source"]), textOf(members["type"])
	text := ""
	if subject := textOf(members["subject"]); subject != "" {
		text = line(name, maxTitle) + ": " + line(subject, maxQuote)
	}
	read.events = append(read.events, Event{
		Scope: c.scope.of(members), Name: name, ID: fitted(source+" "+textOf(members["id"]), maxID), At: at, Data: data, Text: text, number: number,
	})
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
