package runner

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"attend/internal/engine"
	"attend/internal/store"
)

// saveChunk is how many state rows one commit takes.
const saveChunk = 256

// saving is the pass that writes state rows and moves the checkpoint. Rows are
// made by the loop and written beside it, one chunk at a time.
type saving struct {
	records int       // applied since the last pass began
	last    time.Time // when the last pass began
	tried   time.Time // when it was last tried in vain to make scopes leave memory
	left    int       // states that have left memory in this pass
	queue   []group   // still to be written in this pass
	from    engine.Position
	whole   bool // the pass covers every dirty scope, and moves the checkpoints
	active  bool
	writing bool
	done    chan saved
}

// group is what is written under one fence: everything, or one shard.
type group struct {
	fence  store.Fence
	scopes []*scope
}

// saved is a chunk of a group that was written, or not.
type saved struct {
	group
	rows   []store.StateRow
	sealed []int64
	err    error
}

// save starts a pass when it is time for one, and the next chunk of a running
// one.
func (r *Runner) save(ctx context.Context) {
	p := &r.saving
	if p.last.IsZero() {
		p.last = time.Now()
	}
	over := r.mem.recent.Len() > r.opt.MaxScopes && time.Since(p.tried) >= evictEvery
	if !p.active {
		due := p.records >= r.opt.CheckpointRecords || p.records > 0 && time.Since(p.last) >= r.opt.CheckpointInterval
		switch {
		case due:
			r.startSaving(true)
		case over:
			r.evict()
			if r.mem.recent.Len() > r.opt.MaxScopes {
				r.startSaving(false)
				if r.opt.Leases != nil {
					r.readCovers(ctx)
				}
			}
			if !p.active {
				p.tried = time.Now()
			}
		default:
			return
		}
	}
	if p.active && !p.writing {
		r.saveNext(ctx)
	}
	r.makeRoom(ctx)
}

// evictEvery is how often it is tried to make states leave memory that do not
// yet.
const evictEvery = time.Second

// roomWait is how long the loop stands still at once while states leave memory:
// settles are late by so much at most.
const roomWait = 250 * time.Millisecond

// slack is by how many states memory may hold too many before the loop waits
// for them to be written.
func (r *Runner) slack() int { return r.opt.MaxScopes/4 + readLimit }

// makeRoom lets states leave memory before more are read, where events of new
// scopes come faster than rows can be written.
func (r *Runner) makeRoom(ctx context.Context) {
	p := &r.saving
	if !p.writing || r.mem.recent.Len() <= r.opt.MaxScopes+r.slack() {
		return
	}
	enough := time.NewTimer(roomWait)
	defer enough.Stop()
	for p.writing && r.mem.recent.Len() > r.opt.MaxScopes+r.slack() {
		select {
		case <-ctx.Done():
			return
		case <-enough.C:
			return
		case s := <-p.done:
			r.saveDone(ctx, s)
		}
		if !p.active && time.Since(p.tried) >= evictEvery {
			r.startSaving(false)
		}
		if p.active {
			r.saveNext(ctx)
		}
	}
}

// startSaving lists what is dirty: everything, or the longest idle alone. States
// of shards that others own are theirs to save.
func (r *Runner) startSaving(whole bool) {
	p := &r.saving
	p.active, p.whole, p.queue, p.left = true, whole, nil, 0
	p.from = engine.Position(r.applied.Load())
	most := r.mem.recent.Len()
	if whole {
		p.records, p.last = 0, time.Now()
	} else {
		most = r.mem.recent.Len() - r.opt.MaxScopes + r.opt.MaxScopes/16 + 1
	}
	var of [engine.Shards][]*scope // without replicas all stand in the first
	for e, n := r.mem.recent.Front(), 0; e != nil && n < most; e = e.Next() {
		s := e.Value.(*scope) //nolint:forcetypeassert // the list holds nothing else
		if !r.acts(s) {
			continue
		}
		if s.dirty {
			of[r.groupOf(s)] = append(of[r.groupOf(s)], s)
			n++
		}
		if whole && s.dropped() > 0 {
			s.tell = true
			r.look(s)
		}
	}
	if r.opt.Leases == nil {
		p.queue = []group{{r.fence, of[0]}}
		p.active = whole || len(of[0]) > 0
		return
	}
	for _, fence := range r.shards.held() {
		if r.shards.active[fence.Shard] && (whole || len(of[fence.Shard]) > 0) {
			p.queue = append(p.queue, group{fence, of[fence.Shard]})
		}
	}
	p.active = len(p.queue) > 0
}

func (r *Runner) groupOf(s *scope) int {
	if r.opt.Leases == nil {
		return 0
	}
	return int(s.shard)
}

func (r *Runner) saveNext(ctx context.Context) {
	p := &r.saving
	g := &p.queue[0]
	chunk, err := r.encode(group{g.fence, g.scopes[:min(len(g.scopes), saveChunk)]})
	if err != nil {
		r.log.Error("states are not saved", "error", err)
		p.active = false
		return
	}
	checkpoint := engine.Position(0)
	if g.scopes = g.scopes[len(chunk.scopes):]; len(g.scopes) == 0 {
		p.queue = p.queue[1:]
		if p.whole {
			checkpoint = p.from
		}
	}
	p.writing = true
	r.calls.Go(func() {
		chunk.err = r.store.SaveStates(ctx, chunk.fence, chunk.rows, checkpoint)
		p.done <- chunk
	})
}

func (r *Runner) encode(g group) (saved, error) {
	chunk := saved{group: g}
	for _, s := range g.scopes {
		if s.state == nil {
			continue
		}
		row, sealed, err := stateRow(s.state)
		if err != nil {
			return saved{}, err
		}
		chunk.rows = append(chunk.rows, row)
		chunk.sealed = append(chunk.sealed, sealed)
	}
	return chunk, nil
}

func stateRow(st *engine.State) (row store.StateRow, sealed int64, err error) {
	body, err := engine.EncodeState(st)
	if err != nil {
		return row, 0, fmt.Errorf("encode the state of %q: %w", st.Scope, err)
	}
	wake, armed := st.WakeAt()
	if !armed {
		wake = 0
	}
	row = store.StateRow{
		Scope: st.Scope, Position: st.Position, WakeAt: wake, Live: !st.Idle(),
		Format: engine.Format, Body: body, DropBlocksBefore: st.Seen.DropBlocksBefore(),
	}
	st.Seen.Blocks(func(seq int64, body []byte) {
		row.Blocks = append(row.Blocks, store.Block{Seq: seq, Body: body})
	})
	return row, st.Seen.SealedTo(), nil
}

// saveDone takes the word of a written chunk. A failed pass is given up; the
// checkpoint has not moved, and the next pass writes what is still dirty.
func (r *Runner) saveDone(ctx context.Context, chunk saved) {
	p := &r.saving
	p.writing = false
	if r.end(chunk.err) {
		p.active = false
		return
	}
	if errors.Is(chunk.err, store.ErrFenced) && r.opt.Leases != nil {
		r.fenced(ctx, chunk.fence)
		p.queue = slices.DeleteFunc(p.queue, func(g group) bool { return g.fence == chunk.fence })
		p.active = len(p.queue) > 0
		return
	}
	if chunk.err != nil {
		r.log.Error("states are not saved, the next pass tries again", "error", chunk.err)
		p.active, p.last, p.tried = false, time.Now(), time.Now()
		p.records = max(p.records, 1)
		return
	}
	r.mu.Lock()
	i := 0
	for _, s := range chunk.scopes {
		if s.state == nil {
			continue
		}
		row := &chunk.rows[i]
		if s.name == row.Scope {
			s.state.Seen.MarkStored(chunk.sealed[i])
			r.mem.rowWritten(s.name)
			s.dirty = s.state.Position != row.Position
			// A pass over everything drops none that are in use, if it need not.
			if over := r.mem.recent.Len() - r.opt.MaxScopes; over > 0 && !p.whole || over > r.slack() {
				r.leave(s)
			}
		}
		i++
	}
	r.mu.Unlock()
	if len(p.queue) > 0 {
		return
	}
	p.active = false
	r.evict()
	// Scopes that others own, or whose judge is being called, stay. The loop must
	// not spin on them.
	if p.left == 0 {
		p.tried = time.Now()
	}
}

// evict drops the longest idle states whose rows are up to date.
func (r *Runner) evict() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for e := r.mem.recent.Front(); e != nil && r.mem.recent.Len() > r.opt.MaxScopes; {
		s := e.Value.(*scope) //nolint:forcetypeassert // the list holds nothing else
		e = e.Next()
		r.leave(s)
	}
}

// leave drops a state if its row is up to date and nothing is on its way for
// it. What a start has touched waits until the whole log is read: it is looked
// at when it is next due, as if it had been so at the start.
func (r *Runner) leave(s *scope) {
	if s.dirty && s.state.Position <= r.shards.covered[s.shard] { // another replica has saved it
		s.dirty = false
		r.mem.rowWritten(s.name)
	}
	if s.dirty || s.call != nil || r.sends.busy(s) || s.taken && r.caughtUp.Load() {
		return
	}
	if s.taken {
		s.taken = false
		if at := s.later(); at != 0 && r.opt.Leases == nil {
			r.mem.wakeAt(s, at, true)
		} else {
			r.mem.park(s, at)
		}
	}
	if len(s.state.Open.Events) > 0 {
		r.mem.open--
	}
	r.mem.forget(s)
	r.saving.left++
}

// shutdown breaks off running calls, uncounted, saves every state, and lets
// others go on. It then waits for judges and hooks that have not ended yet.
func (r *Runner) shutdown() {
	defer await(&r.strays, stopGrace)
	defer r.release()
	if r.saving.writing {
		r.saveDone(context.Background(), <-r.saving.done)
	}
	r.calls.Wait()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	if err := r.stopAll(ctx); err != nil {
		r.log.Error("running judge calls and deliveries could not be marked as stopped; they will count as attempts", "error", err)
	}
	r.startSaving(true)
	if r.opt.Leases != nil { // others wait: what did not change need not be written
		r.saving.queue = slices.DeleteFunc(r.saving.queue, func(g group) bool { return len(g.scopes) == 0 })
		r.saving.active = len(r.saving.queue) > 0
	}
	for r.saving.active {
		r.saveNext(ctx)
		if !r.saving.writing {
			return
		}
		r.saveDone(ctx, <-r.saving.done)
	}
}

// stopAll breaks off every call and delivery, and applies that.
func (r *Runner) stopAll(ctx context.Context) error {
	var calling []*scope
	for e := r.mem.recent.Front(); e != nil; e = e.Next() {
		s := e.Value.(*scope) //nolint:forcetypeassert // the list holds nothing else
		if s.call != nil && r.acts(s) {
			calling = append(calling, s)
		}
	}
	if len(calling) > 0 {
		if err := r.stopCalls(ctx, calling); err != nil {
			return err
		}
		if err := r.applyNew(ctx); err != nil {
			return err
		}
	}
	if len(r.sends.of) == 0 {
		return nil
	}
	if err := r.stopDeliveries(ctx); err != nil {
		return err
	}
	return r.applyNew(ctx)
}

// applyNew applies what has just been written.
func (r *Runner) applyNew(ctx context.Context) error {
	recs, err := r.store.Read(ctx, engine.Position(r.applied.Load()), readLimit)
	if err != nil {
		return fmt.Errorf("read the log: %w", err)
	}
	return r.apply(ctx, recs)
}

// stopCalls records that calls were broken off, or what they brought.
func (r *Runner) stopCalls(ctx context.Context, calling []*scope) error {
	if err := r.fillScopes(ctx, calling); err != nil {
		return err
	}
	now := engine.Time(r.now())
	var jobs []*job
	for _, s := range calling {
		steps := s.state.Fail(r.rules, now, engine.Failed{Why: "stopped", Message: "the daemon was stopped, or gave the scope to another replica", Uncounted: true})
		if s.call.result != nil {
			steps = r.conclude(s, s.call.result, now)
		}
		if len(steps) == 0 {
			continue
		}
		j := &job{scope: s, closed: []engine.Pending{{Settled: s.state.Slot.Settled, Members: s.state.Slot.Members}}}
		j.entry = store.Entry{Steps: steps, Scope: s.name, Fence: r.fenceOf(s), After: s.state.LastStep, Applied: engine.Position(r.applied.Load())}
		jobs = append(jobs, j)
	}
	if len(jobs) == 0 {
		return nil
	}
	return r.append(ctx, jobs)
}
