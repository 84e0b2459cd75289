/* Several arrays for kernels in one part of device memory. They are laid out first, then filled in
 * host memory, then uploaded together. */
#ifndef PC_CUDA_DEVICE_TABLES_H
#define PC_CUDA_DEVICE_TABLES_H

#include "cuda/device_stream.h"

typedef struct pc__cuda_tables {
    size_t bytes;    /* laid out so far */
    uint8_t *host;   /* zeroed; NULL: not begun */
    uint8_t *device; /* what kernels get */
} pc__cuda_tables;

/* Adds an array, aligned to PC__CUDA_ALIGNMENT; returns where it begins. */
size_t pc__cuda_tables_add(pc__cuda_tables *tables, size_t count, size_t element);
/* Takes host memory for all arrays; `device` has room for them. */
pc_status pc__cuda_tables_begin(pc__cuda_tables *tables, const pc_allocator *mem, void *device);
/* Uploads the arrays, unless they were not begun, and frees the host memory. */
void pc__cuda_tables_end(pc__cuda_tables *tables, pc__cuda_stream *stream);

static inline void *pc__cuda_tables_host(const pc__cuda_tables *tables, size_t at)
{
    return tables->host + at;
}

static inline void *pc__cuda_tables_device(const pc__cuda_tables *tables, size_t at)
{
    return tables->device + at;
}

#endif
