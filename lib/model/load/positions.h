/* Where tokens stand: rotary frequencies of every scaling, and the slopes of ALiBi.
 *
 * Dynamic NTK and LongRoPE choose their frequencies by a length. States computed under one choice
 * cannot be mixed with those of another, so every choice has a number (the regime) that K/V runs
 * carry. */
#ifndef PC_MODEL_POSITIONS_H
#define PC_MODEL_POSITIONS_H

#include "model/load/arch.h"

/* The regime of a context of `length` positions: 0 where the model has only one; dynamic NTK: 1 up
 * to the trained length, above it the length itself; LongRoPE: 1 short, 2 long. Two lengths of one
 * regime have the same frequencies. */
uint64_t pc__rope_regime(const pc__rope_config *config, uint64_t length);

/* The longest context of the same regime; INT64_MAX: no end. */
int64_t pc__rope_regime_end(const pc__rope_config *config, uint64_t regime);

/* Largest position + 1 that the scaling is for; 0: no limit. Neither transformers nor the
 * frequencies themselves have one for dynamic NTK, whose max_length is where it begins. Linear
 * scaling and YaRN stretch the original length by their factor, and files say that length in two
 * ways: as max_length, or as the original one with the factor beside it. */
int32_t pc__rope_context(const pc__rope_config *config);

/* The frequencies of a regime, as transformers' modeling_rope_utils and the papers (NTK-aware,
 * YaRN 3.2, Llama 3.1, LongRoPE) define them, in double. Free with pc__rope_free. PC_ERR_NOMEM;
 * PC_ERR_FORMAT: some are no finite numbers. */
pc_status pc__rope_new(pc__rope **out, const pc_allocator *mem, const pc__rope_config *config,
                       uint64_t regime);
void pc__rope_free(const pc_allocator *mem, pc__rope *rope); /* NULL does nothing */

/* slopes [heads]: what score - slope * (query position - key position) takes, with Falcon's scaling
 * already in it. `scale` is that of the scores. */
void pc__alibi_slopes(const pc__arch *arch, float scale, float *slopes);

/* The scale of the scores. */
float pc__attention_scale(const pc__arch *arch);

#endif
