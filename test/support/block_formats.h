/* The block formats of files (model/load/quantised_rows.c). */
#ifndef PC_TEST_BLOCK_FORMATS_H
#define PC_TEST_BLOCK_FORMATS_H

#include "attn/block_format.h"

#define SCALES(kind) PC__SCALES_##kind
#define TABLE(kind) PC__TABLE_##kind
/* Of Q8_0, Q4_0, Q4_1, Q5_0, Q5_1, IQ4_NL, MXFP4; Q2_K to Q6_K, IQ4_XS. */
static const pc__block_format formats[] = {{8, 32, 32, 128, 0, SCALES(F16), TABLE(NONE)},
                                           {4, 32, 32, 8, 0, SCALES(F16), TABLE(NONE)},
                                           {4, 32, 32, 0, 1, SCALES(F16), TABLE(NONE)},
                                           {5, 32, 32, 16, 0, SCALES(F16), TABLE(NONE)},
                                           {5, 32, 32, 0, 1, SCALES(F16), TABLE(NONE)},
                                           {4, 32, 32, 128, 0, SCALES(F16), TABLE(IQ4)},
                                           {4, 32, 32, 16, 0, SCALES(BF16), TABLE(MXFP4)},
                                           {2, 16, 256, 0, 1, SCALES(NIBBLES), TABLE(NONE)},
                                           {3, 16, 256, 4, 0, SCALES(BYTES), TABLE(NONE)},
                                           {4, 32, 256, 0, 1, SCALES(BYTES), TABLE(NONE)},
                                           {5, 32, 256, 0, 1, SCALES(BYTES), TABLE(NONE)},
                                           {6, 16, 256, 32, 0, SCALES(BYTES), TABLE(NONE)},
                                           {4, 32, 256, 128, 0, SCALES(BYTES), TABLE(IQ4)}};
enum { FORMATS = sizeof formats / sizeof *formats };

#endif
