/* Encoding around special tokens, decoding, and the digest of a tokenizer. */
#include "text/tokenizer.h"

#include <string.h>

#include "text/tokenizer_internal.h"

pc_status pc__ids_add(pc__ids *ids, int32_t id)
{
    pc_status status = pc__grow(ids->mem, (void **)&ids->data, &ids->capacity, ids->count + 1,
                                sizeof *ids->data);
    if (status >= 0)
        ids->data[ids->count++] = id;
    return status;
}

void pc__tokenizer_free(pc__tokenizer *t)
{
    if (!t)
        return;
    pc_allocator mem = t->mem;
    for (size_t i = 0; i < t->expressions; i++)
        pcre2_code_free(t->expression[i]);
    pcre2_general_context_free(t->regex_memory);
    pc__string_map_free(&t->pieces);
    pc__string_map_free(&t->specials);
    pc__pair_map_free(&t->merges);
    pc__unigram_free(t->unigram, &mem);
    pc__steps_free(t->steps);
    pc__free(&mem, t->tokens);
    pc__free(&mem, t->raw);
    pc__free(&mem, t->arena);
    pc__free(&mem, t->raw_arena);
    pc__free(&mem, t->chat_template);
    pc__free(&mem, t);
}

/* What a special token is found by. */
static pc__text special_text(const pc__tokenizer *t, int32_t id)
{
    return pc__finds_pieces(t) ? t->raw[id] : t->tokens[id].text;
}

static int is_user(const void *tokenizer, int32_t id)
{
    return ((const pc__tokenizer *)tokenizer)->tokens[id].type == PC__TOKEN_USER;
}

/* The longest special token at `text` that the flags allow; -1: none. */
static int32_t special_at(const pc__tokenizer *t, const char *text, size_t size, uint64_t flags)
{
    if (!t->special_first[(unsigned char)*text])
        return -1;
    if (size > t->special_longest)
        size = t->special_longest;
    return pc__string_map_longest(&t->specials, text, size,
                                  flags & PC_TOKENIZE_SPECIAL ? NULL : is_user, t);
}

static pc_status encode_by_kind(const pc__tokenizer *t, const char *text, size_t size, int first,
                                pc__ids *out)
{
    switch (t->kind) {
    case PC__VOCAB_SPM:
        return pc__spm_encode(t, text, size, first, out);
    case PC__VOCAB_BPE:
        return pc__bpe_encode(t, text, size, out);
    case PC__VOCAB_UNIGRAM:
        return pc__unigram_encode(t, text, size, first, out);
    case PC__VOCAB_WORDPIECE:
        break;
    }
    return pc__wordpiece_encode(t, text, size, out);
}

/* BPE and Unigram have 32-bit places in a text whose blanks may have become three bytes. */
static pc_status encode_between_specials(const pc__tokenizer *t, const char *text, size_t size,
                                         int first, pc__ids *out)
{
    pc__bytes normal = {.mem = &t->mem};
    pc_status status = PC_OK;
    if (size && t->steps) {
        status = pc__steps_run(t->steps, text, size, &normal);
        text = normal.data;
        size = normal.size;
    }
    if (status >= 0 && size > UINT32_MAX / 8 && t->kind != PC__VOCAB_WORDPIECE)
        status = pc__fail(PC_ERR_LIMIT, "a text of %zu bytes is too long for one call; split it",
                          size);
    if (status >= 0 && size)
        status = encode_by_kind(t, text, size, first, out);
    pc__bytes_free(&normal);
    return status;
}

/* The blanks (White_Space) that a text begins with, in bytes. */
static size_t blanks_after(const char *text, size_t size)
{
    pc__character c = {0};
    while (pc__utf8_next(text, size, &c))
        if (!c.valid || !pc__code_point_is_blank(c.code_point))
            return c.at;
    return size;
}

/* The same at its end. */
static size_t blanks_before(const char *text, size_t size)
{
    size_t at = size;
    while (at) {
        uint32_t code_point;
        int valid;
        size_t begin = at - 1;
        while (begin && at - begin < 4 && ((unsigned char)text[begin] & 0xc0) == 0x80)
            begin--;
        if (pc__utf8_read(text + begin, at - begin, &code_point, &valid) != at - begin || !valid
            || !pc__code_point_is_blank(code_point))
            break;
        at = begin;
    }
    return size - at;
}

static pc_status encode(const pc__tokenizer *t, const char *text, size_t size, uint64_t flags,
                        pc__ids *out)
{
    size_t from = 0;
    for (size_t i = 0; i < size;) {
        int32_t id = special_at(t, text + i, size - i, flags);
        size_t end = i;
        if (id < 0) {
            i++;
            continue;
        }
        if (t->tokens[id].lstrip)
            end -= blanks_before(text + from, end - from);
        PC__TRY_RETURN(encode_between_specials(t, text + from, end - from, !from, out));
        PC__TRY_RETURN(pc__ids_add(out, id));
        i += special_text(t, id).size;
        if (t->tokens[id].rstrip)
            i += blanks_after(text + i, size - i);
        from = i;
    }
    return encode_between_specials(t, text + from, size - from, !from, out);
}

/* Copies as many as fit. PC_ERR_LIMIT: not all do. */
static pc_status hand_out(const char *what, const void *from, size_t count, size_t size, void *to,
                          size_t capacity)
{
    if (to && count)
        memcpy(to, from, (count < capacity ? count : capacity) * size);
    return capacity < count && (to || capacity) ? pc__fail(
               PC_ERR_LIMIT, "text has %zu %s, there is room for %zu", count, what, capacity)
                                                : PC_OK;
}

/* To SentencePiece U+2581 is a blank before it looks for user-defined pieces. */
static int has_other_blanks(const pc__tokenizer *t, const char *text, size_t size)
{
    return t->kind == PC__VOCAB_SPM && !t->rules.by_rank && !t->steps
           && memmem(text, size, PC__BLANK_MARK, PC__BLANK_MARK_SIZE);
}

int pc__has_special(const pc__tokenizer *t, const char *text, size_t size)
{
    if (has_other_blanks(t, text, size))
        return -1;
    for (size_t i = 0; i < size;) { /* as in encode */
        int32_t id = special_at(t, text + i, size - i, PC_TOKENIZE_SPECIAL);
        if (id >= 0 && !is_user(t, id))
            return 1;
        i += id < 0 ? 1 : special_text(t, id).size;
        if (id >= 0 && t->tokens[id].rstrip)
            i += blanks_after(text + i, size - i);
    }
    return 0;
}

static pc_status encode_text(const pc__tokenizer *t, const char *text, size_t size, uint64_t flags,
                             pc__ids *out)
{
    pc__bytes plain = {.mem = &t->mem};
    pc_status status = PC_OK;
    if (!has_other_blanks(t, text, size))
        return encode(t, text, size, flags, out);
    for (size_t i = 0, n; i < size && status >= 0; i += n) {
        int is_mark = pc__starts_with_mark(text + i, size - i);
        n = is_mark ? PC__BLANK_MARK_SIZE : 1;
        status = pc__bytes_add(&plain, is_mark ? " " : text + i, 1);
    }
    if (status >= 0)
        status = encode(t, plain.data, plain.size, flags, out);
    pc__bytes_free(&plain);
    return status;
}

pc_status pc__text_to_tokens(const pc__tokenizer *t, const char *text, size_t size, uint64_t flags,
                             int32_t *tokens, size_t capacity, size_t *count)
{
    pc__ids ids = {.mem = &t->mem};
    int mark_ends = (flags & PC_TOKENIZE_BOS) != 0;
    pc_status status = PC_OK;
    *count = 0;
    for (size_t i = 0; i < t->lead_count && mark_ends && status >= 0; i++)
        status = pc__ids_add(&ids, t->lead[i]);
    if (status >= 0 && mark_ends && t->rules.add_bos && t->ids.bos >= 0)
        status = pc__ids_add(&ids, t->ids.bos);
    if (status >= 0)
        status = encode_text(t, text, size, flags, &ids);
    if (status >= 0 && mark_ends && t->rules.add_eos && t->ids.eos >= 0)
        status = pc__ids_add(&ids, t->ids.eos);
    if (status >= 0 && mark_ends && t->tail >= 0)
        status = pc__ids_add(&ids, t->tail);
    if (status >= 0)
        status = hand_out("tokens", ids.data, *count = ids.count, sizeof *tokens, tokens, capacity);
    pc__free(&t->mem, ids.data);
    return status;
}

int pc__token_is_special(const pc__tokenizer *t, int32_t token)
{
    return token >= 0 && (size_t)token < t->count
           && (t->tokens[token].type == PC__TOKEN_CONTROL
               || t->tokens[token].type == PC__TOKEN_UNKNOWN);
}

pc__text pc__token_bytes(const pc__tokenizer *t, int32_t token)
{
    return token >= 0 && (size_t)token < t->count ? t->tokens[token].text : (pc__text){"", 0};
}

/* Whether encoding puts a blank in front of a stretch. `start`: only special tokens before it. */
static int takes_blank(const pc__tokenizer *t, int start)
{
    return (t->kind == PC__VOCAB_SPM || t->kind == PC__VOCAB_UNIGRAM)
           && (t->rules.step_prefix || t->rules.space_prefix == PC__PREFIX_ALWAYS
               || (t->rules.space_prefix == PC__PREFIX_FIRST && start));
}

static pc_status append_token(const pc__tokenizer *t, int32_t id, int first, int start,
                              pc__bytes *out)
{
    pc__text text = t->tokens[id].text;
    if (t->kind == PC__VOCAB_WORDPIECE && !pc__token_is_special(t, id)) {
        if (text.size > 2 && !memcmp(text.data, "##", 2))
            return pc__bytes_add(out, text.data + 2, text.size - 2);
        if (!first)
            PC__TRY_RETURN(pc__bytes_add(out, " ", 1));
    }
    if (first && takes_blank(t, start) && text.size && text.data[0] == ' ')
        /* the blank that encoding puts in front */
        return pc__bytes_add(out, text.data + 1, text.size - 1);
    return pc__bytes_add(out, text.data, text.size);
}

pc_status pc__tokens_to_text(const pc__tokenizer *t, const int32_t *tokens, size_t count,
                             uint64_t flags, char *text, size_t capacity, size_t *size)
{
    pc__bytes out = {.mem = &t->mem};
    pc_status status = PC_OK;
    int first = 1, start = 1;
    *size = 0;
    for (size_t i = 0; i < count && status >= 0; i++) {
        if (tokens[i] < 0 || (size_t)tokens[i] >= t->count)
            status = pc__fail(PC_ERR_INVALID, "token %zu: id %d lies outside of the %zu tokens", i,
                              tokens[i], t->count);
        else if (pc__token_is_special(t, tokens[i])) {
            if (flags & PC_TOKENIZE_SPECIAL)
                status = pc__bytes_add(&out, t->tokens[tokens[i]].text.data,
                                       t->tokens[tokens[i]].text.size);
            /* each text between special tokens got its own blank; the unknown token does not
             * end such a text */
            first = first || tokens[i] != t->ids.unk;
        } else {
            status = append_token(t, tokens[i], first, start, &out);
            first = start = 0;
        }
    }
    if (status >= 0)
        status = hand_out("bytes", out.data, *size = out.size, 1, text, capacity);
    pc__bytes_free(&out);
    return status;
}

pc__vocab_kind pc__tokenizer_kind(const pc__tokenizer *tokenizer)
{
    return tokenizer->kind;
}

size_t pc__tokenizer_count(const pc__tokenizer *t)
{
    return t->count;
}

int32_t pc__token_find(const pc__tokenizer *t, const char *text, size_t size)
{
    int32_t id = pc__string_map_get(&t->specials, text, size);
    for (size_t i = 0; i < t->count && id < 0; i++)
        if (pc__text_equals(t->tokens[i].text, (pc__text){text, size}))
            id = (int32_t)i;
    return id;
}

pc__special_ids pc__tokenizer_ids(const pc__tokenizer *t)
{
    return t->ids;
}

const char *pc__tokenizer_chat_template(const pc__tokenizer *t)
{
    return t->chat_template;
}

pc__id pc__tokenizer_digest(const pc__tokenizer *t)
{
    pc__digest digest;
    pc__digest_start(&digest, "tokenizer/1");
    pc__digest_u64(&digest, (uint64_t)t->kind);
    const int32_t rules[] = {t->rules.add_bos,
                             t->rules.add_eos,
                             t->rules.space_prefix,
                             t->rules.fuse_unk,
                             t->rules.ignore_merges,
                             t->rules.by_rank,
                             t->rules.raw_bytes,
                             t->rules.lowercase,
                             t->rules.strip_accents,
                             t->rules.split_chinese,
                             t->rules.nfc,
                             t->ids.bos,
                             t->ids.eos,
                             t->ids.unk,
                             t->ids.pad};
    pc__digest_i32(&digest, rules, sizeof rules / sizeof *rules);
    pc__digest_bytes(&digest, t->expressions_id.bytes, sizeof t->expressions_id.bytes);
    pc__digest_u64(&digest, t->count);
    for (size_t i = 0; i < t->count; i++) {
        int32_t score;
        memcpy(&score, &t->tokens[i].score, sizeof score);
        const int32_t fields[] = {t->tokens[i].type, score, t->tokens[i].lstrip,
                                  t->tokens[i].rstrip};
        pc__digest_bytes(&digest, t->raw[i].data, t->raw[i].size);
        pc__digest_i32(&digest, fields, 4);
    }
    /* the order in the table depends on the keys only, so equal merges give equal bytes */
    for (size_t i = 0; t->merges.slots && i <= t->merges.mask; i++) {
        const pc__pair_map_slot *s = &t->merges.slots[i];
        if (s->left >= 0)
            pc__digest_i32(&digest, (const int32_t[]){s->left, s->right, s->rank, s->merged}, 4);
    }
    /* what tokenizers of older versions lack changes no digest of theirs */
    if (t->lead_count || t->tail >= 0) {
        pc__digest_i32(&digest, t->lead, t->lead_count);
        pc__digest_i32(&digest, &t->tail, 1);
    }
    if (t->kind == PC__VOCAB_SPM && t->rules.one_prefix)
        pc__digest_i32(&digest, &t->rules.one_prefix, 1);
    if (t->kind == PC__VOCAB_UNIGRAM) {
        pc__digest_i32(&digest,
                       (const int32_t[]){t->rules.split_blanks, t->rules.marks_blanks,
                                         t->rules.one_prefix, t->rules.split_marks,
                                         t->rules.step_prefix},
                       5);
        pc__unigram_digest(t->unigram, &digest);
    }
    if (t->steps)
        pc__digest_bytes(&digest, t->steps->id.bytes, sizeof t->steps->id.bytes);
    return pc__digest_end(&digest);
}
