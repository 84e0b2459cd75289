// Tasks of model_wrappers.cu: what each wrapper gives and gets.
#ifndef PC_TEST_MODEL_WRAPPERS_H
#define PC_TEST_MODEL_WRAPPERS_H

#include <stdint.h>

enum { WRAPPERS_THREADS = 64 };

// Numbers: thread i has two of fp32 and two words.
enum number_result {
    F16_OF,
    FLOAT_OF_F16,
    BF16_OF,
    FLOAT_OF_BF16,
    PACKED_F16,
    PACKED_BF16,
    UNPACKED_BF16,
    PRODUCT_F16 = UNPACKED_BF16 + 2,
    UNPACKED_I8,
    EXP2 = UNPACKED_I8 + 2,
    SUM_OVER_4,
    MAX_OVER_32,
    NUMBER_RESULTS
};
struct numbers_task {
    const float *x;    // [thread][2]
    const uint32_t *a; // [thread][2]
    uint32_t *result;  // [thread][NUMBER_RESULTS]
};

// Moves: each way copies 16 bytes a thread; MOVE_PART fewer, and zeros.
enum move {
    MOVE_4,
    MOVE_8,
    MOVE_16,
    MOVE_16_ONCE,
    MOVE_ASYNC_4,
    MOVE_ASYNC_8,
    MOVE_ASYNC_16,
    MOVE_PART,
    MOVES
};
struct moves_task {
    const uint32_t *from; // [thread][4]
    uint32_t *to;         // [MOVES][thread][4]
};

// Atomics: one word each, of two blocks; what each thread had before.
enum atomic { ADD_RELAXED, ADD_RELEASE, ADD_ACQ_REL, ATOMICS };
struct atomics_task {
    uint32_t *word;   // [ATOMICS]
    uint32_t *before; // [ATOMICS][2 * thread]
    uint32_t *data;   // [thread] that block 0 writes and block 1 reads
    uint32_t *flag;   // [2] relaxed, release
    uint32_t *seen;   // [thread] of block 1
};

#endif
