package promptcache

// #include "bridge.h"
import "C"

import (
	"context"
	"io"
	"strings"
	"unsafe"
)

// Answer is what Generate has computed.
type Answer struct {
	// Texts has the text of each sample.
	Texts []string
	Stats Stats
}

// Text is the text of the first sample.
func (a *Answer) Text() string {
	if len(a.Texts) == 0 {
		return ""
	}
	return a.Texts[0]
}

// Generate answers the prompt; ctx cancels within a step. cache may be nil. The answer is not nil
// even with an error: it has what was computed until then. options.OnText gets each text as it
// becomes final; see Stream, too.
//
// C: pc_generate. Answers a prompt: looks its modules up, encodes missing ones, computes the new
// tokens and samples until a stop. Blocks. cache: nil: nothing is looked up or stored. stats: may
// be nil; also written on failure, as far as the work came. Returns ErrCancelled, ErrUnsupported
// (e.g. a module of a model with learned positions would have to move), ErrLimit.
//
// With options->memo, a plain prompt that no tier of the cache has anything of is looked up in the
// memo (see Model.Prefill). After a hit, values are computed with the other prompt's maps and keys
// afterwards. The request goes on from those states and is Approximate. The states are its own:
// the cache does not store them. A verified hit goes on from the full computation and is Exact,
// but is not stored either; nor is a miss of a memo with MemoLayers. Other misses are computed and
// stored as without a memo. stats->memo_reason tells why a prompt was not looked up. Returns
// ErrMismatch (the memo is of another model), ErrUnsupported (an application's model, or salts are
// given).
//
//promptcache:doc pc_generate
func (p *Prompt) Generate(ctx context.Context, cache *Cache, options *GenerateOptions) (
	*Answer, error) {
	a := &arena{}
	defer a.free()
	c, store, o := a.prompt(p), a.cache(cache), options.c(a)
	if flag := a.watch(ctx); flag != nil {
		o.cancelled = (*[0]byte)(C.go_cancelled)
		o.cancel_user = unsafe.Pointer(flag)
	}
	a.deadline = options != nil && options.Deadline > 0
	texts := a.collect(options, o)
	answer := &Answer{}
	if a.err != nil {
		return answer, a.err
	}
	got := C.pc_stats{struct_size: C.sizeof_pc_stats}
	err := a.done(C.go_pc_generate(c, store, o, &got, &a.failure))
	answer.Stats.from(&got)
	for i := range texts {
		answer.Texts = append(answer.Texts, texts[i].String())
	}
	return answer, err
}

// collect gathers the texts of all samples, beside the application's own function.
func (a *arena) collect(options *GenerateOptions, o *C.pc_generate_options) []strings.Builder {
	samples, own := 1, func(int, string) error { return nil }
	if options != nil {
		if options.Samples > 1 {
			samples = int(options.Samples)
		}
		if options.OnText != nil {
			own = options.OnText
		}
	}
	if samples > 1<<20 { // the library says that it is too many
		samples = 1 << 20
	}
	texts := make([]strings.Builder, samples)
	a.calls().text = func(sample int, text string) error {
		if sample < samples {
			texts[sample].WriteString(text)
		}
		return own(sample, text)
	}
	o.on_text = C.pc_text_fn(C.go_on_text)
	a.setUser(&o.on_text_user)
	return texts
}

// Stream gives the text of an answer piece by piece:
//
//	stream, err := prompt.Stream(ctx, cache, nil)
//	…
//	defer stream.Close()
//	for stream.Next() {
//		fmt.Print(stream.Text())
//	}
//	err = stream.Err()
//
// Nothing is computed between two calls of Next. One goroutine at a time may use a Stream.
type Stream struct {
	batch    *Batch
	sequence *Sequence
	pending  *strings.Builder
	text     string
	err      error
	over     bool
	stats    Stats
	finish   Finish
}

// Stream begins an answer; ctx cancels it, within a step too. options.Samples must be 0 or 1.
func (p *Prompt) Stream(ctx context.Context, cache *Cache, options *GenerateOptions) (
	*Stream, error) {
	s := &Stream{pending: &strings.Builder{}}
	var own GenerateOptions
	if options != nil {
		own = *options
	}
	caller := own.OnText
	pending := s.pending // the callback must not keep the stream from being collected
	own.OnText = func(sample int, text string) error {
		pending.WriteString(text)
		if caller != nil {
			return caller(sample, text)
		}
		return nil
	}
	a := &arena{}
	defer a.free()
	if a.prompt(p); a.err != nil {
		return nil, a.err
	}
	model := p.modelHandle()
	a.holdNeeded(model)
	var err error
	if s.batch, err = a.newBatch(model, nil); err != nil {
		return nil, err
	}
	if s.sequence, err = p.NewSequence(ctx, cache, &own); err == nil {
		err = s.batch.Add(s.sequence)
	}
	if err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// Next computes until there is text. It returns false at the end of the answer: then Err says
// whether it is whole.
func (s *Stream) Next() bool {
	for s.pending.Len() == 0 && !s.over {
		more, err := s.batch.Step(context.Background())
		if err == nil && !more {
			err = s.sequence.Err()
		}
		if err != nil || !more {
			s.end(err)
		}
	}
	s.text = s.pending.String()
	s.pending.Reset()
	return s.text != ""
}

func (s *Stream) end(err error) {
	s.over = true
	s.err = err
	s.finish = s.sequence.Finish()
	s.stats, _ = s.sequence.Stats()
	s.Close()
}

// Text is the text that the last Next has found: one or more whole characters.
func (s *Stream) Text() string { return s.text }

// Err is the error that has ended the stream, or nil.
func (s *Stream) Err() error { return s.err }

// Finish says why the answer ended; FinishNone before its end.
func (s *Stream) Finish() Finish { return s.finish }

// Stats are those of the request, after its end.
func (s *Stream) Stats() Stats { return s.stats }

// WriteTo writes the rest of the answer as it comes. It implements io.WriterTo.
func (s *Stream) WriteTo(w io.Writer) (n int64, err error) {
	for s.Next() {
		written, err := io.WriteString(w, s.text)
		n += int64(written)
		if err != nil {
			return n, err
		}
	}
	return n, s.err
}

// Close gives the stream up, at any point of the answer.
func (s *Stream) Close() error {
	s.over = true
	if s.sequence != nil {
		s.sequence.Close()
	}
	return s.batch.Close()
}
