/* The inside of the model of own_model.c: copy_model.c computes, copy_sequence.c holds. */
#ifndef COPY_MODEL_H
#define COPY_MODEL_H

#include <promptcache.h>
#include <promptcache/extend.h>

enum { COPY_VOCAB = 256, COPY_CONTEXT = 1024, COPY_RUNS = 64 };

/* A token's "K and V": the eight bytes before it, and itself. */
typedef struct state {
    int64_t at; /* in a segment: from its start; in a sequence: the position */
    uint64_t before;
    int32_t token;
} state;

typedef struct segment {
    size_t owners;
    state states[COPY_CONTEXT];
} segment;

/* runs[0] is what was appended to the sequence itself, the others are attached segments. */
typedef struct sequence {
    pc_span runs[COPY_RUNS];
    size_t count;
    segment own;
} sequence;

/* Each is one of pc_model_ops. */
pc_status copy_tokenize(void *user, const char *text, size_t size, uint64_t flags, int32_t *tokens,
                        size_t capacity, size_t *count);
pc_status copy_detokenize(void *user, const int32_t *tokens, size_t count, uint64_t flags,
                          char *text, size_t capacity, size_t *size);
pc_status copy_encode(void *user, const pc_encode_args *args, void **segments);
pc_status copy_step(void *user, const pc_step_args *args);
void copy_release(void *user, void *segment);
pc_status copy_sequence_new(void *user, const pc_sequence_args *args, void **sequence);
pc_status copy_attach(void *user, void *sequence, const pc_span *placement);
void copy_drop(void *user, void *sequence);

#endif
