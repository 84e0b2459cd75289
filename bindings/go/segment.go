package promptcache

// #include "bridge.h"
import "C"

import (
	"encoding/hex"
	"unsafe"
)

// Segment is the immutable states of a run of tokens. Any number of goroutines may use it at once.
type Segment struct{ *handle }

func newSegment(p *C.pc_segment, needs *handle) *Segment {
	return finalise(&Segment{newHandle("segment", unsafe.Pointer(p), nil,
		func(p unsafe.Pointer) { C.pc_segment_free((*C.pc_segment)(p)) }, needs)})
}

// Close gives the segment up. Prompts and caches that hold it go on.
func (s *Segment) Close() error { return s.close() }

func (a *arena) segment(s *Segment) *C.pc_segment {
	if s == nil {
		a.fail(errorf(ErrInvalid, "the segment is nil"))
		return nil
	}
	return (*C.pc_segment)(a.hold(s.handle))
}

// NewSegment makes a segment of states in memory of Go, which are copied once.
//
// C: pc_segment_wrap. Makes a segment around memory of the application. For the cache and
// Segment.Raw, not for sequences of our models. raw: the blocks stay where they are until
// `release` (may be nil) is called with `user`, when the last reference is gone; everything else
// is copied. On failure release is not called. Handle: immutable.
//
//promptcache:doc pc_segment_wrap
func (c *Context) NewSegment(raw *Raw) (*Segment, error) {
	a := &arena{}
	defer a.free()
	p := (*C.pc_context)(a.hold(c.handle))
	r := raw.c(a)
	if a.err != nil {
		return nil, a.err
	}
	// The copies go to the segment with the list that frees them.
	list := C.calloc(C.size_t(r.block_count)+1, C.sizeof_uintptr_t)
	if list == nil {
		return nil, errorf(ErrNoMem, "no memory for the list of blocks")
	}
	mine := unsafe.Slice((*unsafe.Pointer)(list), r.block_count+1)
	copy(mine, unsafe.Slice(r.blocks, r.block_count))
	var out *C.pc_segment
	err := a.done(C.go_pc_segment_wrap(&out, p, r, (*[0]byte)(C.go_free_blocks), list, &a.failure))
	if err != nil {
		C.free(list)
		return nil, err
	}
	a.giveAway(mine)
	return newSegment(out, c.handle), nil
}

// giveAway keeps blocks from being freed with the arena.
func (a *arena) giveAway(blocks []unsafe.Pointer) {
	given := map[unsafe.Pointer]bool{}
	for _, block := range blocks {
		given[block] = true
	}
	left := a.blocks[:0]
	for _, block := range a.blocks {
		if !given[block] {
			left = append(left, block)
		}
	}
	a.blocks = left
}

// Tokens are the library's memory, without a copy: valid until the segment is closed.
//
// C: pc_segment_tokens. The tokens of a segment, borrowed from it. *count (may be nil): how many.
// nil and 0 for nil.
//
//promptcache:doc pc_segment_tokens
func (s *Segment) Tokens() []int32 {
	a := &arena{}
	defer a.free()
	p := a.segment(s)
	if a.err != nil {
		return nil
	}
	var count C.size_t
	tokens := C.pc_segment_tokens(p, &count)
	return unsafe.Slice((*int32)(tokens), count)
}

// Raw is the memory of the segment. Blocks are the library's memory, without a copy: valid until
// the segment is closed, and not to be written to.
//
// C: pc_segment_raw. The memory of a segment: wrapped, from Cache.Get, or of our models
// (LayoutPages). Pointers are borrowed from the segment. Returns ErrUnsupported for a segment of
// an application's model.
//
//promptcache:doc pc_segment_raw
func (s *Segment) Raw() (raw Raw, err error) {
	a := &arena{}
	defer a.free()
	p := a.segment(s)
	if a.err != nil {
		return raw, a.err
	}
	got := C.pc_raw{struct_size: C.sizeof_pc_raw}
	if err := a.done(C.go_pc_segment_raw(p, &got, &a.failure)); err != nil {
		return raw, err
	}
	raw.from(&got)
	return raw, nil
}

// ReadSegment gives K and V of one layer of a segment of this model.
//
// C: pc_segment_read. K and V of one layer as placed at `start`: k, v [kv_head][token][head_dim],
// fp32; either may be nil. Of a model with latent attention those of every head, with values of
// the width that the model has, at most head_dim. Returns ErrUnsupported (the states cannot be
// moved there, or belong to an application's model), ErrState (the segment has values only),
// ErrLimit (start is above 2^60).
//
//promptcache:doc pc_segment_read
func (m *Model) ReadSegment(segment *Segment, layer int, start int64) (k, v []float32, err error) {
	info, err := m.Info()
	if err != nil {
		return nil, nil, err
	}
	raw, err := segment.Raw()
	if err != nil {
		return nil, nil, err
	}
	if raw.Model != nil && *raw.Model != info.Fingerprint {
		return nil, nil, errorf(ErrMismatch, "the segment is of another model")
	}
	heads := info.KVHeads
	if raw.Layout == LayoutLatent {
		heads = info.Heads
	}
	a := &arena{}
	defer a.free()
	p := a.segment(segment)
	if a.err != nil {
		return nil, nil, a.err
	}
	k = make([]float32, int(heads)*len(raw.Tokens)*int(info.HeadDim))
	v = make([]float32, len(k))
	err = a.done(C.go_pc_segment_read(p, C.int32_t(layer), C.int64_t(start), (*C.float)(first(k)),
		(*C.float)(first(v)), &a.failure))
	return k, v, err
}

// PromptFromSpans makes a prompt of segments and new tokens.
//
// C: pc_prompt_from_spans. A prompt of given segments and new tokens: levels by hand, any tree
// (Hydragen, section 3.3). In a batch, segments that several sequences hold are read once for all.
// spans: from pc_eval, Sequence.Spans or Model.Prefill; the prompt holds them. The new tokens
// stand at `start`, behind all spans. Without new tokens the last token of the spans is computed
// again (tokens_repaired), for its logits, and the first sampled token stands at `start`. The
// states are Exact if every segment saw exactly the tokens before it here, at these distances, and
// is whole from its first token on. Segments know this if they come from pc_eval, Model.Prefill or
// an exact sequence. Otherwise they are Approximate. Encoding and cache do not matter; repair and
// baselines that recompute are refused (ErrUnsupported). Returns ErrMismatch (of another model),
// ErrInvalid (neither spans nor tokens, or a span reaches `start`).
//
//promptcache:doc pc_prompt_from_spans
func (m *Model) PromptFromSpans(spans []Span, start int64, tokens []int32,
	options *PromptOptions) (*Prompt, error) {
	a := &arena{}
	defer a.free()
	p, list, o := a.model(m), spanArray(a, spans), options.c(a)
	if a.err != nil {
		return nil, a.err
	}
	var out *C.pc_prompt
	if err := a.done(C.go_pc_prompt_from_spans(&out, p, list, C.sizeof_pc_span,
		C.size_t(len(spans)), C.int64_t(start), (*C.int32_t)(first(tokens)),
		C.size_t(len(tokens)), o, &a.failure)); err != nil {
		return nil, err
	}
	return newPrompt(out, m.handle), nil
}

// String is the key in hexadecimal.
func (k Key) String() string { return hex.EncodeToString(k[:]) }

// KeyBase makes a base key.
//
// C: pc_key_base. base [32]: the base key, digest of everything but tokens. Any thread.
//
//promptcache:doc pc_key_base
func KeyBase(parts *KeyParts) (key Key, err error) {
	a := &arena{}
	defer a.free()
	o := parts.c(a)
	if a.err != nil {
		return key, a.err
	}
	err = a.done(C.go_pc_key_base((*C.uint8_t)(&key[0]), o, &a.failure))
	return key, err
}

// SegmentKey makes the key of a segment.
//
// C: pc_key_segment. key [32] of a segment. Any thread.
//
//promptcache:doc pc_key_segment
func SegmentKey(args *KeySegmentArgs) (key Key, err error) {
	a := &arena{}
	defer a.free()
	o := args.c(a)
	if a.err != nil {
		return key, a.err
	}
	err = a.done(C.go_pc_key_segment((*C.uint8_t)(&key[0]), o, &a.failure))
	return key, err
}
