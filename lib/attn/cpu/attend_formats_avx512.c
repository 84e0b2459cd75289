/* Attention over fp16 and int8 K and V with AVX-512. */
#include "attn/cpu/vec512.h"

#include "attn/cpu/attend_formats_vec.h"
