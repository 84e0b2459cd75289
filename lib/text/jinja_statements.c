/* Reads the statements of a Jinja text. */
#include "text/jinja_internal.h"

/* Names that Jinja gives a meaning of their own. */
#define SPECIAL "true false none True False None loop caller varargs kwargs self super"

static pc__jnode *read_body(pc__jinja *j, const char *ends);

/* Jinja refuses a filter or test that it does not know at once, but for those in conditions. */
static void check_names(pc__jinja *j)
{
    pc__text name = j->unknown;
    j->unknown.size = 0;
    if (name.size && !j->conditional)
        pc__j_fail(j, PC_ERR_UNSUPPORTED, "filter or test '%.*s' is not known",
                   (int)(name.size < 40 ? name.size : 40), name.data);
}

static void end_tag(pc__jinja *j)
{
    const pc__jtoken *now = &j->lexer.now;
    check_names(j);
    if (j->status >= 0 && now->kind != PC__JT_BLOCK_END)
        pc__j_fail(j, PC_ERR_FORMAT, "\"%.*s\" is not understood",
                   (int)(now->text.size < 20 ? now->text.size : 20), now->text.data);
    pc__j_advance(j);
}

/* After a failure the nodes are no tree. */
static void check_target(pc__jinja *j, const pc__jnode *target)
{
    if (j->status < 0)
        return;
    if (target->op == PC__JO_TUPLE) {
        for (const pc__jnode *t = target->of[0]; t; t = t->next)
            check_target(j, t);
    } else if (target->op != PC__JO_NAME && target->op != PC__JO_MEMBER) {
        pc__j_fail(j, PC_ERR_FORMAT, "a name is missing before \"=\" or \"in\"");
    } else if (pc__j_is_listed(SPECIAL, target->name)) {
        pc__j_fail(j, PC_ERR_UNSUPPORTED, "'%.*s' cannot be set", (int)target->name.size,
                   target->name.data);
    }
}

static pc__jnode *read_target(pc__jinja *j, int how)
{
    pc__jnode *target = pc__j_read_tuple(j, PC__J_TARGET | how);
    if (j->status >= 0) /* nodes of a text that failed are one and the same */
        check_target(j, target);
    return target;
}

/* A body in which break and continue are allowed, or not. Names in it must be known. */
static pc__jnode *read_inner(pc__jinja *j, const char *ends, int in_loop)
{
    int conditional = j->conditional, before = j->in_loop;
    j->conditional = 0;
    j->in_loop = in_loop;
    end_tag(j);
    pc__jnode *body = read_body(j, ends);
    j->conditional = conditional;
    j->in_loop = before;
    return body;
}

static pc__jnode *read_for(pc__jinja *j)
{
    pc__jnode *node = pc__j_node(j, PC__JO_FOR);
    int before = j->in_loop;
    node->of[3] = read_target(j, 0);
    if (!pc__j_accept_name(j, "in"))
        pc__j_fail(j, PC_ERR_FORMAT, "'in' is missing");
    node->of[0] = pc__j_read_tuple(j, PC__J_NO_CONDITION);
    if (pc__j_accept_name(j, "if"))
        node->of[4] = pc__j_read_expression(j);
    if (pc__j_accept_name(j, "recursive"))
        pc__j_fail(j, PC_ERR_UNSUPPORTED, "a recursive loop is not understood");
    node->of[1] = read_inner(j, "else endfor", 1);
    if (pc__j_accept_name(j, "else"))
        node->of[2] = read_inner(j, "endfor", before);
    pc__j_advance(j);
    return node;
}

static pc__jnode *read_if(pc__jinja *j)
{
    pc__jnode *first = pc__j_node(j, PC__JO_IF), *node = first;
    j->conditional++;
    for (;;) {
        node->of[0] = pc__j_read_tuple(j, PC__J_NO_CONDITION);
        end_tag(j);
        node->of[1] = read_body(j, "elif else endif");
        if (j->status < 0 || !pc__j_accept_name(j, "elif"))
            break;
        node->of[2] = pc__j_node(j, PC__JO_IF);
        node = node->of[2];
    }
    if (pc__j_accept_name(j, "else")) {
        end_tag(j);
        node->of[3] = read_body(j, "endif");
    }
    pc__j_advance(j);
    j->conditional--;
    return first;
}

static pc__jnode *read_set(pc__jinja *j)
{
    pc__jnode *node = pc__j_node(j, PC__JO_SET);
    node->of[0] = read_target(j, PC__J_MEMBERS);
    if (pc__j_accept(j, "=")) {
        node->of[1] = pc__j_read_tuple(j, 0);
        return node;
    }
    if (pc__j_at_sign(j, "|"))
        pc__j_fail(j, PC_ERR_UNSUPPORTED, "a filter of a set block is not understood");
    node->op = PC__JO_SET_BLOCK;
    node->of[1] = read_inner(j, "endset", 0);
    pc__j_advance(j);
    return node;
}

static pc__jnode *read_parameters(pc__jinja *j)
{
    pc__jnode *first = NULL, **end = &first, *last = NULL;
    pc__j_expect(j, "(");
    while (j->status >= 0 && !pc__j_at_sign(j, ")")) {
        pc__jnode *parameter = pc__j_node(j, PC__JO_NAME);
        parameter->name = pc__j_expect_name(j);
        check_target(j, parameter);
        for (const pc__jnode *p = first; p && pc__j_step(j); p = p->next)
            if (pc__text_equals(p->name, parameter->name))
                pc__j_fail(j, PC_ERR_FORMAT, "two parameters have one name");
        if (pc__j_accept(j, "="))
            parameter->of[0] = pc__j_read_expression(j);
        else if (last && last->of[0])
            pc__j_fail(j, PC_ERR_FORMAT,
                       "a parameter without a default follows one with a default");
        last = parameter;
        *end = parameter;
        end = &parameter->next;
        if (!pc__j_accept(j, ","))
            break;
    }
    pc__j_expect(j, ")");
    return first;
}

static pc__jnode *read_macro(pc__jinja *j)
{
    pc__jnode *node = pc__j_node(j, PC__JO_MACRO);
    node->name = pc__j_expect_name(j);
    if (pc__j_is_listed(SPECIAL, node->name))
        pc__j_fail(j, PC_ERR_UNSUPPORTED, "a macro cannot have this name");
    node->of[0] = read_parameters(j);
    node->of[1] = read_inner(j, "endmacro", 0);
    pc__j_advance(j);
    return node;
}

static pc__jnode *read_leave(pc__jinja *j, pc__jop op)
{
    if (!j->in_loop)
        pc__j_fail(j, PC_ERR_FORMAT, "break or continue outside of a loop");
    return pc__j_node(j, op);
}

/* Statements of Jinja that no chat template needs. They are an error when they are reached. */
static pc__jnode *read_other(pc__jinja *j, pc__text name)
{
    pc__jnode *node = pc__j_node(j, PC__JO_REFUSED);
    node->name = name;
    if (!pc__j_is_listed("call filter with print autoescape endcall endfilter endwith "
                         "endautoescape include import from",
                         name))
        pc__j_fail(j, pc__j_is_listed("block extends", name) ? PC_ERR_UNSUPPORTED : PC_ERR_FORMAT,
                   pc__j_is_listed("endif endfor endmacro endset elif else endgeneration", name)
                       ? "\"%.*s\" is the end of another statement, or has no beginning"
                       : "statement \"%.*s\" is not known",
                   (int)(name.size < 40 ? name.size : 40), name.data);
    while (j->status >= 0 && j->lexer.now.kind != PC__JT_BLOCK_END)
        pc__j_advance(j);
    return node;
}

static pc__jnode *read_statement(pc__jinja *j)
{
    pc__text name = pc__j_expect_name(j);
    pc__jnode *node;
    if (pc__j_is(name, "if"))
        return read_if(j);
    if (pc__j_is(name, "for"))
        return read_for(j);
    if (pc__j_is(name, "set"))
        return read_set(j);
    if (pc__j_is(name, "macro"))
        return read_macro(j);
    if (pc__j_is(name, "break"))
        return read_leave(j, PC__JO_BREAK);
    if (pc__j_is(name, "continue"))
        return read_leave(j, PC__JO_CONTINUE);
    if (!pc__j_is(name, "generation"))
        return read_other(j, name);
    node = pc__j_node(j, PC__JO_BLOCK); /* marks an answer */
    node->of[1] = read_inner(j, "endgeneration", 0);
    pc__j_advance(j);
    return node;
}

static pc__jnode *read_print(pc__jinja *j)
{
    pc__jnode *node = pc__j_node(j, PC__JO_PRINT);
    const pc__jtoken *now = &j->lexer.now;
    pc__j_advance(j);
    node->of[0] = pc__j_read_tuple(j, 0);
    check_names(j);
    if (j->status >= 0 && now->kind != PC__JT_PRINT_END)
        pc__j_fail(j, PC_ERR_FORMAT, "\"%.*s\" is not understood",
                   (int)(now->text.size < 20 ? now->text.size : 20), now->text.data);
    pc__j_advance(j);
    return node;
}

/* Up to a statement whose name is among `ends`; NULL: up to the end of the text. The name is the
 * token that follows. */
static pc__jnode *read_body(pc__jinja *j, const char *ends)
{
    pc__jnode *first = NULL, **end = &first;
    const char *begin = j->at;
    while (pc__j_enter(j)) {
        const pc__jtoken *now = &j->lexer.now;
        if (now->kind == PC__JT_END) {
            j->at = begin;
            if (ends)
                pc__j_fail(j, PC_ERR_FORMAT, "a statement has no end");
            break;
        }
        if (now->kind == PC__JT_TEXT) {
            *end = pc__j_node(j, PC__JO_TEXT);
            (*end)->value = pc__j_string(now->text);
            pc__j_advance(j);
        } else if (now->kind == PC__JT_PRINT) {
            *end = read_print(j);
        } else {
            pc__j_advance(j);
            if (ends && now->kind == PC__JT_NAME && pc__j_is_listed(ends, now->text))
                break;
            *end = read_statement(j);
            end_tag(j);
        }
        end = &(*end)->next;
        j->depth--;
    }
    j->depth--;
    return first;
}

pc__jnode *pc__j_read_statements(pc__jinja *j)
{
    pc__j_start_lexer(j);
    return read_body(j, NULL);
}
