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
    if (!memo)
        return pc__fail(PC_ERR_INVALID, "%s: memo is NULL", call);
    if (index >= memo->head.bucket_count)
        return pc__fail(PC_ERR_NOT_FOUND, "%s: the memo has %u buckets, none is %zu", call,
                        memo->head.bucket_count, index);
    return pc__check_process(memo->process, call, "the memo");
}

pc__bucket_facts pc__memo_bucket_now(const pc_memo *memo, size_t index)
{
    pthread_rwlock_t *guard = (pthread_rwlock_t *)(uintptr_t)&memo->guard;
    pc__bucket_facts bucket;
    pthread_rwlock_rdlock(guard);
    bucket = memo->buckets[index];
    pthread_rwlock_unlock(guard);
    return bucket;
}

pc_status pc_memo_get_bucket(pc_memo *memo, size_t index, pc_memo_bucket *bucket)
{
    pc__bucket_facts b;
    pc_memo_bucket out;
    PC__TRY_RETURN(check_bucket(memo, index, "pc_memo_get_bucket"));
    b = pc__memo_bucket_now(memo, index);
    out = b.tuning;
    out.min_tokens = b.least;
    out.max_tokens = b.most;
    out.records = b.records;
    out.trained = b.trained;
    out.reason = out.open ? PC_REASON_NONE : out.reason;
    out.verified_loss = b.verified ? b.loss_sum / (double)b.verified : 0;
    out.verified = b.verified;
    return pc__result_write(bucket, PC__V1_SIZE(pc_memo_bucket, hit_loss_worst), &out, sizeof out,
                            "pc_memo_bucket");
}

int pc__memo_is_layerwise(const pc_memo *memo)
{
    return memo->head.layerwise != 0;
}

int pc__memo_is_trained(const pc_memo *memo, uint32_t bucket)
{
    return pc__memo_bucket_now(memo, bucket).trained != 0;
}

uint32_t pc__memo_loss_kind(const pc_memo *memo, uint32_t bucket)
{
    return pc__memo_bucket_now(memo, bucket).tuning.loss;
}

void pc__memo_retune(pc__bucket_facts *bucket, const pc_memo_bucket *tuning)
{
    bucket->tuning = *tuning;
    bucket->loss_sum = bucket->loss_squares = 0;
    bucket->verified = bucket->losses_over_limit = 0;
}

pc_status pc__memo_set_tuning(pc_memo *memo, uint32_t bucket, const pc_memo_bucket *tuning)
{
    pc__bucket_facts *b = &memo->buckets[bucket], before;
    pc_status status;
    if (memo->options.flags & PC_MEMO_READ_ONLY)
        return pc__fail(PC_ERR_STATE, "%s: the memo was opened read-only", memo->dir.path);
    PC__TRY_RETURN(pc__memo_write_begin(memo));
    pthread_rwlock_wrlock(&memo->guard);
    before = *b;
    pc__memo_retune(b, tuning);
    status = pc__memo_head_write(memo);
    if (status < 0)
        *b = before;
    pthread_rwlock_unlock(&memo->guard);
    pthread_mutex_unlock(&memo->writer);
    return status;
}

pc_status pc_memo_set_threshold(pc_memo *memo, size_t index, double threshold, uint32_t loss,
                                double hit_limit, const pc_memo_bucket *measured)
{
    PC__HOLD(pc_memo, memo);
    pc_memo_bucket m, tuning;
    PC__TRY_RETURN(check_bucket(memo, index, "pc_memo_set_threshold"));
    PC__TRY_RETURN(pc__options_read(&m, sizeof m, PC__V1_SIZE(pc_memo_bucket, hit_loss_worst),
                                    measured, "pc_memo_bucket"));
    if (!(m.hit_percentile >= 0 && m.hit_percentile <= 100) || !isfinite(m.hit_loss)
        || !isfinite(m.hit_loss_high) || !isfinite(m.hit_loss_worst))
        return pc__fail(
            PC_ERR_INVALID,
            "pc_memo_set_threshold: measured losses are %g, %g at percentile %g, %g at worst",
            m.hit_loss, m.hit_loss_high, m.hit_percentile, m.hit_loss_worst);
    if (!isfinite(threshold) || loss > PC_LOSS_KL || !(hit_limit >= 0))
        return pc__fail(PC_ERR_INVALID,
                        "pc_memo_set_threshold: threshold is %g, loss is %u, hit_limit is %g",
                        threshold, loss, hit_limit);
    if (!pc__memo_is_trained(memo, (uint32_t)index))
        return pc__fail(PC_ERR_STATE,
                        "pc_memo_set_threshold: bucket %zu has no projector yet (pc_memo_train)",
                        index);
    tuning = (pc_memo_bucket){.open = threshold <= 1,
                              .reason = threshold <= 1 ? PC_REASON_NONE : PC_REASON_UNLIKE,
                              .loss = loss,
                              .threshold = threshold,
                              .limit = hit_limit,
                              .tuned_hit_rate = hit_limit > 0,
                              .hit_limit = -1,
                              .hit_percentile = m.hit_percentile,
                              .hit_loss = m.hit_loss,
                              .hit_loss_high = m.hit_loss_high,
                              .hit_loss_worst = m.hit_loss_worst};
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
    pc_memo_stats out;
    if (!memo)
        return pc__fail(PC_ERR_INVALID, "pc_memo_get_stats: memo is NULL");
    PC__TRY_RETURN(pc__check_process(memo->process, "pc_memo_get_stats", "the memo"));
    pc__map_store_get_stats(memo->maps, &out);
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
    return pc__result_write(stats, PC__V1_SIZE(pc_memo_stats, outputs), &out, sizeof out,
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
static int mean_has_drifted(const pc__bucket_facts *b)
{
    double n = (double)b->verified, mean = b->loss_sum / n,
           variance = b->loss_squares / n - mean * mean;
    double error = sqrt((variance > 0 ? variance : 0) / n);
    return b->tuning.tuned_hit_rate > 0
           && mean * b->tuning.tuned_hit_rate - 2 * error * b->tuning.tuned_hit_rate
                  > b->tuning.limit;
}

/* More hits above the limit of a single hit than the percentile allows, by two standard errors. */
static int hits_have_drifted(const pc__bucket_facts *b)
{
    double n = (double)b->verified, share = 1 - b->tuning.hit_percentile / 100;
    return b->tuning.hit_limit > 0 && b->tuning.hit_percentile > 0
           && (double)b->losses_over_limit > n * share + 2 * sqrt(n * share * (1 - share)) + 1e-9;
}

static int has_drifted(const pc__bucket_facts *b)
{
    enum { LEAST_CHECKS = 8 };
    return b->verified >= LEAST_CHECKS && (mean_has_drifted(b) || hits_have_drifted(b));
}

void pc__memo_verified(pc_memo *memo, uint32_t bucket, double loss)
{
    pc__bucket_facts *b = &memo->buckets[bucket];
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
        limit = by_mean ? b->tuning.limit / b->tuning.tuned_hit_rate : b->tuning.hit_limit;
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
