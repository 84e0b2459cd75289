/* What a training holds between batches; trainer.c runs it, trainer_order.c and
 * trainer_checkpoint.c are parts of it. */
#ifndef PC_MEMO_TRAINER_H
#define PC_MEMO_TRAINER_H

#include "memo/train/gradient.h"

typedef struct pc__batch_range {
    size_t first, count; /* of `order` */
} pc__batch_range;

/* The items of an epoch in batches, by (seed, epoch) alone. */
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
/* Every item is in at most one batch; a batch is of one group; a single item that is left over from
 * its group is in none. */
void pc__training_order_make(pc__training_order *order, uint64_t seed, size_t epoch);

typedef struct pc__trainer {
    pc__projector *projector; /* what the last finished epoch left */
    pc_context *context;
    pc__training training; /* defaults filled in */
    pc__training_order order;
    pc__gradient *gradient;
    float *weights, *velocity; /* [weights of the projector]; the second layer in units of `unit` */
    double label_scale;
    size_t epoch; /* finished */
    double first_loss, last_loss;
    size_t steps; /* of this run, for the time left */
    double started, reported;
    float *norm_before;  /* mean and scale of the projector before this run, to be put back */
    int published;       /* an epoch of this run, or the checkpoint, is in the projector */
    uint64_t inputs_sum; /* XXH3 of pooled inputs and groups; 0: not made yet */
} pc__trainer;

/* Weights, velocities, norm and all that decides what comes next. */
pc_status pc__checkpoint_write(pc__trainer *trainer, pc__bytes *out);
/* Into a fresh trainer and its projector's norm. PC_ERR_FORMAT, PC_ERR_MISMATCH: another
 * training's. */
pc_status pc__checkpoint_read(pc__trainer *trainer, const void *data, size_t size);

#endif
