/* RelayAttention's schema string. Catches: slots and braces that are read wrong; faults without
 * place and cause; a BOS that is missing, doubled or inside; text of a request that becomes a
 * special token; request tokens that do not stand right behind the shared ones; answers that are
 * not those of a plain prefill of the whole text; leaks when an allocation fails. */
#include "baseline.h"
#include "toy_schema.h"
#include <promptcache/sampling.h>
#include <promptcache/prompt.h>

static const char llama[] = "<s>[INST] <<SYS>>\n{__SYS_PROMPT}\n<</SYS>>\n\n{__USR_PROMPT} [/INST]";

static pc_system_format format_of(const char *format, const char *system)
{
    pc_system_format r = PC_SYSTEM_FORMAT_INIT;
    r.format = format;
    r.format_size = format ? strlen(format) : 0;
    r.system = system;
    r.system_size = system ? strlen(system) : 0;
    return r;
}

static pc_schema *schema_of(const toy_world *w, const char *format, const char *system)
{
    pc_system_format r = format_of(format, system);
    pc_schema *schema = NULL;
    CHECK_OK(pc_schema_from_format(&schema, w->model, &r));
    return schema;
}

/* All tokens of a prompt, in position order without a hole. */
static size_t tokens_of(const pc_prompt *prompt, int32_t *out)
{
    size_t n = 0;
    for (size_t p = 0; p < pc_prompt_part_count(prompt); p++) {
        pc_part part = PC_PART_INIT;
        CHECK_OK(pc_prompt_get_part(prompt, p, &part));
        CHECK_INT(part.start, n);
        memcpy(out + n, part.tokens, part.count * sizeof *out);
        n += part.count;
    }
    return n;
}

/* The prompt's tokens are those of this text, tokenised as a whole. */
static void is_text(const toy_world *w, const pc_prompt *prompt, const char *text, uint64_t flags)
{
    int32_t got[512], want[512];
    size_t n = tokens_of(prompt, got), m = 0;
    CHECK_OK(pc_tokenize(w->model, text, strlen(text), flags, want, 512, &m));
    CHECK_INT(n, m);
    CHECK(n == m && !memcmp(got, want, n * sizeof *got));
}

static pc_prompt *fill(const pc_schema *schema, const char *text)
{
    pc_prompt *prompt = NULL;
    CHECK_OK(pc_prompt_fill(&prompt, schema, text, strlen(text), NULL));
    return prompt;
}

static void forms(void)
{
    static const struct {
        const char *format, *system, *user, *whole;
    } cases[] = {
        {llama, "  the word is here.\n", " what is it?\n",
         "<s>[INST] <<SYS>>\nthe word is here.\n<</SYS>>\n\nwhat is it? [/INST]"},
        {NULL, "the word", "-and this", "<s>the word-and this"},
        {"{__SYS_PROMPT}: {__USR_PROMPT}", "all", "? one", "<s>all: ? one"},
        {"{{{__SYS_PROMPT}}} = {__USR_PROMPT}{{}}", "{\"a\": {}}", "{__USR_PROMPT} {",
         "<s>{{\"a\": {}}} = {__USR_PROMPT} {{}"},
        {"{__SYS_PROMPT}\n{__USR_PROMPT}\n", "", "", "<s>\n\n"},
    };
    toy_world w;
    if (!CHECK(toy_start(&w, NULL, 0, 0, NULL)))
        return;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        pc_schema *schema = schema_of(&w, cases[i].format, cases[i].system);
        pc_prompt *prompt = fill(schema, cases[i].user);
        is_text(&w, prompt, cases[i].whole, PC_TOKENIZE_SPECIAL);
        pc_prompt_free(prompt);
        pc_schema_free(schema);
    }
    toy_end(&w);
}

/* Only the schema string makes special tokens. */
static void special_text(void)
{
    toy_world w;
    int32_t got[256];
    size_t n, count[2] = {0};
    if (!CHECK(toy_start(&w, NULL, 0, 0, NULL)))
        return;
    pc_schema *schema = schema_of(&w, "<s>{__SYS_PROMPT}</s>{__USR_PROMPT}</s>", "a </s> of <s>");
    pc_prompt *prompt = fill(schema, "was </s><s>it");
    n = tokens_of(prompt, got);
    for (size_t i = 0; i < n; i++) {
        count[0] += got[i] == TOY_BOS;
        count[1] += got[i] == TOY_EOS;
    }
    CHECK(n && got[0] == TOY_BOS && got[n - 1] == TOY_EOS);
    CHECK_INT(count[0], 1);
    CHECK_INT(count[1], 2);
    pc_prompt_free(prompt);
    pc_schema_free(schema);
    toy_end(&w);
}

static void layout(void)
{
    toy_world w;
    pc_item item = PC_ITEM_INIT;
    pc_part part = PC_PART_INIT;
    if (!CHECK(toy_start(&w, NULL, 0, 0, NULL)))
        return;
    pc_schema *schema = schema_of(&w, "[{__SYS_PROMPT}] {__USR_PROMPT} ->", "the word");
    CHECK_STR(pc_schema_name(schema), "system");
    CHECK_INT(pc_schema_item_count(schema), 2);
    CHECK_OK(pc_schema_get_item(schema, 0, &item));
    CHECK_INT(item.kind, PC_ITEM_TEXT);
    CHECK_STR(item.text, "[the word] ");
    CHECK_INT(item.length, pc_schema_length(schema));
    CHECK_OK(pc_schema_get_item(schema, 1, &item));
    CHECK_INT(item.kind, PC_ITEM_SLOT);
    CHECK_STR(item.path, "/user");
    CHECK_STR(item.text, " ->");
    CHECK_INT(item.start, pc_schema_length(schema));
    CHECK_INT(item.length, 0);
    pc_prompt *filled = fill(schema, "=of it"), *written = NULL, *given = NULL;
    static const char pml[] = "<prompt schema=\"system\"> =of it </prompt>",
                      chat[] = "<prompt>\n<user>of it</user></prompt>";
    CHECK_OK(pc_prompt_parse(&written, &schema, 1, pml, strlen(pml), NULL));
    is_text(&w, filled, "<s>[the word] =of it ->", PC_TOKENIZE_SPECIAL);
    is_text(&w, written, "<s>[the word] =of it ->", PC_TOKENIZE_SPECIAL);
    CHECK_STATUS(pc_prompt_parse(&given, &schema, 1, chat, strlen(chat), NULL), PC_ERR_PML);
    CHECK_ERROR_HAS("prompt:2:1: <user>: the schema string is the template");
    int32_t ids[64];
    size_t n = 0;
    CHECK_OK(pc_tokenize(w.model, "=of it", 6, 0, ids, 64, &n));
    CHECK_OK(pc_prompt_fill_tokens(&given, schema, ids, n, NULL));
    is_text(&w, given, "<s>[the word] =of it ->", PC_TOKENIZE_SPECIAL);
    CHECK_OK(pc_prompt_get_part(given, 1, &part));
    CHECK_INT(part.kind, PC_PART_TEXT);
    CHECK_INT(part.start, pc_schema_length(schema));
    pc_prompt_free(given);
    pc_prompt_free(filled);
    pc_prompt_free(written);
    pc_schema_free(schema);
    toy_end(&w);
}

/* The shared part as tokens, and a PML schema without a slot. */
static void by_tokens(void)
{
    static const char pml[] =
        "<schema name=\"p\">the word <module name=\"m\">of all</module> is</schema>";
    int32_t ids[] = {TOY_BOS, 100, 101, TOY_EOS, 102}, got[64];
    pc_system_format r = format_of("<s>{__SYS_PROMPT} {__USR_PROMPT}!", NULL);
    pc_schema *schema = NULL;
    toy_world w;
    if (!CHECK(toy_start(&w, NULL, 0, 0, NULL)))
        return;
    r.tokens = ids;
    r.token_count = 5;
    CHECK_OK(pc_schema_from_format(&schema, w.model, &r));
    pc_prompt *prompt = fill(schema, "A");
    CHECK_INT(tokens_of(prompt, got), 7);
    CHECK(!memcmp(got, ids, sizeof ids) && got[5] == TOY_BYTES + 'A' && got[6] == TOY_BYTES + '!');
    pc_prompt_free(prompt);
    pc_schema_free(schema);
    CHECK_OK(pc_schema_parse(&schema, w.model, pml, strlen(pml), NULL));
    prompt = fill(schema, " then? ");
    CHECK_INT(pc_prompt_part_count(prompt), 3); /* the module is not asked for */
    pc_prompt_free(prompt);
    pc_schema_free(schema);
    ids[2] = TOY_VOCAB;
    CHECK_STATUS(pc_schema_from_format(&schema, w.model, &r), PC_ERR_INVALID);
    CHECK_ERROR_HAS("token 2 is 299, the vocabulary has 299");
    CHECK(schema == NULL);
    toy_end(&w);
}

static void faults(void)
{
    static const struct {
        const char *format, *error;
    } cases[] = {
        {"", "schema string:1:1: the schema string ends without {__SYS_PROMPT}"},
        {"all\nof it", "schema string:2:6: the schema string ends without {__SYS_PROMPT}"},
        {"{__SYS_PROMPT} x", "schema string:1:17: the schema string ends without {__USR_PROMPT}"},
        {"{__USR_PROMPT}{__SYS_PROMPT}",
         "schema string:1:1: {__USR_PROMPT} stands before {__SYS_PROMPT}"},
        {"a\n b{__SYS_PROMPT}{__SYS_PROMPT}", "schema string:2:17: a second {__SYS_PROMPT}"},
        {"{__SYS_PROMPT}{__USR_PROMPT}\n{__USR_PROMPT}",
         "schema string:2:1: a second {__USR_PROMPT}"},
        {"{__SYS_PROMPT}{__USR_PROMPT}{__SYS_PROMPT}",
         "schema string:1:29: a second {__SYS_PROMPT}"},
        {"{__SYS_PROMPT}{__USER}", "schema string:1:15: unknown slot: {__USER}"},
        {"{__SYS_PROMPT} {x} {__USR_PROMPT}",
         "schema string:1:16: a brace of the text must be doubled: {"},
        {"{__SYS_PROMPT} } {__USR_PROMPT}",
         "schema string:1:16: a brace of the text must be doubled: }"},
        {"{__SYS_PROMPT}{__USR_PROMPT",
         "schema string:1:15: a brace of the text must be doubled: {"},
    };
    toy_world w;
    pc_schema *schema = (pc_schema *)(uintptr_t)8;
    if (!CHECK(toy_start(&w, NULL, 0, 0, NULL)))
        return;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        pc_system_format r = format_of(cases[i].format, "all");
        CHECK_STATUS(pc_schema_from_format(&schema, w.model, &r), PC_ERR_PML);
        CHECK_ERROR_HAS(cases[i].error);
        CHECK(schema == NULL);
    }
    toy_end(&w);
}

static void arguments(void)
{
    toy_world w;
    pc_system_format r = format_of(llama, "all of it");
    pc_schema *schema = NULL;
    pc_prompt *prompt = NULL;
    int32_t bad = -1;
    if (!CHECK(toy_start(&w, NULL, 0, 40, NULL)))
        return;
    CHECK_STATUS(pc_schema_from_format(NULL, w.model, &r), PC_ERR_INVALID);
    CHECK_STATUS(pc_schema_from_format(&schema, NULL, &r), PC_ERR_INVALID);
    CHECK_STATUS(pc_schema_from_format(&schema, w.model, NULL), PC_ERR_INVALID);
    r.flags = 2;
    CHECK_STATUS(pc_schema_from_format(&schema, w.model, &r), PC_ERR_INVALID);
    r.flags = PC_FORMAT_CHAT; /* and a schema string */
    CHECK_STATUS(pc_schema_from_format(&schema, w.model, &r), PC_ERR_INVALID);
    r.flags = 0;
    r.format_file = "somewhere";
    CHECK_STATUS(pc_schema_from_format(&schema, w.model, &r), PC_ERR_INVALID);
    r.format_file = NULL;
    r.tokens = &bad;
    CHECK_STATUS(pc_schema_from_format(&schema, w.model, &r), PC_ERR_INVALID);
    r.tokens = NULL;
    r.name = "";
    CHECK_STATUS(pc_schema_from_format(&schema, w.model, &r), PC_ERR_INVALID);
    r.name = "n";
    r.system = NULL;
    CHECK_STATUS(pc_schema_from_format(&schema, w.model, &r), PC_ERR_INVALID);
    r.system_size = 0;
    r.system_file = "/nowhere/at/all";
    CHECK_STATUS(pc_schema_from_format(&schema, w.model, &r), PC_ERR_NOT_FOUND);
    r = format_of(llama, "this is more than the context of this model takes, by far");
    CHECK_STATUS(pc_schema_from_format(&schema, w.model, &r), PC_ERR_LIMIT);
    CHECK(schema == NULL);
    schema = schema_of(&w, NULL, "the word");
    CHECK_STATUS(pc_prompt_fill(NULL, schema, "a", 1, NULL), PC_ERR_INVALID);
    CHECK_STATUS(pc_prompt_fill(&prompt, NULL, "a", 1, NULL), PC_ERR_INVALID);
    CHECK_STATUS(pc_prompt_fill(&prompt, schema, NULL, 1, NULL), PC_ERR_INVALID);
    CHECK_STATUS(pc_prompt_fill_tokens(NULL, schema, &bad, 0, NULL), PC_ERR_INVALID);
    CHECK_STATUS(pc_prompt_fill_tokens(&prompt, NULL, &bad, 0, NULL), PC_ERR_INVALID);
    CHECK_STATUS(pc_prompt_fill_tokens(&prompt, schema, NULL, 1, NULL), PC_ERR_INVALID);
    CHECK_STATUS(pc_prompt_fill_tokens(&prompt, schema, &bad, 1, NULL), PC_ERR_INVALID);
    CHECK_STATUS(pc_prompt_fill(&prompt, schema, llama, strlen(llama), NULL), PC_ERR_LIMIT);
    CHECK(prompt == NULL);
    pc_schema_free(schema);
    toy_end(&w);
}

static void files(void)
{
    static const char format[] = "\xef\xbb\xbf[{__SYS_PROMPT}]\n{__USR_PROMPT} ->\n";
    char path[2][256];
    toy_world w;
    pc_system_format r = PC_SYSTEM_FORMAT_INIT;
    pc_schema *schema = NULL;
    if (!CHECK(toy_start(&w, NULL, 0, 0, NULL)))
        return;
    snprintf(path[0], sizeof path[0], "%s/format.txt", pc_test_folder());
    snprintf(path[1], sizeof path[1], "%s/system.txt", pc_test_folder());
    pc_test_write(path[0], format, strlen(format));
    pc_test_write(path[1], "\nthe word\n", 10);
    r.format_file = path[0];
    r.system_file = path[1];
    CHECK_OK(pc_schema_from_format(&schema, w.model, &r));
    pc_prompt *prompt = fill(schema, "of it");
    is_text(&w, prompt, "<s>[the word]\nof it ->", PC_TOKENIZE_SPECIAL);
    pc_prompt_free(prompt);
    pc_schema_free(schema);
    pc_test_write(path[0], "a\n{b}", 5);
    CHECK_STATUS(pc_schema_from_format(&schema, w.model, &r), PC_ERR_PML);
    CHECK_ERROR_HAS("format.txt:2:1: a brace of the text must be doubled");
    toy_end(&w);
}

/* With the shared part from the cache or with nothing shared: the same answer, and exact states, in
 * every mode of encoding. */
static void same_as_prefill(void)
{
    toy_world w;
    if (!CHECK(toy_start(&w, NULL, 0, 0, NULL)))
        return;
    pc_schema *schema = schema_of(&w, llama, "the word is here, and it was one of the hot");
    pc_prompt *prompt = fill(schema, "what is it?");
    pc_generate_options o = PC_GENERATE_OPTIONS_INIT;
    pc_sampling sampling = PC_SAMPLING_INIT;
    o.max_tokens = 16;
    o.sampling = &sampling;
    sampling.temperature = 1.3f;
    for (o.encoding = 0; o.encoding <= PC_ENCODE_EXACT; o.encoding++)
        for (sampling.seed = 0; sampling.seed < 4; sampling.seed++) {
            toy_answer warm, full;
            (void)toy_generate(prompt, w.cache, o);
            warm = toy_generate(prompt, w.cache, o);
            o.bench = pc_test_baseline(PC_BASELINE_PREFILL);
            full = toy_generate(prompt, NULL, o);
            o.bench = pc_test_baseline(0);
            CHECK(full.size[0] == warm.size[0]
                  && !memcmp(full.text[0], warm.text[0], full.size[0]));
            CHECK_INT(warm.stats.exactness, PC_EXACT);
            CHECK_INT(warm.stats.tokens_cached, pc_schema_length(schema));
            CHECK_INT(warm.stats.tokens_cached + warm.stats.tokens_new, warm.stats.tokens_prompt);
        }
    pc_prompt_free(prompt);
    pc_schema_free(schema);
    toy_end(&w);
}

static void no_memory(void)
{
    for (uint64_t at = 1, more = 1; more; at++) {
        pc_test_memory memory = {0};
        const pc_allocator mem = pc_test_allocator(&memory);
        pc_system_format r = format_of(llama, "the word</s>");
        pc_schema *schema = NULL;
        pc_prompt *prompt = NULL, *other = NULL;
        toy_world w;
        if (!CHECK(toy_start(&w, &mem, 0, 0, NULL)))
            return;
        int32_t id = 200;
        memory.fail_at = memory.calls + at;
        pc_status status = pc_schema_from_format(&schema, w.model, &r);
        if (status >= 0)
            status = pc_prompt_fill(&prompt, schema, "what", 4, NULL);
        if (status >= 0)
            status = pc_prompt_fill_tokens(&other, schema, &id, 1, NULL);
        more = memory.calls >= memory.fail_at;
        if (more)
            CHECK_STATUS(status, PC_ERR_NOMEM);
        else
            CHECK_OK(status);
        CHECK(status >= 0 || !other);
        pc_prompt_free(prompt);
        pc_prompt_free(other);
        pc_schema_free(schema);
        toy_end(&w);
        CHECK_INT(memory.live_blocks, 0);
    }
}

int main(void)
{
    forms();
    special_text();
    layout();
    by_tokens();
    faults();
    arguments();
    files();
    same_as_prefill();
    no_memory();
    return pc_test_end();
}
