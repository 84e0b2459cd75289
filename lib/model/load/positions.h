/* Positions: RoPE frequencies of every scaling, and ALiBi slopes.
 *
 * Dynamic NTK and LongRoPE choose their frequencies by the length of a context. Each such set of
 * frequencies is a RoPE regime and has a number, which K/V runs carry: states of different regimes
 * cannot be mixed. */
#ifndef PC_MODEL_POSITIONS_H
#define PC_MODEL_POSITIONS_H

#include "model/load/arch.h"

/* The RoPE regime of a context of `length` positions. 0: the model has only one. Dynamic NTK: 1 up
 * to the trained length, above it the length. LongRoPE: 1 short, 2 long. Lengths of one regime have
 * the same frequencies. */
uint64_t pc__rope_regime(const pc__rope_config *config, uint64_t length);

/* The longest context of a regime; INT64_MAX: no end. */
int64_t pc__rope_regime_end(const pc__rope_config *config, uint64_t regime);

/* The context length that the scaling is for; 0: no limit (dynamic NTK). Linear scaling and YaRN
 * stretch the original length by their factor. Files give the stretched length as max_length, or
 * the original one and the factor. */
int32_t pc__rope_context(const pc__rope_config *config);

/* The frequencies of a regime as transformers' modeling_rope_utils and the papers define them
 * (NTK-aware, YaRN 3.2, Llama 3.1, LongRoPE), in double. Free with pc__rope_free. PC_ERR_NOMEM;
 * PC_ERR_FORMAT: some are not finite. */
pc_status pc__rope_new(pc__rotation **out, const pc_allocator *mem, const pc__rope_config *config,
                       uint64_t regime);
void pc__rope_free(const pc_allocator *mem, pc__rotation *rope); /* NULL does nothing */

/* What queries at a position are multiplied with; 1 where the model does not scale them. */
float pc__query_factor(const pc__query_scale *config, int64_t position);

/* slopes [heads]: a score loses slope * (query position - key position). Includes Falcon's scaling.
 * `scale` is that of scores. */
void pc__alibi_slopes(const pc__arch *arch, float scale, float *slopes);

/* The scale of the scores. */
float pc__attention_scale(const pc__arch *arch);

#endif
