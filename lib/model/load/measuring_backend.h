/* A backend for binding a model without its weights: its layers and tables have a size and nothing
 * else. What binding checks is checked, so a model that can be bound to it can be loaded, unless a
 * weight is not a number. */
#ifndef PC_MODEL_MEASURING_BACKEND_H
#define PC_MODEL_MEASURING_BACKEND_H

#include "attn/backend.h"

typedef struct pc__measuring {
    pc__backend base;
    pc__backend_ops ops;
    pc__stream stream;
    uint32_t
        halves; /* bit 1 << PC_DTYPE_x: layers in fp32 keep weights of that format as they are */
    uint64_t quantised_bytes; /* of the linear layers whose weights stayed quantised */
} pc__measuring;

/* Measures what `real` would hold. PC_ERR_NOMEM. */
pc_status pc__measuring_begin(pc__measuring *out, pc__backend *real);
void pc__measuring_end(pc__measuring *measuring); /* after all that was made with it */

#endif
