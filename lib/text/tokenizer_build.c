/* Makes a tokenizer of a vocabulary: texts of tokens, maps, merges, Unigram model, expressions. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "text/tokenizer_internal.h"

/* Bytes of a special token: so many are compared wherever one may begin. */
enum { LONGEST_SPECIAL = 1024 };

int pc__piece_byte(pc__text piece)
{
    return piece.size == 6 && !memcmp(piece.data, "<0x", 3) && piece.data[5] == '>'
               ? pc__hex_byte(piece.data + 3)
               : -1;
}

static int is_plain(uint8_t type)
{
    return type == PC__TOKEN_NORMAL || type == PC__TOKEN_UNUSED;
}

/* Writes a piece as it is in running text (SPM, UNIGRAM: U+2581 is a blank; BPE: the byte-level
 * alphabet is bytes). Returns its size. */
static size_t appearance(pc__vocab_kind kind, const pc__vocabulary_token *token, pc__text piece,
                         char *out)
{
    size_t n = 0;
    if (token->type == PC__TOKEN_BYTE) {
        out[0] = (char)token->byte;
        return 1;
    }
    if (!(is_plain(token->type) || (kind == PC__VOCAB_SPM && token->type == PC__TOKEN_USER))
        || kind == PC__VOCAB_WORDPIECE) {
        memcpy(out, piece.data, piece.size);
        return piece.size;
    }
    for (pc__character c = {0}; pc__utf8_next(piece.data, piece.size, &c);) {
        int32_t byte = kind == PC__VOCAB_BPE && c.valid ? pc__code_point_byte(c.code_point) : -1;
        if (kind != PC__VOCAB_BPE && c.code_point == 0x2581 && c.valid)
            out[n++] = ' ';
        else if (byte >= 0)
            out[n++] = (char)byte;
        else {
            memcpy(out + n, piece.data + c.at, c.size);
            n += c.size;
        }
    }
    return n;
}

static int is_blank_text(pc__text text)
{
    size_t i = 0;
    while (i < text.size && text.data[i] == ' ')
        i++;
    return i == text.size;
}

/* Writes blanks as U+2581; returns the size. */
static size_t mark_piece(pc__text piece, char *out)
{
    size_t n = 0;
    for (size_t i = 0; i < piece.size; i++)
        if (piece.data[i] == ' ') {
            memcpy(out + n, PC__BLANK_MARK, PC__BLANK_MARK_SIZE);
            n += PC__BLANK_MARK_SIZE;
        } else {
            out[n++] = piece.data[i];
        }
    return n;
}

/* Writes a piece as the maps have it: BPE in bytes; WordPiece with "##" before what continues a
 * word; user-defined pieces of SPM, which GGUF has with blanks, with U+2581; others unchanged. */
static size_t raw_form(const pc__vocab *vocab, const pc__vocabulary_token *token, pc__text piece,
                       int gguf_wordpiece, char *out)
{
    if (vocab->kind == PC__VOCAB_BPE)
        return appearance(PC__VOCAB_BPE, token, piece, out);
    if (vocab->kind == PC__VOCAB_SPM && token->type == PC__TOKEN_USER
        && (!vocab->by_rank || is_blank_text(piece)))
        return mark_piece(piece, out);
    if (gguf_wordpiece && is_plain(token->type) && pc__starts_with_mark(piece.data, piece.size)) {
        memcpy(out, piece.data + 3, piece.size - 3);
        return piece.size - 3;
    }
    if (gguf_wordpiece && is_plain(token->type)) {
        memcpy(out, "##", 2);
        memcpy(out + 2, piece.data, piece.size);
        return piece.size + 2;
    }
    memcpy(out, piece.data, piece.size);
    return piece.size;
}

static pc_status check_vocab(const pc__vocab *v)
{
    if (!v->count || v->count > PC__MOST_TOKENS)
        return pc__fail(PC_ERR_FORMAT, "%s: the vocabulary has %zu tokens; 1 to 2^24 are allowed",
                        v->where, v->count);
    for (size_t i = 0; i < v->count; i++) {
        if ((v->scores && !isfinite(v->scores[i]))
            || (v->exact_scores && !isfinite(v->exact_scores[i])))
            return pc__fail(PC_ERR_FORMAT, "%s: token %zu: its score is not finite", v->where, i);
        if (v->types && (v->types[i] < 0 || v->types[i] > PC__TOKEN_BYTE))
            return pc__fail(PC_ERR_FORMAT, "%s: token %zu: type %d is not known", v->where, i,
                            v->types[i]);
    }
    const int32_t ids[] = {v->bos, v->eos, v->unk, v->pad, v->sep, v->cls};
    for (size_t i = 0; i < sizeof ids / sizeof *ids; i++)
        if (ids[i] < -1 || (ids[i] >= 0 && (size_t)ids[i] >= v->count))
            return pc__fail(PC_ERR_FORMAT, "%s: special token id %d lies outside of the %zu tokens",
                            v->where, ids[i], v->count);
    return PC_OK;
}

static void set_type(pc__vocabulary_token *token, const pc__vocab *v, size_t i)
{
    int byte = pc__piece_byte(v->tokens[i]);
    token->type = (uint8_t)(v->types ? v->types[i] : PC__TOKEN_NORMAL);
    if (!token->type)
        token->type = PC__TOKEN_NORMAL;
    if (token->type == PC__TOKEN_BYTE && byte < 0)
        token->type = PC__TOKEN_NORMAL;
    if (v->kind == PC__VOCAB_SPM && !v->types && byte >= 0)
        token->type = PC__TOKEN_BYTE;
    token->byte = (uint8_t)(byte < 0 ? 0 : byte);
    token->score = v->scores ? v->scores[i] : 0.0f;
}

static pc_status build_texts(pc__tokenizer *t, const pc__vocab *v)
{
    size_t bytes = 0;
    char *at, *raw;
    int gguf_wordpiece = 0;
    for (size_t i = 0; i < v->count; i++) {
        bytes += v->tokens[i].size * (v->kind == PC__VOCAB_SPM ? PC__BLANK_MARK_SIZE : 1) + 3;
        gguf_wordpiece |= v->kind == PC__VOCAB_WORDPIECE && v->tokens[i].size > PC__BLANK_MARK_SIZE
                          && pc__starts_with_mark(v->tokens[i].data, v->tokens[i].size);
    }
    t->tokens = pc__calloc(&t->mem, v->count, sizeof *t->tokens);
    t->raw = pc__calloc(&t->mem, v->count, sizeof *t->raw);
    t->arena = at = pc__alloc(&t->mem, bytes);
    t->raw_arena = raw = pc__alloc(&t->mem, bytes);
    if (!t->tokens || !t->raw || !at || !raw)
        return PC_ERR_NOMEM;
    t->count = v->count;
    for (size_t i = 0; i < v->count; i++) {
        pc__vocabulary_token *token = &t->tokens[i];
        set_type(token, v, i);
        if (t->rules.raw_bytes) {
            memcpy(raw, v->tokens[i].data, v->tokens[i].size);
            t->raw[i] = (pc__text){raw, v->tokens[i].size};
        } else {
            t->raw[i] = (pc__text){raw, raw_form(v, token, v->tokens[i], gguf_wordpiece, raw)};
        }
        raw += t->raw[i].size;
        int as_it_is = v->kind == PC__VOCAB_WORDPIECE || t->rules.raw_bytes;
        token->text = (pc__text){at, appearance(as_it_is ? PC__VOCAB_WORDPIECE : v->kind, token,
                                                as_it_is ? t->raw[i] : v->tokens[i], at)};
        at += token->text.size;
    }
    return PC_OK;
}

static pc_status add_special(pc__tokenizer *t, int32_t id, pc__text text, const char *where)
{
    if (text.size > LONGEST_SPECIAL)
        return pc__fail(PC_ERR_LIMIT, "%s: token %d: a special token of %zu bytes, more than %d",
                        where, id, text.size, LONGEST_SPECIAL);
    t->special_first[(unsigned char)text.data[0]] = 1;
    t->special_longest = text.size > t->special_longest ? text.size : t->special_longest;
    return pc__string_map_add(&t->specials, text.data, text.size, id);
}

static pc_status build_maps(pc__tokenizer *t, const char *where)
{
    PC__TRY_RETURN(pc__string_map_new(&t->pieces, &t->mem, t->count));
    PC__TRY_RETURN(pc__string_map_new(&t->specials, &t->mem, 64));
    memset(t->byte_token, 0xff, sizeof t->byte_token);
    for (size_t i = 0; i < t->count; i++) {
        const pc__vocabulary_token *token = &t->tokens[i];
        pc__text raw = t->raw[i];
        if (token->type == PC__TOKEN_BYTE) {
            t->byte_token[token->byte] = (int32_t)i;
        } else if (is_plain(token->type)) {
            PC__TRY_RETURN(pc__string_map_add(&t->pieces, raw.data, raw.size, (int32_t)i));
            if (t->kind == PC__VOCAB_BPE && raw.size == 1
                && t->byte_token[(unsigned char)raw.data[0]] < 0)
                t->byte_token[(unsigned char)raw.data[0]] = (int32_t)i;
        } else if (token->text.size) {
            PC__TRY_RETURN(
                add_special(t, (int32_t)i, pc__finds_pieces(t) ? raw : token->text, where));
        }
    }
    return PC_OK;
}

static pc_status merge_bytes(const pc__tokenizer *t, pc__text side, char *out, size_t *size)
{
    pc__vocabulary_token normal = {.type = PC__TOKEN_NORMAL};
    if (side.size > 4096)
        return PC_ERR_FORMAT;
    *size = t->kind == PC__VOCAB_BPE ? appearance(PC__VOCAB_BPE, &normal, side, out) : side.size;
    if (t->kind != PC__VOCAB_BPE)
        memcpy(out, side.data, side.size);
    return PC_OK;
}

/* The token of one side of a merge. */
static int32_t side_id(const pc__tokenizer *t, const char *text, size_t size)
{
    int32_t id = pc__string_map_get(&t->pieces, text, size);
    return id >= 0 ? id : pc__string_map_get(&t->specials, text, size);
}

static pc_status add_merge(pc__tokenizer *t, const pc__vocab *v, size_t index)
{
    pc__text m = v->merges[index];
    const char *space = m.size ? memchr(m.data + 1, ' ', m.size - 1) : NULL;
    char both[8192];
    size_t left, right;
    int32_t a, b, c;
    if (!space || space + 1 == m.data + m.size)
        return pc__fail(PC_ERR_FORMAT, "%s: merge %zu has no two sides", v->where, index);
    if (merge_bytes(t, (pc__text){m.data, (size_t)(space - m.data)}, both, &left) < 0
        || merge_bytes(t, (pc__text){space + 1, m.size - (size_t)(space - m.data) - 1}, both + left,
                       &right)
               < 0)
        return pc__fail(PC_ERR_FORMAT, "%s: merge %zu is longer than 4096 bytes a side", v->where,
                        index);
    a = side_id(t, both, left);
    b = side_id(t, both + left, right);
    c = side_id(t, both, left + right);
    if (a < 0 || b < 0 || c < 0)
        return pc__fail(PC_ERR_FORMAT,
                        "%s: merge %zu (\"%.*s\") names a token that the vocabulary lacks",
                        v->where, index, (int)(m.size < 60 ? m.size : 60), m.data);
    pc__pair_map_add(&t->merges, a, b, (int32_t)index, c);
    return PC_OK;
}

static pc_status merges(pc__tokenizer *t, const pc__vocab *v)
{
    PC__TRY_RETURN(pc__pair_map_new(&t->merges, &t->mem, v->merge_count));
    for (size_t i = 0; i < v->merge_count; i++)
        PC__TRY_RETURN(add_merge(t, v, i));
    return PC_OK;
}

/* Normal tokens are pieces; special and byte tokens are not. */
static pc_status unigram(pc__tokenizer *t, const pc__vocab *v)
{
    pc__unigram_piece *pieces = pc__calloc(&t->mem, t->count, sizeof *pieces);
    double *scores = pc__calloc(&t->mem, t->count, sizeof *scores), lowest = 0.0;
    size_t count = 0;
    pc_status status = pieces && scores ? PC_OK : PC_ERR_NOMEM;
    for (size_t i = 0; i < t->count && status >= 0; i++) {
        scores[i] = v->exact_scores ? v->exact_scores[i] : v->scores ? (double)v->scores[i] : 0.0;
        if (t->tokens[i].type != PC__TOKEN_NORMAL)
            continue;
        lowest = !count || scores[i] < lowest ? scores[i] : lowest;
        pieces[count++] = (pc__unigram_piece){t->raw[i].data, t->raw[i].size, (int32_t)i};
    }
    if (status >= 0)
        status = pc__unigram_new(&t->unigram, &t->mem, pieces, count, scores, t->count, lowest);
    pc__free(&t->mem, pieces);
    pc__free(&t->mem, scores);
    return status;
}

/* SentencePiece's normaliser, by the vocabulary's settings. */
static pc_status build_steps(pc__steps **out, const pc_allocator *mem, const pc__vocab *v)
{
    *out = NULL;
    if (!v->charsmap.size && !v->one_blank)
        return PC_OK;
    PC__TRY_RETURN(pc__steps_new(out, mem));
    if (v->charsmap.size)
        PC__TRY_RETURN(pc__steps_add_map(*out, PC__STEP_MAP_LONGEST, v->charsmap.data,
                                         v->charsmap.size, v->where));
    if (v->one_blank)
        PC__TRY_RETURN(pc__steps_add(*out, PC__STEP_ONE_BLANK, 0));
    return PC_OK;
}

static pc_status build_parts(pc__tokenizer *t, const pc__vocab *v, const pc__split *splits,
                             size_t count)
{
    PC__TRY_RETURN(build_texts(t, v));
    PC__TRY_RETURN(build_maps(t, v->where));
    PC__TRY_RETURN(merges(t, v));
    if (t->kind == PC__VOCAB_UNIGRAM)
        PC__TRY_RETURN(unigram(t, v));
    PC__TRY_RETURN(build_steps(&t->steps, &t->mem, v));
    if (v->chat_template && !(t->chat_template = pc__strdup(&t->mem, v->chat_template)))
        return PC_ERR_NOMEM;
    for (size_t i = 0; i < count; i++)
        PC__TRY_RETURN(pc__expression_add(t, &splits[i], v->where));
    if (t->kind == PC__VOCAB_BPE && !splits)
        return pc__expressions_of(t, v->pre ? v->pre : "default", v->where);
    return PC_OK;
}

pc_status pc__tokenizer_build(pc__tokenizer **out, const pc_allocator *mem, const pc__vocab *vocab,
                              const pc__token_rules *rules, const pc__split *splits,
                              size_t split_count)
{
    pc_status status;
    pc__tokenizer *t;
    *out = NULL;
    PC__TRY_RETURN(check_vocab(vocab));
    if (!(t = pc__calloc(mem, 1, sizeof *t)))
        return PC_ERR_NOMEM;
    t->mem = *mem;
    t->kind = vocab->kind;
    t->rules = *rules;
    t->ids.bos = vocab->bos >= 0                      ? vocab->bos
                 : vocab->kind == PC__VOCAB_WORDPIECE ? vocab->cls
                                                      : -1;
    t->ids.eos = vocab->eos >= 0                      ? vocab->eos
                 : vocab->kind == PC__VOCAB_WORDPIECE ? vocab->sep
                                                      : -1;
    t->ids.unk = vocab->unk;
    t->tail = -1;
    t->ids.pad = vocab->pad;
    if ((status = build_parts(t, vocab, splits, split_count)) < 0) {
        pc__tokenizer_free(t);
        return status;
    }
    *out = t;
    return PC_OK;
}

static int32_t value_or(int32_t given, int32_t otherwise)
{
    return given < 0 ? otherwise : given;
}

pc_status pc__tokenizer_from_vocab(pc__tokenizer **out, const pc_allocator *mem,
                                   const pc__vocab *vocab)
{
    pc__token_rules rules = {0};
    int spm = vocab->kind == PC__VOCAB_SPM, wordpiece = vocab->kind == PC__VOCAB_WORDPIECE,
        unigram_kind = vocab->kind == PC__VOCAB_UNIGRAM;
    rules.add_bos = value_or(vocab->add_bos, spm || wordpiece || pc__family_adds_bos(vocab->pre));
    rules.add_eos = value_or(vocab->add_eos, wordpiece || unigram_kind);
    rules.space_prefix = value_or(vocab->add_space_prefix, spm || unigram_kind);
    rules.marks_blanks = unigram_kind;
    rules.by_rank = vocab->by_rank;
    rules.lowercase = rules.strip_accents = rules.split_chinese = wordpiece;
    return pc__tokenizer_build(out, mem, vocab, &rules, NULL, 0);
}
