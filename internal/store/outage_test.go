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
		o := store.Outage{Logger: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{ReplaceAttr: plain})), Of: "api"}
		gone := errors.New("gone")
		o.Worked("write")
		for range 25 {
			for range 20 {
				o.Failed("write", gone)
				o.Worked("read")
			}
			time.Sleep(time.Second)
		}
		o.Worked("write")
		o.Worked("write")
		o.Failed("", gone)
		o.Worked("read")
		const away, back = `level=ERROR msg="the store does not answer: requests are refused" of=api `, `level=INFO msg="the store answers again" of=api `
		want := []string{
			away + "refused=1 error=gone last=write",
			away + "refused=201 error=gone last=write",
			away + "refused=401 error=gone last=write",
			back + "refused=500",
			away + "refused=1 error=gone",
			back + "refused=1",
		}
		if diff := cmp.Diff(want, strings.Split(strings.TrimSpace(log.String()), "\n")); diff != "" {
			t.Error(diff)
		}
	})
}
