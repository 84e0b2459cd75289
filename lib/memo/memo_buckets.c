/* Buckets: what the application reads and sets, the statistics, and closing a bucket by the losses
 * of verified hits. */
#include <math.h>
#include <string.h>

#include "base/fail.h"
#include "base/options.h"
#include "memo/memo_internal.h"

size_t pc_memo_bucket_count(const pc_memo *memo)
{
    return memo ? memo->head.bucket_count : 0;
}

static pc_status check_bucket(const pc_memo *memo, size_t index, const char *call)
{
    if (!memo || index >= memo->head.bucket_count)
        return pc__fail(PC_ERR_INVALID, "%s: memo is NULL, or it has no bucket %zu", call, index);
    return PC_OK;
}

pc_status pc_memo_get_bucket(pc_memo *memo, size_t index, pc_memo_bucket *bucket)
{
    pc_memo_bucket out = PC_MEMO_BUCKET_INIT;
    pc_status status = check_bucket(memo, index, "pc_memo_get_bucket");
    if (status < 0)
        return status;
    pthread_rwlock_rdlock(&memo->guard);
    const pc__memo_bucket *b = &memo->buckets[index];
    out.min_tokens = b->least;
    out.max_tokens = b->most;
    out.records = b->records;
    out.trained = b->trained;
    out.open = b->tuning.open;
    out.reason = b->tuning.open ? PC_REASON_NONE : b->tuning.reason;
    out.loss = b->tuning.loss;
    out.threshold = b->tuning.threshold;
    out.limit = b->tuning.limit;
    out.tuned_loss = b->tuning.tuned_loss;
    out.tuned_hit_rate = b->tuning.hit_rate;
    out.verified_loss = b->verified ? b->loss_sum / (double)b->verified : 0;
    out.verified = b->verified;
    out.hit_limit = b->tuning.hit_limit;
    out.hit_percentile = b->tuning.hit_percentile;
    out.hit_loss = b->tuning.hit_loss;
    out.hit_loss_high = b->tuning.hit_loss_high;
    out.hit_loss_worst = b->tuning.hit_loss_worst;
    pthread_rwlock_unlock(&memo->guard);
    return pc__result_write(bucket, PC__V1_SIZE(pc_memo_bucket, verified), &out, sizeof out,
                            "pc_memo_bucket");
}

int pc__memo_is_layerwise(const pc_memo *memo)
{
    return memo->head.layerwise != 0;
}

int pc__memo_is_trained(pc_memo *memo, uint32_t bucket)
{
    int trained;
    pthread_rwlock_rdlock(&memo->guard);
    trained = memo->buckets[bucket].trained != 0;
    pthread_rwlock_unlock(&memo->guard);
    return trained;
}

uint32_t pc__memo_loss_kind(pc_memo *memo, uint32_t bucket)
{
    uint32_t kind;
    pthread_rwlock_rdlock(&memo->guard);
    kind = memo->buckets[bucket].tuning.loss;
    pthread_rwlock_unlock(&memo->guard);
    return kind;
}

pc_status pc__memo_set_tuning(pc_memo *memo, uint32_t bucket, const pc__memo_tuning *tuning)
{
    pc__memo_bucket *b = &memo->buckets[bucket], before;
    pc_status status;
    if (memo->options.flags & PC_MEMO_READ_ONLY)
        return pc__fail(PC_ERR_STATE, "%s: the memo was opened read-only", memo->dir.path);
    pthread_mutex_lock(&memo->writer);
    pthread_rwlock_wrlock(&memo->guard);
    before = *b;
    b->tuning = *tuning;
    b->loss_sum = b->loss_squares = 0;
    b->verified = b->losses_over_limit = 0;
    status = pc__memo_head_write(memo);
    if (status < 0)
        *b = before;
    pthread_rwlock_unlock(&memo->guard);
    pthread_mutex_unlock(&memo->writer);
    return status;
}

/* Reads what the caller measured of hits at the threshold. */
static pc_status read_measured(pc__memo_tuning *tuning, const pc_memo_bucket *measured)
{
    pc_memo_bucket m;
    pc_status status = pc__options_read(&m, sizeof m, PC__V1_SIZE(pc_memo_bucket, verified),
                                        measured, "pc_memo_bucket");
    tuning->hit_limit = -1;
    if (status < 0 || !measured)
        return status;
    if (!(m.hit_percentile >= 0 && m.hit_percentile <= 100) || !isfinite(m.hit_loss)
        || !isfinite(m.hit_loss_high) || !isfinite(m.hit_loss_worst))
        return pc__fail(
            PC_ERR_INVALID,
            "pc_memo_set_threshold: measured losses are %g, %g at percentile %g, %g at worst",
            m.hit_loss, m.hit_loss_high, m.hit_percentile, m.hit_loss_worst);
    tuning->hit_percentile = m.hit_percentile;
    tuning->hit_loss = m.hit_loss;
    tuning->hit_loss_high = m.hit_loss_high;
    tuning->hit_loss_worst = m.hit_loss_worst;
    return PC_OK;
}

pc_status pc_memo_set_threshold(pc_memo *memo, size_t index, double threshold, uint32_t loss,
                                double hit_limit, const pc_memo_bucket *measured)
{
    pc__memo_tuning tuning = {.threshold = threshold,
                              .open = threshold <= 1,
                              .loss = loss,
                              .limit = hit_limit,
                              .hit_rate = hit_limit > 0};
    pc_status status = check_bucket(memo, index, "pc_memo_set_threshold");
    if (status >= 0)
        status = read_measured(&tuning, measured);
    if (status < 0)
        return status;
    if (!isfinite(threshold) || loss > PC_LOSS_KL || !(hit_limit >= 0))
        return pc__fail(PC_ERR_INVALID,
                        "pc_memo_set_threshold: threshold is %g, loss is %u, hit_limit is %g",
                        threshold, loss, hit_limit);
    if (!pc__memo_is_trained(memo, (uint32_t)index))
        return pc__fail(PC_ERR_STATE,
                        "pc_memo_set_threshold: bucket %zu has no projector yet (pc_memo_train)",
                        index);
    tuning.reason = tuning.open ? PC_REASON_NONE : PC_REASON_UNLIKE;
    return pc__memo_set_tuning(memo, (uint32_t)index, &tuning);
}

void pc__memo_count(pc_memo *memo, uint64_t hits, uint64_t outputs, uint64_t misses)
{
    pthread_mutex_lock(&memo->counting);
    memo->lookups += hits + misses;
    memo->hits += hits;
    memo->output_hits += outputs;
    memo->misses += misses;
    pthread_mutex_unlock(&memo->counting);
}

pc_status pc_memo_get_stats(pc_memo *memo, pc_memo_stats *stats)
{
    pc_memo_stats out = PC_MEMO_STATS_INIT;
    pc__map_store_stats maps;
    if (!memo)
        return pc__fail(PC_ERR_INVALID, "pc_memo_get_stats: memo is NULL");
    pc__map_store_get_stats(memo->maps, &maps);
    pthread_mutex_lock(&memo->counting);
    out.lookups = memo->lookups;
    out.hits = memo->hits;
    out.misses = memo->misses;
    out.verified = memo->verified;
    out.output_hits = memo->output_hits;
    pthread_mutex_unlock(&memo->counting);
    pthread_rwlock_rdlock(&memo->guard);
    out.outputs = memo->outputs;
    pthread_rwlock_unlock(&memo->guard);
    out.stored = maps.stored;
    out.live = maps.live;
    out.evicted = maps.evicted;
    out.removed = maps.removed;
    out.damaged = maps.damaged;
    out.bytes = maps.bytes;
    out.budget_bytes = maps.budget_bytes;
    return pc__result_write(stats, PC__V1_SIZE(pc_memo_stats, budget_bytes), &out, sizeof out,
                            "pc_memo_stats");
}

int pc__memo_wants_verification(pc_memo *memo, uint32_t bucket)
{
    double *due = &memo->checks_due[bucket];
    int wants;
    pthread_mutex_lock(&memo->counting);
    *due += memo->options.verify_share;
    wants = *due >= 1;
    *due -= wants;
    pthread_mutex_unlock(&memo->counting);
    return wants;
}

/* Above the limit by more than twice the standard error of the mean; by chance that happens to one
 * bucket in forty. */
static int mean_has_drifted(const pc__memo_bucket *b)
{
    double n = (double)b->verified, mean = b->loss_sum / n,
           variance = b->loss_squares / n - mean * mean;
    double error = sqrt((variance > 0 ? variance : 0) / n);
    return b->tuning.hit_rate > 0
           && mean * b->tuning.hit_rate - 2 * error * b->tuning.hit_rate > b->tuning.limit;
}

/* More hits above the limit of a single hit than the percentile allows, by two standard errors. */
static int hits_have_drifted(const pc__memo_bucket *b)
{
    double n = (double)b->verified, share = 1 - b->tuning.hit_percentile / 100;
    return b->tuning.hit_limit > 0 && b->tuning.hit_percentile > 0
           && (double)b->losses_over_limit > n * share + 2 * sqrt(n * share * (1 - share)) + 1e-9;
}

static int has_drifted(const pc__memo_bucket *b)
{
    enum { LEAST_CHECKS = 8 };
    return b->verified >= LEAST_CHECKS && (mean_has_drifted(b) || hits_have_drifted(b));
}

void pc__memo_verified(pc_memo *memo, uint32_t bucket, double loss)
{
    pc__memo_bucket *b = &memo->buckets[bucket];
    double mean = 0, limit = 0;
    int closed = 0, by_mean = 1;
    pthread_mutex_lock(&memo->counting);
    memo->verified++;
    pthread_mutex_unlock(&memo->counting);
    pthread_rwlock_wrlock(&memo->guard);
    b->verified++;
    b->loss_sum += loss;
    b->loss_squares += loss * loss;
    b->losses_over_limit += b->tuning.hit_limit > 0 && loss > b->tuning.hit_limit;
    if (b->tuning.open && has_drifted(b)) {
        b->tuning.open = 0;
        b->tuning.reason = PC_REASON_DRIFT;
        by_mean = mean_has_drifted(b);
        mean = by_mean ? b->loss_sum / (double)b->verified : loss;
        limit = by_mean ? b->tuning.limit / b->tuning.hit_rate : b->tuning.hit_limit;
        closed = 1;
        if (!(memo->options.flags & PC_MEMO_READ_ONLY))
            (void)pc__memo_head_write(memo); /* an error is harmless: drift is detected again */
    }
    pthread_rwlock_unlock(&memo->guard);
    if (!closed)
        return;
    pc__log(memo->model->context, PC_LOG_WARN,
            "memo: %s: %s of %u to %u tokens lose %g, more than the %g they were tuned for: no "
            "more of them",
            memo->dir.path, by_mean ? "in the mean hits" : "too many hits", b->least, b->most, mean,
            limit);
    if (memo->options.on_disabled)
        memo->options.on_disabled(memo->options.disabled_user, bucket, mean, limit);
}
