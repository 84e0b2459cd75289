/* Filters, tests, methods and functions of Jinja: those that chat templates use. */
#include <time.h>

#include "text/jinja_internal.h"

int pc__j_arguments(pc__jinja *j, const pc__jarguments *a, pc__text of, const char *names,
                    size_t least, pc__jvalue out[])
{
    size_t place = 0, used = 0;
    int given = 0;
    for (const char *p = names; *p; place++) {
        pc__text name = {p, strcspn(p, " ")};
        out[place] = (pc__jvalue){0};
        for (size_t i = 0; i < a->count; i++)
            if (a->name[i].size ? pc__text_equals(a->name[i], name) : i == place) {
                out[place] = a->value[i];
                used += !(given & 1 << place);
                given |= 1 << place;
            }
        p += name.size + (p[name.size] == ' ');
    }
    if (used == a->count && (given & ((1 << least) - 1)) == (1 << least) - 1)
        return given;
    pc__j_fail(j, PC_ERR_FORMAT, "'%.*s' does not take these arguments", (int)of.size, of.data);
    return -1;
}

/* Methods take their arguments by position only: "." is the name of none. */
#define POSITIONS(n) (&". . . ."[8 - 2 * (n)])

static int no_arguments(pc__jinja *j, const pc__jarguments *a, pc__text of)
{
    return pc__j_arguments(j, a, of, "", 0, NULL) >= 0;
}

static pc__jvalue none(void)
{
    return (pc__jvalue){.kind = PC__J_NONE};
}

/* A number that may be left out. */
static int64_t number_or(pc__jinja *j, const pc__jvalue *v, int is_given, int64_t otherwise)
{
    if (is_given && !pc__j_is_number(v))
        pc__j_fail(j, PC_ERR_FORMAT, "an argument is not a number");
    return is_given ? v->number : otherwise;
}

/* ------------------------------------------------------------------ strings */

static int is_string(pc__jinja *j, const pc__jvalue *v)
{
    if (v->kind != PC__J_STRING)
        pc__j_fail(j, PC_ERR_FORMAT, "an argument is not a string");
    return v->kind == PC__J_STRING;
}

/* startswith and endswith: `what` may be a tuple of strings. */
static int has_end(pc__jinja *j, const pc__jvalue *text, const pc__jvalue *what, int start)
{
    int found = 0;
    if (what->kind == PC__J_TUPLE) {
        for (size_t i = 0; i < what->list->count && !found && j->status >= 0; i++)
            found = is_string(j, &what->list->items[i].value)
                    && has_end(j, text, &what->list->items[i].value, start);
        return found;
    }
    if (!is_string(j, what))
        return 0;
    pc__j_charge(j, what->text.size);
    return start ? pc__text_begins(text->text, what->text) : pc__text_ends(text->text, what->text);
}

static pc__jvalue split_method(pc__jinja *j, pc__jvalue self, pc__text name,
                               const pc__jarguments *a)
{
    pc__jvalue given[PC__J_MOST_ARGUMENTS];
    int which = pc__j_arguments(j, a, name, "sep maxsplit", 0, given);
    if (which < 0)
        return none();
    if (!(which & 1))
        given[0] = none();
    return pc__j_split(j, self, &given[0], number_or(j, &given[1], which & 2, -1));
}

static pc__jvalue replace_method(pc__jinja *j, pc__jvalue self, pc__text name,
                                 const pc__jarguments *a)
{
    pc__jvalue given[PC__J_MOST_ARGUMENTS];
    int which = pc__j_arguments(j, a, name, POSITIONS(3), 2, given);
    if (which < 0 || !is_string(j, &given[0]) || !is_string(j, &given[1]))
        return none();
    return pc__j_replace(j, self, given[0], given[1], number_or(j, &given[2], which & 4, -1));
}

/* Where a part is, in characters; how often it is there. */
static pc__jvalue count_method(pc__jinja *j, pc__jvalue self, const pc__jvalue *part, int find)
{
    pc__text rest = self.text;
    int64_t count = 0;
    const char *at;
    if (!is_string(j, part) || (!find && !part->text.size))
        return pc__j_fail(j, PC_ERR_UNSUPPORTED, "count() of an empty text");
    if (find) {
        at = pc__j_find(j, self.text, part->text);
        pc__jvalue before = pc__j_part(
            &self, (pc__text){self.text.data, at ? (size_t)(at - self.text.data) : 0});
        return pc__j_int(at ? pc__j_length(j, &before) : -1);
    }
    pc__j_charge(j, rest.size);
    while (pc__j_step(j) && (at = memmem(rest.data, rest.size, part->text.data, part->text.size))) {
        size_t n = (size_t)(at - rest.data) + part->text.size;
        rest = (pc__text){rest.data + n, rest.size - n};
        count++;
    }
    return pc__j_int(count);
}

static pc__jvalue join_method(pc__jinja *j, pc__jvalue self, pc__jvalue list)
{
    list = pc__j_items(j, list);
    for (size_t i = 0; j->status >= 0 && i < list.list->count; i++)
        is_string(j, &list.list->items[i].value);
    return j->status >= 0 ? pc__j_join_list(j, list, self) : none();
}

/* A method and filter of this name; -1: none. */
static int case_of(pc__text name)
{
    static const char *const names[] = {"upper", "lower", "capitalize", "title"};
    for (int how = PC__J_UPPER; how <= PC__J_TITLE; how++)
        if (pc__j_is(name, names[how]))
            return how;
    return -1;
}

static pc__jvalue string_method(pc__jinja *j, pc__jvalue self, pc__text name,
                                const pc__jarguments *a)
{
    pc__jvalue given[PC__J_MOST_ARGUMENTS];
    int how = case_of(name);
    if (how >= 0)
        return no_arguments(j, a, name) ? pc__j_change_case(j, self, how) : none();
    if (pc__j_is_listed("strip lstrip rstrip", name)) {
        int which = pc__j_arguments(j, a, name, POSITIONS(1), 0, given);
        if (which == 0)
            given[0] = none();
        how = *name.data == 'l'   ? PC__J_LEFT
              : *name.data == 'r' ? PC__J_RIGHT
                                  : PC__J_LEFT | PC__J_RIGHT;
        return which < 0 ? none() : pc__j_strip(j, self, &given[0], how);
    }
    if (pc__j_is(name, "split"))
        return split_method(j, self, name, a);
    if (pc__j_is(name, "replace"))
        return replace_method(j, self, name, a);
    if (!pc__j_is_listed("startswith endswith find count join", name))
        return pc__j_fail(j, PC_ERR_UNSUPPORTED, "method '%.*s' is not known", (int)name.size,
                          name.data);
    if (pc__j_arguments(j, a, name, POSITIONS(1), 1, given) < 0)
        return none();
    if (pc__j_is(name, "join"))
        return join_method(j, self, given[0]);
    if (*name.data == 's' || *name.data == 'e')
        return pc__j_bool(has_end(j, &self, &given[0], *name.data == 's'));
    return count_method(j, self, &given[0], *name.data == 'f');
}

/* ------------------------------------------------------------------ methods */

static pc__jvalue map_entries(pc__jinja *j, const pc__jvalue *map, char what)
{
    pc__jvalue list = pc__j_list(j, PC__J_VIEW);
    for (size_t i = 0; i < map->list->count && pc__j_step(j); i++) {
        const pc__jentry *entry = &map->list->items[i];
        if (what == 'i') {
            pc__jvalue pair = pc__j_list(j, PC__J_TUPLE);
            pc__j_add(j, pair, entry->key);
            pc__j_add(j, pair, entry->value);
            pc__j_add(j, list, pair);
        } else {
            pc__j_add(j, list, what == 'k' ? entry->key : entry->value);
        }
    }
    return list;
}

static pc__jvalue map_method(pc__jinja *j, pc__jvalue self, pc__text name, const pc__jarguments *a)
{
    pc__jvalue given[PC__J_MOST_ARGUMENTS];
    int which;
    if (pc__j_is_listed("items keys values", name))
        return no_arguments(j, a, name) ? map_entries(j, &self, *name.data) : none();
    if ((which = pc__j_arguments(j, a, name, POSITIONS(2), 1, given)) < 0)
        return none();
    if (given[0].kind < PC__J_NONE || given[0].kind > PC__J_STRING)
        return pc__j_fail(j, PC_ERR_UNSUPPORTED, "get() of such a key");
    const pc__jvalue *member = pc__j_member(j, &self, &given[0]);
    return member ? *member : which & 2 ? given[1] : none();
}

/* loop.cycle(...) */
static pc__jvalue loop_method(pc__jinja *j, const pc__jloop *loop, pc__text name,
                              const pc__jarguments *a)
{
    for (size_t i = 0; i < a->count; i++)
        if (a->name[i].size)
            return pc__j_fail(j, PC_ERR_FORMAT, "cycle() takes no names");
    if (!pc__j_is(name, "cycle") || !a->count)
        return pc__j_fail(j, PC_ERR_UNSUPPORTED, "'loop.%.*s' is not known", (int)name.size,
                          name.data);
    return a->value[loop->at % a->count];
}

pc__jvalue pc__j_method(pc__jinja *j, pc__jvalue self, pc__text name, const pc__jarguments *a)
{
    if (self.kind == PC__J_STRING)
        return string_method(j, self, name, a);
    if (self.kind == PC__J_MAP && pc__j_is_listed("get items keys values", name))
        return map_method(j, self, name, a);
    if (self.kind == PC__J_LOOP)
        return loop_method(j, self.loop, name, a);
    if (self.kind == PC__J_UNDEFINED)
        return pc__j_fail(j, PC_ERR_FORMAT, "'%.*s' of an undefined value", (int)name.size,
                          name.data);
    return pc__j_fail(j, PC_ERR_UNSUPPORTED, "method '%.*s' is not known", (int)name.size,
                      name.data);
}

int pc__j_is_method(const pc__jvalue *of, pc__text name)
{
    static const char *const names[] = {
        [PC__J_BOOL] = "as_integer_ratio bit_count bit_length conjugate denominator from_bytes "
                       "imag is_integer numerator real to_bytes",
        [PC__J_STRING] =
            "capitalize casefold center count encode endswith expandtabs find format format_map "
            "index isalnum isalpha isascii isdecimal isdigit isidentifier islower isnumeric "
            "isprintable isspace istitle isupper join ljust lower lstrip maketrans partition "
            "removeprefix removesuffix replace rfind rindex rjust rpartition rsplit rstrip split "
            "splitlines startswith strip swapcase title translate upper zfill",
        [PC__J_LIST] = "append clear copy count extend index insert pop remove reverse sort",
        [PC__J_TUPLE] = "count index",
        [PC__J_RANGE] = "count index start step stop",
        [PC__J_VIEW] = "isdisjoint mapping",
        [PC__J_ITERATOR] = "close gi_code gi_frame gi_running gi_suspended gi_yieldfrom send throw",
        [PC__J_MAP] = "clear copy fromkeys get items keys pop popitem setdefault update values",
    };
    pc__jkind kind = of->kind == PC__J_INT ? PC__J_BOOL : of->kind;
    return kind < sizeof names / sizeof *names && names[kind] && pc__j_is_listed(names[kind], name);
}

/* ------------------------------------------------------------------ tests */

#define HOLDS(kind) (1u << PC__J_##kind)
#define SEQUENCES \
    (HOLDS(STRING) | HOLDS(LIST) | HOLDS(TUPLE) | HOLDS(RANGE) | HOLDS(MAP) | HOLDS(UNDEFINED))

/* Tests that only look at the kind of a value. */
static const struct {
    const char *name;
    unsigned kinds;
} kind_tests[] = {
    {"undefined", HOLDS(UNDEFINED)},
    {"none", HOLDS(NONE)},
    {"boolean", HOLDS(BOOL)},
    {"integer", HOLDS(INT)},
    {"float", HOLDS(REAL)},
    {"number", HOLDS(INT) | HOLDS(BOOL) | HOLDS(REAL)},
    {"string", HOLDS(STRING)},
    {"mapping", HOLDS(MAP)},
    {"sequence", SEQUENCES},
    {"iterable", SEQUENCES | HOLDS(VIEW) | HOLDS(ITERATOR) | HOLDS(LOOP)},
    /* an undefined value can be called; that raises its error */
    {"callable", HOLDS(MACRO) | HOLDS(FUNCTION) | HOLDS(UNDEFINED) | HOLDS(LOOP)},
};

/* Tests with one operand, by the names that Jinja has for them. */
static int comparison_of(pc__text name)
{
    static const char *const names[] = {[PC__JS_EQUAL] = "== eq equalto",
                                        [PC__JS_UNEQUAL] = "!= ne",
                                        [PC__JS_LESS] = "< lt lessthan",
                                        [PC__JS_LESS_EQUAL] = "<= le",
                                        [PC__JS_GREATER] = "> gt greaterthan",
                                        [PC__JS_GREATER_EQUAL] = ">= ge",
                                        [PC__JS_IN] = "in"};
    for (int sign = PC__JS_EQUAL; sign <= PC__JS_IN; sign++)
        if (pc__j_is_listed(names[sign], name))
            return sign;
    return 0;
}

int pc__j_test(pc__jinja *j, pc__text name, const pc__jvalue *v, const pc__jarguments *a)
{
    pc__jvalue with;
    int sign = comparison_of(name);
    if (sign)
        return pc__j_arguments(j, a, name, POSITIONS(1), 1, &with) >= 0
               && pc__j_compare(j, sign, v, &with);
    if (!no_arguments(j, a, name))
        return 0;
    for (size_t i = 0; i < sizeof kind_tests / sizeof *kind_tests; i++)
        if (pc__j_is(name, kind_tests[i].name))
            return (int)(kind_tests[i].kinds >> v->kind & 1);
    if (pc__j_is(name, "defined"))
        return v->kind != PC__J_UNDEFINED
               && (j->dated || !(v->kind == PC__J_FUNCTION && pc__j_is(v->text, "strftime_now")));
    if (pc__j_is_listed("true false", name))
        return v->kind == PC__J_BOOL && v->number == (*name.data == 't');
    if (pc__j_is_listed("odd even", name) && pc__j_is_number(v))
        return (v->number % 2 != 0) == (*name.data == 'o');
    pc__j_fail(j, PC_ERR_UNSUPPORTED, "test '%.*s' is not known for this value", (int)name.size,
               name.data);
    return 0;
}

/* ------------------------------------------------------------------ filters of lists */

/* The arguments behind the first `n`, which have positions. */
static pc__jarguments rest_of(const pc__jarguments *a, size_t n)
{
    pc__jarguments rest = {.count = a->count - n};
    memcpy(rest.value, a->value + n, rest.count * sizeof *rest.value);
    memcpy(rest.name, a->name + n, rest.count * sizeof *rest.name);
    return rest;
}

static size_t position_count(const pc__jarguments *a)
{
    size_t n = 0;
    while (n < a->count && !a->name[n].size)
        n++;
    return n;
}

/* The attribute that map() and its like name: paths are not understood. */
static int is_attribute(pc__jinja *j, const pc__jvalue *name)
{
    int plain = name->kind == PC__J_STRING && !memchr(name->text.data, '.', name->text.size)
                && name->text.size && !(*name->text.data >= '0' && *name->text.data <= '9');
    if (!plain)
        pc__j_fail(j, PC_ERR_UNSUPPORTED, "such an attribute is not understood");
    return plain;
}

/* select, reject, selectattr, rejectattr: the items, or those whose attribute, pass a test. */
static pc__jvalue select_items(pc__jinja *j, pc__jvalue list, const pc__jarguments *a, int wanted,
                               int attribute)
{
    pc__jvalue out = pc__j_list(j, PC__J_ITERATOR);
    size_t at = attribute != 0, count = position_count(a);
    if (count < at || (attribute && !is_attribute(j, &a->value[0])))
        return pc__j_fail(j, PC_ERR_FORMAT, "an attribute is missing");
    if (count > at && a->value[at].kind != PC__J_STRING)
        return pc__j_fail(j, PC_ERR_FORMAT, "the name of a test is missing");
    if (count == at && a->count > count)
        return pc__j_fail(j, PC_ERR_UNSUPPORTED, "such arguments are not understood");
    pc__jarguments rest = count > at ? rest_of(a, at + 1) : (pc__jarguments){.count = 0};
    for (size_t i = 0; j->status >= 0 && i < list.list->count && pc__j_step(j); i++) {
        pc__jvalue v = list.list->items[i].value;
        if (attribute)
            v = pc__j_element(j, &v, &a->value[0]);
        if (j->status >= 0
            && (count > at ? pc__j_test(j, a->value[at].text, &v, &rest) : pc__j_truth(&v))
                   == wanted)
            pc__j_add(j, out, list.list->items[i].value);
    }
    return out;
}

static pc__jvalue map_attribute(pc__jinja *j, pc__jvalue list, pc__text name,
                                const pc__jarguments *a)
{
    pc__jvalue out = pc__j_list(j, PC__J_ITERATOR), given[PC__J_MOST_ARGUMENTS];
    int which = pc__j_arguments(j, a, name, "attribute default", 1, given);
    if (which < 0 || !is_attribute(j, &given[0]))
        return none();
    for (size_t i = 0; i < list.list->count && pc__j_step(j); i++) {
        pc__jvalue v = pc__j_element(j, &list.list->items[i].value, &given[0]);
        if (v.kind == PC__J_UNDEFINED && which & 2 && given[1].kind != PC__J_NONE)
            v = given[1];
        pc__j_add(j, out, v);
    }
    return out;
}

static pc__jvalue map_items(pc__jinja *j, pc__jvalue list, pc__text name, const pc__jarguments *a)
{
    if (!position_count(a))
        return map_attribute(j, list, name, a);
    pc__jvalue out = pc__j_list(j, PC__J_ITERATOR);
    pc__jarguments rest = rest_of(a, 1);
    if (a->value[0].kind != PC__J_STRING)
        return pc__j_fail(j, PC_ERR_FORMAT, "map() needs the name of a filter");
    for (size_t i = 0; j->status >= 0 && i < list.list->count && pc__j_step(j); i++)
        pc__j_add(j, out, pc__j_filter(j, a->value[0].text, list.list->items[i].value, &rest));
    return out;
}

static pc__jvalue join_items(pc__jinja *j, pc__jvalue v, pc__text name, const pc__jarguments *a)
{
    pc__jvalue given[PC__J_MOST_ARGUMENTS], texts = pc__j_list(j, PC__J_LIST);
    int which = pc__j_arguments(j, a, name, "d attribute", 0, given);
    if (which < 0)
        return none();
    if (!(which & 1))
        given[0] = pc__j_string(pc__text_of(""));
    int attribute = which & 2 && given[1].kind != PC__J_NONE && is_attribute(j, &given[1]);
    v = pc__j_items(j, v);
    for (size_t i = 0; j->status >= 0 && i < v.list->count && pc__j_step(j); i++) {
        pc__jvalue item = v.list->items[i].value;
        if (attribute)
            item = pc__j_element(j, &item, &given[1]);
        pc__j_add(j, texts, pc__j_text(j, item));
    }
    return pc__j_join_list(j, texts, pc__j_text(j, given[0]));
}

/* The first item, or the last one. */
static pc__jvalue end_item(pc__jinja *j, pc__jvalue v, int last)
{
    if (last && v.kind == PC__J_ITERATOR)
        return pc__j_fail(j, PC_ERR_FORMAT, "'last' of what a filter gives: it has no end yet");
    v = pc__j_items(j, v);
    if (j->status < 0 || !v.list->count)
        return (pc__jvalue){.text = pc__text_of(last ? "last" : "first")};
    return v.list->items[last ? v.list->count - 1 : 0].value;
}

static pc__jvalue copy_items(pc__jinja *j, pc__jvalue v)
{
    pc__jvalue list = pc__j_list(j, PC__J_LIST);
    v = pc__j_items(j, v);
    for (size_t i = 0; j->status >= 0 && i < v.list->count && pc__j_step(j); i++)
        pc__j_add(j, list, v.list->items[i].value);
    return list;
}

static pc__jvalue item_pairs(pc__jinja *j, pc__jvalue v)
{
    pc__jvalue pairs = pc__j_list(j, PC__J_ITERATOR);
    if (v.kind == PC__J_MAP) {
        pairs = map_entries(j, &v, 'i');
        pairs.kind = PC__J_ITERATOR;
    } else if (v.kind != PC__J_UNDEFINED) {
        pc__j_fail(j, PC_ERR_FORMAT, "items of a value that is no mapping");
    }
    return pairs;
}

/* ------------------------------------------------------------------ filters */

static pc__jvalue default_value(pc__jinja *j, pc__jvalue v, pc__text name, const pc__jarguments *a)
{
    pc__jvalue given[PC__J_MOST_ARGUMENTS];
    int which = pc__j_arguments(j, a, name, "default_value boolean", 0, given);
    if (which < 0)
        return none();
    if (v.kind != PC__J_UNDEFINED && !(which & 2 && pc__j_truth(&given[1]) && !pc__j_truth(&v)))
        return v;
    return which & 1 ? given[0] : pc__j_string(pc__text_of(""));
}

/* As in Jinja, filters of strings work on the printed form of any value. */
static pc__jvalue string_filter(pc__jinja *j, pc__text name, pc__jvalue v, const pc__jarguments *a)
{
    pc__jvalue given[PC__J_MOST_ARGUMENTS];
    int how = case_of(name), which;
    v = pc__j_text(j, v);
    if (how >= 0)
        return no_arguments(j, a, name)
                   ? pc__j_change_case(j, v, how == PC__J_TITLE ? PC__J_TITLE_FILTER : how)
                   : none();
    if (pc__j_is(name, "trim")) {
        if (!(which = pc__j_arguments(j, a, name, "chars", 0, given)))
            given[0] = none();
        return which < 0 ? none() : pc__j_strip(j, v, &given[0], PC__J_LEFT | PC__J_RIGHT);
    }
    if ((which = pc__j_arguments(j, a, name, "old new count", 2, given)) < 0)
        return none();
    int64_t most = which & 4 && given[2].kind == PC__J_NONE
                       ? -1
                       : number_or(j, &given[2], which & 4, -1);
    return pc__j_replace(j, v, pc__j_text(j, given[0]), pc__j_text(j, given[1]), most);
}

static pc__jvalue plain_filter(pc__jinja *j, pc__text name, pc__jvalue v)
{
    if (pc__j_is(name, "string"))
        return pc__j_text(j, v);
    if (pc__j_is(name, "list"))
        return copy_items(j, v);
    if (pc__j_is(name, "items"))
        return item_pairs(j, v);
    if (pc__j_is_listed("first last", name))
        return end_item(j, v, *name.data == 'l');
    int64_t length = pc__j_length(j, &v);
    return length >= 0 ? pc__j_int(length)
                       : pc__j_fail(j, PC_ERR_FORMAT, "'%.*s' of a value that has none",
                                    (int)name.size, name.data);
}

pc__jvalue pc__j_filter(pc__jinja *j, pc__text name, pc__jvalue v, const pc__jarguments *a)
{
    if (pc__j_is_listed("default d", name))
        return default_value(j, v, name, a);
    if (pc__j_is_listed("string list items first last length count", name))
        return no_arguments(j, a, name) ? plain_filter(j, name, v) : none();
    if (pc__j_is_listed("trim replace upper lower capitalize title", name))
        return string_filter(j, name, v, a);
    if (pc__j_is(name, "join"))
        return join_items(j, v, name, a);
    if (pc__j_is(name, "tojson"))
        return pc__j_to_json(j, &v, a);
    if (!pc__j_is_listed("map select reject selectattr rejectattr", name))
        return pc__j_fail(j, PC_ERR_UNSUPPORTED, "filter '%.*s' is not known", (int)name.size,
                          name.data);
    v = pc__j_truth(&v) ? pc__j_items(j, v) : pc__j_list(j, PC__J_LIST);
    if (j->status < 0)
        return none();
    if (pc__j_is(name, "map"))
        return map_items(j, v, name, a);
    return select_items(j, v, a, *name.data == 's', name.size > 6);
}

int pc__j_knows(pc__text name, int is_test)
{
    return pc__j_is_listed(
        is_test ? "odd even divisibleby defined undefined filter test none boolean false true "
                  "integer float lower upper string mapping number sequence iterable callable "
                  "sameas escaped in == eq equalto != ne > gt greaterthan ge >= < lt lessthan <= le"
                : "abs attr batch capitalize center count d default dictsort e escape "
                  "filesizeformat first float forceescape format groupby indent int items join "
                  "last length list lower map max min pprint random reject rejectattr replace "
                  "reverse round safe select selectattr slice sort string striptags sum title "
                  "tojson trim truncate unique upper urlencode urlize wordcount wordwrap xmlattr",
        name);
}

/* ------------------------------------------------------------------ functions */

static pc__jvalue make_range(pc__jinja *j, pc__text name, const pc__jarguments *a)
{
    pc__jvalue given[PC__J_MOST_ARGUMENTS], list = pc__j_list(j, PC__J_RANGE);
    int which = pc__j_arguments(j, a, name, POSITIONS(3), 1, given);
    if (which < 0)
        return none();
    int64_t from = number_or(j, &given[0], 1, 0), to = number_or(j, &given[1], which & 2, from),
            step = number_or(j, &given[2], which & 4, 1);
    if (!(which & 2))
        from = 0;
    if (!step)
        pc__j_fail(j, PC_ERR_FORMAT, "range() needs a step other than 0");
    for (int64_t i = from; j->status >= 0 && (step > 0 ? i < to : i > to) && pc__j_step(j);
         i += step)
        pc__j_add(j, list, pc__j_int(i));
    return list;
}

/* namespace() and dict(), from named arguments and perhaps a mapping. */
static pc__jvalue new_map(pc__jinja *j, const pc__jarguments *a, pc__jkind kind)
{
    pc__jvalue map = pc__j_list(j, kind);
    for (size_t i = 0; i < a->count && j->status >= 0; i++)
        if (a->name[i].size) {
            pc__j_put(j, map, pc__j_string(a->name[i]), a->value[i]);
        } else if (i || a->value[i].kind != PC__J_MAP) {
            pc__j_fail(j, PC_ERR_UNSUPPORTED, "such arguments are not understood");
        } else {
            const pc__jlist *from = a->value[i].list;
            for (size_t e = 0; e < from->count && j->status >= 0; e++)
                pc__j_put(j, map, from->items[e].key, from->items[e].value);
        }
    return map;
}

static pc__jvalue format_today(pc__jinja *j, const pc__jvalue *format)
{
    char pattern[64], text[128];
    time_t now = j->now ? (time_t)j->now : time(NULL);
    struct tm parts;
    if (format->kind != PC__J_STRING || format->text.size >= sizeof pattern
        || !localtime_r(&now, &parts))
        return pc__j_fail(j, PC_ERR_FORMAT, "strftime_now() needs a format of at most 63 bytes");
    memcpy(pattern, format->text.data, format->text.size);
    pattern[format->text.size] = 0;
    return pc__j_join(j,
                      pc__j_string((pc__text){text, strftime(text, sizeof text, pattern, &parts)}),
                      pc__j_string(pc__text_of("")));
}

int pc__j_is_function(pc__text name)
{
    return pc__j_is_listed("raise_exception namespace dict range strftime_now", name);
}

pc__jvalue pc__j_function(pc__jinja *j, pc__text name, const pc__jarguments *a)
{
    pc__jvalue first;
    if (pc__j_is_listed("namespace dict", name))
        return new_map(j, a, *name.data == 'n' ? PC__J_NAMESPACE : PC__J_MAP);
    if (pc__j_is(name, "range"))
        return make_range(j, name, a);
    if (pc__j_arguments(j, a, name, POSITIONS(1), 1, &first) < 0)
        return none();
    if (pc__j_is(name, "strftime_now"))
        return format_today(j, &first);
    return pc__j_fail(
        j, PC_ERR_INVALID, "the template refuses: %.*s",
        first.kind == PC__J_STRING ? (int)(first.text.size < 120 ? first.text.size : 120) : 0,
        first.kind == PC__J_STRING ? first.text.data : "");
}
