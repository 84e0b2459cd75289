/* The state of a training as bytes (doc/format.md, "Projector of a memo", kind 2). */
#include <math.h>
#include <string.h>
#include <xxhash.h>

#include "base/little_endian.h"
#include "memo/index/index_bytes.h"
#include "memo/train/projector_file.h"
#include "memo/train/trainer.h"

/* Offsets behind the head: the training's options, then its progress. */
enum {
    ITEMS = 0,
    BATCH = 8,
    EPOCHS = 16,
    SEED = 24,
    RATE = 32,
    MOMENTUM = 40,
    INPUTS = 48,
    DONE = 56,
    UNIT = 64,
    FIRST_LOSS = 72,
    LAST_LOSS = 80,
    STATE = 88
};

static uint64_t sum_of_inputs(const pc__trainer *trainer)
{
    const pc__training *t = &trainer->training;
    XXH64_hash_t sum = XXH3_64bits(t->pooled,
                                   t->count * trainer->projector->cells * sizeof *t->pooled);
    return t->groups ? sum ^ XXH3_64bits_withSeed(t->groups, t->count * sizeof *t->groups, 1) : sum;
}

static void put_training_options(const pc__trainer *trainer, uint8_t state[STATE])
{
    const pc__training *t = &trainer->training;
    pc__put_u64(state + ITEMS, t->count);
    pc__put_u64(state + BATCH, t->batch);
    pc__put_u64(state + EPOCHS, t->epochs);
    pc__put_u64(state + SEED, t->seed);
    pc__put_f64(state + RATE, t->rate);
    pc__put_f64(state + MOMENTUM, t->momentum);
    pc__put_u64(state + INPUTS, trainer->inputs_sum);
}

pc_status pc__checkpoint_write(pc__trainer *trainer, pc__bytes *out)
{
    const pc__projector *p = trainer->projector;
    uint8_t state[STATE] = {0};
    out->size = 0;
    if (!trainer->inputs_sum)
        trainer->inputs_sum = sum_of_inputs(trainer);
    put_training_options(trainer, state);
    pc__put_u64(state + DONE, trainer->epoch);
    pc__put_f64(state + UNIT, trainer->label_scale);
    pc__put_f64(state + FIRST_LOSS, trainer->first_loss);
    pc__put_f64(state + LAST_LOSS, trainer->last_loss);
    PC__TRY_RETURN(pc__projector_file_head(out, &p->shape, PC__FILE_TRAINING,
                                           pc__projector_file_size(&p->shape, STATE, 2)));
    PC__TRY_RETURN(pc__bytes_add(out, state, sizeof state));
    PC__TRY_RETURN(pc__index_put_words(out, p->mean, 2 * p->cells)); /* and scale */
    PC__TRY_RETURN(pc__index_put_words(out, trainer->weights, p->weights));
    PC__TRY_RETURN(pc__index_put_words(out, trainer->velocity, p->weights));
    return pc__projector_file_end(out);
}

/* The name of an option that differs, or NULL. */
static const char *different_option(const pc__trainer *trainer, const uint8_t *state)
{
    static const struct {
        size_t at;
        const char *name;
    } fields[] = {{ITEMS, "number of items"},
                  {BATCH, "size of batches"},
                  {EPOCHS, "number of epochs"},
                  {SEED, "seed"},
                  {RATE, "rate"},
                  {MOMENTUM, "momentum"},
                  {INPUTS, "items"}};
    uint8_t ours[STATE] = {0};
    put_training_options(trainer, ours);
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
        if (memcmp(ours + fields[i].at, state + fields[i].at, 8))
            return fields[i].name;
    return NULL;
}

static pc_status check_state(const pc__trainer *trainer, const pc__projector_shape *shape,
                             const uint8_t *state)
{
    const pc__projector_shape *s = &trainer->projector->shape;
    const char *differs = different_option(trainer, state);
    uint64_t done = pc__get_u64(state + DONE);
    double label_scale = pc__get_f64(state + UNIT), first = pc__get_f64(state + FIRST_LOSS),
           last = pc__get_f64(state + LAST_LOSS);
    if (shape->hidden != s->hidden || shape->min_tokens != s->min_tokens
        || shape->max_tokens != s->max_tokens || shape->rows != s->rows
        || shape->columns != s->columns || shape->inner != s->inner)
        return pc__fail(PC_ERR_MISMATCH, "it is of a projector of another shape");
    if (differs)
        return pc__fail(PC_ERR_MISMATCH, "it is of another training (%s)", differs);
    if (!done || done > trainer->training.epochs)
        return pc__fail(PC_ERR_FORMAT, "%llu epochs of %zu are done", (unsigned long long)done,
                        trainer->training.epochs);
    if (!(label_scale > 0) || !isfinite(label_scale) || (double)(float)label_scale != label_scale
        || !(first >= 0) || !isfinite(first) || !(last >= 0) || !isfinite(last))
        return pc__fail(PC_ERR_FORMAT, "unit %g, losses %g and %g", label_scale, first, last);
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
    trainer->epoch = (size_t)pc__get_u64(state + DONE);
    trainer->label_scale = pc__get_f64(state + UNIT);
    trainer->first_loss = pc__get_f64(state + FIRST_LOSS);
    trainer->last_loss = pc__get_f64(state + LAST_LOSS);
    return PC_OK;
fail:
    return pc__fail_in(status, "going on with a training");
}
