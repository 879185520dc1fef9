package runner

import (
	"context"
	"fmt"
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
	queue   []*scope  // still to be written in this pass
	from    engine.Position
	whole   bool // the pass covers every dirty scope, and moves the checkpoint
	active  bool
	writing bool
	done    chan saved
}

// saved is a chunk that was written, or not.
type saved struct {
	scopes []*scope
	rows   []store.StateRow
	sealed []int64
	last   bool // the pass ended with it
	err    error
}

// save starts a pass when it is time for one, and the next chunk of a running
// one.
func (r *Runner) save(ctx context.Context) {
	p := &r.saving
	if p.last.IsZero() {
		p.last = time.Now()
	}
	over := r.mem.recent.Len() > r.opt.MaxScopes
	if !p.active {
		due := p.records >= r.opt.CheckpointRecords || p.records > 0 && time.Since(p.last) >= r.opt.CheckpointInterval
		switch {
		case due:
			r.startSaving(true)
		case over:
			r.evict()
			if r.mem.recent.Len() > r.opt.MaxScopes {
				r.startSaving(false)
			}
		default:
			return
		}
	}
	if p.active && !p.writing {
		r.saveNext(ctx)
	}
}

// startSaving lists what is dirty: everything, or the longest idle alone.
func (r *Runner) startSaving(whole bool) {
	p := &r.saving
	p.active, p.whole, p.queue = true, whole, nil
	p.from = engine.Position(r.applied.Load())
	most := r.mem.recent.Len()
	if whole {
		p.records, p.last = 0, time.Now()
	} else {
		most = r.mem.recent.Len() - r.opt.MaxScopes + r.opt.MaxScopes/16 + 1
	}
	for e := r.mem.recent.Front(); e != nil && len(p.queue) < most; e = e.Next() {
		s := e.Value.(*scope) //nolint:forcetypeassert // the list holds nothing else
		if s.dirty {
			p.queue = append(p.queue, s)
		}
		if whole && s.shed[0].Count+s.shed[1].Count > 0 {
			s.tell = true
			r.look(s)
		}
	}
}

func (r *Runner) saveNext(ctx context.Context) {
	p := &r.saving
	chunk, err := r.encode(p.queue[:min(len(p.queue), saveChunk)])
	if err != nil {
		r.log.Error("states are not saved", "error", err)
		p.active = false
		return
	}
	p.queue = p.queue[min(len(p.queue), saveChunk):]
	chunk.last = len(p.queue) == 0
	checkpoint := engine.Position(0)
	if chunk.last && p.whole {
		checkpoint = p.from
	}
	p.writing = true
	fence := r.fence
	r.calls.Go(func() {
		chunk.err = r.store.SaveStates(ctx, fence, chunk.rows, checkpoint)
		p.done <- chunk
	})
}

func (r *Runner) encode(scopes []*scope) (saved, error) {
	chunk := saved{scopes: scopes}
	for _, s := range scopes {
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
func (r *Runner) saveDone(chunk saved) {
	p := &r.saving
	p.writing = false
	if chunk.err != nil {
		r.log.Error("states are not saved, the next pass tries again", "error", chunk.err)
		p.active, p.last = false, time.Now()
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
			s.saved = row.Position
			r.mem.rowWritten(s.name)
			s.dirty = s.state.Position != row.Position
		}
		i++
	}
	r.mu.Unlock()
	if chunk.last {
		p.active = false
		r.evict()
	}
}

// evict drops the longest idle states whose rows are up to date.
func (r *Runner) evict() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for e := r.mem.recent.Front(); e != nil && r.mem.recent.Len() > r.opt.MaxScopes; {
		s := e.Value.(*scope) //nolint:forcetypeassert // the list holds nothing else
		e = e.Next()
		if _, busy := r.touched[s]; s.dirty || s.call != nil || busy {
			continue
		}
		if len(s.state.Open.Events) > 0 {
			r.mem.open--
		}
		r.mem.forget(s)
	}
}

// shutdown breaks off running calls, uncounted, and saves every state.
func (r *Runner) shutdown() {
	if r.saving.writing {
		r.saveDone(<-r.saving.done)
	}
	r.calls.Wait()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	if err := r.stopCalls(ctx); err != nil {
		r.log.Error("running judge calls could not be marked as stopped; they will count as attempts", "error", err)
	}
	r.startSaving(true)
	for r.saving.active {
		r.saveNext(ctx)
		if !r.saving.writing {
			return
		}
		r.saveDone(<-r.saving.done)
	}
}

// stopCalls records that the daemon broke its calls off, and applies that.
func (r *Runner) stopCalls(ctx context.Context) error {
	now := engine.Time(r.now())
	var jobs []*job
	for e := r.mem.recent.Front(); e != nil; e = e.Next() {
		s := e.Value.(*scope) //nolint:forcetypeassert // the list holds nothing else
		if s.call == nil {
			continue
		}
		steps := s.state.Fail(r.rules, now, engine.Failed{Why: "stopped", Message: "the daemon was stopped", Uncounted: true})
		if s.call.result != nil {
			steps = r.conclude(s, s.call.result, now)
		}
		if len(steps) == 0 {
			continue
		}
		j := &job{scope: s, closed: []engine.Pending{{Settled: s.state.Slot.Settled, Members: s.state.Slot.Members}}}
		j.entry = store.Entry{Steps: steps, Scope: s.name, Fence: r.fence, After: s.state.LastStep, Applied: engine.Position(r.applied.Load())}
		jobs = append(jobs, j)
	}
	if len(jobs) == 0 {
		return nil
	}
	if err := r.append(ctx, jobs); err != nil {
		return err
	}
	recs, err := r.store.Read(ctx, engine.Position(r.applied.Load()), readLimit)
	if err != nil {
		return fmt.Errorf("read the log: %w", err)
	}
	return r.apply(ctx, recs)
}
