/* From JSON to normaliser steps and token rules. */
#include <sodium.h>
#include <string.h>
#include <utf8proc.h>

#include "text/tokenizer_json_internal.h"

typedef struct steps_reading {
    const char *where;
    const pc_allocator *mem;
    pc__steps *steps;
    pc__token_rules *rules;
    int read_metaspace;
} steps_reading;

static const json_t *json_member(const json_t *object, const char *key)
{
    return json_object_get(object, key);
}

/* A boolean that may be absent. */
static int flag(const json_t *object, const char *key, int otherwise)
{
    const json_t *value = json_member(object, key);
    return json_is_boolean(value) ? json_is_true(value) : otherwise;
}

static pc_status unknown_step(const steps_reading *r, const char *part, const json_t *object)
{
    return pc__fail(PC_ERR_UNSUPPORTED, "%s: %s of type '%s' is not known, or has an unknown form",
                    r->where, part, pc__json_text(object, "type").data);
}

static int is_blank_mark(pc__text text)
{
    return text.size == PC__BLANK_MARK_SIZE && pc__starts_with_mark(text.data, text.size);
}

/* Reads one part, or each part of a sequence. PC_MISS: there is none. */
static pc_status read_each(steps_reading *r, const char *part, const char *key,
                           const json_t *object, pc_status (*one)(steps_reading *, const json_t *))
{
    json_t *item;
    size_t i;
    if (!object || json_is_null(object))
        return PC_MISS;
    if (!json_is_object(object))
        return pc__fail(PC_ERR_FORMAT, "%s: %s is not an object", r->where, part);
    if (!pc__json_has_type(object, "Sequence"))
        return one(r, object);
    if (!json_is_array(json_member(object, key)))
        return pc__fail(PC_ERR_FORMAT, "%s: %s of a sequence is not a list", r->where, key);
    json_array_foreach(json_member(object, key), i, item)
        PC__TRY_RETURN(read_each(r, part, key, item, one));
    return PC_OK;
}

/* ------------------------------------------------------------- normalizers */

static pc_status read_charsmap(steps_reading *r, const json_t *n)
{
    const json_t *value = json_member(n, "precompiled_charsmap");
    size_t length = json_string_length(value), size = 0;
    uint8_t *bytes;
    pc_status status = PC_OK;
    if (!value || json_is_null(value) || (json_is_string(value) && !length))
        return PC_OK;
    if (!json_is_string(value))
        return unknown_step(r, "normalizer", n);
    if (!(bytes = pc__alloc(r->mem, length)))
        return PC_ERR_NOMEM;
    if (sodium_base642bin(bytes, length, json_string_value(value), length, NULL, &size, NULL,
                          sodium_base64_VARIANT_ORIGINAL))
        status = pc__fail(PC_ERR_FORMAT, "%s: precompiled_charsmap is not base64", r->where);
    else
        status = pc__steps_add_map(r->steps, PC__STEP_MAP_CLUSTERS, bytes, size, r->where);
    pc__free(r->mem, bytes);
    return status;
}

static pc_status read_replace(steps_reading *r, const json_t *n)
{
    const json_t *pattern = json_member(n, "pattern");
    pc__text string = pc__json_text(pattern, "String"), regex = pc__json_text(pattern, "Regex"),
             to = pc__json_text(n, "content");
    if ((!string.size && !regex.size) || !json_is_string(json_member(n, "content")))
        return unknown_step(r, "normalizer", n);
    if (memchr(regex.data, 0, regex.size))
        return pc__fail(PC_ERR_FORMAT, "%s: an expression contains a NUL", r->where);
    return pc__steps_add_texts(r->steps, string.size ? PC__STEP_REPLACE : PC__STEP_EXPRESSION,
                               string.size ? string : regex, to, r->where);
}

static pc_status read_prepend(steps_reading *r, const json_t *n)
{
    pc__text to = pc__json_text(n, "prepend");
    if (!json_is_string(json_member(n, "prepend")))
        return unknown_step(r, "normalizer", n);
    r->rules->step_prefix |= is_blank_mark(to);
    return pc__steps_add_texts(r->steps, PC__STEP_PREPEND, (pc__text){"", 0}, to, r->where);
}

static pc_status read_step(steps_reading *r, const json_t *n)
{
    static const struct {
        const char *type;
        pc__step_kind kind;
        int option;
    } simple[] = {
        {"Lowercase", PC__STEP_LOWERCASE, 0},
        {"StripAccents", PC__STEP_STRIP_MARKS, 0},
        {"Nmt", PC__STEP_CONTROLS, 0},
        {"NFC", PC__STEP_UNICODE, UTF8PROC_STABLE | UTF8PROC_COMPOSE},
        {"NFD", PC__STEP_UNICODE, UTF8PROC_STABLE | UTF8PROC_DECOMPOSE},
        {"NFKC", PC__STEP_UNICODE, UTF8PROC_STABLE | UTF8PROC_COMPOSE | UTF8PROC_COMPAT},
        {"NFKD", PC__STEP_UNICODE, UTF8PROC_STABLE | UTF8PROC_DECOMPOSE | UTF8PROC_COMPAT}};
    for (size_t i = 0; i < sizeof simple / sizeof *simple; i++)
        if (pc__json_has_type(n, simple[i].type))
            return pc__steps_add(r->steps, simple[i].kind, simple[i].option);
    if (pc__json_has_type(n, "Strip"))
        return pc__steps_add(r->steps, PC__STEP_STRIP,
                             flag(n, "strip_left", 0) | flag(n, "strip_right", 0) << 1);
    if (pc__json_has_type(n, "Precompiled"))
        return read_charsmap(r, n);
    if (pc__json_has_type(n, "Replace"))
        return read_replace(r, n);
    if (pc__json_has_type(n, "Prepend"))
        return read_prepend(r, n);
    return unknown_step(r, "normalizer", n);
}

/* ---------------------------------------------------------- pre-tokenizers */

static pc_status read_metaspace(steps_reading *r, const json_t *p)
{
    const char *scheme = pc__json_text(p, "prepend_scheme").data;
    const json_t *replacement = json_member(p, "replacement");
    int prefix = !*scheme || !strcmp(scheme, "always") ? PC__PREFIX_ALWAYS
                 : !strcmp(scheme, "first")            ? PC__PREFIX_FIRST
                 : !strcmp(scheme, "never")            ? PC__PREFIX_NEVER
                                                       : -1;
    if (prefix < 0 || r->read_metaspace
        || (replacement && !is_blank_mark(pc__json_text(p, "replacement"))))
        return unknown_step(r, "pre-tokenizer", p);
    r->read_metaspace = r->rules->marks_blanks = r->rules->one_prefix = 1;
    r->rules->space_prefix = flag(p, "add_prefix_space", 1) ? prefix : PC__PREFIX_NEVER;
    r->rules->split_marks = flag(p, "split", 1);
    return PC_OK;
}

static pc_status read_split(steps_reading *r, const json_t *p)
{
    if (pc__json_has_type(p, "Metaspace"))
        return read_metaspace(r, p);
    if (!pc__json_has_type(p, "WhitespaceSplit") || r->read_metaspace)
        return unknown_step(r, "pre-tokenizer", p);
    r->rules->split_blanks = 1;
    return PC_OK;
}

pc_status pc__steps_new_from_json(pc__steps **out, const pc_allocator *mem, const json_t *normal,
                                  const json_t *pre, pc__token_rules *rules, const char *where)
{
    steps_reading r = {.where = where, .mem = mem, .rules = rules};
    pc_status status;
    PC__TRY_RETURN(pc__steps_new(out, mem));
    r.steps = *out;
    if ((status = read_each(&r, "normalizer", "normalizers", normal, read_step)) >= 0)
        status = read_each(&r, "pre_tokenizer", "pretokenizers", pre, read_split);
    if (status < 0) {
        pc__steps_free(*out);
        *out = NULL;
        return status;
    }
    return PC_OK;
}
