/* The regular expressions by which vocabularies split text into words, through PCRE2. Several are
 * applied in turn: each splits the parts that the one before has left. */
#include "base/mem.h"
#include "text/tokenizer_internal.h"

static void *regex_alloc(PCRE2_SIZE size, void *mem)
{
    return pc__alloc(mem, size);
}

static void regex_free(void *ptr, void *mem)
{
    pc__free(mem, ptr);
}

static pc_status compile(pcre2_code **out, pcre2_general_context **memory, const pc_allocator *mem,
                         const char *expression, const char *where)
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

pc_status pc__expression_compile(pcre2_code **out, pcre2_general_context **memory,
                                 const pc_allocator *mem, const char *expression, const char *where)
{
    pc__bytes translated = {.mem = mem};
    pc_status status = pc__expression_translate(expression, where, &translated);
    *out = NULL;
    if (status >= 0)
        status = compile(out, memory, mem, translated.data, where);
    pc__bytes_free(&translated);
    return status;
}

pc_status pc__expression_add(pc__tokenizer *t, const pc__split *split, const char *where)
{
    if (t->expressions == PC__MAX_EXPRESSIONS)
        return pc__fail(PC_ERR_UNSUPPORTED, "%s: more than %d pre-tokenizer expressions", where,
                        PC__MAX_EXPRESSIONS);
    PC__TRY_RETURN(pc__expression_compile(&t->expression[t->expressions], &t->regex_memory, &t->mem,
                                          split->expression, where));
    t->parts[t->expressions] = split->parts;
    t->inverted[t->expressions++] = split->inverted;
    pc__digest digest;
    pc__digest_start(&digest, "expression/1");
    pc__digest_bytes(&digest, t->expressions_id.bytes, sizeof t->expressions_id.bytes);
    pc__digest_text(&digest, split->expression);
    if (split->parts != PC__PARTS_ALL)
        pc__digest_i32(&digest, (const int32_t[]){(int32_t)split->parts, split->inverted}, 2);
    t->expressions_id = pc__digest_end(&digest);
    return PC_OK;
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
    return *to < *from || *from < at ? PC_MISS : PC_OK; /* moved by \K */
}

typedef struct expression_splitter {
    const pc__tokenizer *t;
    const char *searched, *given; /* the same text; what is searched may have a character hidden */
    pcre2_match_context *limits;
    pcre2_match_data *match[PC__MAX_EXPRESSIONS];
    pc_status (*piece)(void *, const char *, size_t);
    void *user;
} expression_splitter;

/* A stretch of text that becomes a part when the next stretch does not join it. */
typedef struct stretch {
    const char *text;
    size_t size;
    int match;
} stretch;

static pc_status split(const expression_splitter *c, size_t level, const char *text, size_t size);

static pc_status flush(const expression_splitter *c, size_t level, stretch *waiting)
{
    size_t size = waiting->size;
    waiting->size = 0;
    return size ? split(c, level + 1, waiting->text, size) : PC_OK;
}

/* The next match, or what lies before it. */
static pc_status add_stretch(const expression_splitter *c, size_t level, stretch *waiting,
                             const char *text, size_t size, int match)
{
    pc__parts parts = c->t->parts[level];
    int joins = 0;
    if (parts == PC__PARTS_ALL) /* nothing waits */
        return size ? split(c, level + 1, text, size) : PC_OK;
    match ^= c->t->inverted[level];
    if (!size || (match && parts == PC__PARTS_BETWEEN))
        return PC_OK;
    if (waiting->size)
        joins = parts == PC__PARTS_RUNS          ? match == waiting->match
                : parts == PC__PARTS_MATCH_LAST  ? match && !waiting->match
                : parts == PC__PARTS_MATCH_FIRST ? !match && waiting->match
                                                 : 0;
    if (!joins) {
        PC__TRY_RETURN(flush(c, level, waiting));
        *waiting = (stretch){.text = text};
    }
    waiting->match = parts == PC__PARTS_MATCH_FIRST && joins ? 0 : match;
    waiting->size += size;
    return parts == PC__PARTS_BETWEEN ? flush(c, level, waiting) : PC_OK;
}

static pc_status split(const expression_splitter *c, size_t level, const char *text, size_t size)
{
    size_t begin = 0, at = 0; /* of what no match has taken; of the search */
    stretch waiting = {0};
    if (level == c->t->expressions)
        return size ? c->piece(c->user, c->given + (text - c->searched), size) : PC_OK;
    while (at < size) {
        size_t from, to;
        pc_status status;
        PC__TRY_RETURN(status = pc__expression_match(c->t->expression[level], c->limits,
                                                     c->match[level], text, size, at,
                                                     "pre-tokenizer", &from, &to));
        if (status == PC_MISS)
            break;
        PC__TRY_RETURN(add_stretch(c, level, &waiting, text + begin, from - begin, 0));
        PC__TRY_RETURN(add_stretch(c, level, &waiting, text + from, to - from, 1));
        begin = at = to;
        if (to == from && to < size) { /* an empty match only cuts */
            uint32_t code_point;
            int valid;
            at += pc__utf8_read(text + to, size - to, &code_point, &valid);
        }
    }
    PC__TRY_RETURN(add_stretch(c, level, &waiting, text + begin, size - begin, 0));
    return flush(c, level, &waiting);
}

/* U+180E is a blank to PCRE2's \s, though not to Unicode since 6.3. In its place stands U+2060,
 * which has the same size and general category. *out stays empty if there is none. */
static pc_status hide_vowel_separator(const char *text, size_t size, pc__bytes *out)
{
    const char *at = memmem(text, size, "\xe1\xa0\x8e", 3);
    if (!at)
        return PC_OK;
    PC__TRY_RETURN(pc__bytes_add(out, text, size));
    for (char *c = out->data + (at - text), *end = out->data + size; c;
         c = memmem(c, (size_t)(end - c), "\xe1\xa0\x8e", 3))
        memcpy(c, "\xe2\x81\xa0", 3);
    return PC_OK;
}

pc_status pc__expressions_split(const pc__tokenizer *t, const char *text, size_t size,
                                pc_status (*piece)(void *user, const char *text, size_t size),
                                void *user)
{
    expression_splitter c = {.t = t, .piece = piece, .user = user};
    pc__bytes hidden = {.mem = &t->mem};
    pc_status status = PC_OK;
    if (!t->expressions)
        return size ? piece(user, text, size) : PC_OK;
    PC__TRY_RETURN(hide_vowel_separator(text, size, &hidden));
    c.given = text;
    c.searched = text = hidden.size ? hidden.data : text;
    if (!(c.limits = pc__expression_limits(t->regex_memory)))
        status = PC_ERR_NOMEM;
    for (size_t i = 0; i < t->expressions && status >= 0; i++)
        if (!(c.match[i] = pcre2_match_data_create_from_pattern(t->expression[i], t->regex_memory)))
            status = PC_ERR_NOMEM;
    if (status >= 0)
        status = split(&c, 0, text, size);
    for (size_t i = 0; i < t->expressions; i++)
        pcre2_match_data_free(c.match[i]);
    pcre2_match_context_free(c.limits);
    pc__bytes_free(&hidden);
    return status;
}
