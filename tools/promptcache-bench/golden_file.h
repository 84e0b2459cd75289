/* Reads golden vectors: safetensors with F32 and I32 tensors, and golden.json beside the file. */
#ifndef GOLDEN_FILE_H
#define GOLDEN_FILE_H

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

typedef struct golden_tensor {
    const char *name; /* of the header; borrowed */
    int integers;     /* 1: I32; 0: F32 */
    size_t count, rank;
    int64_t shape[8];
    const void *data;
    int used;
} golden_tensor;

typedef struct golden_file {
    char *data;
    json_t *header;
    golden_tensor *tensors;
    size_t count;
    json_t *about; /* golden.json, or NULL */
} golden_file;

int golden_open(golden_file *file, const char *path); /* 0, or an exit code after a message */
void golden_close(golden_file *file);
golden_tensor *golden_find(golden_file *file, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* rope_len of a case; 0: not given */
uint64_t golden_rope_length(const golden_file *file, const char *name);

#endif
