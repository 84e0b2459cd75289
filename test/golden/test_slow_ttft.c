/* Catches: a tier below RAM that fails and is waited for again and again, also within one pass; a
 * good tier that is no longer waited for. The test checks counts of waits, as requests report them,
 * not times.
 *
 * PC_MEASURE_SLOW=N measures instead: the time to the first token of N requests of 640 tokens by a
 * model of 4 million random weights (PC_MEASURE_SLOW=1000 takes about six minutes on two idle
 * cores), for each kind of fault. Three caches take turns in changing order: without tiers; without
 * tiers once more, which shows how much two equal things differ on this machine; and over a tier
 * with the fault. It prints the 99th percentile with its 95 % interval by order statistics, ratios
 * with 95 % intervals from resampling the rounds, waits as the requests report them, and what the
 * slowest hundredth of the requests has waited. PC_MEASURE_KIND=0 … 5: one kind alone.
 *
 * A second measure hardly depends on other programs: the processor time of all threads of the
 * process for the request, I/O threads included, divided by the number of its threads, and the time
 * that it waited. Only these two can make a request slower because of a tier. */
#include "store/cache_internal.h"

#include <promptcache/bench.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "at_rest.h"
#include "slow_tier.h"
#include "testing.h"

enum {
    TOKENS = 640,
    NEW = 64,
    THREADS = 2,
    RESAMPLED = 400
}; /* at least 512 of them in whole blocks: so they are written at their first use */
enum { PLAIN, AGAIN, TIERS, ARMS };

typedef struct world {
    pc_context *context;
    pc_model *model;
    pc_prompt *prompt;
} world;

static void begin(world *w, int layers)
{
    static const char config[] =
        "{\"model_type\": \"llama\", \"architectures\": [\"LlamaForCausalLM\"], \"hidden_size\": "
        "256, \"intermediate_size\": 768, "
        "\"num_hidden_layers\": %d, \"num_attention_heads\": 4, \"num_key_value_heads\": 2, "
        "\"vocab_size\": 2048, "
        "\"max_position_embeddings\": 4096, \"rms_norm_eps\": 1e-5, \"rope_theta\": 10000.0, "
        "\"hidden_act\": \"silu\", "
        "\"tie_word_embeddings\": false}";
    pc_context_options o = PC_CONTEXT_OPTIONS_INIT;
    char path[4096], text[1024];
    int32_t tokens[TOKENS];
    int size = snprintf(text, sizeof text, config, layers);
    snprintf(path, sizeof path, "%s/config.json", pc_test_folder());
    pc_test_write(path, text, (size_t)size);
    for (int32_t i = 0; i < TOKENS; i++)
        tokens[i] = (i * 7919 + 13) % 2048;
    o.threads = THREADS;
    CHECK_OK(pc_context_new(&w->context, &o));
    CHECK_OK(pc_model_new_shape(&w->model, w->context, path, 0, NULL));
    CHECK_OK(pc_prompt_from_tokens(&w->prompt, w->model, tokens, TOKENS, NULL));
}

static void end(world *w)
{
    pc_prompt_free(w->prompt);
    pc_model_free(w->model);
    pc_context_free(w->context);
}

static double processor_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Empties RAM, with what was on its way to the tiers. *spent: processor seconds. */
static pc_stats ask(const world *w, pc_cache *cache, int32_t (*cancelled)(void *user),
                    double *spent)
{
    pc_generate_options o = PC_GENERATE_OPTIONS_INIT;
    pc_stats s = PC_STATS_INIT;
    double before;
    CHECK(pc_cache_flush(cache) >= 0);
    pc_test_forget(cache);
    o.max_tokens = 1;
    o.cancelled = cancelled;
    before = processor_seconds();
    CHECK_OK(pc_generate(w->prompt, cache, &o, &s));
    *spent = processor_seconds() - before;
    return s;
}

/* ------------------------------------------------------------------ the bound */

/* Computing that takes its time and no processor's: 8 ms a layer. */
static int32_t dawdle(void *user)
{
    struct timespec t = {0, 8000000};
    (void)user;
    nanosleep(&t, NULL);
    return 0;
}

/* A good tier begins to fail: it is waited for a few times, each time half as long as before, and
 * at most one pass over its layers is lost. */
static int bounded(const world *w, int kind)
{
    enum { ASKED = 8, WAITS = 5, DELAY = 100 };
    pc_faults faults;
    pc_cache *cache = pc_slow_cache_new(w->context, &faults, 0, 0.3);
    uint64_t early;
    double spent;
    int waits = 0;
    pc_stats s = ask(w, cache, dawdle, &spent);
    pc_faults_set(&faults, PC_FAULT_NONE, DELAY);
    for (int i = 0; i < 10 && s.tokens_tier[PC_TIER_DISK] < TOKENS - NEW; i++)
        s = ask(w, cache, dawdle, &spent);
    CHECK_INT(s.tokens_tier[PC_TIER_DISK],
              TOKENS - NEW);      /* good, it is used, on a busy machine not at once */
    for (int i = 0; i < 256; i++) /* whatever disturbed it */
        pc__estimate_update_trust(&cache->estimate, PC_TIER_DISK, 1);
    early = atomic_load(&cache->counts.early);
    pc_faults_set(&faults, kind, DELAY);
    for (int i = 0; i < ASKED; i++) {
        double trust = pc__estimate_trust(&cache->estimate, PC_TIER_DISK);
        uint64_t before = atomic_load(&cache->counts.early);
        s = ask(w, cache, dawdle, &spent);
        CHECK(trust >= 1 || atomic_load(&cache->counts.early) == before);
        CHECK(s.tokens_tier[PC_TIER_DISK] || s.miss_reason > PC_REASON_NONE);
        if (s.seconds_load > 0 && !s.tokens_tier[PC_TIER_DISK]) {
            CHECK(pc__estimate_trust(&cache->estimate, PC_TIER_DISK) <= trust / 2);
            waits++;
        }
    }
    CHECK(waits <= WAITS);
    CHECK(atomic_load(&cache->counts.early) - early <= TOKENS / 64); /* one request's */
    printf("%-18s %d of %d requests waited in vain\n", pc_fault_names[kind], waits, ASKED);
    pc_cache_free(cache);
    return waits;
}

/* ------------------------------------------------------------------ measuring */

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static size_t rank(size_t n, double share)
{
    double at = share * (double)n;
    return at < 0 ? 0 : at >= (double)n ? n - 1 : (size_t)at;
}

/* Of `n` values, those at `picked` (NULL: all); `room` [n]. */
static double quantile(const double *values, const size_t *picked, size_t n, double share,
                       double *room)
{
    for (size_t i = 0; i < n; i++)
        room[i] = values[picked ? picked[i] : i];
    qsort(room, n, sizeof *room, by_value);
    return room[rank(n, share)];
}

typedef struct ratio {
    double value, low, high;
} ratio;

static ratio compare(const double *with, const double *without, size_t n, double share)
{
    double *room = calloc(n, sizeof *room), found[RESAMPLED];
    size_t *picked = calloc(n, sizeof *picked);
    pc_test_rng rng = {1};
    ratio r = {quantile(with, NULL, n, share, room) / quantile(without, NULL, n, share, room), 0,
               0};
    for (size_t k = 0; k < RESAMPLED; k++) {
        for (size_t i = 0; i < n; i++)
            picked[i] =
                (size_t)(pc_test_bits(&rng)
                         % n); /* the same rounds of both: what disturbed a round disturbed both */
        found[k] = quantile(with, picked, n, share, room)
                   / quantile(without, picked, n, share, room);
    }
    qsort(found, RESAMPLED, sizeof *found, by_value);
    r.low = found[rank(RESAMPLED, 0.025)];
    r.high = found[rank(RESAMPLED, 0.975)];
    free(room);
    free(picked);
    return r;
}

typedef struct measured {
    double *ttft[ARMS], *spent[ARMS], *waited, *loaded; /* [n] */
    size_t n;
} measured;

static void print_99th(const measured *m, int arm)
{
    double *room = calloc(m->n, sizeof *room), spread = 1.96 * sqrt(0.99 * 0.01 / (double)m->n),
           at = 1e3 * quantile(m->ttft[arm], NULL, m->n, 0.99, room);
    printf(" %6.2f [%6.2f, %6.2f]", at, 1e3 * room[rank(m->n, 0.99 - spread)],
           1e3 * room[rank(m->n, 0.99 + spread)]);
    free(room);
}

static void print_ratio(ratio r)
{
    printf(" | %.3f [%.3f, %.3f]", r.value, r.low, r.high);
}

/* Waits in shares of what computing takes at the median, in percent. */
static void print_waits(const measured *m)
{
    double *room = calloc(m->n, sizeof *room),
           median = quantile(m->ttft[PLAIN], NULL, m->n, 0.5, room),
           slow = quantile(m->ttft[TIERS], NULL, m->n, 0.99, room), all = 0, most = 0, of_slow = 0;
    size_t waits = 0, slowest = 0, uses = 0;
    for (size_t i = 0; i < m->n; i++) {
        waits += m->waited[i] > 0;
        uses += m->loaded[i] > 0;
        all += m->waited[i];
        most = m->waited[i] > most ? m->waited[i] : most;
        if (m->ttft[TIERS][i] >= slow) {
            slowest++;
            of_slow = m->waited[i] > of_slow ? m->waited[i] : of_slow;
        }
    }
    printf(" | %4zu %4zu %6.3f %6.2f | %zu: %.2f\n", uses, waits, 100 * all / (double)m->n / median,
           100 * most / median, slowest, 100 * of_slow / median);
    free(room);
}

static void measure_kind(const world *w, int kind, size_t n)
{
    pc_faults faults;
    pc_cache *caches[ARMS] = {NULL};
    measured m = {.waited = calloc(n, sizeof(double)), .loaded = calloc(n, sizeof(double)), .n = n};
    double spent;
    for (int arm = 0; arm < ARMS; arm++) {
        m.ttft[arm] = calloc(n, sizeof(double));
        m.spent[arm] = calloc(n, sizeof(double));
    }
    CHECK_OK(pc_cache_new(&caches[PLAIN], w->context, NULL));
    CHECK_OK(pc_cache_new(&caches[AGAIN], w->context, NULL));
    caches[TIERS] = pc_slow_cache_new(w->context, &faults, 0, 0.5);
    for (int arm = 0; arm < ARMS; arm++)
        ask(w, caches[arm], NULL, &spent);
    pc_cache_flush(caches[TIERS]);
    pc_faults_set(&faults, kind, 150);
    for (size_t i = 0; i < n; i++)
        for (size_t turn = 0; turn < ARMS; turn++) {
            size_t arm = i % 2 ? (i + turn) % ARMS : (i + ARMS - turn) % ARMS;
            pc_stats s = ask(w, caches[arm], NULL, &spent);
            m.ttft[arm][i] = s.seconds_ttft;
            m.spent[arm][i] = spent / (double)THREADS + s.seconds_load;
            if (arm == TIERS) {
                m.waited[i] = s.seconds_load;
                m.loaded[i] = (double)s.tokens_tier[PC_TIER_DISK];
            }
        }
    printf("%-18s", pc_fault_names[kind]);
    print_99th(&m, PLAIN);
    print_99th(&m, TIERS);
    print_ratio(compare(m.ttft[TIERS], m.ttft[PLAIN], n, 0.5));
    print_ratio(compare(m.ttft[TIERS], m.ttft[PLAIN], n, 0.99));
    print_ratio(compare(m.ttft[AGAIN], m.ttft[PLAIN], n, 0.99));
    print_ratio(compare(m.spent[TIERS], m.spent[PLAIN], n, 0.99));
    print_ratio(compare(m.spent[AGAIN], m.spent[PLAIN], n, 0.99));
    print_waits(&m);
    fflush(stdout);
    for (int arm = 0; arm < ARMS; arm++) {
        free(m.ttft[arm]);
        free(m.spent[arm]);
        pc_cache_free(caches[arm]);
    }
    free(m.waited);
    free(m.loaded);
}

static void measure(const world *w, size_t n)
{
    const char *only = getenv("PC_MEASURE_KIND");
    printf(
        "%zu requests an arm; ms to the first token, 99th of a hundred [95 %%]; ratios [95 %%]; "
        "used: requests that took something from the tier;\n"
        "waited: how many did, mean of all and most of one in %% of the median without; slowest: "
        "how many stand for the last hundredth, and the most that one of them waited\n\n",
        n);
    printf("%-18s %-23s %-24s| %-20s | %-20s | %-20s | %-20s | %-20s | %-23s | slowest\n", "tier",
           " without", " with", "50th: with/without", "99th: with/without", "99th: A/A",
           "spent, 99th: with/w.", "spent, 99th: A/A", "used waited   mean   most");
    for (int kind = 0; kind < PC_FAULTS; kind++)
        if (!only || strtol(only, NULL, 10) == kind)
            measure_kind(w, kind, n);
}

int main(void)
{
    const char *requests = getenv("PC_MEASURE_SLOW");
    world w = {0};
    int waits = 0;
    begin(&w, requests ? 4 : 2);
    if (requests)
        measure(&w, (size_t)strtoul(requests, NULL, 10) + 1);
    for (int kind = PC_FAULT_SLOW; kind < PC_FAULTS && !requests; kind++)
        waits += bounded(&w, kind);
    CHECK(requests || waits > 0); /* else nothing was tried */
    end(&w);
    return pc_test_end();
}
