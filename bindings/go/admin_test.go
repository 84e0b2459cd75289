package promptcache_test

// Would catch: builders that make other schemas and prompts than PML, or go on after a fault; lists,
// folders and files whose entries differ from what is in them.

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"promptcache"
)

func TestBuilders(t *testing.T) {
	builder := must[*promptcache.SchemaBuilder](t)(model.NewSchemaBuilder("staff", nil))
	defer builder.Close()
	builder.Turn("system").Text("Use the notes to answer.", 0).End()
	builder.Module("oscar", 0).Text("Employee: Oscar Baker. The desk of Oscar Baker is 192.", 0).End()
	builder.Module("trip", 0).Text("The leader of the trip is ", 0).Parameter("leader", 6, "").End()
	schema := must[*promptcache.Schema](t)(builder.Schema())
	if schema.Name() != "staff" || schema.Length() == 0 {
		t.Errorf("%q, %d", schema.Name(), schema.Length())
	}
	items := must[[]promptcache.Item](t)(schema.Items())
	last := items[len(items)-1]
	if last.Path != "trip/leader" && last.Kind != promptcache.ItemParameter {
		t.Errorf("%+v", items)
	}
	words := must[*promptcache.PromptBuilder](t)(schema.NewPromptBuilder())
	defer words.Close()
	words.Use("oscar").Use("trip").Argument("leader", "Ben")
	words.Turn("user").Text("What is the desk of Oscar Baker?", 0).End()
	prompt := must[*promptcache.Prompt](t)(words.Prompt(nil))
	got := must[*promptcache.Answer](t)(prompt.Generate(background, nil, nil))
	if got.Text() != "The desk of Oscar Baker is 192." {
		t.Errorf("%q", got.Text())
	}
	_, err := words.Use("nobody").End().Text("x", 0).Prompt(nil)
	if !errors.Is(err, promptcache.ErrState) { // End: nothing is open
		t.Errorf("%v", err)
	}
	check(t, words.Close())
	if _, err := words.Prompt(nil); err == nil {
		t.Error("a closed builder")
	}
}

func TestConversationAsPrompt(t *testing.T) {
	messages := []promptcache.Message{
		{Role: "system", Content: "Use the notes to answer." + notes},
		{Role: "user", Content: "What is the desk of Oscar Baker?"}}
	text := must[string](t)(model.FormatMessages(messages, nil))
	if !strings.HasPrefix(text, "<s><|system|>Use") || !strings.HasSuffix(text, "<|assistant|>") {
		t.Errorf("%q", text)
	}
	prompt := must[*promptcache.Prompt](t)(model.PromptFromMessages(messages, nil))
	cache := newCache(t, nil)
	first := must[*promptcache.Answer](t)(prompt.Generate(background, cache, nil))
	again := must[*promptcache.Answer](t)(prompt.Generate(background, cache, nil))
	if first.Text() != "The desk of Oscar Baker is 192." || again.Text() != first.Text() ||
		again.Stats.Exactness != promptcache.Exact {
		t.Errorf("%q, %+v", first.Text(), again.Stats)
	}
}

func TestSystems(t *testing.T) {
	cache := newCache(t, nil)
	systems := must[*promptcache.Systems](t)(model.NewSystems(cache,
		&promptcache.SystemsOptions{Format: chatFormat}))
	defer systems.Close()
	if all := must[bool](t)(systems.Fill("staff", "Use the notes to answer."+notes)); !all {
		t.Error("there was no room")
	}
	must[bool](t)(systems.FillSchema("employees", employees))
	schema := must[*promptcache.Schema](t)(systems.Find("staff"))
	prompt := must[*promptcache.Prompt](t)(schema.Fill("What is the desk of Oscar Baker?", nil))
	got := must[*promptcache.Answer](t)(prompt.Generate(background, cache, nil))
	if got.Text() != "The desk of Oscar Baker is 192." || got.Stats.TokensCached == 0 {
		t.Errorf("%q, %+v", got.Text(), got.Stats)
	}
	list := must[[]promptcache.SystemInfo](t)(systems.List())
	if len(list) != 2 || list[0].Name != "staff" || list[0].Pinned == 0 ||
		list[1].Length != employees.Length() {
		t.Errorf("%+v", list)
	}
	check(t, systems.Drop("staff"))
	if _, err := systems.Find("staff"); !errors.Is(err, promptcache.ErrNotFound) ||
		!strings.Contains(err.Error(), "employees") {
		t.Errorf("%v", err)
	}
	check(t, systems.Clear())
}

func TestFolder(t *testing.T) {
	path := temporary(t, "store")
	cache := newCache(t, &promptcache.CacheOptions{DiskPath: path})
	must[*promptcache.Answer](t)(deskPrompt(t).Generate(background, cache, nil))
	must[bool](t)(cache.Flush())
	check(t, cache.Close())
	context := must[*promptcache.Context](t)(promptcache.NewContext(
		&promptcache.ContextOptions{Threads: 1}))
	defer context.Close()
	folder := must[*promptcache.Folder](t)(context.OpenFolder(path, nil))
	defer folder.Close()
	info := must[promptcache.ModelInfo](t)(model.Info())
	if folder.Count() < 16 {
		t.Fatalf("%d records", folder.Count())
	}
	record := must[promptcache.RecordInfo](t)(folder.Record(0))
	tokens := must[[]int32](t)(folder.Tokens(0))
	if record.Model != info.Fingerprint || record.Architecture != info.Architecture ||
		record.Tokens != uint64(len(tokens)) || record.Written.IsZero() || !record.Opened {
		t.Errorf("%+v", record)
	}
	check(t, folder.Verify(0))
	check(t, folder.Remove(0))
	if err := folder.Verify(0); !errors.Is(err, promptcache.ErrNotFound) {
		t.Errorf("%v", err)
	}
	removed, freed, err := folder.Trim(0)
	if err != nil || removed == 0 || freed == 0 {
		t.Errorf("%d, %d, %v", removed, freed, err)
	}
	if _, err := folder.Record(-1); err == nil {
		t.Error("a record before the first")
	}
}

func TestModelFile(t *testing.T) {
	context := must[*promptcache.Context](t)(promptcache.NewContext(
		&promptcache.ContextOptions{Threads: 1}))
	defer context.Close()
	file := must[*promptcache.ModelFile](t)(context.OpenModelFile(background, demoModel, nil))
	defer file.Close()
	info := must[promptcache.ModelFileInfo](t)(file.Info())
	if info.Kind != promptcache.ModelFileGGUF || info.Refusal != promptcache.OK ||
		info.Family == "" || info.KVBytes[promptcache.DTypeF32] == 0 {
		t.Errorf("%+v", info)
	}
	types := must[[]promptcache.ModelFileType](t)(file.Types())
	if len(types) == 0 || types[0].Name != "BF16" {
		t.Errorf("%+v", types)
	}
	vocabulary := must[*promptcache.Model](t)(file.Vocabulary())
	check(t, file.Close())
	if tokens := must[[]int32](t)(vocabulary.Tokenize("desk", 0)); len(tokens) == 0 {
		t.Error("no tokens")
	}
	a := must[promptcache.Key](t)(promptcache.FingerprintFiles(background, []string{demoModel}, nil))
	copied := filepath.Join(t.TempDir(), "copy")
	check(t, os.WriteFile(copied, must[[]byte](t)(os.ReadFile(demoModel)), 0o600))
	b := must[promptcache.Key](t)(promptcache.FingerprintFiles(background, []string{copied}, nil))
	if a != b || a == (promptcache.Key{}) {
		t.Errorf("%v, %v", a, b)
	}
	costs := must[promptcache.Costs](t)(context.Costs())
	if costs.Kernels == "" || costs.CachedNS[0] == 0 {
		t.Errorf("%+v", costs)
	}
	plugins := must[[]promptcache.PluginInfo](t)(promptcache.Plugins())
	if len(plugins) == 0 || plugins[0].Name == "" {
		t.Errorf("%+v", plugins)
	}
	if shown := promptcache.ShowText("a\x1b[0m"); shown != "a<U+001B>[0m" {
		t.Errorf("%q", shown)
	}
}
