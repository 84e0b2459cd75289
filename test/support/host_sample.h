/* pc__backend_ops.sample by the library's own sampler, on logits that the host sees: the reference
 * for backends that draw, and what the backend of tests does. */
#ifndef PC_TEST_HOST_SAMPLE_H
#define PC_TEST_HOST_SAMPLE_H

#include "attn/draw.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The logits stay as they are. */
void host_sample(const float *logits, size_t stride, const pc__draws *draws);

#ifdef __cplusplus
}
#endif

#endif
