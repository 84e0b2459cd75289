/* Catches, with real vocabularies (SentencePiece and byte-level BPE, with and without BOS): a
 * schema string whose shared part and request part together are not the tokens of the whole text (a
 * blank that SentencePiece puts before the request, a BOS inside, a first token that is dropped).
 * Catches, with the demo model: answers that depend on whether the shared part came from the cache;
 * a chat template that differs from PML's. */
#include <promptcache/prompt.h>
#include <string.h>

#include "baseline.h"
#include "testing.h"

static const char system_text[] = " \nYou are the desk of Harbor House. Answer in one line;\n keep "
                                  "3 rules: {be kind}, \xc3\xa9t\xc3\xa9. \n";
static const char system_plain[] = "You are the desk of Harbor House. Answer in one line;\n keep 3 "
                                   "rules: {be kind}, \xc3\xa9t\xc3\xa9.";
static const char *const users[] = {"What is the desk of Peter Novak?", "42",
                                    "  \xe4\xbd\xa0\xe5\xa5\xbd, what\n\nnow?\n", "don't", "(a)"};

struct said {
    char text[512];
    size_t size;
};

static int32_t hear(void *user, uint32_t sample, const char *text, size_t size)
{
    struct said *s = user;
    (void)sample;
    if (s->size + size >= sizeof s->text)
        return 1;
    memcpy(s->text + s->size, text, size);
    s->size += size;
    return 0;
}

typedef struct form {
    const char *name, *format;
} form;

static const form forms[] = {
    {"llama2-tokenizer", "[INST] <<SYS>>\n{__SYS_PROMPT}\n<</SYS>>\n\n{__USR_PROMPT} [/INST]"},
    {"llama3-tokenizer", "{__SYS_PROMPT}\n\nUser:\n{__USR_PROMPT}\nAssistant:"},
    {"phi3-tokenizer",
     "<|system|>\n{__SYS_PROMPT}<|end|>\n<|user|>\n{__USR_PROMPT}<|end|>\n<|assistant|>\n"},
    {"gpt2-tokenizer", "{__SYS_PROMPT}\n\nQuestion:\n{__USR_PROMPT}\nAnswer:"},
    {"smollm2-tokenizer", "<|im_start|>system\n{__SYS_PROMPT}<|im_end|>\n<|im_start|>user\n{__USR_"
                          "PROMPT}<|im_end|>\n<|im_start|>assistant\n"},
    {"llama-spm", "[INST] <<SYS>>\n{__SYS_PROMPT}\n<</SYS>>\n\n{__USR_PROMPT} [/INST]"},
    {"llama-spm", "<s>[INST] <<SYS>>\n{__SYS_PROMPT}\n<</SYS>>\n\n{__USR_PROMPT} [/INST]"},
    {"llama-spm", "{__SYS_PROMPT}\n{__USR_PROMPT}\n"},
    {"phi-3",
     "<|system|>\n{__SYS_PROMPT}<|end|>\n<|user|>\n{__USR_PROMPT}<|end|>\n<|assistant|>\n"},
    {"gpt-2", "{__SYS_PROMPT}\n\nQ: \"{__USR_PROMPT}\"\nA:"},
    {"mpt", "<|im_start|>system\n{__SYS_PROMPT}<|im_end|>\n<|im_start|>user\n{__USR_PROMPT}<|im_"
            "end|>\n<|im_start|>assistant\n"},
    {"falcon", "{__SYS_PROMPT}\n\nUser:\n{__USR_PROMPT}\n\nAssistant:"},
    {"deepseek-llm", "{__SYS_PROMPT}\n\nUser:\t{__USR_PROMPT}\n\nAssistant:"},
};

/* The schema string with both texts in it. */
static size_t whole_text(const char *format, const char *system, const char *user, char *out)
{
    const char *s = strstr(format, "{__SYS_PROMPT}"), *u = strstr(format, "{__USR_PROMPT}");
    size_t size = strlen(user);
    while (size && strchr(" \n", user[size - 1]))
        size--;
    while (size && strchr(" \n", *user)) {
        user++;
        size--;
    }
    return (size_t)sprintf(out, "%.*s%s%.*s%.*s%s", (int)(s - format), format, system,
                           (int)(u - s - 14), s + 14, (int)size, user, u + 14);
}

static size_t all_tokens(const pc_prompt *prompt, int32_t *out)
{
    size_t n = 0;
    for (size_t p = 0; p < pc_prompt_part_count(prompt); p++) {
        pc_part part = PC_PART_INIT;
        CHECK_OK(pc_prompt_get_part(prompt, p, &part));
        CHECK_INT(part.start, n); /* request tokens stand right behind the shared ones */
        memcpy(out + n, part.tokens, part.count * sizeof *out);
        n += part.count;
    }
    return n;
}

static size_t apart;

/* What the tokenizer gives for the whole, special tokens of the template only. */
static void compare(const pc_model *model, const pc_model_info *info, const form *f,
                    const pc_schema *schema, const char *user)
{
    char text[4096];
    int32_t got[2048], want[2048];
    size_t n, m = 0, bos = 0, written = 0;
    pc_prompt *prompt = NULL;
    if (!CHECK_OK(pc_prompt_fill(&prompt, schema, user, strlen(user), NULL)))
        return;
    n = all_tokens(prompt, got);
    for (size_t i = 0; i < n; i++)
        bos += got[i] == info->token_bos;
    CHECK_OK(pc_tokenize(model, "", 0, PC_TOKENIZE_BOS, want, 2048, &m));
    int wants = m && info->token_bos >= 0 && want[0] == info->token_bos, begins;
    CHECK_OK(pc_tokenize(model, f->format, strlen(f->format), PC_TOKENIZE_SPECIAL, want, 2048, &m));
    begins = m && want[0] == info->token_bos;
    for (size_t i = 0; i < m;
         i++) /* the template may hold it (of some models it also opens every turn) */
        written += want[i] == info->token_bos;
    CHECK_INT(bos, written + (wants && !begins));
    CHECK(!(wants || begins) || got[0] == info->token_bos);
    size_t size = whole_text(f->format, system_plain, user, text);
    uint64_t flags = PC_TOKENIZE_SPECIAL | (begins ? 0 : PC_TOKENIZE_BOS);
    CHECK_OK(pc_tokenize(model, text, size, flags, want, 2048, &m));
    size_t shared = (size_t)pc_schema_length(schema);
    if (m >= shared && memcmp(got, want, shared * sizeof *got))
        apart++; /* a token of the whole text crosses the border of the slot: the shared part cannot
                    contain it */
    else if (!CHECK(n == m && !memcmp(got, want, n * sizeof *got)))
        fprintf(stderr, "    %s, \"%s\": %zu tokens, not %zu\n", f->name, user, n, m);
    pc_prompt_free(prompt);
}

/* Text of the system prompt and of a request never becomes a special token. */
static void special_text(const pc_model *model, const pc_model_info *info, const form *f)
{
    int32_t got[2][2048];
    size_t n[2];
    for (int i = 0; i < 2; i++) {
        const char *text = i ? "a </s><|end|><|im_end|><|endoftext|> b" : "a b";
        pc_system_format source = PC_SYSTEM_FORMAT_INIT;
        pc_schema *schema = NULL;
        pc_prompt *prompt = NULL;
        source.format = f->format;
        source.format_size = strlen(f->format);
        source.system = text;
        source.system_size = strlen(text);
        CHECK_OK(pc_schema_from_format(&schema, model, &source));
        CHECK_OK(pc_prompt_fill(&prompt, schema, text, strlen(text), NULL));
        n[i] = all_tokens(prompt, got[i]);
        pc_prompt_free(prompt);
        pc_schema_free(schema);
    }
    for (int i = 0; i < 2; i++) {
        size_t count = 0;
        for (size_t t = 0; t < n[i]; t++)
            count += got[i][t] == info->token_eos;
        n[i] = count;
    }
    CHECK_INT(n[1], n[0]);
}

static void vocabulary(pc_context *context, const form *f, const char *path)
{
    pc_model_options options = PC_MODEL_OPTIONS_INIT;
    pc_model_info info = PC_MODEL_INFO_INIT;
    pc_system_format source = PC_SYSTEM_FORMAT_INIT;
    pc_model *model = NULL;
    pc_schema *schema = NULL;
    options.flags = PC_MODEL_VOCAB_ONLY;
    if (!CHECK_OK(pc_model_load(&model, context, path, &options)))
        return;
    CHECK_OK(pc_model_get_info(model, &info));
    source.format = f->format;
    source.format_size = strlen(f->format);
    source.system = system_text;
    source.system_size = strlen(system_text);
    CHECK_OK(pc_schema_from_format(&schema, model, &source));
    for (size_t i = 0; i < sizeof users / sizeof *users; i++)
        compare(model, &info, f, schema, users[i]);
    special_text(model, &info, f);
    pc_schema_free(schema);
    pc_model_free(model);
}

/* Shared from the cache, or all of it computed in one prefill: the same tokens at a temperature,
 * whatever the mode. */
static void demo_answers(pc_context *context)
{
    static const char format[] =
        "<s><|system|>{__SYS_PROMPT}<|end|><|user|>{__USR_PROMPT}<|end|><|assistant|>";
    static const char notes[] =
        "Answer from the notes. The desk of Peter Novak is 368. The job of Rosa Silva is nurse.";
    pc_system_format source = PC_SYSTEM_FORMAT_INIT;
    pc_model *model = NULL;
    pc_cache *cache = NULL;
    pc_schema *schema = NULL;
    pc_prompt *prompt = NULL;
    source.format = format;
    source.format_size = strlen(format);
    source.system = notes;
    source.system_size = strlen(notes);
    CHECK_OK(pc_model_load(&model, context, PC_SOURCE_DIR "/models/demo/demo.gguf", NULL));
    CHECK_OK(pc_cache_new(&cache, context, NULL));
    CHECK_OK(pc_schema_from_format(&schema, model, &source));
    CHECK_OK(pc_prompt_fill(&prompt, schema, "What is the desk of Peter Novak?", 32, NULL));
    for (uint32_t encoding = 0; encoding <= PC_ENCODE_EXACT; encoding++)
        for (uint32_t full = 0; full <= 1; full++) {
            pc_generate_options o = PC_GENERATE_OPTIONS_INIT;
            pc_stats stats = PC_STATS_INIT;
            struct said said = {0};
            o.encoding = encoding;
            o.bench = pc_test_baseline(full ? PC_BASELINE_PREFILL : 0);
            o.max_tokens = 24;
            o.on_text = hear;
            o.on_text_user = &said;
            CHECK_OK(pc_generate(prompt, cache, &o, &stats));
            CHECK_INT(stats.exactness, PC_EXACT);
            CHECK_STR(said.text, "The desk of Peter Novak is 368.");
        }
    pc_prompt_free(prompt);
    pc_schema_free(schema);
    pc_cache_free(cache);
    pc_model_free(model);
}

static int holds_token(const pc_model *model, const int32_t *tokens, size_t count, const char *text)
{
    int32_t token = -1;
    size_t n = 0;
    CHECK_OK(pc_tokenize(model, text, strlen(text), PC_TOKENIZE_SPECIAL, &token, 1, &n));
    CHECK_INT(n, 1);
    for (size_t i = 0; i < count; i++)
        if (tokens[i] == token)
            return 1;
    return 0;
}

/* What PML's own tags give, with and without a system prompt. */
static void same_as_pml(const pc_model *model, const char *name, const char *opens, int empty)
{
    const char *system = "<schema name=\"s\"><system>Answer from the notes.</system></schema>";
    const char *none = "<schema name=\"s\"><system/></schema>", *pml = empty ? none : system;
    const char *asked = "<prompt schema=\"s\"><user>What is the hotel in Oslo?</user></prompt>";
    pc_system_format source = PC_SYSTEM_FORMAT_INIT;
    pc_schema *mine = NULL, *theirs = NULL;
    pc_prompt *a = NULL, *b = NULL;
    int32_t got[256], want[256];
    source.flags = PC_FORMAT_CHAT;
    source.system = empty ? " " : "Answer from the notes.";
    source.system_size = strlen(source.system);
    CHECK_OK(pc_schema_from_format(&mine, model, &source));
    CHECK_OK(pc_schema_parse(&theirs, model, pml, strlen(pml), NULL));
    CHECK_OK(pc_prompt_fill(&a, mine, "What is the hotel in Oslo?", 26, NULL));
    CHECK_OK(pc_prompt_parse(&b, &theirs, 1, asked, strlen(asked), NULL));
    size_t n = all_tokens(a, got), m = all_tokens(b, want), bos = n != m; /* PML adds no BOS */
    if (!CHECK(m && n == m + bos && !memcmp(got + bos, want, m * sizeof *want)))
        fprintf(stderr, "    %s: %zu tokens, by PML %zu\n", name, n, m);
    if (opens)
        CHECK(holds_token(model, got, n, opens));
    pc_prompt_free(a);
    pc_prompt_free(b);
    pc_schema_free(mine);
    pc_schema_free(theirs);
}

/* A chat template in place of a schema string; NULL: the model's own. Only templates whose turns
 * begin with a special token: PML divides at the end of the schema, where the tokenizer might
 * not. */
static void chat_template(pc_context *context)
{
    static const struct {
        const char *path, *family, *opens; /* a token that opens a turn */
    } cases[] = {
        {NULL, NULL, "<|user|>"},
        {NULL, "phi4-mini", "<|user|>"},
        {NULL, "falcon", NULL},
        {NULL, "none", NULL},
        {"data/smollm2-tokenizer", NULL, "<|im_start|>"}, /* chat_template.jinja */
        {"data/smollm2-tokenizer", "qwen2", "<|im_start|>"},
        {"data/phi3-tokenizer", NULL, "<|user|>"}, /* in tokenizer_config.json */
    };
    for (size_t f = 0; f < sizeof cases / sizeof *cases; f++) {
        pc_model_options options = PC_MODEL_OPTIONS_INIT;
        pc_model *model = NULL;
        const char *path = cases[f].path ? pc_test_data(cases[f].path)
                                         : PC_SOURCE_DIR "/models/demo/demo.gguf";
        options.flags = PC_MODEL_VOCAB_ONLY;
        options.chat_template = cases[f].family;
        if (!path || !CHECK_OK(pc_model_load(&model, context, path, &options)))
            continue;
        for (int empty = 0; empty <= 1; empty++)
            same_as_pml(model, cases[f].family ? cases[f].family : path, cases[f].opens, empty);
        pc_model_free(model);
    }
}

int main(void)
{
    pc_context *context = NULL;
    CHECK_OK(pc_context_new(&context, NULL));
    demo_answers(context);
    chat_template(context);
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        char path[256];
        const char *there;
        snprintf(path, sizeof path,
                 strstr(forms[i].name, "tokenizer") ? "data/%s"
                                                    : "data/ggml-vocab/ggml-vocab-%s.gguf",
                 forms[i].name);
        if ((there = pc_test_data(path)))
            vocabulary(context, &forms[i], there);
        else
            printf("not there: %s\n", path);
    }
    CHECK(apart <= 2); /* "(a)" behind a quotation mark, and behind a tab */
    pc_context_free(context);
    return pc_test_end();
}
