package promptcache

// #include "bridge.h"
import "C"

import (
	"context"
	"sync"
	"unsafe"
)

// Batch steps sequences together. It counts as one object with them: goroutines wait for each
// other. It keeps its sequences from being collected, but does not close them.
type Batch struct{ *batch }

type batch struct {
	domain *domain // of its own: sequences hold it, and must not hold the batch
	p      *C.pc_batch
	needs  *handle
	mu     sync.Mutex // held while the list changes, and by who cancels a step
	list   map[*C.pc_sequence]*Sequence
}

// NewBatch makes a batch for sequences of the model.
//
// C: pc_batch_new. Sequences of one model that are stepped together. They may join and leave between
// steps. K and V that several of them hold are read once for all (Hydragen, sections 3.1 and 3.2;
// RelayAttention, section 3.3). The batch does not own its sequences. Handle: one thread at a
// time, with its sequences.
//
//promptcache:doc pc_batch_new
func (m *Model) NewBatch(options *BatchOptions) (*Batch, error) {
	a := &arena{}
	defer a.free()
	a.model(m)
	return a.newBatch(m.handle, options)
}

// newBatch makes a batch of a model that is held.
func (a *arena) newBatch(model *handle, options *BatchOptions) (*Batch, error) {
	o := options.c(a)
	if a.err != nil {
		return nil, a.err
	}
	var out *C.pc_batch
	if err := a.done(C.go_pc_batch_new(&out, (*C.pc_model)(model.p), o, &a.failure)); err != nil {
		return nil, err
	}
	model.need()
	return finalise(&Batch{&batch{domain: &domain{}, p: out, needs: model,
		list: map[*C.pc_sequence]*Sequence{}}}), nil
}

func (b *Batch) enter(a *arena) (leave func()) {
	leave = b.domain.enter()
	if b.p == nil {
		a.fail(closed("batch"))
	}
	return leave
}

// leaves gives a sequence its own domain back, when the step under way is over.
func (d *domain) leaves(s *Sequence) {
	d.after = append(d.after, func() {
		if s.in.current() == d {
			s.in.set(&s.own)
		}
	})
}

// Close gives the batch up. Its sequences stay.
//
// C: pc_batch_free. Its sequences stay. Within a step they leave at once, and those that it computes
// finish it.
//
//promptcache:doc pc_batch_free
func (b *Batch) Close() error {
	defer b.domain.enter()()
	if b.p == nil {
		return nil
	}
	C.pc_batch_free(b.p)
	b.p = nil
	b.mu.Lock()
	for _, s := range b.list {
		b.domain.leaves(s)
	}
	b.list = nil
	b.mu.Unlock()
	b.needs.release()
	return nil
}

// Add puts a sequence into the batch.
//
// C: pc_batch_add. Returns ErrMismatch (of another model), ErrState (it is in a batch), ErrLimit
// (max_sequences).
//
//promptcache:doc pc_batch_add
func (b *Batch) Add(s *Sequence) error {
	a := &arena{}
	defer a.free()
	defer b.enter(a)()
	if d := s.in.current(); d != &s.own && d != b.domain {
		a.fail(errorf(ErrState, "the sequence is in another batch"))
	}
	if a.err != nil {
		return a.err
	}
	defer s.enter(a)()
	if a.err != nil {
		return a.err
	}
	if err := a.done(C.go_pc_batch_add(b.p, s.p, &a.failure)); err != nil {
		return err
	}
	s.in.set(b.domain)
	b.mu.Lock()
	defer b.mu.Unlock()
	for p, other := range b.list { // closed ones have left by themselves
		if other.p == nil {
			delete(b.list, p)
		}
	}
	b.list[s.p] = s
	return nil
}

// Remove takes a sequence out of the batch.
//
// C: pc_batch_remove. Returns ErrNotFound if the sequence is not in this batch.
//
//promptcache:doc pc_batch_remove
func (b *Batch) Remove(s *Sequence) error {
	a := &arena{}
	defer a.free()
	defer b.enter(a)()
	if s.in.current() != b.domain || (a.err == nil && s.p == nil) {
		a.fail(errorf(ErrNotFound, "the sequence is not in this batch"))
	}
	if a.err != nil {
		return a.err
	}
	if err := a.done(C.go_pc_batch_remove(b.p, s.p, &a.failure)); err != nil {
		return err
	}
	b.mu.Lock()
	delete(b.list, s.p)
	b.mu.Unlock()
	b.domain.leaves(s)
	return nil
}

// Step computes one token for every unfinished sequence; more is false when all are finished. If
// ctx is done before or during the step, all sequences of the batch are cancelled and the error
// says so; of a single request that has its own context, see NewSequence. An error of a sequence
// ends that one alone: see Sequence.Err.
//
// C: pc_batch_step. Computes one token for every running sequence, and beside them pieces of the
// prompts of new ones (Sarathi-Serve, section 4.2), up to step_tokens: by `priority`, deadline and
// the length of the rest; now and then the one that has waited longest comes first. The step that
// ends a prompt gives its first token. What several prompts miss in the cache is encoded once.
// Tokens are the same in whatever pieces. Prompts of an application's model without
// PC_CUTS_PROMPTS, of one with latent attention, and those with a memo or a baseline are computed
// as a whole. A sequence that is removed keeps what it has. Blocks. Returns OK (some go on), End
// (all are finished), or an error of the batch itself: ErrNoMem (call it again), ErrState (a step
// of a sequence is under way). An error of a sequence finishes that one alone (Sequence.Err).
//
//promptcache:doc pc_batch_step
func (b *Batch) Step(ctx context.Context) (more bool, err error) {
	a := &arena{}
	defer a.free()
	defer b.enter(a)()
	if a.err != nil {
		return false, a.err
	}
	if err := ctx.Err(); err != nil {
		b.cancelAll(err)
		return false, cancelled(err)
	}
	stop := b.watch(ctx)
	status := C.go_pc_batch_step(b.p, &a.failure)
	if stop() {
		a.ctx = ctx
		if err := a.done(status); err != nil {
			return false, err
		}
		return false, cancelled(ctx.Err())
	}
	return status == C.PC_OK, a.done(status)
}

// watch cancels all sequences when ctx is done. stop says whether it did.
func (b *batch) watch(ctx context.Context) (stop func() bool) {
	if ctx.Done() == nil {
		return func() bool { return false }
	}
	over, ended := make(chan struct{}), make(chan bool, 1)
	go func() {
		select {
		case <-ctx.Done():
			b.cancelAll(ctx.Err())
			ended <- true
		case <-over:
			ended <- false
		}
	}()
	return func() bool {
		close(over)
		return <-ended
	}
}

func (b *batch) cancelAll(why error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, s := range b.list {
		s.cancel(why)
	}
}

// Run steps until all sequences are finished. See Step.
func (b *Batch) Run(ctx context.Context) error {
	for {
		if more, err := b.Step(ctx); err != nil || !more {
			return err
		}
	}
}

// Changed are the sequences that got a token or finished in the last step.
//
// C: pc_batch_changed. The sequences [*count] that got a token or finished in the last step and are
// still in the batch, in its order. Borrowed until the next step or change of the batch.
//
//promptcache:doc pc_batch_changed
func (b *Batch) Changed() []*Sequence {
	a := &arena{}
	defer a.free()
	defer b.enter(a)()
	if a.err != nil {
		return nil
	}
	var count C.size_t
	list := C.pc_batch_changed(b.p, &count)
	b.mu.Lock()
	defer b.mu.Unlock()
	changed := make([]*Sequence, 0, count)
	for _, p := range unsafe.Slice(list, count) {
		changed = append(changed, b.list[p])
	}
	return changed
}

// Stats count what the next step reads.
//
// C: pc_batch_get_stats. Counts what the next step reads.
//
//promptcache:doc pc_batch_get_stats
func (b *Batch) Stats() (stats BatchStats, err error) {
	a := &arena{}
	defer a.free()
	defer b.enter(a)()
	if a.err != nil {
		return stats, a.err
	}
	got := C.pc_batch_stats{struct_size: C.sizeof_pc_batch_stats}
	if err := a.done(C.go_pc_batch_get_stats(b.p, &got, &a.failure)); err != nil {
		return stats, err
	}
	stats.from(&got)
	return stats, nil
}
