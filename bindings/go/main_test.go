package promptcache_test

// What all tests share: the demo model, which answers from the modules of a schema. Each test opens
// a cache of its own.

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"promptcache"
)

const (
	root        = "../.."
	demoModel   = root + "/models/demo/demo.gguf"
	pmlFolder   = root + "/examples/pml/"
	answer      = "The desk of Peter Novak is 368."
	otherAnswer = "The job of Alice Chen is librarian."
	chatFormat  = "<s><|system|>{__SYS_PROMPT}<|end|><|user|>{__USR_PROMPT}<|end|><|assistant|>"
	notes       = " Employee: Oscar Baker. The desk of Oscar Baker is 192. The job of Oscar Baker is lawyer."
)

var (
	background = context.Background()
	model      *promptcache.Model
	employees  *promptcache.Schema
)

func TestMain(m *testing.M) {
	var err error
	if model, err = promptcache.LoadModel(background, demoModel, nil); err == nil {
		employees, err = model.LoadSchema(pmlFolder+"employees.pml", nil)
	}
	if err != nil {
		os.Stderr.WriteString(err.Error() + "\n")
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// must fails the test on an error; use it as must[T](t)(call()).
func must[T any](t testing.TB) func(value T, err error) T {
	t.Helper()
	return func(value T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return value
	}
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func newCache(t testing.TB, options *promptcache.CacheOptions) *promptcache.Cache {
	t.Helper()
	cache := must[*promptcache.Cache](t)(promptcache.NewCache(options))
	t.Cleanup(func() { cache.Close() })
	return cache
}

func loadPrompt(t testing.TB, name string) *promptcache.Prompt {
	t.Helper()
	prompt := must[*promptcache.Prompt](t)(employees.LoadPrompt(pmlFolder+name, nil))
	t.Cleanup(func() { prompt.Close() })
	return prompt
}

func deskPrompt(t testing.TB) *promptcache.Prompt { return loadPrompt(t, "employees-prompt.pml") }

// endless goes on until the model's context ends.
func endless() *promptcache.GenerateOptions {
	return &promptcache.GenerateOptions{MaxTokens: 1300, Flags: promptcache.GenerateIgnoreEnd}
}

// longPrompt has so many tokens that its prefill takes far longer than a context needs to end it.
func longPrompt(t testing.TB) *promptcache.Prompt {
	t.Helper()
	tokens := make([]int32, 2000)
	for i := range tokens {
		tokens[i] = int32(100 + i%1000)
	}
	prompt := must[*promptcache.Prompt](t)(model.PromptFromTokens(tokens, nil))
	t.Cleanup(func() { prompt.Close() })
	return prompt
}

func temporary(t testing.TB, name string) string { return filepath.Join(t.TempDir(), name) }
