/* Zeros what a run holds beyond its tokens (kv.h). */
#ifndef PC_ATTN_KV_TAIL_H
#define PC_ATTN_KV_TAIL_H

#include "attn/kv.h"

/* tokens [from, to), for which the run has pages */
void pc__kv_clear_tokens(pc__kv *kv, size_t from, size_t to);

#endif
