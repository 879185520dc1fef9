package feed

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"attend/internal/engine"
	"attend/internal/store"
	"attend/internal/store/memory"
)

// desk is a world with consumers.
type desk struct {
	*world
	consumers *Consumers
}

func newDesk(t fataler, o ConsumersOptions) *desk {
	t.Helper()
	w := newWorld(t, memory.Options{})
	return &desk{w, NewConsumers(w.store, NewReader(w.store), o)}
}

// restart is what a new process finds.
func (d *desk) restart() { d.consumers = NewConsumers(d.store, NewReader(d.store), d.consumers.opts) }

// look calls without waiting.
func (d *desk) look(name, ack string) Answer {
	d.t.Helper()
	return d.call(Call{Consumer: name, Ack: ack})
}

func (d *desk) call(c Call) Answer {
	d.t.Helper()
	a, err := d.consumers.Wait(context.Background(), c)
	if err != nil {
		d.t.Fatalf("wait as %q with ack %q: %v", c.Consumer, c.Ack, err)
	}
	return a
}

func (d *desk) row(name string) consumerRow {
	d.t.Helper()
	b, err := d.store.Row(context.Background(), store.SpaceConsumer, name)
	if err != nil {
		d.t.Fatalf("row of %q: %v", name, err)
	}
	row, err := decodeRow(b)
	if err != nil {
		d.t.Fatalf("row of %q: %v", name, err)
	}
	return row
}

func TestConsumers_ANewOneStartsNow(t *testing.T) {
	d := newDesk(t, ConsumersOptions{})
	d.decide("a", engine.Interrupt, nil)
	first := d.look("c", "")
	if len(first.Items) != 0 || !first.TimedOut || first.Ack != "" || first.Truncated {
		t.Errorf("the first call got %+v", first)
	}
	// Its position was stored by the first call, so what comes between calls,
	// and over a restart, is not missed.
	d.restart()
	d.decide("a", engine.Queue, nil)
	if got := d.look("c", ""); !cmp.Equal(ids(got.Items), []string{"d2"}) {
		t.Errorf("got %v, want d2", ids(got.Items))
	}
}

func TestConsumers_ALostAnswerComesAgain(t *testing.T) {
	d := newDesk(t, ConsumersOptions{})
	d.look("c", "")
	d.decide("a", engine.Note, nil)
	d.decide("a", engine.Queue, nil)
	first := d.look("c", "")
	if want := []string{"d1", "d2"}; !cmp.Equal(ids(first.Items), want) || first.Redelivered || first.Ack == "" {
		t.Fatalf("got %v, redelivered %t, ack %q", ids(first.Items), first.Redelivered, first.Ack)
	}
	d.decide("a", engine.Interrupt, nil) // what came since does not change the answer
	for range 2 {
		d.restart()
		again := d.look("c", "")
		want := first
		want.Redelivered = true
		if diff := cmp.Diff(want, again); diff != "" {
			t.Fatalf("the same answer was expected:\n%s", diff)
		}
	}
	next := d.look("c", first.Ack)
	if want := []string{"d3"}; !cmp.Equal(ids(next.Items), want) || next.Redelivered {
		t.Errorf("after the ack: got %v, redelivered %t", ids(next.Items), next.Redelivered)
	}
}

// The caller of the lost answer can only repeat its call, old ack and all.
func TestConsumers_AnOldAckIsIgnored(t *testing.T) {
	d := newDesk(t, ConsumersOptions{})
	d.look("c", "")
	d.decide("a", engine.Queue, nil)
	first := d.look("c", "")
	d.decide("a", engine.Queue, nil)
	second := d.look("c", first.Ack)
	again := d.look("c", first.Ack)
	if !again.Redelivered || !cmp.Equal(ids(again.Items), ids(second.Items)) || again.Ack != second.Ack {
		t.Errorf("got %v, redelivered %t; want %v again", ids(again.Items), again.Redelivered, ids(second.Items))
	}
	d.look("c", second.Ack)
	if empty := d.look("c", second.Ack); len(empty.Items) != 0 {
		t.Errorf("the same ack twice brought %v", ids(empty.Items))
	}
}

func TestConsumers_AnEmptyAnswerNeedsNoAck(t *testing.T) {
	d := newDesk(t, ConsumersOptions{})
	d.look("c", "")
	d.happen("a", 10)
	if empty := d.look("c", ""); empty.Ack != "" || empty.Cursor.Position != d.head() {
		t.Errorf("got ack %q, cursor at %d of %d", empty.Ack, empty.Cursor.Position, d.head())
	}
	if at := d.row("c").Position; at != 0 {
		t.Errorf("the position moved to %d without an ack", at)
	}
	d.decide("a", engine.Ask, nil)
	if got := d.look("c", ""); got.Redelivered || len(got.Items) != 1 {
		t.Errorf("got %v, redelivered %t", ids(got.Items), got.Redelivered)
	}
}

func TestConsumers_AnAckIsAStepInTheLog(t *testing.T) {
	d := newDesk(t, ConsumersOptions{})
	d.look("c", "")
	d.decide("a", engine.Queue, nil)
	d.look("c", d.look("c", "").Ack)
	steps, err := d.store.Steps(t.Context(), store.StepQuery{Kinds: []engine.StepKind{engine.StepAck}})
	if err != nil {
		t.Fatal(err)
	}
	if len(steps) != 1 || !cmp.Equal(steps[0].Step.Ack, &engine.Ack{Consumer: "c", Position: 1}) {
		t.Errorf("got %d steps: %+v", len(steps), steps)
	}
}

func TestConsumers_BadAcks(t *testing.T) {
	d := newDesk(t, ConsumersOptions{})
	d.look("c", "")
	d.look("other", "")
	d.decide("a", engine.Queue, nil)
	ack := d.look("c", "").Ack
	ahead := token{what: whatAck, epoch: d.headOf().Epoch, position: 99, mark: consumerMark("c")}.encode()
	for name, c := range map[string]struct {
		consumer, ack string
		want          error
	}{
		"made up":            {"c", "yes", ErrMalformed},
		"a cursor":           {"c", Cursor{d.headOf().Epoch, 1}.Encode(), ErrMalformed},
		"another consumer's": {"other", ack, ErrAck},
		"never given out":    {"c", ahead, ErrAck},
	} {
		if _, err := d.consumers.Wait(t.Context(), Call{Consumer: c.consumer, Ack: c.ack}); !errors.Is(err, c.want) {
			t.Errorf("%s: got %v, want %v", name, err, c.want)
		}
	}
	d.look("other", "")
	if _, err := d.consumers.Wait(t.Context(), Call{Consumer: "other", Ack: ack}); !errors.Is(err, ErrAck) || d.row("other").Position != 0 {
		t.Errorf("another's ack for the same place: got %v, position %d", err, d.row("other").Position)
	}
	restored := token{what: whatAck, epoch: "before", position: 1, mark: consumerMark("c")}.encode()
	if again := d.look("c", restored); !again.Redelivered {
		t.Error("an ack from before a restore is ignored, so the answer comes again")
	}
}

func TestConsumers_RoutesThatEndTheWait(t *testing.T) {
	for _, c := range []struct {
		name   string
		routes []engine.Route
		came   []engine.Route
		want   []string
	}{
		{"a note alone does not", nil, []engine.Route{engine.Note}, nil},
		{"notes ride along", nil, []engine.Route{engine.Note, engine.Queue, engine.Note}, []string{"d1", "d2", "d3"}},
		{"ask does", nil, []engine.Route{engine.Ask}, []string{"d1"}},
		{"skip never comes unasked", nil, []engine.Route{engine.Skip, engine.Interrupt}, []string{"d2"}},
		{"skip asked for", []engine.Route{engine.Skip}, []engine.Route{engine.Interrupt, engine.Skip}, []string{"d2"}},
		{"only what is named", []engine.Route{engine.Interrupt}, []engine.Route{engine.Queue}, nil},
		{"what is named, and notes", []engine.Route{engine.Interrupt}, []engine.Route{engine.Note, engine.Queue, engine.Interrupt}, []string{"d1", "d3"}},
		{"a note by name", []engine.Route{engine.Note}, []engine.Route{engine.Queue, engine.Note}, []string{"d2"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := newDesk(t, ConsumersOptions{})
			want := Want{Filter: Filter{Routes: c.routes}}
			d.call(Call{Consumer: "c", Want: want})
			for _, route := range c.came {
				d.decide("a", route, nil)
			}
			got := d.call(Call{Consumer: "c", Want: want})
			if !cmp.Equal(append([]string{}, c.want...), ids(got.Items)) || got.TimedOut != (c.want == nil) {
				t.Errorf("got %v, timed out %t; want %v", ids(got.Items), got.TimedOut, c.want)
			}
			at, err := d.consumers.WaitAt(t.Context(), 0, want)
			if err != nil {
				t.Fatal(err)
			}
			if !cmp.Equal(append([]string{}, c.want...), ids(at.Items)) {
				t.Errorf("from a cursor: got %v; want %v", ids(at.Items), c.want)
			}
		})
	}
}

// Notes that wait for company are passed by no cursor.
func TestConsumers_ACursorPassesNoNote(t *testing.T) {
	d := newDesk(t, ConsumersOptions{})
	d.happen("a", 2)
	d.decide("a", engine.Note, nil)
	d.happen("a", 2)
	first, err := d.consumers.WaitAt(t.Context(), 0, Want{})
	if err != nil {
		t.Fatal(err)
	}
	if !first.TimedOut || first.Cursor.Position != 2 {
		t.Errorf("timed out %t at %d; want at 2, before the note", first.TimedOut, first.Cursor.Position)
	}
	d.decide("a", engine.Queue, nil)
	next, err := d.consumers.WaitAt(t.Context(), first.Cursor.Position, Want{})
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"d1", "d2"}; !cmp.Equal(ids(next.Items), want) || next.Cursor.Position != d.head() {
		t.Errorf("got %v up to %d, want %v up to %d", ids(next.Items), next.Cursor.Position, want, d.head())
	}
}

func TestConsumers_AnswersAreBounded(t *testing.T) {
	d := newDesk(t, ConsumersOptions{})
	d.look("c", "")
	for range MaxAnswerDecisions + 1 {
		d.decide("a", engine.Queue, nil)
	}
	first := d.look("c", "")
	if len(first.Items) != MaxAnswerDecisions {
		t.Errorf("got %d decisions, want %d", len(first.Items), MaxAnswerDecisions)
	}
	if rest := d.look("c", first.Ack); len(rest.Items) != 1 {
		t.Errorf("got %d more, want 1", len(rest.Items))
	}

	big := newDesk(t, ConsumersOptions{})
	big.look("c", "")
	for range 10 {
		big.decide("a", engine.Queue, func(d *engine.Decision) { d.Notice = strings.Repeat("n", 50_000) })
	}
	got := big.look("c", "")
	size := 0
	for i := range got.Items {
		size += answerSize(&got.Items[i])
	}
	if size > MaxAnswerBytes || size < MaxAnswerBytes/2 {
		t.Errorf("an answer of %d bytes, want at most and about %d", size, MaxAnswerBytes)
	}
}

// started runs a call in the background.
func started(ctx context.Context, d *desk, c Call) <-chan any {
	done := make(chan any, 1)
	go func() {
		a, err := d.consumers.Wait(ctx, c)
		if err != nil {
			done <- err
			return
		}
		done <- a
	}()
	return done
}

func long(name string) Call { return Call{Consumer: name, Want: Want{Timeout: time.Hour}} }

func TestConsumers_WaitEndsWhenSomethingComes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t, ConsumersOptions{})
		done := started(t.Context(), d, long("c"))
		synctest.Wait()
		d.decide("a", engine.Note, nil)
		synctest.Wait()
		d.decide("a", engine.Queue, nil)
		a, ok := (<-done).(Answer)
		if want := []string{"d1", "d2"}; !ok || !cmp.Equal(ids(a.Items), want) || a.TimedOut {
			t.Errorf("got %+v, want %v", a, want)
		}
	})
}

func TestConsumers_WaitTimesOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t, ConsumersOptions{})
		began := time.Now()
		a := d.call(long("c"))
		if !a.TimedOut || len(a.Items) != 0 || time.Since(began) != time.Hour {
			t.Errorf("got %+v after %s", a, time.Since(began))
		}
	})
}

func TestConsumers_ANewerCallEndsTheOlder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t, ConsumersOptions{})
		var calls []<-chan any
		for range 5 {
			calls = append(calls, started(t.Context(), d, long("c")))
			synctest.Wait()
		}
		other := started(t.Context(), d, long("other"))
		for i, done := range calls[:4] {
			a, ok := (<-done).(Answer)
			if !ok || len(a.Items) != 0 || a.TimedOut || a.Ack != "" {
				t.Errorf("call %d got %+v, want an empty answer", i, a)
			}
		}
		synctest.Wait()
		d.decide("a", engine.Queue, nil)
		for _, done := range []<-chan any{calls[4], other} {
			if a, ok := (<-done).(Answer); !ok || len(a.Items) != 1 {
				t.Errorf("the last call, and that of another consumer, got %+v", a)
			}
		}
		if len(d.consumers.slots) != 0 {
			t.Errorf("%d turns are still taken", len(d.consumers.slots))
		}
	})
}

func TestConsumers_ACallerThatGoes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t, ConsumersOptions{})
		ctx, cancel := context.WithCancel(t.Context())
		done := started(ctx, d, long("c"))
		synctest.Wait()
		cancel()
		if err, ok := (<-done).(error); !ok || !errors.Is(err, context.Canceled) {
			t.Errorf("got %v, want the context's error", err)
		}
		d.decide("a", engine.Queue, nil)
		if got := d.look("c", ""); len(got.Items) != 1 || got.Redelivered {
			t.Errorf("the next call got %v", ids(got.Items))
		}
	})
}

func TestConsumers_CloseAnswersEveryone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t, ConsumersOptions{})
		named := started(t.Context(), d, long("c"))
		unnamed := make(chan any, 1)
		go func() {
			a, err := d.consumers.WaitAt(t.Context(), 0, Want{Timeout: time.Hour})
			if err != nil {
				unnamed <- err
				return
			}
			unnamed <- a
		}()
		synctest.Wait()
		d.consumers.Close()
		d.consumers.Close()
		late := started(t.Context(), d, long("c"))
		for i, done := range []<-chan any{named, unnamed, late} {
			if a, ok := (<-done).(Answer); !ok || len(a.Items) != 0 || a.TimedOut {
				t.Errorf("%d got %+v, want an empty answer", i, a)
			}
		}
		if _, err := d.consumers.WaitAt(t.Context(), 0, Want{Timeout: time.Hour}); err != nil {
			t.Errorf("a late call without a name got %v", err)
		}
	})
}

// interrupted is a store whose n-th look at a row is cut short by something
// that happens meanwhile, as a database driver's is by its context.
type interrupted struct {
	Store
	rows      int
	meanwhile func()
}

func (i *interrupted) Row(ctx context.Context, space, key string) ([]byte, error) {
	if i.rows--; i.rows == 0 {
		i.meanwhile()
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	return i.Store.Row(ctx, space, key)
}

// A call that is ended before it waits is answered like one that waits.
func TestConsumers_CloseAnswersThoseWhoDoNotWaitYet(t *testing.T) {
	w := newWorld(t, memory.Options{})
	st := &interrupted{Store: w.store, rows: 1}
	d := &desk{w, NewConsumers(st, NewReader(w.store), ConsumersOptions{})}
	st.meanwhile = d.consumers.Close
	if a := d.call(long("c")); len(a.Items) != 0 || a.TimedOut {
		t.Errorf("got %+v, want an empty answer", a)
	}

	gone, cancel := context.WithCancel(t.Context())
	d.consumers = NewConsumers(&interrupted{Store: w.store, rows: 1, meanwhile: cancel}, NewReader(w.store), ConsumersOptions{})
	if _, err := d.consumers.Wait(gone, long("c")); !errors.Is(err, context.Canceled) {
		t.Errorf("a caller that goes got %v, want the context's error", err)
	}
}

// slow is a store in which a look takes longer than its caller waits.
type slow struct{ Store }

func (s slow) Steps(ctx context.Context, q store.StepQuery) ([]engine.Record, error) {
	select {
	case <-time.After(time.Second):
		return s.Store.Steps(ctx, q)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func TestConsumers_AShortWaitHearsOfWhatIsThere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, memory.Options{})
		st := slow{w.store}
		d := &desk{w, NewConsumers(st, NewReader(st), ConsumersOptions{})}
		d.look("c", "")
		d.decide("a", engine.Queue, nil)
		a := d.call(Call{Consumer: "c", Want: Want{Timeout: time.Millisecond}})
		if len(a.Items) != 1 || a.TimedOut {
			t.Errorf("got %+v, want the decision", a)
		}
	})
}

func TestConsumers_Names(t *testing.T) {
	d := newDesk(t, ConsumersOptions{})
	for name, ok := range map[string]bool{
		"deploy bot": true, "名": true, strings.Repeat("x", MaxConsumerName): true,
		"": false, strings.Repeat("x", MaxConsumerName+1): false, "a\nb": false, "\xff": false,
	} {
		_, err := d.consumers.Wait(t.Context(), Call{Consumer: name})
		if ok != (err == nil) || !ok && !errors.Is(err, ErrConsumerName) {
			t.Errorf("%q: got %v, want ok %t", name, err, ok)
		}
	}
}

func TestConsumers_Limit(t *testing.T) {
	d := newDesk(t, ConsumersOptions{Max: 2})
	for i := range 2 {
		d.look(fmt.Sprint(i), "")
	}
	_, err := d.consumers.Wait(t.Context(), Call{Consumer: "third"})
	if limit := (*LimitError)(nil); !errors.As(err, &limit) || limit.Max != 2 {
		t.Errorf("got %v, want the limit of 2", err)
	}
	d.call(Call{Consumer: "theirs", Principal: "somebody else"})
	if err := d.consumers.Delete(t.Context(), "0"); err != nil {
		t.Fatal(err)
	}
	d.look("third", "")
}

func TestConsumers_BelongToTheirPrincipal(t *testing.T) {
	d := newDesk(t, ConsumersOptions{})
	d.call(Call{Consumer: "c", Principal: "ann"})
	if _, err := d.consumers.Wait(t.Context(), Call{Consumer: "c", Principal: "bob"}); !errors.Is(err, ErrNotYours) {
		t.Errorf("got %v, want ErrNotYours", err)
	}
	// What was made before there were tokens goes to the first who uses it.
	d.look("old", "")
	d.call(Call{Consumer: "old", Principal: "bob"})
	if owner := d.row("old").Owner; owner != "bob" {
		t.Errorf("owner is %q, want bob", owner)
	}
}

func TestConsumers_RightsHoldForARedelivery(t *testing.T) {
	d := newDesk(t, ConsumersOptions{})
	d.look("c", "")
	d.decide("a", engine.Queue, nil)
	d.decide("b", engine.Queue, nil)
	d.look("c", "")
	onlyB := Want{Filter: Filter{Visible: func(s string) bool { return s == "b" }}}
	if got := d.call(Call{Consumer: "c", Want: onlyB}); !cmp.Equal(ids(got.Items), []string{"d2"}) {
		t.Errorf("got %v, want d2 alone", ids(got.Items))
	}
}

func TestConsumers_ListAndDelete(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t, ConsumersOptions{})
		d.happen("a", 4)
		d.look("b", "")
		d.look("a", "")
		d.decide("a", engine.Queue, nil)
		d.look("a", "")
		d.happen("a", 1)
		now := engine.Time(time.Now().UnixMilli())
		list, err := d.consumers.List(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		want := []Consumer{
			{Name: "a", Position: 4, Lag: 2, Pending: 1, Created: now, LastHeard: now},
			{Name: "b", Position: 4, Lag: 2, Created: now, LastHeard: now},
		}
		if diff := cmp.Diff(want, list); diff != "" {
			t.Error(diff)
		}

		waiting := started(t.Context(), d, long("b"))
		ended, err := d.consumers.WaitAt(t.Context(), d.head(), Want{})
		if err != nil || !ended.TimedOut {
			t.Fatal(ended, err)
		}
		if err := d.consumers.Delete(t.Context(), "a"); err != nil {
			t.Fatal(err)
		}
		if err := d.consumers.Delete(t.Context(), "a"); !errors.Is(err, ErrNoConsumer) {
			t.Errorf("deleted twice: got %v", err)
		}
		if a, ok := (<-waiting).(Answer); !ok || len(a.Items) != 1 {
			t.Errorf("the other's wait got %+v", a)
		}
		waiting = started(t.Context(), d, Call{Consumer: "c", Want: Want{Timeout: time.Hour}})
		synctest.Wait()
		if err := d.consumers.Delete(t.Context(), "c"); err != nil {
			t.Fatal(err)
		}
		if a, ok := (<-waiting).(Answer); !ok || len(a.Items) != 0 {
			t.Errorf("the deleted one's wait got %+v, want an empty answer", a)
		}
	})
}

// At the head of a deleted consumer's last answer a new one of the same name
// begins, and is told that it may have missed something.
func TestConsumers_ReturnsAfterADelete(t *testing.T) {
	d := newDesk(t, ConsumersOptions{})
	d.look("c", "")
	d.decide("a", engine.Queue, nil)
	ack := d.look("c", "").Ack
	if err := d.consumers.Delete(t.Context(), "c"); err != nil {
		t.Fatal(err)
	}
	d.decide("a", engine.Queue, nil)
	if got := d.look("c", ack); len(got.Items) != 0 || !got.Truncated {
		t.Errorf("got %v, truncated %t; want nothing, and to be told", ids(got.Items), got.Truncated)
	}
}

func TestConsumers_UnheardAreDroppedAndToldSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t, ConsumersOptions{Keep: 7 * 24 * time.Hour, Max: 3})
		d.look("quiet", "")
		d.look("busy", "")
		waits := started(t.Context(), d, Call{Consumer: "waits", Want: Want{Timeout: 30 * 24 * time.Hour}})
		time.Sleep(4 * 24 * time.Hour)
		d.look("busy", "")
		time.Sleep(3*24*time.Hour - time.Millisecond)
		if dropped, err := d.consumers.Expire(t.Context()); err != nil || len(dropped) != 0 {
			t.Errorf("a millisecond early: dropped %v, %v", dropped, err)
		}
		time.Sleep(time.Millisecond)
		dropped, err := d.consumers.Expire(t.Context())
		if err != nil || !cmp.Equal(dropped, []string{"quiet"}) {
			t.Errorf("dropped %v, %v; want quiet alone", dropped, err)
		}
		list, err := d.consumers.List(t.Context())
		if err != nil || len(list) != 2 {
			t.Errorf("left are %v, %v", list, err)
		}
		d.look("in its place", "") // the limit counts those that are there
		if err := d.consumers.Delete(t.Context(), "in its place"); err != nil {
			t.Fatal(err)
		}
		if _, kept := d.consumers.checked["in its place"]; kept {
			t.Error("a deleted consumer is remembered")
		}
		if err := d.consumers.Delete(t.Context(), "quiet"); !errors.Is(err, ErrNoConsumer) {
			t.Errorf("deleting a dropped one: got %v", err)
		}
		d.decide("a", engine.Queue, nil)
		<-waits
		back := d.look("quiet", "")
		if len(back.Items) != 0 || !back.Truncated {
			t.Errorf("on return: got %v, truncated %t", ids(back.Items), back.Truncated)
		}
		// It is told until it has acknowledged something: an answer may be lost.
		d.decide("a", engine.Queue, nil)
		got := d.look("quiet", "")
		if len(got.Items) != 1 || !got.Truncated {
			t.Errorf("then: got %v, truncated %t", ids(got.Items), got.Truncated)
		}
		if last := d.look("quiet", got.Ack); last.Truncated {
			t.Error("still truncated after an ack")
		}
	})
}

func TestConsumers_WhatIsLeftOfADroppedOneGoesToo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t, ConsumersOptions{})
		d.look("c", "")
		for _, step := range []struct {
			days, left int
		}{{7, 1}, {29, 1}, {1, 0}} {
			time.Sleep(time.Duration(step.days*24) * time.Hour)
			if _, err := d.consumers.Expire(t.Context()); err != nil {
				t.Fatal(err)
			}
			rows, err := d.store.Rows(t.Context(), store.SpaceConsumer)
			if err != nil || len(rows) != step.left {
				t.Errorf("%d days on: left are %v, %v", step.days, rows, err)
			}
		}
	})
}

func TestConsumers_HeardIsNoted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t, ConsumersOptions{})
		d.look("c", "")
		created := d.row("c").Created
		time.Sleep(59 * time.Second)
		d.look("c", "")
		if heard := d.row("c").LastHeard; heard != created {
			t.Error("a row is written at every call")
		}
		time.Sleep(time.Second)
		d.look("c", "")
		if heard := d.row("c").LastHeard; heard != created+60_000 {
			t.Errorf("heard after %d ms, want 60000", heard-created)
		}
	})
}

func TestConsumers_RetentionFasterThanTheConsumer(t *testing.T) {
	w := newWorld(t, memory.Options{})
	log := &aged{Store: w.store}
	d := &desk{w, NewConsumers(log, NewReader(log), ConsumersOptions{})}
	d.look("c", "")
	d.decide("a", engine.Queue, nil)
	d.decide("a", engine.Queue, nil)
	first := d.look("c", "")
	log.before = 1 // the first of the two is gone
	again := d.look("c", "")
	if !cmp.Equal(ids(again.Items), []string{"d2"}) || again.Ack != first.Ack || !again.Truncated {
		t.Errorf("got %v, truncated %t", ids(again.Items), again.Truncated)
	}
	log.before = 2 // and the second
	d.decide("a", engine.Queue, nil)
	if got := d.look("c", ""); !cmp.Equal(ids(got.Items), []string{"d3"}) || !got.Truncated || got.Redelivered {
		t.Errorf("got %v, truncated %t, redelivered %t", ids(got.Items), got.Truncated, got.Redelivered)
	}

	d.look("late", "")
	d.decide("a", engine.Queue, nil)
	d.happen("a", 3)
	log.before = d.head() - 1
	if got := d.look("late", ""); len(got.Items) != 0 || !got.Truncated {
		t.Errorf("one that never had an answer: got %v, truncated %t", ids(got.Items), got.Truncated)
	}
}

// What is gone before an answer that is still there does not concern it.
func TestConsumers_RetentionBehindAPendingAnswer(t *testing.T) {
	w := newWorld(t, memory.Options{})
	log := &aged{Store: w.store}
	d := &desk{w, NewConsumers(log, NewReader(log), ConsumersOptions{})}
	d.look("c", "")
	d.happen("a", 9)
	d.decide("a", engine.Queue, nil)
	first := d.look("c", "")
	log.before = 5
	want := first
	want.Redelivered = true
	if diff := cmp.Diff(want, d.look("c", "")); diff != "" {
		t.Error(diff)
	}
}

// What a narrow call has checked, a wider one looks at again.
func TestConsumers_AnotherFilterLooksForItself(t *testing.T) {
	d := newDesk(t, ConsumersOptions{})
	d.look("c", "")
	d.decide("a", engine.Queue, nil)
	narrow := d.call(Call{Consumer: "c", Want: Want{Filter: Filter{Routes: []engine.Route{engine.Interrupt}}}})
	if len(narrow.Items) != 0 {
		t.Fatalf("got %v", ids(narrow.Items))
	}
	if wide := d.look("c", ""); len(wide.Items) != 1 {
		t.Errorf("got %v, want what the narrow call passed over", ids(wide.Items))
	}
}

// failing is a store whose next appends fail.
type failing struct {
	Store
	appends int // that still work
}

func (f *failing) Append(ctx context.Context, entries ...store.Entry) ([]store.Receipt, error) {
	if f.appends--; f.appends < 0 {
		return nil, store.ErrUnavailable
	}
	return f.Store.Append(ctx, entries...)
}

// Whichever of a call's writes fails, nothing is lost: the call fails, and the
// next one gets what it would have got.
func TestConsumers_AStoreThatFails(t *testing.T) {
	for n := range 4 {
		w := newWorld(t, memory.Options{})
		st := &failing{Store: w.store, appends: 100}
		d := &desk{w, NewConsumers(st, NewReader(st), ConsumersOptions{})}
		d.look("c", "")
		d.decide("a", engine.Queue, nil)
		ack := d.look("c", "").Ack
		d.decide("a", engine.Queue, nil)
		st.appends = n
		a, err := d.consumers.Wait(t.Context(), Call{Consumer: "c", Ack: ack})
		if writes := 2; (err == nil) != (n >= writes) {
			t.Errorf("%d writes work: got %v", n, err)
		}
		if err != nil && !errors.Is(err, store.ErrUnavailable) {
			t.Errorf("got %v", err)
		}
		if err == nil && !cmp.Equal(ids(a.Items), []string{"d2"}) {
			t.Errorf("got %v", ids(a.Items))
		}
		st.appends = 100
		if got := d.look("c", ack); !cmp.Equal(ids(got.Items), []string{"d2"}) {
			t.Errorf("%d writes worked: then got %v, want d2", n, ids(got.Items))
		}
	}
}

func TestConsumers_RowsOfANewerVersion(t *testing.T) {
	d := newDesk(t, ConsumersOptions{})
	put := store.Put{Space: store.SpaceConsumer, Key: "c", Value: []byte(`{"format":99}`)}
	if _, err := d.store.Append(t.Context(), store.Entry{Puts: []store.Put{put}}); err != nil {
		t.Fatal(err)
	}
	_, err := d.consumers.Wait(t.Context(), Call{Consumer: "c"})
	if format := (*engine.FormatError)(nil); !errors.As(err, &format) {
		t.Errorf("got %v, want a format error", err)
	}
}

func TestConsumers_Lag(t *testing.T) {
	d := newDesk(t, ConsumersOptions{})
	d.look("declared", "")
	d.happen("a", 3)
	d.look("one", "")
	d.happen("a", 4)
	d.look("another", "")
	reg := prometheus.NewPedanticRegistry()
	if err := d.consumers.Register(reg, "declared", "not there yet"); err != nil {
		t.Fatal(err)
	}
	want := `
# HELP attend_consumer_lag_records Records of the log that a consumer has not acknowledged; of those not declared, the greatest.
# TYPE attend_consumer_lag_records gauge
attend_consumer_lag_records{consumer="declared"} 7
attend_consumer_lag_records{consumer="other"} 4
`
	if err := testutil.GatherAndCompare(reg, strings.NewReader(want)); err != nil {
		t.Error(err)
	}
	if err := d.store.Close(); err != nil {
		t.Fatal(err)
	}
	if families, err := reg.Gather(); err != nil || len(families) != 0 {
		t.Errorf("a store that is down: got %v, %v", families, err)
	}
}
