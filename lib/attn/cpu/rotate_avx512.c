/* RoPE with AVX-512. */
#include "attn/cpu/vec512.h"

#include "attn/cpu/rotate_vec.h"

void pc__rotate_avx512(const pc__rope *rope, const float *cosine, const float *sine, float scale,
                       const float *from, float *to, size_t heads, size_t dim)
{
    rotate_vectors(rope, cosine, sine, scale, from, to, heads, dim);
}
