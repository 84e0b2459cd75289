/* Predicts the time of loads and of computing (estimate.h). */
#include "store/estimate.h"

#include <string.h>

enum { DISTRUST_AFTER = 3 };
static const double SLOWER = 0.2, FASTER = 0.4; /* weight of a new observation */
/* One observation counts as this many times the expectation, at most. */
static const double LARGEST = 4;
/* Trust after lost time: times; after time gained: plus. */
static const double TRUST_FACTOR = 0.5, TRUST_GAIN = 1.0 / 256;
static const double FIRST_PROBE = 0.25, LAST_PROBE = 8;

static void start_tier(pc__tier_estimate *t, double latency, double per_byte)
{
    t->latency = latency;
    t->per_byte = per_byte;
    t->probe_every = FIRST_PROBE;
    t->trust = 1;
}

void pc__estimate_init(pc__estimate *e)
{
    memset(e, 0, sizeof *e);
    pthread_mutex_init(&e->lock, NULL);
    start_tier(&e->tiers[PC_TIER_COMPRESSED], 20e-6, 1 / 1.0e9);
    start_tier(&e->tiers[PC_TIER_DISK], 150e-6, 1 / 1.5e9);
    start_tier(&e->tiers[PC_TIER_REMOTE], 500e-6, 1 / 0.4e9);
}

void pc__estimate_end(pc__estimate *e)
{
    pthread_mutex_destroy(&e->lock);
}

static double predict_seconds(const pc__tier_estimate *t, double bytes)
{
    return t->latency + t->per_byte * bytes;
}

/* Moves the prediction for `bytes` by weight * (seconds - prediction). */
static void observe_load(pc__tier_estimate *t, double bytes, double seconds)
{
    double expected = predict_seconds(t, bytes), fixed, moving, change;
    if (expected <= 0)
        return;
    fixed = t->latency / expected;
    moving = 1 - fixed;
    change = seconds / expected;
    change = (change > LARGEST ? LARGEST : change) - 1;
    change *= (change > 0 ? SLOWER : FASTER) / (fixed * fixed + moving * moving);
    t->latency *= 1 + change * fixed;
    t->per_byte *= 1 + change * moving;
}

double pc__estimate_load(pc__estimate *e, uint32_t tier, uint64_t bytes)
{
    double seconds;
    pthread_mutex_lock(&e->lock);
    seconds = predict_seconds(&e->tiers[tier], (double)bytes);
    pthread_mutex_unlock(&e->lock);
    return seconds;
}

static void next_probe(pc__tier_estimate *t, int good)
{
    t->probe_every = good ? FIRST_PROBE : t->probe_every * 2;
    if (t->probe_every > LAST_PROBE)
        t->probe_every = LAST_PROBE;
}

void pc__estimate_report_load(pc__estimate *e, uint32_t tier, uint64_t bytes, double seconds)
{
    pc__tier_estimate *t = &e->tiers[tier];
    pthread_mutex_lock(&e->lock);
    next_probe(t, seconds <= predict_seconds(t, (double)bytes));
    observe_load(t, (double)bytes, seconds);
    t->failures = 0;
    pthread_mutex_unlock(&e->lock);
}

void pc__estimate_report_failure(pc__estimate *e, uint32_t tier, uint64_t bytes, double seconds,
                                 uint32_t reason)
{
    pc__tier_estimate *t = &e->tiers[tier];
    pthread_mutex_lock(&e->lock);
    next_probe(t, 0);
    if (reason == PC_REASON_DEADLINE)
        observe_load(t, (double)bytes, seconds);
    t->failures++;
    t->reason = reason;
    pthread_mutex_unlock(&e->lock);
}

uint32_t pc__estimate_distrust(pc__estimate *e, uint32_t tier)
{
    uint32_t reason;
    pthread_mutex_lock(&e->lock);
    reason = e->tiers[tier].failures >= DISTRUST_AFTER ? e->tiers[tier].reason : PC_REASON_NONE;
    pthread_mutex_unlock(&e->lock);
    return reason;
}

int pc__estimate_probe_is_due(pc__estimate *e, uint32_t tier, double now)
{
    pc__tier_estimate *t = &e->tiers[tier];
    int due;
    pthread_mutex_lock(&e->lock);
    due = now >= t->probe_after;
    if (due)
        t->probe_after = now + t->probe_every;
    pthread_mutex_unlock(&e->lock);
    return due;
}

uint32_t pc__estimate_refusal(pc__estimate *e, uint32_t tier, double now, int *is_probe)
{
    uint32_t distrust = pc__estimate_distrust(e, tier);
    int probe = distrust && pc__estimate_probe_is_due(e, tier, now);
    if (is_probe)
        *is_probe = probe;
    return probe ? PC_REASON_NONE : distrust;
}

double pc__estimate_trust(pc__estimate *e, uint32_t tier)
{
    double trust;
    pthread_mutex_lock(&e->lock);
    trust = e->tiers[tier].trust;
    pthread_mutex_unlock(&e->lock);
    return trust;
}

void pc__estimate_update_trust(pc__estimate *e, uint32_t tier, int in_time)
{
    double *trust = &e->tiers[tier].trust;
    pthread_mutex_lock(&e->lock);
    *trust = !in_time ? *trust * TRUST_FACTOR : *trust + TRUST_GAIN < 1 ? *trust + TRUST_GAIN : 1;
    pthread_mutex_unlock(&e->lock);
}

static size_t size_class(size_t tokens)
{
    size_t c = 0;
    while (tokens > 1 && c + 1 < PC__EST_SIZES) {
        tokens >>= 1;
        c++;
    }
    return c;
}

static pc__model_estimate *find_model(pc__estimate *e, const uint8_t model[32])
{
    for (size_t i = 0; i < PC__EST_MODELS; i++)
        if (e->models[i].used && !memcmp(e->models[i].model, model, 32))
            return &e->models[i];
    return NULL;
}

/* Replaces the model that was used longest ago. */
static pc__model_estimate *claim_model(pc__estimate *e, const uint8_t model[32])
{
    pc__model_estimate *m = &e->models[0];
    for (size_t i = 1; i < PC__EST_MODELS; i++)
        if (e->models[i].used < m->used)
            m = &e->models[i];
    memset(m, 0, sizeof *m);
    memcpy(m->model, model, 32);
    return m;
}

void pc__estimate_report_compute(pc__estimate *e, const uint8_t model[32], size_t tokens,
                                 double seconds)
{
    pc__model_estimate *m;
    double *rate, now;
    if (!tokens || !(seconds > 0))
        return;
    now = seconds / (double)tokens;
    pthread_mutex_lock(&e->lock);
    m = find_model(e, model);
    if (!m)
        m = claim_model(e, model);
    m->used = ++e->clock;
    rate = &m->per_token[size_class(tokens)];
    /* A faster call counts at once; a slower one slowly, it may have been disturbed. */
    *rate = *rate <= 0 || now < *rate ? now : *rate + 0.1 * (now - *rate);
    pthread_mutex_unlock(&e->lock);
}

double pc__estimate_compute(pc__estimate *e, const uint8_t model[32], size_t tokens)
{
    const pc__model_estimate *m;
    size_t at = size_class(tokens);
    double rate = 0;
    pthread_mutex_lock(&e->lock);
    m = find_model(e, model);
    for (size_t d = 0; m && rate <= 0 && d < PC__EST_SIZES; d++) {
        if (at + d < PC__EST_SIZES)
            rate = m->per_token[at + d];
        if (rate <= 0 && d <= at)
            rate = m->per_token[at - d];
    }
    pthread_mutex_unlock(&e->lock);
    return rate * (double)tokens;
}
