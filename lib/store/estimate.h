/* Predicts the time of loads and of computing from recent measurements.
 *
 * A load of n bytes takes latency + n * seconds a byte, decoding included. After each load the
 * prediction for its size moves by a part of the error (exponential weights); latency and bandwidth
 * move in proportion to their share, so small loads correct the latency and large ones the
 * bandwidth. A slow load counts as four times the prediction at most, so that one stall does not
 * close a tier. Faster loads count more than slower ones, so that a tier opens again soon. A tier
 * that has failed DISTRUST_AFTER times in a row, or that seems slower than computing, gets single
 * probes, at intervals that double from a quarter of a second to eight.
 *
 *   start values     latency     bytes a second
 *   COMPRESSED       20 us       1.0e9      (decompression)
 *   DISK             150 us      1.5e9
 *   REMOTE           500 us      0.4e9
 *
 * Trust, from 1 down to 0, says how far requests may count on a tier. A request that lost time by a
 * tier (it waited in vain, or began a pass whose layers did not come) halves it; a request that got
 * all in time adds 1/256. So at full trust there are at least 128 good requests between two bad
 * ones.
 *
 * Computing n tokens: seconds a token, for each power of two of tokens in one call, because small
 * calls are less efficient. */
#ifndef PC_STORE_ESTIMATE_H
#define PC_STORE_ESTIMATE_H

#include <pthread.h>
#include <promptcache.h>

enum { PC__EST_MODELS = 8, PC__EST_SIZES = 20 };

typedef struct pc__tier_estimate {
    double latency, per_byte; /* seconds */
    uint32_t failures;        /* in a row */
    uint32_t reason;          /* of the last one */
    double probe_after, probe_every;
    double trust; /* 0 … 1 */
} pc__tier_estimate;

typedef struct pc__model_estimate {
    uint8_t model[32];
    uint64_t used;
    double per_token[PC__EST_SIZES]; /* 0: not measured */
} pc__model_estimate;

/* Locks itself. */
typedef struct pc__estimate {
    pthread_mutex_t lock;
    pc__tier_estimate tiers[PC_TIER_COUNT];
    pc__model_estimate models[PC__EST_MODELS];
    uint64_t clock;
} pc__estimate;

void pc__estimate_init(pc__estimate *estimate);
void pc__estimate_end(pc__estimate *estimate);

/* Seconds that a load of so many bytes should take. */
double pc__estimate_load(pc__estimate *estimate, uint32_t tier, uint64_t bytes);
void pc__estimate_report_load(pc__estimate *estimate, uint32_t tier, uint64_t bytes,
                              double seconds);
/* A load failed after so many seconds. */
void pc__estimate_report_failure(pc__estimate *estimate, uint32_t tier, uint64_t bytes,
                                 double seconds, uint32_t reason);
/* PC_REASON_NONE: use the tier; else the reason of its last failure: it failed too often. */
uint32_t pc__estimate_distrust(pc__estimate *estimate, uint32_t tier);
/* 1: a probe of this tier is due; sets the time of the next one. */
int pc__estimate_probe_is_due(pc__estimate *estimate, uint32_t tier, double now);

/* PC_REASON_NONE: the tier may be asked; else why not. *is_probe (may be NULL): it is asked
 * although it is distrusted. */
uint32_t pc__estimate_refusal(pc__estimate *estimate, uint32_t tier, double now, int *is_probe);

double pc__estimate_trust(pc__estimate *estimate, uint32_t tier);
/* A request got in time all that it looked up there (1), or lost time by it (0). */
void pc__estimate_update_trust(pc__estimate *estimate, uint32_t tier, int in_time);

void pc__estimate_report_compute(pc__estimate *estimate, const uint8_t model[32], size_t tokens,
                                 double seconds);
/* Seconds that one call of so many tokens should take; 0: not measured yet. */
double pc__estimate_compute(pc__estimate *estimate, const uint8_t model[32], size_t tokens);

#endif
