/* The steps of a normaliser. Owns their texts, charsmaps and expressions. */
#include "text/normalise.h"

#include <string.h>
#include <utf8proc.h>

#include "base/mem.h"
#include "text/tokenizer_internal.h"

/* Limits of a text's growth. Compatibility forms make at most 18 characters of one. */
enum { MOST_GROWTH = 32, MOST_EXTRA = 16 << 10 };
enum { MOST_STEPS = 64 };
enum { CLUSTER = 6 }; /* bytes; only shorter clusters are looked up as one */

pc_status pc__steps_new(pc__steps **out, const pc_allocator *mem)
{
    pc__steps *s = *out = pc__calloc(mem, 1, sizeof *s);
    if (!s)
        return PC_ERR_NOMEM;
    s->mem = *mem;
    return PC_OK;
}

void pc__steps_free(pc__steps *s)
{
    if (!s)
        return;
    pc_allocator mem = s->mem;
    for (size_t i = 0; i < s->count; i++) {
        pc__free(&mem, s->list[i].from);
        pc__free(&mem, s->list[i].to);
        pc__charsmap_free(&s->list[i].map, &mem);
        pcre2_code_free(s->list[i].expression);
    }
    pcre2_general_context_free(s->regex_memory);
    pc__free(&mem, s->list);
    pc__free(&mem, s);
}

/* Adds a zeroed step; its kind and option become part of the id. */
static pc_status add_step(pc__steps *s, pc__step_kind kind, int option, pc__step **out)
{
    pc__digest digest;
    if (s->count == MOST_STEPS)
        return pc__fail(PC_ERR_UNSUPPORTED, "the normalizer has more than %d steps", MOST_STEPS);
    PC__TRY_RETURN(
        pc__grow(&s->mem, (void **)&s->list, &s->capacity, s->count + 1, sizeof *s->list));
    pc__digest_start(&digest, "step/1");
    pc__digest_bytes(&digest, s->id.bytes, sizeof s->id.bytes);
    pc__digest_i32(&digest, (const int32_t[]){(int32_t)kind, option}, 2);
    s->id = pc__digest_end(&digest);
    *out = &s->list[s->count++];
    **out = (pc__step){.kind = kind, .option = option};
    return PC_OK;
}

static void add_to_id(pc__steps *s, const void *bytes, size_t size)
{
    pc__digest digest;
    pc__digest_start(&digest, "step-text/1");
    pc__digest_bytes(&digest, s->id.bytes, sizeof s->id.bytes);
    pc__digest_bytes(&digest, bytes, size);
    s->id = pc__digest_end(&digest);
}

pc_status pc__steps_add(pc__steps *s, pc__step_kind kind, int option)
{
    pc__step *step;
    return add_step(s, kind, option, &step);
}

pc_status pc__steps_add_map(pc__steps *s, pc__step_kind kind, const void *bytes, size_t size,
                            const char *where)
{
    pc__step *step;
    PC__TRY_RETURN(add_step(s, kind, 0, &step));
    add_to_id(s, bytes, size);
    return pc__charsmap_new(&step->map, &s->mem, bytes, size, where);
}

pc_status pc__steps_add_texts(pc__steps *s, pc__step_kind kind, pc__text from, pc__text to,
                              const char *where)
{
    pc__step *step;
    PC__TRY_RETURN(add_step(s, kind, 0, &step));
    step->from = pc__strndup(&s->mem, from.data, from.size);
    step->to = pc__strndup(&s->mem, to.data, to.size);
    if (!step->from || !step->to)
        return PC_ERR_NOMEM;
    step->from_size = from.size;
    step->to_size = to.size;
    add_to_id(s, from.data, from.size);
    add_to_id(s, to.data, to.size);
    return kind == PC__STEP_EXPRESSION ? pc__expression_compile(&step->expression, &s->regex_memory,
                                                                &s->mem, step->from, where)
                                       : PC_OK;
}

/* ---------------------------------------------------------------- the steps */

static int is_printable(char c)
{
    return c >= ' ' && c <= '~';
}

/* The size of the grapheme cluster at `text`. An invalid byte is a cluster of its own. */
static size_t cluster_size(const char *text, size_t size)
{
    utf8proc_int32_t state = 0;
    uint32_t before, after;
    int valid;
    size_t n = pc__utf8_read(text, size, &before, &valid), more;
    if (!valid || n == size || (is_printable(*text) && is_printable(text[1])))
        return n;
    for (; n < size; n += more, before = after) {
        more = pc__utf8_read(text + n, size - n, &after, &valid);
        if (!valid
            || utf8proc_grapheme_break_stateful((utf8proc_int32_t)before, (utf8proc_int32_t)after,
                                                &state))
            break;
    }
    return n;
}

/* Replacements may be long and frequent, so their output is limited. */
static pc_status add_limited(pc__bytes *out, const char *text, size_t size, size_t most)
{
    return out->size + size > most ? pc__fail(
               PC_ERR_LIMIT, "normalizer: the text has grown to more than %zu bytes", most)
                                   : pc__bytes_add(out, text, size);
}

static pc_status map_characters(const pc__step *step, const char *text, size_t size, size_t most,
                                pc__bytes *out)
{
    pc__text to;
    for (pc__character c = {0}; pc__utf8_next(text, size, &c);)
        PC__TRY_RETURN(pc__charsmap_find(&step->map, text + c.at, c.size, 1, &to)
                           ? add_limited(out, to.data, to.size, most)
                           : pc__bytes_add(out, text + c.at, c.size));
    return PC_OK;
}

static pc_status map_clusters(const pc__step *step, const char *text, size_t size, size_t most,
                              pc__bytes *out)
{
    pc__text to;
    for (size_t i = 0, n; i < size; i += n) {
        n = cluster_size(text + i, size - i);
        PC__TRY_RETURN(n < CLUSTER && pc__charsmap_find(&step->map, text + i, n, 1, &to)
                           ? add_limited(out, to.data, to.size, most)
                           : map_characters(step, text + i, n, most, out));
    }
    return PC_OK;
}

static pc_status map_longest(const pc__step *step, const char *text, size_t size, size_t most,
                             pc__bytes *out)
{
    for (pc__character c = {0}; pc__utf8_next(text, size, &c);) {
        pc__text to = {text + c.at, c.size};
        size_t n = pc__charsmap_find(&step->map, text + c.at, size - c.at, 0, &to);
        c.size = n ? n : c.size;
        PC__TRY_RETURN(add_limited(out, to.data, to.size, most));
    }
    return PC_OK;
}

/* The buffer of code points is ours: utf8proc_map would not use the caller's allocator. */
pc_status pc__normal_form(int option, const char *text, size_t size, pc__bytes *out)
{
    utf8proc_option_t options = (utf8proc_option_t)option;
    utf8proc_ssize_t n = utf8proc_decompose((const utf8proc_uint8_t *)text, (utf8proc_ssize_t)size,
                                            NULL, 0, options);
    utf8proc_int32_t *code_points;
    if (n < 0 || !size)
        return pc__bytes_add(out, text, size);
    if (!(code_points = pc__alloc(out->mem, ((size_t)n + 1) * sizeof *code_points)))
        return PC_ERR_NOMEM;
    utf8proc_decompose((const utf8proc_uint8_t *)text, (utf8proc_ssize_t)size, code_points, n,
                       options);
    n = utf8proc_reencode(code_points, n, options);
    pc_status status = pc__bytes_add(out, code_points, (size_t)n);
    pc__free(out->mem, code_points);
    return status;
}

static pc_status normal_forms(const pc__step *step, const char *text, size_t size, pc__bytes *out)
{
    size_t from = 0;
    for (pc__character c = {0}; pc__utf8_next(text, size, &c);) {
        if (c.valid)
            continue;
        PC__TRY_RETURN(pc__normal_form(step->option, text + from, c.at - from, out));
        from = c.at + 1;
        PC__TRY_RETURN(pc__bytes_add(out, text + c.at, 1));
    }
    return pc__normal_form(step->option, text + from, size - from, out);
}

static size_t lowercase(uint32_t c, char out[8])
{
    if (c != 0x130) /* the only one that becomes two characters */
        return pc__utf8_write((uint32_t)utf8proc_tolower((utf8proc_int32_t)c), out);
    memcpy(out, "i\xcc\x87", 3);
    return 3;
}

static int is_mark(uint32_t c)
{
    utf8proc_category_t k = utf8proc_category((utf8proc_int32_t)c);
    return k == UTF8PROC_CATEGORY_MN || k == UTF8PROC_CATEGORY_MC || k == UTF8PROC_CATEGORY_ME;
}

static int is_control(uint32_t c)
{
    return (c >= 1 && c <= 8) || c == 11 || (c >= 14 && c <= 31) || c == 127 || c == 0x8f
           || c == 0x9f;
}

static int becomes_blank(uint32_t c)
{
    return c == 9 || c == 10 || c == 12 || c == 13 || c == 0x1680 || (c >= 0x200b && c <= 0x200f)
           || c == 0x2028 || c == 0x2029 || c == 0x2581 || c == 0xfeff || c == 0xfffd;
}

static pc_status change_characters(const pc__step *step, const char *text, size_t size,
                                   pc__bytes *out)
{
    for (pc__character c = {0}; pc__utf8_next(text, size, &c);) {
        char buffer[8];
        pc__text to = {text + c.at, c.size};
        int strip = step->kind == PC__STEP_STRIP_MARKS;
        if (c.valid && step->kind == PC__STEP_LOWERCASE)
            to = (pc__text){buffer, lowercase(c.code_point, buffer)};
        else if (c.valid && (strip ? is_mark(c.code_point) : is_control(c.code_point)))
            continue;
        else if (c.valid && step->kind == PC__STEP_CONTROLS && becomes_blank(c.code_point))
            to = (pc__text){" ", 1};
        PC__TRY_RETURN(pc__bytes_add(out, to.data, to.size));
    }
    return PC_OK;
}

static pc_status strip_blanks(const pc__step *step, const char *text, size_t size, pc__bytes *out)
{
    size_t first = 0, end = 0;
    for (pc__character c = {0}; pc__utf8_next(text, size, &c);)
        if (!c.valid || !pc__code_point_is_blank(c.code_point))
            end = c.at + c.size;
        else if (!end)
            first = c.at + c.size;
    if (!(step->option & 1))
        first = 0;
    if (!(step->option & 2))
        end = size;
    return pc__bytes_add(out, text + first, end > first ? end - first : 0);
}

static pc_status join_blanks(const char *text, size_t size, pc__bytes *out)
{
    int begun = 0;
    for (size_t i = 0, n; i < size; i += n) {
        const char *blank = memchr(text + i, ' ', size - i);
        n = blank ? (size_t)(blank - text) - i : size - i;
        if (n && begun)
            PC__TRY_RETURN(pc__bytes_add(out, " ", 1));
        if (n)
            PC__TRY_RETURN(pc__bytes_add(out, text + i, n));
        begun |= n > 0;
        n += blank != NULL;
    }
    return PC_OK;
}

/* Finds the step's text from `at` on. */
static int find_text(const pc__step *step, const char *text, size_t size, size_t at, size_t *from)
{
    while (step->from_size && at + step->from_size <= size) {
        const char *first = memchr(text + at, step->from[0], size - at - step->from_size + 1);
        if (!first)
            return 0;
        if (!memcmp(first, step->from, step->from_size)) {
            *from = (size_t)(first - text);
            return 1;
        }
        at = (size_t)(first - text) + 1;
    }
    return 0;
}

static pc_status replace_text(const pc__step *step, const char *text, size_t size, size_t most,
                              pc__bytes *out)
{
    size_t at = 0, from = 0;
    while (find_text(step, text, size, at, &from)) {
        PC__TRY_RETURN(pc__bytes_add(out, text + at, from - at));
        PC__TRY_RETURN(add_limited(out, step->to, step->to_size, most));
        at = from + step->from_size;
    }
    return pc__bytes_add(out, text + at, size - at);
}

static pc_status replace_matches(const pc__step *step, pcre2_match_context *limits,
                                 pcre2_match_data *match, const char *text, size_t size,
                                 size_t most, pc__bytes *out)
{
    size_t at = 0;
    while (at < size) {
        size_t from, to;
        pc_status status;
        PC__TRY_RETURN(status = pc__expression_match(step->expression, limits, match, text, size,
                                                     at, "normalizer", &from, &to));
        if (status == PC_MISS || to == from)
            break;
        PC__TRY_RETURN(pc__bytes_add(out, text + at, from - at));
        PC__TRY_RETURN(add_limited(out, step->to, step->to_size, most));
        at = to;
    }
    return pc__bytes_add(out, text + at, size - at);
}

static pc_status expression(const pc__steps *s, const pc__step *step, const char *text, size_t size,
                            size_t most, pc__bytes *out)
{
    pcre2_match_context *limits = pc__expression_limits(s->regex_memory);
    pcre2_match_data *match = limits ? pcre2_match_data_create_from_pattern(step->expression,
                                                                            s->regex_memory)
                                     : NULL;
    pc_status status = PC_ERR_NOMEM;
    if (match)
        status = replace_matches(step, limits, match, text, size, most, out);
    pcre2_match_data_free(match);
    pcre2_match_context_free(limits);
    return status;
}

static pc_status run_step(const pc__steps *s, const pc__step *step, const char *text, size_t size,
                          size_t most, pc__bytes *out)
{
    switch (step->kind) {
    case PC__STEP_MAP_CLUSTERS:
        return map_clusters(step, text, size, most, out);
    case PC__STEP_MAP_LONGEST:
        return map_longest(step, text, size, most, out);
    case PC__STEP_UNICODE:
        return normal_forms(step, text, size, out);
    case PC__STEP_STRIP:
        return strip_blanks(step, text, size, out);
    case PC__STEP_ONE_BLANK:
        return join_blanks(text, size, out);
    case PC__STEP_REPLACE:
        return replace_text(step, text, size, most, out);
    case PC__STEP_EXPRESSION:
        return expression(s, step, text, size, most, out);
    case PC__STEP_PREPEND:
        if (!size)
            return PC_OK;
        pc_status status = pc__bytes_add(out, step->to, step->to_size);
        return status < 0 ? status : pc__bytes_add(out, text, size);
    case PC__STEP_LOWERCASE:
    case PC__STEP_STRIP_MARKS:
    case PC__STEP_CONTROLS:
        break;
    }
    return change_characters(step, text, size, out);
}

pc_status pc__steps_run(const pc__steps *s, const char *text, size_t size, pc__bytes *out)
{
    pc__bytes other = {.mem = out->mem};
    size_t most = size * MOST_GROWTH + MOST_EXTRA;
    out->size = 0;
    pc_status status = s->count ? run_step(s, &s->list[0], text, size, most, out)
                                : pc__bytes_add(out, text, size);
    for (size_t i = 1; i < s->count && status >= 0; i++) {
        pc__bytes before = *out;
        *out = other;
        other = before;
        out->size = 0;
        status = run_step(s, &s->list[i], other.data ? other.data : "", other.size, most, out);
        if (status >= 0 && out->size > most)
            status = pc__fail(PC_ERR_LIMIT, "normalizer: the text has grown to more than %zu bytes",
                              most);
    }
    pc__bytes_free(&other);
    return status;
}
