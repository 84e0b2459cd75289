package promptcache_test

// Would catch: states that change on their way to the cache and back, views that are copies or have
// the wrong length, arrays whose counts do not fit, a reason or an event that gets lost.

import (
	"bytes"
	"context"
	"errors"
	"math"
	"strings"
	"sync"
	"testing"
	"time"

	"promptcache"
)

// states are of a runtime of the application: two blocks of 64 bytes for three tokens.
func states() *promptcache.Raw {
	return &promptcache.Raw{
		Model: &promptcache.Key{7}, Architecture: "test", DType: promptcache.DTypeF32,
		Layout: promptcache.LayoutApplication, Layers: 2, KVHeads: 1, KDim: 4, VDim: 4,
		Tokens: []int32{5, 6, 7},
		Blocks: [][]byte{bytes.Repeat([]byte{1}, 64), bytes.Repeat([]byte{2}, 64)},
	}
}

func expected() *promptcache.Raw {
	raw := states()
	raw.Blocks, raw.BlockBytes = nil, []uint64{64, 64}
	return raw
}

func segmentKey(t *testing.T, tokens []int32) promptcache.Key {
	t.Helper()
	base := must[promptcache.Key](t)(promptcache.KeyBase(&promptcache.KeyParts{
		Model: &promptcache.Key{7}, DType: promptcache.DTypeF32, Salt: []byte("tenant")}))
	return must[promptcache.Key](t)(promptcache.SegmentKey(&promptcache.KeySegmentArgs{
		Base: &base, Tokens: tokens}))
}

func isStates(t *testing.T, segment *promptcache.Segment) {
	t.Helper()
	raw := must[promptcache.Raw](t)(segment.Raw())
	want := states()
	if len(raw.Blocks) != 2 || !bytes.Equal(raw.Blocks[0], want.Blocks[0]) ||
		!bytes.Equal(raw.Blocks[1], want.Blocks[1]) || raw.Architecture != "test" ||
		raw.Layout != promptcache.LayoutApplication || len(segment.Tokens()) != 3 ||
		segment.Tokens()[2] != 7 {
		t.Errorf("%+v", raw)
	}
}

func TestStatesOfAnotherRuntime(t *testing.T) {
	options := &promptcache.CacheOptions{DiskPath: temporary(t, "store")}
	cache := newCache(t, options)
	key, other := segmentKey(t, []int32{5, 6, 7}), segmentKey(t, []int32{5, 6, 8})
	if key == other || len(key.String()) != 64 {
		t.Errorf("%v, %v", key, other)
	}
	if status, err := cache.PutCopy(key, states(), nil); status != promptcache.OK || err != nil {
		t.Fatalf("%v, %v", status, err)
	}
	if status, err := cache.PutCopy(key, states(), nil); status != promptcache.Exists || err != nil {
		t.Errorf("%v, %v", status, err)
	}
	own := must[*promptcache.Context](t)(promptcache.NewContext(
		&promptcache.ContextOptions{Threads: 1}))
	defer own.Close()
	segment := must[*promptcache.Segment](t)(own.NewSegment(states()))
	isStates(t, segment)
	if status, err := cache.Put(other, segment, nil); status != promptcache.OK || err != nil {
		t.Errorf("%v, %v", status, err)
	}
	check(t, segment.Close())
	must[bool](t)(cache.Flush())
	check(t, cache.Close())

	cache = newCache(t, options) // now they come from the disk
	found, tiers, err := cache.Find([]promptcache.Key{key, other, {9}}, nil)
	if err != nil || found != 2 || tiers[0] != promptcache.TierDisk ||
		tiers[2] != promptcache.TierNone {
		t.Errorf("%v, %v, %v", found, tiers, err)
	}
	got, info, err := cache.Get(key, expected(), nil)
	if check(t, err); got == nil || info.Tier != promptcache.TierDisk || info.Time <= 0 {
		t.Fatalf("%+v", info)
	}
	isStates(t, got)
	missing, info, err := cache.Get(promptcache.Key{9}, expected(), nil)
	if missing != nil || err != nil || info.Reason != promptcache.ReasonFirstUse {
		t.Errorf("%v, %+v, %v", missing, info, err)
	}
	load := must[*promptcache.Load](t)(cache.GetMany(expected(), []promptcache.GetEntry{
		{Key: &key, Tokens: []int32{5, 6, 7}}, {Key: &promptcache.Key{9}, Tokens: []int32{1}}}, nil))
	ctx, cancel := context.WithTimeout(background, 10*time.Second)
	check(t, load.Wait(ctx))
	cancel()
	ended(t, load.Wait(ctx), context.Canceled)
	if done := must[int](t)(load.Poll()); done != 2 {
		t.Errorf("%d are done", done)
	}
	many, _, status, err := load.Result(0)
	if many == nil || status != promptcache.OK || err != nil {
		t.Fatalf("%v, %v", status, err)
	}
	isStates(t, many)
	if nothing, _, status, err := load.Result(1); nothing != nil || err != nil ||
		status != promptcache.Miss {
		t.Errorf("%v, %v", status, err)
	}
	check(t, load.Close())
	check(t, load.Close())
	if removed := must[int](t)(cache.Remove([]promptcache.Key{key, {9}}, nil)); removed != 1 {
		t.Errorf("%d were removed", removed)
	}
	isStates(t, got) // users keep their references
	check(t, got.Close())
	check(t, many.Close())
}

func TestCountsThatDoNotFit(t *testing.T) {
	cache := newCache(t, nil)
	bad := states()
	bad.BlockBytes = []uint64{64, 65}
	if _, err := cache.PutCopy(promptcache.Key{1}, bad, nil); !errors.Is(err, promptcache.ErrInvalid) {
		t.Errorf("sizes of other blocks: %v", err)
	}
	bad = states()
	bad.Relative = []int64{0, 1}
	if _, err := cache.PutCopy(promptcache.Key{1}, bad, nil); !errors.Is(err, promptcache.ErrInvalid) {
		t.Errorf("two positions of three tokens: %v", err)
	}
	bad = states()
	bad.Architecture = strings.Repeat("x", 32)
	if _, err := cache.PutCopy(promptcache.Key{1}, bad, nil); !errors.Is(err, promptcache.ErrInvalid) {
		t.Errorf("a name of 32 bytes: %v", err)
	}
	if _, err := cache.GetMany(expected(), []promptcache.GetEntry{{Key: &promptcache.Key{1},
		BlockBytes: []uint64{64}}}, nil); !errors.Is(err, promptcache.ErrInvalid) {
		t.Errorf("one size of two blocks: %v", err)
	}
}

func TestEventsAndStats(t *testing.T) {
	var mu sync.Mutex
	kinds := map[promptcache.EventKind]int{}
	most := uint64(0)
	cache := newCache(t, &promptcache.CacheOptions{
		RAMBytes: 64 << 20,
		OnEvent: func(event promptcache.Event) {
			mu.Lock()
			defer mu.Unlock()
			kinds[event.Kind]++
		},
		OnBytes: func(tier promptcache.Tier, bytes, budget uint64) {
			mu.Lock()
			defer mu.Unlock()
			if tier == promptcache.TierRAM && bytes > most && budget == 64<<20 {
				most = bytes
			}
		},
	})
	if all := must[bool](t)(employees.Encode(background, cache, nil)); !all {
		t.Error("there was no room")
	}
	prompt := deskPrompt(t)
	must[*promptcache.Answer](t)(prompt.Generate(background, cache, nil))
	stats := must[promptcache.CacheStats](t)(cache.Stats())
	tier := must[promptcache.TierStats](t)(cache.TierStats(promptcache.TierRAM))
	mu.Lock()
	if kinds[promptcache.EventStore] != int(stats.Stored) ||
		kinds[promptcache.EventHit] != int(stats.Hits) || stats.Hits == 0 ||
		most != stats.SegmentBytes || tier.SegmentBytes != most {
		t.Errorf("%v, %+v, %d bytes", kinds, stats, most)
	}
	mu.Unlock()
	text := must[string](t)(cache.Prometheus(&promptcache.PrometheusOptions{Labels: `zone="b"`}))
	if !strings.Contains(text, `zone="b"`) {
		t.Errorf("%.200s", text)
	}
	if _, reached, err := cache.Trim(stats.SegmentBytes / 2); !reached || err != nil {
		t.Errorf("%v, %v", reached, err)
	}
	check(t, cache.SetQuota(promptcache.TierRAM, []byte("tenant"), 1<<20))
	check(t, cache.Clear())
	if stats = must[promptcache.CacheStats](t)(cache.Stats()); stats.Segments != 0 {
		t.Errorf("%+v", stats)
	}
	if _, err := cache.TierStats(77); !errors.Is(err, promptcache.ErrInvalid) {
		t.Errorf("%v", err)
	}
	if pinned := must[bool](t)(cache.Pin(promptcache.Key{1}, 1, promptcache.Forever)); pinned {
		t.Error("what is not there was pinned")
	}
}

func TestSegmentsByHand(t *testing.T) {
	tokens := must[[]int32](t)(model.Tokenize("<s><|system|>Use the notes to answer.<|end|> "+
		"The desk of Oscar Baker is 192.<|user|>", promptcache.TokenizeSpecial))
	question := must[[]int32](t)(model.Tokenize("What is the desk of Oscar Baker?"+
		"<|end|><|assistant|>", promptcache.TokenizeSpecial))
	got := must[*promptcache.Prefilled](t)(model.Prefill(background,
		[]promptcache.Input{{Tokens: tokens}, {Tokens: tokens[:9]}}, promptcache.WantSegments|
			promptcache.WantLogits|promptcache.WantEmbeddings, nil))
	info := must[promptcache.ModelInfo](t)(model.Info())
	if len(got.Segments) != 2 || len(got.Logits) != 2 || len(got.Logits[1]) != int(info.Vocab) ||
		len(got.Embeddings[1]) != int(info.Hidden) || got.Stats.Inputs != 2 ||
		got.Results[0].Exactness != promptcache.Exact {
		t.Fatalf("%+v", got.Stats)
	}
	check(t, got.Segments[1].Close())
	segment := got.Segments[0]
	k, v, err := model.ReadSegment(segment, 1, 0)
	check(t, err)
	if len(k) != int(info.KVHeads*info.HeadDim)*len(tokens) || len(v) != len(k) || v[len(v)-1] == 0 {
		t.Errorf("%d numbers of K", len(k))
	}
	prompt := must[*promptcache.Prompt](t)(model.PromptFromSpans(
		[]promptcache.Span{{Segment: segment}}, int64(len(tokens)), question, nil))
	check(t, segment.Close()) // the prompt holds it
	answered := must[*promptcache.Answer](t)(prompt.Generate(background, nil, nil))
	if answered.Text() != "The desk of Oscar Baker is 192." ||
		answered.Stats.Exactness != promptcache.Exact {
		t.Errorf("%q, %v", answered.Text(), answered.Stats.Exactness)
	}
	batch := newBatch(t)
	sequence := newSequence(t, background, prompt, nil, &promptcache.GenerateOptions{
		Flags: promptcache.GenerateKeep})
	check(t, batch.Add(sequence))
	check(t, batch.Run(background))
	spans := must[[]promptcache.Span](t)(sequence.Spans())
	count := 0
	for _, span := range spans {
		count += len(span.Segment.Tokens())
		check(t, span.Segment.Close())
	}
	if want := len(tokens) + len(question) + len(sequence.Tokens()); count < want-1 || count > want {
		t.Errorf("%d tokens in the spans, want %d or one less", count, want)
	}
	if _, err := model.PromptFromSpans([]promptcache.Span{{}}, 1, nil, nil); err == nil {
		t.Error("a span without a segment")
	}
}

func TestEmbedAndMemo(t *testing.T) {
	var prompts []*promptcache.Prompt
	var inputs []promptcache.Input
	for _, text := range []string{"The desk of Anna Reed is 341.", "The desk of Anna Reed is 205."} {
		prompts = append(prompts, must[*promptcache.Prompt](t)(model.PromptFromText(text, nil)))
		inputs = append(inputs, promptcache.Input{Tokens: must[[]int32](t)(model.Tokenize(text, 0))})
	}
	embeddings, stats, err := promptcache.Embed(background, prompts, nil,
		&promptcache.EmbedOptions{Flags: promptcache.EmbedNormalize})
	check(t, err)
	cosine := 0.0
	for i := range embeddings[0] {
		cosine += float64(embeddings[0][i]) * float64(embeddings[1][i])
	}
	if len(embeddings) != 2 || stats.Prompts != 2 || cosine < 0.2 || cosine > 1 {
		t.Errorf("cosine %f, %+v", cosine, stats)
	}
	folder := temporary(t, "memo")
	memo := must[*promptcache.Memo](t)(model.OpenMemo(folder, nil))
	calls := 0
	check(t, memo.Add(background, inputs, &promptcache.MemoWork{
		Progress: func(string, uint64, uint64) error { calls++; return nil }}))
	counters := must[promptcache.MemoStats](t)(memo.Stats())
	if counters.Live != 2 || calls == 0 {
		t.Errorf("%+v, %d calls", counters, calls)
	}
	if _, err := model.OpenMemo(folder, nil); !errors.Is(err, promptcache.Again) {
		t.Errorf("opened twice: %v", err)
	}
	buckets := must[[]promptcache.MemoBucket](t)(memo.Buckets())
	if len(buckets) == 0 || buckets[0].Records != 2 || buckets[0].Open {
		t.Errorf("%+v", buckets[0])
	}
	again := must[*promptcache.Prefilled](t)(model.Prefill(background, inputs[:1],
		promptcache.WantEmbeddings, &promptcache.PrefillOptions{Memo: memo}))
	if again.Results[0].Reuse != promptcache.ReuseOutput {
		t.Errorf("%+v", again.Results[0])
	}
	threshold := math.Inf(-1)
	answered := must[*promptcache.Answer](t)(prompts[0].Generate(background, nil,
		&promptcache.GenerateOptions{MaxTokens: 1, Memo: memo, MemoThreshold: &threshold}))
	if answered.Stats.MemoReason == promptcache.ReasonNone && answered.Stats.TokensMemo == 0 {
		t.Errorf("%+v", answered.Stats)
	}
	if err := memo.Train(background, nil); !errors.Is(err, promptcache.ErrState) {
		t.Errorf("trained with two records: %v", err)
	}
	check(t, memo.Tidy())
	check(t, memo.Close())
	if _, err := model.Prefill(background, inputs, promptcache.WantEmbeddings,
		&promptcache.PrefillOptions{Memo: memo}); err == nil {
		t.Error("a closed memo")
	}
}
