/* Trains a projector: batches of pairs, their labels in parallel, gradient steps, a checkpoint
 * after each epoch. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/fail.h"
#include "base/threads.h"
#include "base/splitmix.h"
#include "memo/train/trainer.h"

enum {
    DIM = PC__FEATURE_DIM,
    SCALE_PAIRS = 512,
    MOST_BATCH = 1024,
    DEFAULT_BATCH = 16,
    LEAST_EPOCHS = 10,
    MOST_EPOCHS = 100,
    ENOUGH_BATCHES = 4000
};
static const double DEFAULT_RATE = 0.03, DEFAULT_MOMENTUM = 0.9, REPORT_SECONDS = 0.1;
/* A longer gradient is shortened, so that one unusual batch does not ruin the weights. */
static const double MOST_LENGTH = 1;
/* Equal features have a loss of at most 1, the mean label. A training with a higher loss has
 * diverged. */
static const double MOST_LOSS = 2;

static pc_status check_training(const pc__training *t)
{
    if (t->count < 2 || !t->pooled || !t->label)
        return pc__fail(PC_ERR_INVALID, "training: %zu items%s; it needs two or more, and labels",
                        t->count, t->label ? "" : " without labels");
    if (t->batch < 2 || t->batch > MOST_BATCH)
        return pc__fail(PC_ERR_INVALID, "training: batches of %zu items (2 to %d)", t->batch,
                        MOST_BATCH);
    if (!(t->rate > 0) || !isfinite(t->rate))
        return pc__fail(PC_ERR_INVALID, "training: rate %g", t->rate);
    if (!(t->momentum < 1))
        return pc__fail(PC_ERR_INVALID, "training: momentum %g (below 1)", t->momentum);
    return PC_OK;
}

static size_t default_epochs(const pc__training *t)
{
    size_t batches = t->count / t->batch + 1, epochs = (ENOUGH_BATCHES + batches - 1) / batches;
    if (epochs < LEAST_EPOCHS)
        return LEAST_EPOCHS;
    return epochs < MOST_EPOCHS ? epochs : MOST_EPOCHS;
}

static pc_status fill_training(pc__trainer *trainer, const pc__training *training)
{
    pc__training *t = &trainer->training;
    *t = *training;
    if (!t->batch)
        t->batch = DEFAULT_BATCH;
    if (!t->epochs)
        t->epochs = default_epochs(t);
    if (t->rate == 0)
        t->rate = DEFAULT_RATE;
    t->momentum = t->momentum == 0 ? DEFAULT_MOMENTUM : t->momentum < 0 ? 0 : t->momentum;
    if (t->batch > t->count && t->count > 1)
        t->batch = t->count;
    return check_training(t);
}

static pc_status bad_label(size_t i, size_t j, float label)
{
    return pc__fail(PC_ERR_INVALID, "training: the label of items %zu and %zu is %g", i, j,
                    (double)label);
}

static int is_valid_label(float label)
{
    return label >= 0 && isfinite(label);
}

/* --- labels of one batch, above the diagonal */
typedef struct label_job {
    const pc__training *training;
    const size_t *items;
    size_t n;
    float *labels;
} label_job;

static void label_row(void *arg, size_t i)
{
    const label_job *l = arg;
    for (size_t j = i + 1; j < l->n; j++)
        l->labels[i * l->n + j] = l->training->label(l->training->label_user, l->items[i],
                                                     l->items[j]);
}

static pc_status label_batch(const pc__trainer *trainer, const size_t *items, size_t n)
{
    label_job l = {&trainer->training, items, n, trainer->gradient->labels};
    float label_scale = (float)trainer->label_scale;
    pc__parallel(trainer->context, n - 1, label_row, &l);
    for (size_t i = 0; i < n; i++)
        for (size_t j = i + 1; j < n; j++) {
            float label = l.labels[i * n + j];
            if (!is_valid_label(label))
                return bad_label(items[i], items[j], label);
            l.labels[i * n + j] = l.labels[j * n + i] = label / label_scale;
        }
    return PC_OK;
}

/* --- the scale of labels, from up to SCALE_PAIRS pairs of the first epoch */
typedef struct scale_pairs {
    const pc__trainer *trainer;
    size_t count;
    struct {
        size_t i, j;
        float label;
        double distance;
    } pair[SCALE_PAIRS];
} scale_pairs;

static void find_pairs(scale_pairs *u)
{
    const pc__training_order *o = &u->trainer->order;
    for (size_t round = 0, before = (size_t)-1; u->count != before; round++) {
        before = u->count;
        for (size_t b = 0; b < o->batches && u->count < SCALE_PAIRS; b++)
            if (2 * round + 1 < o->batch_ranges[b].count) {
                const size_t *item = o->order + o->batch_ranges[b].first + 2 * round;
                u->pair[u->count].i = item[0];
                u->pair[u->count++].j = item[1];
            }
    }
}

static void measure_pair(void *arg, size_t at)
{
    scale_pairs *u = arg;
    const pc__training *t = &u->trainer->training;
    const pc__projector *p = u->trainer->projector;
    size_t i = u->pair[at].i, j = u->pair[at].j;
    float features[2 * DIM];
    u->pair[at].label = t->label(t->label_user, i, j);
    pc__projector_features(p, t->pooled + i * p->cells, 1, features);
    pc__projector_features(p, t->pooled + j * p->cells, 1, features + DIM);
    u->pair[at].distance = sqrt(
        (double)pc__vector_ops_get()->square_distance(features, features + DIM, DIM));
}

/* Finds the mean label, and scales the first weights so that distances are on average as large as
 * labels. */
static pc_status find_label_scale(pc__trainer *trainer)
{
    pc__projector *p = trainer->projector;
    scale_pairs *u = pc__calloc(&p->mem, 1, sizeof *u);
    double labels = 0, distances = 0;
    pc_status status = PC_OK;
    if (!u)
        return PC_ERR_NOMEM;
    u->trainer = trainer;
    find_pairs(u);
    pc__parallel(trainer->context, u->count, measure_pair, u);
    for (size_t i = 0; i < u->count && status == PC_OK; i++) {
        if (!is_valid_label(u->pair[i].label))
            status = bad_label(u->pair[i].i, u->pair[i].j, u->pair[i].label);
        labels += (double)u->pair[i].label;
        distances += u->pair[i].distance;
    }
    trainer->label_scale = labels > 0 ? (double)(float)(labels / (double)u->count) : 1;
    float scale = distances > 0 && isfinite(distances) ? (float)((double)u->count / distances) : 1;
    memcpy(trainer->weights, p->first, p->weights * sizeof *p->first);
    for (size_t i = pc__first_weights(p); i < p->weights; i++)
        trainer->weights[i] *= scale;
    pc__free(&p->mem, u);
    return status;
}

/* --- one batch */
typedef struct weight_step {
    const pc__trainer *trainer;
    float rate, share;
} weight_step;

enum { STEP_CHUNK = 8192 };

static void step_weights(void *arg, size_t i)
{
    const weight_step *s = arg;
    const pc__trainer *t = s->trainer;
    const float *gradient = t->gradient->result;
    float momentum = (float)t->training.momentum;
    size_t all = t->projector->weights,
           end = (i + 1) * STEP_CHUNK < all ? (i + 1) * STEP_CHUNK : all;
    for (size_t k = i * STEP_CHUNK; k < end; k++) {
        t->velocity[k] = momentum * t->velocity[k] + s->share * gradient[k];
        t->weights[k] -= s->rate * t->velocity[k];
    }
}

/* A batch with fewer items moves the weights by proportionally less. */
static pc_status train_batch(pc__trainer *trainer, const pc__batch_range *range, double *loss)
{
    const pc__training *t = &trainer->training;
    const size_t *items = trainer->order.order + range->first;
    weight_step s = {trainer,
                     (float)(t->rate * (double)(t->epochs - trainer->epoch) / (double)t->epochs),
                     (float)range->count / (float)t->batch};
    PC__TRY_RETURN(label_batch(trainer, items, range->count));
    *loss = pc__gradient_compute(trainer->gradient, trainer->context, trainer->weights, t->pooled,
                                 items, range->count);
    if (trainer->gradient->length > MOST_LENGTH)
        s.share *= (float)(MOST_LENGTH / trainer->gradient->length);
    if (isfinite(*loss))
        pc__parallel(trainer->context, (trainer->projector->weights + STEP_CHUNK - 1) / STEP_CHUNK,
                     step_weights, &s);
    return PC_OK;
}

static pc_status diverged(const pc__trainer *trainer, double loss)
{
    return pc__fail(PC_ERR_INVALID,
                    "training: epoch %zu of %zu: a loss of %g; the rate of %g is too high for "
                    "these items; the projector is as %s",
                    trainer->epoch + 1, trainer->training.epochs, loss, trainer->training.rate,
                    trainer->epoch ? "the epoch before left it" : "it was");
}

static int32_t report_training(pc__trainer *trainer, size_t batch, double loss)
{
    const pc__training *t = &trainer->training;
    uint64_t all = (uint64_t)trainer->order.batches * t->epochs,
             done = (uint64_t)trainer->order.batches * trainer->epoch + batch;
    char text[96];
    trainer->reported = pc__now();
    double left = (trainer->reported - trainer->started) / (double)trainer->steps
                  * (double)(all - done);
    size_t epoch = batch || !trainer->epoch ? trainer->epoch + 1 : trainer->epoch;
    snprintf(text, sizeof text, "training: epoch %zu of %zu, loss %.4g, %.0f s left", epoch,
             t->epochs, loss, left);
    pc__callback_begin();
    return t->progress(t->progress_user, text, done, all);
}

/* Copies the weights of a finished epoch into the projector. */
static pc_status publish_weights(pc__trainer *trainer)
{
    pc__projector *p = trainer->projector;
    size_t first = pc__first_weights(p);
    float label_scale = (float)trainer->label_scale;
    for (size_t i = 0; i < p->weights; i++)
        if (!isfinite(trainer->weights[i]) || !isfinite(trainer->weights[i] * label_scale))
            return diverged(trainer, INFINITY); /* in the next epoch */
    memcpy(p->first, trainer->weights, first * sizeof *p->first);
    for (size_t i = first; i < p->weights; i++)
        p->first[i] = trainer->weights[i] * label_scale;
    trainer->published = 1;
    return PC_OK;
}

static pc_status train_epoch(pc__trainer *trainer)
{
    const pc__training *t = &trainer->training;
    double sum = 0, pairs = 0;
    pc__training_order_make(&trainer->order, t->seed, trainer->epoch);
    for (size_t b = 0; b < trainer->order.batches; b++) {
        double n = (double)trainer->order.batch_ranges[b].count, loss = 0;
        PC__TRY_RETURN(train_batch(trainer, trainer->order.batch_ranges + b, &loss));
        if (!isfinite(loss))
            return diverged(trainer, loss);
        sum += loss * n * (n - 1) / 2;
        pairs += n * (n - 1) / 2;
        trainer->steps++;
        if (t->progress && b + 1 < trainer->order.batches
            && pc__now() - trainer->reported > REPORT_SECONDS
            && report_training(trainer, b + 1, sum / pairs))
            return pc__callback_cancelled("training: cancelled in epoch %zu of %zu",
                                          trainer->epoch + 1, t->epochs);
    }
    PC__TRY_RETURN(sum / pairs > MOST_LOSS ? diverged(trainer, sum / pairs)
                                           : publish_weights(trainer));
    trainer->last_loss = sum / pairs;
    if (!trainer->epoch)
        trainer->first_loss = trainer->last_loss;
    trainer->epoch++;
    return PC_OK;
}

static pc_status end_epoch(pc__trainer *trainer)
{
    const pc__training *t = &trainer->training;
    pc__bytes bytes = {.mem = &trainer->projector->mem};
    pc_status status = PC_OK;
    if (t->checkpoint && (status = pc__checkpoint_write(trainer, &bytes)) >= 0)
        status = t->checkpoint(t->checkpoint_user, trainer->epoch, bytes.data, bytes.size);
    pc__bytes_free(&bytes);
    if (status >= 0 && t->progress && report_training(trainer, 0, trainer->last_loss))
        status = pc__callback_cancelled("training: cancelled after epoch %zu of %zu",
                                        trainer->epoch, t->epochs);
    return status < 0 ? status : PC_OK;
}

static pc_status prepare_trainer(pc__trainer *trainer)
{
    pc__projector *p = trainer->projector;
    const pc__training *t = &trainer->training;
    PC__TRY_RETURN(pc__training_order_new(&trainer->order, &p->mem, t->count, t->groups, t->batch));
    pc__training_order_make(&trainer->order, t->seed, 0);
    if (!trainer->order.batches)
        return pc__fail(PC_ERR_INVALID, "training: no two of the %zu items are of one group",
                        t->count);
    PC__TRY_RETURN(pc__gradient_new(&trainer->gradient, p, t->batch));
    trainer->weights = pc__calloc(&p->mem, p->weights, sizeof *trainer->weights);
    trainer->velocity = pc__calloc(&p->mem, p->weights, sizeof *trainer->velocity);
    trainer->norm_before = pc__calloc(&p->mem, 2 * p->cells, sizeof *trainer->norm_before);
    if (trainer->norm_before)
        memcpy(trainer->norm_before, p->mean, 2 * p->cells * sizeof *p->mean);
    return trainer->weights && trainer->velocity && trainer->norm_before ? PC_OK : PC_ERR_NOMEM;
}

static pc_status start_training(pc__trainer *trainer)
{
    const pc__training *t = &trainer->training;
    if (t->resume) {
        PC__TRY_RETURN(pc__checkpoint_read(trainer, t->resume, t->resume_size));
        return publish_weights(trainer);
    }
    PC__TRY_RETURN(pc__projector_norm(trainer->projector, t->pooled, t->count));
    return find_label_scale(trainer);
}

static void end_training(pc__trainer *trainer, pc__training_result *result)
{
    pc__projector *p = trainer->projector;
    const pc_allocator *mem = &p->mem;
    if (trainer->norm_before && !trainer->published)
        memcpy(p->mean, trainer->norm_before, 2 * p->cells * sizeof *p->mean);
    pc__free(mem, trainer->norm_before);
    if (result)
        *result = trainer->published
                      ? (pc__training_result){trainer->epoch, trainer->label_scale,
                                              trainer->first_loss, trainer->last_loss}
                      : (pc__training_result){0};
    pc__gradient_free(trainer->gradient);
    pc__free(mem, trainer->weights);
    pc__free(mem, trainer->velocity);
    pc__training_order_free(&trainer->order);
}

pc_status pc__projector_train(pc__projector *projector, pc_context *context,
                              const pc__training *training, pc__training_result *result)
{
    pc__trainer trainer = {.projector = projector, .context = context};
    pc_status status;
    PC__TRY(fill_training(&trainer, training), done);
    PC__TRY(prepare_trainer(&trainer), done);
    PC__TRY(start_training(&trainer), done);
    trainer.started = trainer.reported = pc__now();
    while (trainer.epoch < trainer.training.epochs) {
        PC__TRY(train_epoch(&trainer), done);
        PC__TRY(end_epoch(&trainer), done);
    }
done:
    end_training(&trainer, result);
    return status;
}
