/* Evaluates expressions of Jinja. */
#include "text/jinja_internal.h"

/* Python has these names; the library does not. */
#define OTHER_NAMES "varargs kwargs caller self super lipsum cycler joiner"

static pc__jvalue named_value(pc__jinja *j, pc__text name)
{
    pc__jvalue value = pc__j_string(name), *variable = pc__j_variable(j, name);
    if (variable)
        return *variable;
    if (pc__j_is_listed(OTHER_NAMES, name))
        return pc__j_fail(j, PC_ERR_UNSUPPORTED, "'%.*s' is not known", (int)name.size, name.data);
    value.kind = pc__j_is_function(name) ? PC__J_FUNCTION : PC__J_UNDEFINED;
    return value;
}

static pc__jvalue list_of(pc__jinja *j, const pc__jnode *first, pc__jkind kind)
{
    pc__jvalue list = pc__j_list(j, kind);
    for (const pc__jnode *n = first; n && j->status >= 0; n = n->next)
        pc__j_add(j, list, pc__j_eval(j, n));
    return list;
}

static pc__jvalue map_of(pc__jinja *j, const pc__jnode *first)
{
    pc__jvalue map = pc__j_list(j, PC__J_MAP);
    for (const pc__jnode *n = first; n && j->status >= 0; n = n->next) {
        pc__jvalue key = pc__j_eval(j, n->of[0]);
        pc__j_put(j, map, key, pc__j_eval(j, n->of[1]));
    }
    return map;
}

/* ------------------------------------------------------------------ members */

static pc__jvalue loop_member(pc__jinja *j, const pc__jloop *loop, pc__text name)
{
    int64_t n = (int64_t)loop->items->count, at = (int64_t)loop->at;
    const pc__jentry *items = loop->items->items;
    if (pc__j_is(name, "index"))
        return pc__j_int(at + 1);
    if (pc__j_is(name, "index0"))
        return pc__j_int(at);
    if (pc__j_is(name, "revindex"))
        return pc__j_int(n - at);
    if (pc__j_is(name, "revindex0"))
        return pc__j_int(n - at - 1);
    if (pc__j_is(name, "first"))
        return pc__j_bool(!at);
    if (pc__j_is(name, "last"))
        return pc__j_bool(at + 1 == n);
    if (pc__j_is(name, "length"))
        return pc__j_int(n);
    if (pc__j_is(name, "depth") || pc__j_is(name, "depth0"))
        return pc__j_int(pc__j_is(name, "depth"));
    if (pc__j_is(name, "previtem"))
        return at ? items[at - 1].value : (pc__jvalue){0};
    if (pc__j_is(name, "nextitem"))
        return at + 1 < n ? items[at + 1].value : (pc__jvalue){0};
    return pc__j_fail(j, PC_ERR_UNSUPPORTED, "'loop.%.*s' is not known", (int)name.size, name.data);
}

/* `first`: attributes that Python gives the value hide its members, after a dot. */
static pc__jvalue member_of(pc__jinja *j, const pc__jvalue *of, pc__text name, int first)
{
    pc__jvalue key = pc__j_string(name);
    if (of->kind == PC__J_UNDEFINED)
        return pc__j_fail(j, PC_ERR_FORMAT, "'%.*s' of an undefined value", (int)name.size,
                          name.data);
    if (of->kind == PC__J_NAMESPACE && j->filtering)
        return pc__j_fail(j, PC_ERR_UNSUPPORTED, "a loop's condition reads a namespace");
    if (of->kind == PC__J_LOOP)
        return loop_member(j, of->loop, name);
    const pc__jvalue *member = pc__j_member(j, of, &key);
    if (member && !first)
        return *member;
    if ((name.size && *name.data == '_') || of->kind >= PC__J_MACRO || pc__j_is_method(of, name))
        return pc__j_fail(j, PC_ERR_UNSUPPORTED, "'%.*s' without a call is not understood",
                          (int)name.size, name.data);
    return member ? *member : (pc__jvalue){.text = name};
}

static int is_sequence(const pc__jvalue *v)
{
    return v->kind == PC__J_LIST || v->kind == PC__J_TUPLE || v->kind == PC__J_RANGE;
}

pc__jvalue pc__j_element(pc__jinja *j, const pc__jvalue *of, const pc__jvalue *index)
{
    pc__jvalue list = *of;
    int64_t at = index->number, count;
    if (of->kind == PC__J_UNDEFINED)
        return pc__j_fail(j, PC_ERR_FORMAT, "an element of an undefined value");
    if (of->kind == PC__J_MAP) {
        const pc__jvalue *member = pc__j_member(j, of, index);
        if (member)
            return *member;
    }
    if (index->kind == PC__J_STRING)
        return member_of(j, of, index->text, 0);
    if (!pc__j_is_number(index) || (!is_sequence(of) && of->kind != PC__J_STRING))
        return (pc__jvalue){.text = pc__text_of("element")};
    if (of->kind == PC__J_STRING)
        list = pc__j_items(j, *of);
    if (j->status < 0)
        return (pc__jvalue){0};
    count = (int64_t)list.list->count;
    at += at < 0 ? count : 0;
    return at >= 0 && at < count ? list.list->items[at].value
                                 : (pc__jvalue){.text = pc__text_of("element")};
}

/* The bounds of a slice, as in Python. */
static int64_t slice_bound(const pc__jvalue *given, int64_t otherwise, int64_t count, int64_t step)
{
    int64_t at = given->number;
    if (!pc__j_is_number(given))
        return otherwise;
    at += at < 0 ? count : 0;
    if (at < 0)
        return step < 0 ? -1 : 0;
    return at < count ? at : step < 0 ? count - 1 : count;
}

static pc__jvalue slice(pc__jinja *j, const pc__jvalue *of, const pc__jvalue part[3])
{
    int text = of->kind == PC__J_STRING;
    int64_t step = pc__j_is_number(&part[2]) ? part[2].number : 1, count, from, to;
    int fits = (text || is_sequence(of)) && step;
    for (int i = 0; i < 3; i++)
        fits &= part[i].kind == PC__J_NONE || pc__j_is_number(&part[i]);
    if (!fits)
        return pc__j_fail(j, PC_ERR_FORMAT, "such a slice does not work");
    pc__jvalue all = pc__j_items(j, *of), some = pc__j_list(j, text ? PC__J_LIST : of->kind);
    if (j->status < 0)
        return some;
    count = (int64_t)all.list->count;
    from = slice_bound(&part[0], step < 0 ? count - 1 : 0, count, step);
    to = slice_bound(&part[1], step < 0 ? -1 : count, count, step);
    for (int64_t i = from; (step < 0 ? i > to : i < to) && pc__j_step(j); i += step)
        pc__j_add(j, some, all.list->items[i].value);
    return text ? pc__j_join_list(j, some, pc__j_part(of, pc__text_of(""))) : some;
}

static pc__jvalue eval_slice(pc__jinja *j, const pc__jnode *n)
{
    pc__jvalue of = pc__j_eval(j, n->of[0]), part[3];
    for (int i = 0; i < 3; i++)
        part[i] = n->of[i + 1] ? pc__j_eval(j, n->of[i + 1]) : (pc__jvalue){.kind = PC__J_NONE};
    return j->status >= 0 ? slice(j, &of, part) : (pc__jvalue){0};
}

/* ------------------------------------------------------------------ calls */

static void eval_arguments(pc__jinja *j, const pc__jnode *first, pc__jarguments *a)
{
    a->count = 0;
    for (const pc__jnode *n = first; n && j->status >= 0; n = n->next, a->count++) {
        if (a->count == PC__J_ARGUMENTS || n->sign == '*') {
            pc__j_fail(j, PC_ERR_UNSUPPORTED, "more than %d arguments, or '*' before one",
                       PC__J_ARGUMENTS);
            return;
        }
        a->name[a->count] = n->name;
        a->value[a->count] = pc__j_eval(j, n->of[0]);
    }
}

static pc__jvalue call_value(pc__jinja *j, const pc__jvalue *what, const pc__jarguments *a)
{
    if (what->kind == PC__J_FUNCTION)
        return pc__j_function(j, what->text, a);
    if (what->kind == PC__J_MACRO)
        return pc__j_call_macro(j, what, a);
    return pc__j_fail(j, PC_ERR_UNSUPPORTED, "function '%.*s' is not known",
                      (int)(what->kind == PC__J_UNDEFINED ? what->text.size : 0),
                      what->text.data ? what->text.data : "");
}

/* A name after a dot may be a method, or a member that holds a function. */
static pc__jvalue eval_call(pc__jinja *j, const pc__jnode *n)
{
    const pc__jnode *callee = n->of[0];
    int attribute = callee->op == PC__JO_ATTRIBUTE;
    pc__jvalue of = pc__j_eval(j, attribute ? callee->of[0] : callee), key, *member;
    pc__jarguments a;
    if (attribute && of.kind == PC__J_UNDEFINED)
        return pc__j_fail(j, PC_ERR_FORMAT, "'%.*s' of an undefined value", (int)callee->name.size,
                          callee->name.data);
    eval_arguments(j, n->of[1], &a);
    if (j->status < 0)
        return (pc__jvalue){0};
    if (!attribute)
        return call_value(j, &of, &a);
    key = pc__j_string(callee->name);
    if (!pc__j_is_method(&of, callee->name) && (member = pc__j_member(j, &of, &key)))
        return call_value(j, member, &a);
    return pc__j_method(j, of, callee->name, &a);
}

static pc__jvalue eval_filter(pc__jinja *j, const pc__jnode *n)
{
    pc__jvalue value = pc__j_eval(j, n->of[0]);
    pc__jarguments a;
    eval_arguments(j, n->of[1], &a);
    if (j->status < 0)
        return (pc__jvalue){0};
    j->at = n->at;
    return n->op == PC__JO_FILTER ? pc__j_filter(j, n->name, value, &a)
                                  : pc__j_bool(pc__j_test(j, n->name, &value, &a));
}

/* ------------------------------------------------------------------ operators */

static int fits(int64_t x)
{
    return x <= INT32_MAX && x >= INT32_MIN;
}

static pc__jvalue repeat(pc__jinja *j, const pc__jvalue *text, int64_t times)
{
    pc__jvalue list = pc__j_list(j, PC__J_LIST);
    for (int64_t i = 0; i < times && pc__j_step(j); i++)
        pc__j_add(j, list, *text);
    return pc__j_join_list(j, list, pc__j_part(text, pc__text_of("")));
}

static pc__jvalue power(pc__jinja *j, int64_t x, int64_t n)
{
    int64_t result = 1;
    for (int64_t i = 0; i < n && fits(result) && pc__j_step(j); i++)
        result *= x;
    return n >= 0 && fits(result)
               ? pc__j_int(result)
               : pc__j_fail(j, PC_ERR_UNSUPPORTED, "a power that is no small integer");
}

static pc__jvalue numbers(pc__jinja *j, int sign, int64_t x, int64_t y)
{
    int64_t rest;
    if (!fits(x) || !fits(y) || sign == '/' || ((sign == '%' || sign == PC__JS_QUOTIENT) && !y))
        return pc__j_fail(j, PC_ERR_FORMAT, "'%c' does not work on these values",
                          sign == PC__JS_QUOTIENT ? '/' : sign);
    switch (sign) {
    case '%':
        rest = x % y;
        return pc__j_int(rest && (rest < 0) != (y < 0) ? rest + y : rest);
    case PC__JS_QUOTIENT:
        return pc__j_int(x / y - (x % y && (x < 0) != (y < 0)));
    case PC__JS_POWER:
        return power(j, x, y);
    default:
        return pc__j_int(sign == '+' ? x + y : sign == '-' ? x - y : x * y);
    }
}

static pc__jvalue arithmetic(pc__jinja *j, int sign, pc__jvalue a, pc__jvalue b)
{
    if (j->status < 0)
        return (pc__jvalue){0};
    if (pc__j_is_number(&a) && pc__j_is_number(&b))
        return numbers(j, sign, a.number, b.number);
    if (sign == '+' && a.kind == PC__J_STRING && b.kind == PC__J_STRING)
        return pc__j_join(j, a, b);
    if (sign == '*' && a.kind == PC__J_STRING && pc__j_is_number(&b))
        return repeat(j, &a, b.number);
    if (sign == '*' && b.kind == PC__J_STRING && pc__j_is_number(&a))
        return repeat(j, &b, a.number);
    if (sign == '+' && a.kind == b.kind && (a.kind == PC__J_LIST || a.kind == PC__J_TUPLE)) {
        pc__jvalue list = pc__j_list(j, a.kind);
        for (size_t i = 0; i < a.list->count && pc__j_step(j); i++)
            pc__j_add(j, list, a.list->items[i].value);
        for (size_t i = 0; i < b.list->count && pc__j_step(j); i++)
            pc__j_add(j, list, b.list->items[i].value);
        return list;
    }
    return pc__j_fail(j, PC_ERR_FORMAT, "'%c' does not work on these values",
                      sign == PC__JS_POWER      ? '*'
                      : sign == PC__JS_QUOTIENT ? '/'
                                                : sign);
}

static int order(pc__jinja *j, const pc__jvalue *a, const pc__jvalue *b)
{
    size_t n = a->text.size < b->text.size ? a->text.size : b->text.size;
    int sign;
    if (pc__j_is_number(a) && pc__j_is_number(b))
        return (a->number > b->number) - (a->number < b->number);
    if (a->kind != PC__J_STRING || b->kind != PC__J_STRING) {
        pc__j_fail(j, PC_ERR_UNSUPPORTED, "only numbers and strings can be compared by order");
        return 0;
    }
    pc__j_charge(j, n);
    sign = n ? memcmp(a->text.data, b->text.data, n) : 0; /* as by code points */
    return sign ? sign : (a->text.size > b->text.size) - (a->text.size < b->text.size);
}

int pc__j_compare(pc__jinja *j, int sign, const pc__jvalue *a, const pc__jvalue *b)
{
    switch (sign) {
    case PC__JS_EQUAL:
    case PC__JS_UNEQUAL:
        return pc__j_equal(j, a, b) == (sign == PC__JS_EQUAL);
    case PC__JS_IN:
    case PC__JS_NOT_IN:
        return pc__j_contains(j, b, a) == (sign == PC__JS_IN);
    case PC__JS_LESS:
        return order(j, a, b) < 0;
    case PC__JS_LESS_EQUAL:
        return order(j, a, b) <= 0;
    case PC__JS_GREATER:
        return order(j, a, b) > 0;
    default:
        return order(j, a, b) >= 0;
    }
}

/* As in Python, "a < b < c" is "a < b and b < c". */
static pc__jvalue eval_comparison(pc__jinja *j, const pc__jnode *n)
{
    pc__jvalue value = pc__j_eval(j, n->of[0]);
    int truth = 1;
    for (const pc__jnode *o = n->of[1]; o && truth && j->status >= 0; o = o->next) {
        pc__jvalue next = pc__j_eval(j, o->of[0]);
        if (j->status < 0)
            break;
        j->at = o->at;
        truth = pc__j_compare(j, o->sign, &value, &next);
        value = next;
    }
    return pc__j_bool(truth);
}

static pc__jvalue eval_concatenation(pc__jinja *j, const pc__jnode *n)
{
    pc__jvalue list = pc__j_list(j, PC__J_LIST);
    for (const pc__jnode *o = n->of[0]; o && j->status >= 0; o = o->next)
        pc__j_add(j, list, pc__j_text(j, pc__j_eval(j, o)));
    return pc__j_join_list(j, list, pc__j_string(pc__text_of("")));
}

static pc__jvalue eval_sign(pc__jinja *j, const pc__jnode *n)
{
    pc__jvalue value = pc__j_eval(j, n->of[0]);
    if (j->status >= 0 && !pc__j_is_number(&value))
        return pc__j_fail(j, PC_ERR_FORMAT, "'%c' before a value that is not a number", n->sign);
    return pc__j_int(n->sign == '-' ? -value.number : value.number);
}

static pc__jvalue eval_choice(pc__jinja *j, const pc__jnode *n)
{
    pc__jvalue value = pc__j_eval(j, n->of[0]);
    int truth = j->status >= 0 && pc__j_truth(&value);
    if (j->status < 0)
        return value;
    switch (n->op) {
    case PC__JO_NOT:
        return pc__j_bool(!truth);
    case PC__JO_OR:
        return truth ? value : pc__j_eval(j, n->of[1]);
    case PC__JO_AND:
        return truth ? pc__j_eval(j, n->of[1]) : value;
    default:
        return truth      ? pc__j_eval(j, n->of[1])
               : n->of[2] ? pc__j_eval(j, n->of[2])
                          : (pc__jvalue){.text = pc__text_of("if")};
    }
}

static pc__jvalue eval_node(pc__jinja *j, const pc__jnode *n)
{
    pc__jvalue a;
    switch (n->op) {
    case PC__JO_CONST:
        return n->value;
    case PC__JO_NAME:
        return named_value(j, n->name);
    case PC__JO_TUPLE:
        return list_of(j, n->of[0], PC__J_TUPLE);
    case PC__JO_LIST:
        return list_of(j, n->of[0], PC__J_LIST);
    case PC__JO_MAP:
        return map_of(j, n->of[0]);
    case PC__JO_CONDITION:
    case PC__JO_OR:
    case PC__JO_AND:
    case PC__JO_NOT:
        return eval_choice(j, n);
    case PC__JO_COMPARE:
        return eval_comparison(j, n);
    case PC__JO_ARITHMETIC:
        a = pc__j_eval(j, n->of[0]);
        return arithmetic(j, n->sign, a, pc__j_eval(j, n->of[1]));
    case PC__JO_CONCAT:
        return eval_concatenation(j, n);
    case PC__JO_SIGN:
        return eval_sign(j, n);
    case PC__JO_ATTRIBUTE:
        a = pc__j_eval(j, n->of[0]);
        return j->status >= 0 ? member_of(j, &a, n->name, 1) : a;
    case PC__JO_ELEMENT:
        a = pc__j_eval(j, n->of[0]);
        pc__jvalue index = pc__j_eval(j, n->of[1]);
        return j->status >= 0 ? pc__j_element(j, &a, &index) : a;
    case PC__JO_SLICE:
        return eval_slice(j, n);
    case PC__JO_CALL:
        return eval_call(j, n);
    case PC__JO_FILTER:
    case PC__JO_TEST:
        return eval_filter(j, n);
    default:
        return pc__j_fail(j, PC_ERR_UNSUPPORTED, "%.*s is not understood", (int)n->name.size,
                          n->name.data);
    }
}

pc__jvalue pc__j_eval(pc__jinja *j, const pc__jnode *node)
{
    pc__jvalue value = {0};
    if (pc__j_enter(j)) {
        j->at = node->at;
        value = eval_node(j, node);
    }
    j->depth--;
    return j->status >= 0 ? value : (pc__jvalue){0};
}
