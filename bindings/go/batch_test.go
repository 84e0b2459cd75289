package promptcache_test

// Would catch: sequences that lose tokens, options or callbacks when they join, leave, fork, are
// saved or pushed to; a batch whose Go side knows other sequences than its C side; goroutines that
// use a batch at once and get in each other's way, or wait for themselves in a callback.

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"promptcache"
)

func newBatch(t testing.TB) *promptcache.Batch {
	t.Helper()
	batch := must[*promptcache.Batch](t)(model.NewBatch(nil))
	t.Cleanup(func() { batch.Close() })
	return batch
}

func newSequence(t testing.TB, ctx context.Context, prompt *promptcache.Prompt,
	cache *promptcache.Cache, options *promptcache.GenerateOptions) *promptcache.Sequence {
	t.Helper()
	sequence := must[*promptcache.Sequence](t)(prompt.NewSequence(ctx, cache, options))
	t.Cleanup(func() { sequence.Close() })
	return sequence
}

// newChat is a conversation that has not begun.
func newChat(t testing.TB, cache *promptcache.Cache, question string,
	options promptcache.GenerateOptions) *promptcache.Sequence {
	t.Helper()
	schema := must[*promptcache.Schema](t)(model.SchemaFromFormat(&promptcache.SystemFormat{
		Format: chatFormat, System: "Use the notes to answer." + notes}))
	defer schema.Close()
	prompt := must[*promptcache.Prompt](t)(schema.Fill(question, nil))
	defer prompt.Close()
	options.Flags |= promptcache.GenerateKeep
	return newSequence(t, background, prompt, cache, &options)
}

func TestBatchTogether(t *testing.T) {
	cache, batch := newCache(t, nil), newBatch(t)
	var sequences []*promptcache.Sequence
	var texts [2]strings.Builder
	for i, name := range []string{"employees-prompt.pml", "employees-job-prompt.pml"} {
		text := &texts[i]
		sequence := newSequence(t, background, loadPrompt(t, name), cache,
			&promptcache.GenerateOptions{OnText: func(_ int, piece string) error {
				text.WriteString(piece)
				return nil
			}})
		check(t, batch.Add(sequence))
		sequences = append(sequences, sequence)
	}
	more, err := batch.Step(background)
	if check(t, err); !more || len(batch.Changed()) != 2 || batch.Changed()[1] != sequences[1] {
		t.Errorf("more: %v, changed: %v", more, batch.Changed())
	}
	stats := must[promptcache.BatchStats](t)(batch.Stats())
	if stats.Sequences != 2 || stats.Running != 2 || stats.TokensStored >= stats.TokensSeen {
		t.Errorf("%+v", stats)
	}
	check(t, batch.Run(background))
	for i, want := range []string{answer, otherAnswer} {
		check(t, sequences[i].Err())
		s := must[promptcache.Stats](t)(sequences[i].Stats())
		if sequences[i].Text() != want || texts[i].String() != want ||
			s.TokensGenerated != uint64(len(sequences[i].Tokens())) ||
			sequences[i].Finish() != promptcache.FinishStopToken {
			t.Errorf("%q, %q, %+v", sequences[i].Text(), texts[i].String(), s)
		}
	}
}

func TestConversation(t *testing.T) {
	cache, batch := newCache(t, nil), newBatch(t)
	chat := newChat(t, cache, "What is the desk of Oscar Baker?", promptcache.GenerateOptions{})
	check(t, batch.Add(chat))
	check(t, batch.Run(background))
	if chat.Text() != "The desk of Oscar Baker is 192." {
		t.Fatalf("%q", chat.Text())
	}
	asked := len(chat.Tokens())
	check(t, chat.PushMessages([]promptcache.Message{
		{Role: "user", Content: "What is the job of Oscar Baker?"}}, nil))
	check(t, batch.Run(background))
	if chat.Text() != "The job of Oscar Baker is lawyer." {
		t.Errorf("%q", chat.Text())
	}
	check(t, chat.Truncate(asked))
	if len(chat.Tokens()) != asked {
		t.Errorf("%d tokens, want %d", len(chat.Tokens()), asked)
	}
}

func TestForkAndLogits(t *testing.T) {
	cache, batch := newCache(t, nil), newBatch(t)
	chat := newChat(t, cache, "What is the desk of Oscar Baker?", promptcache.GenerateOptions{
		Flags: promptcache.GenerateLogits})
	if chat.Logits() != nil {
		t.Error("logits before the first step")
	}
	check(t, batch.Add(chat))
	_, err := batch.Step(background)
	check(t, err)
	view := chat.Logits()
	info := must[promptcache.ModelInfo](t)(model.Info())
	if len(view) != int(info.Vocab) {
		t.Fatalf("%d logits, %d tokens", len(view), info.Vocab)
	}
	if &view[0] != &chat.Logits()[0] {
		t.Error("the view is a copy")
	}
	best := 0
	for i := range view {
		if view[i] > view[best] {
			best = i
		}
	}
	if chat.Tokens()[0] != int32(best) {
		t.Errorf("token %d was drawn, %d is the likeliest", chat.Tokens()[0], best)
	}
	fork := must[*promptcache.Sequence](t)(chat.Fork(background, nil))
	defer fork.Close()
	check(t, batch.Add(fork))
	check(t, batch.Run(background))
	if fork.Text() != chat.Text() || len(fork.Tokens()) != len(chat.Tokens()) {
		t.Errorf("%q, %q", fork.Text(), chat.Text())
	}
	check(t, chat.Close())
	check(t, fork.Push(nil)) // it goes on without the original
	check(t, batch.Run(background))
}

func TestForkKeepsCallbacks(t *testing.T) {
	var mu sync.Mutex
	texts := map[int]string{}
	batch := newBatch(t)
	chat := newChat(t, nil, "What is the desk of Oscar Baker?", promptcache.GenerateOptions{
		OnText: func(sample int, text string) error {
			mu.Lock()
			defer mu.Unlock()
			texts[sample] += text
			return nil
		}})
	check(t, batch.Add(chat))
	_, err := batch.Step(background)
	check(t, err)
	fork := must[*promptcache.Sequence](t)(chat.Fork(background, nil))
	defer fork.Close()
	check(t, chat.Close())
	check(t, batch.Add(fork))
	check(t, batch.Run(background))
	if !strings.HasSuffix(texts[1], "192.") {
		t.Errorf("%q", texts)
	}
}

func TestSaveAndLoad(t *testing.T) {
	options := &promptcache.CacheOptions{DiskPath: temporary(t, "store")}
	key := promptcache.Key{1, 2, 3}
	cache, batch := newCache(t, options), newBatch(t)
	chat := newChat(t, cache, "What is the desk of Oscar Baker?", promptcache.GenerateOptions{})
	check(t, batch.Add(chat))
	check(t, batch.Run(background))
	if saved := must[bool](t)(chat.Save(cache, key, nil)); !saved {
		t.Error("it was not saved")
	}
	if all := must[bool](t)(cache.Flush()); !all {
		t.Error("something did not reach the disk")
	}
	check(t, chat.Close())
	check(t, cache.Close())

	cache = newCache(t, options)
	if lost, reason, err := model.LoadSequence(background, cache, promptcache.Key{9}, nil,
		nil); lost != nil || err != nil || reason != promptcache.ReasonFirstUse {
		t.Errorf("%v, %v, %v", lost, reason, err)
	}
	loaded, _, err := model.LoadSequence(background, cache, key, nil, nil)
	check(t, err)
	defer loaded.Close()
	check(t, batch.Add(loaded))
	check(t, loaded.PushMessages([]promptcache.Message{
		{Role: "user", Content: "What is the job of Oscar Baker?"}}, nil))
	check(t, batch.Run(background))
	if loaded.Text() != "The job of Oscar Baker is lawyer." {
		t.Errorf("%q", loaded.Text())
	}
	if found := must[bool](t)(model.ForgetSequence(cache, key, nil)); !found {
		t.Error("it was not there to be forgotten")
	}
	if found := must[bool](t)(model.ForgetSequence(cache, key, nil)); found {
		t.Error("it was forgotten twice")
	}
}

func TestJoinAndLeave(t *testing.T) {
	batch, other := newBatch(t), newBatch(t)
	one := newSequence(t, background, deskPrompt(t), nil, endless())
	check(t, batch.Add(one))
	if err := other.Add(one); !errors.Is(err, promptcache.ErrState) {
		t.Errorf("in two batches: %v", err)
	}
	if err := other.Remove(one); !errors.Is(err, promptcache.ErrNotFound) {
		t.Errorf("removed from another batch: %v", err)
	}
	_, err := batch.Step(background)
	check(t, err)
	check(t, batch.Remove(one))
	check(t, other.Add(one))
	_, err = other.Step(background)
	check(t, err)
	if len(one.Tokens()) != 2 {
		t.Errorf("%d tokens after two steps", len(one.Tokens()))
	}
	check(t, other.Close())
	check(t, batch.Add(one)) // a closed batch has let it go
	check(t, one.Close())
	if more, err := batch.Step(background); more || err != nil {
		t.Errorf("an empty batch: %v, %v", more, err)
	}
}

// The callback changes the batch that is being stepped, on the goroutine that steps it.
func TestBatchInCallback(t *testing.T) {
	batch := newBatch(t)
	second := newSequence(t, background, loadPrompt(t, "employees-job-prompt.pml"), nil, nil)
	third := newSequence(t, background, deskPrompt(t), nil, endless())
	var first *promptcache.Sequence
	calls := 0
	first = newSequence(t, background, deskPrompt(t), nil, &promptcache.GenerateOptions{
		OnText: func(int, string) error {
			if calls++; calls > 1 {
				return nil
			}
			if err := batch.Add(second); err != nil {
				return err
			}
			if err := first.Push(nil); !errors.Is(err, promptcache.ErrState) {
				t.Errorf("pushed to within its step: %v", err)
			}
			return third.Close()
		}})
	check(t, batch.Add(first))
	check(t, batch.Add(third))
	check(t, batch.Run(background))
	check(t, first.Err())
	if first.Text() != answer || second.Text() != otherAnswer || calls < 2 {
		t.Errorf("%q, %q, %d calls", first.Text(), second.Text(), calls)
	}
}

// A server: one goroutine steps, others make requests, read and leave.
func TestBatchOfManyGoroutines(t *testing.T) {
	cache, batch := newCache(t, nil), newBatch(t)
	prompt := deskPrompt(t)
	ctx, stop := context.WithCancel(background)
	stepped := make(chan error, 1)
	go func() {
		for ctx.Err() == nil {
			more, err := batch.Step(background)
			if err != nil {
				stepped <- err
				return
			}
			if !more {
				time.Sleep(time.Millisecond)
			}
		}
		stepped <- nil
	}()
	var group sync.WaitGroup
	for i := 0; i < 6; i++ {
		group.Add(1)
		go func() {
			defer group.Done()
			for turn := 0; turn < 2; turn++ {
				sequence, err := prompt.NewSequence(background, cache, nil)
				if err == nil {
					err = batch.Add(sequence)
				}
				for err == nil && sequence.Finish() == promptcache.FinishNone {
					time.Sleep(time.Millisecond)
				}
				if err == nil {
					err = sequence.Err()
				}
				if err != nil || sequence.Text() != answer {
					t.Errorf("%v, %q", err, sequence.Text())
				}
				sequence.Close()
			}
		}()
	}
	group.Wait()
	stop()
	check(t, <-stepped)
}
