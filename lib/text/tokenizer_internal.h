/* Inside of a tokenizer. Text is cut at special and user-defined tokens; what lies between goes, by
 * kind, through SPM        normalisation (U+2581 for spaces, one in front), BPE over characters,
 * bytes for what is unknown BPE        regular expressions, then BPE over bytes WORDPIECE  BERT's
 * normalisation and cuts, then the longest pieces from the left UNIGRAM  normalisation, cuts at
 * blanks, the pieces with the largest sum of scores */
#ifndef PC_TEXT_TOKENIZER_INTERNAL_H
#define PC_TEXT_TOKENIZER_INTERNAL_H

#include <string.h>

#include "text/normalise.h"
#include "text/string_map.h"
#include "text/tokenizer.h"
#include "text/unigram.h"
#include "text/utf8.h"

enum { PC__MAX_EXPRESSIONS = 8 };
#define PC__GPT2_EXPRESSION \
    "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+"

/* U+2581, which stands for a blank in pieces. */
#define PC__BLANK_MARK "\xe2\x96\x81"
enum { PC__BLANK_MARK_SIZE = sizeof PC__BLANK_MARK - 1 };

static inline int pc__starts_with_mark(const char *text, size_t size)
{
    return size >= PC__BLANK_MARK_SIZE && !memcmp(text, PC__BLANK_MARK, PC__BLANK_MARK_SIZE);
}

typedef struct pc__token {
    pc__text text; /* as it appears in running text */
    float score;
    uint8_t type;           /* PC__TOKEN_… */
    uint8_t byte;           /* of a byte token */
    uint8_t lstrip, rstrip; /* an added token takes the blanks beside it along */
} pc__token;

enum { PC__PREFIX_NEVER, PC__PREFIX_ALWAYS, PC__PREFIX_FIRST };

typedef struct pc__token_rules {
    int32_t add_bos, add_eos; /* for PC_TOKENIZE_BOS */
    int32_t space_prefix; /* SPM, UNIGRAM: PC__PREFIX_…: U+2581 in front; FIRST: of a text only */
    int32_t fuse_unk;     /* a run of unknown characters is one unknown token */
    int32_t ignore_merges; /* BPE: a word that is a token is that token */
    int32_t by_rank;       /* SPM: merges by rank instead of score */
    /* BPE: tokens are bytes, not the byte-level alphabet, and join in the order of their ids
     * (tiktoken) */
    int32_t raw_bytes;
    int32_t lowercase, strip_accents, split_chinese; /* WORDPIECE */
    int32_t nfc;                                     /* BPE: normalise first */
    /* UNIGRAM: blanks cut and go; blanks become U+2581; it is no prefix where one stands; parts
     * begin with it; a step of the normalizer puts it in front */
    int32_t split_blanks, marks_blanks, one_prefix, split_marks, step_prefix;
} pc__token_rules;

struct pc__tokenizer {
    pc_allocator mem;
    pc__vocab_kind kind;
    pc__token_rules rules;
    size_t count;
    pc__token *tokens;
    char *arena;                /* texts of all tokens */
    char *raw_arena;            /* pieces as merges and the maps know them */
    pc__text *raw;              /* [count] */
    pc__string_map pieces;      /* raw piece -> id, normal tokens */
    pc__string_map specials;    /* text -> id: control and user-defined tokens */
    uint8_t special_first[256]; /* 1: some special starts with this byte */
    size_t special_longest;
    pc__pair_map merges;
    int32_t byte_token[256]; /* -1: none */
    int32_t bos, eos, unk, pad;
    pcre2_general_context *regex_memory;
    pcre2_code *expression[PC__MAX_EXPRESSIONS];
    size_t expressions;
    pc__id expressions_id; /* digest of their texts */
    char *chat_template;
    pc__steps *steps;     /* SPM, UNIGRAM: of the normalizer, or NULL */
    pc__unigram *unigram; /* UNIGRAM */
};

/* A growing list of ids. */
typedef struct pc__ids {
    const pc_allocator *mem;
    int32_t *data;
    size_t count, capacity;
} pc__ids;
pc_status pc__ids_add(pc__ids *ids, int32_t id);

/* Each appends the ids of a stretch without special tokens. `first`: the text begins with it. */
pc_status pc__spm_encode(const pc__tokenizer *t, const char *text, size_t size, pc__ids *out);
pc_status pc__bpe_encode(const pc__tokenizer *t, const char *text, size_t size, pc__ids *out);
pc_status pc__wordpiece_encode(const pc__tokenizer *t, const char *text, size_t size, pc__ids *out);
pc_status pc__unigram_encode(const pc__tokenizer *t, const char *text, size_t size, int first,
                             pc__ids *out);

/* Appends text with U+2581 for its blanks. */
pc_status pc__mark_blanks(const char *text, size_t size, pc__bytes *out);

/* Appends what stands for a stretch of normalised text: `id`, or, where it is -1, the piece of that
 * text, else its bytes, else the unknown token; *unknown: whether it was that one. */
pc_status pc__piece_add(const pc__tokenizer *t, const char *text, size_t size, int32_t id,
                        int *unknown, pc__ids *out);

/* BPE over symbols of `text`: `starts` are the byte offsets of the initial symbols, `ids` their
 * tokens (-1: unknown). Joins the best pair (lowest rank, or highest score; the leftmost of equals)
 * until none is left: O(n log n). On return the first *count entries are the symbols that remain;
 * entry i spans starts[i] … starts[i + 1]. */
pc_status pc__bpe_merge(const pc__tokenizer *t, const char *text, uint32_t *starts, int32_t *ids,
                        size_t *count);

/* Compiles the expressions of a pre-tokenizer family; PC_ERR_UNSUPPORTED names an unknown one. */
pc_status pc__expressions_of(pc__tokenizer *t, const char *family, const char *where);
/* *memory is made, from mem, when it is first needed; the owner frees it. */
pc_status pc__expression_compile(pcre2_code **out, pcre2_general_context **memory,
                                 const pc_allocator *mem, const char *expression,
                                 const char *where);
pcre2_match_context *pc__expression_limits(pcre2_general_context *memory); /* NULL: no memory */
/* The next match from `at` on, of text of at least one byte. PC_MISS: none that is longer than
 * nothing. `what` heads the text of an error. */
pc_status pc__expression_match(const pcre2_code *expression, pcre2_match_context *limits,
                               pcre2_match_data *match, const char *text, size_t size, size_t at,
                               const char *what, size_t *from, size_t *to);
pc_status pc__expression_add(pc__tokenizer *t, const char *expression, const char *where);
/* Cuts text by all expressions in turn; calls piece() for each part in order. */
pc_status pc__expressions_split(const pc__tokenizer *t, const char *text, size_t size,
                                pc_status (*piece)(void *user, const char *text, size_t size),
                                void *user);

/* Rules beyond what pc__vocab says. */
pc_status pc__tokenizer_build(pc__tokenizer **out, const pc_allocator *mem, const pc__vocab *vocab,
                              const pc__token_rules *rules, const char *const *expressions,
                              size_t expression_count);

#endif
