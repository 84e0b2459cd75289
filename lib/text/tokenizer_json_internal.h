/* A tokenizer.json while it is read, for tokenizer_json.c (all but what follows), _json_vocab.c
 * (vocabulary), _json_splits.c (pre-tokenizers of BPE), _json_template.c (post-processors) and
 * normalise_json.c. */
#ifndef PC_TEXT_TOKENIZER_JSON_INTERNAL_H
#define PC_TEXT_TOKENIZER_JSON_INTERNAL_H

#include <jansson.h>

#include "text/tokenizer_internal.h"

typedef struct pc__json_reading {
    const char *where;
    json_t *root; /* texts below point into it */
    pc__vocab vocab;
    pc__token_rules rules;
    pc__split splits[PC__MAX_EXPRESSIONS];
    char *literals[PC__MAX_EXPRESSIONS]; /* expressions that are not in the file as they are */
    size_t split_count, literal_count;
    int32_t lead[PC__MAX_LEAD]; /* special tokens of the template before the text */
    size_t lead_count;
    int32_t tail; /* the one after the text, if it is not EOS; else -1 */
    int byte_level, metaspace;
    const pc_allocator *mem;
    pc__text *tokens;
    int32_t *types;
    pc__text *merges;
    char *merge_arena;
    double *scores;   /* of a Unigram model */
    pc__steps *steps; /* NULL: none */
} pc__json_reading;

/* A member that is a string; else "". */
pc__text pc__json_text(const json_t *object, const char *key);
int pc__json_has_type(const json_t *object, const char *type);

/* model.vocab and added_tokens to tokens, types, scores and vocab. */
pc_status pc__json_tokens(pc__json_reading *r, const json_t *model, int unigram);
/* model.merges to merges, merge_arena and vocab. `wanted`: a missing list is an error. */
pc_status pc__json_merges(pc__json_reading *r, const json_t *model, int wanted);

/* The parts of a Unigram model (normalise_json.c): steps from `normalizer`, rules for splits and
 * blanks from `pre_tokenizer`. Either may be absent. */
pc_status pc__json_steps(pc__json_reading *r);
/* A normalizer as a step; a pre-tokenizer Metaspace as rules. */
pc_status pc__json_step(pc__json_reading *r, const json_t *n);
pc_status pc__json_metaspace(pc__json_reading *r, const json_t *p);

/* `pre_tokenizer` of a BPE model to splits and rules; it may be absent. */
pc_status pc__json_splits(pc__json_reading *r);
/* `post_processor`, and what tokenizer_config.json (or NULL) says about BOS and EOS, to lead, rules
 * and vocab. */
pc_status pc__json_template(pc__json_reading *r, const json_t *config);
int32_t pc__json_find_token(const pc__json_reading *r, const char *text); /* -1: none */

/* Reads the member `part` of the file, or each part of it if it is a sequence with the list `key`.
 * PC_MISS: it is absent. */
pc_status pc__json_parts(pc__json_reading *r, const char *part, const char *key,
                         pc_status (*read)(pc__json_reading *, const json_t *));
/* PC_ERR_UNSUPPORTED that names the type of a part. */
pc_status pc__json_unknown(const pc__json_reading *r, const char *part, const json_t *object);

#endif
