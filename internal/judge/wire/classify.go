package wire

import (
	"encoding/json"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"attend/internal/judge"
)

// MaxRetryAfter bounds what a host may ask to wait: a daemon that believed in
// days would look dead.
const MaxRetryAfter = time.Hour

// Classify classes a response by its status (seed, "Errors from the hosted
// judges"); it is nil for a 2xx. The text names the status and, where the body
// has one that is known, its code: nothing else of a body is repeated, since it
// may hold what was sent.
func Classify(r *Response) *judge.Error {
	if r.Status >= 200 && r.Status < 300 {
		return nil
	}
	codes := knownCodes(r.Body)
	e := &judge.Error{Class: judge.Permanent, Status: r.Status, RequestID: r.RequestID, RetryAfter: r.RetryAfter}
	switch {
	case r.Status >= 300 && r.Status < 400:
		e.Message = "the judge redirects, and redirects are not followed: set its url to where it leads"
	case r.Status == http.StatusTooManyRequests && slices.ContainsFunc(codes, billing):
		e.Message = "the account of the judge's key is spent or at its limit"
	case r.Status == http.StatusTooManyRequests:
		e.Class, e.Message = judge.Transient, "the judge takes no more requests for now"
	case r.Status == http.StatusRequestTimeout, r.Status >= 500:
		e.Class, e.Message = judge.Transient, "the judge failed"
	case r.Status == http.StatusUnauthorized, r.Status == http.StatusForbidden:
		e.Message = "the judge refused the key: see that it is set, right, and allowed to use this model"
	case r.Status == http.StatusNotFound:
		e.Message = "the judge knows no such model or path: see model and url"
	case r.Status == http.StatusRequestEntityTooLarge:
		e.Message = "the request is too large for the judge"
	default:
		e.Message = "the judge refused the request"
	}
	if len(codes) > 0 {
		e.Message += " [" + codes[0] + "]"
	}
	return e
}

// billing codes say that no later try will do (seed, "Errors from the hosted
// judges").
func billing(code string) bool {
	switch code {
	case "credit_balance_exhausted", "organization_spend_limit_exceeded", "project_spend_limit_exceeded",
		"organization_usage_limit_exceeded", "insufficient_quota":
		return true
	}
	return false
}

// known codes are repeated in errors, for they tell the operator what to mend.
// Any other may be an echo of what was sent.
func known(code string) bool {
	switch code {
	case "invalid_request_error", "authentication_error", "billing_error", "permission_error", "not_found_error", // Anthropic
		"request_too_large", "rate_limit_error", "api_error", "overloaded_error",
		"invalid_api_key", "model_not_found", "context_length_exceeded", "rate_limit_exceeded", "server_error", // OpenAI
		"invalid_image", "image_parse_error", "unsupported_parameter", "invalid_value", "invalid_type",
		"max_tokens_exceeded",                                                                          // System One
		"INVALID_ARGUMENT", "FAILED_PRECONDITION", "UNAUTHENTICATED", "PERMISSION_DENIED", "NOT_FOUND", // Gemini
		"RESOURCE_EXHAUSTED", "INTERNAL", "UNAVAILABLE", "DEADLINE_EXCEEDED":
		return true
	}
	return billing(code)
}

// knownCodes finds the known codes of an error body, the one that tells most
// first: {"error":{"code","type","status"}}, {"detail":{"error_type"}}, a list
// of either, or the same without a frame.
func knownCodes(body []byte) []string {
	var top map[string]any
	if json.Unmarshal(body, &top) != nil {
		return nil
	}
	var found []string
	add := func(v any) {
		if code, ok := v.(string); ok && known(code) && !slices.Contains(found, code) {
			found = append(found, code)
		}
	}
	look := func(v any) {
		switch v := v.(type) {
		case map[string]any:
			for _, key := range []string{"code", "error_type", "type", "status"} {
				add(v[key])
			}
		default:
			add(v)
		}
	}
	for _, frame := range []any{top["error"], top["detail"], top} {
		list, ok := frame.([]any)
		if !ok {
			list = []any{frame}
		}
		for _, v := range list {
			look(v)
		}
	}
	return found
}

// requestID is the host's name for the call. It goes into errors and the log,
// so that what is no plain id is left out.
func requestID(h http.Header) string {
	const most = 128
	for _, name := range []string{"X-Typesafe-Request-Id", "X-Request-Id", "Request-Id"} {
		id := h.Get(name)
		odd := strings.IndexFunc(id, func(c rune) bool {
			return !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.ContainsRune("-_.:=/+", c))
		})
		if id != "" && len(id) <= most && odd < 0 {
			return id
		}
	}
	return ""
}

// retryAfter reads retry-after-ms, else Retry-After in seconds or as a date. A
// date is taken against the host's own clock where the answer has it. What is
// negative, past or no number is nothing.
func retryAfter(h http.Header, now time.Time) time.Duration {
	if wait, ok := number(h.Get("Retry-After-Ms"), time.Millisecond); ok {
		return wait
	}
	value := h.Get("Retry-After")
	if wait, ok := number(value, time.Second); ok {
		return wait
	}
	at, err := http.ParseTime(value)
	if err != nil {
		return 0
	}
	if date, err := http.ParseTime(h.Get("Date")); err == nil {
		now = date
	}
	return min(max(at.Sub(now), 0), MaxRetryAfter)
}

func number(s string, unit time.Duration) (time.Duration, bool) {
	x, err := strconv.ParseFloat(strings.TrimSpace(s), 64)
	if err != nil || math.IsNaN(x) {
		return 0, false
	}
	return time.Duration(min(max(x*float64(unit), 0), float64(MaxRetryAfter))), true
}
