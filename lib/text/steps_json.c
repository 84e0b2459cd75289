#include "text/steps_json.h"

#include <sodium.h>
#include <string.h>
#include <utf8proc.h>

typedef struct reading {
    const char *where;
    const pc_allocator *mem;
    pc__steps *steps;
    pc__token_rules *rules;
    int metaspace;
} reading;

static const json_t *get(const json_t *object, const char *key)
{
    return json_object_get(object, key);
}

static pc__text text_of(const json_t *object, const char *key)
{
    const json_t *value = get(object, key);
    return json_is_string(value) ? (pc__text){json_string_value(value), json_string_length(value)}
                                 : (pc__text){"", 0};
}

static int is(const json_t *object, const char *type)
{
    return !strcmp(text_of(object, "type").data, type);
}

/* A flag that may be left out. */
static int flag(const json_t *object, const char *key, int otherwise)
{
    const json_t *value = get(object, key);
    return json_is_boolean(value) ? json_is_true(value) : otherwise;
}

static pc_status refuse(const reading *r, const char *part, const json_t *object)
{
    return pc__fail(PC_ERR_UNSUPPORTED, "%s: %s of type '%s' is not known, or not in this form",
                    r->where, part, text_of(object, "type").data);
}

static int is_mark(pc__text text)
{
    return text.size == PC__BLANK_MARK_SIZE && pc__starts_with_mark(text.data, text.size);
}

/* Each of a sequence's parts, or a part alone. PC_MISS: there is none. */
static pc_status each(reading *r, const char *part, const char *key, const json_t *object,
                      pc_status (*one)(reading *, const json_t *))
{
    json_t *item;
    size_t i;
    pc_status status = PC_OK;
    if (!object || json_is_null(object))
        return PC_MISS;
    if (!json_is_object(object))
        return pc__fail(PC_ERR_FORMAT, "%s: %s is not an object", r->where, part);
    if (!is(object, "Sequence"))
        return one(r, object);
    if (!json_is_array(get(object, key)))
        return pc__fail(PC_ERR_FORMAT, "%s: %s of a sequence is not a list", r->where, key);
    json_array_foreach(get(object, key), i, item) if (status >= 0)
        status = each(r, part, key, item, one);
    return status;
}

/* ------------------------------------------------------------- normalizers */

static pc_status precompiled(reading *r, const json_t *n)
{
    const json_t *value = get(n, "precompiled_charsmap");
    size_t length = json_string_length(value), size = 0;
    uint8_t *bytes;
    pc_status status = PC_OK;
    if (!value || json_is_null(value) || (json_is_string(value) && !length))
        return PC_OK;
    if (!json_is_string(value))
        return refuse(r, "normalizer", n);
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

static pc_status replace(reading *r, const json_t *n)
{
    const json_t *pattern = get(n, "pattern");
    pc__text string = text_of(pattern, "String"), regex = text_of(pattern, "Regex"),
             to = text_of(n, "content");
    if ((!string.size && !regex.size) || !json_is_string(get(n, "content")))
        return refuse(r, "normalizer", n);
    if (memchr(regex.data, 0, regex.size))
        return pc__fail(PC_ERR_FORMAT, "%s: an expression with a NUL", r->where);
    return pc__steps_add_texts(r->steps, string.size ? PC__STEP_REPLACE : PC__STEP_EXPRESSION,
                               string.size ? string : regex, to, r->where);
}

static pc_status prepend(reading *r, const json_t *n)
{
    pc__text to = text_of(n, "prepend");
    if (!json_is_string(get(n, "prepend")))
        return refuse(r, "normalizer", n);
    r->rules->step_prefix |= is_mark(to);
    return pc__steps_add_texts(r->steps, PC__STEP_PREPEND, (pc__text){"", 0}, to, r->where);
}

static pc_status normalizer(reading *r, const json_t *n)
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
        if (is(n, simple[i].type))
            return pc__steps_add(r->steps, simple[i].kind, simple[i].option);
    if (is(n, "Strip"))
        return pc__steps_add(r->steps, PC__STEP_STRIP,
                             flag(n, "strip_left", 0) | flag(n, "strip_right", 0) << 1);
    if (is(n, "Precompiled"))
        return precompiled(r, n);
    if (is(n, "Replace"))
        return replace(r, n);
    if (is(n, "Prepend"))
        return prepend(r, n);
    return refuse(r, "normalizer", n);
}

/* ---------------------------------------------------------- pre-tokenizers */

static pc_status metaspace(reading *r, const json_t *p)
{
    const char *scheme = text_of(p, "prepend_scheme").data;
    const json_t *replacement = get(p, "replacement");
    int prefix = !*scheme || !strcmp(scheme, "always") ? PC__PREFIX_ALWAYS
                 : !strcmp(scheme, "first")            ? PC__PREFIX_FIRST
                 : !strcmp(scheme, "never")            ? PC__PREFIX_NEVER
                                                       : -1;
    if (prefix < 0 || r->metaspace || (replacement && !is_mark(text_of(p, "replacement"))))
        return refuse(r, "pre-tokenizer", p);
    r->metaspace = r->rules->marks_blanks = r->rules->one_prefix = 1;
    r->rules->space_prefix = flag(p, "add_prefix_space", 1) ? prefix : PC__PREFIX_NEVER;
    r->rules->split_marks = flag(p, "split", 1);
    return PC_OK;
}

static pc_status pre_tokenizer(reading *r, const json_t *p)
{
    if (is(p, "Metaspace"))
        return metaspace(r, p);
    if (!is(p, "WhitespaceSplit") || r->metaspace)
        return refuse(r, "pre-tokenizer", p);
    r->rules->split_blanks = 1;
    return PC_OK;
}

pc_status pc__steps_from_json(pc__steps **out, const pc_allocator *mem, const json_t *normal,
                              const json_t *pre, pc__token_rules *rules, const char *where)
{
    reading r = {.where = where, .mem = mem, .rules = rules};
    pc_status status = pc__steps_new(out, mem);
    if (status < 0)
        return status;
    r.steps = *out;
    if ((status = each(&r, "normalizer", "normalizers", normal, normalizer)) >= 0)
        status = each(&r, "pre_tokenizer", "pretokenizers", pre, pre_tokenizer);
    if (status < 0) {
        pc__steps_free(*out);
        *out = NULL;
        return status;
    }
    return PC_OK;
}
