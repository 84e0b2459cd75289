package promptcache_test

// Would catch: errors without place or cause, those of another goroutine's call, a closed object
// that crashes, arguments that C would read past their end, names of constants that are not right.

import (
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"
	"sync"
	"testing"

	"promptcache"
)

func TestErrors(t *testing.T) {
	_, err := promptcache.LoadModel(background, "no/such.gguf", nil)
	if !errors.Is(err, promptcache.ErrNotFound) || errors.Is(err, promptcache.ErrIO) ||
		!strings.Contains(err.Error(), "no/such.gguf") {
		t.Errorf("%v", err)
	}
	_, err = model.ParseSchema("<schema name=\"a\">\n  <module name=\"b\">x</modul>\n</schema>", nil)
	var fault *promptcache.Error
	if !errors.As(err, &fault) || fault.Status != promptcache.ErrPML || fault.Line != 2 ||
		fault.Column == 0 {
		t.Errorf("%#v", err)
	}
	_, err = model.FormatMessages([]promptcache.Message{
		{Role: "assistant", Content: "x", ToolCalls: "{\n[}"}}, nil)
	if !errors.Is(err, promptcache.ErrFormat) {
		t.Errorf("%v", err)
	}
	_, err = employees.ParsePrompt(`<prompt schema="employees"><nobody/></prompt>`, nil)
	if !errors.Is(err, promptcache.ErrPML) || !strings.Contains(err.Error(), "nobody") {
		t.Errorf("%v", err)
	}
	_, err = promptcache.LoadPrompt(nil, pmlFolder+"employees-prompt.pml", nil)
	if !errors.Is(err, promptcache.ErrInvalid) {
		t.Errorf("%v", err)
	}
	_, err = deskPrompt(t).Generate(background, nil, &promptcache.GenerateOptions{Encoding: 77})
	if !errors.Is(err, promptcache.ErrInvalid) {
		t.Errorf("%v", err)
	}
}

// The library keeps the text of an error for the thread; goroutines change theirs at any time.
func TestErrorsOfManyGoroutines(t *testing.T) {
	var group sync.WaitGroup
	for i := 0; i < 16; i++ {
		name := fmt.Sprintf("module-%d", i)
		group.Add(1)
		go func() {
			defer group.Done()
			for turn := 0; turn < 50; turn++ {
				_, err := employees.ParsePrompt(
					`<prompt schema="employees"><`+name+`/></prompt>`, nil)
				if err == nil || !regexp.MustCompile(name+`\b`).MatchString(err.Error()) {
					t.Errorf("%s: %v", name, err)
				}
			}
		}()
	}
	group.Wait()
}

func TestClosed(t *testing.T) {
	schema := must[*promptcache.Schema](t)(model.LoadSchema(pmlFolder+"employees.pml", nil))
	prompt := must[*promptcache.Prompt](t)(schema.LoadPrompt(pmlFolder+"employees-prompt.pml", nil))
	cache, batch := newCache(t, nil), newBatch(t)
	sequence := newSequence(t, background, prompt, cache, nil)
	check(t, schema.Close())
	check(t, schema.Close())
	if _, err := schema.Items(); !errors.Is(err, os.ErrClosed) || !errors.Is(err, promptcache.ErrState) {
		t.Errorf("%v", err)
	}
	if schema.Name() != "" || schema.Length() != 0 {
		t.Error("a closed schema has a name")
	}
	if got := must[*promptcache.Answer](t)(prompt.Generate(background, cache, nil)); got.Text() != answer {
		t.Errorf("%q, without the schema", got.Text())
	}
	stream := must[*promptcache.Stream](t)(prompt.Stream(background, cache, nil))
	check(t, prompt.Close())
	check(t, cache.Close())
	if _, err := prompt.Generate(background, nil, nil); !errors.Is(err, os.ErrClosed) {
		t.Errorf("%v", err)
	}
	if _, err := prompt.Stream(background, nil, nil); !errors.Is(err, os.ErrClosed) {
		t.Errorf("%v", err)
	}
	for stream.Next() {
	}
	check(t, stream.Err()) // it holds what it needs
	check(t, batch.Add(sequence))
	check(t, batch.Run(background))
	if sequence.Text() != answer {
		t.Errorf("%q", sequence.Text())
	}
	check(t, sequence.Close())
	check(t, sequence.Close())
	sequence.Cancel()
	if err := sequence.Err(); !errors.Is(err, os.ErrClosed) {
		t.Errorf("%v", err)
	}
	if sequence.Text() != "" || sequence.Tokens() != nil || sequence.Logits() != nil ||
		sequence.Finish() != promptcache.FinishNone {
		t.Error("a closed sequence has something")
	}
	if err := sequence.Push(nil); !errors.Is(err, os.ErrClosed) {
		t.Errorf("%v", err)
	}
	check(t, batch.Close())
	check(t, batch.Close())
	if _, err := batch.Step(background); !errors.Is(err, os.ErrClosed) {
		t.Errorf("%v", err)
	}
	if batch.Changed() != nil {
		t.Error("a closed batch has sequences")
	}
}

func TestArguments(t *testing.T) {
	if _, err := promptcache.LoadModel(background, "demo\x00.gguf", nil); !errors.Is(err,
		promptcache.ErrInvalid) {
		t.Errorf("a NUL in a path: %v", err)
	}
	if text := must[string](t)(model.Detokenize(must[[]int32](t)(model.Tokenize("a\x00b é", 0)),
		0)); text != "a\x00b é" {
		t.Errorf("%q", text)
	}
	if tokens := must[[]int32](t)(model.Tokenize("", 0)); len(tokens) != 0 {
		t.Errorf("%v", tokens)
	}
	_, ofTokens := model.PromptFromTokens(nil, nil)
	if _, ofText := model.PromptFromText("", nil); fmt.Sprint(ofTokens) != fmt.Sprint(ofText) ||
		!errors.Is(ofTokens, promptcache.ErrInvalid) || !errors.Is(ofText, promptcache.ErrInvalid) {
		t.Errorf("an empty prompt: %v, %v", ofTokens, ofText)
	}
	sequence := newSequence(t, background, deskPrompt(t), nil, nil)
	if err := sequence.Truncate(-1); !errors.Is(err, promptcache.ErrInvalid) {
		t.Errorf("%v", err)
	}
	prompt := must[*promptcache.Prompt](t)(model.PromptFromTokens([]int32{100, 101, 102}, nil))
	_, _, err := promptcache.Embed(background, []*promptcache.Prompt{prompt}, nil,
		&promptcache.EmbedOptions{Types: [][]int32{{0}}})
	if !errors.Is(err, promptcache.ErrInvalid) || !strings.Contains(err.Error(), "3") {
		t.Errorf("one type for three tokens: %v", err)
	}
}

func TestNames(t *testing.T) {
	for want, value := range map[string]fmt.Stringer{
		"first use": promptcache.ReasonFirstUse, "f32": promptcache.DTypeF32,
		"Reason(99)": promptcache.Reason(99), "ErrNotFound": promptcache.ErrNotFound,
		"keep|ignore end": promptcache.GenerateKeep | promptcache.GenerateIgnoreEnd,
		"0":               promptcache.GenerateFlags(0), "approximate": promptcache.Approximate,
		"keep|GenerateFlags(0x100)": promptcache.GenerateKeep | 256,
	} {
		if value.String() != want {
			t.Errorf("%q, want %q", value.String(), want)
		}
	}
	if promptcache.ErrIO.Error() != "input or output failed" {
		t.Error(promptcache.ErrIO.Error())
	}
	if promptcache.LibraryABI() != promptcache.ABIVersion ||
		!strings.HasPrefix(promptcache.LibraryVersion(), "0.") {
		t.Errorf("%v, %v", promptcache.LibraryVersion(), promptcache.LibraryABI())
	}
}
