/* From JSON to normaliser steps and token rules. */
#include <sodium.h>
#include <string.h>
#include <utf8proc.h>

#include "text/tokenizer_json_internal.h"

/* A boolean that may be absent. */
static int flag(const json_t *object, const char *key, int otherwise)
{
    const json_t *value = json_object_get(object, key);
    return json_is_boolean(value) ? json_is_true(value) : otherwise;
}

static int is_blank_mark(pc__text text)
{
    return text.size == PC__BLANK_MARK_SIZE && pc__starts_with_mark(text.data, text.size);
}

/* ------------------------------------------------------------- normalizers */

static pc_status read_charsmap(pc__json_reading *r, const json_t *n)
{
    const json_t *value = json_object_get(n, "precompiled_charsmap");
    size_t length = json_string_length(value), size = 0;
    uint8_t *bytes;
    pc_status status = PC_OK;
    if (!value || json_is_null(value) || (json_is_string(value) && !length))
        return PC_OK;
    if (!json_is_string(value))
        return pc__json_unknown(r, "normalizer", n);
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

static pc_status read_replace(pc__json_reading *r, const json_t *n)
{
    const json_t *pattern = json_object_get(n, "pattern");
    pc__text string = pc__json_text(pattern, "String"), regex = pc__json_text(pattern, "Regex"),
             to = pc__json_text(n, "content");
    if ((!string.size && !regex.size) || !json_is_string(json_object_get(n, "content")))
        return pc__json_unknown(r, "normalizer", n);
    if (memchr(regex.data, 0, regex.size))
        return pc__fail(PC_ERR_FORMAT, "%s: an expression contains a NUL", r->where);
    return pc__steps_add_texts(r->steps, string.size ? PC__STEP_REPLACE : PC__STEP_EXPRESSION,
                               string.size ? string : regex, to, r->where);
}

static pc_status read_prepend(pc__json_reading *r, const json_t *n)
{
    pc__text to = pc__json_text(n, "prepend");
    if (!json_is_string(json_object_get(n, "prepend")))
        return pc__json_unknown(r, "normalizer", n);
    r->rules.step_prefix |= is_blank_mark(to);
    return pc__steps_add_texts(r->steps, PC__STEP_PREPEND, (pc__text){"", 0}, to, r->where);
}

pc_status pc__json_step(pc__json_reading *r, const json_t *n)
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
    if (!r->steps)
        PC__TRY_RETURN(pc__steps_new(&r->steps, r->mem));
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
    return pc__json_unknown(r, "normalizer", n);
}

/* ---------------------------------------------------------- pre-tokenizers */

pc_status pc__json_metaspace(pc__json_reading *r, const json_t *p)
{
    const char *scheme = pc__json_text(p, "prepend_scheme").data;
    const json_t *replacement = json_object_get(p, "replacement");
    int prefix = !*scheme || !strcmp(scheme, "always") ? PC__PREFIX_ALWAYS
                 : !strcmp(scheme, "first")            ? PC__PREFIX_FIRST
                 : !strcmp(scheme, "never")            ? PC__PREFIX_NEVER
                                                       : -1;
    if (prefix < 0 || r->metaspace
        || (replacement && !is_blank_mark(pc__json_text(p, "replacement"))))
        return pc__json_unknown(r, "pre-tokenizer", p);
    r->metaspace = r->rules.marks_blanks = r->rules.one_prefix = 1;
    r->rules.space_prefix = flag(p, "add_prefix_space", 1) ? prefix : PC__PREFIX_NEVER;
    r->rules.split_marks = flag(p, "split", 1);
    return PC_OK;
}

static pc_status read_split(pc__json_reading *r, const json_t *p)
{
    if (pc__json_has_type(p, "Metaspace"))
        return pc__json_metaspace(r, p);
    if (!pc__json_has_type(p, "WhitespaceSplit") || r->metaspace)
        return pc__json_unknown(r, "pre-tokenizer", p);
    r->rules.split_blanks = 1;
    return PC_OK;
}

pc_status pc__json_steps(pc__json_reading *r)
{
    PC__TRY_RETURN(pc__steps_new(&r->steps, r->mem));
    PC__TRY_RETURN(pc__json_parts(r, "normalizer", "normalizers", pc__json_step));
    return pc__json_parts(r, "pre_tokenizer", "pretokenizers", read_split);
}
