/* The feature projector (AttnCache section 3.1): the input of the first layer of a whole prompt -> 128 numbers whose Euclidean distance foretells
 * how far apart the attention maps of two prompts are. Pool, norm, two linear layers with a nonlinearity between them. One a length bucket.
 *
 * Threads: immutable once made or trained; `run` may be called by any number of threads. */
#ifndef PC_MEMO_PROJECTOR_H
#define PC_MEMO_PROJECTOR_H

#include "memo/index.h"

typedef struct pc__projector_shape {
    size_t hidden;                 /* of the model */
    size_t least_tokens, most_tokens; /* the bucket */
    size_t rows, columns;          /* what is left of tokens and hidden after pooling; 0: default */
    size_t inner;                  /* between the two layers; 0: default */
} pc__projector_shape;

typedef struct pc__projector pc__projector;
/* With random weights. PC_ERR_INVALID: a shape that cannot be. */
pc_status pc__projector_new(pc__projector **out, const pc_allocator *mem, const pc__projector_shape *shape, uint64_t seed);
void pc__projector_free(pc__projector *projector);
const pc__projector_shape *pc__projector_shape_of(const pc__projector *projector); /* defaults filled in */
size_t pc__projector_pooled(const pc__projector *projector); /* rows * columns */

/* x [tokens][hidden] -> pooled [rows * columns]. PC_ERR_INVALID: tokens outside the bucket. */
pc_status pc__projector_pool(const pc__projector *projector, const float *x, size_t tokens, float *pooled);
/* pooled [count][rows * columns] -> features [count][PC__FEATURE_DIM]. */
pc_status pc__projector_run(const pc__projector *projector, const float *pooled, size_t count, float *features);

/* Bytes of a file of its own: magic, version, shape, weights, checksum. PC_ERR_FORMAT names what is wrong. */
pc_status pc__projector_write(const pc__projector *projector, pc__bytes *out);
pc_status pc__projector_read(pc__projector **out, const pc_allocator *mem, const void *data, size_t size, const char *where);

/* --- training: pairs (i, j) of a batch, Smooth-L1 between the distance of their features and label(i, j) (paper, equations 1 to 3), SGD with momentum. */
typedef struct pc__training {
    const float *pooled;   /* [count][pooled] */
    size_t count;
    float (*label)(void *user, size_t i, size_t j); /* alpha * map distance + length term; called from several threads */
    void *label_user;
    size_t epochs, batch;  /* 0: defaults */
    double rate, momentum; /* 0: defaults */
    uint64_t seed;
    pc_progress_fn progress; /* PC_ERR_CANCELLED leaves the projector as the last finished epoch left it */
    void *progress_user;
    /* Called after each epoch with all that is needed to go on from there; NULL: not. An error ends the training. */
    pc_status (*checkpoint)(void *user, size_t epoch, const void *data, size_t size);
    void *checkpoint_user;
    const void *resume; /* such data; NULL: from the start. Going on gives the same bits as never having stopped */
    size_t resume_size;
} pc__training;
typedef struct pc__training_result {
    size_t epochs;
    double first_loss, last_loss; /* mean of the first and of the last epoch */
} pc__training_result;
pc_status pc__projector_train(pc__projector *projector, pc_context *context, const pc__training *training, pc__training_result *result);

#endif
