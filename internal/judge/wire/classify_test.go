package wire

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"attend/internal/judge"
)

// The seed's table, "Errors from the hosted judges", each row with a body that
// repeats what was sent and with none.
func TestClassify_Table(t *testing.T) {
	billed := func(code string) string { return `{"detail":{"error_type":"` + code + `"}}` }
	for _, c := range []struct {
		status int
		body   string
		class  judge.Class
		says   string
	}{
		{408, "", judge.Transient, "failed"},
		{429, "", judge.Transient, "no more requests for now"},
		{429, `{"error":{"type":"rate_limit_error","message":"` + state + `"}}`, judge.Transient, "[rate_limit_error]"},
		{429, `{"error":{"code":429,"status":"RESOURCE_EXHAUSTED"}}`, judge.Transient, "[RESOURCE_EXHAUSTED]"},
		{500, "", judge.Transient, "failed"},
		{502, "<html>" + state + "</html>", judge.Transient, "failed"},
		{503, `{"error":{"status":"UNAVAILABLE"}}`, judge.Transient, "[UNAVAILABLE]"},
		{504, "", judge.Transient, "failed"},
		{529, `{"type":"error","error":{"type":"overloaded_error"}}`, judge.Transient, "[overloaded_error]"},

		{429, billed("credit_balance_exhausted"), judge.Permanent, "[credit_balance_exhausted]"},
		{429, billed("organization_spend_limit_exceeded"), judge.Permanent, "[organization_spend_limit_exceeded]"},
		{429, billed("project_spend_limit_exceeded"), judge.Permanent, "[project_spend_limit_exceeded]"},
		{429, billed("organization_usage_limit_exceeded"), judge.Permanent, "[organization_usage_limit_exceeded]"},
		{429, `{"error":{"code":"insufficient_quota","type":"insufficient_quota"}}`, judge.Permanent, "[insufficient_quota]"},
		{429, `{"error":{"type":"rate_limit_error","code":"insufficient_quota"}}`, judge.Permanent, "spent or at its limit"},
		{429, `{"error":"insufficient_quota"}`, judge.Permanent, "spent or at its limit"},
		{429, `{"code":"insufficient_quota"}`, judge.Permanent, "spent or at its limit"},
		{429, `{"error":{"message":"insufficient_quota"}}`, judge.Transient, "for now"}, // words are no code

		{400, "", judge.Permanent, "refused the request"},
		{400, `{"detail":{"error_type":"max_tokens_exceeded"}}`, judge.Permanent, "[max_tokens_exceeded]"},
		{400, `{"error":{"code":"` + state + `"}}`, judge.Permanent, "refused the request"},
		{401, "", judge.Permanent, "refused the key"},
		{401, `{"error":{"code":"invalid_api_key","message":"` + secret + `"}}`, judge.Permanent, "[invalid_api_key]"},
		{402, `{"error":{"type":"billing_error"}}`, judge.Permanent, "[billing_error]"},
		{403, "", judge.Permanent, "refused the key"},
		{404, `{"error":{"type":"not_found_error"}}`, judge.Permanent, "see model and url"},
		{409, "", judge.Permanent, "refused the request"},
		{413, "", judge.Permanent, "too large"},
		{422, "", judge.Permanent, "refused the request"},
		{422, `{"detail":[{"loc":["body","state"],"type":"invalid_type","input":"` + state + `"}]}`, judge.Permanent, "[invalid_type]"},
		{101, "", judge.Permanent, "refused the request"},
	} {
		url := serve(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("X-Typesafe-Request-Id", "req-7")
			w.WriteHeader(c.status)
			fmt.Fprint(w, c.body)
		})
		if c.status < 200 {
			if e := Classify(&Response{Status: c.status}); e == nil || e.Class != c.class {
				t.Errorf("%d: got %v", c.status, e)
			}
			continue
		}
		_, x, err := ask(t.Context(), t, url)
		if err == nil || err.Class != c.class || !strings.Contains(err.Message, c.says) || err.Status != c.status || err.RequestID != "req-7" {
			t.Errorf("%d %s: got %v", c.status, c.body, err)
		}
		if x.Status != c.status || x.RequestID != "req-7" || x.Outcome != string(c.class) {
			t.Errorf("%d %s: the record is %+v", c.status, c.body, x)
		}
	}
}

// A status counts even where the body breaks off.
func TestClassify_StatusBeforeBody(t *testing.T) {
	url := serve(t, hijack(t, "HTTP/1.1 401 Unauthorized\r\nContent-Length: 99\r\n\r\n{", false))
	if _, _, err := ask(t.Context(), t, url); err == nil || err.Class != judge.Permanent || err.Status != 401 {
		t.Errorf("got %v", err)
	}
}

func TestRetryAfter(t *testing.T) {
	now := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	at := func(d time.Duration) string { return now.Add(d).Format(http.TimeFormat) }
	for _, c := range []struct {
		name   string
		header http.Header
		want   time.Duration
	}{
		{"nothing", http.Header{}, 0},
		{"seconds", http.Header{"Retry-After": {"7"}}, 7 * time.Second},
		{"half seconds", http.Header{"Retry-After": {"0.5"}}, 500 * time.Millisecond},
		{"zero", http.Header{"Retry-After": {"0"}}, 0},
		{"a date", http.Header{"Retry-After": {at(90 * time.Second)}}, 90 * time.Second},
		{"a date by the host's clock", http.Header{"Retry-After": {at(time.Hour + 5*time.Second)}, "Date": {at(time.Hour)}}, 5 * time.Second},
		{"a date that is past", http.Header{"Retry-After": {at(-time.Minute)}}, 0},
		{"milliseconds", http.Header{"Retry-After-Ms": {"250"}}, 250 * time.Millisecond},
		{"milliseconds go first", http.Header{"Retry-After-Ms": {"250"}, "Retry-After": {"7"}}, 250 * time.Millisecond},
		{"milliseconds that are none", http.Header{"Retry-After-Ms": {"soon"}, "Retry-After": {"7"}}, 7 * time.Second},
		{"days", http.Header{"Retry-After": {"864000"}}, MaxRetryAfter},
		{"days as a date", http.Header{"Retry-After": {at(240 * time.Hour)}}, MaxRetryAfter},
		{"more than a number holds", http.Header{"Retry-After": {"1e300"}}, MaxRetryAfter},
		{"infinite", http.Header{"Retry-After": {"Inf"}}, MaxRetryAfter},
		{"negative", http.Header{"Retry-After": {"-5"}}, 0},
		{"no number", http.Header{"Retry-After": {"NaN"}}, 0},
		{"garbage", http.Header{"Retry-After": {"after lunch"}}, 0},
	} {
		if got := retryAfter(c.header, now); got != c.want {
			t.Errorf("%s: got %v, want %v", c.name, got, c.want)
		}
	}
}

// What is asked for reaches the error and the record, whatever the error (seed,
// "Errors from the hosted judges").
func TestRetryAfter_OnTheError(t *testing.T) {
	for _, status := range []int{429, 503, 529, 400, 307, 200} {
		url := serve(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", "7")
			w.WriteHeader(status)
		})
		_, x, err := ask(t.Context(), t, url)
		if err == nil || err.RetryAfter != 7*time.Second || x.RetryAfterMs != 7000 {
			t.Errorf("%d: got %v, record %+v", status, err, x)
		}
	}
}

func TestRequestID(t *testing.T) {
	for _, c := range []struct {
		header http.Header
		want   string
	}{
		{http.Header{"X-Typesafe-Request-Id": {"a"}, "X-Request-Id": {"b"}, "Request-Id": {"c"}}, "a"},
		{http.Header{"X-Request-Id": {"b"}, "Request-Id": {"c"}}, "b"},
		{http.Header{"Request-Id": {"req_011CSHoEeqs5C35K2UUqR7Fy"}}, "req_011CSHoEeqs5C35K2UUqR7Fy"},
		{http.Header{"X-Request-Id": {"two words"}, "Request-Id": {"c"}}, "c"},
		{http.Header{"X-Request-Id": {strings.Repeat("x", 129)}}, ""},
		{http.Header{"X-Request-Id": {"a\x1b[31m"}}, ""},
		{http.Header{}, ""},
	} {
		if got := requestID(c.header); got != c.want {
			t.Errorf("%v: got %q, want %q", c.header, got, c.want)
		}
	}
}
