/* Text to token ids and back: SentencePiece BPE with byte fallback, SentencePiece Unigram,
 * byte-level BPE and WordPiece, from GGUF, tokenizer.json, tokenizer.model, tekken.json and
 * llama2.c. Immutable after loading; any thread. Family: tokenizer_internal.h lists its files. */
#ifndef PC_TEXT_TOKENIZER_H
#define PC_TEXT_TOKENIZER_H

#include "base/context.h"
#include "base/digest.h"
#include "text/utf8.h"

typedef struct pc__tokenizer pc__tokenizer;

typedef enum pc__vocab_kind {
    PC__VOCAB_SPM, /* SentencePiece BPE by score, byte fallback */
    PC__VOCAB_BPE, /* byte-level BPE with merges */
    PC__VOCAB_WORDPIECE,
    PC__VOCAB_UNIGRAM /* SentencePiece Unigram */
} pc__vocab_kind;

/* as GGUF numbers them */
enum {
    PC__TOKEN_NORMAL = 1,
    PC__TOKEN_UNKNOWN = 2,
    PC__TOKEN_CONTROL = 3,
    PC__TOKEN_USER = 4,
    PC__TOKEN_UNUSED = 5,
    PC__TOKEN_BYTE = 6
};

typedef struct pc__special_ids { /* -1: none */
    int32_t bos, eos, unk, pad;
} pc__special_ids;

/* No vocabulary has more. */
enum { PC__MOST_TOKENS = 1 << 24 };

/* A vocabulary, whatever file it comes from. Everything is borrowed for the call. */
typedef struct pc__vocab {
    pc__vocab_kind kind;
    /* pre-tokenizer family ("llama-bpe", "gpt-2", "qwen2", "falcon", …); NULL: default */
    const char *pre;
    const char *where; /* file name for error texts */
    size_t count;
    const pc__text *tokens; /* [count] SPM: pieces with U+2581; BPE: in the byte-level alphabet */
    const float *scores;    /* [count] or NULL */
    const int32_t *types;   /* [count] PC__TOKEN_… or NULL */
    size_t merge_count;
    const pc__text *merges;               /* "left right" */
    int32_t bos, eos, unk, pad, sep, cls; /* -1: none */
    int32_t add_bos, add_eos;             /* 0, 1, or -1: the kind's default */
    int32_t add_space_prefix;             /* 0, 1, or -1: the kind's default */
    const char *chat_template;            /* Jinja text of the file, or NULL */
    int32_t by_rank;                      /* SPM: pieces merge by `merges`, not by score */
    /* UNIGRAM: scores in fp64 if the file has them, else NULL; SentencePiece's normalizer: its
     * charsmap (empty: none), and whether several blanks become one */
    const double *exact_scores;
    pc__text charsmap;
    int32_t one_blank;
} pc__vocab;

pc_status pc__tokenizer_from_vocab(pc__tokenizer **out, const pc_allocator *mem,
                                   const pc__vocab *vocab);
/* tokenizer.json (with tokenizer_config.json and special_tokens_map.json beside it where they are),
 * else tokenizer.model, else tekken.json, of a Hugging Face folder; with the chat template of
 * chat_template.jinja, tokenizer_config.json or chat_template.json. PC_ERR_NOT_FOUND: none. */
pc_status pc__tokenizer_from_folder(pc__tokenizer **out, const pc_allocator *mem,
                                    const char *folder);
pc_status pc__tokenizer_from_json(pc__tokenizer **out, const pc_allocator *mem, const char *path);
pc_status pc__tokenizer_from_sentencepiece(pc__tokenizer **out, const pc_allocator *mem,
                                           const char *path);
pc_status pc__tokenizer_from_tekken(pc__tokenizer **out, const pc_allocator *mem, const char *path);
pc_status pc__tokenizer_from_llama2c(pc__tokenizer **out, const pc_allocator *mem, const char *path,
                                     size_t vocab_size);
void pc__tokenizer_free(pc__tokenizer *tokenizer);

/* As pc_tokenize and pc_detokenize. */
pc_status pc__text_to_tokens(const pc__tokenizer *tokenizer, const char *text, size_t size,
                             uint64_t flags, int32_t *tokens, size_t capacity, size_t *count);
/* Whether PC_TOKENIZE_SPECIAL changes the ids of a text: 1, 0; -1: not known without both. */
int pc__has_special(const pc__tokenizer *tokenizer, const char *text, size_t size);
pc_status pc__tokens_to_text(const pc__tokenizer *tokenizer, const int32_t *tokens, size_t count,
                             uint64_t flags, char *text, size_t capacity, size_t *size);

pc__vocab_kind pc__tokenizer_kind(const pc__tokenizer *tokenizer);
size_t pc__tokenizer_count(const pc__tokenizer *tokenizer);
/* A token's bytes in running text (a byte token: its byte; a special one: its text); borrowed. */
pc__text pc__token_bytes(const pc__tokenizer *tokenizer, int32_t token);
int pc__token_is_special(const pc__tokenizer *tokenizer, int32_t token);
/* By its bytes in running text, special tokens included; -1: none. */
int32_t pc__token_find(const pc__tokenizer *tokenizer, const char *text, size_t size);
pc__special_ids pc__tokenizer_ids(const pc__tokenizer *tokenizer);
/* The Jinja text that came with the vocabulary, or NULL. Borrowed. */
const char *pc__tokenizer_chat_template(const pc__tokenizer *tokenizer);
/* Digest of everything that changes ids. */
pc__id pc__tokenizer_digest(const pc__tokenizer *tokenizer);

#endif
