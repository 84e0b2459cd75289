package promptcache

// #include "bridge.h"
import "C"

import (
	"context"
	"strings"
	"sync"
	"unsafe"
)

// Sequence is a request that is stepped in a Batch, continued and branched. It counts as one object
// with the batch that it is in: goroutines wait for each other. Cancel never waits.
type Sequence struct{ *sequence }

// sequence has no way back to its Sequence or Batch, so that these can be collected.
type sequence struct {
	in    domainOf
	own   domain
	mu    sync.Mutex // held while p changes, and by Cancel
	p     *C.pc_sequence
	calls *callbacks
	needs []*handle
	why   error // of Cancel, and of contexts; until the sequence goes on
	ctx   context.Context
	over  chan struct{} // closed with the sequence
}

// newSequence takes over p and calls.
func newSequence(ctx context.Context, p *C.pc_sequence, calls *callbacks,
	needs ...*handle) *Sequence {
	s := &sequence{p: p, calls: calls, ctx: ctx, over: make(chan struct{})}
	s.in.set(&s.own)
	for _, need := range needs {
		if need != nil {
			need.need()
			s.needs = append(s.needs, need)
		}
	}
	if ctx.Done() != nil {
		go func() {
			select {
			case <-ctx.Done():
				s.cancel(ctx.Err())
			case <-s.over:
			}
		}()
	}
	return finalise(&Sequence{s})
}

// NewSequence makes a request that a Batch steps. It is cancelled when ctx is done, at any time of
// its life. cache may be nil.
//
// C: pc_sequence_new. Makes a request that is stepped in a batch. Its first steps look up, encode
// and prefill. options: as of Prompt.Generate, copied; samples must be 0 or 1 (use Sequence.Fork).
// The sequence holds prompt and cache, and a memo until its prompt is computed. Returns
// ErrMismatch and ErrUnsupported of the memo, as Prompt.Generate. Handle: one thread at a time,
// with its batch, but for Sequence.Cancel.
//
// A finished sequence gives its states back. With GenerateKeep it keeps them, whatever ended it
// (but for ErrDead), and can be pushed to, truncated and forked. If it was cancelled or failed, it
// is as after its last completed step; in its prefill: the next step prefills anew.
//
//promptcache:doc pc_sequence_new
func (p *Prompt) NewSequence(ctx context.Context, cache *Cache, options *GenerateOptions) (
	*Sequence, error) {
	a := &arena{}
	defer a.free()
	c, store, o := a.prompt(p), a.cache(cache), options.c(a)
	a.begin(ctx)
	if a.err != nil {
		return nil, a.err
	}
	var out *C.pc_sequence
	if err := a.done(C.go_pc_sequence_new(&out, c, store, o, &a.failure)); err != nil {
		return nil, err
	}
	return newSequence(ctx, out, a.keepForSequence(), p.handle, cache.handleOrNil(),
		options.memoOrNil()), nil
}

// memoOrNil is of a memo that may be nil: its callbacks must stay while the sequence may ask it.
func (o *GenerateOptions) memoOrNil() *handle {
	if o == nil || o.Memo == nil {
		return nil
	}
	return o.Memo.handle
}

// keepForSequence is keep for a sequence, and for its forks.
func (a *arena) keepForSequence() *callbacks {
	calls := a.keep()
	if calls != nil {
		calls.sequence = true
	}
	return calls
}

// begin refuses what is cancelled before it begins.
func (a *arena) begin(ctx context.Context) {
	a.ctx = ctx
	if err := ctx.Err(); err != nil {
		a.fail(cancelled(err))
	}
}

// enter waits until no other goroutine uses the sequence or its batch.
func (s *sequence) enter(a *arena) (leave func()) {
	leave = s.in.enter()
	if s.p == nil {
		a.fail(closed("sequence"))
	}
	return leave
}

// Close removes the sequence from its batch and frees it.
//
// C: pc_sequence_free. Removes the sequence from its batch and frees it. Within a step (in a
// callback) it ends at once: no callback of it is called any more. Its memory goes when the step
// ends.
//
//promptcache:doc pc_sequence_free
func (s *Sequence) Close() error {
	defer s.in.enter()()
	if s.p == nil {
		return nil
	}
	s.mu.Lock()
	C.pc_sequence_free(s.p)
	s.p = nil
	s.mu.Unlock()
	close(s.over)
	s.calls.drop()
	for _, need := range s.needs {
		need.release()
	}
	return nil
}

// Cancel ends the turn, also in the middle of a step. Any goroutine may call it at any time.
//
// C: pc_sequence_cancel. Ends the turn as if `cancelled` had said so: a step under way gives the
// sequence up soon, else the next one that it takes part in. The next push or truncation takes
// that back. Any thread, at any time, as long as nobody frees the sequence meanwhile.
//
//promptcache:doc pc_sequence_cancel
func (s *Sequence) Cancel() { s.cancel(context.Canceled) }

func (s *sequence) cancel(why error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.p != nil {
		if s.why == nil {
			s.why = why
		}
		C.pc_sequence_cancel(s.p)
	}
}

// Fork makes a second continuation. It is cancelled when ctx is done.
//
// C: pc_sequence_fork. A second continuation of everything so far, over the same memory. Neither
// changes what the other reads. It is in no batch, and has the original's options, with its
// callbacks; these get the number of the copy as `sample`. Copies, and copies of those, are
// numbered from 1, as the samples of Prompt.Generate; max_tokens counts from the original's last
// push. Returns ErrState as Sequence.Push, and before its prompt is computed.
//
//promptcache:doc pc_sequence_fork
func (s *Sequence) Fork(ctx context.Context, options *ForkOptions) (*Sequence, error) {
	a := &arena{}
	defer a.free()
	o := options.c(a)
	a.begin(ctx)
	defer s.enter(a)()
	if a.err != nil {
		return nil, a.err
	}
	var out *C.pc_sequence
	if err := a.done(C.go_pc_sequence_fork(&out, s.p, o, &a.failure)); err != nil {
		return nil, err
	}
	return newSequence(ctx, out, s.calls.share(), s.needs...), nil
}

// SetOptions replaces options, with all callbacks.
//
// C: pc_sequence_set_options. Replaces sampling (its random numbers begin anew), max_tokens,
// min_tokens, stops with GenerateIgnoreEnd, top_logprobs, callbacks, priority and
// deadline_seconds. After the first step the other options must be as they were, or the default,
// which leaves them. Returns ErrState (names the field), and as Sequence.Push.
//
//promptcache:doc pc_sequence_set_options
func (s *Sequence) SetOptions(options *GenerateOptions) error {
	a := &arena{}
	defer a.free()
	o := options.c(a)
	defer s.enter(a)()
	if a.err != nil {
		return a.err
	}
	if err := a.done(C.go_pc_sequence_set_options(s.p, o, &a.failure)); err != nil {
		return err
	}
	s.calls.drop()
	s.calls = a.keepForSequence()
	return nil
}

// Tokens are the tokens behind the prompt, and Text is the text of those since the last push; both
// are copies.
//
// C: pc_sequence_tokens. Tokens behind the prompt so far, sampled and pushed, with stop tokens; and
// the final text of those sampled since the last push. Borrowed until the next step or change.
//
//promptcache:doc pc_sequence_tokens
func (s *Sequence) Tokens() []int32 {
	defer s.in.enter()()
	if s.p == nil {
		return nil
	}
	var count C.size_t
	return copyFrom[int32](unsafe.Pointer(C.pc_sequence_tokens(s.p, &count)), int(count))
}

// Text is the text since the last push.
//
// C: pc_sequence_text. Tokens behind the prompt so far, sampled and pushed, with stop tokens; and
// the final text of those sampled since the last push. Borrowed until the next step or change.
//
//promptcache:doc pc_sequence_text
func (s *Sequence) Text() string {
	defer s.in.enter()()
	if s.p == nil {
		return ""
	}
	var size C.size_t
	text := C.pc_sequence_text(s.p, &size)
	return C.GoStringN(text, C.int(size))
}

// Finish says why the sequence ended.
//
// C: pc_sequence_finish. Finish; NONE while it runs, and for nil.
//
//promptcache:doc pc_sequence_finish
func (s *Sequence) Finish() Finish {
	defer s.in.enter()()
	return Finish(C.pc_sequence_finish(s.p))
}

// Err is the error that has finished the sequence, or nil. ErrCancelled wraps what has cancelled
// it: the error of a context or callback, context.Canceled of Cancel, or else
// context.DeadlineExceeded of options.Deadline.
//
// C: pc_sequence_error. The error that has finished the sequence, which becomes pc_error_text() too;
// else, and for nil, OK. *text (may be nil): its text, or ""; borrowed until the next push or
// truncation.
//
//promptcache:doc pc_sequence_error
func (s *Sequence) Err() error {
	a := &arena{}
	defer a.free()
	defer s.enter(a)()
	if a.err != nil {
		return a.err
	}
	err := a.done(C.go_pc_sequence_error(s.p, nil, &a.failure))
	if e, ok := err.(*Error); ok {
		e.cause = s.causeOf(e)
	}
	return err
}

func (s *sequence) causeOf(e *Error) error {
	if s.calls != nil { // forks share callbacks: the error may be another one's
		if cause := s.calls.causeOf(e.Text); cause != nil {
			return cause
		}
	}
	if e.Status != ErrCancelled {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.why == nil && strings.HasSuffix(e.Text, " seconds has passed") { // options.Deadline
		return context.DeadlineExceeded
	}
	return s.why
}

// Stats are the statistics of the request so far.
//
// C: pc_sequence_get_stats. Statistics of the request so far.
//
//promptcache:doc pc_sequence_get_stats
func (s *Sequence) Stats() (stats Stats, err error) {
	a := &arena{}
	defer a.free()
	defer s.enter(a)()
	if a.err != nil {
		return stats, a.err
	}
	got := C.pc_stats{struct_size: C.sizeof_pc_stats}
	if err := a.done(C.go_pc_sequence_get_stats(s.p, &got, &a.failure)); err != nil {
		return stats, err
	}
	stats.from(&got)
	return stats, nil
}

// change makes a call that lets a sequence go on; not after its context is done.
func (s *Sequence) change(a *arena, call func() C.pc_status) error {
	a.begin(s.ctx)
	defer s.enter(a)()
	if a.err != nil {
		return a.err
	}
	if err := a.done(call()); err != nil {
		return err
	}
	s.mu.Lock()
	s.why = nil
	s.mu.Unlock()
	if err := s.ctx.Err(); err != nil { // meanwhile: the call has taken that back
		s.cancel(err)
	}
	return nil
}

// Push appends tokens.
//
// C: pc_sequence_push. Appends tokens: forced ones, or a further turn. The next step computes them
// and samples behind them. A finished sequence with GenerateKeep goes on, also with count 0;
// max_tokens counts anew. Returns ErrState (finished without GenerateKeep, or within a step),
// ErrLimit (beyond the model's context or the sequence's RoPE regime).
//
//promptcache:doc pc_sequence_push
func (s *Sequence) Push(tokens []int32) error {
	a := &arena{}
	defer a.free()
	return s.change(a, func() C.pc_status {
		return C.go_pc_sequence_push(s.p, (*C.int32_t)(first(tokens)), C.size_t(len(tokens)),
			&a.failure)
	})
}

// PushMessages appends a turn of a conversation.
//
// C: pc_sequence_push_messages. Appends messages behind the answer so far: closes it (but for a stop
// token that was just sampled), writes the messages, opens the next answer. They must not name
// modules, nor options a schema. Returns as Sequence.Push and Model.FormatMessages; ErrUnsupported
// also if the template would write the last answer otherwise than it is, or may count turns
// (doc/prompts.md).
//
//promptcache:doc pc_sequence_push_messages
func (s *Sequence) PushMessages(messages []Message, options *ChatOptions) error {
	a := &arena{}
	defer a.free()
	list, o := messageArray(a, messages), options.c(a)
	return s.change(a, func() C.pc_status {
		return C.go_pc_sequence_push_messages(s.p, list, C.sizeof_pc_message,
			C.size_t(len(messages)), o, &a.failure)
	})
}

// Truncate drops all but the first count tokens behind the prompt.
//
// C: pc_sequence_truncate. Drops all but the first `count` tokens behind the prompt, with their
// states. Text that on_text got is not taken back. The next step samples behind the rest, as if
// there had never been more. The sequence is unfinished again, unless the context ends there. To
// replace the last sampled token, truncate to one less and push another. Returns ErrUnsupported
// (an application's model without truncate; or count is 0 and the prompt's highest position was
// not computed last), ErrState as Sequence.Push.
//
//promptcache:doc pc_sequence_truncate
func (s *Sequence) Truncate(count int) error {
	if count < 0 {
		return errorf(ErrInvalid, "Truncate: count is %d", count)
	}
	a := &arena{}
	defer a.free()
	return s.change(a, func() C.pc_status {
		return C.go_pc_sequence_truncate(s.p, C.size_t(count), &a.failure)
	})
}

// Logits are the library's memory, without a copy: valid until the next step, and until the
// sequence is changed or closed.
//
// C: pc_sequence_logits. Logits [*count = vocab] behind all tokens but the last sampled one. nil
// without GenerateLogits and before the first token, or behind a failed step. Borrowed until the
// next step.
//
//promptcache:doc pc_sequence_logits
func (s *Sequence) Logits() []float32 {
	defer s.in.enter()()
	if s.p == nil {
		return nil
	}
	var count C.size_t
	logits := C.pc_sequence_logits(s.p, &count)
	if logits == nil {
		return nil
	}
	return unsafe.Slice((*float32)(logits), count)
}

// Spans are the states of the sequence. The caller closes the segments.
//
// C: pc_sequence_spans. The states of a sequence as segments in place, so that others can share
// them: all but tokens that are not computed yet (usually the last sampled one), in order. spans
// [capacity]: the caller frees each segment. The sequence goes on with the same memory and appends
// elsewhere. Returns ErrLimit (capacity), ErrState (before the first step, or it holds nothing any
// more), ErrUnsupported (an application's model).
//
//promptcache:doc pc_sequence_spans
func (s *Sequence) Spans() ([]Span, error) {
	a := &arena{}
	defer a.free()
	defer s.enter(a)()
	if a.err != nil {
		return nil, a.err
	}
	var count C.size_t
	if err := a.done(C.go_pc_sequence_spans(s.p, nil, C.sizeof_pc_span, 0, &count,
		&a.failure)); err != nil {
		return nil, err
	}
	list := make([]C.pc_span, count+1)
	if err := a.done(C.go_pc_sequence_spans(s.p, &list[0], C.sizeof_pc_span, count, &count,
		&a.failure)); err != nil {
		return nil, err
	}
	spans := make([]Span, count)
	for i := range spans {
		spans[i] = Span{newSegment((*C.pc_segment)(list[i].segment), s.needs[0]),
			int64(list[i].start), uint32(list[i].lo), uint32(list[i].hi)}
	}
	return spans, nil
}

// Save stores the sequence under a key. saved is false if something had no room in any tier.
//
// C: pc_sequence_save. Saves a sequence under a key of the caller's choice [32]: tokens and states,
// not its options. The sequence goes on as if nothing had happened. Its own states are stored in
// parts, under keys that derive from `key` and their bytes, so that saving again under the same
// key stores only what is new, and removes parts that the last two saves do not need. What it
// reads of the cache (modules, prefixes, levels) is stored too, once for all sequences of the
// tenant: a module that is evicted takes nothing along. All of it are entries, which tiers may
// evict. Waits while too much waits to be written. The tiers below RAM get it later: Cache.Flush
// waits for that, and so does the end of the cache, which its last sequence holds up. A crash
// before that leaves the save before. One process at a time saves under a key; another one that
// has an older save in its own tiers does not see the newer one of a server. Returns Miss
// (something had no room in any tier, or a tier is out of use: the save before stays), ErrState as
// Sequence.Fork, and if the cache may not write, ErrUnsupported (an application's model: its
// sequences cannot be exported), ErrIO (a tier may keep the save before).
//
//promptcache:doc pc_sequence_save
func (s *Sequence) Save(cache *Cache, key Key, options *SaveOptions) (saved bool, err error) {
	a := &arena{}
	defer a.free()
	c, k, o := a.cache(cache), a.key(&key), options.c(a)
	defer s.enter(a)()
	if a.err != nil {
		return false, a.err
	}
	status := C.go_pc_sequence_save(s.p, c, k, o, &a.failure)
	return status == C.PC_OK, a.done(status)
}

// LoadSequence makes a sequence as it was saved. It is nil, with a reason, if there is none. It is
// cancelled when ctx is done.
//
// C: pc_sequence_load. Makes a sequence as it was when it was saved last: it can be stepped, pushed
// to, truncated, forked and saved, as one with GenerateKeep. Exact states that come through
// lossless codecs give the tokens and logits that it would have given; through a lossy codec it is
// Approximate. One that an error or a cancellation had finished is unfinished. Its statistics
// count what was loaded. options: as of Prompt.NewSequence; those that a computed prompt has
// decided must be as they were, or the default; sampling, stops, limits and callbacks are not
// saved. With the seed that it had, random numbers go on. save: nil: all defaults. Returns Miss,
// with the reason in *reason (may be nil): there is none under this key for this model and salt,
// or some part of it is lost, and nothing was loaded. Before that it waits for parts that are on
// their way to the tiers below RAM. Returns ErrState as Sequence.SetOptions.
//
//promptcache:doc pc_sequence_load
func (m *Model) LoadSequence(ctx context.Context, cache *Cache, key Key, options *GenerateOptions,
	save *SaveOptions) (*Sequence, Reason, error) {
	a := &arena{}
	defer a.free()
	p, c, k := a.model(m), a.cache(cache), a.key(&key)
	o, from := options.c(a), save.c(a)
	a.begin(ctx)
	if a.err != nil {
		return nil, 0, a.err
	}
	var out *C.pc_sequence
	var reason C.uint32_t
	status := C.go_pc_sequence_load(&out, p, c, k, o, from, &reason, &a.failure)
	if err := a.done(status); err != nil || out == nil {
		return nil, Reason(reason), err
	}
	return newSequence(ctx, out, a.keepForSequence(), m.handle, cache.handleOrNil(),
		options.memoOrNil()), 0, nil
}

// ForgetSequence removes what was saved under a key; found is false if there is none.
//
// C: pc_sequence_forget. Removes what was saved under a key, from the tiers of options->tiers. Parts
// that other sequences of the tenant read too stay. Returns Miss: there is none; and as
// Cache.Remove.
//
//promptcache:doc pc_sequence_forget
func (m *Model) ForgetSequence(cache *Cache, key Key, options *SaveOptions) (
	found bool, err error) {
	a := &arena{}
	defer a.free()
	p, c, k, o := a.model(m), a.cache(cache), a.key(&key), options.c(a)
	if a.err != nil {
		return false, a.err
	}
	status := C.go_pc_sequence_forget(p, c, k, o, &a.failure)
	return status == C.PC_OK, a.done(status)
}
