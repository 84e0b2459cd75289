/* RoPE as data: which dimensions rotate, how fast, in which pairs. One object serves all layers
 * that rotate alike. Cached keys are stored rotated by their position relative to the start of the
 * segment; the query is rotated by (its position - start), see attn/plan.h. */
#ifndef PC_ATTN_ROPE_H
#define PC_ATTN_ROPE_H

#include "base/context.h"

typedef struct pc__rotation {
    int32_t dims;        /* the first `dims` of a head rotate, the rest is copied */
    int32_t interleaved; /* pairs are (2i, 2i+1); else (i, i + dims/2) */
    /* multiplies cos and sin (YaRN, LongRoPE), else 1; query and key each carry it once */
    float factor;
    double *frequency; /* [dims/2] angle per position */
} pc__rotation;

/* cos and sin of one position, [dims/2] each, with the factor; computed in double, rounded once. */
void pc__rope_angles(const pc__rotation *rope, int64_t position, float *cosine, float *sine);
/* Rotates `heads` vectors of `dim` floats in place; stride: floats between them. */
void pc__rope_rotate(const pc__rotation *rope, const float *cosine, const float *sine, float *x,
                     size_t heads, size_t stride);

#endif
