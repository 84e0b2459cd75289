/* Catches a RAM tier that exceeds its budget or evicts without need; evicts a pinned or used entry,
 * a higher priority, another tenant's entry, or a parent of one that stays; serves expired entries;
 * forgets to zero; calls the application under its lock; counts wrongly; leaks when memory is
 * short; or is not safe between threads (also run under ThreadSanitizer). Which entries are
 * evicted: test_ram_tier_entries.c. */
#include "store/ram/ram_tier.h"

#include <promptcache/cache.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/mem.h"
#include "testing.h"

static atomic_int live, wiped; /* payloads */

static void release(void *owner, void *payload)
{
    (void)owner;
    free(payload);
    atomic_fetch_sub(&live, 1);
}

static void zero_memory(void *owner, void *payload)
{
    (void)owner;
    *(char *)payload = 0;
    atomic_fetch_add(&wiped, 1);
}

static const pc__payload_ops ops = {.release = release, .zero_memory = zero_memory};

static pc_segment *make(const pc_allocator *mem, int32_t token, uint64_t bytes)
{
    pc_segment *segment = NULL;
    void *payload = calloc(1, 1);
    if (pc__segment_new(&segment, mem, &ops, payload, NULL, bytes, &token, 1) < 0)
        free(payload);
    else
        atomic_fetch_add(&live, 1);
    return segment;
}

static pc__id id_of(int32_t n)
{
    pc__id id = {{0}};
    memcpy(id.bytes, &n, sizeof n);
    return id;
}

static pc__ram_tier *new_tier(const pc__ram_tier_options *options)
{
    pc__ram_tier *t = NULL;
    CHECK_OK(pc__ram_tier_new(&t, &pc__libc_allocator, options));
    return t;
}

static pc_status put_as(pc__ram_tier *t, const pc__entry_desc *desc, int32_t token, uint64_t bytes,
                        uint32_t *reason)
{
    pc_segment *segment = make(&pc__libc_allocator, token, bytes);
    pc_status status = pc__ram_tier_put(t, desc, segment, NULL, reason);
    pc__segment_unref(segment);
    return status;
}

static pc_status put(pc__ram_tier *t, int32_t token, uint64_t bytes)
{
    uint32_t reason;
    return put_as(t, &(pc__entry_desc){.key = id_of(token), .cost = 1}, token, bytes, &reason);
}

static pc_segment *get(pc__ram_tier *t, int32_t token, uint32_t *reason)
{
    pc_segment *segment = NULL;
    pc__id key = id_of(token);
    pc_status status = pc__ram_tier_get(t, &key, &token, 1, &segment, reason);
    CHECK((status == PC_OK) == (segment != NULL));
    CHECK(status == PC_OK || status == PC_MISS);
    return segment;
}

static int has(pc__ram_tier *t, int32_t token)
{
    pc__id key = id_of(token);
    return pc__ram_tier_has(t, &key);
}

static pc_tier_stats balanced(pc__ram_tier *t)
{
    pc_tier_stats s = PC_TIER_STATS_INIT;
    pc__ram_tier_stats(t, &s);
    CHECK_INT(s.stored + s.refused + s.failed + s.known, s.offered);
    CHECK_INT(s.segments + s.evicted + s.removed + s.lost, s.stored);
    CHECK_INT(s.hits + s.misses + s.load_failed, s.lookups);
    CHECK(s.segment_bytes <= s.budget_bytes);
    CHECK(s.pinned_bytes + s.staging_bytes <= s.segment_bytes);
    return s;
}

static void nap(double seconds)
{
    struct timespec t = {(time_t)seconds, (long)((seconds - (double)(time_t)seconds) * 1e9)};
    nanosleep(&t, NULL);
}

/* -------------------------------------------------------------------- pins */

static void pins(void)
{
    pc__ram_tier *t = new_tier(&(pc__ram_tier_options){.budget = 10000});
    pc__id one = id_of(1), none = id_of(9);
    CHECK_OK(put(t, 1, 4000));
    CHECK_STATUS(pc__ram_tier_pin(t, &none, 7, 0), PC_MISS);
    CHECK_STATUS(pc__ram_tier_unpin(t, &none, 7), PC_MISS);
    CHECK_STATUS(pc__ram_tier_unpin(t, &one, 7), PC_MISS);
    CHECK_STATUS(pc__ram_tier_unpin(t, &one, PC__PIN_INTERNAL), PC_ERR_STATE);
    CHECK_OK(pc__ram_tier_pin(t, &one, 7, 0));
    CHECK_OK(pc__ram_tier_pin(t, &one, 7, 0));   /* once all the same */
    CHECK_OK(pc__ram_tier_pin(t, &one, 8, 0.4)); /* a busy machine may stall */
    CHECK_OK(pc__ram_tier_pin(t, &one, PC__PIN_INTERNAL, 0));
    CHECK_OK(pc__ram_tier_pin(t, &one, PC__PIN_INTERNAL, 0)); /* counted */
    CHECK_OK(pc__ram_tier_unpin(t, &one, 7));
    CHECK_STATUS(put(t, 2, 7000), PC_MISS);
    pc__ram_tier_clear(t);
    CHECK(has(t, 1));
    CHECK_OK(pc__ram_tier_unpin(t, &one, PC__PIN_INTERNAL));
    CHECK_OK(pc__ram_tier_unpin(t, &one, PC__PIN_INTERNAL));
    CHECK(balanced(t).pinned_bytes > 4000); /* 8 has some time left */
    nap(0.45);
    CHECK_OK(put(t, 2, 7000)); /* its time is over */
    CHECK(!has(t, 1) && has(t, 2));
    CHECK_INT(balanced(t).pinned_bytes, 0);
    pc__id two = id_of(2);
    CHECK_OK(pc__ram_tier_pin(t, &two, 8, 0.01));
    CHECK_OK(pc__ram_tier_pin(t, &two, 8, 0)); /* moves the end: there is none now */
    nap(0.02);
    pc__ram_tier_sweep(t);
    CHECK(balanced(t).pinned_bytes > 7000);
    pc__ram_tier_unpin_owner(t, 9);
    CHECK(balanced(t).pinned_bytes > 7000);
    pc__ram_tier_unpin_owner(t, 8);
    CHECK_INT(balanced(t).pinned_bytes, 0);
    pc__ram_tier_free(t);
}

static void pins_of_owners(void)
{
    pc__ram_tier *t = new_tier(&(pc__ram_tier_options){.budget = 10000000});
    for (int32_t i = 0; i < 300; i++) {
        pc__id key = id_of(i);
        CHECK_OK(put(t, i, 100));
        for (uint64_t owner = 0; owner < 5; owner++)
            if ((uint64_t)i % 5 >= owner)
                CHECK_OK(pc__ram_tier_pin(t, &key, owner, 0));
    }
    for (uint64_t owner = 0; owner < 5; owner++) {
        pc__ram_tier_unpin_owner(t, owner);
        pc__ram_tier_clear(t);
        CHECK_INT(balanced(t).segments, 300 - 60 * (owner + 1));
    }
    CHECK_INT(balanced(t).pinned_bytes, 0);
    pc__ram_tier_free(t);
}

/* -------------------------------------------------------------------- time */

static void times(void)
{
    pc__ram_tier *t = new_tier(&(pc__ram_tier_options){.budget = 100000, .ttl = 0.5});
    pc__id long_lived = id_of(2), pinned = id_of(3);
    uint32_t reason;
    CHECK_OK(put(t, 1, 100));
    CHECK_OK(put_as(t, &(pc__entry_desc){.key = long_lived, .ttl = 100}, 2, 100, &reason));
    CHECK_OK(put(t, 3, 100));
    CHECK_OK(put(t, 4, 100));
    CHECK_OK(pc__ram_tier_pin(t, &pinned, 1, 0));
    for (int i = 0; i < 4; i++) { /* each hit moves its end; a busy machine may stall for a while */
        nap(0.2);
        pc__segment_unref(get(t, 1, &reason));
        CHECK_INT(reason, PC_REASON_NONE);
    }
    CHECK(!has(t, 4));
    CHECK(has(t, 1) && has(t, 2) && has(t, 3));
    CHECK(!get(t, 4, &reason));
    CHECK_INT(reason, PC_REASON_EXPIRED);
    CHECK(!get(t, 4, &reason));
    CHECK_INT(reason, PC_REASON_FIRST_USE); /* it is gone */
    CHECK_OK(put(t, 4, 100));
    CHECK_INT(balanced(t).stored, 5);
    CHECK_OK(pc__ram_tier_unpin(t, &pinned, 1));
    CHECK(!has(t, 3)); /* its time was over while it was pinned */
    nap(0.6);
    pc_segment *held = NULL;
    CHECK_OK(put(t, 5, 100));
    held = get(t, 5, &reason);
    nap(0.6);
    pc__ram_tier_sweep(t);
    CHECK_INT(balanced(t).segments,
              1); /* 2; an expired segment in use is not returned again either */
    CHECK(held && held->token_ids[0] == 5);
    pc__segment_unref(held);
    pc__ram_tier_free(t);
}

/* -------------------------------------------- priorities, quotas, chains, loads */

static void priorities(void)
{
    pc__ram_tier *t = new_tier(&(pc__ram_tier_options){.budget = 15000});
    uint32_t reason;
    CHECK_OK(put_as(t, &(pc__entry_desc){.key = id_of(1), .priority = 5, .cost = 1e-6}, 1, 6000,
                    &reason));
    CHECK_OK(put_as(t, &(pc__entry_desc){.key = id_of(2), .priority = 1, .cost = 1e6}, 2, 6000,
                    &reason));
    CHECK_STATUS(put(t, 3, 6000), PC_MISS); /* priority 0 */
    CHECK_INT(pc__ram_tier_reserve(t, &(pc__entry_desc){.key = id_of(3)}, 6000, 0, &reason),
              PC_MISS);
    CHECK_INT(reason, PC_REASON_NO_ROOM);
    CHECK_OK(put_as(t, &(pc__entry_desc){.key = id_of(4), .priority = 2}, 4, 6000, &reason));
    CHECK(has(t, 1) && !has(t, 2) && has(t, 4));
    CHECK_STATUS(put_as(t, &(pc__entry_desc){.key = id_of(5), .priority = 2}, 5, 12000, &reason),
                 PC_MISS);
    CHECK(has(t, 1) && has(t, 4)); /* not enough: none has gone */
    CHECK_INT(balanced(t).evicted, 1);
    pc__ram_tier_free(t);
}

static void quotas(void)
{
    pc__ram_tier *t = new_tier(&(pc__ram_tier_options){.budget = 100000, .salt = id_of(70)});
    pc__id mine = id_of(70), theirs = id_of(71);
    uint32_t reason;
    CHECK_OK(put_as(t, &(pc__entry_desc){.key = id_of(100), .salt = &theirs, .cost = 1e-6}, 100,
                    8000, &reason)); /* worth nothing */
    for (int32_t i = 0; i < 3; i++)
        CHECK_OK(put(t, i, 8000)); /* of the cache's own salt */
    CHECK_OK(pc__ram_tier_set_quota(t, &mine, 20000));
    CHECK_INT(balanced(t).segments, 3); /* shrunk */
    CHECK(!has(t, 0) && has(t, 1) && has(t, 2));
    CHECK_OK(
        put_as(t, &(pc__entry_desc){.key = id_of(3), .salt = &mine, .cost = 1}, 3, 8000, &reason));
    CHECK(!has(t, 1) && has(t, 2) && has(t, 3)
          && has(t, 100)); /* its own entry, not the one with the lower score */
    CHECK_STATUS(put_as(t, &(pc__entry_desc){.key = id_of(4)}, 4, 20001, &reason), PC_MISS);
    CHECK_INT(reason, PC_REASON_QUOTA);
    CHECK_INT(pc__ram_tier_reserve(t, &(pc__entry_desc){.key = id_of(4)}, 20001, 1, &reason),
              PC_MISS);
    CHECK_INT(reason, PC_REASON_QUOTA);
    pc_segment *held = get(t, 2, &reason), *also = get(t, 3, &reason);
    CHECK_STATUS(put_as(t, &(pc__entry_desc){.key = id_of(4)}, 4, 8000, &reason), PC_MISS);
    CHECK_INT(reason, PC_REASON_QUOTA);
    CHECK_OK(pc__ram_tier_set_quota(t, &mine, 0));
    CHECK_OK(put_as(t, &(pc__entry_desc){.key = id_of(4)}, 4, 8000, &reason));
    pc__segment_unref(held);
    pc__segment_unref(also);
    balanced(t);
    pc__ram_tier_free(t);
}

static void chains(void)
{
    pc__ram_tier *t = new_tier(&(pc__ram_tier_options){.budget = 36500});
    pc__id a = id_of(1), b = id_of(2), c = id_of(3);
    uint32_t reason;
    CHECK_OK(put_as(t, &(pc__entry_desc){.key = a, .cost = 1e-6}, 1, 8000, &reason));
    CHECK_OK(put_as(t, &(pc__entry_desc){.key = b, .parent = &a, .cost = 1}, 2, 8000, &reason));
    CHECK_OK(put_as(t, &(pc__entry_desc){.key = c, .parent = &b, .cost = 1e6}, 3, 8000, &reason));
    CHECK_OK(put(t, 9, 8000));
    pc__segment_unref(get(t, 9, &reason));
    CHECK_OK(put(t, 10, 8000));
    CHECK(has(t, 1) && has(t, 2)
          && (!has(t, 3) || !has(t, 9))); /* never the parent, though its score is lowest */
    CHECK_OK(put(t, 11, 8000));
    CHECK_OK(put(t, 12, 8000));
    CHECK(has(t, 1));
    pc__ram_tier_clear(t);
    /* a child does not evict its parent */
    CHECK_OK(put_as(t, &(pc__entry_desc){.key = a, .cost = 1e-6}, 1, 19000, &reason));
    CHECK_STATUS(put_as(t, &(pc__entry_desc){.key = b, .parent = &a, .cost = 1}, 2, 19000, &reason),
                 PC_MISS);
    CHECK_INT(reason, PC_REASON_NO_ROOM);
    CHECK(has(t, 1));
    /* an entry in use protects its parents */
    CHECK_OK(put_as(t, &(pc__entry_desc){.key = b, .parent = &a, .cost = 1}, 2, 8000, &reason));
    pc_segment *held = get(t, 2, &reason);
    CHECK_STATUS(put(t, 20, 19000), PC_MISS);
    CHECK(has(t, 1) && has(t, 2));
    pc__ram_tier_clear(t); /* by hand it goes */
    CHECK(!has(t, 1) && has(t, 2));
    pc__segment_unref(held);
    CHECK_OK(put(t, 20, 25000));
    CHECK_INT(balanced(t).segments, 1);
    pc__ram_tier_free(t);
}

static void loads(void)
{
    pc__ram_tier *t = new_tier(&(pc__ram_tier_options){.budget = 20000});
    CHECK_OK(put(t, 1, 8000));
    CHECK_STATUS(pc__ram_tier_reserve(t, NULL, 20001, 0, NULL), PC_MISS);
    CHECK_STATUS(pc__ram_tier_reserve(t, NULL, 15000, 1, NULL), PC_MISS);
    CHECK(has(t, 1));
    CHECK_OK(pc__ram_tier_reserve(t, NULL, 8000, 1, NULL));
    CHECK_INT(balanced(t).staging_bytes, 8000);
    CHECK_OK(pc__ram_tier_reserve(t, NULL, 11000, 0, NULL));
    CHECK(!has(t, 1));
    CHECK_STATUS(put(t, 2, 8000), PC_MISS);
    pc__ram_tier_unreserve(t, 11000);
    CHECK_OK(put(t, 2, 8000));
    CHECK_STATUS(pc__ram_tier_reserve(t, NULL, 16000, 0, NULL), PC_MISS);
    CHECK(has(t, 2)); /* too little could be evicted */
    pc__ram_tier_unreserve(t, 8000);
    CHECK_INT(balanced(t).staging_bytes, 0);
    CHECK_STATUS(pc__ram_tier_reserve(t, NULL, UINT64_MAX, 0, NULL), PC_MISS);
    pc__ram_tier_free(t);
}

/* ------------------------------------------------------------- who holds what */

static void holders(void)
{
    pc__ram_tier *t = new_tier(&(pc__ram_tier_options){.budget = 20000}),
                 *other = new_tier(&(pc__ram_tier_options){.budget = 20000});
    pc__id key = id_of(1);
    uint32_t reason;
    pc_segment *a = make(&pc__libc_allocator, 1, 8000), *b, *c;
    CHECK_OK(pc__ram_tier_put(t, &(pc__entry_desc){.key = key}, a, &b, &reason));
    CHECK(a == b);
    c = pc__segment_ref(a); /* a reference of the caller, unknown to the tier */
    pc__segment_unref(a);
    pc__segment_unref(b);
    CHECK_STATUS(put(t, 2, 13000), PC_MISS);
    pc__segment_unref(get(t, 1, &reason)); /* used again and released meanwhile */
    CHECK_STATUS(put(t, 2, 13000), PC_MISS);
    /* in two tiers: each counts it, neither waits for the other */
    CHECK_OK(pc__ram_tier_put(other, &(pc__entry_desc){.key = key}, c, NULL, &reason));
    CHECK_STATUS(put(t, 2, 13000), PC_MISS);
    CHECK_STATUS(put(other, 2, 13000), PC_MISS);
    pc__segment_unref(c);
    CHECK_OK(put(other, 2, 13000));
    CHECK(!has(other, 1) && has(t, 1));
    CHECK_OK(put(t, 2, 13000));
    CHECK(!has(t, 1));
    pc__ram_tier_free(t);
    a = get(other, 2, &reason);
    balanced(other);
    pc__ram_tier_free(other);
    CHECK(a && a->token_ids[0] == 2);
    pc__segment_unref(a); /* outlives the tier */
}

static void overwriting(void)
{
    pc__ram_tier *t = new_tier(&(pc__ram_tier_options){.budget = 20000, .zero_memory = 1});
    uint32_t reason;
    int zeroed_before = atomic_load(&wiped);
    CHECK_OK(put(t, 1, 8000));
    CHECK_OK(put(t, 2, 8000));
    CHECK_STATUS(put(t, 2, 8000), PC_EXISTS); /* known: the second one goes */
    CHECK_STATUS(put(t, 9, 90000), PC_MISS);  /* refused */
    CHECK_INT(atomic_load(&wiped) - zeroed_before, 2);
    pc_segment *held = get(t, 2, &reason);
    CHECK_OK(put(t, 3, 8000)); /* evicts 1 */
    CHECK_INT(atomic_load(&wiped) - zeroed_before, 3);
    pc__ram_tier_free(t);
    CHECK_INT(atomic_load(&wiped) - zeroed_before, 4); /* 3 */
    pc__segment_unref(held);
    CHECK_INT(atomic_load(&wiped) - zeroed_before, 5);
    t = new_tier(&(pc__ram_tier_options){.budget = 20000});
    CHECK_OK(put(t, 1, 8000));
    pc__ram_tier_free(t);
    CHECK_INT(atomic_load(&wiped) - zeroed_before, 5);
}

/* -------------------------------------------------------------------- news */

typedef struct news {
    pc__ram_tier *tier;
    int kinds[8];
    uint64_t bytes, stored_bytes;
    pc_segment *kept; /* by `evicting` */
    int with_names;
} news;

static void on_event(void *user, const pc_event *event)
{
    news *n = user;
    n->kinds[event->kind]++;
    CHECK_INT(event->tier, PC_TIER_RAM);
    CHECK_INT(event->tokens, 1);
    if (event->kind == PC_EVENT_STORE)
        n->stored_bytes += event->bytes;
    if (event->kind == PC_EVENT_EVICT || event->kind == PC_EVENT_REMOVE)
        n->stored_bytes -= event->bytes;
    has(n->tier, 1); /* would deadlock under the lock */
}

static void on_bytes(void *user, uint32_t tier, uint64_t bytes, uint64_t budget)
{
    news *n = user;
    n->bytes = bytes;
    CHECK_INT(tier, PC_TIER_RAM);
    CHECK_INT(budget, 20000);
    has(n->tier, 1);
}

static void evicting(void *user, const pc__entry_desc *desc, pc_segment *segment)
{
    news *n = user;
    pc__id content = id_of(50), salt = id_of(60), key = id_of(1);
    n->with_names = pc__id_equal(&desc->key, &key) && desc->content
                    && pc__id_equal(desc->content, &content) && desc->salt
                    && pc__id_equal(desc->salt, &salt) && desc->cost > 0.4 && desc->cost < 0.6
                    && desc->priority == -3;
    n->with_names &= desc->ttl > 49 && desc->ttl_left > 49
                     && desc->ttl_left < desc->ttl; /* counted from the last hit */
    n->kept = pc__segment_ref(segment);
    has(n->tier, 1);
}

static void telling(void)
{
    news n = {0};
    pc__id content = id_of(50), salt = id_of(60);
    uint32_t reason;
    pc__ram_tier *t = n.tier = new_tier(&(pc__ram_tier_options){
        .budget = 20000, .event = on_event, .bytes = on_bytes, .evicting = evicting, .user = &n});
    CHECK_OK(put_as(t,
                    &(pc__entry_desc){.key = id_of(1),
                                      .content = &content,
                                      .salt = &salt,
                                      .cost = 0.5,
                                      .ttl = 50,
                                      .priority = -3},
                    1, 8000, &reason));
    CHECK(pc__ram_tier_has_content(t, &content));
    CHECK_OK(put(t, 2, 8000));
    CHECK_STATUS(put(t, 2, 8000), PC_EXISTS);
    pc__segment_unref(get(t, 2, &reason));
    CHECK(!n.kept);
    CHECK_OK(put(t, 3, 8000));
    CHECK(n.kept && n.kept->token_ids[0] == 1 && n.with_names);
    CHECK(!pc__ram_tier_has_content(t, &content));
    pc__segment_unref(n.kept);
    CHECK_STATUS(put(t, 4, 50000), PC_MISS);
    CHECK_INT(n.bytes, balanced(t).segment_bytes);
    CHECK_INT(n.stored_bytes, n.bytes);
    pc__ram_tier_clear(t);
    CHECK_INT(n.bytes, 0);
    CHECK_INT(n.kinds[PC_EVENT_STORE], 3);
    CHECK_INT(n.kinds[PC_EVENT_HIT], 1);
    CHECK_INT(n.kinds[PC_EVENT_EVICT], 1);
    CHECK_INT(n.kinds[PC_EVENT_REMOVE], 2);
    CHECK_INT(n.kinds[PC_EVENT_STORE_FAILED], 1);
    pc__ram_tier_free(t);
}

/* ------------------------------------------------------------ memory, threads */

static void without_memory(void)
{
    for (uint64_t at = 1, reached = 1; reached; at++) {
        pc_test_memory memory = {.fail_at = at};
        pc_allocator mem = pc_test_allocator(&memory);
        pc__ram_tier *t = NULL;
        pc__ram_tier_options o = {.budget = 60000, .ttl = 100};
        pc_status status = pc__ram_tier_new(&t, &mem, &o);
        CHECK(status == PC_OK ? t != NULL : status == PC_ERR_NOMEM && !t);
        for (int32_t i = 0; i < 150 && t; i++) {
            pc__id key = id_of(i), parent = id_of(i - 1), salt = id_of(1000 + i % 3),
                   content = id_of(i);
            pc__entry_desc desc = {.key = key,
                                   .parent = i % 4 ? &parent : NULL,
                                   .salt = &salt,
                                   .content = &content,
                                   .cost = 1};
            uint32_t reason;
            pc_segment *s = make(&pc__libc_allocator, i, 500);
            status = pc__ram_tier_put(t, &desc, s, NULL, &reason);
            CHECK(status == PC_OK || status == PC_MISS || status == PC_ERR_NOMEM);
            pc__segment_unref(s);
            if (i % 5 == 0)
                CHECK(pc__ram_tier_pin(t, &key, (uint64_t)(i % 2), 100) != PC_ERR_STATE);
            if (i % 50 == 20)
                CHECK(pc__ram_tier_set_quota(t, &salt, 10000) <= 0);
            if (i % 40 == 39)
                pc__ram_tier_unpin_owner(t, 0);
        }
        if (t)
            balanced(t);
        pc__ram_tier_free(t);
        CHECK_INT(memory.live_blocks, 0);
        reached = memory.calls >= at;
    }
}

enum { THREADS = 8, ROUNDS = 4000 };

static void *race(void *arg)
{
    pc__ram_tier *t = arg;
    static atomic_uint seeds;
    pc_test_rng rng = {1000 + atomic_fetch_add(&seeds, 1)};
    pc_segment *held[8] = {NULL};
    uint32_t reason;
    for (int i = 0; i < ROUNDS; i++) {
        int32_t token = (int32_t)(pc_test_bits(&rng) % 60);
        pc__id key = id_of(token), parent = id_of(token - 1), salt = id_of(500 + token % 3);
        pc_segment **slot = &held[pc_test_bits(&rng) % 8];
        uint64_t owner = pc_test_bits(&rng) % 3;
        pc__segment_unref(*slot);
        *slot = NULL;
        if (pc__ram_tier_get(t, &key, &token, 1, slot, &reason) == PC_MISS) {
            pc_segment *segment = make(&pc__libc_allocator, token, 500 + pc_test_bits(&rng) % 1000);
            pc__entry_desc desc = {.key = key,
                                   .parent = token % 5 ? &parent : NULL,
                                   .salt = &salt,
                                   .cost = 1,
                                   .ttl = i % 3 ? 0 : 0.001};
            if (pc__ram_tier_put(t, &desc, segment, slot, &reason) < 0)
                return arg;
            pc__segment_unref(segment);
        }
        if (*slot && (*slot)->token_ids[0] != token)
            return arg;
        switch (pc_test_bits(&rng) % 16) {
        case 0:
            pc__ram_tier_pin(t, &key, owner, 0.0005);
            break;
        case 1:
            pc__ram_tier_pin(t, &key, owner, 0);
            break;
        case 2:
            pc__ram_tier_unpin(t, &key, owner);
            break;
        case 3:
            pc__ram_tier_unpin_owner(t, owner);
            break;
        case 4:
            pc__ram_tier_sweep(t);
            break;
        case 5:
            pc__ram_tier_set_quota(t, &salt, i % 2 ? 15000 : 0);
            break;
        case 6:
            if (pc__ram_tier_reserve(t, NULL, 3000, i % 2, NULL) == PC_OK)
                pc__ram_tier_unreserve(t, 3000);
            break;
        case 7:
            if (i % 64 == 7)
                pc__ram_tier_clear(t);
            break;
        default:
            break;
        }
    }
    for (int i = 0; i < 8; i++)
        pc__segment_unref(held[i]);
    return NULL;
}

static void threads(void)
{
    pc__ram_tier *t = new_tier(&(pc__ram_tier_options){.budget = 40000});
    pthread_t ids[THREADS];
    for (int i = 0; i < THREADS; i++)
        CHECK_INT(pthread_create(&ids[i], NULL, race, t), 0);
    for (int i = 0; i < THREADS; i++) {
        void *wrong = t;
        pthread_join(ids[i], &wrong);
        CHECK(wrong == NULL);
    }
    pc_tier_stats s = balanced(t);
    CHECK_INT(s.lookups, THREADS * ROUNDS);
    for (uint64_t owner = 0; owner < 3; owner++)
        pc__ram_tier_unpin_owner(t, owner);
    CHECK_INT(balanced(t).pinned_bytes, 0);
    pc__ram_tier_clear(t); /* no references are left: all releases were noticed */
    CHECK_INT(balanced(t).segments, 0);
    pc__ram_tier_free(t);
}

int main(void)
{
    pins();
    pins_of_owners();
    times();
    priorities();
    quotas();
    chains();
    loads();
    holders();
    overwriting();
    telling();
    without_memory();
    threads();
    CHECK_INT(atomic_load(&live), 0);
    return pc_test_end();
}
