/* Catches an order other than by priority and score; scores that do not grow with use or fade with
 * time; evicted items that are forgotten; chains that are not evicted children first; held items
 * that are evicted; wrong sums of bytes; hash tables and heaps that lose items. */
#include "store/eviction.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "testing.h"

enum { ITEMS = 300 };

static pc__id id_of(uint64_t n)
{
    pc__id id = {{0}};
    memcpy(id.bytes, &n, sizeof n);
    return id;
}

static pc__eviction new_worth(uint64_t budget)
{
    return (pc__eviction){.mem = pc__libc_allocator, .budget = budget};
}

static pc__eviction_item item_of(uint64_t key, uint64_t parent, uint64_t bytes, double cost)
{
    return (pc__eviction_item){.key = id_of(key),
                               .parent = id_of(parent),
                               .has_parent = parent != 0,
                               .bytes = bytes,
                               .cost = cost};
}

static uint64_t least(const pc__eviction *w)
{
    pc__eviction_item *item = pc__eviction_candidate(w, NULL);
    uint64_t n = 0;
    if (item)
        memcpy(&n, item->key.bytes, sizeof n);
    return n;
}

static void order(void)
{
    pc__eviction w = new_worth(1000);
    pc__eviction_item a = item_of(1, 0, 100, 1), b = item_of(2, 0, 100, 1),
                      c = item_of(3, 0, 100, 100), d = item_of(4, 0, 100, 1000);
    d.priority = -1;
    CHECK_INT(least(&w), 0);
    CHECK_OK(pc__eviction_add(&w, &a));
    CHECK_OK(pc__eviction_add(&w, &b));
    CHECK_OK(pc__eviction_add(&w, &c));
    CHECK_INT(least(&w), 1); /* the older of two equal ones */
    pc__eviction_hit(&w, &a);
    CHECK_INT(least(&w), 2);
    pc__eviction_hit(&w, &b);
    pc__eviction_hit(&w, &b);
    CHECK_INT(least(&w), 1); /* used less often */
    for (int i = 0; i < 6; i++)
        pc__eviction_hit(&w, &a);
    for (int i = 0; i < 6; i++)
        pc__eviction_hit(&w, &b);
    CHECK_INT(least(&w), 3); /* cost for bytes counts, but use counts more */
    CHECK_OK(pc__eviction_add(&w, &d));
    CHECK_INT(least(&w), 4); /* whatever its score */
    CHECK_INT(w.bytes, 400);
    pc__eviction_remove(&w, &d);
    CHECK_INT(least(&w), 3);
    CHECK(pc__eviction_find(&w, &c.key) == &c && !pc__eviction_find(&w, &d.key));
    pc__eviction_remove(&w, &a);
    pc__eviction_remove(&w, &b);
    pc__eviction_remove(&w, &c);
    CHECK_INT(w.bytes, 0);
    CHECK_INT(w.items.count, 0);
    pc__eviction_free(&w);
}

/* log2 of the sum over all uses of 2^time, in half-lives of 0.3 of the budget, the first at a half;
 * and the fourth root of cost for bytes. */
static void formula(void)
{
    pc__eviction w = new_worth(1000);
    pc__eviction_item a = item_of(1, 0, 100, 3), fill[4], again = item_of(1, 0, 100, 3);
    double t0 = 100 / 300.0, t1 = 300 / 300.0, t2 = 500 / 300.0,
           sum = exp2(t0 - 1) + exp2(t1) + exp2(t2);
    CHECK_OK(pc__eviction_add(&w, &a));
    for (uint64_t i = 0; i < 4; i++) {
        fill[i] = item_of(10 + i, 0, 100, 1);
        CHECK_OK(pc__eviction_add(&w, &fill[i]));
        if (i % 2)
            pc__eviction_hit(&w, &a);
    }
    CHECK_INT(a.uses, 3);
    CHECK(fabs(a.log_uses - log2(sum)) < 1e-12);
    CHECK(fabs(a.score - (log2(sum) + 0.25 * log2(3 / 100.0))) < 1e-12);
    pc__eviction_pick(&w, &a);
    pc__eviction_evict(&w, &a);
    CHECK_OK(pc__eviction_add(&w, &again)); /* continues from there */
    CHECK(fabs(again.log_uses - log2(sum + exp2(600 / 300.0))) < 1e-12);
    pc__eviction_remove(&w, &again);
    CHECK_OK(pc__eviction_add(&w, &again)); /* removed, not evicted: nothing is remembered */
    CHECK(fabs(again.log_uses - (700 / 300.0 - 1)) < 1e-12);
    double clock = w.clock;
    pc__eviction_remove(&w, &again);
    CHECK_OK(pc__eviction_add(&w, &again));
    pc__eviction_restore(&w, &again, -3.5, 9);
    CHECK(fabs(w.clock - clock) < 1e-12 && again.uses == 9);
    CHECK(fabs(again.score - (-3.5 + 0.25 * log2(3 / 100.0))) < 1e-12);
    pc__eviction_free(&w);
}

static int is_remembered(const pc__eviction *w, const pc__eviction_item *item)
{
    for (size_t i = 0; i < w->history_sets * 4; i++)
        if (!isinf(w->history[i].log_uses) && w->history[i].hash == pc__id_hash(&item->key))
            return 1;
    return 0;
}

/* Of the items of a set the four warmest are remembered, in any order of eviction. */
static void warmest(void)
{
    enum { ROOM = 20, MANY = 600 };
    pc__eviction w = new_worth(ROOM * 10);
    pc_test_rng rng = {9};
    static pc__eviction_item items[MANY];
    size_t forgotten = 0;
    for (uint64_t i = 0; i < MANY; i++) {
        items[i] = item_of(i + 1, 0, 10, 1);
        if (i >= ROOM) {
            pc__eviction_pick(&w, &items[i - ROOM]);
            pc__eviction_evict(&w, &items[i - ROOM]);
        }
        CHECK_OK(pc__eviction_add(&w, &items[i]));
        for (uint64_t h = pc_test_bits(&rng) % 4 ? 0 : UINT64_C(1) << pc_test_bits(&rng) % 14; h;
             h--)
            pc__eviction_hit(&w, &items[i]);
    }
    for (size_t i = 0; i < MANY - ROOM; i++) {
        size_t warmer = 0, set = (size_t)pc__id_hash(&items[i].key) & (w.history_sets - 1);
        for (size_t j = 0; j < MANY - ROOM; j++)
            warmer += (pc__id_hash(&items[j].key) & (w.history_sets - 1)) == set
                      && items[j].log_uses > items[i].log_uses;
        CHECK_INT(is_remembered(&w, &items[i]), warmer < 4);
        forgotten += warmer >= 4;
    }
    CHECK(forgotten > MANY / 2);
    for (size_t i = MANY - ROOM; i < MANY; i++)
        pc__eviction_remove(&w, &items[i]);
    pc__eviction_free(&w);
}

/* With ever new items, items that were often used go too, but late; items used once displace none.
 */
static void fading(void)
{
    enum { ROOM = 50 };
    pc__eviction w = new_worth(ROOM * 10);
    pc__eviction_item *items = calloc(10000, sizeof *items);
    int went = 0, kept = 0;
    for (uint64_t i = 0; i < 10000; i++) {
        items[i] = item_of(i + 1, 0, 10, 1);
        while (w.items.count >= ROOM) {
            pc__eviction_item *item = pc__eviction_candidate(&w, NULL);
            went = item == &items[0] ? (int)i : went;
            pc__eviction_pick(&w, item);
            pc__eviction_evict(&w, item);
        }
        CHECK_OK(pc__eviction_add(&w, &items[i]));
        for (int h = 0; h < 20 && !i; h++)
            pc__eviction_hit(&w, &items[0]);
        if (i >= 1000 && i % ROOM == 0)
            kept += pc__eviction_find(&w, &items[1000].key) != NULL;
        if (i >= 1000 && i % ROOM == 0 && pc__eviction_find(&w, &items[1000].key))
            pc__eviction_hit(&w, &items[1000]);
    }
    CHECK(went > 2 * ROOM && went < 10 * ROOM); /* log2(20) half-lives of 0.3 later than others */
    CHECK_INT(kept, 180);                       /* used once in a turnover: stays */
    free(items);
    pc__eviction_free(&w);
}

static void chains(void)
{
    pc__eviction w = new_worth(1000);
    pc__eviction_item a = item_of(1, 0, 10, 1), b = item_of(2, 1, 10, 1), c = item_of(3, 2, 10, 1),
                      side = item_of(4, 2, 10, 1);
    CHECK_OK(pc__eviction_add(&w, &c)); /* children first: parents become candidates later */
    CHECK_OK(pc__eviction_add(&w, &a));
    CHECK_OK(pc__eviction_add(&w, &b));
    CHECK_OK(pc__eviction_add(&w, &side));
    CHECK_INT(least(&w), 3);
    pc__eviction_pick(&w, &c);
    CHECK_INT(least(&w), 4);
    pc__eviction_pick(&w, &side);
    CHECK_INT(least(&w), 2);
    pc__eviction_put_back(&w, &(pc__eviction_item *){&c});
    CHECK_INT(least(&w), 3);
    pc__eviction_put_back(&w, &(pc__eviction_item *){&side});
    CHECK_INT(least(&w), 3);
    pc__eviction_hold(&w, &side); /* and all that it saw */
    CHECK_INT(w.held_bytes, 30);
    pc__eviction_hold(&w, &side);
    pc__eviction_hold(&w, &b);
    pc__eviction_unhold(&w, &side);
    pc__eviction_unhold(&w, &side);
    CHECK_INT(w.held_bytes, 20);
    CHECK_INT(least(&w), 3);
    pc__eviction_remove(&w, &b); /* from the middle, though it is held */
    CHECK_INT(w.held_bytes, 0);
    CHECK_INT(least(&w), 3);
    pc__eviction_remove(&w, &c);
    CHECK_INT(least(&w), 1); /* it has no children left */
    b.holds = 1;
    CHECK_OK(pc__eviction_add(&w, &b)); /* held from the start, with one waiting for it */
    CHECK_INT(w.held_bytes, 20);
    CHECK_INT(least(&w), 4);
    pc__eviction_unhold(&w, &b);
    CHECK_INT(w.held_bytes, 0);
    pc__eviction_free(&w);
}

/* Only keys made by hand can form one. */
static void rings(void)
{
    pc__eviction w = new_worth(1000);
    pc__eviction_item self = item_of(1, 1, 10, 1), a = item_of(2, 3, 10, 1),
                      b = item_of(3, 4, 10, 1), c = item_of(4, 2, 10, 1);
    CHECK_OK(pc__eviction_add(&w, &self));
    CHECK_OK(pc__eviction_add(&w, &a));
    CHECK_OK(pc__eviction_add(&w, &b));
    CHECK_OK(pc__eviction_add(&w, &c));
    pc__eviction_hold(&w, &a);
    pc__eviction_unhold(&w, &a);
    CHECK_INT(w.held_bytes, 0);
    for (int i = 0; i < 4; i++) {
        pc__eviction_item *item = pc__eviction_candidate(&w, NULL);
        CHECK(item != NULL);
        if (!item)
            break;
        pc__eviction_pick(&w, item);
        pc__eviction_evict(&w, item);
    }
    CHECK_INT(w.items.count, 0);
    CHECK_INT(w.sibling_sets.count, 0);
    pc__eviction_free(&w);
}

static void groups(void)
{
    pc__eviction w = new_worth(1000);
    pc__eviction_group one = {0}, two = {0};
    pc__eviction_item items[6];
    for (uint64_t i = 0; i < 6; i++) {
        items[i] = item_of(i + 1, 0, 10, 1);
        items[i].group = i % 2 ? &two : &one;
        CHECK_OK(pc__eviction_add(&w, &items[i]));
        if (i == 2)
            CHECK_OK(pc__eviction_order_group(&w, &two));
    }
    CHECK_INT(least(&w), 1);
    CHECK(pc__eviction_candidate(&w, &two) == &items[1]);
    pc__eviction_hold(&w, &items[1]);
    CHECK(pc__eviction_candidate(&w, &two) == &items[3]);
    CHECK_INT(two.held_bytes, 10);
    CHECK_INT(two.bytes, 30);
    pc__eviction_remove(&w, &items[1]);
    CHECK_INT(two.held_bytes, 0);
    CHECK_INT(two.items, 2);
    pc__eviction_free(&w);
    pc__heap_free(&two.order, &pc__libc_allocator);
}

/* Against a plain search of all items each time. */
static uint64_t least_by_looking(const pc__eviction_item *items, const unsigned char *there)
{
    uint64_t best = 0;
    for (uint64_t i = 0; i < ITEMS; i++) {
        int is_seen = 0;
        for (uint64_t j = 0; j < ITEMS; j++)
            is_seen |= there[j] && items[j].has_parent
                       && pc__id_equal(&items[j].parent, &items[i].key);
        if (!there[i] || items[i].holds || is_seen)
            continue;
        if (!best || items[i].priority < items[best - 1].priority
            || (items[i].priority == items[best - 1].priority
                && items[i].score < items[best - 1].score))
            best = i + 1;
    }
    return best;
}

static uint64_t held_by_looking(const pc__eviction_item *items, const unsigned char *there)
{
    unsigned char held[ITEMS];
    uint64_t bytes = 0;
    for (int i = ITEMS; i-- > 0;) { /* what saw something has a higher number */
        held[i] = items[i].holds > 0;
        for (int j = i + 1; j < ITEMS; j++)
            held[i] |= there[j] && held[j] && items[j].has_parent
                       && pc__id_equal(&items[j].parent, &items[i].key);
        held[i] &= there[i];
        bytes += held[i] ? items[i].bytes : 0;
    }
    return bytes;
}

static void step(pc__eviction *w, pc__eviction_item *items, unsigned char *there, pc_test_rng *rng)
{
    uint64_t i = pc_test_bits(rng) % ITEMS;
    pc__eviction_item *item = &items[i];
    if (!there[i]) {
        uint64_t parent = i && pc_test_bits(rng) % 3 ? pc_test_bits(rng) % i + 1 : 0;
        *item = item_of(i + 1, parent, 1 + pc_test_bits(rng) % 50,
                        0.01 + (double)pc_test_uniform(rng));
        item->priority = (int32_t)(pc_test_bits(rng) % 3) - 1;
        CHECK_OK(pc__eviction_add(w, item));
        there[i] = 1;
        return;
    }
    switch (pc_test_bits(rng) % 6) {
    case 0:
    case 1:
        pc__eviction_hit(w, item);
        break;
    case 2:
        pc__eviction_hold(w, item);
        break;
    case 3:
        if (item->holds)
            pc__eviction_unhold(w, item);
        break;
    case 4:
        pc__eviction_remove(w, item);
        item->holds = 0;
        there[i] = 0;
        break;
    default:
        item = pc__eviction_candidate(w, NULL);
        if (item) {
            pc__eviction_pick(w, item);
            pc__eviction_evict(w, item);
            there[item - items] = 0;
        }
    }
}

static void random_work(void)
{
    pc__eviction w = new_worth(3000);
    static pc__eviction_item items[ITEMS];
    unsigned char there[ITEMS] = {0};
    pc_test_rng rng = {77};
    for (int n = 0; n < 20000; n++) {
        step(&w, items, there, &rng);
        if (n % 20 == 0) {
            CHECK_INT(least(&w), least_by_looking(items, there));
            CHECK_INT(w.held_bytes, held_by_looking(items, there));
        }
    }
    for (int i = 0; i < ITEMS; i++)
        if (there[i])
            pc__eviction_remove(&w, &items[i]);
    CHECK_INT(w.bytes, 0);
    CHECK_INT(w.held_bytes, 0);
    CHECK_INT(w.sibling_sets.count, 0);
    CHECK_INT(w.order.count, 0);
    pc__eviction_free(&w);
}

static void without_memory(void)
{
    for (uint64_t at = 1, reached = 1; reached; at++) {
        pc_test_memory memory = {.fail_at = at};
        pc__eviction w = {.mem = pc_test_allocator(&memory), .budget = 1000};
        static pc__eviction_item items[200];
        unsigned char there[200] = {0};
        for (uint64_t i = 0; i < 200; i++) {
            items[i] = item_of(i + 1, i % 3, 10, 1);
            pc_status status = pc__eviction_add(&w, &items[i]);
            CHECK(status == PC_OK || status == PC_ERR_NOMEM);
            there[i] = status == PC_OK;
            CHECK((pc__eviction_find(&w, &items[i].key) != NULL) == there[i]);
        }
        for (int i = 0; i < 200; i++)
            if (there[i])
                pc__eviction_remove(&w, &items[i]);
        CHECK_INT(w.bytes, 0);
        CHECK_INT(w.sibling_sets.count, 0);
        pc__eviction_free(&w);
        CHECK_INT(memory.live_blocks, 0);
        reached = memory.calls >= at;
    }
}

int main(void)
{
    order();
    formula();
    warmest();
    fading();
    chains();
    rings();
    groups();
    random_work();
    without_memory();
    return pc_test_end();
}
