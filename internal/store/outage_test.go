package store_test

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"attend/internal/store"
)

// However much is refused, it is told when it begins, once in ten seconds, and
// when it is over: when what failed last works, and not something else.
func TestOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		plain := func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey {
				return slog.Attr{}
			}
			return a
		}
		o := store.Outage{Logger: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{ReplaceAttr: plain})), Began: "away", Over: "back"}
		away := errors.New("gone")
		o.Worked("write")
		for range 25 {
			for range 20 {
				o.Failed("write", away)
				o.Worked("read")
			}
			time.Sleep(time.Second)
		}
		if !o.Going() {
			t.Error("what works is not what failed, and it is over")
		}
		o.Worked("write")
		o.Worked("write")
		o.Failed("", away)
		o.Worked("read")
		if o.Going() {
			t.Error("any work ends it, and it goes on")
		}
		want := []string{
			"level=ERROR msg=away refused=1 last=write error=gone",
			"level=ERROR msg=away refused=201 last=write error=gone",
			"level=ERROR msg=away refused=401 last=write error=gone",
			"level=INFO msg=back refused=500",
			`level=ERROR msg=away refused=1 last="" error=gone`,
			"level=INFO msg=back refused=1",
		}
		if diff := cmp.Diff(want, strings.Split(strings.TrimSpace(log.String()), "\n")); diff != "" {
			t.Error(diff)
		}
	})
}
