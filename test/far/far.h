/* A backend for tests whose memory the library cannot see, and whose streams run late. It shows
 * that nothing above the backend looks at activations or K/V, waits too little or releases memory
 * too early. It computes with the CPU's operations.
 *
 * Memory: a file of memory that is mapped twice. The library gets addresses of a mapping that
 * nobody may touch; operations use the other one. Memory that is given back is filled with NaN.
 * PC_TEST_FAR_MEMORY: bytes that there are.
 * Streams: operations are queued, and a thread of the stream runs them after random pauses. */
#ifndef PC_FAR_H
#define PC_FAR_H

#include "attn/backend.h"

typedef struct far_part { /* a part of the memory, in order of addresses */
    size_t at, bytes;
    int used;
    struct far_part *next;
} far_part;

typedef struct far_memory {
    int file;
    uint8_t *far, *near; /* [FAR_BYTES] the mappings */
    far_part *parts;
    size_t used, limit; /* bytes */
    pthread_mutex_t lock;
} far_memory;

typedef struct far_backend {
    pc__backend base;
    pc__backend *cpu;
    far_memory memory;
} far_backend;

/* far_memory.c */
pc_status far_memory_open(far_memory *memory);
void far_memory_close(far_memory *memory);
void *far_take(far_memory *memory, size_t bytes);
void far_give(far_memory *memory, void *at); /* at: not NULL */
/* The address that can be used: of far memory the other mapping, else the same. */
void *far_near(const far_memory *memory, const void *at);

/* far_stream.c: `run` gets a copy of the `bytes` bytes of `work`, later, on the stream's thread. */
typedef pc_status (*far_fn)(far_backend *far, void *work);
pc_status far_stream_new(pc__stream **out, pc__backend *backend);
void far_stream_free(pc__stream *stream);
pc_status far_finish(pc__stream *stream);
void far_later(pc__stream *stream, far_fn run, const void *work, size_t bytes);
/* A copy of a list for queued work, freed after it. */
void *far_list(pc__stream *stream, const void *list, size_t bytes);

/* far_attention.c */
void far_store_kv(pc__stream *stream, const pc__kv_rows *rows);
pc_status far_attend(pc__stream *stream, pc__row_plan *plan, const pc__attn_layer *layer,
                     const pc__floats *q, pc__floats *out, pc__floats *lse);
pc_status far_attention_map(pc__stream *stream, pc__row_plan *plan, const pc__attn_layer *layer,
                            const pc__floats *q, size_t row, const pc__floats *lse, float *prob);
pc_status far_apply_maps(pc__stream *stream, const pc__map_lane *lanes, size_t count, int32_t layer,
                         pc__floats *out);
pc_status far_record_maps(pc__stream *stream, const pc__attn_layer *layer, const pc__map_out *lanes,
                          size_t count, const pc__floats *q, const pc__floats *lse);

#endif
