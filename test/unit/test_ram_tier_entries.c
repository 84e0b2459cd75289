/* Catches a RAM tier that evicts others than the lowest scores, more than it must, or some for
 * nothing; reserves what it may not, or refuses what it could: random operations against a simple
 * model that computes everything anew. */
#include "store/ram/ram_tier.h"

#include <promptcache/cache.h>
#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "testing.h"

enum { SLOTS = 36, TENANTS = 3, OWNERS = 3, STEPS = 30000 };
#define BUDGET UINT64_C(60000)

/* A model entry. Keys are used once, so that no heat is remembered of evicted ones. */
typedef struct known {
    int there;
    uint32_t number; /* the key */
    uint32_t parent; /* 0: nothing */
    uint64_t bytes;
    double heat, value;
    int32_t priority;
    int tenant;
    pc_segment *held[4];
    int holders;
    unsigned owners; /* bits */
    int internal;
} known;

typedef struct model {
    pc__ram_tier *tier;
    known slots[SLOTS];
    uint64_t quotas[TENANTS], taken, evicted, less;
    uint32_t numbers;
    double clock;
    pc_test_rng rng;
} model;

static void release(void *owner, void *payload)
{
    (void)owner;
    (void)payload;
}

static const pc__payload_ops ops = {.release = release};

static pc__id id_of(uint32_t n)
{
    pc__id id = {{0}};
    memcpy(id.bytes, &n, sizeof n);
    return id;
}

static uint64_t random_of(model *m, uint64_t n)
{
    return pc_test_bits(&m->rng) % n;
}

static uint64_t bytes_of(const model *m, int tenant)
{
    uint64_t sum = 0;
    for (int i = 0; i < SLOTS; i++)
        sum += m->slots[i].there && (tenant < 0 || m->slots[i].tenant == tenant) ? m->slots[i].bytes
                                                                                 : 0;
    return sum;
}

/* Of those that are not marked as gone. */
static int is_seen(const model *m, uint32_t number, const unsigned char *gone)
{
    for (int i = 0; i < SLOTS; i++)
        if (m->slots[i].there && !gone[i] && m->slots[i].parent == number)
            return 1;
    return 0;
}

static int least(const model *m, int tenant, uint32_t spared, const unsigned char *gone)
{
    int best = -1;
    for (int i = 0; i < SLOTS; i++) {
        const known *k = &m->slots[i];
        if (!k->there || gone[i] || (tenant >= 0 && k->tenant != tenant) || k->holders || k->owners
            || k->internal || k->number == spared || is_seen(m, k->number, gone))
            continue;
        if (best < 0 || k->priority < m->slots[best].priority
            || (k->priority == m->slots[best].priority
                && k->heat + k->value < m->slots[best].heat + m->slots[best].value))
            best = i;
    }
    return best;
}

/* Marks the entries to evict; 0: not enough may be. */
static int choose(const model *m, int tenant, int32_t priority, uint32_t spared, uint64_t excess,
                  unsigned char *gone)
{
    uint64_t freed = 0;
    while (freed < excess) {
        int i = least(m, tenant, spared, gone);
        if (i < 0 || m->slots[i].priority > priority)
            return 0;
        gone[i] = 1;
        freed += m->slots[i].bytes;
    }
    return 1;
}

static uint32_t make_room(model *m, uint64_t need, int32_t priority, int tenant, uint32_t parent)
{
    unsigned char gone[SLOTS] = {0};
    uint64_t quota = tenant >= 0 ? m->quotas[tenant] : 0,
             have = tenant >= 0 ? bytes_of(m, tenant) : 0, used = bytes_of(m, -1) + m->taken;
    if (quota && have + need > quota
        && (need > quota || !choose(m, tenant, priority, parent, have + need - quota, gone)))
        return PC_REASON_QUOTA;
    for (int i = 0; i < SLOTS; i++)
        used -= gone[i] ? m->slots[i].bytes : 0;
    if (used + need > BUDGET
        && (need > BUDGET || !choose(m, -1, priority, parent, used + need - BUDGET, gone)))
        return PC_REASON_NO_ROOM;
    for (int i = 0; i < SLOTS; i++)
        if (gone[i]) {
            m->slots[i].there = 0;
            m->evicted++;
        }
    return PC_REASON_NONE;
}

static pc__id salt_of(int tenant)
{
    return id_of(1000000 + (uint32_t)tenant);
}

/* 1: the chain of parents of `number` leads to `to`; true keys never form a cycle. */
static int leads_to(const model *m, uint32_t number, uint32_t to)
{
    for (int i = 0; i < SLOTS && number != to; i++)
        if (m->slots[i].there && m->slots[i].number == number) {
            number = m->slots[i].parent;
            i = -1;
        }
    return number == to;
}

static void put(model *m, known *k)
{
    int32_t token = (int32_t)++m->numbers;
    const known *other = &m->slots[random_of(m, SLOTS)];
    known fresh = {.number = (uint32_t)token,
                   .tenant = (int)random_of(m, TENANTS),
                   .priority = (int32_t)random_of(m, 5) / 4};
    uint64_t bytes = 100 + random_of(m, random_of(m, 8) ? 6000 : 50000);
    double cost = 0.001 + (double)pc_test_uniform(&m->rng);
    uint32_t reason = 99, want;
    pc__id salt = salt_of(fresh.tenant), parent;
    pc_segment *segment = NULL;
    if (random_of(m, 3))
        fresh.parent = other->there ? other->number
                                    : (uint32_t)token + 1; /* perhaps what comes next */
    if (leads_to(m, fresh.parent, fresh.number))
        fresh.parent = 0;
    parent = id_of(fresh.parent);
    fresh.bytes = pc__ram_tier_entry_bytes(bytes, 1) - m->less;
    want = make_room(m, fresh.bytes, fresh.priority, fresh.tenant, fresh.parent);
    CHECK_OK(pc__segment_new(&segment, &pc__libc_allocator, &ops, m, NULL, bytes, &token, 1));
    CHECK_STATUS(pc__ram_tier_put(m->tier,
                                  &(pc__entry_desc){.key = id_of(fresh.number),
                                                    .parent = fresh.parent ? &parent : NULL,
                                                    .salt = &salt,
                                                    .cost = cost,
                                                    .priority = fresh.priority},
                                  segment, NULL, &reason),
                 want ? PC_MISS : PC_OK);
    CHECK_INT(reason, want);
    if (!want) {
        m->clock += (double)fresh.bytes / (0.3 * (double)BUDGET);
        fresh.heat = m->clock - 1;
        fresh.value = 0.25 * log2(cost / (double)fresh.bytes);
        fresh.there = 1;
        *k = fresh;
    }
    if (!want && random_of(m, 4) == 0) /* it has its own reference */
        k->held[k->holders++] = segment;
    else
        pc__segment_unref(segment);
}

static void get(model *m, known *k)
{
    pc__id key = id_of(k->number);
    int32_t token = (int32_t)k->number;
    uint32_t reason;
    pc_segment *segment;
    double more = k->heat > m->clock ? k->heat : m->clock,
           less = k->heat > m->clock ? m->clock : k->heat;
    CHECK_OK(pc__ram_tier_get(m->tier, &key, &token, 1, &segment, &reason));
    k->heat = more + log2(1 + exp2(less - more));
    if (segment && k->holders < 4 && random_of(m, 3) == 0)
        k->held[k->holders++] = segment;
    else
        pc__segment_unref(segment);
}

static void pin(model *m, known *k)
{
    pc__id key = id_of(k->number);
    uint64_t owner = random_of(m, OWNERS);
    switch (random_of(m, 6)) {
    case 0:
        CHECK_OK(pc__ram_tier_pin(m->tier, &key, owner, 0));
        k->owners |= 1u << owner;
        break;
    case 1:
        CHECK_STATUS(pc__ram_tier_unpin(m->tier, &key, owner),
                     k->owners >> owner & 1 ? PC_OK : PC_MISS);
        k->owners &= ~(1u << owner);
        break;
    case 2:
        CHECK_OK(pc__ram_tier_pin(m->tier, &key, PC__PIN_INTERNAL, 0));
        k->internal++;
        break;
    case 3:
    case 4:
        CHECK_STATUS(pc__ram_tier_unpin(m->tier, &key, PC__PIN_INTERNAL),
                     k->internal ? PC_OK : PC_ERR_STATE);
        k->internal -= k->internal > 0;
        break;
    default:
        pc__ram_tier_unpin_owner(m->tier, owner);
        for (int i = 0; i < SLOTS; i++)
            m->slots[i].owners &= ~(1u << owner);
    }
}

static void load(model *m)
{
    uint64_t bytes = random_of(m, 20000);
    uint32_t want;
    if (m->taken) {
        pc__ram_tier_unreserve(m->tier, m->taken);
        m->taken = 0;
        return;
    }
    want = make_room(m, bytes, INT32_MAX, -1, 0);
    CHECK_STATUS(pc__ram_tier_reserve(m->tier, NULL, bytes, 0, NULL), want ? PC_MISS : PC_OK);
    m->taken = want ? 0 : bytes;
}

static void set_quota(model *m)
{
    int tenant = (int)random_of(m, TENANTS);
    pc__id salt = salt_of(tenant);
    uint64_t quota = random_of(m, 3) ? 0 : 8000 + random_of(m, 30000), have;
    m->quotas[tenant] = quota;
    for (int i; quota && (have = bytes_of(m, tenant)) > quota
                && (i = least(m, tenant, 0, (unsigned char[SLOTS]){0})) >= 0;) {
        m->slots[i].there = 0;
        m->evicted++;
    }
    CHECK_OK(pc__ram_tier_set_quota(m->tier, &salt, quota));
}

static void clear(model *m)
{
    pc__ram_tier_clear(m->tier);
    for (int i = 0; i < SLOTS; i++)
        m->slots[i].there &= m->slots[i].holders || m->slots[i].owners || m->slots[i].internal;
}

static void step(model *m)
{
    known *k = &m->slots[random_of(m, SLOTS)];
    uint64_t what = random_of(m, 200);
    if (what == 0)
        clear(m);
    else if (what < 4)
        set_quota(m);
    else if (what < 14)
        load(m);
    else if (!k->there && !k->holders)
        put(m, k);
    else if (k->holders && what < 120)
        pc__segment_unref(k->held[--k->holders]);
    else if (k->there && what < 150)
        get(m, k);
    else if (k->there)
        pin(m, k);
}

static void compare(const model *m)
{
    pc_tier_stats s = PC_TIER_STATS_INIT;
    uint64_t count = 0, pinned = 0;
    pc__ram_tier_stats(m->tier, &s);
    for (int i = 0; i < SLOTS; i++) {
        const known *k = &m->slots[i];
        pc__id key = id_of(k->number);
        CHECK_INT(pc__ram_tier_has(m->tier, &key), k->number && k->there);
        count += k->there ? 1 : 0;
        pinned += k->there && (k->owners || k->internal) ? k->bytes : 0;
    }
    CHECK_INT(s.segments, count);
    CHECK_INT(s.evicted, m->evicted);
    CHECK_INT(s.segment_bytes, bytes_of(m, -1) + m->taken);
    CHECK_INT(s.pinned_bytes, pinned);
    CHECK_INT(s.staging_bytes, m->taken);
    CHECK_INT(s.stored, s.segments + s.evicted + s.removed);
    CHECK_INT(s.offered, s.stored + s.refused + s.failed + s.known);
    CHECK(s.segment_bytes <= BUDGET);
}

/* An entry may count less than the most for its size, by the same for all sizes. */
static uint64_t less_than_most(void)
{
    pc__ram_tier *t = NULL;
    pc_tier_stats s = PC_TIER_STATS_INIT;
    pc_segment *segment = NULL;
    uint32_t reason;
    int32_t token = 1;
    CHECK_OK(pc__ram_tier_new(&t, &pc__libc_allocator, &(pc__ram_tier_options){.budget = BUDGET}));
    CHECK_OK(pc__segment_new(&segment, &pc__libc_allocator, &ops, t, NULL, 1000, &token, 1));
    CHECK_OK(pc__ram_tier_put(t, &(pc__entry_desc){.key = id_of(1)}, segment, NULL, &reason));
    pc__segment_unref(segment);
    pc__ram_tier_stats(t, &s);
    pc__ram_tier_free(t);
    CHECK(s.segment_bytes > 1000);
    return pc__ram_tier_entry_bytes(1000, 1) - s.segment_bytes;
}

/* Pages at the ends of a large block count, those of a small one do not. */
static void pages_around(void)
{
    uint64_t around[5], sizes[5] = {8191, 8192, 32768, 65536, 1 << 20};
    for (int i = 0; i < 5; i++)
        around[i] = pc__ram_tier_entry_bytes(sizes[i], 1) - sizes[i]
                    - (pc__ram_tier_entry_bytes(1000, 1) - 1000);
    CHECK_INT(around[0], 0);
    CHECK_INT(around[1], 8192 * 3 / 8);
    CHECK_INT(around[2], 32768 * 3 / 8);
    CHECK_INT(around[3], 6 * 4096);
    CHECK_INT(around[4], 6 * 4096);
}

int main(void)
{
    pages_around();
    for (uint64_t seed = 1; seed <= 4; seed++) {
        model m = {.rng = {seed}, .less = less_than_most()};
        CHECK_OK(pc__ram_tier_new(&m.tier, &pc__libc_allocator,
                                  &(pc__ram_tier_options){.budget = BUDGET}));
        for (int i = 0; i < STEPS; i++) {
            step(&m);
            if (i % 7 == 0)
                compare(&m);
        }
        compare(&m);
        CHECK(m.evicted > STEPS / 40);
        for (int i = 0; i < SLOTS; i++)
            while (m.slots[i].holders)
                pc__segment_unref(m.slots[i].held[--m.slots[i].holders]);
        pc__ram_tier_free(m.tier);
    }
    return pc_test_end();
}
