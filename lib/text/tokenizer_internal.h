/* The struct of a tokenizer and what its files share. Text is split at special and user-defined
 * tokens; the text between is encoded by kind:
 *
 *   SPM (_spm)              U+2581 for blanks, one in front; BPE over characters; bytes as fallback
 *   BPE (_bpe)              split by regular expressions (_expressions), BPE over bytes
 *   WORDPIECE (_wordpiece)  BERT's normalisation and splits, the longest pieces from the left
 *   UNIGRAM (unigram*.c)    normaliser, split at blanks, the pieces with the largest sum of scores
 *
 * tokenizer_build.c makes a tokenizer of a vocabulary; _json, _sentencepiece, _tiktoken, _tekken
 * and _llama2c read one from files. _bpe merges for SPM too. _families has the expressions that
 * GGUF names; _syntax translates expressions. */
#ifndef PC_TEXT_TOKENIZER_INTERNAL_H
#define PC_TEXT_TOKENIZER_INTERNAL_H

#include <string.h>

#include "text/normalise.h"
#include "text/string_map.h"
#include "text/tokenizer.h"
#include "text/unigram.h"
#include "text/utf8.h"

enum { PC__MAX_EXPRESSIONS = 8, PC__MAX_LEAD = 4 };

/* Which parts a pre-tokenizer makes of the matches of its expression and of what is between them.
 * Inverted, matches and what is between them change places. */
typedef enum pc__parts {
    PC__PARTS_ALL,         /* each match and each text between two ("Isolated") */
    PC__PARTS_BETWEEN,     /* the texts between ("Removed") */
    PC__PARTS_MATCH_LAST,  /* a match is the end of the text before it ("MergedWithPrevious") */
    PC__PARTS_MATCH_FIRST, /* … the beginning of the text after it ("MergedWithNext") */
    PC__PARTS_RUNS         /* as ALL, but matches side by side are one part ("Contiguous") */
} pc__parts;

typedef struct pc__split {
    const char *expression; /* in the syntax of Oniguruma */
    pc__parts parts;
    int inverted;
} pc__split;
#define PC__GPT2_EXPRESSION \
    "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+"

/* U+2581, the blank in pieces. */
#define PC__BLANK_MARK "\xe2\x96\x81"
enum { PC__BLANK_MARK_SIZE = sizeof PC__BLANK_MARK - 1 };

static inline int pc__starts_with_mark(const char *text, size_t size)
{
    return size >= PC__BLANK_MARK_SIZE && !memcmp(text, PC__BLANK_MARK, PC__BLANK_MARK_SIZE);
}

typedef struct pc__vocabulary_token {
    pc__text text; /* in running text */
    float score;
    uint8_t type;           /* PC__TOKEN_… */
    uint8_t byte;           /* of a byte token */
    uint8_t lstrip, rstrip; /* an added token includes the blanks beside it */
} pc__vocabulary_token;

enum { PC__PREFIX_NEVER, PC__PREFIX_ALWAYS, PC__PREFIX_FIRST };

typedef struct pc__token_rules {
    int32_t add_bos, add_eos; /* for PC_TOKENIZE_BOS */
    int32_t space_prefix; /* SPM, UNIGRAM: PC__PREFIX_…: U+2581 in front; FIRST: of a text only */
    int32_t fuse_unk;     /* a run of unknown characters is one unknown token */
    int32_t ignore_merges; /* BPE: a word that is a token is that token */
    int32_t by_rank;       /* SPM: merges by rank instead of score */
    /* BPE: tokens are bytes, not the byte-level alphabet, and merge in the order of their ids
     * (tiktoken) */
    int32_t raw_bytes;
    int32_t lowercase, strip_accents, split_chinese; /* WORDPIECE */
    int32_t nfc;                                     /* BPE: normalise first */
    int32_t one_prefix;                              /* SPM, UNIGRAM: add no prefix where one is */
    /* UNIGRAM: split at blanks and drop them; write U+2581 for blanks; split before each U+2581; a
     * step of the normaliser adds the prefix */
    int32_t split_blanks, marks_blanks, split_marks, step_prefix;
} pc__token_rules;

struct pc__tokenizer {
    pc_allocator mem;
    pc__vocab_kind kind;
    pc__token_rules rules;
    size_t count;
    pc__vocabulary_token *tokens;
    char *arena;                /* texts of all tokens */
    char *raw_arena;            /* texts of `raw` */
    pc__text *raw;              /* [count] pieces as merges and maps have them */
    pc__string_map pieces;      /* raw piece -> id, normal tokens */
    pc__string_map specials;    /* text -> id: control and user-defined tokens */
    uint8_t special_first[256]; /* 1: some special starts with this byte */
    size_t special_longest;
    pc__pair_map merges;
    int32_t byte_token[256]; /* -1: none */
    pc__special_ids ids;
    /* what PC_TOKENIZE_BOS also adds: special tokens before BOS, and one after EOS (-1: none) */
    int32_t lead[PC__MAX_LEAD], tail;
    size_t lead_count;
    pcre2_general_context *regex_memory;
    pcre2_code *expression[PC__MAX_EXPRESSIONS];
    pc__parts parts[PC__MAX_EXPRESSIONS];
    int inverted[PC__MAX_EXPRESSIONS];
    size_t expressions;
    pc__id expressions_id; /* digest of their texts */
    char *chat_template;
    pc__steps *steps;     /* SPM, UNIGRAM: the normaliser, or NULL */
    pc__unigram *unigram; /* UNIGRAM */
};

/* SentencePiece finds user-defined pieces in the text as it will be decoded; `tokenizers`, whose
 * SPM has merges, finds added tokens as they are written in the vocabulary. */
static inline int pc__finds_pieces(const pc__tokenizer *t)
{
    return t->kind == PC__VOCAB_SPM && t->rules.by_rank;
}

/* A growing list of ids. */
typedef struct pc__ids {
    const pc_allocator *mem;
    int32_t *data;
    size_t count, capacity;
} pc__ids;
pc_status pc__ids_add(pc__ids *ids, int32_t id);

/* Each appends the ids of a text between special tokens, which is not empty and has been through
 * the steps. `first`: nothing stands before it. */
pc_status pc__spm_encode(const pc__tokenizer *t, const char *text, size_t size, int first,
                         pc__ids *out);
pc_status pc__bpe_encode(const pc__tokenizer *t, const char *text, size_t size, pc__ids *out);
pc_status pc__wordpiece_encode(const pc__tokenizer *t, const char *text, size_t size, pc__ids *out);
pc_status pc__unigram_encode(const pc__tokenizer *t, const char *text, size_t size, int first,
                             pc__ids *out);

/* "<0x0A>" is 10; -1: another form */
int pc__piece_byte(pc__text piece);

/* Appends text with U+2581 for its blanks. */
pc_status pc__mark_blanks(const char *text, size_t size, pc__bytes *out);

/* Appends `id`; if it is -1, the piece with this text, else its byte tokens, else the unknown
 * token. *unknown: whether it was the unknown token. */
pc_status pc__piece_add(const pc__tokenizer *t, const char *text, size_t size, int32_t id,
                        int *unknown, pc__ids *out);

/* BPE over symbols of `text`: `starts` are the byte offsets of the initial symbols, `ids` their
 * tokens (-1: unknown). Merges the best pair (lowest rank, or highest score; the leftmost of
 * equals) until there is none: O(n log n). The first *count entries are the symbols that remain;
 * entry i is bytes starts[i] to starts[i + 1]. */
pc_status pc__bpe_merge(const pc__tokenizer *t, const char *text, uint32_t *starts, int32_t *ids,
                        size_t *count);

/* Compiles the expressions of a pre-tokenizer family of GGUF and sets its rules; PC_ERR_UNSUPPORTED
 * names an unknown one. */
pc_status pc__expressions_of(pc__tokenizer *t, const char *family, const char *where);
/* Whether a family adds BOS if the file does not say. NULL: 0. */
int pc__family_adds_bos(const char *family);
/* Appends an expression of Oniguruma in the syntax of PCRE2, with a NUL. PC_ERR_UNSUPPORTED: it
 * cannot be said, or is not known to mean the same. */
pc_status pc__expression_translate(const char *expression, const char *where, pc__bytes *out);
/* Translates and compiles. *memory is made from `mem` at the first call; its owner frees it. */
pc_status pc__expression_compile(pcre2_code **out, pcre2_general_context **memory,
                                 const pc_allocator *mem, const char *expression,
                                 const char *where);
pcre2_match_context *pc__expression_limits(pcre2_general_context *memory); /* NULL: no memory */
/* The next match from `at` on, which may be empty; `size` > 0. PC_MISS: none. `what` begins the
 * text of an error. */
pc_status pc__expression_match(const pcre2_code *expression, pcre2_match_context *limits,
                               pcre2_match_data *match, const char *text, size_t size, size_t at,
                               const char *what, size_t *from, size_t *to);
pc_status pc__expression_add(pc__tokenizer *t, const pc__split *split, const char *where);
/* Splits text by all expressions in turn; calls piece() for each part in order. */
pc_status pc__expressions_split(const pc__tokenizer *t, const char *text, size_t size,
                                pc_status (*piece)(void *user, const char *text, size_t size),
                                void *user);

/* tiktoken's text, which a tokenizer.model may hold. */
pc_status pc__tokenizer_from_tiktoken(pc__tokenizer **out, const pc_allocator *mem,
                                      const char *path, const char *text, size_t size);
/* Every byte needs a token of its own, else text would be lost. */
pc_status pc__check_byte_tokens(const pc__vocab *vocab);

/* `rules`: all settings that pc__vocab lacks. */
pc_status pc__tokenizer_build(pc__tokenizer **out, const pc_allocator *mem, const pc__vocab *vocab,
                              const pc__token_rules *rules, const pc__split *splits,
                              size_t split_count);

#endif
