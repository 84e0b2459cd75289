/* serve/sampler.c behind a plain function. */
#ifndef PC_TEST_SAMPLING_REFERENCE_H
#define PC_TEST_SAMPLING_REFERENCE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A token by a sampler whose next random number is `bits`; -1: no logit is finite. Penalties change
 * logits; penalised [vocab] (NULL: no penalty) are the tokens that have one, and the new one. */
int32_t reference_sample(float *logits, size_t vocab, uint64_t bits, float temperature,
                         uint32_t top_k, float top_p, float penalty, uint8_t *penalised);

#ifdef __cplusplus
}
#endif

#endif
