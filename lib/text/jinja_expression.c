/* Expressions of Jinja, computed while they are parsed: one function per level of precedence, from
 * the tightest to the loosest. */
#include "text/jinja_internal.h"

static int is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static void skip_blanks(pc__jinja *j)
{
    while (j->at < j->end && pc__is_blank(*j->at))
        j->at++;
}

int pc__j_accept(pc__jinja *j, const char *mark)
{
    size_t n = strlen(mark);
    skip_blanks(j);
    if ((size_t)(j->end - j->at) < n || memcmp(j->at, mark, n))
        return 0;
    j->at += n;
    return 1;
}

static size_t word_size(const char *at, const char *end)
{
    const char *p = at;
    while (p < end && (pc__is_letter(*p) || (p > at && is_digit(*p))))
        p++;
    return (size_t)(p - at);
}

int pc__j_accept_word(pc__jinja *j, const char *word)
{
    size_t n = strlen(word);
    skip_blanks(j);
    if (word_size(j->at, j->end) != n || memcmp(j->at, word, n))
        return 0;
    j->at += n;
    return 1;
}

pc__text pc__j_name(pc__jinja *j)
{
    skip_blanks(j);
    pc__text name = {j->at, word_size(j->at, j->end)};
    j->at += name.size;
    return name;
}

pc__text pc__j_expect_name(pc__jinja *j, const char *after)
{
    pc__text name = pc__j_name(j);
    if (!name.size)
        pc__j_fail(j, PC_ERR_FORMAT, "a name is missing after '%s'", after);
    return name;
}

void pc__j_expect(pc__jinja *j, const char *mark)
{
    if (!pc__j_accept(j, mark))
        pc__j_fail(j, PC_ERR_FORMAT, "'%s' is missing before \"%.*s\"", mark,
                   (int)(j->end - j->at < 20 ? j->end - j->at : 20), j->at);
}

void pc__j_expect_end(pc__jinja *j)
{
    skip_blanks(j);
    if (j->at < j->end)
        pc__j_fail(j, PC_ERR_UNSUPPORTED, "\"%.*s\" is not understood",
                   (int)(j->end - j->at < 20 ? j->end - j->at : 20), j->at);
}

int pc__j_goes_on(pc__jinja *j, int first, const char *close)
{
    if (!first && !pc__j_accept(j, ",")) {
        pc__j_expect(j, close);
        return 0;
    }
    return j->status >= 0 && !pc__j_accept(j, close);
}

/* ------------------------------------------------------------------ literals */

/* The character that an escape stands for; 0: both characters stay. */
static char escaped(char c)
{
    static const char from[] = "ntr\\'\"", to[] = "\n\t\r\\'\"";
    const char *at = c ? strchr(from, c) : NULL;
    return at ? to[at - from] : 0;
}

static pc__jvalue string_literal(pc__jinja *j)
{
    char quote = *j->at++, *out = NULL;
    const char *from = j->at;
    size_t n = 0;
    while (j->at < j->end && *j->at != quote)
        j->at += *j->at == '\\' && j->at + 1 < j->end ? 2 : 1;
    if (j->at >= j->end)
        return pc__j_fail(j, PC_ERR_FORMAT, "a string has no end");
    if (!j->skip && !(out = pc__j_alloc(j, (size_t)(j->at - from) + 1)))
        return (pc__jvalue){0};
    for (const char *p = from; out && p < j->at; p++) {
        char c = *p == '\\' ? escaped(p[1]) : 0;
        if (*p == '\\' && (p[1] == 'u' || p[1] == 'x'))
            pc__j_fail(j, PC_ERR_UNSUPPORTED, "escapes by number (\\x, \\u) are not understood");
        out[n++] = c ? c : *p;
        p += c != 0;
    }
    j->at += j->status >= 0;
    return out ? pc__j_string((pc__text){out, n}) : (pc__jvalue){0};
}

static pc__jvalue number(pc__jinja *j)
{
    int64_t value = 0;
    for (; j->at < j->end && is_digit(*j->at); j->at++)
        value = value < INT64_C(1) << 50 ? value * 10 + (*j->at - '0') : value;
    if (j->at + 1 < j->end && *j->at == '.' && is_digit(j->at[1]))
        pc__j_fail(j, PC_ERR_UNSUPPORTED, "numbers with fractions are not understood");
    return pc__j_int(value);
}

/* The items up to `close`; a map has keys. */
static pc__jvalue items(pc__jinja *j, pc__jkind kind, const char *close)
{
    pc__jvalue list = pc__j_list(j, kind);
    for (int first = 1; pc__j_goes_on(j, first, close); first = 0) {
        pc__jvalue key = {0}, value = pc__j_expression(j);
        if (kind == PC__J_MAP) {
            key = value;
            pc__j_expect(j, ":");
            value = pc__j_expression(j);
        }
        pc__j_add_pair(j, list, key, value);
    }
    return list;
}

/* A value in parentheses, or a tuple. */
static pc__jvalue read_parentheses(pc__jinja *j)
{
    if (pc__j_accept(j, ")"))
        return pc__j_list(j, PC__J_LIST);
    pc__jvalue value = pc__j_expression(j);
    if (!pc__j_accept(j, ",")) {
        pc__j_expect(j, ")");
        return value;
    }
    pc__jvalue list = items(j, PC__J_LIST, ")");
    if (list.list) { /* the first one belongs in front */
        pc__j_add(j, list, value);
        for (size_t i = list.list->count; i-- > 1 && j->status >= 0;) {
            pc__jentry moved = list.list->items[i];
            list.list->items[i] = list.list->items[i - 1];
            list.list->items[i - 1] = moved;
        }
    }
    return list;
}

static pc__jvalue named_value(pc__jinja *j, pc__text name)
{
    pc__jvalue word = pc__j_string(name), *variable = pc__j_variable(j, 0, name);
    if (pc__j_is(&word, "true") || pc__j_is(&word, "True"))
        return pc__j_bool(1);
    if (pc__j_is(&word, "false") || pc__j_is(&word, "False"))
        return pc__j_bool(0);
    if (pc__j_is(&word, "none") || pc__j_is(&word, "None"))
        return (pc__jvalue){.kind = PC__J_NONE};
    if (variable)
        return *variable;
    word.kind = pc__j_is_function(name) ? PC__J_FUNCTION : PC__J_UNDEFINED;
    return word;
}

static pc__jvalue read_primary(pc__jinja *j)
{
    pc__text name;
    skip_blanks(j);
    if (j->at >= j->end)
        return pc__j_fail(j, PC_ERR_FORMAT, "an expression ends too early");
    if (*j->at == '\'' || *j->at == '"') {
        pc__jvalue text = string_literal(j);
        for (skip_blanks(j); j->at < j->end && (*j->at == '\'' || *j->at == '"'); skip_blanks(j))
            text = pc__j_join(j, text, string_literal(j));
        return text;
    }
    if (is_digit(*j->at))
        return number(j);
    if (pc__j_accept(j, "("))
        return read_parentheses(j);
    if (pc__j_accept(j, "["))
        return items(j, PC__J_LIST, "]");
    if (pc__j_accept(j, "{"))
        return items(j, PC__J_MAP, "}");
    if ((name = pc__j_name(j)).size)
        return named_value(j, name);
    pc__j_expect_end(j);
    return (pc__jvalue){0};
}

/* ------------------------------------------------------------------ after a value */

static void read_arguments(pc__jinja *j, pc__jarguments *a)
{
    for (a->count = 0; pc__j_goes_on(j, !a->count, ")"); a->count++) {
        pc__text key = pc__j_name(j);
        const char *from = key.data;
        if (!key.size || pc__j_accept(j, "==") || !pc__j_accept(j, "=")) {
            key.size = 0;
            j->at = from;
        }
        if (a->count == PC__J_ARGUMENTS) {
            pc__j_fail(j, PC_ERR_LIMIT, "more than %d arguments", PC__J_ARGUMENTS);
            return;
        }
        a->name[a->count] = key;
        a->value[a->count] = pc__j_expression(j);
    }
}

static pc__jvalue get_attribute(pc__jinja *j, const pc__jvalue *of, pc__text name)
{
    const pc__jvalue *member = pc__j_member(of, name);
    if (of->kind == PC__J_UNDEFINED && !j->skip)
        pc__j_fail(j, PC_ERR_FORMAT, "'%.*s' of an undefined value", (int)name.size, name.data);
    return member ? *member : (pc__jvalue){0};
}

static pc__jvalue get_element(pc__jinja *j, const pc__jvalue *of, const pc__jvalue *index)
{
    pc__jvalue list = *of;
    int64_t at = index->number, count;
    if (j->skip)
        return (pc__jvalue){0};
    if (index->kind == PC__J_STRING || of->kind == PC__J_UNDEFINED)
        return get_attribute(j, of, index->kind == PC__J_STRING ? index->text : pc__text_of("[…]"));
    if (index->kind != PC__J_INT || (of->kind != PC__J_LIST && of->kind != PC__J_STRING))
        return (pc__jvalue){0};
    if (of->kind == PC__J_STRING)
        list = pc__j_characters(j, *of);
    count = pc__j_length(&list);
    at += at < 0 ? count : 0;
    return at >= 0 && at < count ? list.list->items[at].value : (pc__jvalue){0};
}

/* The bounds of a slice, as in Python. */
static int64_t slice_bound(const pc__jvalue *given, int64_t otherwise, int64_t count, int64_t step)
{
    int64_t at = given->number;
    if (given->kind != PC__J_INT)
        return otherwise;
    at += at < 0 ? count : 0;
    if (at < 0)
        return step < 0 ? -1 : 0;
    return at < count ? at : step < 0 ? count - 1 : count;
}

static pc__jvalue get_slice(pc__jinja *j, const pc__jvalue *of, const pc__jvalue part[3])
{
    int text = of->kind == PC__J_STRING;
    int64_t step = part[2].kind == PC__J_INT ? part[2].number : 1, count, from, to;
    pc__jvalue all, some, joined = pc__j_string(pc__text_of(""));
    if (j->skip || (!text && of->kind != PC__J_LIST) || !step)
        return (pc__jvalue){0};
    all = text ? pc__j_characters(j, *of) : *of;
    some = pc__j_list(j, PC__J_LIST);
    if (j->status < 0)
        return some;
    count = pc__j_length(&all);
    from = slice_bound(&part[0], step < 0 ? count - 1 : 0, count, step);
    to = slice_bound(&part[1], step < 0 ? -1 : count, count, step);
    for (int64_t i = from; step < 0 ? i > to : i < to; i += step)
        pc__j_add(j, some, all.list->items[i].value);
    for (size_t i = 0; text && some.list && i < some.list->count && pc__j_step(j); i++)
        joined = pc__j_join(j, joined, some.list->items[i].value);
    return text ? joined : some;
}

/* After "[". */
static pc__jvalue read_subscript(pc__jinja *j, const pc__jvalue *of)
{
    pc__jvalue part[3] = {{0}};
    int parts = 0;
    do {
        skip_blanks(j);
        if (j->at < j->end && *j->at != ':' && *j->at != ']')
            part[parts] = pc__j_expression(j);
        parts++;
    } while (parts < 3 && pc__j_accept(j, ":"));
    pc__j_expect(j, "]");
    return parts == 1 ? get_element(j, of, &part[0]) : get_slice(j, of, part);
}

static pc__jvalue read_call(pc__jinja *j, pc__jvalue what)
{
    pc__jarguments a;
    read_arguments(j, &a);
    if (j->skip || j->status < 0)
        return (pc__jvalue){0};
    if (what.kind == PC__J_FUNCTION)
        return pc__j_function(j, what, &a);
    if (what.kind == PC__J_MACRO)
        return pc__j_macro(j, (size_t)what.number, &a);
    return pc__j_fail(j, PC_ERR_UNSUPPORTED, "function '%.*s' is not known",
                      (int)(what.kind == PC__J_UNDEFINED ? what.text.size : 0),
                      what.text.data ? what.text.data : "");
}

/* After ".": a method call, or a member. */
static pc__jvalue read_member(pc__jinja *j, pc__jvalue of)
{
    pc__jarguments a;
    pc__text name = pc__j_expect_name(j, ".");
    if (!pc__j_accept(j, "("))
        return get_attribute(j, &of, name);
    read_arguments(j, &a);
    return j->skip || j->status < 0 ? (pc__jvalue){0} : pc__j_method(j, of, pc__j_string(name), &a);
}

static pc__jvalue read_postfix(pc__jinja *j, pc__jvalue value)
{
    while (pc__j_step(j)) {
        if (pc__j_accept(j, "."))
            value = read_member(j, value);
        else if (pc__j_accept(j, "["))
            value = read_subscript(j, &value);
        else if (pc__j_accept(j, "("))
            value = read_call(j, value);
        else
            break;
    }
    return value;
}

/* After "is": a test may have one operand, with or without parentheses. */
static pc__jvalue read_test(pc__jinja *j, const pc__jvalue *value)
{
    int negated = pc__j_accept_word(j, "not");
    pc__text name = pc__j_expect_name(j, "is");
    pc__jvalue with = {0};
    skip_blanks(j);
    if (j->at < j->end && (strchr("(['\"", *j->at) || is_digit(*j->at)))
        with = read_postfix(j, read_primary(j));
    if (j->skip || j->status < 0)
        return (pc__jvalue){0};
    return pc__j_bool(pc__j_test(j, pc__j_string(name), value, &with) != negated);
}

static pc__jvalue read_filters(pc__jinja *j, pc__jvalue value)
{
    while (pc__j_step(j)) {
        pc__jarguments a = {.count = 0};
        if (pc__j_accept_word(j, "is")) {
            value = read_test(j, &value);
            continue;
        }
        if (!pc__j_accept(j, "|"))
            break;
        pc__text name = pc__j_expect_name(j, "|");
        if (pc__j_accept(j, "("))
            read_arguments(j, &a);
        if (!j->skip && j->status >= 0)
            value = pc__j_filter(j, pc__j_string(name), value, &a);
    }
    return value;
}

/* ------------------------------------------------------------------ operators */

static pc__jvalue read_unary(pc__jinja *j)
{
    int negative = pc__j_accept(j, "-");
    pc__jvalue value = read_filters(j, read_postfix(j, read_primary(j)));
    if (negative && value.kind != PC__J_INT && !j->skip)
        pc__j_fail(j, PC_ERR_FORMAT, "'-' before a value that is not a number");
    return negative ? pc__j_int(-value.number) : value;
}

static pc__jvalue arithmetic(pc__jinja *j, char sign, pc__jvalue a, pc__jvalue b)
{
    int64_t x = a.number, y = b.number, rest;
    if (j->skip || j->status < 0)
        return (pc__jvalue){0};
    if (sign == '+' && a.kind == PC__J_STRING && b.kind == PC__J_STRING)
        return pc__j_join(j, a, b);
    if (sign == '+' && a.kind == PC__J_LIST && b.kind == PC__J_LIST) {
        pc__jvalue list = pc__j_list(j, PC__J_LIST);
        for (size_t i = 0; i < a.list->count + b.list->count && pc__j_step(j); i++)
            pc__j_add(j, list,
                      i < a.list->count ? a.list->items[i].value
                                        : b.list->items[i - a.list->count].value);
        return list;
    }
    if (a.kind != PC__J_INT || b.kind != PC__J_INT || x > INT32_MAX || x < INT32_MIN
        || y > INT32_MAX || y < INT32_MIN || sign == '/' || (sign == '%' && !y))
        return pc__j_fail(j, PC_ERR_FORMAT, "'%c' does not work on these values", sign);
    if (sign == '%') {
        rest = x % y;
        return pc__j_int(rest && (rest < 0) != (y < 0) ? rest + y : rest);
    }
    return pc__j_int(sign == '+' ? x + y : sign == '-' ? x - y : x * y);
}

/* One of these characters, which it takes; 0: none of them is here. */
static char accept_sign(pc__jinja *j, const char *signs)
{
    skip_blanks(j);
    return j->at < j->end && *j->at && strchr(signs, *j->at) ? *j->at++ : 0;
}

static pc__jvalue read_product(pc__jinja *j)
{
    pc__jvalue value = read_unary(j);
    char sign;
    while (pc__j_step(j) && (sign = accept_sign(j, "*/%")))
        value = arithmetic(j, sign, value, read_unary(j));
    return value;
}

static pc__jvalue read_concatenation(pc__jinja *j)
{
    pc__jvalue value = read_product(j);
    while (pc__j_step(j) && pc__j_accept(j, "~")) {
        pc__jvalue after = read_product(j);
        if (!j->skip)
            value = pc__j_join(j, pc__j_text(j, value), pc__j_text(j, after));
    }
    return value;
}

static pc__jvalue read_sum(pc__jinja *j)
{
    pc__jvalue value = read_concatenation(j);
    char sign;
    while (pc__j_step(j) && (sign = accept_sign(j, "+-")))
        value = arithmetic(j, sign, value, read_concatenation(j));
    return value;
}

enum { NO_COMPARISON, EQUAL, UNEQUAL, LESS_EQUAL, GREATER_EQUAL, LESS, GREATER, IN, NOT_IN };

static int comparison_sign(pc__jinja *j)
{
    static const char *const marks[] = {"==", "!=", "<=", ">=", "<", ">"};
    const char *from = j->at;
    for (int i = 0; i < 6; i++)
        if (pc__j_accept(j, marks[i]))
            return EQUAL + i;
    if (pc__j_accept_word(j, "in"))
        return IN;
    if (pc__j_accept_word(j, "not") && pc__j_accept_word(j, "in"))
        return NOT_IN;
    if (j->status >= 0)
        j->at = from;
    return NO_COMPARISON;
}

static int compare_numbers(pc__jinja *j, int sign, const pc__jvalue *a, const pc__jvalue *b)
{
    if (a->kind != PC__J_INT || b->kind != PC__J_INT) {
        pc__j_fail(j, PC_ERR_UNSUPPORTED, "only numbers can be compared by order");
        return 0;
    }
    return sign == LESS         ? a->number < b->number
           : sign == LESS_EQUAL ? a->number <= b->number
           : sign == GREATER    ? a->number > b->number
                                : a->number >= b->number;
}

static pc__jvalue read_comparison(pc__jinja *j)
{
    pc__jvalue value = read_sum(j);
    int sign;
    while (pc__j_step(j) && (sign = comparison_sign(j))) {
        pc__jvalue b = read_sum(j);
        if (j->skip || j->status < 0)
            continue;
        if (sign == EQUAL || sign == UNEQUAL)
            value = pc__j_bool(pc__j_equal(&value, &b) == (sign == EQUAL));
        else if (sign == IN || sign == NOT_IN)
            value = pc__j_bool(pc__j_contains(j, &b, &value) == (sign == IN));
        else
            value = pc__j_bool(compare_numbers(j, sign, &value, &b));
    }
    return value;
}

static pc__jvalue read_negation(pc__jinja *j)
{
    int negated = 0;
    while (pc__j_step(j) && pc__j_accept_word(j, "not"))
        negated++;
    pc__jvalue value = read_comparison(j);
    return negated ? pc__j_bool(pc__j_truth(&value) == (negated % 2 == 0)) : value;
}

/* Operands between "and"s, or between "or"s: one whose truth is `settling` decides. */
static pc__jvalue read_logical(pc__jinja *j, const char *word, int settling,
                               pc__jvalue (*read_operand)(pc__jinja *))
{
    pc__jvalue value = read_operand(j);
    while (pc__j_step(j) && pc__j_accept_word(j, word)) {
        int settled = pc__j_truth(&value) == settling;
        j->skip += settled;
        pc__jvalue next = read_operand(j);
        j->skip -= settled;
        value = settled ? value : next;
    }
    return value;
}

static pc__jvalue read_conjunction(pc__jinja *j)
{
    return read_logical(j, "and", 0, read_negation);
}

pc__jvalue pc__j_or(pc__jinja *j)
{
    return read_logical(j, "or", 1, read_conjunction);
}

/* Whether "if" follows in this expression, before a comma or bracket ends it. */
static int is_conditional(const pc__jinja *j)
{
    int depth = 0;
    for (const char *p = j->at; p < j->end; p++) {
        size_t n = word_size(p, j->end);
        if (*p == '\'' || *p == '"') {
            char quote = *p;
            for (p++; p < j->end && *p != quote; p++)
                p += *p == '\\';
        } else if (strchr("([{", *p) && *p) {
            depth++;
        } else if (strchr(")]}", *p) && *p) {
            if (!depth--)
                return 0;
        } else if (*p == ',' && !depth) {
            return 0;
        } else if (n) {
            if (!depth && n == 2 && !memcmp(p, "if", 2))
                return 1;
            if (!depth && n == 4 && !memcmp(p, "else", 4))
                return 0;
            p += n - 1;
        }
    }
    return 0;
}

static pc__jvalue read_conditional(pc__jinja *j)
{
    const char *first = j->at, *after;
    pc__jvalue value = {0}, condition;
    j->skip++;
    pc__j_or(j);
    j->skip--;
    if (!pc__j_accept_word(j, "if"))
        pc__j_expect(j, "if");
    condition = pc__j_or(j);
    int truth = pc__j_truth(&condition);
    after = j->at;
    if (truth && j->status >= 0) {
        j->at = first;
        value = pc__j_or(j);
        j->at = j->status >= 0 ? after : j->end;
    }
    if (pc__j_accept_word(j, "else")) {
        j->skip += truth;
        pc__jvalue other = pc__j_expression(j);
        j->skip -= truth;
        value = truth ? value : other;
    }
    return value;
}

pc__jvalue pc__j_expression(pc__jinja *j)
{
    pc__jvalue value = {0};
    j->depth++;
    if (pc__j_step(j))
        value = is_conditional(j) ? read_conditional(j) : pc__j_or(j);
    j->depth--;
    return j->status >= 0 ? value : (pc__jvalue){0};
}
