/* pc_memo_tune: thresholds from a validation set. Every input is computed in full and with the
 * memo's maps; then each bucket takes as many hits as its loss allows, the most similar first. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/options.h"
#include "memo/memo.h"
#include "model/forward/prefill_batch.h"
#include "serve/prefill.h"

enum { AT_ONCE = 64, LEAST_HITS = 30 };

typedef struct tuning_trial {
    double similarity, loss;
    uint32_t bucket;
    int has; /* the memo has a record of its length */
} tuning_trial;

typedef struct tuning {
    pc_memo *memo;
    const pc_model *model;
    const pc_input *inputs;
    size_t count, hidden, logits;
    pc_memo_work work;
    tuning_trial *trials; /* [count] */
    float *both;          /* embeddings full, reused; logits full, reused: [AT_ONCE][…] each */
} tuning;

static pc_status try_some(tuning *t, size_t first, size_t n)
{
    float *full = t->both, *reused = full + AT_ONCE * t->hidden,
          *full_logits = reused + AT_ONCE * t->hidden,
          *reused_logits = full_logits + AT_ONCE * t->logits;
    pc_prefill_options o = PC_PREFILL_OPTIONS_INIT;
    pc_memo_result results[AT_ONCE];
    const double nearest = -INFINITY;
    o.embeddings = full;
    o.logits = t->logits ? full_logits : NULL;
    PC__TRY_RETURN(pc_prefill(t->model, t->inputs + first, sizeof *t->inputs, n, &o, NULL));
    o.embeddings = reused;
    o.logits = t->logits ? reused_logits : NULL;
    o.memo = t->memo;
    o.threshold = &nearest;
    o.results = results;
    o.result_stride = sizeof *results;
    PC__TRY_RETURN(pc_prefill(t->model, t->inputs + first, sizeof *t->inputs, n, &o, NULL));
    for (size_t i = 0; i < n; i++) {
        tuning_trial *one = &t->trials[first + i];
        /* an input that the memo has itself tells nothing of others */
        one->bucket = results[i].similarity >= 1
                          ? UINT32_MAX
                          : pc__memo_bucket_of(t->memo, t->inputs[first + i].count);
        one->has = results[i].reason == PC_REASON_NONE;
        one->similarity = results[i].similarity;
        if (one->has)
            one->loss = pc__prefill_loss(t->work.loss, full + i * t->hidden, reused + i * t->hidden,
                                         t->hidden, full_logits + i * t->logits,
                                         reused_logits + i * t->logits, t->logits);
    }
    return PC_OK;
}

static pc_status try_all(tuning *t)
{
    for (size_t i = 0, n; i < t->count; i += n) {
        n = t->count - i < AT_ONCE ? t->count - i : AT_ONCE;
        PC__TRY_RETURN(try_some(t, i, n));
        pc__callback_begin();
        if (t->work.progress && t->work.progress(t->work.progress_user, "tune", i + n, t->count))
            return pc__callback_cancelled("pc_memo_tune: cancelled after %zu of %zu inputs", i + n,
                                          t->count);
    }
    return PC_OK;
}

static int by_bucket(const void *a, const void *b)
{
    const tuning_trial *x = a, *y = b;
    if (x->bucket != y->bucket)
        return (x->bucket > y->bucket) - (x->bucket < y->bucket);
    if (x->has != y->has)
        return y->has - x->has;
    return (x->similarity < y->similarity) - (x->similarity > y->similarity);
}

/* `over` of the hits lose more than a hit may. The percentile leaves room for some of them, less
 * a margin for chance (one in twenty). */
static int hits_keep(const tuning *t, size_t hits, size_t over)
{
    double left = 1 - t->work.hit_percentile / 100, mean = (double)hits * left;
    return !over || t->work.hit_limit < 0 || (double)over <= mean - 1.64 * sqrt(mean * (1 - left));
}

static int by_loss(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The loss of the hits: mean, at the percentile (nearest rank), worst. */
static pc_status describe_hits(const tuning *t, const tuning_trial *hits, size_t count,
                               pc_memo_bucket *out)
{
    const pc_allocator *mem = &t->model->context->mem;
    double *losses = pc__calloc(mem, count, sizeof *losses),
           rank = ceil(t->work.hit_percentile / 100 * (double)count);
    if (!losses)
        return PC_ERR_NOMEM;
    for (size_t i = 0; i < count; i++) {
        losses[i] = hits[i].loss;
        out->hit_loss += hits[i].loss / (double)count;
    }
    qsort(losses, count, sizeof *losses, by_loss);
    out->hit_loss_high = losses[rank < 1 ? 0 : (size_t)rank - 1];
    out->hit_loss_worst = losses[count - 1];
    pc__free(mem, losses);
    return PC_OK;
}

/* The lowest threshold at which the mean loss of all n inputs, with a margin for chance (one in
 * twenty), stays within the limit, and the hits within theirs. It needs LEAST_HITS hits: the error
 * of a mean of fewer is unknown. *hits: how many it gives. */
static pc_memo_bucket choose_threshold(const tuning *t, const tuning_trial *trials, size_t n,
                                       size_t *hits)
{
    pc_memo_bucket out = {.reason = PC_REASON_UNLIKE,
                          .loss = t->work.loss,
                          .limit = t->work.limit,
                          .threshold = 2,
                          .hit_limit = t->work.hit_limit,
                          .hit_percentile = t->work.hit_percentile};
    double sum = 0, squares = 0;
    size_t over = 0;
    *hits = 0;
    if (n < LEAST_HITS) {
        out.reason = PC_REASON_UNTRAINED;
        return out;
    }
    for (size_t i = 0; i < n && trials[i].has; i++) {
        double mean, error;
        sum += trials[i].loss;
        squares += trials[i].loss * trials[i].loss;
        over += trials[i].loss > t->work.hit_limit;
        mean = sum / (double)n;
        error = sqrt(fmax(squares / (double)n - mean * mean, 0) / (double)n);
        if (i + 1 < n && trials[i + 1].has && trials[i + 1].similarity >= trials[i].similarity)
            continue; /* as similar as this one: both or none */
        if (i + 1 < LEAST_HITS)
            continue;
        if (mean + 1.64 * error > t->work.limit || !hits_keep(t, i + 1, over))
            continue; /* the hits behind it may lower the mean */
        out.open = 1;
        out.reason = PC_REASON_NONE;
        out.threshold = trials[i].similarity;
        out.tuned_loss = mean;
        out.tuned_hit_rate = (double)(i + 1) / (double)n;
        *hits = i + 1;
    }
    return out;
}

static pc_status set_all(tuning *t)
{
    qsort(t->trials, t->count, sizeof *t->trials, by_bucket);
    for (uint32_t b = 0; b < pc_memo_bucket_count(t->memo); b++) {
        size_t first = 0, n = 0, hits;
        pc_memo_bucket found;
        if (!pc__memo_is_trained(t->memo, b))
            continue;
        for (size_t i = 0; i < t->count; i++) {
            n += t->trials[i].bucket == b;
            first += t->trials[i].bucket < b;
        }
        found = choose_threshold(t, t->trials + first, n, &hits);
        if (hits)
            PC__TRY_RETURN(describe_hits(t, t->trials + first, hits, &found));
        PC__TRY_RETURN(pc__memo_set_tuning(t->memo, b, &found));
    }
    return PC_OK;
}

static pc_status check_tuning(const tuning *t)
{
    if (!t->memo)
        return pc__fail(PC_ERR_INVALID, "pc_memo_tune: memo is NULL");
    if (pc__memo_is_layerwise(t->memo))
        return pc__fail(
            PC_ERR_UNSUPPORTED,
            "pc_memo_tune: a memo of layers takes its thresholds from pc_memo_set_threshold");
    if (!(t->work.limit >= 0))
        return pc__fail(PC_ERR_INVALID, "pc_memo_tune: limit is %g", t->work.limit);
    if (t->work.loss != PC_LOSS_COSINE && !t->logits)
        return pc__fail(PC_ERR_UNSUPPORTED,
                        "pc_memo_tune: the model has no head; only PC_LOSS_COSINE can be measured");
    return PC_OK;
}

static pc_status tune_all(tuning *t)
{
    const pc_allocator *mem = &t->model->context->mem;
    pc_status status;
    t->trials = pc__calloc(mem, t->count, sizeof *t->trials);
    t->both = pc__calloc(mem, 2 * AT_ONCE, (t->hidden + t->logits) * sizeof *t->both);
    status = t->trials && t->both ? try_all(t) : PC_ERR_NOMEM;
    if (status >= 0)
        status = set_all(t);
    pc__free(mem, t->trials);
    pc__free(mem, t->both);
    return status;
}

pc_status pc_memo_tune(pc_memo *memo, const pc_input *inputs, size_t input_stride, size_t count,
                       const pc_memo_work *work)
{
    PC__HOLD(pc_memo, memo);
    tuning t = {.memo = memo, .count = count};
    const void *dense;
    void *copy;
    const pc_allocator *mem;
    pc_status status;
    PC__TRY_RETURN(pc__memo_work_read(&t.work, work));
    if (memo) {
        t.model = pc__memo_model(memo);
        t.hidden = (size_t)t.model->info.hidden;
        t.logits = pc__prefill_batch_logits(t.model);
    }
    PC__TRY_RETURN(check_tuning(&t));
    PC__TRY_RETURN(pc__memo_check_model(memo, t.model));
    mem = &t.model->context->mem;
    PC__TRY_RETURN(pc__array_in(&dense, &copy, mem,
                                PC__ARRAY("pc_memo_tune", "inputs", pc_input, types), inputs,
                                input_stride, count));
    t.inputs = dense;
    status = pc__inputs_check("pc_memo_tune", dense, count);
    if (status >= 0)
        status = tune_all(&t);
    pc__free(mem, copy);
    return status;
}
