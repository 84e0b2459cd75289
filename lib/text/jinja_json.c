/* JSON in the Jinja interpreter: what a caller gives as JSON, and the filter tojson, which writes
 * what transformers' filter writes (json.dumps of Python, without ASCII escapes). */
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "text/jinja_internal.h"

/* ------------------------------------------------------------------ reading */

size_t pc__j_json_size(const json_t *json)
{
    size_t size = 32;
    const char *key;
    json_t *value;
    json_t *from = (json_t *)(uintptr_t)json;
    if (!json)
        return 0;
    if (json_is_string(json))
        size += json_string_length(json);
    for (size_t i = 0; json_is_array(json) && i < json_array_size(json); i++)
        size += pc__j_json_size(json_array_get(json, i));
    json_object_foreach(from, key, value) size += 64 + strlen(key) + pc__j_json_size(value);
    return size;
}

/* As Python prints a float: the fewest digits that read back as the same. */
static pc__jvalue real(pc__jinja *j, double number)
{
    char digits[40], text[64];
    int exponent, precision = 0;
    do
        snprintf(digits, sizeof digits, "%.*e", precision, number);
    while (strtod(digits, NULL) != number && ++precision < 17);
    exponent = atoi(strchr(digits, 'e') + 1);
    if (exponent < -4 || exponent >= 16)
        snprintf(text, sizeof text, "%.*e", precision, number);
    else
        snprintf(text, sizeof text, "%.*f", precision > exponent ? precision - exponent : 1,
                 number);
    for (char *c = text; *c; c++) /* a locale may have another point */
        if (!strchr("+-e0123456789", *c))
            *c = '.';
    pc__jvalue value = pc__j_copy(j, pc__j_string(pc__text_of(text)));
    value.kind = PC__J_REAL;
    value.number = number != 0;
    return value;
}

static pc__jvalue object(pc__jinja *j, const json_t *json)
{
    pc__jvalue map = pc__j_list(j, PC__J_MAP);
    json_t *from = (json_t *)(uintptr_t)json, *value;
    const char *key;
    json_object_foreach(from, key, value)
    {
        if (j->status < 0)
            break;
        pc__j_put(j, map, pc__j_given(j, key, strlen(key), 0), pc__j_from_json(j, value));
    }
    return map;
}

pc__jvalue pc__j_from_json(pc__jinja *j, const json_t *json)
{
    pc__jvalue value = {.kind = PC__J_NONE};
    if (!pc__j_enter(j)) {
        j->depth--;
        return value;
    }
    switch (json_typeof(json)) {
    case JSON_OBJECT:
        value = object(j, json);
        break;
    case JSON_ARRAY:
        value = pc__j_list(j, PC__J_LIST);
        for (size_t i = 0; i < json_array_size(json) && j->status >= 0; i++)
            pc__j_add(j, value, pc__j_from_json(j, json_array_get(json, i)));
        break;
    case JSON_STRING:
        value = pc__j_given(j, json_string_value(json), json_string_length(json), 0);
        break;
    case JSON_INTEGER:
        value = pc__j_int(json_integer_value(json));
        break;
    case JSON_REAL:
        value = real(j, json_real_value(json));
        break;
    case JSON_NULL:
        break;
    default:
        value = pc__j_bool(json_is_true(json));
    }
    j->depth--;
    return value;
}

/* ------------------------------------------------------------------ writing */

typedef struct json_writer {
    pc__jinja *j;
    pc__bytes out;
    int content; /* something of it is not the template's */
    int ascii;
    int64_t indent; /* -1: all in one line */
    pc__text between, colon;
} json_writer;

static void write_text(json_writer *w, const char *text, size_t size)
{
    if (pc__j_charge(w->j, size) && size)
        w->j->status = pc__bytes_add(&w->out, text, size);
}

static void write_unit(json_writer *w, unsigned unit)
{
    char text[8];
    write_text(w, text, (size_t)snprintf(text, sizeof text, "\\u%04x", unit));
}

static void write_string(json_writer *w, const pc__jvalue *string)
{
    static const char plain[] = "\"\\\n\r\t\b\f", letters[] = "\"\\nrtbf";
    pc__character c = {0};
    char pair[2] = {'\\'};
    w->content |= string->origin != NULL;
    pc__j_look(w->j, string);
    write_text(w, "\"", 1);
    while (w->j->status >= 0 && pc__utf8_next(string->text.data, string->text.size, &c)) {
        char byte = string->text.data[c.at];
        const char *found = byte ? strchr(plain, byte) : NULL;
        if (found && c.size == 1) {
            pair[1] = letters[found - plain];
            write_text(w, pair, 2);
        } else if (c.valid && (c.code_point < 32 || (w->ascii && c.code_point > 126))) {
            if (c.code_point > 0xffff)
                write_unit(w, 0xd800 + ((c.code_point - 0x10000) >> 10));
            write_unit(w, c.code_point > 0xffff ? 0xdc00 + (c.code_point & 0x3ff) : c.code_point);
        } else {
            write_text(w, string->text.data + c.at, c.size);
        }
    }
    write_text(w, "\"", 1);
}

static void write_line(json_writer *w, int64_t depth)
{
    if (w->indent < 0)
        return;
    write_text(w, "\n", 1);
    for (int64_t i = 0; i < depth * w->indent && w->j->status >= 0; i++)
        write_text(w, " ", 1);
}

static void write_value(json_writer *w, const pc__jvalue *v, int64_t depth);

static void write_items(json_writer *w, const pc__jvalue *v, int64_t depth)
{
    const pc__jlist *list = v->list;
    int map = v->kind == PC__J_MAP;
    write_text(w, map ? "{" : "[", 1);
    for (size_t i = 0; i < list->count && w->j->status >= 0; i++) {
        const pc__jentry *item = &list->items[i];
        if (i)
            write_text(w, w->between.data, w->between.size);
        write_line(w, depth + 1);
        if (map && item->key.kind != PC__J_STRING)
            pc__j_fail(w->j, PC_ERR_UNSUPPORTED, "tojson: a key is no string");
        if (map && w->j->status >= 0) {
            write_string(w, &item->key);
            write_text(w, w->colon.data, w->colon.size);
        }
        write_value(w, &item->value, depth + 1);
    }
    if (list->count)
        write_line(w, depth);
    write_text(w, map ? "}" : "]", 1);
}

static void write_value(json_writer *w, const pc__jvalue *v, int64_t depth)
{
    pc__jvalue text;
    if (pc__j_enter(w->j)) {
        switch (v->kind) {
        case PC__J_STRING:
            write_string(w, v);
            break;
        case PC__J_NONE:
            write_text(w, "null", 4);
            break;
        case PC__J_BOOL:
            write_text(w, v->number ? "true" : "false", v->number ? 4 : 5);
            break;
        case PC__J_INT:
        case PC__J_REAL:
            text = pc__j_text(w->j, *v);
            write_text(w, text.text.data, text.text.size);
            break;
        case PC__J_LIST:
        case PC__J_TUPLE:
        case PC__J_MAP:
            write_items(w, v, depth);
            break;
        default:
            pc__j_fail(w->j, PC_ERR_FORMAT, "tojson: such a value has no JSON");
        }
    }
    w->j->depth--;
}

static int is_separators(const pc__jvalue *v)
{
    return (v->kind == PC__J_TUPLE || v->kind == PC__J_LIST) && v->list->count == 2
           && v->list->items[0].value.kind == PC__J_STRING
           && v->list->items[1].value.kind == PC__J_STRING;
}

pc__jvalue pc__j_to_json(pc__jinja *j, const pc__jvalue *value, const pc__jarguments *a)
{
    pc__jvalue v[PC__J_MOST_ARGUMENTS], made = {0};
    int which = pc__j_arguments(j, a, pc__text_of("tojson"),
                                "ensure_ascii indent separators sort_keys", 0, v);
    json_writer w = {.j = j, .out = {.mem = j->mem}, .indent = -1};
    if (which < 0)
        return made;
    for (int i = 0; i < 4; i++) /* None is the default of each */
        if (v[i].kind == PC__J_NONE)
            which &= ~(1 << i);
    if ((which & 2 && v[1].kind != PC__J_INT) || (which & 4 && !is_separators(&v[2]))
        || (which & 8 && pc__j_truth(&v[3])))
        return pc__j_fail(j, PC_ERR_UNSUPPORTED, "such arguments of tojson are not understood");
    w.ascii = which & 1 && pc__j_truth(&v[0]);
    w.indent = which & 2 ? v[1].number : -1;
    w.between = which & 4 ? v[2].list->items[0].value.text : pc__text_of(w.indent < 0 ? ", " : ",");
    w.colon = which & 4 ? v[2].list->items[1].value.text : pc__text_of(": ");
    write_value(&w, value, 0);
    pc__text text = {w.out.data ? w.out.data : "", w.out.size};
    made = pc__j_copy(j, w.content ? pc__j_given(j, text.data, text.size, 0) : pc__j_string(text));
    pc__bytes_free(&w.out);
    return j->status >= 0 ? made : (pc__jvalue){0};
}
