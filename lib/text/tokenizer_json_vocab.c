/* Reads tokens and merges of a tokenizer.json. */
#include <string.h>

#include "base/fail.h"
#include "text/json_file.h"
#include "text/tokenizer_json_internal.h"

/* Adds a token of the vocabulary or of added_tokens, which may repeat one of the vocabulary. */
static pc_status place_token(pc__json_reading *r, int64_t id, const char *text, size_t size,
                             int32_t type)
{
    if (id < 0 || (size_t)id >= r->vocab.count)
        return pc__fail(PC_ERR_FORMAT, "%s: token id %lld lies outside of the %zu tokens", r->where,
                        (long long)id, r->vocab.count);
    if (r->types[id] != PC__TOKEN_UNUSED && !pc__text_equals(r->tokens[id], (pc__text){text, size}))
        return pc__fail(PC_ERR_FORMAT, "%s: token id %lld is given to '%.40s' and to '%.40s'",
                        r->where, (long long)id, r->tokens[id].data, text);
    r->tokens[id] = (pc__text){text, size};
    r->types[id] = type;
    return PC_OK;
}

/* Ids may leave gaps, but a small file must not cause a large allocation. */
enum { MOST_GAPS = 65536 };

/* The largest id + 1; 0: no ids, or one too large for so few tokens. */
static size_t id_range(const json_t *vocab, const json_t *added)
{
    json_int_t top = -1;
    const char *key;
    json_t *value;
    size_t i;
    if (json_is_array(vocab)) /* of a Unigram model: ids are indices */
        top = (json_int_t)json_array_size(vocab) - 1;
    json_object_foreach((json_t *)(uintptr_t)vocab, key, value)
        top = json_integer_value(value) > top ? json_integer_value(value) : top;
    json_array_foreach(added, i, value)
    {
        json_int_t id = json_integer_value(json_object_get(value, "id"));
        top = id > top ? id : top;
    }
    i = json_object_size(vocab) + json_array_size(vocab) + json_array_size(added);
    return top < 0 || top > PC__MOST_TOKENS || (size_t)top > 4 * i + MOST_GAPS ? 0
                                                                               : (size_t)top + 1;
}

/* [[piece, score], …] */
static pc_status place_pieces(pc__json_reading *r, const json_t *model, int bytes)
{
    json_t *vocab = json_object_get(model, "vocab"), *pair, *unk = json_object_get(model, "unk_id");
    int64_t id;
    size_t i;
    if (!(r->scores = pc__calloc(r->mem, r->vocab.count, sizeof *r->scores)))
        return PC_ERR_NOMEM;
    json_array_foreach(vocab, i, pair)
    {
        const json_t *text = json_array_get(pair, 0), *score = json_array_get(pair, 1);
        if (json_array_size(pair) != 2 || !json_is_string(text) || !json_is_number(score))
            return pc__fail(PC_ERR_FORMAT, "%s: model.vocab: entry %zu is no piece with a score",
                            r->where, i);
        r->tokens[i] = (pc__text){json_string_value(text), json_string_length(text)};
        r->types[i] = bytes && pc__piece_byte(r->tokens[i]) >= 0 ? PC__TOKEN_BYTE
                                                                 : PC__TOKEN_NORMAL;
        r->scores[i] = json_number_value(score);
    }
    if (!unk || json_is_null(unk))
        return PC_OK;
    if (!pc__json_integer(unk, 0, (int64_t)json_array_size(vocab) - 1, &id))
        return pc__fail(PC_ERR_FORMAT, "%s: model.unk_id is no token", r->where);
    r->vocab.unk = (int32_t)id;
    r->types[r->vocab.unk] = PC__TOKEN_UNKNOWN;
    return PC_OK;
}

static pc_status place_words(pc__json_reading *r, json_t *vocab, int bytes)
{
    json_t *value;
    const char *key;
    json_object_foreach(vocab, key, value)
    {
        int64_t id = -1;
        pc__json_integer(value, 0, PC__MOST_TOKENS, &id);
        PC__TRY_RETURN(place_token(
            r, id, key, strlen(key),
            bytes && pc__piece_byte(pc__text_of(key)) >= 0 ? PC__TOKEN_BYTE : PC__TOKEN_NORMAL));
    }
    return PC_OK;
}

pc_status pc__json_tokens(pc__json_reading *r, const json_t *model, int unigram)
{
    json_t *vocab = json_object_get(model, "vocab"),
           *added = json_object_get(r->root, "added_tokens"), *value;
    size_t i;
    int bytes = json_is_true(json_object_get(model, "byte_fallback"));
    if (unigram ? !json_is_array(vocab) : !json_is_object(vocab))
        return pc__fail(PC_ERR_FORMAT, "%s: model.vocab is not %s", r->where,
                        unigram ? "a list" : "an object");
    if (added && !json_is_array(added))
        return pc__fail(PC_ERR_FORMAT, "%s: added_tokens is not a list", r->where);
    if (!(r->vocab.count = id_range(vocab, added)))
        return pc__fail(PC_ERR_FORMAT,
                        "%s: model.vocab: there are no tokens, or an id is far beyond their number",
                        r->where);
    r->tokens = pc__calloc(r->mem, r->vocab.count, sizeof *r->tokens);
    r->types = pc__calloc(r->mem, r->vocab.count, sizeof *r->types);
    if (!r->tokens || !r->types)
        return PC_ERR_NOMEM;
    for (i = 0; i < r->vocab.count; i++) {
        r->tokens[i].data = "";
        r->types[i] = PC__TOKEN_UNUSED;
    }
    PC__TRY_RETURN(unigram ? place_pieces(r, model, bytes) : place_words(r, vocab, bytes));
    json_array_foreach(added, i, value)
    {
        json_t *id = json_object_get(value, "id"), *content = json_object_get(value, "content");
        int special = json_is_true(json_object_get(value, "special"));
        if (!json_is_integer(id) || !json_string_length(content))
            return pc__fail(PC_ERR_FORMAT, "%s: added token %zu has no id or no content", r->where,
                            i);
        PC__TRY_RETURN(place_token(r, json_integer_value(id), json_string_value(content),
                                   json_string_length(content),
                                   special ? PC__TOKEN_CONTROL : PC__TOKEN_USER));
    }
    r->vocab.tokens = r->tokens;
    r->vocab.types = r->types;
    r->vocab.exact_scores = r->scores;
    return PC_OK;
}

/* Copies one side of a merge; NULL: not a string. */
static char *copy_side(char *out, const json_t *side)
{
    if (!json_is_string(side))
        return NULL;
    memcpy(out, json_string_value(side), json_string_length(side));
    return out + json_string_length(side);
}

/* Writes "left right" from that string or from ["left", "right"]. NULL: neither. */
static char *copy_merge(char *out, const json_t *m)
{
    if (json_is_string(m))
        return copy_side(out, m);
    if (json_array_size(m) != 2 || !(out = copy_side(out, json_array_get(m, 0))))
        return NULL;
    *out++ = ' ';
    return copy_side(out, json_array_get(m, 1));
}

pc_status pc__json_merges(pc__json_reading *r, const json_t *model, int wanted)
{
    json_t *list = json_object_get(model, "merges"), *m;
    size_t bytes = 0, i;
    char *at;
    if (!json_is_array(list) && (list || wanted))
        return pc__fail(PC_ERR_FORMAT, "%s: model.merges is not a list", r->where);
    json_array_foreach(list, i, m) bytes += json_string_length(m)
                                            + json_string_length(json_array_get(m, 0))
                                            + json_string_length(json_array_get(m, 1)) + 1;
    r->vocab.merge_count = json_array_size(list);
    r->merges = pc__calloc(r->mem, r->vocab.merge_count, sizeof *r->merges);
    r->merge_arena = at = pc__alloc(r->mem, bytes);
    if (!r->merges || !at)
        return PC_ERR_NOMEM;
    json_array_foreach(list, i, m)
    {
        char *start = at;
        if (!(at = copy_merge(start, m)))
            return pc__fail(PC_ERR_FORMAT, "%s: merge %zu is neither a string nor a pair", r->where,
                            i);
        r->merges[i] = (pc__text){start, (size_t)(at - start)};
    }
    r->vocab.merges = r->merges;
    return PC_OK;
}
