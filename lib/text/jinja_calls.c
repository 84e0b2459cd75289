/* Filters, tests, methods of strings and maps, and functions of Jinja: those that chat templates
 * use. */
#include <time.h>

#include "text/jinja_internal.h"

/* An argument by name or position; undefined: it was not given. */
static pc__jvalue argument_of(const pc__jarguments *a, size_t place, const char *name)
{
    for (size_t i = 0; i < a->count; i++)
        if (a->name[i].size ? pc__text_equals(a->name[i], pc__text_of(name)) : i == place)
            return a->value[i];
    return (pc__jvalue){0};
}

/* ------------------------------------------------------------------ strings */

enum { LEFT = 1, RIGHT = 2 };

static void drop_start(pc__text *text, size_t size)
{
    text->data += size;
    text->size -= size;
}

static pc__jvalue strip_text(pc__jvalue value, const pc__jvalue *what, int sides)
{
    pc__text *text = &value.text,
             set = what->kind == PC__J_STRING ? what->text : pc__text_of(" \t\n\r\v\f");
    while (sides & LEFT && text->size && memchr(set.data, text->data[0], set.size))
        drop_start(text, 1);
    while (sides & RIGHT && text->size && memchr(set.data, text->data[text->size - 1], set.size))
        text->size--;
    return value;
}

/* CAPITAL: the first letter is upper case, TITLE: of each word; all others lower case. */
enum { UPPER, LOWER, CAPITAL, TITLE };

static pc__jvalue change_case(pc__jinja *j, pc__text text, int how)
{
    char *copy = pc__j_alloc(j, text.size + 1);
    int inside = 0;
    for (size_t i = 0; copy && i < text.size; i++) {
        char c = text.data[i];
        int small = c >= 'a' && c <= 'z', large = c >= 'A' && c <= 'Z';
        int raise = how == UPPER || (how == CAPITAL && !i) || (how == TITLE && !inside);
        copy[i] = raise && small ? (char)(c - 32) : !raise && large ? (char)(c + 32) : c;
        inside = small || large;
    }
    return copy ? pc__j_string((pc__text){copy, text.size}) : (pc__jvalue){0};
}

/* A method and filter of this name. 1: there is one. */
static int case_method(pc__jinja *j, pc__jvalue text, const pc__jvalue *name, pc__jvalue *out)
{
    static const char *const names[] = {"upper", "lower", "capitalize", "title"};
    for (int how = UPPER; how <= TITLE; how++)
        if (pc__j_is(name, names[how])) {
            *out = change_case(j, text.text, how);
            return 1;
        }
    return 0;
}

/* Takes the text before `part` from *rest; all of it if `part` is not there. */
static pc__jvalue split_off(pc__text *rest, pc__text part)
{
    const char *at = memmem(rest->data, rest->size, part.data, part.size);
    pc__text before = {rest->data, at ? (size_t)(at - rest->data) : rest->size};
    drop_start(rest, before.size);
    return pc__j_string(before);
}

static pc__jvalue split_text(pc__jinja *j, pc__text text, const pc__jvalue *at)
{
    pc__jvalue list = pc__j_list(j, PC__J_LIST);
    if (at->kind != PC__J_STRING || !at->text.size)
        return pc__j_fail(j, PC_ERR_UNSUPPORTED, "split() needs a separator");
    while (pc__j_step(j)) {
        pc__j_add(j, list, split_off(&text, at->text));
        if (!text.size)
            break;
        drop_start(&text, at->text.size);
    }
    return list;
}

static pc__jvalue replace_text(pc__jinja *j, pc__text text, const pc__jvalue *old, pc__jvalue new)
{
    pc__jvalue out = pc__j_string(pc__text_of(""));
    if (old->kind != PC__J_STRING || new.kind != PC__J_STRING || !old->text.size)
        return pc__j_fail(j, PC_ERR_FORMAT, "replace() needs two strings");
    while (pc__j_step(j)) {
        out = pc__j_join(j, out, split_off(&text, old->text));
        if (!text.size)
            break;
        out = pc__j_join(j, out, new);
        drop_start(&text, old->text.size);
    }
    return out;
}

/* 1: there is a method of this name. */
static int string_method(pc__jinja *j, pc__jvalue self, const pc__jvalue *name,
                         const pc__jarguments *a, pc__jvalue *out)
{
    pc__jvalue first = argument_of(a, 0, "");
    int string = first.kind == PC__J_STRING;
    if (pc__j_is(name, "strip"))
        *out = strip_text(self, &first, LEFT | RIGHT);
    else if (pc__j_is(name, "lstrip"))
        *out = strip_text(self, &first, LEFT);
    else if (pc__j_is(name, "rstrip"))
        *out = strip_text(self, &first, RIGHT);
    else if (pc__j_is(name, "split") && a->count < 2)
        *out = split_text(j, self.text, &first);
    else if (pc__j_is(name, "replace") && a->count == 2)
        *out = replace_text(j, self.text, &first, argument_of(a, 1, ""));
    else if (pc__j_is(name, "startswith"))
        *out = pc__j_bool(string && pc__text_begins(self.text, first.text));
    else if (pc__j_is(name, "endswith"))
        *out = pc__j_bool(string && pc__text_ends(self.text, first.text));
    else
        return case_method(j, self, name, out);
    return 1;
}

/* ------------------------------------------------------------------ lists and maps */

static pc__jvalue map_items(pc__jinja *j, const pc__jvalue *map)
{
    pc__jvalue list = pc__j_list(j, PC__J_LIST);
    for (size_t i = 0; i < map->list->count && pc__j_step(j); i++) {
        pc__jvalue pair = pc__j_list(j, PC__J_LIST);
        pc__j_add(j, pair, map->list->items[i].key);
        pc__j_add(j, pair, map->list->items[i].value);
        pc__j_add(j, list, pair);
    }
    return list;
}

static pc__jvalue map_entries(pc__jinja *j, const pc__jvalue *map, int keys)
{
    pc__jvalue list = pc__j_list(j, PC__J_LIST);
    for (size_t i = 0; i < map->list->count && pc__j_step(j); i++)
        pc__j_add(j, list, keys ? map->list->items[i].key : map->list->items[i].value);
    return list;
}

static int map_method(pc__jinja *j, pc__jvalue self, const pc__jvalue *name,
                      const pc__jarguments *a, pc__jvalue *out)
{
    pc__jvalue key = argument_of(a, 0, "key"), other = argument_of(a, 1, "default");
    if (pc__j_is(name, "items"))
        *out = map_items(j, &self);
    else if (pc__j_is(name, "keys") || pc__j_is(name, "values"))
        *out = map_entries(j, &self, pc__j_is(name, "keys"));
    else if (pc__j_is(name, "get") && key.kind == PC__J_STRING) {
        const pc__jvalue *member = pc__j_member(&self, key.text);
        if (other.kind == PC__J_UNDEFINED)
            other.kind = PC__J_NONE;
        *out = member ? *member : other;
    } else {
        return 0;
    }
    return 1;
}

pc__jvalue pc__j_method(pc__jinja *j, pc__jvalue self, pc__jvalue name, const pc__jarguments *a)
{
    pc__jvalue out = {0};
    if (self.kind == PC__J_STRING && string_method(j, self, &name, a, &out))
        return out;
    if (self.kind == PC__J_MAP && map_method(j, self, &name, a, &out))
        return out;
    if (self.kind == PC__J_LIST && pc__j_is(&name, "append") && a->count == 1)
        pc__j_add(j, self, a->value[0]);
    else if (self.kind == PC__J_UNDEFINED)
        pc__j_fail(j, PC_ERR_FORMAT, "'%.*s' of an undefined value", (int)name.text.size,
                   name.text.data);
    else
        pc__j_fail(j, PC_ERR_UNSUPPORTED, "method '%.*s' is not known", (int)name.text.size,
                   name.text.data);
    return (pc__jvalue){.kind = PC__J_NONE};
}

/* ------------------------------------------------------------------ tests */

#define HOLDS_SOMETHING \
    (1u << PC__J_STRING | 1u << PC__J_LIST | 1u << PC__J_MAP | 1u << PC__J_UNDEFINED)

/* Tests that only look at the kind of a value. */
static const struct {
    const char *name;
    unsigned kinds;
} kind_tests[] = {
    {"undefined", 1u << PC__J_UNDEFINED},
    {"none", 1u << PC__J_NONE},
    {"boolean", 1u << PC__J_BOOL},
    {"integer", 1u << PC__J_INT},
    {"number", 1u << PC__J_INT | 1u << PC__J_BOOL},
    {"string", 1u << PC__J_STRING},
    {"mapping", 1u << PC__J_MAP},
    {"sequence", HOLDS_SOMETHING},
    {"iterable", HOLDS_SOMETHING},
    {"callable", 1u << PC__J_MACRO | 1u << PC__J_FUNCTION},
};

int pc__j_test(pc__jinja *j, pc__jvalue name, const pc__jvalue *v, const pc__jvalue *with)
{
    for (size_t i = 0; i < sizeof kind_tests / sizeof *kind_tests; i++)
        if (pc__j_is(&name, kind_tests[i].name))
            return (int)(kind_tests[i].kinds >> v->kind & 1);
    if (pc__j_is(&name, "defined"))
        return v->kind != PC__J_UNDEFINED
               && !(v->kind == PC__J_FUNCTION && pc__j_is(v, "strftime_now"));
    if (pc__j_is(&name, "true") || pc__j_is(&name, "false"))
        return v->kind == PC__J_BOOL && v->number == pc__j_is(&name, "true");
    if (pc__j_is(&name, "equalto") || pc__j_is(&name, "eq"))
        return pc__j_equal(v, with);
    if (pc__j_is(&name, "ne"))
        return !pc__j_equal(v, with);
    if (pc__j_is(&name, "in"))
        return pc__j_contains(j, with, v);
    if ((pc__j_is(&name, "odd") || pc__j_is(&name, "even")) && v->kind == PC__J_INT)
        return (v->number % 2 != 0) == pc__j_is(&name, "odd");
    pc__j_fail(j, PC_ERR_UNSUPPORTED, "test '%.*s' is not known", (int)name.text.size,
               name.text.data);
    return 0;
}

/* ------------------------------------------------------------------ filters */

static pc__jvalue attribute_of(const pc__jvalue *of, const pc__jvalue *name)
{
    const pc__jvalue *member = name->kind == PC__J_STRING ? pc__j_member(of, name->text) : NULL;
    return member ? *member : (pc__jvalue){0};
}

/* The items whose attribute passes a test, or fails it. */
static pc__jvalue filter_list(pc__jinja *j, const pc__jvalue *list, const pc__jarguments *a,
                              int wanted)
{
    pc__jvalue out = pc__j_list(j, PC__J_LIST), attribute = argument_of(a, 0, ""),
               test = argument_of(a, 1, ""), with = argument_of(a, 2, "");
    for (size_t i = 0; i < list->list->count && pc__j_step(j); i++) {
        pc__jvalue v = attribute_of(&list->list->items[i].value, &attribute);
        int passes = test.kind == PC__J_STRING ? pc__j_test(j, test, &v, &with) : pc__j_truth(&v);
        if (passes == wanted)
            pc__j_add(j, out, list->list->items[i].value);
    }
    return out;
}

static pc__jvalue map_list(pc__jinja *j, const pc__jvalue *list, const pc__jarguments *a)
{
    pc__jvalue out = pc__j_list(j, PC__J_LIST), attribute = argument_of(a, 1, "attribute"),
               filter = argument_of(a, 0, "");
    const pc__jarguments none = {.count = 0};
    for (size_t i = 0; i < list->list->count && pc__j_step(j); i++) {
        pc__jvalue v = list->list->items[i].value;
        v = filter.kind == PC__J_STRING ? pc__j_filter(j, filter, v, &none)
                                        : attribute_of(&v, &attribute);
        pc__j_add(j, out, v);
    }
    return out;
}

static pc__jvalue join_list(pc__jinja *j, const pc__jvalue *list, pc__jvalue between)
{
    pc__jvalue out = pc__j_string(pc__text_of(""));
    for (size_t i = 0; i < list->list->count && pc__j_step(j); i++) {
        if (i)
            out = pc__j_join(j, out, pc__j_text(j, between));
        out = pc__j_join(j, out, pc__j_text(j, list->list->items[i].value));
    }
    return out;
}

static int list_filter(pc__jinja *j, const pc__jvalue *name, const pc__jvalue *v,
                       const pc__jarguments *a, pc__jvalue *out)
{
    size_t count = v->list->count;
    if (pc__j_is(name, "first"))
        *out = count ? v->list->items[0].value : (pc__jvalue){0};
    else if (pc__j_is(name, "last"))
        *out = count ? v->list->items[count - 1].value : (pc__jvalue){0};
    else if (pc__j_is(name, "join"))
        *out = join_list(j, v, argument_of(a, 0, "d"));
    else if (pc__j_is(name, "selectattr") || pc__j_is(name, "rejectattr"))
        *out = filter_list(j, v, a, pc__j_is(name, "selectattr"));
    else if (pc__j_is(name, "map"))
        *out = map_list(j, v, a);
    else
        return 0;
    return 1;
}

static int string_filter(pc__jinja *j, const pc__jvalue *name, pc__jvalue v,
                         const pc__jarguments *a, pc__jvalue *out)
{
    pc__jvalue first = argument_of(a, 0, "chars");
    if (pc__j_is(name, "trim"))
        *out = strip_text(v, &first, LEFT | RIGHT);
    else if (pc__j_is(name, "replace"))
        *out = replace_text(j, v.text, &first, argument_of(a, 1, "new"));
    else
        return case_method(j, v, name, out);
    return 1;
}

static pc__jvalue default_value(const pc__jvalue *v, const pc__jarguments *a)
{
    pc__jvalue falsy = argument_of(a, 1, "boolean"), value = argument_of(a, 0, "default_value");
    if (v->kind != PC__J_UNDEFINED && !(pc__j_truth(&falsy) && !pc__j_truth(v)))
        return *v;
    return value.kind == PC__J_UNDEFINED ? pc__j_string(pc__text_of("")) : value;
}

pc__jvalue pc__j_filter(pc__jinja *j, pc__jvalue name, pc__jvalue v, const pc__jarguments *a)
{
    pc__jvalue out = {0};
    int64_t length;
    if (pc__j_is(&name, "default") || pc__j_is(&name, "d"))
        return default_value(&v, a);
    if (pc__j_is(&name, "string"))
        return pc__j_text(j, v);
    if (pc__j_is(&name, "safe") || (pc__j_is(&name, "list") && v.kind == PC__J_LIST))
        return v;
    if (pc__j_is(&name, "list") && v.kind == PC__J_STRING)
        return pc__j_characters(j, v);
    if (pc__j_is(&name, "items") && v.kind == PC__J_MAP)
        return map_items(j, &v);
    if ((pc__j_is(&name, "length") || pc__j_is(&name, "count")) && (length = pc__j_length(&v)) >= 0)
        return pc__j_int(length);
    if (v.kind == PC__J_LIST && list_filter(j, &name, &v, a, &out))
        return out;
    if (!pc__j_truth(&v)
        && (pc__j_is(&name, "selectattr") || pc__j_is(&name, "rejectattr") || pc__j_is(&name, "map")
            || pc__j_is(&name, "list")))
        return pc__j_list(j, PC__J_LIST); /* as Jinja does with nothing */
    /* as in Jinja, filters of strings work on the printed form of any value */
    if (v.kind <= PC__J_STRING && string_filter(j, &name, pc__j_text(j, v), a, &out))
        return out;
    return pc__j_fail(j, PC_ERR_UNSUPPORTED, "filter '%.*s' is not known for this value",
                      (int)name.text.size, name.text.data);
}

/* ------------------------------------------------------------------ functions */

static pc__jvalue make_range(pc__jinja *j, const pc__jarguments *a)
{
    pc__jvalue list = pc__j_list(j, PC__J_LIST);
    int64_t from = a->count > 1 ? a->value[0].number : 0;
    int64_t to = a->count > 1 ? a->value[1].number : a->count ? a->value[0].number : 0;
    int64_t step = a->count > 2 ? a->value[2].number : 1;
    if (!step)
        pc__j_fail(j, PC_ERR_FORMAT, "range() needs a step other than 0");
    for (int64_t i = from; (step > 0 ? i < to : i > to) && pc__j_step(j); i += step)
        pc__j_add(j, list, pc__j_int(i));
    return list;
}

static pc__jvalue new_map(pc__jinja *j, const pc__jarguments *a)
{
    pc__jvalue map = pc__j_list(j, PC__J_MAP);
    for (size_t i = 0; i < a->count; i++)
        pc__j_add_pair(j, map, a->name[i].size ? pc__j_string(a->name[i]) : (pc__jvalue){0},
                       a->value[i]);
    return map;
}

static pc__jvalue format_today(pc__jinja *j, const pc__jvalue *format)
{
    char pattern[64], text[128];
    time_t now = time(NULL);
    struct tm parts;
    if (format->kind != PC__J_STRING || format->text.size >= sizeof pattern
        || !localtime_r(&now, &parts))
        return pc__j_fail(j, PC_ERR_FORMAT, "strftime_now() needs a format of at most 63 bytes");
    memcpy(pattern, format->text.data, format->text.size);
    pattern[format->text.size] = 0;
    return pc__j_copy(j, (pc__text){text, strftime(text, sizeof text, pattern, &parts)});
}

int pc__j_is_function(pc__text name)
{
    static const char *const names[] = {"raise_exception", "namespace", "dict", "range",
                                        "strftime_now"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (pc__text_equals(name, pc__text_of(names[i])))
            return 1;
    return 0;
}

pc__jvalue pc__j_function(pc__jinja *j, pc__jvalue name, const pc__jarguments *a)
{
    pc__jvalue first = argument_of(a, 0, "");
    if (pc__j_is(&name, "namespace") || pc__j_is(&name, "dict"))
        return new_map(j, a);
    if (pc__j_is(&name, "range"))
        return make_range(j, a);
    if (pc__j_is(&name, "strftime_now"))
        return format_today(j, &first);
    return pc__j_fail(
        j, PC_ERR_INVALID, "the template refuses: %.*s",
        first.kind == PC__J_STRING ? (int)(first.text.size < 120 ? first.text.size : 120) : 0,
        first.kind == PC__J_STRING ? first.text.data : "");
}
