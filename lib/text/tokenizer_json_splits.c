/* From the pre-tokenizers of a BPE model in tokenizer.json to expressions and rules. */
#include <string.h>

#include "base/mem.h"
#include "text/tokenizer_json_internal.h"

/* as char::is_ascii_punctuation or general category P */
#define PUNCTUATION "[\\p{P}!-/:-@\\[-`{-~]"

/* ByteLevel writes bytes as characters of its alphabet, and what comes after it sees those. Only
 * ASCII without blanks is written as itself. */
static int is_same_after_byte_level(const char *expression)
{
    for (const char *c = expression; *c; c++)
        if (*c <= ' ' || *c == '\\' || *c == '.' || *c == '^' || (unsigned char)*c > '~')
            return 0;
    return 1;
}

static pc_status add_split(pc__json_reading *r, const char *expression, pc__parts parts,
                           int inverted)
{
    if (r->split_count == PC__MAX_EXPRESSIONS)
        return pc__fail(PC_ERR_UNSUPPORTED, "%s: more than %d pre-tokenizers", r->where,
                        PC__MAX_EXPRESSIONS);
    if (r->byte_level && !is_same_after_byte_level(expression))
        return pc__fail(PC_ERR_UNSUPPORTED, "%s: pre-tokenizer '%.40s' after ByteLevel", r->where,
                        expression);
    r->splits[r->split_count++] = (pc__split){expression, parts, inverted};
    return PC_OK;
}

/* -1: unknown */
static int parts_of(const char *behavior)
{
    static const char *const names[] = {"Isolated", "Removed", "MergedWithPrevious",
                                        "MergedWithNext", "Contiguous"}; /* as pc__parts */
    for (int i = 0; i < 5; i++)
        if (!strcmp(behavior, names[i]))
            return i;
    return -1;
}

/* An expression that matches just this text. */
static pc_status add_literal(pc__json_reading *r, pc__text text, pc__parts parts, int inverted)
{
    char *at;
    if (r->literal_count == PC__MAX_EXPRESSIONS)
        return pc__fail(PC_ERR_UNSUPPORTED, "%s: more than %d pre-tokenizers", r->where,
                        PC__MAX_EXPRESSIONS);
    if (!(at = r->literals[r->literal_count] = pc__alloc(r->mem, 2 * text.size + 1)))
        return PC_ERR_NOMEM;
    for (size_t i = 0; i < text.size; i++) {
        if (text.data[i] > ' ' && text.data[i] < 127 && !pc__is_letter(text.data[i])
            && (text.data[i] < '0' || text.data[i] > '9'))
            *at++ = '\\';
        *at++ = text.data[i];
    }
    *at = 0;
    return add_split(r, r->literals[r->literal_count++], parts, inverted);
}

static pc_status read_split(pc__json_reading *r, const json_t *p)
{
    const json_t *pattern = json_object_get(p, "pattern");
    pc__text regex = pc__json_text(pattern, "Regex"), literal = pc__json_text(pattern, "String");
    int parts = parts_of(pc__json_text(p, "behavior").data),
        inverted = json_is_true(json_object_get(p, "invert"));
    if (parts < 0 || (!regex.size && !literal.size))
        return pc__json_unknown(r, "pre-tokenizer", p);
    if (memchr(regex.data, 0, regex.size) || memchr(literal.data, 0, literal.size))
        return pc__fail(PC_ERR_FORMAT, "%s: a pattern of a pre-tokenizer contains a NUL", r->where);
    if (regex.size)
        return add_split(r, regex.data, (pc__parts)parts, inverted);
    /* Gemma: the normalizer has replaced all blanks */
    return r->metaspace && !inverted && !strcmp(literal.data, " ")
               ? PC_OK
               : add_literal(r, literal, (pc__parts)parts, inverted);
}

static pc_status read_byte_level(pc__json_reading *r, const json_t *p)
{
    if (json_is_true(json_object_get(p, "add_prefix_space")))
        return pc__fail(PC_ERR_UNSUPPORTED, "%s: ByteLevel with add_prefix_space", r->where);
    if (!json_is_false(json_object_get(p, "use_regex")))
        PC__TRY_RETURN(add_split(r, PC__GPT2_EXPRESSION, PC__PARTS_ALL, 0));
    r->byte_level = 1;
    return PC_OK;
}

/* Blanks are marked before all expressions, so there can be none before it. */
static pc_status read_bpe_metaspace(pc__json_reading *r, const json_t *p)
{
    if (r->split_count)
        return pc__fail(PC_ERR_UNSUPPORTED, "%s: Metaspace after another pre-tokenizer", r->where);
    PC__TRY_RETURN(pc__json_metaspace(r, p));
    return r->rules.split_marks ? add_split(r, PC__BLANK_MARK, PC__PARTS_MATCH_FIRST, 0) : PC_OK;
}

static pc_status read_pre_tokenizer(pc__json_reading *r, const json_t *p)
{
    if (pc__json_has_type(p, "ByteLevel"))
        return read_byte_level(r, p);
    if (pc__json_has_type(p, "Split"))
        return read_split(r, p);
    if (pc__json_has_type(p, "Digits"))
        return add_split(
            r, json_is_true(json_object_get(p, "individual_digits")) ? "\\p{N}" : "\\p{N}+",
            PC__PARTS_ALL, 0);
    if (pc__json_has_type(p, "Metaspace"))
        return read_bpe_metaspace(r, p);
    if (pc__json_has_type(p, "Punctuation")) {
        const char *behavior = pc__json_text(p, "behavior").data;
        int parts = *behavior ? parts_of(behavior) : PC__PARTS_ALL;
        return parts < 0 ? pc__json_unknown(r, "pre-tokenizer", p)
                         : add_split(r, PUNCTUATION, (pc__parts)parts, 0);
    }
    return pc__json_unknown(r, "pre-tokenizer", p);
}

pc_status pc__json_splits(pc__json_reading *r)
{
    return pc__json_parts(r, "pre_tokenizer", "pretokenizers", read_pre_tokenizer);
}
