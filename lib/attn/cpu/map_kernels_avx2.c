/* Attention maps in fp32 arithmetic with AVX2. */
#include "attn/cpu/vec256.h"

#include "attn/cpu/map_kernels_vec.h"
