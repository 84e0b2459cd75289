/* exp in 16 lanes. */
#ifndef PC_ATTN_CPU_EXP512_H
#define PC_ATTN_CPU_EXP512_H

#include "attn/cpu/vec512.h"

#include "attn/cpu/exp_vec.h"

static inline __m512 pc__exp512(__m512 x)
{
    return vec_exp(x);
}

#endif
