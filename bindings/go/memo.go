package promptcache

// #include "bridge.h"
import "C"

import (
	"context"
	"unsafe"
)

// Memo stores attention maps of earlier prompts. Any number of goroutines may use it at once.
type Memo struct{ *handle }

// OpenMemo opens the memo in a folder. errors.Is(err, Again): another process is adding.
//
// C: pc_memo_open. Opens the memo in a folder, or makes an empty one there. Returns Again (*out is
// nil: another process is adding; MemoReadOnly works), ErrMismatch (of another model or kind of
// mask), ErrFormat (damaged), ErrNotFound (read-only, and there is none), ErrUnsupported (an
// application's model, or a later format), ErrIO. Handle: internally locked.
//
//promptcache:doc pc_memo_open
func (m *Model) OpenMemo(folder string, options *MemoOptions) (*Memo, error) {
	a := &arena{}
	defer a.free()
	p, name, o := a.model(m), a.name("folder", folder), options.c(a)
	if a.err != nil {
		return nil, a.err
	}
	var out *C.pc_memo
	status := C.go_pc_memo_open(&out, p, name, o, &a.failure)
	if err := a.done(status); err != nil {
		return nil, err
	}
	if out == nil {
		return nil, errorf(Status(status), "%s: another process adds to this memo", folder)
	}
	return finalise(&Memo{newHandle("memo", unsafe.Pointer(out), a.keep(),
		func(p unsafe.Pointer) { C.pc_memo_free((*C.pc_memo)(p)) }, m.handle)}), nil
}

// Close gives the memo up.
func (m *Memo) Close() error { return m.close() }

func (a *arena) memo(m *Memo) *C.pc_memo { return (*C.pc_memo)(a.hold(m.handle)) }

// work makes a call that ctx cancels.
func (m *Memo) work(ctx context.Context, inputs []Input, work *MemoWork,
	call func(a *arena, p *C.pc_memo, list *C.pc_input, o *C.pc_memo_work) C.pc_status) error {
	a := &arena{}
	defer a.free()
	p, list, o := a.memo(m), inputArray(a, inputs), work.c(a)
	a.watchProgress(ctx, &o.progress, &o.progress_user)
	if a.err != nil {
		return a.err
	}
	return a.done(call(a, p, list, o))
}

// Add stores maps and outputs of inputs; ctx cancels.
//
// C: pc_memo_add. Computes inputs in full and stores their maps and outputs. Skips inputs that are
// stored with all wanted outputs, and those longer than the last bucket.
//
//promptcache:doc pc_memo_add
func (m *Memo) Add(ctx context.Context, inputs []Input, work *MemoWork) error {
	return m.work(ctx, inputs, work,
		func(a *arena, p *C.pc_memo, list *C.pc_input, o *C.pc_memo_work) C.pc_status {
			return C.go_pc_memo_add(p, list, C.sizeof_pc_input, C.size_t(len(inputs)), o,
				&a.failure)
		})
}

// Train trains the projectors; ctx cancels.
//
// C: pc_memo_train. Trains the projectors of all buckets with at least 32 records (section 3.1).
// Thresholds must be tuned again. Continues a training that was cancelled or killed. Returns
// ErrState also if no bucket has so many records.
//
//promptcache:doc pc_memo_train
func (m *Memo) Train(ctx context.Context, work *MemoWork) error {
	return m.work(ctx, nil, work,
		func(a *arena, p *C.pc_memo, _ *C.pc_input, o *C.pc_memo_work) C.pc_status {
			return C.go_pc_memo_train(p, o, &a.failure)
		})
}

// Tune sets the thresholds; ctx cancels.
//
// C: pc_memo_tune. Sets each bucket's threshold to the lowest one that keeps the mean loss of its
// inputs within work->limit and the loss of hits at hit_percentile within hit_limit, both with 95
// % confidence. inputs: not among those stored. A bucket without such a threshold (30 hits at
// least) is closed. Returns ErrUnsupported for MemoLayers.
//
//promptcache:doc pc_memo_tune
func (m *Memo) Tune(ctx context.Context, inputs []Input, work *MemoWork) error {
	return m.work(ctx, inputs, work,
		func(a *arena, p *C.pc_memo, list *C.pc_input, o *C.pc_memo_work) C.pc_status {
			return C.go_pc_memo_tune(p, list, C.sizeof_pc_input, C.size_t(len(inputs)), o,
				&a.failure)
		})
}

// Tidy compresses cold records.
//
// C: pc_memo_tidy. Compresses cold records and gives unused room back to the file system.
//
//promptcache:doc pc_memo_tidy
func (m *Memo) Tidy() error {
	a := &arena{}
	defer a.free()
	p := a.memo(m)
	if a.err != nil {
		return a.err
	}
	return a.done(C.go_pc_memo_tidy(p, &a.failure))
}

// Stats are the counters of the memo.
//
// C: pc_memo_get_stats. The counters so far.
//
//promptcache:doc pc_memo_get_stats
func (m *Memo) Stats() (stats MemoStats, err error) {
	a := &arena{}
	defer a.free()
	p := a.memo(m)
	if a.err != nil {
		return stats, a.err
	}
	got := C.pc_memo_stats{struct_size: C.sizeof_pc_memo_stats}
	if err := a.done(C.go_pc_memo_get_stats(p, &got, &a.failure)); err != nil {
		return stats, err
	}
	stats.from(&got)
	return stats, nil
}

// Buckets are the buckets of the memo, by length.
//
// C: pc_memo_get_bucket. The buckets, by length.
//
//promptcache:doc pc_memo_get_bucket
func (m *Memo) Buckets() ([]MemoBucket, error) {
	a := &arena{}
	defer a.free()
	p := a.memo(m)
	if a.err != nil {
		return nil, a.err
	}
	buckets := make([]MemoBucket, C.pc_memo_bucket_count(p))
	for i := range buckets {
		got := C.pc_memo_bucket{struct_size: C.sizeof_pc_memo_bucket}
		if err := a.done(C.go_pc_memo_get_bucket(p, C.size_t(i), &got, &a.failure)); err != nil {
			return nil, err
		}
		buckets[i].from(&got)
	}
	return buckets, nil
}

// SetThreshold sets the threshold of a bucket. measured may be nil.
//
// C: pc_memo_set_threshold. Sets a bucket's threshold by the application's own measure, and opens
// it. Above 1: closes it. hit_limit: mean loss (Loss) of verified hits above which the bucket
// closes; 0: not watched. measured (may be nil): its hit_percentile, hit_loss, hit_loss_high and
// hit_loss_worst are stored. Returns ErrState (no projector yet, or opened read-only).
//
//promptcache:doc pc_memo_set_threshold
func (m *Memo) SetThreshold(bucket int, threshold float64, loss Loss, hitLimit float64,
	measured *MemoBucket) error {
	a := &arena{}
	defer a.free()
	p := a.memo(m)
	var o *C.pc_memo_bucket
	if measured != nil {
		o = measured.c(a)
	}
	if a.err != nil {
		return a.err
	}
	return a.done(C.go_pc_memo_set_threshold(p, C.size_t(bucket), C.double(threshold),
		C.uint32_t(loss), C.double(hitLimit), o, &a.failure))
}

// Want says what Prefill computes.
type Want uint

const (
	WantEmbeddings Want = 1 << iota
	WantLogits
	WantSegments
)

// Prefilled is what Prefill has computed: of each input, what was wanted.
type Prefilled struct {
	Embeddings [][]float32
	Logits     [][]float32
	Segments   []*Segment
	Results    []MemoResult
	Stats      PrefillStats
}

// Prefill computes prompts without an answer; ctx cancels. The caller closes the segments.
//
// C: pc_prefill. Computes prompts that need no answer beyond their last hidden states: embeddings,
// logits, states. All inputs go together, hits and misses mixed (AttnCache, section 3.2). If the
// memo stores an equal prompt with all wanted outputs (and no segments are wanted), they are
// returned, Exact. Blocks. stats: may be nil. Returns ErrUnsupported (an application's model;
// logits of an encoder without a head), ErrMismatch (the memo is of another model), ErrLimit (an
// input is longer than the model takes), ErrCancelled.
//
//promptcache:doc pc_prefill
func (m *Model) Prefill(ctx context.Context, inputs []Input, want Want,
	options *PrefillOptions) (*Prefilled, error) {
	info, err := m.Info()
	if err != nil {
		return nil, err
	}
	a := &arena{}
	defer a.free()
	p, list, o := a.model(m), inputArray(a, inputs), options.c(a)
	if flag := a.watch(ctx); flag != nil {
		o.cancelled = (*[0]byte)(C.go_cancelled)
		o.cancel_user = unsafe.Pointer(flag)
	}
	if options != nil && options.MapLayers != nil && len(options.MapLayers) != int(info.Layers) {
		a.fail(errorf(ErrInvalid, "MapLayers has %d elements, the model has %d layers",
			len(options.MapLayers), info.Layers))
	}
	if a.err != nil {
		return nil, a.err
	}
	width := info.Vocab
	if info.Bidirectional {
		width = int32(info.Classes)
	}
	embeddings := matrix(want&WantEmbeddings != 0, len(inputs), int(info.Hidden))
	logits := matrix(want&WantLogits != 0, len(inputs), int(width))
	var segments []*C.pc_segment
	if want&WantSegments != 0 {
		segments = make([]*C.pc_segment, len(inputs)+1)
	}
	results := make([]C.pc_memo_result, len(inputs)+1)
	stats := C.pc_prefill_stats{struct_size: C.sizeof_pc_prefill_stats}
	if err := a.done(C.go_pc_prefill_into(p, list, C.size_t(len(inputs)), o,
		(*C.float)(first(embeddings)), (*C.float)(first(logits)),
		(**C.pc_segment)(first(segments)), &results[0], &stats, &a.failure)); err != nil {
		return nil, err
	}
	out := &Prefilled{Embeddings: rowsOf(embeddings, int(info.Hidden)),
		Logits: rowsOf(logits, int(width)), Results: make([]MemoResult, len(inputs))}
	for i := range inputs {
		out.Results[i].from(&results[i])
		if segments != nil {
			out.Segments = append(out.Segments, newSegment(segments[i], m.handle))
		}
	}
	out.Stats.from(&stats)
	return out, nil
}

// matrix has room for rows of numbers, if they are wanted.
func matrix(wanted bool, rows, width int) []float32 {
	if !wanted {
		return nil
	}
	return make([]float32, rows*width)
}

// rowsOf are the rows of a matrix, in its memory.
func rowsOf(numbers []float32, width int) [][]float32 {
	var rows [][]float32
	for at := 0; at < len(numbers); at += width {
		rows = append(rows, numbers[at:at+width:at+width])
	}
	return rows
}

// checkTypes checks what C cannot: each prompt has as many types as tokens.
func (a *arena) checkTypes(types [][]int32, prompts []*Prompt) {
	a.same("Types", len(prompts), "prompts", len(types))
	for i := 0; i < len(prompts) && a.err == nil; i++ {
		parts, err := prompts[i].Parts()
		if err != nil {
			a.fail(err)
		}
		count := 0
		for _, part := range parts {
			count += len(part.Tokens)
		}
		a.same("Types", len(types[i]), "the prompt", count)
	}
}

// Embed embeds prompts of one model; ctx cancels. cache may be nil.
//
// C: pc_embed. Embeds prompts [count] of one model: embeddings [count][ModelInfo.Hidden]. What is
// left to compute of all prompts goes in as few passes as fit. Blocks. Decoders: modules come from
// the cache, or are encoded and stored, as for Prompt.Generate. Of a prompt without PML the
// beginning that the cache has is reused, and nothing is stored. This is for PoolLast. MEAN and
// FIRST need the hidden state of every token, which no cache has: they compute the prompts whole,
// and are Exact. Encoders take prompts of tokens or text; nothing is reused. cache: nil: nothing
// is looked up or stored. options and stats may be nil. Returns ErrMismatch (prompts of different
// models), ErrUnsupported (an application's model without step_hidden), ErrLimit (a prompt is
// longer than the model takes), ErrCancelled, and as Prompt.Generate.
//
//promptcache:doc pc_embed
func Embed(ctx context.Context, prompts []*Prompt, cache *Cache, options *EmbedOptions) (
	embeddings [][]float32, stats EmbedStats, err error) {
	a := &arena{}
	defer a.free()
	list := make([]*C.pc_prompt, len(prompts)+1)
	for i, prompt := range prompts {
		list[i] = a.prompt(prompt)
	}
	c, o := a.cache(cache), options.c(a)
	if flag := a.watch(ctx); flag != nil {
		o.cancelled = (*[0]byte)(C.go_cancelled)
		o.cancel_user = unsafe.Pointer(flag)
	}
	if len(prompts) == 0 {
		a.fail(errorf(ErrInvalid, "no prompt is given"))
	} else if options != nil && options.Types != nil {
		a.checkTypes(options.Types, prompts)
	}
	if a.err != nil {
		return nil, stats, a.err
	}
	model := prompts[0].modelHandle()
	info := C.pc_model_info{struct_size: C.sizeof_pc_model_info}
	if err := a.done(C.go_pc_model_get_info((*C.pc_model)(a.holdNeeded(model)), &info,
		&a.failure)); err != nil {
		return nil, stats, err
	}
	numbers := matrix(true, len(prompts), int(info.hidden))
	got := C.pc_embed_stats{struct_size: C.sizeof_pc_embed_stats}
	err = a.done(C.go_pc_embed(&list[0], C.size_t(len(prompts)), c, o, (*C.float)(first(numbers)),
		&got, &a.failure))
	stats.from(&got)
	if err != nil {
		return nil, stats, err
	}
	return rowsOf(numbers, int(info.hidden)), stats, nil
}
