// The parameter of the kernels in wrappers.cu: operands at places that a reader of the PTX knows.
#ifndef PC_TEST_WRAPPERS_H
#define PC_TEST_WRAPPERS_H

#include <stdint.h>

struct operands {
    float f[4];
    int32_t i[4];
    uint32_t a[4];
    uint32_t b[4];
    const void *from;
    void *to;
    void *out; // [4] words
};

#endif
