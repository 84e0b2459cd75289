/* Splits a Jinja text into tokens, as Jinja does with trim_blocks and lstrip_blocks. */
#include "text/jinja_internal.h"

static int is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* What Python counts as white space. */
size_t pc__j_blank_size(const char *at, const char *end)
{
    uint32_t c;
    int valid;
    if (at >= end)
        return 0;
    if ((unsigned char)*at < 0x80)
        return (*at >= 9 && *at <= 13) || (*at >= 28 && *at <= 32);
    size_t n = pc__utf8_read(at, (size_t)(end - at), &c, &valid);
    return valid && pc__code_point_is_blank(c) ? n : 0;
}

static const char *skip_blanks(const char *at, const char *end)
{
    for (size_t n; (n = pc__j_blank_size(at, end));)
        at += n;
    return at;
}

/* The end of the text without white space before it. */
static const char *before_blanks(const char *from, const char *end)
{
    while (end > from) {
        const char *p = end - 1;
        while (p > from && ((unsigned char)*p & 0xc0) == 0x80)
            p--;
        if (pc__j_blank_size(p, end) != (size_t)(end - p))
            break;
        end = p;
    }
    return end;
}

/* ------------------------------------------------------------------ outside of tags */

/* The end of the text before a tag, without what the tag strips. */
static const char *text_end(const pc__jinja *j, const char *from, const char *tag)
{
    const char *line = tag;
    if (tag + 2 < j->end && tag[2] == '-')
        return before_blanks(from, tag);
    if (tag[1] == '{' || (tag + 2 < j->end && tag[2] == '+'))
        return tag;
    while (line > from && line[-1] != '\n')
        line--;
    if (line == from && from > j->source && from[-1] != '\n')
        return tag;
    return skip_blanks(line, tag) == tag ? line : tag;
}

/* After the end of a tag or comment; `end`: its two last characters. */
static const char *after_end(const pc__jinja *j, const char *begin, const char *end, int print)
{
    const char *after = end + 2;
    if (end > begin && end[-1] == '-')
        return skip_blanks(after, j->end);
    if (print || (end > begin && end[-1] == '+'))
        return after;
    return after + (after < j->end && *after == '\n');
}

static pc__jtoken not_closed(pc__jinja *j, const char *tag)
{
    j->at = tag;
    pc__j_fail(j, PC_ERR_FORMAT, "\"%.2s\" is not closed", tag);
    return (pc__jtoken){.at = j->end};
}

/* {% raw %} would need a lexer of its own. */
static int is_raw(const pc__jinja *j, const char *at)
{
    at = skip_blanks(at, j->end);
    if (j->end - at < 3 || memcmp(at, "raw", 3))
        return 0;
    at = skip_blanks(at + 3, j->end);
    return j->end - at >= 2 && (!memcmp(at, "%}", 2) || !memcmp(at, "-%", 2));
}

static const char *find_tag(const pc__jinja *j, const char *p)
{
    for (; p + 1 < j->end; p++)
        if (*p == '{' && (p[1] == '{' || p[1] == '%' || p[1] == '#'))
            return p;
    return NULL;
}

static pc__jtoken outside(pc__jinja *j)
{
    pc__jlexer *l = &j->lexer;
    for (;;) {
        const char *from = l->at, *tag = find_tag(j, from), *stop;
        if (!tag) {
            l->at = j->end;
            return (pc__jtoken){
                from < j->end ? PC__JT_TEXT : PC__JT_END, {from, (size_t)(j->end - from)}, from};
        }
        stop = text_end(j, from, tag);
        if (stop > from) {
            l->at = tag;
            return (pc__jtoken){PC__JT_TEXT, {from, (size_t)(stop - from)}, from};
        }
        const char *inside = tag + 2;
        inside += inside < j->end && (*inside == '-' || *inside == '+');
        if (tag[1] != '#') {
            l->tag = tag;
            l->at = inside;
            if (tag[1] == '%' && is_raw(j, inside)) {
                j->at = tag;
                pc__j_fail(j, PC_ERR_UNSUPPORTED, "statement \"raw\" is not known");
            }
            return (pc__jtoken){tag[1] == '{' ? PC__JT_PRINT : PC__JT_BLOCK, {tag, 2}, tag};
        }
        const char *close = memmem(inside, (size_t)(j->end - inside), "#}", 2);
        if (!close)
            return not_closed(j, tag);
        l->at = after_end(j, inside, close, 0);
    }
}

/* ------------------------------------------------------------------ inside of tags */

static size_t digits(const char *at, const char *end)
{
    size_t n = 0;
    while (at + n < end
           && (is_digit(at[n]) || (n && at[n] == '_' && at + n + 1 < end && is_digit(at[n + 1]))))
        n++;
    return n;
}

/* A decimal integer, or another kind of number. */
static pc__jtoken lex_number(pc__jinja *j, const char *at)
{
    size_t n = digits(at, j->end), more = 0;
    const char *p = at + n;
    pc__jtoken_kind kind = PC__JT_INTEGER;
    if (*at == '0' && at + 1 < j->end && strchr("bBoOxX", at[1]) && at[1]) {
        n = 2;
        while (at + n < j->end && (is_digit(at[n]) || pc__is_letter(at[n])))
            n++;
        return (pc__jtoken){PC__JT_NUMBER, {at, n}, at};
    }
    if (at == j->source || at[-1] != '.') {
        if (p + 1 < j->end && *p == '.' && (more = digits(p + 1, j->end))) {
            kind = PC__JT_NUMBER;
            p += more + 1;
        }
        if (p + 1 < j->end && (*p == 'e' || *p == 'E')) {
            const char *e = p + 1 + (p[1] == '+' || p[1] == '-');
            if (e < j->end && (more = digits(e, j->end))) {
                kind = PC__JT_NUMBER;
                p = e + more;
            }
        }
    }
    if (kind == PC__JT_INTEGER && *at == '0') /* zeros stand alone */
        for (p = at + 1; p < at + n && (*p == '0' || *p == '_'); p++)
            ;
    return (pc__jtoken){kind, {at, (size_t)(p - at)}, at};
}

static pc__jtoken lex_sign(pc__jinja *j, const char *at)
{
    static const char *const pairs[] = {"**", "//", "==", "!=", ">=", "<="};
    pc__jlexer *l = &j->lexer;
    size_t n = 1;
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs && at + 1 < j->end; i++)
        if (!memcmp(at, pairs[i], 2))
            n = 2;
    if (n == 1 && !strchr("+-/*%~[](){}<>=.:|,;", *at)) {
        pc__j_fail(j, PC_ERR_FORMAT, "character \"%.*s\" does not belong here",
                   (unsigned char)*at < 0x80 ? 1 : 0, at);
        return (pc__jtoken){.at = at};
    }
    if (strchr("([{", *at)) {
        if (l->bracket_count == PC__J_BRACKETS)
            pc__j_fail(j, PC_ERR_LIMIT, "more than %d brackets in each other", PC__J_BRACKETS);
        else
            l->brackets[l->bracket_count++] = *at == '(' ? ')' : *at == '[' ? ']' : '}';
    } else if (strchr(")]}", *at)) {
        char open = l->bracket_count ? l->brackets[--l->bracket_count] : 0;
        if (!open)
            pc__j_fail(j, PC_ERR_FORMAT, "\"%c\" closes nothing", *at);
        else if (open != *at)
            pc__j_fail(j, PC_ERR_FORMAT, "'%c' is missing before \"%c\"", open, *at);
    }
    return (pc__jtoken){PC__JT_SIGN, {at, n}, at};
}

static pc__jtoken lex_string(pc__jinja *j, const char *at)
{
    const char *p = at + 1;
    while (p < j->end && *p != *at)
        p += *p == '\\' && p + 1 < j->end ? 2 : 1;
    if (p >= j->end)
        return not_closed(j, j->lexer.tag);
    return (pc__jtoken){PC__JT_STRING, {at + 1, (size_t)(p - at - 1)}, at};
}

/* Takes the end of the tag if it is here. */
static int at_tag_end(pc__jinja *j, const char *at)
{
    pc__jlexer *l = &j->lexer;
    char kind = l->tag[1] == '{' ? '}' : '%';
    const char *end = at + (*at == '-' || (*at == '+' && kind == '%'));
    if (l->bracket_count || j->end - end < 2 || *end != kind || end[1] != '}')
        return 0;
    l->at = after_end(j, at, end, kind == '}');
    l->tag = NULL;
    return 1;
}

static pc__jtoken inside(pc__jinja *j)
{
    pc__jlexer *l = &j->lexer;
    const char *at = l->at = skip_blanks(l->at, j->end);
    pc__jtoken token;
    int print = l->tag[1] == '{';
    if (at >= j->end)
        return not_closed(j, l->tag);
    j->at = at;
    if (at_tag_end(j, at))
        return (pc__jtoken){print ? PC__JT_PRINT_END : PC__JT_BLOCK_END, {at, 0}, at};
    if (is_digit(*at)) {
        token = lex_number(j, at);
    } else if (pc__is_letter(*at)) {
        size_t n = 1;
        while (at + n < j->end && (pc__is_letter(at[n]) || is_digit(at[n])))
            n++;
        token = (pc__jtoken){PC__JT_NAME, {at, n}, at};
    } else if (*at == '\'' || *at == '"') {
        token = lex_string(j, at);
        if (j->status >= 0)
            l->at = token.text.data + token.text.size + 1;
        return token;
    } else {
        token = lex_sign(j, at);
    }
    l->at = at + token.text.size;
    return token;
}

/* ------------------------------------------------------------------ for the parser */

void pc__j_advance(pc__jinja *j)
{
    pc__jlexer *l = &j->lexer;
    l->now = l->next;
    if (pc__j_step(j))
        l->next = l->tag ? inside(j) : outside(j);
    if (j->status < 0)
        l->now = l->next = (pc__jtoken){.at = j->end};
    j->at = l->now.at;
}

void pc__j_start_lexer(pc__jinja *j)
{
    j->lexer = (pc__jlexer){.at = j->source};
    pc__j_charge(j, (size_t)(j->end - j->source));
    pc__j_advance(j);
    pc__j_advance(j);
}

int pc__j_at_sign(const pc__jinja *j, const char *sign)
{
    return j->lexer.now.kind == PC__JT_SIGN && pc__j_is(j->lexer.now.text, sign);
}

int pc__j_at_name(const pc__jinja *j, const char *name)
{
    return j->lexer.now.kind == PC__JT_NAME && pc__j_is(j->lexer.now.text, name);
}

int pc__j_accept(pc__jinja *j, const char *sign)
{
    int here = pc__j_at_sign(j, sign);
    if (here)
        pc__j_advance(j);
    return here;
}

int pc__j_accept_name(pc__jinja *j, const char *name)
{
    int here = pc__j_at_name(j, name);
    if (here)
        pc__j_advance(j);
    return here;
}

void pc__j_expect(pc__jinja *j, const char *sign)
{
    const pc__jtoken *now = &j->lexer.now;
    if (!pc__j_accept(j, sign))
        pc__j_fail(j, PC_ERR_FORMAT, "'%s' is missing before \"%.*s\"", sign,
                   (int)(now->text.size < 20 ? now->text.size : 20), now->text.data);
}

pc__text pc__j_expect_name(pc__jinja *j)
{
    pc__text name = j->lexer.now.text;
    if (j->lexer.now.kind != PC__JT_NAME)
        pc__j_fail(j, PC_ERR_FORMAT, "a name is missing before \"%.*s\"",
                   (int)(name.size < 20 ? name.size : 20), name.data);
    pc__j_advance(j);
    return name;
}
