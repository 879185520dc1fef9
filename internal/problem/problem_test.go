package problem_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/google/go-cmp/cmp"

	"attend/internal/problem"
)

func TestWrite_AProblem(t *testing.T) {
	w := httptest.NewRecorder()
	w.Header().Set("Retry-After", "1")
	problem.New(http.StatusTooManyRequests, "saturated", `too many requests: "again" <later> & slower`).Write(w)

	if w.Code != http.StatusTooManyRequests {
		t.Errorf("status %d, want 429", w.Code)
	}
	want := http.Header{
		"Content-Type":           {"application/problem+json"},
		"X-Content-Type-Options": {"nosniff"},
		"Cache-Control":          {"no-store"},
		"Retry-After":            {"1"},
	}
	if diff := cmp.Diff(want, w.Header()); diff != "" {
		t.Errorf("headers (-want +got):\n%s", diff)
	}
	body := `{"type":"about:blank","title":"Too Many Requests","status":429,"detail":"too many requests: \"again\" <later> & slower","code":"saturated"}` + "\n"
	if diff := cmp.Diff(body, w.Body.String()); diff != "" {
		t.Errorf("body (-want +got):\n%s", diff)
	}
}

func TestWrite_MembersOfOnesOwn(t *testing.T) {
	w := httptest.NewRecorder()
	problem.Write(w, http.StatusUnprocessableEntity, struct {
		problem.Problem
		Rejected int `json:"rejected"`
	}{problem.New(http.StatusUnprocessableEntity, "linesRejected", "2 lines"), 2})
	body := `{"type":"about:blank","title":"Unprocessable Entity","status":422,"detail":"2 lines","code":"linesRejected","rejected":2}` + "\n"
	if diff := cmp.Diff(body, w.Body.String()); diff != "" {
		t.Errorf("body (-want +got):\n%s", diff)
	}
}

func TestWrite_WhatCannotBeJSON(t *testing.T) {
	w := httptest.NewRecorder()
	problem.Write(w, http.StatusBadRequest, func() {})
	if w.Code != http.StatusInternalServerError {
		t.Errorf("status %d, want 500", w.Code)
	}
}
