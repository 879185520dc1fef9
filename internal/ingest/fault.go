package ingest

import "fmt"

// Code says why a line was refused. The set is closed.
type Code string

// What makes a line no line. Sending it again as it is never helps.
const (
	CodeSyntax         Code = "syntax"         // not JSON
	CodeIncomplete     Code = "incomplete"     // ends inside a value
	CodeTooDeep        Code = "tooDeep"        // nested deeper than maxDepth
	CodeInvalidUTF8    Code = "invalidUtf8"    // bytes that are not UTF-8, anywhere
	CodeLoneSurrogate  Code = "loneSurrogate"  // half a surrogate pair in an escape, anywhere
	CodeTwoValues      Code = "twoValues"      // more than one value on a line
	CodeNotObject      Code = "notObject"      // JSON, but no object
	CodeTooLarge       Code = "tooLarge"       // over maxEventBytes
	CodeDuplicateField Code = "duplicateField" // a known field twice
	CodeFieldCase      Code = "fieldCase"      // a known field in another case
	CodeMissingField   Code = "missingField"   // no scope, no name
	CodeWrongType      Code = "wrongType"      // a known field with another type
	CodeEmptyField     Code = "emptyField"     // scope, name or id is ""
	CodeTooLong        Code = "tooLong"        // scope, name or id is over its limit
	CodeControl        Code = "control"        // a control character in scope
	CodeBadTime        Code = "badTime"        // at is no instant
	CodeForbiddenScope Code = "forbiddenScope" // the caller may not write to this scope
	CodeBadEncoding    Code = "badEncoding"    // what is not whole where the compressed body went wrong
)

// What may pass later.
const (
	CodeOutboxFull       Code = "outboxFull"       // the scope's lane is full
	CodeWindowFull       Code = "windowFull"       // the scope's window is full while it is being judged
	CodeStoreUnavailable Code = "storeUnavailable" // the line's group was not committed, as far as is known
	CodeBodyCut          Code = "bodyCut"          // what is not whole where the connection ended
)

// retryable reports whether the same line may pass later.
func (c Code) retryable() bool {
	switch c {
	case CodeOutboxFull, CodeWindowFull, CodeStoreUnavailable, CodeBodyCut:
		return true
	default:
		return false
	}
}

// fault is what is wrong with one line.
type fault struct {
	code   Code
	column int // of the byte where it goes wrong, from 1; 0 for the line as a whole
	text   string
	// framing: where this line ends, and so where the next begins, is not
	// certain unless a newline says so.
	framing bool
}

func (f *fault) String() string {
	if f.column == 0 {
		return f.text
	}
	return fmt.Sprintf("column %d: %s", f.column, f.text)
}
