/* Checks texts of grammars: JSON by its parser, rules and expressions by their brackets, numbers
 * and quotes only. Engines walk them recursively and write repeats out. */
#include "text/grammar_text.h"

#include <string.h>

#include "base/fail.h"
#include "base/options.h"
#include "text/json_file.h"
#include "text/utf8.h"

/* XGrammar takes time with the square of the parts of a sequence that may be empty: 200 take half a
 * second. */
enum {
    MOST_BYTES = 256 << 10,
    MOST_EXPRESSION_BYTES = 64 << 10,
    MOST_DEPTH = 100,
    MOST_REPEATS = 100000,
    MOST_OPTIONAL = 200
};

static pc_status too_deep(const char *call, const char *what)
{
    return pc__fail(PC_ERR_LIMIT, "%s: the %s is nested deeper than %d levels", call, what,
                    MOST_DEPTH);
}

static pc_status too_often(const char *call, const char *what, const char *name)
{
    return pc__fail(PC_ERR_LIMIT, "%s: the %s has a count of repeats%s%s above %d", call, what,
                    *name ? ", " : "", name, MOST_REPEATS);
}

/* ------------------------------------------------------------------ expressions and rules */

/* The text between two brackets or quotes is skipped. Returns the place of the closing one. */
static size_t skip_to(const char *text, size_t size, size_t at, char closing)
{
    for (at++; at < size && text[at] != closing; at++)
        if (text[at] == '\\')
            at++;
    return at;
}

/* Of "{12,345}" at `at`. 0: a number is too large. */
static int repeats_fit(const char *text, size_t size, size_t at)
{
    int64_t n = 0;
    for (at++; at < size && text[at] != '}' && n <= MOST_REPEATS; at++)
        n = text[at] >= '0' && text[at] <= '9' ? 10 * n + (text[at] - '0') : 0;
    return n <= MOST_REPEATS;
}

static pc_status check_size(size_t size, size_t most, const char *call, const char *what)
{
    return size > most ? pc__fail(PC_ERR_LIMIT, "%s: the %s has %zu bytes, at most %zu", call, what,
                                  size, most)
                       : PC_OK;
}

/* Whether a part that may be empty ends at `at`: a?, a*, (a|), (|a), of rules "". */
static int is_optional(const char *text, size_t size, size_t at, int rules)
{
    char c = text[at], before = at ? text[at - 1] : 0, behind = at + 1 < size ? text[at + 1] : 0;
    return c == '?' || c == '*' || (rules && c == '"' && behind == '"')
           || (!rules && c == '|' && (before == '(' || behind == ')'));
}

static pc_status check_brackets(const char *text, size_t size, int rules, const char *call,
                                const char *what)
{
    int depth = 0, optional = 0;
    if (!rules)
        PC__TRY_RETURN(check_size(size, MOST_EXPRESSION_BYTES, call, what));
    for (size_t i = 0; i < size; i++) {
        char c = text[i];
        if (rules && c == ':') /* ::=, of the next rule */
            optional = 0;
        else if (is_optional(text, size, i, rules) && ++optional > MOST_OPTIONAL)
            return pc__fail(PC_ERR_LIMIT,
                            "%s: the %s has more than %d optional parts (? and * and empty ones)",
                            call, what, MOST_OPTIONAL);
        else if (rules && c == '#') /* a comment */
            while (i + 1 < size && text[i + 1] != '\n')
                i++;
        else if (c == '\\')
            i++;
        else if (c == '[')
            i = skip_to(text, size, i, ']');
        else if (rules && c == '"')
            i = skip_to(text, size, i, '"');
        else if (c == '(' && ++depth > MOST_DEPTH)
            return too_deep(call, what);
        else if (c == ')')
            depth -= depth > 0;
        else if (c == '{' && !repeats_fit(text, size, i))
            return too_often(call, what, "");
    }
    return PC_OK;
}

/* ------------------------------------------------------------------ JSON schemas */

/* Keywords whose number engines may count up to. */
static int is_count(const char *key)
{
    static const char *const counts[] = {"minItems",    "maxItems",      "minLength",
                                         "maxLength",   "minProperties", "maxProperties",
                                         "minContains", "maxContains"};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
        if (!strcmp(key, counts[i]))
            return 1;
    return 0;
}

static pc_status check_member(const char *key, const json_t *value, const char *call)
{
    if (is_count(key) && json_is_number(value) && !(json_number_value(value) <= MOST_REPEATS))
        return too_often(call, "schema", key);
    if (!strcmp(key, "pattern") && json_is_string(value))
        return check_brackets(json_string_value(value), json_string_length(value), 0, call,
                              "pattern of the schema");
    return PC_OK;
}

static pc_status check_value(const json_t *value, int depth, const char *call)
{
    const char *key;
    json_t *each;
    size_t i;
    if (depth > MOST_DEPTH)
        return too_deep(call, "schema");
    json_array_foreach(value, i, each) PC__TRY_RETURN(check_value(each, depth + 1, call));
    json_object_foreach((json_t *)(uintptr_t)value, key, each)
    {
        PC__TRY_RETURN(check_member(key, each, call));
        PC__TRY_RETURN(check_value(each, depth + 1, call));
    }
    return PC_OK;
}

static pc_status check_schema(const pc_grammar_options *o, const char *call)
{
    json_t *schema;
    pc_status status = pc__json_parse(&schema, o->text, o->text_size, JSON_DECODE_ANY, "schema");
    if (status < 0)
        return pc__fail_in(status, "%s", call);
    if (json_is_object(schema) || json_is_boolean(schema))
        status = check_value(schema, 0, call);
    else
        status = pc__fail(PC_ERR_FORMAT, "%s: the schema is neither an object nor true or false",
                          call);
    json_decref(schema);
    return status;
}

static pc_status check_utf8(const pc_grammar_options *o, const char *call)
{
    for (size_t at = 0; at < o->text_size;) {
        uint32_t code_point;
        int valid;
        size_t n = pc__utf8_read(o->text + at, o->text_size - at, &code_point, &valid);
        if (!valid || !code_point)
            return pc__fail(PC_ERR_FORMAT, "%s: byte %zu of the text is %s", call, at,
                            valid ? "NUL" : "not UTF-8");
        at += n;
    }
    return PC_OK;
}

pc_status pc__grammar_text_check(const pc_grammar_options *o, const char *call)
{
    if (o->kind == PC_GRAMMAR_JSON)
        return PC_OK;
    PC__TRY_RETURN(check_size(o->text_size, MOST_BYTES, call, "text"));
    if (!o->text_size)
        return pc__fail(PC_ERR_INVALID, "%s: the text is empty", call);
    PC__TRY_RETURN(check_utf8(o, call));
    if (o->kind == PC_GRAMMAR_SCHEMA)
        return check_schema(o, call);
    return check_brackets(o->text, o->text_size, o->kind == PC_GRAMMAR_EBNF, call,
                          o->kind == PC_GRAMMAR_EBNF ? "grammar" : "expression");
}
