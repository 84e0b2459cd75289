/* RoPE with AVX2. */
#include "attn/cpu/vec256.h"

#include "attn/cpu/rotate_vec.h"
