package promptcache_test

// Would catch: answers or counts other than those of the C library; text that a callback, a stream
// or a writer loses; options that do not arrive in C.

import (
	"bytes"
	"errors"
	"io"
	"math"
	"strings"
	"testing"
	"time"

	"promptcache"
)

func TestAnswerTwice(t *testing.T) {
	cache, prompt := newCache(t, nil), deskPrompt(t)
	for turn, cached := range []uint64{0, 590} {
		got := must[*promptcache.Answer](t)(prompt.Generate(background, cache, nil))
		if got.Text() != answer {
			t.Errorf("turn %d: %q", turn, got.Text())
		}
		s := got.Stats
		if s.TokensPrompt != 601 || s.TokensCached != cached || s.TokensNew != 11 ||
			s.TokensEncoded != 590-cached || s.TokensTier[promptcache.TierRAM] != cached {
			t.Errorf("turn %d: %+v", turn, s)
		}
		if s.Finish != promptcache.FinishStopToken || s.Exactness != promptcache.Approximate ||
			s.TimeTTFT <= 0 || s.TimeTTFT > time.Minute {
			t.Errorf("turn %d: %+v", turn, s)
		}
	}
}

func TestWithoutCache(t *testing.T) {
	got := must[*promptcache.Answer](t)(deskPrompt(t).Generate(background, nil, nil))
	if got.Text() != answer || got.Stats.TokensCached != 0 {
		t.Errorf("%q, %+v", got.Text(), got.Stats)
	}
}

func TestCallbacks(t *testing.T) {
	var text string
	var tokens []promptcache.Token
	logits := 0
	options := &promptcache.GenerateOptions{
		TopLogprobs: 3,
		OnText: func(sample int, piece string) error {
			text += piece
			return nil
		},
		OnToken: func(token promptcache.Token) error {
			tokens = append(tokens, token)
			return nil
		},
		OnLogits: func(sample int, row []float32) error {
			logits = len(row)
			return nil
		},
	}
	got := must[*promptcache.Answer](t)(deskPrompt(t).Generate(background, nil, options))
	if text != answer || got.Text() != answer {
		t.Errorf("%q, %q", text, got.Text())
	}
	if uint64(len(tokens)) != got.Stats.TokensGenerated {
		t.Errorf("%d tokens, %d generated", len(tokens), got.Stats.TokensGenerated)
	}
	for i, token := range tokens {
		if len(token.TopTokens) != 3 || len(token.TopLogprobs) != 3 ||
			token.TopTokens[0] != token.Token || token.TopLogprobs[0] != token.Logprob ||
			token.Position != tokens[0].Position+int64(i) {
			t.Errorf("token %d: %+v", i, token)
		}
	}
	if info := must[promptcache.ModelInfo](t)(model.Info()); logits > int(info.Vocab) || logits < 3000 {
		t.Errorf("%d logits", logits)
	}
}

func TestOnLogitsForbids(t *testing.T) {
	plain := must[*promptcache.Answer](t)(deskPrompt(t).Generate(background, nil, nil))
	var drawn int32
	first := true
	options := &promptcache.GenerateOptions{
		MaxTokens: 1,
		OnLogits: func(_ int, row []float32) error {
			best := 0
			for i := range row {
				if row[i] > row[best] {
					best = i
				}
			}
			if first {
				row[best] = float32(math.Inf(-1)) // the library's memory, not a copy
				first = false
			}
			return nil
		},
		OnToken: func(token promptcache.Token) error {
			drawn = token.Token
			return nil
		},
	}
	must[*promptcache.Answer](t)(deskPrompt(t).Generate(background, nil, options))
	tokens := must[[]int32](t)(model.Tokenize(plain.Text(), 0))
	if drawn == tokens[0] {
		t.Errorf("token %d was drawn, which OnLogits had forbidden", drawn)
	}
}

func TestStopEndsSample(t *testing.T) {
	options := endless()
	options.OnText = func(_ int, text string) error {
		if strings.Contains(text, "Novak") {
			return promptcache.Stop
		}
		return nil
	}
	got := must[*promptcache.Answer](t)(deskPrompt(t).Generate(background, nil, options))
	if got.Stats.Finish != promptcache.FinishCallback || !strings.HasSuffix(got.Text(), "Novak") {
		t.Errorf("%q, %v", got.Text(), got.Stats.Finish)
	}
}

func TestOptionsArrive(t *testing.T) {
	prompt := deskPrompt(t)
	got := must[*promptcache.Answer](t)(prompt.Generate(background, nil,
		&promptcache.GenerateOptions{StopStrings: []string{"never", " is"}}))
	if got.Text() != "The desk of Peter Novak" ||
		got.Stats.Finish != promptcache.FinishStopString {
		t.Errorf("%q, %v", got.Text(), got.Stats.Finish)
	}
	is := must[[]int32](t)(model.Tokenize(" is", 0))
	got = must[*promptcache.Answer](t)(prompt.Generate(background, nil,
		&promptcache.GenerateOptions{StopTokens: is}))
	if got.Text() != "The desk of Peter Novak" || got.Stats.Finish != promptcache.FinishStopToken {
		t.Errorf("%q, %v", got.Text(), got.Stats.Finish)
	}
	desk := must[[]int32](t)(model.Tokenize(" desk", 0))
	got = must[*promptcache.Answer](t)(prompt.Generate(background, nil,
		&promptcache.GenerateOptions{MaxTokens: 8, Sampling: &promptcache.Sampling{
			BiasTokens: desk, BiasValues: []float32{float32(math.Inf(-1))}}}))
	if strings.Contains(got.Text(), "desk") {
		t.Errorf("%q, in spite of the bias", got.Text())
	}
	_, err := prompt.Generate(background, nil, &promptcache.GenerateOptions{
		Sampling: &promptcache.Sampling{BiasTokens: desk, BiasValues: []float32{1, 2}}})
	if !errors.Is(err, promptcache.ErrInvalid) {
		t.Errorf("two values for one token: %v", err)
	}
}

func TestSamples(t *testing.T) {
	got := must[*promptcache.Answer](t)(deskPrompt(t).Generate(background, nil,
		&promptcache.GenerateOptions{Samples: 3, MaxTokens: 12,
			Sampling: &promptcache.Sampling{Temperature: 20, Seed: 7}}))
	if len(got.Texts) != 3 || got.Texts[0] == got.Texts[1] && got.Texts[1] == got.Texts[2] {
		t.Errorf("%q", got.Texts)
	}
}

func TestStream(t *testing.T) {
	cache, prompt := newCache(t, nil), deskPrompt(t)
	stream := must[*promptcache.Stream](t)(prompt.Stream(background, cache, nil))
	defer stream.Close()
	var text string
	pieces := 0
	for stream.Next() {
		if stream.Text() == "" {
			t.Error("an empty piece")
		}
		text += stream.Text()
		pieces++
	}
	check(t, stream.Err())
	if text != answer || pieces < 4 {
		t.Errorf("%q in %d pieces", text, pieces)
	}
	if stream.Next() || stream.Finish() != promptcache.FinishStopToken ||
		stream.Stats().TokensPrompt != 601 {
		t.Errorf("%v, %+v", stream.Finish(), stream.Stats())
	}
}

func TestStreamWriteTo(t *testing.T) {
	stream := must[*promptcache.Stream](t)(deskPrompt(t).Stream(background, nil, nil))
	var out bytes.Buffer
	var writer io.WriterTo = stream
	size, err := writer.WriteTo(&out)
	check(t, err)
	if out.String() != answer || size != int64(len(answer)) {
		t.Errorf("%q, %d bytes", out.String(), size)
	}
}

func TestStreamGivenUp(t *testing.T) {
	stream := must[*promptcache.Stream](t)(deskPrompt(t).Stream(background, nil, endless()))
	if !stream.Next() {
		t.Fatal(stream.Err())
	}
	check(t, stream.Close())
	check(t, stream.Close())
	if stream.Next() {
		t.Error("a closed stream goes on")
	}
	if _, err := deskPrompt(t).Stream(background, nil,
		&promptcache.GenerateOptions{Samples: 2}); err == nil {
		t.Error("a stream of two samples")
	}
}

func TestSeveralSchemas(t *testing.T) {
	guide := must[*promptcache.Schema](t)(model.LoadSchema(pmlFolder+"city-guide.pml", nil))
	prompt := must[*promptcache.Prompt](t)(promptcache.LoadPrompt(
		[]*promptcache.Schema{guide, employees}, pmlFolder+"employees-job-prompt.pml", nil))
	got := must[*promptcache.Answer](t)(prompt.Generate(background, nil, nil))
	if got.Text() != otherAnswer {
		t.Errorf("%q", got.Text())
	}
	parts := must[[]promptcache.Part](t)(prompt.Parts())
	tokens := 0
	for _, part := range parts {
		tokens += len(part.Tokens)
	}
	if uint64(tokens) != got.Stats.TokensPrompt || parts[0].Kind != promptcache.PartCached {
		t.Errorf("%d tokens in the parts, %+v", tokens, parts[0])
	}
}
