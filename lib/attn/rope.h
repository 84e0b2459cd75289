/* Rotary position embedding as data: which dimensions turn, how fast, in which pairing. One object
 * serves every layer that turns alike. Turning is a view for cached keys: they are stored turned by
 * their position relative to the segment's start, and the query is turned by (its position -
 * start), see lib/attn/plan.h. */
#ifndef PC_ATTN_ROPE_H
#define PC_ATTN_ROPE_H

#include "base/context.h"

typedef struct pc__rope {
    int32_t dims;        /* the first `dims` of a head turn, the rest passes */
    int32_t interleaved; /* pairs are (2i, 2i+1); else (i, i + dims/2) */
    float factor; /* multiplies cos and sin (YaRN, LongRoPE); else 1. Query and key each carry it
                     once. */
    double *frequency; /* [dims/2] angle per position */
} pc__rope;

/* cos and sin of one position, [dims/2] each, factor included: computed in double, rounded once. */
void pc__rope_angles(const pc__rope *rope, int64_t position, float *cosine, float *sine);
/* Turns `heads` vectors of `dim` floats (stride between them in floats) in place. */
void pc__rope_rotate(const pc__rope *rope, const float *cosine, const float *sine, float *x,
                     size_t heads, size_t stride);

#endif
