/* RoPE in vectors of any width: include vec256.h or vec512.h before, in one file per width.
 * Products and sums are rounded one by one, in the order of pc__rope_rotate(), so that all variants
 * give the same bits. */
#ifndef PC_ATTN_CPU_ROTATE_VEC_H
#define PC_ATTN_CPU_ROTATE_VEC_H

#include "attn/cpu/rotate.h"

/* All heads of a call share their angles. */
typedef struct rope_rotation {
    const float *cosine, *sine, *from;
    float *to;
    size_t half, heads, dim;
    vec scale;
} rope_rotation;

/* Pairs (i, i + half). */
INLINE void rotate_halves(const rope_rotation *t)
{
    for (size_t i = 0; i < t->half; i += VEC) {
        vec_mask mask = vec_range(0, (uint32_t)t->half, (uint32_t)i);
        vec c = vec_load_masked(mask, t->cosine + i), s = vec_load_masked(mask, t->sine + i);
        const float *from = t->from + i;
        float *to = t->to + i;
        for (size_t h = 0; h < t->heads; h++, from += t->dim, to += t->dim) {
            vec a = vec_mul(vec_load_masked(mask, from), t->scale),
                b = vec_mul(vec_load_masked(mask, from + t->half), t->scale);
            vec_store_masked(mask, to, vec_sub(vec_mul(a, c), vec_mul(b, s)));
            vec_store_masked(mask, to + t->half, vec_add(vec_mul(a, s), vec_mul(b, c)));
        }
    }
}

/* Pairs (2i, 2i + 1). */
INLINE void rotate_pairs(const rope_rotation *t)
{
    for (size_t i = 0; i < t->half; i += VEC / 2) {
        size_t angles = t->half - i < VEC / 2 ? t->half - i : VEC / 2;
        vec_mask mask = vec_range(0, (uint32_t)(2 * angles), 0);
        vec c = vec_twice(t->cosine + i, angles), s = vec_twice(t->sine + i, angles);
        const float *from = t->from + 2 * i;
        float *to = t->to + 2 * i;
        for (size_t h = 0; h < t->heads; h++, from += t->dim, to += t->dim) {
            vec x = vec_mul(vec_load_masked(mask, from), t->scale);
            vec_store_masked(mask, to, vec_sub_add(vec_mul(x, c), vec_mul(vec_swap(x), s)));
        }
    }
}

/* Dimensions that are in no pair are only scaled. */
INLINE void scale_rest(const rope_rotation *t)
{
    for (size_t h = 0; h < t->heads; h++)
        for (size_t i = 2 * t->half; i < t->dim; i += VEC) {
            vec_mask mask = vec_range(0, (uint32_t)t->dim, (uint32_t)i);
            vec_store_masked(mask, t->to + h * t->dim + i,
                             vec_mul(vec_load_masked(mask, t->from + h * t->dim + i), t->scale));
        }
}

/* pc__rotate_fn */
void AT_LEVEL(pc__rotate)(const pc__rope *rope, const float *cosine, const float *sine, float scale,
                          const float *from, float *to, size_t heads, size_t dim)
{
    rope_rotation t = {.cosine = cosine,
                       .sine = sine,
                       .from = from,
                       .to = to,
                       .half = rope ? (size_t)rope->dims / 2 : 0,
                       .heads = heads,
                       .dim = dim,
                       .scale = vec_set(scale)};
    if (rope && rope->interleaved)
        rotate_pairs(&t);
    else
        rotate_halves(&t);
    scale_rest(&t);
}

#endif
