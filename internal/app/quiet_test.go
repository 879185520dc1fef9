package app_test

import (
	"errors"
	"strings"
	"testing"

	"attend/internal/app"
	"attend/internal/config"
	"attend/internal/engine"
	"attend/internal/judge"
)

// A command may write what it read to its standard error. Nothing of a window is
// kept by that way where nothing is to be kept, after a reload too.
func TestNewJudging_KeepsNothingThatACommandWrites(t *testing.T) {
	const words = "the words of a stranger"
	in := &judge.Input{Guidance: words, Routes: []judge.Offer{{Route: engine.Queue}}}
	var before *app.Judging
	for _, record := range []bool{true, false} {
		j, err := app.NewJudging(&config.Judges{Record: record, Entries: []config.Judge{{
			Name: "mine", Type: config.JudgeCommand, Command: []string{"sh", "-c", "cat >&2; exit 1"},
		}}}, app.JudgeOptions{Secret: []byte("s"), Environ: []string{"PATH=/usr/bin:/bin"}, Before: before})
		if err != nil {
			t.Fatal(err)
		}
		_, err = j.Judge.Judge(t.Context(), in)
		var failed *judge.Error
		if !errors.As(err, &failed) || len(failed.Calls) != 1 {
			t.Fatalf("got %v, want a failure with its exchange", err)
		}
		if told := strings.Contains(failed.Message+failed.Calls[0].Message, words); told != record {
			t.Errorf("recorded %t: the error says %q", record, failed.Message)
		}
		before = j
	}
	before.Close()
}
