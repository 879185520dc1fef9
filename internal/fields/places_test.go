package fields

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"attend/internal/field"
	"attend/internal/store/memory"
)

// While every place is taken, what is large waits, and gives up with its
// caller; small reads and writes go on.
func TestService_LargeReadsWaitForAPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, err := New(Options{Store: memory.New(memory.Options{}), Settings: field.DefaultSettings(), Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		write := fmt.Sprintf(`{"agent":"kelp","intent":"so that the others know","entry":{"topic":"tide","text":"%s"}}`, strings.Repeat("x", 60000))
		for range 30 {
			if _, err := s.Do(t.Context(), "", field.OpWrite, json.RawMessage(write)); err != nil {
				t.Fatal(err)
			}
		}
		const query = `{"query":{"height":4}}`
		for range cap(s.places) {
			s.places <- struct{}{}
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		for _, c := range []struct {
			op     field.Op
			params string
			waits  bool
		}{
			{field.OpReckon, `{"agent":"mara"}`, true},
			{field.OpRead, query, true},
			{field.OpReckon, `{"agent":"mara","max_units":3}`, false},
			{field.OpAttune, `{"agent":"mara"}`, false},
			{field.OpRead, `{"limit":3}`, false},
			{field.OpWrite, write, false},
		} {
			start := time.Now()
			_, err := s.Do(ctx, "", c.op, json.RawMessage(c.params))
			if waited := time.Since(start) > 0; c.op == field.OpReckon && c.waits && !waited {
				t.Errorf("%s %s did not wait", c.op, c.params)
			}
			if c.waits != errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%s %.60s: %v", c.op, c.params, err)
			}
			if c.waits {
				ctx, cancel = context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
			}
		}
		<-s.places
		for _, op := range []field.Op{field.OpReckon, field.OpRead} {
			p := map[field.Op]string{field.OpReckon: `{"agent":"mara"}`, field.OpRead: query}[op]
			if _, err := s.Do(t.Context(), "", op, json.RawMessage(p)); err != nil {
				t.Errorf("%s with a place: %v", op, err)
			}
		}
		if taken := len(s.places); taken != cap(s.places)-1 {
			t.Errorf("%d places are taken, want %d", taken, cap(s.places)-1)
		}
	})
}
