/* The normalizer and the pre-tokenizer of a tokenizer.json whose model is Unigram. */
#ifndef PC_TEXT_NORMALISE_JSON_H
#define PC_TEXT_NORMALISE_JSON_H

#include <jansson.h>

#include "text/tokenizer_internal.h"

/* Steps of `normalizer`, and the rules of where to cut and what blanks become from `pre_tokenizer`;
 * either may be NULL or null. What is not known is refused by its name. */
pc_status pc__steps_new_from_json(pc__steps **out, const pc_allocator *mem,
                                  const json_t *normalizer, const json_t *pre_tokenizer,
                                  pc__token_rules *rules, const char *where);

#endif
