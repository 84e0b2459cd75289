/* RoPE with AVX2. */
#include "attn/cpu/vec256.h"

#include "attn/cpu/rotate_vec.h"

void pc__rotate_avx2(const pc__rope *rope, const float *cosine, const float *sine, float scale,
                     const float *from, float *to, size_t heads, size_t dim)
{
    rotate_vectors(rope, cosine, sine, scale, from, to, heads, dim);
}
