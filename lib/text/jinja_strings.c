/* Strings of the Jinja interpreter, as Python's. */
#include <utf8proc.h>

#include "text/jinja_internal.h"

static const char *last_character(pc__text text)
{
    const char *p = text.data + text.size - 1;
    while (p > text.data && ((unsigned char)*p & 0xc0) == 0x80)
        p--;
    return p;
}

static size_t first_size(pc__text text)
{
    uint32_t c;
    int valid;
    return pc__utf8_read(text.data, text.size, &c, &valid);
}

/* Whether the character, of `size` bytes, is stripped. */
static int is_stripped(pc__jinja *j, const char *at, size_t size, const pc__jvalue *set)
{
    if (set->kind == PC__J_STRING)
        return set->text.size && pc__j_find(j, set->text, (pc__text){at, size}) != NULL;
    return pc__j_step(j) && pc__j_blank_size(at, at + size) == size;
}

pc__jvalue pc__j_strip(pc__jinja *j, pc__jvalue value, const pc__jvalue *set, int sides)
{
    pc__text left = value.text, *text = &left;
    if (set->kind != PC__J_STRING && set->kind != PC__J_NONE)
        return pc__j_fail(j, PC_ERR_FORMAT, "strip() needs a string");
    while (sides & PC__J_LEFT && text->size && j->status >= 0) {
        size_t n = first_size(*text);
        if (!is_stripped(j, text->data, n, set))
            break;
        *text = (pc__text){text->data + n, text->size - n};
    }
    while (sides & PC__J_RIGHT && text->size && j->status >= 0) {
        const char *last = last_character(*text);
        if (!is_stripped(j, last, (size_t)(text->data + text->size - last), set))
            break;
        text->size = (size_t)(last - text->data);
    }
    return pc__j_part(&value, left);
}

/* ------------------------------------------------------------------ letters */

/* Whether Python makes several characters of this one, or looks at its neighbours. */
static int is_special(uint32_t c, int raise)
{
    if (!raise)
        return c == 0x130 || c == 0x3a3;
    return c == 0xdf || c == 0x149 || c == 0x1f0 || c == 0x390 || c == 0x3b0 || c == 0x587
           || (c >= 0x1e96 && c <= 0x1e9a) || (c >= 0x1f50 && c <= 0x1fff)
           || (c >= 0xfb00 && c <= 0xfb17);
}

/* Whether the letter after this one is inside of a word, for title(). */
static int is_cased(pc__jinja *j, uint32_t c)
{
    utf8proc_category_t kind = utf8proc_category((utf8proc_int32_t)c);
    if (kind == UTF8PROC_CATEGORY_LM || kind == UTF8PROC_CATEGORY_NL || c == 0x345 || c == 0xaa
        || c == 0xba || (c >= 0x24b6 && c <= 0x24e9))
        pc__j_fail(j, PC_ERR_UNSUPPORTED, "title() of such letters is not understood");
    return kind == UTF8PROC_CATEGORY_LU || kind == UTF8PROC_CATEGORY_LL
           || kind == UTF8PROC_CATEGORY_LT;
}

static int32_t change_letter(pc__jinja *j, uint32_t c, int raise, int how)
{
    if (c < 0x80) {
        int small = c >= 'a' && c <= 'z', large = c >= 'A' && c <= 'Z';
        return (int32_t)(raise && small ? c - 32 : !raise && large ? c + 32 : c);
    }
    if (is_special(c, raise))
        pc__j_fail(j, PC_ERR_UNSUPPORTED, "the case of such letters is not understood");
    return !raise                                       ? utf8proc_tolower((utf8proc_int32_t)c)
           : how == PC__J_CAPITAL || how == PC__J_TITLE ? utf8proc_totitle((utf8proc_int32_t)c)
                                                        : utf8proc_toupper((utf8proc_int32_t)c);
}

/* What a word of Jinja's filter title begins after. */
static int separates(uint32_t c, const char *at, size_t size)
{
    return (c < 0x80 && c && strchr("-({[<", (int)c)) || pc__j_blank_size(at, at + size) == size;
}

pc__jvalue pc__j_change_case(pc__jinja *j, pc__jvalue value, int how)
{
    pc__text text = value.text;
    char *copy = pc__j_alloc(j, 2 * text.size + 4);
    unsigned char *origin = value.origin ? pc__j_alloc(j, 2 * text.size + 4) : NULL;
    pc__character c = {0};
    size_t n = 0;
    int inside = 0;
    pc__j_look(j, &value);
    while (copy && pc__j_step(j) && pc__utf8_next(text.data, text.size, &c)) {
        int raise = how == PC__J_UPPER || (how == PC__J_CAPITAL && !c.at)
                    || (how >= PC__J_TITLE && !inside);
        size_t before = n;
        if (c.valid)
            n += pc__utf8_write((uint32_t)change_letter(j, c.code_point, raise, how), copy + n);
        else
            copy[n++] = text.data[c.at];
        if (origin)
            memset(origin + before, value.origin[c.at], n - before);
        if (!c.valid)
            continue;
        if (how == PC__J_TITLE)
            inside = is_cased(j, c.code_point);
        else if (how == PC__J_TITLE_FILTER)
            inside = !separates(c.code_point, text.data + c.at, c.size);
    }
    if (j->status < 0)
        return (pc__jvalue){0};
    return (pc__jvalue){.kind = PC__J_STRING, .origin = origin, .text = {copy, n}};
}

/* ------------------------------------------------------------------ parts */

static void drop_start(pc__text *text, size_t size)
{
    text->data += size;
    text->size -= size;
}

/* At white space: runs of it separate, those at the ends do not count. */
static pc__jvalue split_words(pc__jinja *j, const pc__jvalue *value, int64_t most)
{
    pc__jvalue list = pc__j_list(j, PC__J_LIST), none = {.kind = PC__J_NONE};
    pc__text rest = pc__j_strip(j, *value, &none, PC__J_LEFT).text;
    while (rest.size && pc__j_charge(j, 1)) {
        const char *p = rest.data, *end = rest.data + rest.size;
        if (!most--) {
            pc__j_add(j, list, pc__j_strip(j, pc__j_part(value, rest), &none, PC__J_RIGHT));
            break;
        }
        while (p < end && !pc__j_blank_size(p, end))
            p++;
        pc__j_add(j, list, pc__j_part(value, (pc__text){rest.data, (size_t)(p - rest.data)}));
        pc__j_charge(j, (size_t)(p - rest.data));
        drop_start(&rest, (size_t)(p - rest.data));
        rest = pc__j_strip(j, pc__j_part(value, rest), &none, PC__J_LEFT).text;
    }
    return list;
}

/* `most`: of splits; negative: all. */
pc__jvalue pc__j_split(pc__jinja *j, pc__jvalue value, const pc__jvalue *at, int64_t most)
{
    pc__jvalue list;
    pc__text rest = value.text;
    const char *found;
    if (at->kind == PC__J_NONE)
        return split_words(j, &value, most);
    if (at->kind != PC__J_STRING || !at->text.size)
        return pc__j_fail(j, PC_ERR_FORMAT, "split() needs a separator that is not empty");
    list = pc__j_list(j, PC__J_LIST);
    while (most-- && j->status >= 0
           && (found = memmem(rest.data, rest.size, at->text.data, at->text.size))) {
        size_t n = (size_t)(found - rest.data);
        pc__j_charge(j, n + at->text.size);
        pc__j_add(j, list, pc__j_part(&value, (pc__text){rest.data, n}));
        drop_start(&rest, n + at->text.size);
    }
    pc__j_charge(j, rest.size);
    pc__j_add(j, list, pc__j_part(&value, rest));
    return list;
}

pc__jvalue pc__j_replace(pc__jinja *j, pc__jvalue value, pc__jvalue old, pc__jvalue new,
                         int64_t most)
{
    if (j->status >= 0 && !old.text.size)
        return pc__j_fail(j, PC_ERR_UNSUPPORTED, "replace() of an empty text is not understood");
    pc__jvalue parts = pc__j_split(j, value, &old, most);
    return j->status >= 0 ? pc__j_join_list(j, parts, new) : parts;
}
