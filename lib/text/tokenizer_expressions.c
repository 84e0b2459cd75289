/* The regular expressions by which byte-level vocabularies split text into words, through PCRE2.
 * Several are applied in turn: each splits the parts that the one before has left. */
#include "text/tokenizer_internal.h"

#define LLAMA3(digits)                                                         \
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}" digits \
    "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define CJK "[\\x{4e00}-\\x{9fa5}\\x{0800}-\\x{4e00}\\x{ac00}-\\x{d7ff}]+"
/* letters with case, as the DeepSeek tokenizer lists them: Latin, Greek, Cyrillic, Armenian,
 * Georgian, Cherokee … */
#define CASED                                                                                   \
    "\\s?[A-Za-z\\x{b5}\\x{c0}-\\x{d6}\\x{d8}-\\x{f6}\\x{f8}-\\x{1ba}\\x{1bc}-\\x{1bf}"         \
    "\\x{1c4}-\\x{293}\\x{295}-\\x{2af}\\x{370}-\\x{373}\\x{376}\\x{377}\\x{37b}-\\x{37d}"      \
    "\\x{37f}\\x{386}\\x{388}-\\x{38a}\\x{38c}\\x{38e}-\\x{3a1}\\x{3a3}-\\x{3f5}"               \
    "\\x{3f7}-\\x{481}\\x{48a}-\\x{52f}\\x{531}-\\x{556}\\x{10a0}-\\x{10c5}\\x{13a0}-\\x{13f5}" \
    "\\x{13f8}-\\x{13fd}\\x{1c90}-\\x{1cba}\\x{1cbd}-\\x{1cbf}\\x{1d00}-\\x{1d2b}"              \
    "\\x{1d6b}-\\x{1d77}\\x{1d79}-\\x{1d9a}\\x{1e00}-\\x{1f15}\\x{1f18}-\\x{1f1d}"              \
    "\\x{1f20}-\\x{1f45}\\x{1f48}-\\x{1f4d}\\x{1f50}-\\x{1f57}\\x{1f59}\\x{1f5b}\\x{1f5d}"      \
    "\\x{1f5f}-\\x{1f7d}\\x{1f80}-\\x{1fb4}\\x{1fb6}-\\x{1fbc}\\x{1fbe}\\x{1fc2}-\\x{1fc4}"     \
    "\\x{1fc6}-\\x{1fcc}\\x{1fd0}-\\x{1fd3}\\x{1fd6}-\\x{1fdb}\\x{1fe0}-\\x{1fec}"              \
    "\\x{1ff2}-\\x{1ff4}\\x{1ff6}-\\x{1ffc}\\x{2102}\\x{2107}\\x{210a}-\\x{2113}\\x{2115}"      \
    "\\x{2119}-\\x{211d}\\x{2124}\\x{2126}\\x{2128}\\x{212a}-\\x{212d}\\x{212f}-\\x{2134}"      \
    "\\x{2139}\\x{213c}-\\x{213f}\\x{2145}-\\x{2149}\\x{214e}\\x{2183}\\x{2184}"                \
    "\\x{2c00}-\\x{2c7b}\\x{2c7e}-\\x{2ce4}\\x{2ceb}-\\x{2cee}\\x{2cf2}\\x{2cf3}"               \
    "\\x{a640}-\\x{a66d}\\x{a680}-\\x{a69b}\\x{a722}-\\x{a76f}\\x{a771}-\\x{a787}"              \
    "\\x{a78b}-\\x{a78e}\\x{ab70}-\\x{abbf}\\x{fb00}-\\x{fb06}\\x{fb13}-\\x{fb17}"              \
    "\\x{ff21}-\\x{ff3a}\\x{ff41}-\\x{ff5a}\\x{10400}-\\x{1044f}\\x{104b0}-\\x{104d3}"          \
    "\\x{104d8}-\\x{104fb}\\x{10c80}-\\x{10cb2}\\x{10cc0}-\\x{10cf2}\\x{118a0}-\\x{118df}"      \
    "\\x{1e900}-\\x{1e943}]+"

static const struct expression_family {
    const char *names; /* separated by blanks */
    const char *expression[PC__MAX_EXPRESSIONS];
} expression_families[] = {
    {"gpt-2 gpt2 mpt olmo jais phi-2 gpt-neox gpt_neox trillion roberta-bpe jina-es jina-de "
     "jina-v1-en jina-v2-es jina-v2-de a.x-4.0 mellum modern-bert",
     {PC__GPT2_EXPRESSION}},
    {"llama3 llama-v3 llama-bpe falcon3 pixtral dbrx smaug-bpe granite-docling", {LLAMA3("{1,3}")}},
    {"qwen2 stablelm2 hunyuan megrez deepseek-r1-qwen solar-open", {LLAMA3("")}},
    {"falcon", {"[\\p{P}\\$\\+<=>\\^~\\|`]+", PC__GPT2_EXPRESSION, "[0-9][0-9][0-9]"}},
    {"starcoder refact command-r smollm codeshell exaone minerva-7b",
     {"\\p{N}", PC__GPT2_EXPRESSION}},
    {"deepseek-coder", {"[\\r\\n]", "\\s?\\p{L}+", "\\s?\\p{P}+", CJK, "\\p{N}"}},
    {"deepseek-llm",
     {"[\\r\\n]", CASED,
      "\\s?[!-/:-~\\x{ff01}-\\x{ff0f}\\x{ff1a}-\\x{ff5e}\\x{2018}-\\x{201f}\\x{3000}-\\x{3002}]+",
      "\\s+$", CJK, "\\p{N}+"}},
    {"default", {"[\\p{P}\\$\\+<=>\\^~\\|]+", PC__GPT2_EXPRESSION, "\\p{N}+", "[0-9][0-9][0-9]"}},
    {"bloom poro-chat gpt3-finnish",
     {" ?[^(\\s|.,!?\\x{2026}\\x{3002}\\x{ff0c}\\x{3001}\\x{964}\\x{6d4}\\x{60c})]+"}},
};

static void *regex_alloc(PCRE2_SIZE size, void *mem)
{
    return pc__alloc(mem, size);
}

static void regex_free(void *ptr, void *mem)
{
    pc__free(mem, ptr);
}

pc_status pc__expression_compile(pcre2_code **out, pcre2_general_context **memory,
                                 const pc_allocator *mem, const char *expression, const char *where)
{
    int code;
    PCRE2_SIZE offset;
    pcre2_compile_context *context;
    *out = NULL;
    if (!*memory
        && !(*memory = pcre2_general_context_create(regex_alloc, regex_free,
                                                    (void *)(uintptr_t)mem)))
        return PC_ERR_NOMEM;
    if (!(context = pcre2_compile_context_create(*memory)))
        return PC_ERR_NOMEM;
    *out = pcre2_compile((PCRE2_SPTR)expression, PCRE2_ZERO_TERMINATED,
                         PCRE2_UTF | PCRE2_UCP | PCRE2_MATCH_INVALID_UTF, &code, &offset, context);
    pcre2_compile_context_free(context);
    if (!*out)
        return code == PCRE2_ERROR_NOMEMORY || code == 121
                   ? PC_ERR_NOMEM
                   : pc__fail(PC_ERR_UNSUPPORTED,
                              "%s: pre-tokenizer expression, character %zu: PCRE2 error %d", where,
                              offset, code);
    /* without JIT matching is slower, nothing else */
    (void)pcre2_jit_compile(*out, PCRE2_JIT_COMPLETE);
    return PC_OK;
}

pc_status pc__expression_add(pc__tokenizer *t, const char *expression, const char *where)
{
    if (t->expressions == PC__MAX_EXPRESSIONS)
        return pc__fail(PC_ERR_UNSUPPORTED, "%s: more than %d pre-tokenizer expressions", where,
                        PC__MAX_EXPRESSIONS);
    PC__TRY_RETURN(pc__expression_compile(&t->expression[t->expressions], &t->regex_memory, &t->mem,
                                          expression, where));
    t->expressions++;
    pc__digest digest;
    pc__digest_start(&digest, "expression/1");
    pc__digest_bytes(&digest, t->expressions_id.bytes, sizeof t->expressions_id.bytes);
    pc__digest_text(&digest, expression);
    t->expressions_id = pc__digest_end(&digest);
    return PC_OK;
}

pc_status pc__expressions_of(pc__tokenizer *t, const char *family, const char *where)
{
    for (size_t i = 0; i < sizeof expression_families / sizeof *expression_families; i++) {
        const struct expression_family *f = &expression_families[i];
        if (!pc__is_listed(f->names, family))
            continue;
        t->rules.ignore_merges = t->rules.ignore_merges || i == 1;
        for (size_t e = 0; e < PC__MAX_EXPRESSIONS && f->expression[e]; e++)
            PC__TRY_RETURN(pc__expression_add(t, f->expression[e], where));
        return PC_OK;
    }
    return pc__fail(PC_ERR_UNSUPPORTED, "%s: pre-tokenizer '%s' is not known", where, family);
}

/* KiB of a match without JIT. PCRE2 itself limits the length of a search. */
enum { HEAP_LIMIT = 64 << 10 };

pcre2_match_context *pc__expression_limits(pcre2_general_context *memory)
{
    pcre2_match_context *limits = pcre2_match_context_create(memory);
    if (limits)
        pcre2_set_heap_limit(limits, HEAP_LIMIT);
    return limits;
}

pc_status pc__expression_match(const pcre2_code *expression, pcre2_match_context *limits,
                               pcre2_match_data *match, const char *text, size_t size, size_t at,
                               const char *what, size_t *from, size_t *to)
{
    int n = pcre2_match(expression, (PCRE2_SPTR)text, size, at, 0, match, limits);
    const PCRE2_SIZE *span = pcre2_get_ovector_pointer(match);
    *from = *to = at;
    if (n == PCRE2_ERROR_NOMATCH)
        return PC_MISS;
    if (n < 0)
        return n == PCRE2_ERROR_NOMEMORY ? PC_ERR_NOMEM
                                         : pc__fail(PC_ERR_LIMIT, "%s: PCRE2 error %d", what, n);
    *from = span[0];
    *to = span[1];
    return *to <= *from || *from < at ? PC_MISS : PC_OK; /* empty, or moved by \K */
}

typedef struct expression_splitter {
    const pc__tokenizer *t;
    pcre2_match_context *limits;
    pcre2_match_data *match[PC__MAX_EXPRESSIONS];
    pc_status (*piece)(void *, const char *, size_t);
    void *user;
} expression_splitter;

static pc_status split(const expression_splitter *c, size_t level, const char *text, size_t size)
{
    size_t at = 0;
    if (level == c->t->expressions)
        return size ? c->piece(c->user, text, size) : PC_OK;
    while (at < size) {
        size_t from, to;
        pc_status status;
        PC__TRY_RETURN(status = pc__expression_match(c->t->expression[level], c->limits,
                                                     c->match[level], text, size, at,
                                                     "pre-tokenizer", &from, &to));
        if (status == PC_MISS)
            return split(c, level + 1, text + at, size - at);
        if (from > at)
            PC__TRY_RETURN(split(c, level + 1, text + at, from - at));
        PC__TRY_RETURN(split(c, level + 1, text + from, to - from));
        at = to;
    }
    return PC_OK;
}

pc_status pc__expressions_split(const pc__tokenizer *t, const char *text, size_t size,
                                pc_status (*piece)(void *user, const char *text, size_t size),
                                void *user)
{
    expression_splitter c = {.t = t, .piece = piece, .user = user};
    pc_status status = PC_OK;
    if (!t->expressions)
        return size ? piece(user, text, size) : PC_OK;
    if (!(c.limits = pc__expression_limits(t->regex_memory)))
        return PC_ERR_NOMEM;
    for (size_t i = 0; i < t->expressions && status >= 0; i++)
        if (!(c.match[i] = pcre2_match_data_create_from_pattern(t->expression[i], t->regex_memory)))
            status = PC_ERR_NOMEM;
    if (status >= 0)
        status = split(&c, 0, text, size);
    for (size_t i = 0; i < t->expressions; i++)
        pcre2_match_data_free(c.match[i]);
    pcre2_match_context_free(c.limits);
    return status;
}
