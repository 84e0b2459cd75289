package promptcache_test

// Would catch: a context that does not end a call, or only after it; errors that do not wrap what
// ended the call, or wrap what ended another one; a panic that gets lost, crosses C, or leaves a
// batch or the callbacks unusable.

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"promptcache"
)

// ended checks the error of a call that a context has cancelled.
func ended(t *testing.T, err, cause error) {
	t.Helper()
	if !errors.Is(err, promptcache.ErrCancelled) || !errors.Is(err, cause) {
		t.Errorf("%v does not wrap ErrCancelled and %v", err, cause)
	}
}

func TestDeadlineWithinPrefill(t *testing.T) {
	ctx, cancel := context.WithTimeout(background, 5*time.Millisecond)
	defer cancel()
	got, err := longPrompt(t).Generate(ctx, nil, nil)
	ended(t, err, context.DeadlineExceeded)
	if got.Stats.TokensGenerated != 0 || got.Stats.Finish != promptcache.FinishCancelled {
		t.Errorf("%+v", got.Stats)
	}
}

func TestCancelFromAnotherGoroutine(t *testing.T) {
	ctx, cancel := context.WithCancel(background)
	options := endless()
	texts := 0
	options.OnText = func(int, string) error {
		if texts++; texts == 3 {
			go cancel()
		}
		return nil
	}
	got, err := deskPrompt(t).Generate(ctx, nil, options)
	ended(t, err, context.Canceled)
	if !strings.HasPrefix(got.Text(), "The desk") || got.Stats.TokensGenerated > 1200 {
		t.Errorf("%q, %+v", got.Text(), got.Stats)
	}
}

func TestCancelledBefore(t *testing.T) {
	ctx, cancel := context.WithCancel(background)
	cancel()
	prompt := deskPrompt(t)
	_, err := prompt.Generate(ctx, nil, nil)
	ended(t, err, context.Canceled)
	_, err = promptcache.LoadModel(ctx, demoModel, nil)
	ended(t, err, context.Canceled)
	_, err = prompt.NewSequence(ctx, nil, nil)
	ended(t, err, context.Canceled)
	_, err = employees.Encode(ctx, newCache(t, nil), nil)
	ended(t, err, context.Canceled)
	_, err = prompt.Stream(ctx, nil, nil)
	ended(t, err, context.Canceled)
}

func TestCancelEncodeByProgress(t *testing.T) {
	ctx, cancel := context.WithCancel(background)
	calls := 0
	_, err := employees.Encode(ctx, newCache(t, nil), &promptcache.EncodeOptions{
		Progress: func(what string, done, total uint64) error {
			calls++
			cancel()
			return nil
		}})
	ended(t, err, context.Canceled)
	if calls == 0 || calls > 3 {
		t.Errorf("%d calls", calls)
	}
	own := errors.New("enough is encoded")
	_, err = employees.Encode(background, newCache(t, nil), &promptcache.EncodeOptions{
		Progress: func(string, uint64, uint64) error { return own }})
	ended(t, err, own)
	if !strings.Contains(err.Error(), own.Error()) {
		t.Errorf("%v", err)
	}
}

func TestContextOfStream(t *testing.T) {
	ctx, cancel := context.WithCancel(background)
	stream := must[*promptcache.Stream](t)(deskPrompt(t).Stream(ctx, nil, endless()))
	defer stream.Close()
	if !stream.Next() {
		t.Fatal(stream.Err())
	}
	cancel()
	for stream.Next() {
	}
	ended(t, stream.Err(), context.Canceled)
}

// The context of one sequence ends that one; that of a step ends all.
func TestContextsOfBatch(t *testing.T) {
	batch := newBatch(t)
	ctx, cancel := context.WithCancel(background)
	mine := newSequence(t, ctx, deskPrompt(t), nil, endless())
	options := endless()
	options.Flags |= promptcache.GenerateKeep
	other := newSequence(t, background, deskPrompt(t), nil, options)
	check(t, batch.Add(mine))
	check(t, batch.Add(other))
	_, err := batch.Step(background)
	check(t, err)
	cancel()
	for i := 0; mine.Finish() == promptcache.FinishNone && i < 1000; i++ {
		_, err := batch.Step(background)
		check(t, err)
	}
	ended(t, mine.Err(), context.Canceled)
	if other.Finish() != promptcache.FinishNone {
		t.Errorf("the other has ended, too: %v", other.Err())
	}

	short, cancel := context.WithTimeout(background, 20*time.Millisecond)
	defer cancel()
	err = batch.Run(short)
	ended(t, err, context.DeadlineExceeded)
	if _, err := batch.Step(background); err != nil || other.Finish() != promptcache.FinishCancelled {
		t.Errorf("%v, %v", err, other.Finish())
	}
	ended(t, other.Err(), context.DeadlineExceeded)
	check(t, other.Push(nil)) // takes the cancellation back
	if more, err := batch.Step(background); !more || err != nil {
		t.Errorf("%v, %v", more, err)
	}
	if err := mine.Push(nil); err == nil {
		t.Error("a sequence goes on whose context is done")
	}
}

func TestCancelSequence(t *testing.T) {
	batch := newBatch(t)
	sequence := newSequence(t, background, longPrompt(t), nil, endless())
	check(t, batch.Add(sequence))
	time.AfterFunc(5*time.Millisecond, sequence.Cancel)
	for more := true; more; {
		var err error
		more, err = batch.Step(background)
		check(t, err)
	}
	ended(t, sequence.Err(), context.Canceled)
	if len(sequence.Tokens()) > 40 {
		t.Errorf("%d tokens", len(sequence.Tokens()))
	}
}

func TestDeadlineOfOptions(t *testing.T) {
	options := endless()
	options.Deadline = 5 * time.Millisecond
	_, err := longPrompt(t).Generate(background, nil, options)
	ended(t, err, context.DeadlineExceeded)
	batch := newBatch(t)
	sequence := newSequence(t, background, longPrompt(t), nil, options)
	check(t, batch.Add(sequence))
	check(t, batch.Run(background))
	ended(t, sequence.Err(), context.DeadlineExceeded)
}

func TestErrorOfCallback(t *testing.T) {
	own := errors.New("the client is gone")
	fail := &promptcache.GenerateOptions{OnText: func(int, string) error { return own }}
	_, err := deskPrompt(t).Generate(background, nil, fail)
	ended(t, err, own)
	batch := newBatch(t)
	sequence := newSequence(t, background, deskPrompt(t), nil, fail)
	check(t, batch.Add(sequence))
	check(t, batch.Run(background))
	if err := sequence.Err(); !errors.Is(err, own) || !strings.Contains(err.Error(), own.Error()) {
		t.Errorf("%v", err)
	}
	_, err = deskPrompt(t).Generate(background, nil, &promptcache.GenerateOptions{
		OnToken: func(promptcache.Token) error { return promptcache.ErrIO }})
	if !errors.Is(err, promptcache.ErrIO) {
		t.Errorf("%v", err)
	}
}

// The library makes a text fit to be shown, and cuts it: the cause is found all the same.
func TestErrorOfCallbackOddText(t *testing.T) {
	prompt, batch := deskPrompt(t), newBatch(t)
	for _, own := range []error{errors.New("two\nlines"), errors.New(strings.Repeat("long ", 200)),
		errors.New("a\x00b"), errors.New("\xff\u202e"), errors.New("")} {
		own := own
		sequence := newSequence(t, background, prompt, nil, &promptcache.GenerateOptions{
			OnToken: func(promptcache.Token) error { return own }})
		check(t, batch.Add(sequence))
		check(t, batch.Run(background))
		ended(t, sequence.Err(), own)
		if errors.Is(sequence.Err(), context.DeadlineExceeded) {
			t.Errorf("%q is a deadline", own)
		}
	}
}

// Forks share callbacks, but each has the error of its own sample.
func TestErrorsOfForks(t *testing.T) {
	batch := newBatch(t)
	var wanted [4]error
	for i := range wanted {
		wanted[i] = fmt.Errorf("client %d is gone", i)
	}
	fail := false
	first := newSequence(t, background, deskPrompt(t), nil, &promptcache.GenerateOptions{
		Flags: promptcache.GenerateKeep, OnText: func(sample int, _ string) error {
			if fail {
				return wanted[sample]
			}
			return nil
		}})
	check(t, batch.Add(first))
	_, err := batch.Step(background)
	check(t, err)
	family := []*promptcache.Sequence{first}
	for len(family) < len(wanted) {
		fork := must[*promptcache.Sequence](t)(first.Fork(background, nil))
		defer fork.Close()
		check(t, batch.Add(fork))
		family = append(family, fork)
	}
	fail = true
	check(t, batch.Run(background))
	for i, member := range family {
		ended(t, member.Err(), wanted[i])
	}
}

// What ended an earlier turn is not the cause of the end of a later one.
func TestErrorOfEarlierTurn(t *testing.T) {
	batch, own, fail := newBatch(t), errors.New("cancelled"), true
	chat := newSequence(t, background, deskPrompt(t), nil, &promptcache.GenerateOptions{
		Flags: promptcache.GenerateKeep, OnText: func(int, string) error {
			if fail {
				return own
			}
			return nil
		}})
	check(t, batch.Add(chat))
	check(t, batch.Run(background))
	ended(t, chat.Err(), own)
	fail = false
	check(t, chat.Push(nil))
	chat.Cancel()
	check(t, batch.Run(background))
	if ended(t, chat.Err(), context.Canceled); errors.Is(chat.Err(), own) {
		t.Error("the earlier error is the cause")
	}
}

// caught is what a function panics with.
func caught(function func()) (value any) {
	defer func() { value = recover() }()
	function()
	return nil
}

func TestPanicInCallback(t *testing.T) {
	cache, prompt, batch := newCache(t, nil), deskPrompt(t), newBatch(t)
	boom := &promptcache.GenerateOptions{OnText: func(int, string) error { panic("boom") }}
	if value := caught(func() { prompt.Generate(background, cache, boom) }); value != "boom" {
		t.Errorf("Generate panics with %v", value)
	}
	bad := newSequence(t, background, prompt, cache, boom)
	good := newSequence(t, background, loadPrompt(t, "employees-job-prompt.pml"), cache, nil)
	check(t, batch.Add(bad))
	check(t, batch.Add(good))
	value := caught(func() {
		for more := true; more; {
			more, _ = batch.Step(background)
		}
	})
	if value != "boom" {
		t.Errorf("Step panics with %v", value)
	}
	check(t, batch.Run(background)) // the batch goes on
	if good.Text() != otherAnswer || !errors.Is(bad.Err(), promptcache.ErrCancelled) ||
		errors.Is(bad.Err(), context.DeadlineExceeded) ||
		!strings.Contains(bad.Err().Error(), "panicked: boom") {
		t.Errorf("%q, %v", good.Text(), bad.Err())
	}
	value = caught(func() {
		promptcache.LoadModel(background, demoModel, &promptcache.ModelOptions{
			Progress: func(string, uint64, uint64) error { panic(promptcache.Stop) }})
	})
	if value != promptcache.Stop {
		t.Errorf("LoadModel panics with %v", value)
	}
}

// A call in a callback of another call: each has its own end.
func TestCallInCallback(t *testing.T) {
	prompt := deskPrompt(t)
	var inside any
	got := must[*promptcache.Answer](t)(prompt.Generate(background, nil,
		&promptcache.GenerateOptions{OnText: func(int, string) error {
			inside = caught(func() {
				prompt.Generate(background, nil, &promptcache.GenerateOptions{
					OnText: func(int, string) error { panic("inner") }})
			})
			return promptcache.Stop
		}}))
	if inside != "inner" || got.Stats.Finish != promptcache.FinishCallback {
		t.Errorf("%v, %v", inside, got.Stats.Finish)
	}
}
