/* BERT's WordPiece: clean, decompose, strip accents, lower the case; split at blanks, punctuation
 * and Chinese characters; take the longest pieces from the left. A word that is not a sequence of
 * pieces is one unknown token. */
#include <string.h>
#include <utf8proc.h>

#include "text/tokenizer_internal.h"

enum { LONGEST_WORD = 100 }; /* characters; longer words are unknown */

static int is_chinese(uint32_t c)
{
    return (c >= 0x4e00 && c <= 0x9fff) || (c >= 0x3400 && c <= 0x4dbf)
           || (c >= 0x20000 && c <= 0x2a6df) || (c >= 0x2a700 && c <= 0x2b73f)
           || (c >= 0x2b740 && c <= 0x2b81f) || (c >= 0x2b820 && c <= 0x2ceaf)
           || (c >= 0xf900 && c <= 0xfaff) || (c >= 0x2f800 && c <= 0x2fa1f);
}

static int is_punctuation(uint32_t c)
{
    utf8proc_category_t k = utf8proc_category((utf8proc_int32_t)c);
    return (c >= 33 && c <= 47) || (c >= 58 && c <= 64) || (c >= 91 && c <= 96)
           || (c >= 123 && c <= 126) || (k >= UTF8PROC_CATEGORY_PC && k <= UTF8PROC_CATEGORY_PO);
}

static int is_blank_character(uint32_t c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r'
           || utf8proc_category((utf8proc_int32_t)c) == UTF8PROC_CATEGORY_ZS;
}

static int is_dropped(uint32_t c)
{
    utf8proc_category_t k = utf8proc_category((utf8proc_int32_t)c);
    return c == 0 || c == 0xfffd || k == UTF8PROC_CATEGORY_CC || k == UTF8PROC_CATEGORY_CF
           || k == UTF8PROC_CATEGORY_CO || k == UTF8PROC_CATEGORY_CS;
}

static int starts_word(const void *tokenizer, int32_t id)
{
    return ((const pc__tokenizer *)tokenizer)->raw[id].size > 0;
}

static int continues_word(const void *tokenizer, int32_t id)
{
    return ((const pc__tokenizer *)tokenizer)->raw[id].size > 2; /* more than its "##" */
}

static pc_status encode_word(const pc__tokenizer *t, const pc__bytes *word, pc__ids *out)
{
    size_t before = out->count, at = 0, code_points = 0;
    char piece[LONGEST_WORD * 4 + 2] = "##";
    for (size_t i = 0; i < word->size; i++)
        code_points += (word->data[i] & 0xc0) != 0x80;
    while (at < word->size && code_points <= LONGEST_WORD) {
        size_t rest = word->size - at;
        memcpy(piece + 2, word->data + at, rest);
        int32_t id = at ? pc__string_map_longest(&t->pieces, piece, rest + 2, continues_word, t)
                        : pc__string_map_longest(&t->pieces, piece + 2, rest, starts_word, t);
        if (id < 0)
            break;
        PC__TRY_RETURN(pc__ids_add(out, id));
        at += t->raw[id].size - (at ? 2 : 0);
    }
    if (at == word->size)
        return PC_OK;
    out->count = before;
    return t->ids.unk >= 0 ? pc__ids_add(out, t->ids.unk) : PC_OK;
}

static pc_status flush_word(const pc__tokenizer *t, pc__bytes *word, pc__ids *out)
{
    pc_status status = word->size ? encode_word(t, word, out) : PC_OK;
    word->size = 0;
    return status;
}

static pc_status add_code_point(const pc__tokenizer *t, uint32_t c, pc__bytes *word, pc__ids *out)
{
    char utf8[4];
    int alone = is_punctuation(c) || (t->rules.split_chinese && is_chinese(c));
    if (is_blank_character(c))
        return flush_word(t, word, out);
    if (is_dropped(c)
        || (t->rules.strip_accents
            && utf8proc_category((utf8proc_int32_t)c) == UTF8PROC_CATEGORY_MN))
        return PC_OK;
    if (t->rules.lowercase)
        c = (uint32_t)utf8proc_tolower((utf8proc_int32_t)c);
    if (alone)
        PC__TRY_RETURN(flush_word(t, word, out));
    PC__TRY_RETURN(pc__bytes_add(word, utf8, pc__utf8_write(c, utf8)));
    return alone ? flush_word(t, word, out) : PC_OK;
}

pc_status pc__wordpiece_encode(const pc__tokenizer *t, const char *text, size_t size, pc__ids *out)
{
    pc__bytes word = {.mem = &t->mem};
    pc_status status = PC_OK;
    for (pc__character c = {0}; status >= 0 && pc__utf8_next(text, size, &c);) {
        utf8proc_int32_t parts[32];
        utf8proc_ssize_t count = 1;
        int boundary = 0;
        parts[0] = c.valid ? (utf8proc_int32_t)c.code_point : 0xfffd;
        if (c.valid && t->rules.strip_accents)
            count = utf8proc_decompose_char(parts[0], parts, 32, UTF8PROC_DECOMPOSE, &boundary);
        for (utf8proc_ssize_t j = 0; j < count && j < 32 && status >= 0; j++)
            status = add_code_point(t, (uint32_t)parts[j], &word, out);
    }
    if (status >= 0)
        status = flush_word(t, &word, out);
    pc__bytes_free(&word);
    return status;
}
