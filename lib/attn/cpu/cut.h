/* What cutting inputs into whole numbers (pc__cut_fn in attn/kernels.h) shares between its variants. */
#ifndef PC_ATTN_CPU_CUT_H
#define PC_ATTN_CPU_CUT_H

#include <stdint.h>
#include <string.h>

/* The smallest shift that brings `most`, in finest steps, down to `end` or less: a float's bits grow by 2^23 where it doubles. */
static inline int32_t pc__cut_shift(float most, float end, int32_t last)
{
    int32_t bits, end_bits, shift;
    memcpy(&bits, &most, sizeof bits);
    memcpy(&end_bits, &end, sizeof end_bits);
    shift = bits > end_bits ? (bits - end_bits + (1 << 23) - 1) >> 23 : 0;
    return shift < last ? shift : last;
}

#endif
