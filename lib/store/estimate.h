/* What loading and computing are expected to take, from what they took lately.
 *
 * Loading n bytes from a tier: latency + n * seconds a byte, decoding included. After each load the
 * expectation for its size moves by a part of the error (exponential weights), and the two change
 * in proportion to their share in it: small loads teach the latency, large ones the bandwidth. One
 * slow load counts as at most four times what was expected, so that a single stall does not close a
 * tier; loads that are faster than expected count more than those that are slower, so that it opens
 * again soon. A tier that has failed DISTRUST times in a row, or that seems slower than computing,
 * is asked again by single probes, at intervals that double from a quarter of a second up to eight.
 *
 *   start values     latency     bytes a second
 *   COMPRESSED           20 us       1.0e9      (decompression)
 *   DISK             150 us      1.5e9
 *   REMOTE           500 us      0.4e9
 *
 * How far requests may count on a tier: trust, from 1 down to 0. A request that lost time by it (it
 * waited in vain, or began a pass with layers that then did not come) halves trust, one that got in
 * time all that it sought adds 1/256. So between two requests that lose something at full trust
 * there are at least 128 that lose nothing.
 *
 * Computing n tokens by a model: seconds a token, by power of two of the number of tokens in one
 * call, because small calls are less efficient. */
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
/* It failed after so long; `reason` PC_REASON_…. */
void pc__estimate_report_failure(pc__estimate *estimate, uint32_t tier, uint64_t bytes,
                                 double seconds, uint32_t reason);
/* PC_REASON_NONE: use it; else why not: it has failed too often. */
uint32_t pc__estimate_distrust(pc__estimate *estimate, uint32_t tier);
/* 1: it is time to try a tier that is not used otherwise (and the next time is set). */
int pc__estimate_probe_is_due(pc__estimate *estimate, uint32_t tier, double now);

/* Why a tier is not to be asked now, PC_REASON_NONE: it may be. *is_probe (or NULL): although it is
 * distrusted. */
uint32_t pc__estimate_refusal(pc__estimate *estimate, uint32_t tier, double now, int *is_probe);

double pc__estimate_trust(pc__estimate *estimate, uint32_t tier);
/* A request got in time what it sought there (1), or has lost time by it (0). */
void pc__estimate_update_trust(pc__estimate *estimate, uint32_t tier, int in_time);

void pc__estimate_report_compute(pc__estimate *estimate, const uint8_t model[32], size_t tokens,
                                 double seconds);
/* Seconds that one call of so many tokens should take; 0: nothing has been measured. */
double pc__estimate_compute(pc__estimate *estimate, const uint8_t model[32], size_t tokens);

#endif
