package mcpserve

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"attend/internal/field"
	"attend/internal/fields"
	"attend/internal/store"
	"attend/internal/store/memory"
)

func TestFieldStream_FromNowToTheEnd(t *testing.T) {
	for _, era := range []string{legacy, modern} {
		for _, id := range []string{`7`, `"seven"`} {
			t.Run(era+" "+id, func(t *testing.T) {
				d := newDaemon(t, withFields(quick))
				first := d.note("kelp", 39)
				h, body := requestID(era, "events/stream", reckonMara, id)
				r := d.open(http.MethodPost, h, body)
				active := r.want("active")
				if *active.Params.Truncated || r.header.Get("Content-Type") != "text/event-stream" {
					t.Errorf("active: %s", active.raw)
				}
				second := d.note("gull", 49)
				e := r.want("event")
				d.fits("field.reckon", e.Params.Data)
				if e.Params.Name != "field.reckon" || e.Params.EventID == "" || e.Params.Timestamp == "" || e.Params.Cursor == active.Params.Cursor {
					t.Errorf("event: %s", e.raw)
				}
				if !cmp.Equal(idsOf(e.Params.Data["conflicts"], "a"), []string{second}) || !cmp.Equal(idsOf(e.Params.Data["conflicts"], "b"), []string{first}) {
					t.Errorf("data: %v", e.Params.Data)
				}
				polled := d.poll(era, fmt.Sprintf(`%s,"cursor":%q`, reckonMara, active.Params.Cursor))
				if diff := cmp.Diff(polled.Events[0].Data, e.Params.Data); diff != "" || polled.Events[0].EventID != e.Params.EventID || polled.Events[0].Timestamp != e.Params.Timestamp {
					t.Errorf("a poll gives otherwise: %+v %s", polled, diff)
				}
				d.stop()
				result := r.want("result")
				meta, _ := result.Result["_meta"].(map[string]any)
				if string(result.ID) != id || fmt.Sprintf("%#v", meta[mcp.MetaKeySubscriptionID]) != id || result.Result["resultType"] != "complete" {
					t.Errorf("result: %s", result.raw)
				}
				for _, m := range []*message{active, e} {
					if m.subscription() != id {
						t.Errorf("the subscription of %s is %s, want %s", m.kind(), m.subscription(), id)
					}
				}
				r.end()
				eventually(t, "it is counted no longer", func() bool { return d.gauge("attend_event_streams") == 0 })
			})
		}
	}
}

func TestFieldStream_EndsWithTheCallersRights(t *testing.T) {
	revoked := make(chan struct{})
	set := withFields()
	set.options = func(o *Options) {
		o.Caller = func(context.Context) Caller { return Caller{Name: "ann", Revoked: revoked} }
	}
	d := newDaemon(t, set)
	r := d.stream(modern, attuneMara)
	r.want("active")
	close(revoked)
	if m := r.want("terminated"); m.Params.Error.Code != codeForbidden || m.Params.Error.Data["reason"] != "revoked" {
		t.Errorf("terminated: %s", m.raw)
	}
	r.want("result")
	r.end()
}

// written writes an entry without a network, as bubbles need it.
func written(t fataler, service *fields.Service, agent, topic string, amount int) {
	t.Helper()
	params := fmt.Sprintf(`{"agent":%q,"intent":"so that others know","entry":{"topic":%q,"amount":%d}}`, agent, topic, amount)
	if _, err := service.Do(context.Background(), "", field.OpWrite, json.RawMessage(params)); err != nil {
		t.Fatal(err)
	}
}

// bareFields is a daemon that is not on the network, and its Fields.
func bareFields(t fataler, change ...func(*fields.Options)) (*daemon, *fields.Service) {
	t.Helper()
	set := withFields(change...)
	var service *fields.Service
	build := set.fields
	set.fields = func(st *memory.Store) *fields.Service {
		service = build(st)
		return service
	}
	return newBare(t, set), service
}

// Of many changes in a row at most one a second is told, and the last always.
func TestFieldStream_AtMostOneASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, service := bareFields(t)
		ctx, cancel := context.WithCancel(t.Context())
		h, body := request(modern, "events/stream", attuneMara)
		on, done := d.watch(ctx, h, body)
		synctest.Wait()
		for i := range 95 {
			written(t, service, "kelp", "price", i)
			time.Sleep(100 * time.Millisecond)
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		all := on.read(t)
		var told []int
		for _, m := range all {
			if m.kind() == "event" {
				told = append(told, len(idsOf(m.Params.Data["entries"], "")))
			}
		}
		if n := len(told); n < 9 || n > 11 || told[n-1] != 95 {
			t.Errorf("in 10 seconds came results with %v entries", told)
		}
		cancel()
		<-done
	})
}

// Heartbeats come on time, tell how far has been looked, and a stream that
// begins at one misses nothing.
func TestFieldStream_Heartbeats(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, service := bareFields(t)
		ctx, cancel := context.WithCancel(t.Context())
		h, body := request(modern, "events/stream", attuneMara)
		on, done := d.watch(ctx, h, body)
		time.Sleep(time.Second)
		written(t, service, "kelp", "weather", 1) // nothing for this stream
		time.Sleep(29 * time.Second)
		synctest.Wait()
		all := on.read(t)
		if diff := cmp.Diff([]string{"active", "heartbeat", "heartbeat"}, kinds(all)); diff != "" {
			t.Fatal(diff)
		}
		beat := all[2].Params.Cursor
		if beat == all[0].Params.Cursor || beat != all[1].Params.Cursor {
			t.Errorf("the cursor does not move with the Field: %s, %s", all[0].raw, all[2].raw)
		}
		cancel()
		<-done

		written(t, service, "kelp", "price", 1)
		h, body = request(modern, "events/stream", fmt.Sprintf(`%s,"cursor":%q`, attuneMara, beat))
		on, done = d.watch(t.Context(), h, body)
		synctest.Wait()
		began := time.Now()
		close(d.stopping)
		<-done
		if took := time.Since(began); took != 0 {
			t.Errorf("the stream ends %s after the daemon begins to stop", took)
		}
		if diff := cmp.Diff([]string{"active", "event", "result"}, kinds(on.read(t))); diff != "" {
			t.Error(diff)
		}
	})
}

// A reader that is slow gets the last state, and nothing is kept for it.
func TestFieldStream_ASlowReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, service := bareFields(t)
		ctx, cancel := context.WithCancel(t.Context())
		h, body := request(modern, "events/stream", attuneMara)
		on, done := d.watch(ctx, h, body)
		synctest.Wait()
		on.pause()
		for i := range 20 {
			written(t, service, "kelp", "price", i)
			time.Sleep(2 * time.Second)
		}
		on.proceed()
		time.Sleep(2 * time.Second)
		synctest.Wait()
		var told []int
		for _, m := range on.read(t) {
			if m.kind() == "event" {
				told = append(told, len(idsOf(m.Params.Data["entries"], "")))
			}
		}
		if diff := cmp.Diff([]int{1, 20}, told); diff != "" {
			t.Error(diff)
		}
		cancel()
		<-done
	})
}

// downFields is a store whose Fields cannot be read while it is down.
type downFields struct {
	*memory.Store
	down atomic.Bool
}

func (f *downFields) FieldChanges(ctx context.Context, name string, after int64, limit int) ([]store.FieldChange, error) {
	if f.down.Load() {
		return nil, fmt.Errorf("disk at /secret/path: %w", store.ErrUnavailable)
	}
	return f.Store.FieldChanges(ctx, name, after, limit)
}

// A store that fails for a while: heartbeats go on, and what another replica has
// written meanwhile is told when it can be read.
func TestFieldStream_GoesOnAfterTrouble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var st *downFields
		d, _ := bareFields(t, func(o *fields.Options) {
			st = &downFields{Store: o.Store.(*memory.Store)}
			o.Store, o.Shared = st, true
		})
		other := withFields().fields(st.Store)
		defer other.Close()
		ctx, cancel := context.WithCancel(t.Context())
		h, body := request(modern, "events/stream", attuneMara)
		on, done := d.watch(ctx, h, body)
		synctest.Wait()
		st.down.Store(true)
		written(t, other, "kelp", "price", 1)
		time.Sleep(40 * time.Second)
		st.down.Store(false)
		time.Sleep(4 * time.Second)
		synctest.Wait()
		got := kinds(on.read(t))
		if diff := cmp.Diff([]string{"active", "heartbeat", "heartbeat", "event"}, got); diff != "" {
			t.Error(diff)
		}
		cancel()
		<-done
	})
}
