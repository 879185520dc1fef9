package field

import (
	"fmt"
)

// Codes of the protocol's errors (docs/field.md, "Errors").
const (
	IntentRequired       = "INTENT_REQUIRED"
	IntentTooShort       = "INTENT_TOO_SHORT"
	InvalidEntry         = "INVALID_ENTRY"
	InvalidQuery         = "INVALID_QUERY"
	AgentRequired        = "AGENT_REQUIRED"
	DraftNotFound        = "DRAFT_NOT_FOUND"
	RetractNotAuthorized = "RETRACT_NOT_AUTHORIZED"
	EntryNotFound        = "ENTRY_NOT_FOUND"
)

// Error is an operation that the rules refuse. The Field is as it was.
type Error struct {
	Code    string         // one of the codes above
	Message string         // what is wrong, where, and how to mend it, in plain words
	Details map[string]any // figures for programs; often nil
}

// Error returns the message with its code.
func (e *Error) Error() string { return e.Code + ": " + e.Message }

func refuse(code, format string, args ...any) *Error {
	return &Error{Code: code, Message: fmt.Sprintf(format, args...)}
}
