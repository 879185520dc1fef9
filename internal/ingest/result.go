package ingest

import (
	"cmp"
	"net/http"
	"slices"
)

// maxErrors is how many refused lines a result names. All are counted.
const maxErrors = 100

// Result tells what became of the lines that were read: Accepted + Duplicates
// + Rejected is the number of those that were not blank.
type Result struct {
	Accepted   int         `json:"accepted"`   // durable, and new to their scope
	Duplicates int         `json:"duplicates"` // their scope remembers the id: nothing changed
	Rejected   int         `json:"rejected"`   // nothing of them was kept
	Errors     []LineError `json:"errors"`     // the first 100 rejected lines, in order

	retryable int // how many of Rejected may pass later
}

// LineError tells why one line was refused.
type LineError struct {
	Line      int    `json:"line"`  // from 1, blank lines counted; of an array, the element
	Code      Code   `json:"code"`  // for programs
	Error     string `json:"error"` // what, where (columns are bytes from 1), how to mend it
	Retryable bool   `json:"retryable"`
}

// Status is the HTTP status that tells the result: 200 when nothing was
// rejected, 429 when some of it may pass later, 422 when sending it again is
// in vain.
func (r *Result) Status() int {
	switch {
	case r.Rejected == 0:
		return http.StatusOK
	case r.retryable > 0:
		return http.StatusTooManyRequests
	default:
		return http.StatusUnprocessableEntity
	}
}

// add joins what became of a group's lines.
func (r *Result) add(o *Result) {
	r.Accepted += o.Accepted
	r.Duplicates += o.Duplicates
	r.Rejected += o.Rejected
	r.retryable += o.retryable
	slices.SortStableFunc(o.Errors, func(a, b LineError) int { return cmp.Compare(a.Line, b.Line) })
	r.Errors = append(r.Errors, o.Errors[:min(len(o.Errors), maxErrors-len(r.Errors))]...)
}

// refuse counts a rejected line. Only the first errors of a group can be among
// the first of the result; a group keeps no more of them, in the order of
// their lines but for those of a commit that failed.
func (r *Result) refuse(line int, f *fault) {
	r.Rejected++
	if f.code.retryable() {
		r.retryable++
	}
	if len(r.Errors) < maxErrors {
		r.Errors = append(r.Errors, LineError{Line: line, Code: f.code, Error: f.String(), Retryable: f.code.retryable()})
	}
}
