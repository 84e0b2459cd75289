/* Reads expressions of Jinja: one function per level of precedence, from the loosest to the
 * tightest. */
#include "text/jinja_internal.h"

static pc__jnode *read_or(pc__jinja *j);
static pc__jnode *read_unary(pc__jinja *j, int with_filters);

/* Adds to the end of a chain that begins at *first. */
static void chain(pc__jnode **first, pc__jnode ***end, pc__jnode *node)
{
    if (!*first)
        *end = first;
    **end = node;
    *end = &node->next;
}

static pc__jnode *with_operands(pc__jinja *j, pc__jop op, pc__jnode *a, pc__jnode *b)
{
    pc__jnode *node = pc__j_node(j, op);
    node->of[0] = a;
    node->of[1] = b;
    return node;
}

/* A part of the language that is not known, of which `what` is the name. */
static pc__jnode *refused(pc__jinja *j, const char *what)
{
    pc__jnode *node = pc__j_node(j, PC__JO_REFUSED);
    node->name = pc__text_of(what);
    return node;
}

/* ------------------------------------------------------------------ literals */

static int hexadecimal(char c)
{
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

/* A character by its number: `p` is behind "\x", "\u", "\U", or at the first octal digit. Returns
 * the end of the number. */
static const char *numbered(pc__jinja *j, char kind, const char *p, const char *end, char **out)
{
    int octal = kind >= '0' && kind <= '7', base = octal ? 8 : 16;
    int most = octal ? 3 : kind == 'x' ? 2 : kind == 'u' ? 4 : 8, n = 0;
    uint32_t c = 0;
    for (; n < most && p < end && hexadecimal(*p) >= 0 && hexadecimal(*p) < base; n++)
        c = c * (uint32_t)base + (uint32_t)hexadecimal(*p++);
    if ((!octal && n < most) || c > 0x10ffff || (c >= 0xd800 && c < 0xe000) || !c)
        pc__j_fail(j, PC_ERR_UNSUPPORTED, "an escape names no character");
    else
        *out += pc__utf8_write(c, *out);
    return p;
}

/* The character that an escape stands for; 0: both characters stay. */
static char escaped(char c)
{
    static const char from[] = "ntrabfv\\'\"", to[] = "\n\t\r\a\b\f\v\\'\"";
    const char *at = c ? strchr(from, c) : NULL;
    return at ? to[at - from] : 0;
}

static pc__text unescape(pc__jinja *j, pc__text text)
{
    char *start = memchr(text.data, '\\', text.size) ? pc__j_alloc(j, text.size + 1) : NULL,
         *out = start;
    const char *end = text.data + text.size;
    if (!out)
        return text;
    for (const char *p = text.data; p < end && j->status >= 0;) {
        char c = p[1]; /* at the end: the quote */
        if (*p != '\\') {
            *out++ = *p++;
        } else if (c == '\n') {
            p += 2;
        } else if (c == 'x' || c == 'u' || c == 'U' || (c >= '0' && c <= '7')) {
            p = numbered(j, c, p + 1 + !(c >= '0' && c <= '7'), end, &out);
        } else if (c == 'N' || (unsigned char)c >= 0x80) {
            pc__j_fail(j, PC_ERR_UNSUPPORTED, "escapes by name (\\N) are not understood");
        } else if (escaped(c)) {
            *out++ = escaped(c);
            p += 2;
        } else {
            *out++ = *p++;
        }
    }
    return (pc__text){start, (size_t)(out - start)};
}

static pc__jnode *read_string(pc__jinja *j)
{
    pc__jnode *node = pc__j_node(j, PC__JO_CONST);
    node->value = pc__j_string(unescape(j, j->lexer.now.text));
    for (pc__j_advance(j); j->lexer.now.kind == PC__JT_STRING; pc__j_advance(j))
        node->value = pc__j_join(j, node->value, pc__j_string(unescape(j, j->lexer.now.text)));
    return node;
}

static pc__jnode *read_integer(pc__jinja *j)
{
    pc__jnode *node = pc__j_node(j, PC__JO_CONST);
    pc__text text = j->lexer.now.text;
    int64_t value = 0;
    for (size_t i = 0; i < text.size; i++)
        if (text.data[i] != '_')
            value = value < INT64_C(1) << 50 ? value * 10 + (text.data[i] - '0') : value;
    pc__j_advance(j);
    if (value >= INT64_C(1) << 50)
        return refused(j, "a number of this size");
    if (value > j->largest_number)
        j->largest_number = value;
    node->value = pc__j_int(value);
    return node;
}

static pc__jnode *read_list(pc__jinja *j)
{
    pc__jnode *list = pc__j_node(j, PC__JO_LIST), **end = NULL;
    pc__j_expect(j, "[");
    while (j->status >= 0 && !pc__j_at_sign(j, "]")) {
        chain(&list->of[0], &end, pc__j_read_expression(j));
        if (!pc__j_accept(j, ","))
            break;
    }
    pc__j_expect(j, "]");
    return list;
}

static pc__jnode *read_map(pc__jinja *j)
{
    pc__jnode *map = pc__j_node(j, PC__JO_MAP), **end = NULL;
    pc__j_expect(j, "{");
    while (j->status >= 0 && !pc__j_at_sign(j, "}")) {
        pc__jnode *pair = pc__j_node(j, PC__JO_PART);
        pair->of[0] = pc__j_read_expression(j);
        if (j->status >= 0 && pair->of[0]->op >= PC__JO_TUPLE && pair->of[0]->op <= PC__JO_MAP)
            pc__j_fail(j, PC_ERR_UNSUPPORTED, "a key of a mapping is a list");
        pc__j_expect(j, ":");
        pair->of[1] = pc__j_read_expression(j);
        chain(&map->of[0], &end, pair);
        if (!pc__j_accept(j, ","))
            break;
    }
    pc__j_expect(j, "}");
    return map;
}

static pc__jnode *read_name(pc__jinja *j, int members)
{
    pc__jnode *node = pc__j_node(j, PC__JO_NAME);
    node->name = pc__j_expect_name(j);
    if (pc__j_is_listed("true True false False none None", node->name)) {
        node->op = PC__JO_CONST;
        node->value = (pc__jvalue){.kind = PC__J_NONE};
        if (*node->name.data != 'n' && *node->name.data != 'N')
            node->value = pc__j_bool(*node->name.data == 't' || *node->name.data == 'T');
    } else if (members && pc__j_accept(j, ".")) {
        node->op = PC__JO_MEMBER;
        node->value = pc__j_string(pc__j_expect_name(j));
    }
    return node;
}

static pc__jnode *read_primary(pc__jinja *j, int members)
{
    const pc__jtoken *now = &j->lexer.now;
    pc__jnode *node;
    switch (now->kind) {
    case PC__JT_NAME:
        return read_name(j, members);
    case PC__JT_STRING:
        return read_string(j);
    case PC__JT_INTEGER:
        return read_integer(j);
    case PC__JT_NUMBER:
        node = refused(j, "a number that is not a decimal integer");
        pc__j_advance(j);
        return node;
    default:
        break;
    }
    if (pc__j_accept(j, "(")) {
        node = pc__j_read_tuple(j, PC__J_PARENTHESES);
        pc__j_expect(j, ")");
        return node;
    }
    if (pc__j_at_sign(j, "["))
        return read_list(j);
    if (pc__j_at_sign(j, "{"))
        return read_map(j);
    pc__j_fail(j, PC_ERR_FORMAT,
               now->text.size ? "\"%.*s\" is not understood" : "an expression ends too early%.*s",
               (int)(now->text.size < 20 ? now->text.size : 20), now->text.data);
    return pc__j_node(j, PC__JO_CONST);
}

/* ------------------------------------------------------------------ after a value */

static pc__jnode *read_arguments(pc__jinja *j)
{
    pc__jnode *first = NULL, **end = NULL;
    int named = 0;
    pc__j_expect(j, "(");
    while (j->status >= 0 && !pc__j_at_sign(j, ")")) {
        pc__jnode *argument = pc__j_node(j, PC__JO_PART);
        const pc__jtoken *next = &j->lexer.next;
        if (pc__j_at_sign(j, "*") || pc__j_at_sign(j, "**")) {
            pc__j_advance(j);
            argument->sign = '*'; /* refused when the call is reached */
        } else if (j->lexer.now.kind == PC__JT_NAME && next->kind == PC__JT_SIGN
                   && pc__j_is(next->text, "=")) {
            argument->name = pc__j_expect_name(j);
            pc__j_advance(j);
            named = 1;
        } else if (named) {
            pc__j_fail(j, PC_ERR_FORMAT, "an argument without a name follows one with a name");
        }
        argument->of[0] = pc__j_read_expression(j);
        chain(&first, &end, argument);
        if (!pc__j_accept(j, ","))
            break;
    }
    pc__j_expect(j, ")");
    return first;
}

static pc__jnode *read_slice_part(pc__jinja *j)
{
    return pc__j_at_sign(j, ":") || pc__j_at_sign(j, "]") || pc__j_at_sign(j, ",")
               ? NULL
               : pc__j_read_expression(j);
}

/* At "[". */
static pc__jnode *read_subscript(pc__jinja *j, pc__jnode *of)
{
    pc__jnode *node = pc__j_node(j, PC__JO_ELEMENT);
    node->of[0] = of;
    pc__j_expect(j, "[");
    node->of[1] = pc__j_at_sign(j, ":") ? NULL : pc__j_read_expression(j);
    if (pc__j_accept(j, ":")) {
        node->op = PC__JO_SLICE;
        node->of[2] = read_slice_part(j);
        if (pc__j_accept(j, ":"))
            node->of[3] = read_slice_part(j);
    }
    if (pc__j_at_sign(j, ","))
        pc__j_fail(j, PC_ERR_UNSUPPORTED, "several subscripts are not understood");
    pc__j_expect(j, "]");
    return node;
}

static pc__jnode *read_call(pc__jinja *j, pc__jnode *of)
{
    pc__jnode *node = with_operands(j, PC__JO_CALL, of, NULL);
    node->of[1] = read_arguments(j);
    return node;
}

static pc__jnode *read_postfix(pc__jinja *j, pc__jnode *node)
{
    while (j->status >= 0) {
        if (pc__j_accept(j, ".")) {
            node = with_operands(j, PC__JO_ATTRIBUTE, node, NULL);
            if (j->lexer.now.kind == PC__JT_INTEGER) {
                node->op = PC__JO_ELEMENT;
                node->of[1] = read_integer(j);
            } else {
                node->name = pc__j_expect_name(j);
            }
        } else if (pc__j_at_sign(j, "[")) {
            node = read_subscript(j, node);
        } else if (pc__j_at_sign(j, "(")) {
            node = read_call(j, node);
        } else {
            break;
        }
    }
    return node;
}

static pc__text read_callee(pc__jinja *j, int is_test)
{
    pc__text name = pc__j_expect_name(j);
    if (!j->unknown.size && !pc__j_knows(name, is_test))
        j->unknown = name;
    if (pc__j_at_sign(j, "."))
        pc__j_fail(j, PC_ERR_UNSUPPORTED, "a %s of another object is not understood",
                   is_test ? "test" : "filter");
    return name;
}

static pc__jnode *read_filter(pc__jinja *j, pc__jnode *of)
{
    pc__jnode *node = with_operands(j, PC__JO_FILTER, of, NULL);
    node->name = read_callee(j, 0);
    if (pc__j_at_sign(j, "("))
        node->of[1] = read_arguments(j);
    return node;
}

/* After "is". A test may have one operand without parentheses. */
static pc__jnode *read_test(pc__jinja *j, pc__jnode *of)
{
    int negated = pc__j_accept_name(j, "not");
    pc__jnode *node = with_operands(j, PC__JO_TEST, of, NULL);
    node->name = read_callee(j, 1);
    const pc__jtoken *now = &j->lexer.now;
    if (pc__j_at_sign(j, "(")) {
        node->of[1] = read_arguments(j);
    } else if ((now->kind >= PC__JT_NAME && now->kind <= PC__JT_NUMBER
                && !(now->kind == PC__JT_NAME && pc__j_is_listed("else or and", now->text)))
               || pc__j_at_sign(j, "[") || pc__j_at_sign(j, "{")) {
        if (pc__j_at_name(j, "is"))
            pc__j_fail(j, PC_ERR_FORMAT, "a test of a test");
        node->of[1] = pc__j_node(j, PC__JO_PART);
        node->of[1]->of[0] = read_postfix(j, read_primary(j, 0));
    }
    return negated ? with_operands(j, PC__JO_NOT, node, NULL) : node;
}

static pc__jnode *read_filters(pc__jinja *j, pc__jnode *node)
{
    while (j->status >= 0) {
        if (pc__j_accept(j, "|"))
            node = read_filter(j, node);
        else if (pc__j_accept_name(j, "is"))
            node = read_test(j, node);
        else if (pc__j_at_sign(j, "("))
            node = read_call(j, node);
        else
            break;
    }
    return node;
}

/* ------------------------------------------------------------------ operators */

static pc__jnode *read_signed(pc__jinja *j)
{
    pc__jnode *node = pc__j_node(j, PC__JO_SIGN);
    node->sign = *j->lexer.now.text.data;
    pc__j_advance(j);
    if (pc__j_enter(j))
        node->of[0] = read_unary(j, 0);
    j->depth--;
    return node;
}

static pc__jnode *read_unary(pc__jinja *j, int with_filters)
{
    pc__jnode *node = pc__j_at_sign(j, "-") || pc__j_at_sign(j, "+") ? read_signed(j)
                                                                     : read_primary(j, 0);
    node = read_postfix(j, node);
    return with_filters ? read_filters(j, node) : node;
}

static pc__jnode *arithmetic(pc__jinja *j, int sign, pc__jnode *a, pc__jnode *b)
{
    pc__jnode *node = with_operands(j, PC__JO_ARITHMETIC, a, b);
    node->sign = sign;
    return node;
}

static pc__jnode *read_power(pc__jinja *j)
{
    pc__jnode *node = read_unary(j, 1);
    while (pc__j_accept(j, "**"))
        node = arithmetic(j, PC__JS_POWER, node, read_unary(j, 1));
    return node;
}

static pc__jnode *read_product(pc__jinja *j)
{
    static const char *const signs[] = {"*", "/", "//", "%"};
    static const int meaning[] = {'*', '/', PC__JS_QUOTIENT, '%'};
    pc__jnode *node = read_power(j);
    for (int i = 0; i < 4; i++)
        if (pc__j_accept(j, signs[i])) {
            node = arithmetic(j, meaning[i], node, read_power(j));
            i = -1;
        }
    return node;
}

static pc__jnode *read_concatenation(pc__jinja *j)
{
    pc__jnode *first = read_product(j), *node, **end = NULL;
    if (!pc__j_at_sign(j, "~"))
        return first;
    node = pc__j_node(j, PC__JO_CONCAT);
    chain(&node->of[0], &end, first);
    while (pc__j_accept(j, "~"))
        chain(&node->of[0], &end, read_product(j));
    return node;
}

static pc__jnode *read_sum(pc__jinja *j)
{
    pc__jnode *node = read_concatenation(j);
    for (;;) {
        int plus = pc__j_accept(j, "+");
        if (!plus && !pc__j_accept(j, "-"))
            return node;
        node = arithmetic(j, plus ? '+' : '-', node, read_concatenation(j));
    }
}

static int comparison_sign(pc__jinja *j)
{
    static const char *const signs[] = {"==", "!=", "<", "<=", ">", ">="};
    for (int i = 0; i < 6; i++)
        if (pc__j_accept(j, signs[i]))
            return PC__JS_EQUAL + i;
    if (pc__j_accept_name(j, "in"))
        return PC__JS_IN;
    if (!pc__j_at_name(j, "not") || j->lexer.next.kind != PC__JT_NAME
        || !pc__j_is(j->lexer.next.text, "in"))
        return 0;
    pc__j_advance(j);
    pc__j_advance(j);
    return PC__JS_NOT_IN;
}

static pc__jnode *read_comparison(pc__jinja *j)
{
    pc__jnode *first = read_sum(j), *node, *operand, **end = NULL;
    int sign = comparison_sign(j);
    if (!sign)
        return first;
    node = with_operands(j, PC__JO_COMPARE, first, NULL);
    for (; sign && j->status >= 0; sign = comparison_sign(j)) {
        operand = pc__j_node(j, PC__JO_PART);
        operand->sign = sign;
        operand->of[0] = read_sum(j);
        chain(&node->of[1], &end, operand);
    }
    return node;
}

static pc__jnode *read_negation(pc__jinja *j)
{
    int negated = 0;
    while (j->status >= 0 && pc__j_accept_name(j, "not"))
        negated++;
    pc__jnode *node = read_comparison(j);
    for (int n = negated ? 2 - negated % 2 : 0; n; n--) /* twice: a truth */
        node = with_operands(j, PC__JO_NOT, node, NULL);
    return node;
}

static pc__jnode *read_and(pc__jinja *j)
{
    pc__jnode *node = read_negation(j);
    while (pc__j_accept_name(j, "and"))
        node = with_operands(j, PC__JO_AND, node, read_negation(j));
    return node;
}

static pc__jnode *read_or(pc__jinja *j)
{
    pc__jnode *node = read_and(j);
    while (pc__j_accept_name(j, "or"))
        node = with_operands(j, PC__JO_OR, node, read_and(j));
    return node;
}

static pc__jnode *read_conditional(pc__jinja *j)
{
    pc__text unknown = j->unknown;
    pc__jnode *node = read_or(j);
    while (pc__j_accept_name(j, "if")) {
        node = with_operands(j, PC__JO_CONDITION, read_or(j), node);
        if (pc__j_accept_name(j, "else")) {
            if (pc__j_enter(j))
                node->of[2] = read_conditional(j);
            j->depth--;
        }
        j->unknown = unknown; /* within a condition names need not be known */
    }
    return node;
}

pc__jnode *pc__j_read_expression(pc__jinja *j)
{
    pc__jnode *node = NULL;
    if (pc__j_enter(j))
        node = read_conditional(j);
    j->depth--;
    return j->status >= 0 ? node : pc__j_node(j, PC__JO_CONST);
}

static int at_tuple_end(const pc__jinja *j, int how)
{
    pc__jtoken_kind kind = j->lexer.now.kind;
    return kind == PC__JT_PRINT_END || kind == PC__JT_BLOCK_END || pc__j_at_sign(j, ")")
           || (how & PC__J_TARGET && pc__j_at_name(j, "in"));
}

static pc__jnode *read_item(pc__jinja *j, int how)
{
    pc__jnode *node = NULL;
    if (how & PC__J_TARGET)
        return read_primary(j, how & PC__J_MEMBERS);
    if (!(how & PC__J_NO_CONDITION))
        return pc__j_read_expression(j);
    if (pc__j_enter(j))
        node = read_or(j);
    j->depth--;
    return j->status >= 0 ? node : pc__j_node(j, PC__JO_CONST);
}

pc__jnode *pc__j_read_tuple(pc__jinja *j, int how)
{
    pc__jnode *first = NULL, **end = NULL, *tuple;
    int commas = 0;
    while (j->status >= 0 && !at_tuple_end(j, how)) {
        chain(&first, &end, read_item(j, how));
        if (!pc__j_accept(j, ","))
            break;
        commas = 1;
    }
    if (!commas && first)
        return first;
    if (!commas && !(how & PC__J_PARENTHESES))
        pc__j_fail(j, PC_ERR_FORMAT, "an expression ends too early");
    tuple = pc__j_node(j, PC__JO_TUPLE);
    tuple->of[0] = first;
    return tuple;
}
