/* Zeros where a run has no tokens (kv.h). */
#ifndef PC_ATTN_KV_TAIL_H
#define PC_ATTN_KV_TAIL_H

#include "attn/kv.h"

void pc__kv_clear_tokens(pc__kv *kv, size_t from,
                         size_t to); /* tokens [from, to), which the run has pages for */

#endif
