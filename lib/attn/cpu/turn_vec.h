/* Rotary embedding for any width of vector: included by one file a width, after vec256.h or vec512.h. Products and sums are rounded one by one and in the order of
 * pc__rope_turn(), so that all variants give the same bits. */
#ifndef PC_ATTN_CPU_TURN_VEC_H
#define PC_ATTN_CPU_TURN_VEC_H

#include "attn/kernels.h"

/* Pairs (i, i + half). */
INLINE void turn_halves(size_t half, const float *cosine, const float *sine, vec scale, const float *from, float *to)
{
    for (size_t i = 0; i < half; i += VEC) {
        vec_mask lanes = vec_lanes(0, (uint32_t)half, (uint32_t)i);
        vec c = vec_load_lanes(lanes, cosine + i), s = vec_load_lanes(lanes, sine + i);
        vec a = vec_mul(vec_load_lanes(lanes, from + i), scale), b = vec_mul(vec_load_lanes(lanes, from + half + i), scale);
        vec_store_lanes(lanes, to + i, vec_sub(vec_mul(a, c), vec_mul(b, s)));
        vec_store_lanes(lanes, to + half + i, vec_add(vec_mul(a, s), vec_mul(b, c)));
    }
}

/* Pairs (2i, 2i + 1). */
INLINE void turn_pairs(size_t half, const float *cosine, const float *sine, vec scale, const float *from, float *to)
{
    for (size_t i = 0; i < half; i += VEC / 2) {
        vec_mask lanes = vec_lanes(0, (uint32_t)(2 * half), (uint32_t)(2 * i));
        size_t angles = half - i < VEC / 2 ? half - i : VEC / 2;
        vec x = vec_mul(vec_load_lanes(lanes, from + 2 * i), scale);
        vec along = vec_mul(x, vec_twice(cosine + i, angles)), across = vec_mul(vec_swap(x), vec_twice(sine + i, angles));
        vec_store_lanes(lanes, to + 2 * i, vec_sub_add(along, across));
    }
}

/* pc__turn_fn */
INLINE void turn_vectors(const pc__rope *rope, const float *cosine, const float *sine, float scale, const float *from, float *to, size_t heads, size_t dim)
{
    size_t half = rope ? (size_t)rope->dims / 2 : 0;
    for (size_t h = 0; h < heads; h++, from += dim, to += dim) {
        if (rope && rope->interleaved)
            turn_pairs(half, cosine, sine, vec_set(scale), from, to);
        else
            turn_halves(half, cosine, sine, vec_set(scale), from, to);
        for (size_t i = 2 * half; i < dim; i += VEC) {
            vec_mask lanes = vec_lanes(0, (uint32_t)dim, (uint32_t)i);
            vec_store_lanes(lanes, to + i, vec_mul(vec_load_lanes(lanes, from + i), vec_set(scale)));
        }
    }
}

#endif
