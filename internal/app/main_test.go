package app_test

import (
	"testing"

	"go.uber.org/goleak"
)

// The standard server keeps a connection for half a second after it has ended
// its side of it; on a busy machine goleak is there first.
func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("net/http.(*conn).closeWriteAndWait"))
}
