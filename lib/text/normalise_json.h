/* Reads normalizer and pre-tokenizer of a tokenizer.json with a Unigram model. */
#ifndef PC_TEXT_NORMALISE_JSON_H
#define PC_TEXT_NORMALISE_JSON_H

#include <jansson.h>

#include "text/tokenizer_internal.h"

/* The steps come from `normalizer`; the rules for splits and blanks from `pre_tokenizer`. Either
 * may be NULL or null. The error for an unknown type names it. */
pc_status pc__steps_new_from_json(pc__steps **out, const pc_allocator *mem,
                                  const json_t *normalizer, const json_t *pre_tokenizer,
                                  pc__token_rules *rules, const char *where);

#endif
