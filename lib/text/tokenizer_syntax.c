/* From the syntax of Oniguruma (Ruby's), in which tokenizer.json has its expressions, to PCRE2's:
 *
 *   \w \W \b  letters, marks, decimal digits, connectors; PCRE2's before 10.43 have no marks
 *   \h \H     a hexadecimal digit
 *   \p{Han}   characters of the script; PCRE2 from 10.40 on means its script extensions
 *   ^ $       at every line
 *   {,3}      {0,3}
 *   [a[bc]]   a class in a class is added to it; [a&&[^b]]: what is in a and not in b
 *
 * What means something else in PCRE2 and is none of these is refused. \s of PCRE2 has U+180E too:
 * pc__expressions_split hides that character. */
#include <string.h>

#include "base/mem.h"
#include "text/tokenizer_internal.h"

#define WORD "\\p{L}\\p{M}\\p{Nd}\\p{Nl}\\p{Pc}\\x{24b6}-\\x{24e9}"
#define HEX "0-9A-Fa-f"

enum { MOST_NESTED = 8 };

typedef struct translation {
    const char *begin, *at, *end;
    const char *where;
} translation;

static pc_status refuse(const translation *t, const char *what)
{
    return pc__fail(PC_ERR_UNSUPPORTED, "%s: pre-tokenizer expression, byte %zu: %s", t->where,
                    (size_t)(t->at - t->begin), what);
}

/* Moves on by `size` bytes, which it copies. */
static pc_status copy(translation *t, size_t size, pc__bytes *out)
{
    size_t left = (size_t)(t->end - t->at);
    const char *from = t->at;
    size = size < left ? size : left;
    t->at += size;
    return pc__bytes_add(out, from, size);
}

/* Names of properties with more than two letters that are no scripts. */
#define NO_SCRIPTS \
    "Any Alphabetic Lowercase Uppercase White_Space Emoji Extended_Pictographic Ideographic"

/* At \p{ or \P{. */
static pc_status translate_property(translation *t, pc__bytes *out)
{
    char name[32] = "";
    const char *begin = t->at + 3, *close = memchr(t->at, '}', (size_t)(t->end - t->at));
    if (!close)
        return refuse(t, "a property is not closed");
    begin += *begin == '^';
    size_t size = (size_t)(close - begin);
    if (close < begin || size >= sizeof name)
        return refuse(t, "the name of a property is too long");
    memcpy(name, begin, size);
    PC__TRY_RETURN(copy(t, (size_t)(begin - t->at), out));
#if PCRE2_MAJOR > 10 || PCRE2_MINOR >= 40
    if (size > 2 && !pc__is_listed(NO_SCRIPTS, name))
        PC__TRY_RETURN(pc__bytes_add_text(out, "sc:"));
#endif
    return copy(t, size + 1, out);
}

static int at_property(const translation *t)
{
    return t->end - t->at > 3 && (t->at[1] == 'p' || t->at[1] == 'P') && t->at[2] == '{';
}

/* At a backslash in a class. */
static pc_status class_escape(translation *t, pc__bytes *out)
{
    const char *to = NULL;
    if (t->end - t->at < 2)
        return refuse(t, "it ends with a backslash");
    if (at_property(t))
        return translate_property(t, out);
    switch (t->at[1]) {
    case 'w':
        to = WORD;
        break;
    case 'h':
        to = HEX;
        break;
    case 'W':
    case 'H':
        return refuse(t, "\\W and \\H in a class are not supported");
    }
    if (!to)
        return copy(t, 2, out);
    t->at += 2;
    return pc__bytes_add_text(out, to);
}

/* After "[": the members of a class, to its "]". *negated: it begins with "^". `without`: the
 * members of b in [a&&[^b]]; NULL: such a form is not allowed. */
static pc_status read_class(translation *t, int depth, pc__bytes *members, int *negated,
                            pc__bytes *without)
{
    int inner = 0;
    if ((*negated = t->at < t->end && *t->at == '^'))
        t->at++;
    if (t->at < t->end && *t->at == ']')
        return refuse(t, "an empty class");
    while (t->at < t->end && *t->at != ']') {
        size_t left = (size_t)(t->end - t->at);
        if (*t->at == '\\') {
            PC__TRY_RETURN(class_escape(t, members));
        } else if (left > 2 && !memcmp(t->at, "&&[", 3)) {
            if (!without || *negated || without->size || depth == MOST_NESTED)
                return refuse(t, "this form of && is not supported");
            t->at += 3;
            PC__TRY_RETURN(read_class(t, depth + 1, without, &inner, NULL));
            if (!inner || t->at == t->end || *t->at != ']')
                return refuse(t, "&& is only supported before [^...] at the end of a class");
        } else if (left > 1 && !memcmp(t->at, "&&", 2)) {
            return refuse(t, "this form of && is not supported");
        } else if (left > 1 && *t->at == '[' && t->at[1] != ':') {
            if (depth == MOST_NESTED)
                return refuse(t, "classes are nested too deeply");
            t->at++;
            PC__TRY_RETURN(read_class(t, depth + 1, members, &inner, NULL));
            if (inner)
                return refuse(t, "a negated class in a class is not supported");
        } else if (*t->at == '[') {
            const char *close = left > 2 ? memchr(t->at + 2, ']', left - 2) : NULL;
            PC__TRY_RETURN(copy(t, close ? (size_t)(close + 1 - t->at) : 1, members));
        } else {
            PC__TRY_RETURN(copy(t, 1, members));
        }
    }
    if (t->at == t->end)
        return refuse(t, "a class is not closed");
    t->at++;
    return PC_OK;
}

static pc_status translate_class(translation *t, pc__bytes *out)
{
    pc__bytes members = {.mem = out->mem}, without = {.mem = out->mem};
    int negated;
    pc_status status;
    t->at++;
    PC__TRY(read_class(t, 0, &members, &negated, &without), done);
    if (without.size) {
        PC__TRY(pc__bytes_add_text(out, "(?:(?!["), done);
        PC__TRY(pc__bytes_add(out, without.data, without.size), done);
        PC__TRY(pc__bytes_add_text(out, "])"), done);
    }
    PC__TRY(pc__bytes_add_text(out, negated ? "[^" : "["), done);
    PC__TRY(pc__bytes_add(out, members.data, members.size), done);
    status = pc__bytes_add_text(out, without.size ? "])" : "]");
done:
    pc__bytes_free(&members);
    pc__bytes_free(&without);
    return status;
}

/* At a backslash outside of a class. */
static pc_status translate_escape(translation *t, pc__bytes *out)
{
    static const struct {
        char letter;
        const char *to;
    } forms[] = {{'w', "[" WORD "]"},
                 {'W', "[^" WORD "]"},
                 {'h', "[" HEX "]"},
                 {'H', "[^" HEX "]"},
                 {'b', "(?:(?<=[" WORD "])(?![" WORD "])|(?<![" WORD "])(?=[" WORD "]))"}};
    if (t->end - t->at < 2)
        return refuse(t, "it ends with a backslash");
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++)
        if (t->at[1] == forms[i].letter) {
            t->at += 2;
            return pc__bytes_add_text(out, forms[i].to);
        }
    if (t->at[1] == 'B')
        return refuse(t, "\\B is not supported");
    if (at_property(t))
        return translate_property(t, out);
    /* the braces of \x{…} are no count */
    const char *close = t->end - t->at > 2 && t->at[1] == 'x' && t->at[2] == '{'
                            ? memchr(t->at, '}', (size_t)(t->end - t->at))
                            : NULL;
    return copy(t, close ? (size_t)(close + 1 - t->at) : 2, out);
}

/* At "{". After a count, "+" means "once or more" to Oniguruma, and possessive to PCRE2. */
static pc_status translate_count(translation *t, pc__bytes *out)
{
    const char *at = t->at + 1;
    int from_zero = at < t->end && *at == ',';
    while (at < t->end && ((*at >= '0' && *at <= '9') || *at == ','))
        at++;
    if (at + 1 < t->end && *at == '}' && at[1] == '+')
        return refuse(t, "{n,m}+ is not supported");
    PC__TRY_RETURN(copy(t, 1, out));
    return from_zero ? pc__bytes_add_text(out, "0") : PC_OK;
}

/* At "(". (?m: lets "." match a line end there, but changes ^ and $ in PCRE2. */
static pc_status translate_group(translation *t, pc__bytes *out)
{
    if (t->end - t->at > 2 && t->at[1] == '?')
        for (const char *at = t->at + 2; at < t->end && strchr("imx-", *at); at++)
            if (*at == 'm')
                return refuse(t, "(?m) is not supported");
    return copy(t, 1, out);
}

pc_status pc__expression_translate(const char *expression, const char *where, pc__bytes *out)
{
    translation t = {expression, expression, expression + strlen(expression), where};
    pc_status status = PC_OK;
    while (t.at < t.end && status >= 0)
        switch (*t.at) {
        case '\\':
            status = translate_escape(&t, out);
            break;
        case '[':
            status = translate_class(&t, out);
            break;
        case '{':
            status = translate_count(&t, out);
            break;
        case '(':
            status = translate_group(&t, out);
            break;
        case '^':
        case '$':
            status = pc__bytes_add_text(out, *t.at == '^' ? "(?m:^)" : "(?m:$)");
            t.at++;
            break;
        default:
            status = copy(&t, 1, out);
        }
    return status < 0 ? status : pc__bytes_add(out, "", 1);
}
