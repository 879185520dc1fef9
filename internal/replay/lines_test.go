package replay_test

import (
	"strings"
	"testing"

	"attend/internal/replay"
)

// TestReader_SkipsAByteOrderMark: ingest does, and editors write one.
func TestReader_SkipsAByteOrderMark(t *testing.T) {
	const line = `{"scope":"s","name":"n","id":"i","at":5}`
	got, _, err := read(replay.Reader{}, "\ufeff"+line)
	if err != nil || len(got) != 1 || got[0] != "5 s event n i at 5" {
		t.Errorf("got %q, %v", got, err)
	}
	if _, _, err := read(replay.Reader{}, line+"\n\ufeff"+line); err == nil {
		t.Error("one in the middle of the file was taken")
	}
}

func TestReader_SaysHowLongALineMayBe(t *testing.T) {
	file := "\n" + `{"scope":"s","name":"n","text":"` + strings.Repeat("x", 16<<20) + `"}`
	_, _, err := read(replay.Reader{}, file)
	if err == nil || !strings.Contains(err.Error(), "f:2: the line has more than 16777216 bytes") {
		t.Errorf("got %v", err)
	}
}
