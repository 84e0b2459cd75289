/* The RoPE kernels of the vector levels. */
#ifndef PC_ATTN_CPU_ROTATE_H
#define PC_ATTN_CPU_ROTATE_H

#include "attn/kernels.h"

pc__rotate_kernel pc__rotate_avx2, pc__rotate_avx512;

#endif
