/* Attention over fp16 and int8 K and V with AVX2. */
#include "attn/cpu/vec256.h"

#include "attn/cpu/attend_formats_vec.h"
