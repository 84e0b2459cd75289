/* The feature projector (AttnCache section 3.1): the input of the first layer of a whole prompt ->
 * 128 numbers whose Euclidean distance foretells how far apart the attention maps of two prompts
 * are. Pool, norm, two linear layers with a nonlinearity between them. One a length bucket.
 *
 * Pool: largest values. Tokens are cut into `rows` bands of equal length (they overlap by a token
 * where tokens / rows is no whole number, and repeat tokens where there are fewer than rows), so
 * that any length gives as many cells; of the hidden dimensions c, c + columns, c + 2 columns …
 * become one, because their order means nothing. Costs one pass over the input. Norm: by the mean
 * and deviation that each cell had in the training set (1 and 0 until then). Not layer norm, which
 * would hide an input whose magnitudes are unlike all that were seen, and not the norm of a batch,
 * by which a feature would depend on its neighbours. Nonlinearity: max(0, x), which every machine
 * computes alike.
 *
 * The same input gives the same bits on every machine and CPU level, however many are computed
 * together.
 *
 * Threads: immutable once made or trained; `pool` and `run` may be called by any number of threads.
 */
#ifndef PC_MEMO_PROJECTOR_H
#define PC_MEMO_PROJECTOR_H

#include "base/context.h"
#include "memo/index/index.h"

enum { PC__MOST_CELLS = 1 << 16, PC__MOST_INNER = 1024 };

typedef struct pc__projector_shape {
    size_t hidden;                    /* of the model */
    size_t least_tokens, most_tokens; /* the bucket */
    size_t rows, columns; /* what is left of tokens and hidden after pooling; 0: default. columns <=
                             hidden, at most PC__MOST_CELLS together */
    size_t inner; /* between the two layers; a multiple of 16, at most PC__MOST_INNER; 0: 128 */
} pc__projector_shape;

typedef struct pc__projector pc__projector;
/* With random weights. PC_ERR_INVALID: a shape that cannot be. */
pc_status pc__projector_new(pc__projector **out, const pc_allocator *mem,
                            const pc__projector_shape *shape, uint64_t seed);
void pc__projector_free(pc__projector *projector);
const pc__projector_shape *pc__projector_shape_of(
    const pc__projector *projector);                         /* defaults filled in */
size_t pc__projector_pooled(const pc__projector *projector); /* rows * columns */

/* x [tokens][hidden] -> pooled [rows * columns]. PC_ERR_INVALID: tokens outside the bucket, or a
 * cell that is no finite number. */
pc_status pc__projector_pool(const pc__projector *projector, const float *x, size_t tokens,
                             float *pooled);
/* pooled [count][rows * columns] -> features [count][PC__FEATURE_DIM]. PC_OK always. */
pc_status pc__projector_features(const pc__projector *projector, const float *pooled, size_t count,
                                 float *features);

/* Takes mean and deviation of each cell from these, as training does first. PC_ERR_INVALID: a
 * number that is not finite. */
pc_status pc__projector_norm(pc__projector *projector, const float *pooled, size_t count);

/* Bytes of a file of its own (doc/format.md, "Projector of a memo"). PC_ERR_FORMAT names what is
 * wrong; `where` begins the error text. */
pc_status pc__projector_write(const pc__projector *projector, pc__bytes *out);
pc_status pc__projector_read(pc__projector **out, const pc_allocator *mem, const void *data,
                             size_t size, const char *where);

/* --- training: pairs (i, j) of a batch, Smooth-L1 between the distance of their features and
 * label(i, j) (paper, equations 1 to 3), SGD with momentum.
 *
 * Inside, labels are counted in units of their mean, found from up to 512 pairs before the first
 * epoch; so the knee of equation 3 (1 in the paper) lies at the mean label, and rates mean the same
 * whatever alpha is. The rate falls in equal steps from epoch to epoch, to rate / epochs in the
 * last. A training gives the same bits on every machine with any number of threads. */
typedef struct pc__training {
    const float *pooled; /* [count][pooled] */
    size_t count;
    const uint32_t *groups; /* [count], or NULL. Pairs are of one group only. A memo gives the
                               tokens of each item: only maps of one length replace each other */
    float (*label)(void *user, size_t i,
                   size_t j); /* alpha * map distance + length term (map_label.h); >= 0; called from
                                 several threads */
    void *label_user;
    /* 0: epochs as many as make 4000 batches, 10 … 100; batch 16 (at most 1024): labels are what
     * costs, of which each item has batch - 1 an epoch, and small batches learn as much from far
     * fewer of them. */
    size_t epochs, batch;
    double rate, momentum; /* 0: 0.03, 0.9; for no momentum at all say a negative one */
    uint64_t seed;
    pc_progress_fn progress; /* of batches of all epochs, with loss and time left. PC_ERR_CANCELLED
                                leaves the projector as the last finished epoch left it */
    void *progress_user;
    /* Called after each epoch with all that is needed to go on from there; NULL: not. An error ends
     * the training. */
    pc_status (*checkpoint)(void *user, size_t epoch, const void *data, size_t size);
    void *checkpoint_user;
    const void *resume; /* such data; NULL: from the start. Going on gives the same bits as never
                           having stopped. PC_ERR_MISMATCH: of another training */
    size_t resume_size;
} pc__training;
typedef struct pc__training_result {
    size_t epochs;
    double label_scale; /* the mean label */
    double first_loss,
        last_loss; /* mean of the first and of the last finished epoch, in that unit */
} pc__training_result;
/* PC_ERR_INVALID: options; numbers that are not finite, a negative label; a loss that is no number
 * any more (rate too high): the projector is then as the last finished epoch left it. result: may
 * be NULL. */
pc_status pc__projector_train(pc__projector *projector, pc_context *context,
                              const pc__training *training, pc__training_result *result);

#endif
