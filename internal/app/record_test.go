package app_test

import (
	"bytes"
	"runtime"
	"sync"
	"testing"
	"time"
)

// record keeps what was logged.
type record struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (r *record) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.b.Write(p)
}

func (r *record) String() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.b.String()
}

// until returns when the condition holds; it fails the test when it never
// does.
func until(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !holds(); {
		if time.Now().After(end) {
			t.Fatalf("never came: %s", what)
		}
		time.Sleep(time.Millisecond) //arch:sleep the poll of a condition
	}
}

// stacks shows where every goroutine of this process stands.
func stacks() string {
	b := make([]byte, 1<<20)
	return string(b[:runtime.Stack(b, true)])
}
