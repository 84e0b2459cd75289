/* The feature projector (AttnCache section 3.1): turns the input of a prompt's first layer into 128
 * numbers, whose Euclidean distance predicts how far apart the attention maps of two prompts are.
 * Pool, norm, two linear layers with max(0, x) between them. One projector per length bucket.
 *
 * Pool: maxima. Tokens are divided into `rows` bands of equal length. Bands overlap by a token
 * where tokens / rows is not an integer, and repeat tokens where there are fewer tokens than rows;
 * so any length gives as many cells. Hidden dimensions c, c + columns, c + 2 columns … are pooled
 * into column c; their order has no meaning. That takes one pass over the input.
 *
 * Norm: mean and deviation of each cell in the training set (0 and 1 before training). Layer norm
 * would hide inputs of unusual magnitude. Batch norm would make a feature depend on its neighbours.
 *
 * The same input gives the same bits on every machine and CPU level, in any batch.
 *
 * Threads: immutable after making or training; any number of threads may pool and project. */
#ifndef PC_MEMO_PROJECTOR_H
#define PC_MEMO_PROJECTOR_H

#include "base/context.h"
#include "memo/index/index.h"

enum { PC__MOST_CELLS = 1 << 16, PC__MOST_INNER = 1024 };

typedef struct pc__projector_shape {
    size_t hidden;                 /* of the model */
    size_t min_tokens, max_tokens; /* of the bucket */
    /* Tokens and hidden dimensions after pooling; 0: default. columns <= hidden; rows * columns <=
     * PC__MOST_CELLS. */
    size_t rows, columns;
    /* Size between the two layers: a multiple of 16, at most PC__MOST_INNER; 0: 128. */
    size_t inner;
} pc__projector_shape;

typedef struct pc__projector pc__projector;
/* With random weights. PC_ERR_INVALID: the shape is not valid. */
pc_status pc__projector_new(pc__projector **out, const pc_allocator *mem,
                            const pc__projector_shape *shape, uint64_t seed);
void pc__projector_free(pc__projector *projector);
const pc__projector_shape *pc__projector_shape_of(
    const pc__projector *projector);                         /* defaults filled in */
size_t pc__projector_pooled(const pc__projector *projector); /* rows * columns */

/* x [tokens][hidden] to pooled [rows * columns]. PC_ERR_INVALID: tokens outside the bucket, or a
 * cell is not finite. */
pc_status pc__projector_pool(const pc__projector *projector, const float *x, size_t tokens,
                             float *pooled);
/* pooled [count][rows * columns] to features [count][PC__FEATURE_DIM]. */
void pc__projector_features(const pc__projector *projector, const float *pooled, size_t count,
                            float *features);

/* Sets mean and deviation of each cell from these inputs; training does it first. PC_ERR_INVALID: a
 * number is not finite. */
pc_status pc__projector_norm(pc__projector *projector, const float *pooled, size_t count);

/* A projector as the bytes of its file (doc/format.md, "Projector of a memo"). PC_ERR_FORMAT: the
 * text begins with `where`. */
pc_status pc__projector_write(const pc__projector *projector, pc__bytes *out);
pc_status pc__projector_read(pc__projector **out, const pc_allocator *mem, const void *data,
                             size_t size, const char *where);

/* --- training: for pairs (i, j) of a batch, smooth L1 between the distance of their features and
 * label(i, j) (paper, equations 1 to 3); SGD with momentum.
 *
 * Labels are divided by their mean, which up to 512 pairs give before the first epoch. So the knee
 * of equation 3 (1 in the paper) lies at the mean label, and a rate means the same for any alpha.
 * The rate falls linearly from epoch to epoch, to rate / epochs in the last. Training gives the
 * same bits on every machine with any number of threads. */
typedef struct pc__training {
    const float *pooled; /* [count][pooled] */
    size_t count;
    /* [count], or NULL. Only items of one group are paired. A memo's groups are numbers of tokens,
     * because only maps of the same length replace each other. */
    const uint32_t *groups;
    /* pc__map_label: alpha * map distance + length term; >= 0. Called from several threads. */
    float (*label)(void *user, size_t i, size_t j);
    void *label_user;
    /* 0 epochs: as many as make 4000 batches, from 10 to 100. 0 batch: 16 (at most 1024). Labels
     * cost most, an item has batch - 1 of them in an epoch, and small batches learn as much from
     * far fewer labels. */
    size_t epochs, batch;
    double rate, momentum; /* 0: 0.03, 0.9. momentum < 0: none */
    uint64_t seed;
    /* Reports batches done of all epochs, with loss and time left. PC_ERR_CANCELLED: the projector
     * is as the last finished epoch left it. */
    pc_progress_fn progress;
    void *progress_user;
    /* Called after each epoch with the state from which training can go on; or NULL. An error ends
     * the training. */
    pc_status (*checkpoint)(void *user, size_t epoch, const void *data, size_t size);
    void *checkpoint_user;
    /* Such a state, or NULL. Resumed training gives the same bits as one that was never stopped.
     * PC_ERR_MISMATCH: the state of another training. */
    const void *resume;
    size_t resume_size;
} pc__training;
typedef struct pc__training_result {
    size_t epochs;
    double label_scale; /* the mean label */
    double first_loss,
        last_loss; /* means of the first and the last finished epoch, divided by label_scale */
} pc__training_result;
/* PC_ERR_INVALID: an option; a number that is not finite; a negative label; the loss diverged (rate
 * too high), and the projector is as the last finished epoch left it. result: may be NULL. */
pc_status pc__projector_train(pc__projector *projector, pc_context *context,
                              const pc__training *training, pc__training_result *result);

#endif
