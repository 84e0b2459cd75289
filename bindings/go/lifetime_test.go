package promptcache_test

// Would catch: an object that is finalised while C uses it, one that is never freed, one that is
// freed before the callbacks that others still make; a data race (go test -race).

import (
	"context"
	"runtime"
	"sync"
	"testing"
	"time"

	"promptcache"
	"promptcache/internal/numbers"
)

// collectAll runs finalisers, and what they start, until condition holds or time is up.
func collectAll(condition func() bool) bool {
	for i := 0; i < 200; i++ {
		runtime.GC()
		if condition() {
			return true
		}
		time.Sleep(5 * time.Millisecond)
	}
	return false
}

func TestFinalisersFree(t *testing.T) {
	before, goroutines := numbers.Count(), runtime.NumGoroutine()
	made := make(chan *promptcache.Sequence, 1)
	func() {
		cache := must[*promptcache.Cache](t)(promptcache.NewCache(&promptcache.CacheOptions{
			OnBytes: func(promptcache.Tier, uint64, uint64) {}}))
		prompt := must[*promptcache.Prompt](t)(employees.LoadPrompt(
			pmlFolder+"employees-prompt.pml", nil))
		batch := must[*promptcache.Batch](t)(model.NewBatch(nil))
		ctx, cancel := context.WithCancel(background)
		_ = cancel // nobody ends it
		sequence := must[*promptcache.Sequence](t)(prompt.NewSequence(ctx, cache,
			&promptcache.GenerateOptions{OnText: func(int, string) error { return nil }}))
		check(t, batch.Add(sequence))
		_, err := batch.Step(background)
		check(t, err)
		stream := must[*promptcache.Stream](t)(prompt.Stream(ctx, cache, endless()))
		if !stream.Next() {
			t.Error(stream.Err())
		}
		made <- must[*promptcache.Sequence](t)(sequence.Fork(background, nil))
	}()
	if numbers.Count() != before+3 {
		t.Errorf("%d callbacks, %d before", numbers.Count(), before)
	}
	fork := <-made // shares callbacks, and needs the cache
	runtime.GC()
	time.Sleep(20 * time.Millisecond)
	runtime.GC()
	if numbers.Count() < before+2 {
		t.Error("the fork has lost its callbacks, or the cache")
	}
	check(t, fork.Close())
	if !collectAll(func() bool {
		return numbers.Count() == before && runtime.NumGoroutine() <= goroutines
	}) {
		t.Errorf("%d callbacks are left, %d before; %d goroutines, %d before",
			numbers.Count(), before, runtime.NumGoroutine(), goroutines)
	}
}

// Nothing keeps the objects but the calls that use them.
func TestCollectedDuringCalls(t *testing.T) {
	over := make(chan struct{})
	var garbage sync.WaitGroup
	garbage.Add(1)
	go func() {
		defer garbage.Done()
		for {
			select {
			case <-over:
				return
			default:
				runtime.GC()
			}
		}
	}()
	for i := 0; i < 5; i++ {
		got := must[*promptcache.Answer](t)(forgottenPrompt(t).Generate(background,
			must[*promptcache.Cache](t)(promptcache.NewCache(nil)), nil))
		if got.Text() != answer {
			t.Errorf("%q", got.Text())
		}
		stream := must[*promptcache.Stream](t)(forgottenPrompt(t).Stream(background, nil, nil))
		text := ""
		for stream.Next() {
			text += stream.Text()
		}
		if text != answer || stream.Err() != nil {
			t.Errorf("%q, %v", text, stream.Err())
		}
	}
	close(over)
	garbage.Wait()
}

func forgottenPrompt(t *testing.T) *promptcache.Prompt {
	schema := must[*promptcache.Schema](t)(model.LoadSchema(pmlFolder+"employees.pml", nil))
	return must[*promptcache.Prompt](t)(schema.LoadPrompt(pmlFolder+"employees-prompt.pml", nil))
}

func TestCloseDuringCalls(t *testing.T) {
	for i := 0; i < 5; i++ {
		cache := must[*promptcache.Cache](t)(promptcache.NewCache(nil))
		prompt := forgottenPrompt(t)
		var group sync.WaitGroup
		for j := 0; j < 3; j++ {
			group.Add(1)
			go func() {
				defer group.Done()
				got, err := prompt.Generate(background, cache, nil)
				if err == nil && got.Text() != answer {
					t.Errorf("%q", got.Text())
				}
			}()
		}
		time.Sleep(time.Duration(i) * time.Millisecond)
		prompt.Close()
		cache.Close()
		group.Wait()
	}
}

func TestManyGoroutines(t *testing.T) {
	cache, prompt := newCache(t, &promptcache.CacheOptions{
		CompressedBytes: 64 << 20, DiskPath: temporary(t, "store"),
		OnEvent: func(event promptcache.Event) {
			if event.Tokens == 0 || event.Kind.String() == "" {
				t.Errorf("%+v", event)
			}
		}}), deskPrompt(t)
	var group sync.WaitGroup
	for i := 0; i < 8; i++ {
		group.Add(1)
		go func() {
			defer group.Done()
			for turn := 0; turn < 3; turn++ {
				got, err := prompt.Generate(background, cache, nil)
				if err != nil || got.Text() != answer {
					t.Errorf("%v, %q", err, got.Text())
				}
				if _, err := cache.Stats(); err != nil {
					t.Error(err)
				}
				if _, _, err := cache.Trim(0); err != nil {
					t.Error(err)
				}
			}
		}()
	}
	group.Wait()
}

// The log belongs to a context that is closed first and used last.
func TestLogOutlivesContext(t *testing.T) {
	var mu sync.Mutex
	lines := 0
	before := numbers.Count()
	own := must[*promptcache.Context](t)(promptcache.NewContext(&promptcache.ContextOptions{
		Threads: 1, Log: func(level promptcache.LogLevel, line string) {
			mu.Lock()
			defer mu.Unlock()
			lines++
		}}))
	loaded := must[*promptcache.Model](t)(own.LoadModel(background, demoModel,
		&promptcache.ModelOptions{PackedWeights: "/dev/null/none"})) // which is logged
	check(t, own.Close())
	schema := must[*promptcache.Schema](t)(loaded.LoadSchema(pmlFolder+"employees.pml", nil))
	check(t, loaded.Close())
	mu.Lock()
	if lines == 0 {
		t.Error("nothing was logged")
	}
	mu.Unlock()
	if numbers.Count() != before+1 {
		t.Error("the log is gone before the last object")
	}
	check(t, schema.Close())
	if numbers.Count() != before {
		t.Error("the log is left")
	}
}
