/* A tokenizer.json while it is read, for tokenizer_json.c (all but the vocabulary), _json_vocab.c
 * and normalise_json.c. */
#ifndef PC_TEXT_TOKENIZER_JSON_INTERNAL_H
#define PC_TEXT_TOKENIZER_JSON_INTERNAL_H

#include <jansson.h>

#include "text/tokenizer_internal.h"

typedef struct pc__json_reading {
    const char *where;
    json_t *root; /* texts below point into it */
    pc__vocab vocab;
    pc__token_rules rules;
    const char *expressions[PC__MAX_EXPRESSIONS];
    size_t expression_count;
    int byte_level, metaspace;
    const pc_allocator *mem;
    pc__text *tokens;
    int32_t *types;
    pc__text *merges;
    char *merge_arena;
    double *scores;   /* of a Unigram model */
    pc__steps *steps; /* likewise */
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

/* Reads the member `part` of the file, or each part of it if it is a sequence with the list `key`.
 * PC_MISS: it is absent. */
pc_status pc__json_parts(pc__json_reading *r, const char *part, const char *key,
                         pc_status (*read)(pc__json_reading *, const json_t *));
/* PC_ERR_UNSUPPORTED that names the type of a part. */
pc_status pc__json_unknown(const pc__json_reading *r, const char *part, const json_t *object);

#endif
