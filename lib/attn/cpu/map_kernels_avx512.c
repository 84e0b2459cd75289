/* Attention maps in fp32 arithmetic with AVX-512. */
#include "attn/cpu/vec512.h"

#include "attn/cpu/map_kernels_vec.h"
