/* The state of a training as bytes (doc/format.md, "Projector of a memo", kind 2). */
#include <math.h>
#include <string.h>

#include "base/checksum.h"
#include "base/fail.h"
#include "base/fields.h"
#include "memo/index/index_bytes.h"
#include "memo/train/trainer.h"

/* Behind the head: the training's options, then its progress. */
enum { STATE = 88, OPTIONS = 7 };
#define PART(at, member) PC__FIELD(pc__trainer, at, member)
static const pc__field state_fields[] = {
    PART(0, training.count), PART(8, training.batch), PART(16, training.epochs),
    PART(24, training.seed), PART(32, training.rate), PART(40, training.momentum),
    PART(48, inputs_sum),    PART(56, epoch),         PART(64, label_scale),
    PART(72, first_loss),    PART(80, last_loss)};
static const char *const option_names[OPTIONS] = {
    "number of items", "size of batches", "number of epochs", "seed", "rate", "momentum", "items"};

static uint64_t sum_of_inputs(const pc__trainer *trainer)
{
    const pc__training *t = &trainer->training;
    uint64_t sum = pc__checksum64(t->pooled,
                                  t->count * trainer->projector->cells * sizeof *t->pooled);
    return t->groups ? sum ^ pc__checksum64_seeded(t->groups, t->count * sizeof *t->groups, 1)
                     : sum;
}

pc_status pc__checkpoint_write(pc__trainer *trainer, pc__bytes *out)
{
    const pc__projector *p = trainer->projector;
    uint8_t state[STATE] = {0};
    out->size = 0;
    if (!trainer->inputs_sum)
        trainer->inputs_sum = sum_of_inputs(trainer);
    pc__fields_put(state, trainer, PC__FIELDS(state_fields));
    PC__TRY_RETURN(pc__projector_file_head(out, &p->shape, PC__FILE_TRAINING,
                                           pc__projector_file_size(&p->shape, STATE, 2)));
    PC__TRY_RETURN(pc__bytes_add(out, state, sizeof state));
    PC__TRY_RETURN(pc__index_put_words(out, p->mean, 2 * p->cells)); /* and scale */
    PC__TRY_RETURN(pc__index_put_words(out, trainer->weights, p->weights));
    PC__TRY_RETURN(pc__index_put_words(out, trainer->velocity, p->weights));
    return pc__projector_file_end(out);
}

static pc_status check_state(const pc__trainer *trainer, const pc__projector_shape *shape,
                             const uint8_t *state)
{
    uint8_t ours[STATE] = {0};
    pc__trainer there;
    if (memcmp(shape, &trainer->projector->shape, sizeof *shape))
        return pc__fail(PC_ERR_MISMATCH, "it is of a projector of another shape");
    pc__fields_put(ours, trainer, PC__FIELDS(state_fields));
    for (size_t i = 0; i < OPTIONS; i++)
        if (memcmp(ours + state_fields[i].at, state + state_fields[i].at, 8))
            return pc__fail(PC_ERR_MISMATCH, "it is of another training (%s)", option_names[i]);
    pc__fields_get(&there, state, PC__FIELDS(state_fields));
    if (!there.epoch || there.epoch > trainer->training.epochs)
        return pc__fail(PC_ERR_FORMAT, "%zu epochs of %zu are done", there.epoch,
                        trainer->training.epochs);
    if (!(there.label_scale > 0) || !isfinite(there.label_scale)
        || (double)(float)there.label_scale != there.label_scale || !(there.first_loss >= 0)
        || !isfinite(there.first_loss) || !(there.last_loss >= 0) || !isfinite(there.last_loss))
        return pc__fail(PC_ERR_FORMAT, "unit %g, losses %g and %g", there.label_scale,
                        there.first_loss, there.last_loss);
    return PC_OK;
}

pc_status pc__checkpoint_read(pc__trainer *trainer, const void *data, size_t size)
{
    pc__projector *p = trainer->projector;
    const uint8_t *state = (const uint8_t *)data + PC__PROJECTOR_HEAD;
    pc__projector_shape shape;
    size_t at = PC__PROJECTOR_HEAD + STATE;
    pc_status status;
    trainer->inputs_sum = sum_of_inputs(trainer);
    PC__TRY(pc__projector_file_check(data, size, PC__FILE_TRAINING, STATE, 2, &shape), fail);
    PC__TRY(check_state(trainer, &shape, state), fail);
    PC__TRY(pc__projector_file_read_floats(data, &at, p->mean, p->cells, "mean", 0), fail);
    PC__TRY(pc__projector_file_read_floats(data, &at, p->scale, p->cells, "scale", 1), fail);
    PC__TRY(pc__projector_file_read_floats(data, &at, trainer->weights, p->weights, "weight", 0),
            fail);
    PC__TRY(pc__projector_file_read_floats(data, &at, trainer->velocity, p->weights, "velocity", 0),
            fail);
    pc__fields_get(trainer, state, PC__FIELDS(state_fields));
    return PC_OK;
fail:
    return pc__fail_in(status, "going on with a training");
}
