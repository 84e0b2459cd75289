/* Catches: a store that holds more than its budget, or whose process grows by more than that.
 * Several threads make 100,000 operations (24,000 under sanitizers; PC_CHURN=1000000 for more):
 * puts of all sizes, gets, pins, clears, quotas and room for loads, with memory that is really
 * used.
 *
 * Every block belongs to the store or to the thread that computes it: to the thread until its put
 * has returned, and for good if the put was refused. Every allocation is counted. What the store
 * holds, with its tables and with evicted segments that are not freed yet, never exceeds the
 * budget. The process's own memory, with stacks and the holes that malloc leaves between blocks, is
 * read while no thread is within an operation: since the start it has grown by the budget at most,
 * beside what the threads hold. The counters balance. */
#include <promptcache/cache.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "store/ram/ram_tier.h"
#include "testing.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define MEASURES_MEMORY 0 /* sanitizers need memory of their own, and time */
#define OPERATIONS 24000
#else
#define MEASURES_MEMORY 1
#define OPERATIONS 100000
#endif

#define BUDGET (UINT64_C(64) << 20)
#define LARGEST (UINT64_C(1) << 20)
#define SMALLEST UINT64_C(2048)
enum { THREADS = 3, HELD = 4, KEYS = 4000, CHECK_EVERY = 500, CLEAR_EVERY = 5000 };

static atomic_int_fast64_t kept, kept_most;      /* bytes that the store holds */
static atomic_int_fast64_t in_hands, hands_most; /* of the threads */
static atomic_int_fast64_t
    grown_most; /* of the process since `at_start`, beside what is in hands */
static int64_t at_start;

static void raise_to(atomic_int_fast64_t *most, int64_t now)
{
    int64_t seen = atomic_load(most);
    while (now > seen && !atomic_compare_exchange_weak(most, &seen, now))
        ;
}

static void keep(int64_t bytes)
{
    raise_to(&kept_most, atomic_fetch_add(&kept, bytes) + bytes);
}

static void take_in_hands(int64_t bytes)
{
    raise_to(&hands_most, atomic_fetch_add(&in_hands, bytes) + bytes);
}

static void *keep_alloc(void *user, size_t size, size_t align)
{
    (void)user;
    keep((int64_t)size);
    return pc__libc_allocator.alloc(NULL, size, align);
}

static void keep_free(void *user, void *ptr, size_t size, size_t align)
{
    (void)user;
    pc__libc_allocator.free(NULL, ptr, size, align);
    keep(-(int64_t)size);
}

static const pc_allocator keeping = {sizeof(pc_allocator), NULL, keep_alloc, keep_free};

/* Pages are counted one after the other: if others came and went meanwhile, moved ones would count
 * twice. */
static pthread_rwlock_t at_work;

static void new_lock(void)
{
    pthread_rwlockattr_t kind;
    pthread_rwlockattr_init(&kind);
    pthread_rwlockattr_setkind_np(&kind, PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP);
    CHECK_INT(pthread_rwlock_init(&at_work, &kind), 0);
    pthread_rwlockattr_destroy(&kind);
}

/* Memory of the process, without mapped files. */
static int64_t own_bytes(void)
{
    char line[4096];
    long long kib, sum = 0;
    FILE *f = fopen("/proc/self/smaps", "r");
    while (f && fgets(line, sizeof line, f))
        if (sscanf(line, "Anonymous: %lld kB", &kib) == 1)
            sum += kib;
    if (f)
        fclose(f);
    return (int64_t)sum * 1024;
}

static void measure(void)
{
    pthread_rwlock_wrlock(&at_work);
    raise_to(&grown_most, own_bytes() - at_start - atomic_load(&in_hands));
    pthread_rwlock_unlock(&at_work);
}

/* States as the library's own models have them. */
typedef struct states {
    atomic_uint free_to_system;
    void *memory;
    int64_t bytes; /* of all that is allocated with a segment */
    int is_kept;   /* by the store */
} states;

/* From the threads to the store, or back. */
static void hand_over(states *s, int to_store)
{
    if (to_store)
        keep(s->bytes);
    take_in_hands(to_store ? -s->bytes : s->bytes);
    if (!to_store)
        keep(-s->bytes);
    s->is_kept = to_store;
}

static void release(void *owner, void *payload)
{
    states *s = payload;
    int64_t bytes = s->bytes;
    int was_kept = s->is_kept;
    (void)owner;
    (atomic_load(&s->free_to_system) ? pc__free_to_system : pc__free)(&pc__libc_allocator,
                                                                      s->memory);
    pc__free(&pc__libc_allocator, s);
    if (was_kept)
        keep(-bytes);
    else
        take_in_hands(-bytes);
}

static void free_to_system(void *owner, void *payload)
{
    (void)owner;
    atomic_store(&((states *)payload)->free_to_system, 1);
}

static const pc__payload_ops ops = {.release = release, .free_to_system = free_to_system};

/* `is_kept`: the store has taken room for it. */
static pc_segment *compute(int32_t token, uint64_t bytes, int is_kept)
{
    enum { HEADERS = 3 * 16 + 64 }; /* before its blocks (base/mem.h) */
    pc_segment *segment = NULL;
    states *s = pc__calloc(&pc__libc_allocator, 1, sizeof *s);
    s->bytes = (int64_t)(bytes + sizeof *s + sizeof *segment + sizeof token + HEADERS);
    take_in_hands(s->bytes);
    if (is_kept)
        hand_over(s, 1);
    s->memory = pc__alloc_aligned(&pc__libc_allocator, bytes, 64);
    memset(s->memory, token, bytes);
    if (pc__segment_new(&segment, &pc__libc_allocator, &ops, s, NULL, bytes, &token, 1) < 0)
        release(NULL, s);
    return segment;
}

/* PC_OK, and the store has the segment. The thread still has a reference, so that it is neither
 * freed nor stored twice. */
static pc_segment *put(pc__ram_tier *t, const pc__entry_desc *desc, pc_segment *computed)
{
    pc_segment *winner = NULL;
    states *s = computed->payload;
    uint32_t reason;
    if (s->is_kept)
        hand_over(s, 0);
    pc__ram_tier_put(t, desc, computed, &winner, &reason);
    if (!winner)
        return computed;
    if (winner == computed)
        hand_over(s, 1);
    pc__segment_unref(computed);
    return winner;
}

static pc__id id_of(int32_t n)
{
    pc__id id = {{0}};
    memcpy(id.bytes, &n, sizeof n);
    return id;
}

/* Between the smallest and the largest; all orders of magnitude are equally likely. */
static uint64_t any_size(pc_test_rng *rng)
{
    uint64_t size = SMALLEST << pc_test_bits(rng) % 9;
    return size + pc_test_bits(rng) % size;
}

static pc_segment *get_or_put(pc__ram_tier *t, int32_t token, pc_test_rng *rng)
{
    pc__id key = id_of(token), parent = id_of(token - 1), salt = id_of(-token % 3);
    pc_segment *segment = NULL;
    uint32_t reason;
    if (pc__ram_tier_get(t, &key, &token, 1, &segment, &reason) == PC_OK)
        return segment;
    return put(t,
               &(pc__entry_desc){.key = key,
                                 .parent = token % 8 ? &parent : NULL,
                                 .salt = &salt,
                                 .cost = 1,
                                 .priority = token % 50 == 7},
               compute(token, any_size(rng), 0));
}

static void do_something_else(pc__ram_tier *t, int32_t token, pc_test_rng *rng)
{
    pc__id key = id_of(token), salt = id_of(-token % 3);
    uint64_t owner = pc_test_bits(rng) % 4, bytes = any_size(rng);
    switch (pc_test_bits(rng) % 7) {
    case 0:
        pc__ram_tier_pin(t, &key, owner, 0.001);
        break;
    case 1:
        pc__ram_tier_pin(t, &key, owner, 0);
        break;
    case 2:
    case 3:
        pc__ram_tier_unpin_owner(t, owner);
        break;
    case 4:
        pc__ram_tier_set_quota(t, &salt, token % 2 ? BUDGET / 3 : 0);
        break;
    case 5:
        if (pc__ram_tier_reserve(t, NULL, pc__ram_tier_entry_bytes(bytes, 1), 0, NULL)
            == PC_OK) /* a load: its memory comes after its room */
            pc__segment_unref(put(t,
                                  &(pc__entry_desc){.key = key,
                                                    .cost = 1,
                                                    .reserved = pc__ram_tier_entry_bytes(bytes, 1)},
                                  compute(token, bytes, 1)));
        break;
    default:
        pc__ram_tier_sweep(t);
        break;
    }
}

typedef struct churn {
    pc__ram_tier *tier;
    uint64_t operations, seed;
} churn;

static int operation(churn *c, uint64_t i, pc_segment **slot, pc_test_rng *rng)
{
    int32_t token = (int32_t)(pc_test_bits(rng) % 2 ? pc_test_bits(rng) % KEYS
                                                    : pc_test_bits(rng) % (KEYS / 20));
    if (i % CLEAR_EVERY == CLEAR_EVERY - 1)
        pc__ram_tier_clear(c->tier);
    if (i % 10 == 9) {
        do_something_else(c->tier, token, rng);
        return 1;
    }
    pc__segment_unref(*slot);
    *slot = get_or_put(c->tier, token, rng);
    return !*slot || (*slot)->token_ids[0] == token;
}

static void *work(void *arg)
{
    churn *c = arg;
    pc_test_rng rng = {c->seed};
    pc_segment *held[HELD] = {NULL};
    int is_right = 1;
    for (uint64_t i = 0; i < c->operations && is_right; i++) {
        pthread_rwlock_rdlock(&at_work);
        is_right = operation(c, i, &held[i % HELD], &rng);
        pthread_rwlock_unlock(&at_work);
        if (i % CHECK_EVERY == 0)
            measure();
    }
    for (int i = 0; i < HELD; i++)
        pc__segment_unref(held[i]);
    return is_right ? NULL : arg;
}

static void run(pc__ram_tier *t, uint64_t operations, uint64_t seed)
{
    churn c[THREADS];
    pthread_t ids[THREADS];
    for (int i = 0; i < THREADS; i++) {
        c[i] = (churn){t, operations / THREADS, seed + (uint64_t)i};
        CHECK_INT(pthread_create(&ids[i], NULL, work, &c[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        void *wrong = t;
        pthread_join(ids[i], &wrong);
        CHECK(wrong == NULL);
    }
    measure();
}

static double mib(int64_t bytes)
{
    return (double)bytes / 1048576;
}

int main(void)
{
    const char *wanted = getenv("PC_CHURN");
    uint64_t operations = wanted ? strtoull(wanted, NULL, 10) : OPERATIONS;
    pc__ram_tier *t = NULL;
    pc_tier_stats s = PC_TIER_STATS_INIT;
    new_lock();
    at_start = own_bytes();
    CHECK(at_start > 0);
    CHECK_OK(pc__ram_tier_new(&t, &keeping, &(pc__ram_tier_options){.budget = BUDGET}));
    run(t, operations, 1);
    pc__ram_tier_stats(t, &s);
    CHECK_INT(s.stored + s.refused + s.failed + s.known, s.offered);
    CHECK_INT(s.segments + s.evicted + s.removed + s.lost, s.stored);
    CHECK(s.evicted > operations / 10 && s.hits > operations / 10);
    CHECK(s.removed > 0 || operations < THREADS * CLEAR_EVERY);
    CHECK(s.segment_bytes <= BUDGET);
    CHECK_INT(atomic_load(&in_hands), 0);
    printf("%llu operations: %llu hits, %llu stored, %llu evicted, %llu refused\n",
           (unsigned long long)operations, (unsigned long long)s.hits, (unsigned long long)s.stored,
           (unsigned long long)s.evicted, (unsigned long long)s.refused);
    printf("of a budget of %.0f MiB the store held %.2f at most; the process grew by %.2f at most, "
           "beside what was in the threads' hands, %.2f at most\n",
           mib(BUDGET), mib(atomic_load(&kept_most)), mib(atomic_load(&grown_most)),
           mib(atomic_load(&hands_most)));
    CHECK(atomic_load(&kept_most) <= (int64_t)BUDGET);
    if (MEASURES_MEMORY)
        CHECK(atomic_load(&grown_most) <= (int64_t)BUDGET);
    pc__ram_tier_free(t);
    CHECK_INT(atomic_load(&kept), 0);
    return pc_test_end();
}
