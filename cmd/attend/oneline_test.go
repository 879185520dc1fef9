package main

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"attend/internal/config"
)

// A failure to connect has a line for each address and way, and is one line of
// the log, in which each thing is said once.
func TestLogger_AnErrorIsOneLine(t *testing.T) {
	var log bytes.Buffer
	err := errors.New("append: connect `user=a`:\n\t[::1]:5432: refused\n\t127.0.0.1:5432: refused\n\t[::1]:5432: refused")
	newLogger(&config.Config{}, &log).Error("away", "error", err, "n", 1)
	newLogger(&config.Config{}, &log).Error("away", "error", errors.New("all:; that"))
	want := `level=ERROR msg=away error="append: connect ` + "`user=a`: [::1]:5432: refused; 127.0.0.1:5432: refused" + `" n=1`
	lines := strings.Split(strings.TrimSpace(log.String()), "\n")
	if len(lines) != 2 || !strings.HasSuffix(lines[0], want) || !strings.HasSuffix(lines[1], `error="all:; that"`) {
		t.Errorf("it logs %q, want %q", lines, want)
	}
}
