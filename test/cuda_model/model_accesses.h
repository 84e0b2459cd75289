// The task of model_accesses.cu.
#ifndef PC_TEST_MODEL_ACCESSES_H
#define PC_TEST_MODEL_ACCESSES_H

#include <stdint.h>

enum access_fault {
    ALL_RIGHT,
    ROW_TOO_MANY,
    SHARED_TOO_FAR,
    HOST_MEMORY,
    INPUT_WRITTEN,
    OUTPUT_READ,
    SHARED_UNWRITTEN,
    THREE_OF_FOUR, // bytes are written, and all are read
    STRUCT_READ,   // all of a struct is read, nobody wrote some of it
    LIBRARY_READ,  // the same by memcpy
    LIBRARY_WRITE, // memset over the end
    ODD_LOAD,
    ODD_WORD,
    ODD_COPY,
    READ_IN_FLIGHT,
    WRITTEN_IN_FLIGHT,
    NEVER_WAITED
};

struct access_task {
    const float *in; // [blocks][threads]
    float *out;      // [rows][threads], a block a row
    uint16_t *halves;
    uint8_t *bytes;
    const float *host;
    uint32_t rows;
    uint32_t fault;
};

#endif
