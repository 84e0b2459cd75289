/* Catches: requests to the wrong node of a cluster, redirections that are not followed, entries
 * that are lost while their slot moves, a lost node that makes entries of other nodes unreadable.
 * Against a cluster of three real redis-servers. A server that is down and delays every request, or
 * is never tried again; simultaneous failures that are counted one by one. */
#include "store/tier.h"

#include <unistd.h>

#include "redis_server.h"
#include "remote_entries.h"
#include "store/remote/remote_nodes.h"

#if !defined(PC_HAVE_HIREDIS)
int main(void)
{
    pc_test_skip("built without hiredis");
    return 0;
}
#else

enum { NODES = 3, ENTRIES = 24 };

static pc_test_memory memory;
static pc_allocator mem;
static pc__tier_common common;
static pc_redis nodes[NODES];
static char ids[NODES][64];

static void add_slots(int node, int first, int last)
{
    CHECK_STR(pc_redis_ask(&nodes[node], "CLUSTER ADDSLOTSRANGE %d %d", first, last), "OK");
}

static void make_cluster(void)
{
    int ready = 0;
    for (int i = 0; i < NODES; i++) {
        nodes[i] = pc_redis_start("--cluster-enabled yes --cluster-node-timeout 15000 "
                                  "--cluster-require-full-coverage no");
        snprintf(ids[i], sizeof ids[i], "%s", pc_redis_ask(&nodes[i], "CLUSTER MYID"));
    }
    add_slots(0, 0, 5460);
    add_slots(1, 5461, 10922);
    add_slots(2, 10923, 16383);
    for (int i = 1; i < NODES; i++)
        CHECK_STR(pc_redis_ask(&nodes[0], "CLUSTER MEET 127.0.0.1 %d", nodes[i].port), "OK");
    for (int i = 0; i < 1500 && ready < NODES; i++) {
        ready = 0;
        for (int n = 0; n < NODES; n++)
            ready += strstr(pc_redis_ask(&nodes[n], "CLUSTER INFO"), "cluster_state:ok") != NULL
                     && strstr(pc_redis_ask(&nodes[n], "CLUSTER INFO"), "cluster_slots_ok:16384")
                            != NULL;
        usleep(10000);
    }
    CHECK_INT(ready, NODES);
}

static uint32_t slot_of(const pc__id *key)
{
    char hex[65];
    pc__id_hex(key, hex);
    return pc__remote_slot_of_name(hex, 64);
}

static int owner_of(const sample *s)
{
    uint32_t slot = slot_of(&s->image.key);
    return slot < 5461 ? 0 : slot < 10923 ? 1 : 2;
}

static pc__tier *open_tier(int first, int second)
{
    char address[200];
    pc__tier *tier;
    int n = snprintf(address, sizeof address, "redis://127.0.0.1:%d", nodes[first].port);
    if (second >= 0)
        snprintf(address + n, sizeof address - (size_t)n, ",127.0.0.1:%d", nodes[second].port);
    else
        snprintf(address + n, sizeof address - (size_t)n, "?cluster=1");
    CHECK_OK(pc__tier_remote_new(&tier, &common, address));
    return tier;
}

static pc_status load(pc__tier *tier, const sample *s)
{
    int timed_out;
    return sample_load(tier, &mem, &common.record, s, 5, &timed_out);
}

static void test_spread(sample *samples)
{
    pc__tier *many = open_tier(0, 1), *one = open_tier(2, -1); /* one node; it tells the others */
    int of[NODES] = {0};
    uint32_t reason;
    for (int i = 0; i < ENTRIES; i++) {
        char slot[16];
        snprintf(slot, sizeof slot, "%u", slot_of(&samples[i].image.key));
        of[owner_of(&samples[i])]++;
        CHECK_OK(sample_put(i % 2 ? many : one, &samples[i], 5, &reason));
    }
    for (int i = 0; i < ENTRIES; i++) {
        CHECK_STATUS(load(one, &samples[i]), PC_OK);
        CHECK_STATUS(load(many, &samples[i]), PC_OK);
    }
    for (int n = 0; n < NODES; n++) {
        CHECK(of[n] > 0);
        CHECK_INT(atoi(pc_redis_ask(&nodes[n], "DBSIZE")), of[n] * 4);
    }
    check_balance(many);
    check_balance(one);
    many->ops->free(many);
    one->ops->free(one);
}

/* Moves the slot of an entry from its owner to the next node, key by key, and reads and writes in
 * each state between. */
static void test_moving_slot(sample *s)
{
    pc__tier *tier = open_tier(0, 1), *other = open_tier(2, -1);
    int from = owner_of(s), to = (from + 1) % NODES, moved = 0;
    unsigned slot = slot_of(&s->image.key);
    sample t = sample_make(1000, 3, 3000);
    uint32_t reason;
    CHECK_STATUS(load(tier, s), PC_OK); /* the map is known */
    CHECK_STR(pc_redis_ask(&nodes[to], "CLUSTER SETSLOT %u IMPORTING %s", slot, ids[from]), "OK");
    CHECK_STR(pc_redis_ask(&nodes[from], "CLUSTER SETSLOT %u MIGRATING %s", slot, ids[to]), "OK");
    CHECK_STATUS(load(tier, s), PC_OK);
    for (;;) {
        const char *key = pc_redis_ask(&nodes[from], "CLUSTER GETKEYSINSLOT %u 1", slot);
        if (!*key)
            break;
        CHECK_STR(pc_redis_ask(&nodes[from], "MIGRATE 127.0.0.1 %d %s 0 1000", nodes[to].port, key),
                  "OK");
        moved++;
        CHECK_STATUS(load(tier, s), PC_OK);
        CHECK_STATUS(load(other, s), PC_OK);
    }
    CHECK_INT(moved, 4);
    t.image.key = s->image
                      .key; /* written anew while nothing of it is where the slot still belongs */
    tier->ops->remove(tier, &t.image.key);
    CHECK_INT(atoi(pc_redis_ask(&nodes[to], "CLUSTER COUNTKEYSINSLOT %u", slot)), 0);
    CHECK_OK(sample_put(tier, &t, 5, &reason));
    CHECK_STATUS(load(tier, &t), PC_OK);
    CHECK_INT(atoi(pc_redis_ask(&nodes[to], "CLUSTER COUNTKEYSINSLOT %u", slot)), 4);
    for (int n = 0; n < NODES; n++)
        pc_redis_ask(&nodes[(n + to) % NODES], "CLUSTER SETSLOT %u NODE %s", slot, ids[to]);
    CHECK_STATUS(load(tier, &t), PC_OK);
    CHECK_STATUS(load(other, &t), PC_OK);
    tier->ops->remove(tier, &t.image.key);
    CHECK_STATUS(load(other, &t), PC_MISS);
    check_balance(tier);
    check_balance(other);
    tier->ops->free(tier);
    other->ops->free(other);
    sample_free(&t);
}

/* Entries of the other nodes are served as before; those of the lost one fail fast, then are not
 * asked for. */
static void test_lost_node(sample *samples)
{
    pc__tier *tier = open_tier(1, 2);
    uint64_t bytes;
    int lost = 0, served = 0, left_alone = 0;
    double started;
    CHECK_STATUS(load(tier, &samples[1]), PC_OK);
    pc_redis_kill(&nodes[1]);
    started = pc__now();
    for (int i = 1; i < ENTRIES; i++) {
        int of_lost = owner_of(&samples[i]) == 1;
        if (!tier->ops->may_have(tier, &samples[i].image.key, &bytes)) {
            CHECK(of_lost);
            left_alone++;
            continue;
        }
        if (of_lost) {
            CHECK_STATUS(load(tier, &samples[i]), PC_ERR_IO);
            lost++;
        } else {
            CHECK_STATUS(load(tier, &samples[i]), PC_OK);
            served++;
        }
    }
    CHECK(served > 0 && lost > 0 && left_alone > 0);
    CHECK(pc__now() - started < 5); /* less than the deadline of one */
    check_balance(tier);
    tier->ops->free(tier);
}

/* Somebody else has taken over the slots of the lost node. */
static void test_taken_over(const sample *samples)
{
    pc__tier *tier = open_tier(1, 2);
    const sample *s = NULL;
    pc_status status = PC_ERR_IO;
    uint32_t reason;
    uint64_t bytes;
    for (int i = 1; i < ENTRIES && !s; i++)
        s = owner_of(&samples[i]) == 1 ? &samples[i] : NULL;
    for (int n = 0; n < NODES; n += 2) {
        pc_redis_ask(&nodes[n], "CLUSTER DELSLOTS %u", slot_of(&s->image.key));
        pc_redis_ask(&nodes[n], "CLUSTER SETSLOT %u NODE %s", slot_of(&s->image.key), ids[2]);
    }
    pc_redis_ask(&nodes[2], "CLUSTER ADDSLOTS %u", slot_of(&s->image.key));
    pc_redis_ask(&nodes[2], "CLUSTER BUMPEPOCH");
    for (int i = 0; i < 300 && status != PC_OK; i++) {
        if (tier->ops->may_have(tier, &s->image.key, &bytes))
            status = sample_put(tier, s, 5, &reason);
        usleep(10000);
    }
    CHECK_OK(status);
    CHECK_STATUS(load(tier, s), PC_OK);
    check_balance(tier);
    tier->ops->free(tier);
}

static void test_breaker(void)
{
    pc__remote_breaker b = {0};
    double now = 100, longest = 0;
    int first, second;
    CHECK(pc__remote_breaker_allows(&b, now));
    first = pc__remote_breaker_enter(&b, now);
    second = pc__remote_breaker_enter(&b, now);
    CHECK(first && second);
    CHECK(pc__remote_breaker_done(&b, first, PC_ERR_IO, now, 0.5));
    CHECK(!pc__remote_breaker_done(&b, second, PC_ERR_IO, now,
                                   0.5)); /* already under way when the first failed */
    CHECK(!pc__remote_breaker_allows(&b, now + 0.09));
    CHECK(!pc__remote_breaker_enter(&b, now + 0.09));
    now += 0.11;
    first = pc__remote_breaker_enter(&b, now);
    CHECK_INT(first, PC__REMOTE_BREAKER_PROBE);
    CHECK(!pc__remote_breaker_allows(&b, now)); /* one at a time */
    CHECK(!pc__remote_breaker_enter(&b, now));
    CHECK(!pc__remote_breaker_done(&b, first, PC_ERR_NOMEM, now, 0.5));
    CHECK_INT(pc__remote_breaker_enter(&b, now), PC__REMOTE_BREAKER_PROBE);
    for (int i = 0; i < 20; i++) {
        double before = now;
        CHECK(!pc__remote_breaker_done(&b, PC__REMOTE_BREAKER_PROBE, PC_ERR_IO, now,
                                       (i % 10) / 10.0));
        while (!pc__remote_breaker_allows(&b, now))
            now += 0.01;
        CHECK(i > 7 || now - before > longest * 1.1); /* twice as long, but for chance */
        longest = now - before > longest ? now - before : longest;
        CHECK_INT(pc__remote_breaker_enter(&b, now), PC__REMOTE_BREAKER_PROBE);
    }
    CHECK(longest > 20 && longest <= 37.6);
    CHECK(pc__remote_breaker_done(&b, PC__REMOTE_BREAKER_PROBE, PC_OK, now, 0));
    CHECK_INT(pc__remote_breaker_enter(&b, now), PC__REMOTE_BREAKER_CLOSED);
    CHECK(!pc__remote_breaker_done(&b, PC__REMOTE_BREAKER_CLOSED, PC_OK, now, 0));
    CHECK(pc__remote_breaker_done(&b, PC__REMOTE_BREAKER_CLOSED, PC_ERR_IO, now, 0.5));
    CHECK(pc__remote_breaker_allows(&b, now + 0.11)); /* short again */
}

int main(void)
{
    sample samples[ENTRIES];
    pc__codecs *codecs;
    test_breaker();
    mem = pc_test_allocator(&memory);
    CHECK_OK(pc__codecs_new(&codecs, &mem, NULL, 0));
    common.mem = &mem;
    common.record.codecs = codecs;
    common.record.codec = PC_CODEC_RAW;
    make_cluster();
    for (int i = 0; i < ENTRIES; i++)
        samples[i] = sample_make((uint64_t)i, 3, 2000);
    test_spread(samples);
    test_moving_slot(&samples[0]);
    test_lost_node(samples);
    test_taken_over(samples);
    for (int i = 0; i < ENTRIES; i++)
        sample_free(&samples[i]);
    pc__codecs_free(codecs);
    CHECK_INT(memory.live_blocks, 0);
    return pc_test_end();
}
#endif
