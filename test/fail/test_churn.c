/* Catches a store whose process grows beyond its budget: 100,000 operations (PC_CHURN=1000000 for more) by several threads, puts of all sizes, gets, pins, clears,
 * quotas and room for loads, with memory that is really used. Whatever happens, what the process takes more than before stays below budget + what the threads hold
 * themselves + ALLOWED, measured all along; and the counters balance. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "store/host/resident.h"
#include "testing.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define MEASURES_MEMORY 0 /* sanitizers keep memory of their own */
#else
#define MEASURES_MEMORY 1
#endif

#define BUDGET (UINT64_C(64) << 20)
#define LARGEST (UINT64_C(1) << 20)
#define SMALLEST UINT64_C(2048)
#define ALLOWED (UINT64_C(4) << 20) /* stacks, what malloc has freed and not given back yet */
enum { THREADS = 3, HELD = 4, KEYS = 4000, CHECK_EVERY = 500 };

static atomic_uint_fast64_t most; /* bytes of the process above the start */
static uint64_t at_start;

static uint64_t resident_bytes(void)
{
    unsigned long long all = 0, resident = 0;
    FILE *f = fopen("/proc/self/statm", "r");
    if (f && fscanf(f, "%llu %llu", &all, &resident) != 2)
        resident = 0;
    if (f)
        fclose(f);
    return resident * (uint64_t)sysconf(_SC_PAGESIZE);
}

static void measure(void)
{
    uint64_t now = resident_bytes(), seen = atomic_load(&most);
    now = now > at_start ? now - at_start : 0;
    while (now > seen && !atomic_compare_exchange_weak(&most, &seen, now))
        ;
}

/* States as the library's own models have them. */
typedef struct states {
    atomic_uint give_back;
    void *memory;
} states;

static void release(void *owner, void *payload)
{
    states *s = payload;
    (void)owner;
    (atomic_load(&s->give_back) ? pc__free_to_system : pc__free)(&pc__libc_allocator, s->memory);
    pc__free(&pc__libc_allocator, s);
}

static void give_back(void *owner, void *payload)
{
    (void)owner;
    atomic_store(&((states *)payload)->give_back, 1);
}

static const pc__payload_ops ops = {.release = release, .give_back = give_back};

static pc_segment *compute(int32_t token, uint64_t bytes)
{
    pc_segment *segment = NULL;
    states *s = pc__calloc(&pc__libc_allocator, 1, sizeof *s);
    s->memory = pc__alloc_aligned(&pc__libc_allocator, bytes, 64);
    memset(s->memory, token, bytes);
    if (pc__segment_new(&segment, &pc__libc_allocator, &ops, s, NULL, bytes, &token, 1) < 0)
        release(NULL, s);
    return segment;
}

static pc__id id_of(int32_t n)
{
    pc__id id = {{0}};
    memcpy(id.bytes, &n, sizeof n);
    return id;
}

/* Between the smallest and the largest, all orders of magnitude alike. */
static uint64_t any_size(pc_test_rng *rng)
{
    uint64_t size = SMALLEST << pc_test_bits(rng) % 9;
    return size + pc_test_bits(rng) % size;
}

static pc_segment *get_or_put(pc__resident *t, int32_t token, pc_test_rng *rng)
{
    pc__id key = id_of(token), before = id_of(token - 1), salt = id_of(-token % 3);
    pc_segment *segment = NULL, *computed;
    uint32_t reason;
    if (pc__resident_get(t, &key, &token, 1, &segment, &reason) == PC_OK)
        return segment;
    computed = compute(token, any_size(rng));
    if (computed)
        pc__resident_put(t, &(pc__naming){.key = key, .before = token % 8 ? &before : NULL, .salt = &salt, .cost = 1, .priority = token % 50 == 7},
                         computed, &segment, &reason);
    if (!segment)
        return computed;
    pc__segment_unref(computed);
    return segment;
}

static void do_something_else(pc__resident *t, int32_t token, pc_test_rng *rng)
{
    pc__id key = id_of(token), salt = id_of(-token % 3);
    uint64_t owner = pc_test_bits(rng) % 4, bytes = any_size(rng);
    switch (pc_test_bits(rng) % 8) {
    case 0: pc__resident_pin(t, &key, owner, 0.001); break;
    case 1: pc__resident_pin(t, &key, owner, 0); break;
    case 2: case 3: pc__resident_unpin_owner(t, owner); break;
    case 4: pc__resident_set_quota(t, &salt, token % 2 ? BUDGET / 3 : 0); break;
    case 5:
        if (pc__resident_take(t, bytes, 0) == PC_OK) { /* a load: its memory comes after its room */
            pc_segment *loaded = compute(token, bytes);
            uint32_t reason;
            pc__resident_give(t, bytes);
            if (loaded)
                pc__resident_put(t, &(pc__naming){.key = key, .cost = 1}, loaded, NULL, &reason);
            pc__segment_unref(loaded);
        }
        break;
    case 6:
        if (pc_test_bits(rng) % 200 == 0)
            pc__resident_clear(t);
        break;
    default: pc__resident_sweep(t); break;
    }
}

typedef struct churn {
    pc__resident *tier;
    uint64_t operations, seed;
} churn;

static void *work(void *arg)
{
    churn *c = arg;
    pc_test_rng rng = {c->seed};
    pc_segment *held[HELD] = {NULL};
    for (uint64_t i = 0; i < c->operations; i++) {
        int32_t token = (int32_t)(pc_test_bits(&rng) % 2 ? pc_test_bits(&rng) % KEYS : pc_test_bits(&rng) % (KEYS / 20));
        pc_segment **slot = &held[i % HELD];
        if (i % 10 == 9) {
            do_something_else(c->tier, token, &rng);
        } else {
            pc__segment_unref(*slot);
            *slot = get_or_put(c->tier, token, &rng);
            if (*slot && (*slot)->token_ids[0] != token)
                return arg;
        }
        if (i % CHECK_EVERY == 0)
            measure();
    }
    for (int i = 0; i < HELD; i++)
        pc__segment_unref(held[i]);
    return NULL;
}

int main(void)
{
    const char *wanted = getenv("PC_CHURN");
    uint64_t operations = wanted ? strtoull(wanted, NULL, 10) : 100000;
    churn c[THREADS];
    pthread_t ids[THREADS];
    pc__resident *t = NULL;
    pc_tier_stats s = PC_TIER_STATS_INIT;
    /* held by the threads, one more each that is being computed, and what is evicted and not freed yet */
    uint64_t theirs = THREADS * (HELD + 2) * LARGEST;
    CHECK_OK(pc__resident_new(&t, &pc__libc_allocator, &(pc__resident_options){.budget = BUDGET}));
    at_start = resident_bytes();
    for (int i = 0; i < THREADS; i++) {
        c[i] = (churn){t, operations / THREADS, (uint64_t)i + 1};
        CHECK_INT(pthread_create(&ids[i], NULL, work, &c[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        void *wrong = t;
        pthread_join(ids[i], &wrong);
        CHECK(wrong == NULL);
    }
    measure();
    pc__resident_stats(t, &s);
    CHECK_INT(s.stored + s.refused + s.failed + s.known, s.offered);
    CHECK_INT(s.resident + s.evicted + s.removed + s.lost, s.stored);
    CHECK(s.evicted > operations / 10 && s.hits > operations / 10);
    CHECK(s.removed > 0 || operations < 100000);
    CHECK(s.resident_bytes <= BUDGET);
    printf("%llu operations: %llu hits, %llu stored, %llu evicted, %llu refused; the process grew by %.1f MiB at most, budget %.0f, held %.0f\n",
           (unsigned long long)operations, (unsigned long long)s.hits, (unsigned long long)s.stored, (unsigned long long)s.evicted,
           (unsigned long long)s.refused, (double)atomic_load(&most) / 1048576, (double)BUDGET / 1048576, (double)theirs / 1048576);
    if (MEASURES_MEMORY)
        CHECK(atomic_load(&most) <= BUDGET + theirs + ALLOWED);
    pc__resident_free(t);
    return pc_test_end();
}
