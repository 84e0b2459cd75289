/* RoPE with AVX-512. */
#include "attn/cpu/vec512.h"

#include "attn/cpu/rotate_vec.h"
