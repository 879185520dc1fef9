package feed

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"attend/internal/engine"
	"attend/internal/store"
	"attend/internal/store/memory"
)

// halting is a store whose process may halt just before it writes a row: what
// it had decided is written when it goes on, over whatever stands there by then.
type halting struct {
	Store
	arm  bool
	held chan chan struct{} // who is halted waits for what it has sent here
}

func (h *halting) Append(ctx context.Context, entries ...store.Entry) ([]store.Receipt, error) {
	if h.arm {
		h.arm = false
		goOn := make(chan struct{})
		h.held <- goOn
		<-goOn
	}
	return h.Store.Append(ctx, entries...)
}

// replicated is a consumer whose calls are answered by one of two replicas.
type replicated struct {
	*world
	stores   [2]*halting
	replicas [2]*Consumers

	shown map[string]bool // decisions that some answer held which arrived
	acks  []string        // of answers that arrived
	goOn  chan struct{}   // lets a halted call go on, nil when there is none
	late  chan Answer     // what that call answers, to somebody who has gone
}

func newReplicated(t fataler) *replicated {
	r := &replicated{world: newWorld(t, memory.Options{}), shown: make(map[string]bool)}
	for i := range r.replicas {
		r.stores[i] = &halting{Store: r.store, held: make(chan chan struct{}, 1)}
		r.replicas[i] = NewConsumers(r.stores[i], NewReader(r.store), ConsumersOptions{Shared: true})
	}
	return r
}

// ask makes a call whose answer arrives.
func (r *replicated) ask(t fataler, replica int, ack string) Answer {
	t.Helper()
	a, err := r.replicas[replica].Wait(context.Background(), Call{Consumer: "c", Ack: ack})
	if err != nil {
		t.Fatalf("replica %d, ack %q: %v", replica, ack, err)
	}
	for _, id := range ids(a.Items) {
		r.shown[id] = true
	}
	if a.Ack != "" {
		r.acks = append(r.acks, a.Ack)
	}
	return a
}

// halt makes a call during which the replica halts, if it writes at all.
func (r *replicated) halt(replica int, ack string) {
	st := r.stores[replica]
	st.arm = true
	done := make(chan Answer, 1)
	go func() {
		a, _ := r.replicas[replica].Wait(context.Background(), Call{Consumer: "c", Ack: ack}) // nobody is there to be told
		done <- a
	}()
	select {
	case r.goOn = <-st.held:
		r.late = done
	case <-done:
		st.arm = false
	}
}

// release lets the halted call write what it had decided.
func (r *replicated) release() {
	if r.goOn == nil {
		return
	}
	close(r.goOn)
	<-r.late
	r.goOn, r.late = nil, nil
}

// Whatever two replicas write over each other: every ack that was given out is
// taken, and every decision is shown.
func TestConsumers_ReplicasLoseNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := newReplicated(t)
		r.ask(t, 0, "")
		var made []string
		ack := func() string {
			if len(r.acks) == 0 || rapid.IntRange(0, 3).Draw(t, "no ack") == 0 {
				return ""
			}
			return r.acks[len(r.acks)-1-rapid.IntRange(0, min(2, len(r.acks)-1)).Draw(t, "ack")]
		}
		halted := -1
		for range rapid.IntRange(1, 30).Draw(t, "calls") {
			free := 0
			if halted == 0 || halted < 0 && rapid.Bool().Draw(t, "replica") {
				free = 1
			}
			switch rapid.IntRange(0, 6).Draw(t, "what") {
			case 0, 1:
				made = append(made, r.decide("a", engine.Queue, nil).ID)
			case 2:
				if halted < 0 {
					if r.halt(free, ack()); r.goOn != nil {
						halted = free
					}
				}
			case 3:
				r.release()
				halted = -1
			default:
				r.ask(t, free, ack())
			}
		}
		r.release()
		for last := ""; ; {
			a := r.ask(t, 1, last)
			if last = a.Ack; len(a.Items) == 0 {
				break
			}
		}
		for _, id := range made {
			if !r.shown[id] {
				t.Fatalf("decision %s was never shown; all: %v", id, made)
			}
		}
	})
}

// Two calls of one consumer wait in two replicas. One decision answers both: to
// one it is new, to the other it is given again. The ack of either moves the
// consumer for both.
func TestConsumers_TwoReplicasWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newReplicated(t)
		r.ask(t, 0, "")
		answers := make(chan Answer, 2)
		for _, c := range r.replicas {
			go func() {
				a, err := c.Wait(t.Context(), Call{Consumer: "c", Want: Want{Timeout: time.Minute}})
				if err != nil {
					t.Error(err)
				}
				answers <- a
			}()
			synctest.Wait()
		}
		r.decide("a", engine.Queue, nil)
		got := []Answer{<-answers, <-answers}
		slices.SortFunc(got, func(a, _ Answer) int {
			if a.Redelivered {
				return 1
			}
			return -1
		})
		if !cmp.Equal(ids(got[0].Items), []string{"d1"}) || !cmp.Equal(ids(got[1].Items), []string{"d1"}) || got[0].Ack != got[1].Ack {
			t.Errorf("the answers are %v and %v", got[0], got[1])
		}
		r.decide("a", engine.Queue, nil)
		if a := r.ask(t, 1, got[1].Ack); !cmp.Equal(ids(a.Items), []string{"d2"}) || a.Redelivered {
			t.Errorf("after the ack: %v, redelivered %v", ids(a.Items), a.Redelivered)
		}
	})
}

// What another replica has handed out and had acknowledged while a call waited
// is passed over, and the call goes on waiting.
func TestConsumers_AcknowledgedElsewhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newReplicated(t)
		r.ask(t, 0, "")
		r.halt(0, "") // nothing to write: it ends
		answer := make(chan Answer, 1)
		go func() {
			a, err := r.replicas[0].Wait(t.Context(), Call{Consumer: "c", Want: Want{Filter: Filter{Routes: []engine.Route{engine.Interrupt}}, Timeout: time.Minute}})
			if err != nil {
				t.Error(err)
			}
			answer <- a
		}()
		synctest.Wait()
		r.decide("a", engine.Queue, nil) // ends no wait for interrupts
		first := r.ask(t, 1, "")
		r.ask(t, 1, first.Ack)
		r.decide("a", engine.Interrupt, nil)
		if a := <-answer; !cmp.Equal(ids(a.Items), []string{"d2"}) || a.Redelivered {
			t.Errorf("the waiting call is answered with %v, redelivered %v", ids(a.Items), a.Redelivered)
		}
	})
}

// An ack from beyond the log was given by no replica of it.
func TestConsumers_SharedAckBeyondTheLog(t *testing.T) {
	r := newReplicated(t)
	r.ask(t, 0, "")
	forged := token{what: whatAck, epoch: r.head(t).Epoch, position: 1 << 40, mark: consumerMark("c")}.encode()
	if _, err := r.replicas[0].Wait(t.Context(), Call{Consumer: "c", Ack: forged}); err == nil {
		t.Error("it is taken")
	}
}

func (r *replicated) head(t *testing.T) store.Head {
	t.Helper()
	head, err := r.store.Head(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return head
}
