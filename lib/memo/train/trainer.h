/* The state of a training; trainer.c trains, trainer_order.c makes batches, trainer_checkpoint.c
 * stores the state. */
#ifndef PC_MEMO_TRAINER_H
#define PC_MEMO_TRAINER_H

#include "memo/train/gradient.h"

typedef struct pc__batch_range {
    size_t first, count; /* in `order` */
} pc__batch_range;

/* The batches of an epoch, which depend on (seed, epoch) alone. */
typedef struct pc__training_order {
    pc_allocator mem;
    const uint32_t *groups;
    size_t items, batch;
    size_t *order; /* [items] */
    struct pc__grouped {
        uint32_t group;
        size_t place, item;
    } * grouped; /* [items]; NULL without groups */
    pc__batch_range *batch_ranges;
    size_t batches;
} pc__training_order;
pc_status pc__training_order_new(pc__training_order *out, const pc_allocator *mem, size_t items,
                                 const uint32_t *groups, size_t batch);
void pc__training_order_free(pc__training_order *order);
/* An item is in at most one batch, a batch is of one group. A last single item of a group is in no
 * batch. */
void pc__training_order_make(pc__training_order *order, uint64_t seed, size_t epoch);

typedef struct pc__trainer {
    pc__projector *projector; /* as the last finished epoch left it */
    pc_context *context;
    pc__training training; /* defaults filled in */
    pc__training_order order;
    pc__gradient *gradient;
    float *weights,
        *velocity; /* [weights of the projector]; the second layer divided by label_scale */
    double label_scale;
    size_t epoch; /* finished */
    double first_loss, last_loss;
    size_t steps; /* since the start, for the time left */
    double started, reported;
    float *norm_before;  /* mean and scale before training, to restore them */
    int published;       /* the projector has the weights of an epoch or checkpoint */
    uint64_t inputs_sum; /* XXH3 of pooled inputs and groups; 0: not computed yet */
} pc__trainer;

/* Weights, velocities, norm and everything else that decides what comes next. */
pc_status pc__checkpoint_write(pc__trainer *trainer, pc__bytes *out);
/* Restores a fresh trainer and its projector's norm. PC_ERR_FORMAT; PC_ERR_MISMATCH: the state of
 * another training. */
pc_status pc__checkpoint_read(pc__trainer *trainer, const void *data, size_t size);

#endif
