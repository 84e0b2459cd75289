/* Catches: a tenant over its share that displaces others in any tier of a cache; room for one
 * tenant that is refused although its own entries could go; entries picked although there cannot be
 * enough room; wrong sums of percent; limits that a folder does not get; memory that is lost. */
#include "store/tenants.h"

#include <promptcache/extend.h>
#include <promptcache/cache.h>
#include <string.h>

#include "base/mem.h"
#include "own_states.h"
#include "testing.h"

static pc__id id_of(uint64_t n)
{
    pc__id id = {{0}};
    memcpy(id.bytes, &n, sizeof n);
    return id;
}

static pc__eviction_item item_of(uint64_t key, pc__tenant *tenant)
{
    return (pc__eviction_item){
        .key = id_of(key), .bytes = 100, .cost = 1, .group = tenant ? &tenant->group : NULL};
}

static void percent(void)
{
    CHECK_INT(pc__tenants_share(1000, 0), 0);
    CHECK_INT(pc__tenants_share(1000, 100), 0);
    CHECK_INT(pc__tenants_share(1000, 33), 330);
    CHECK_INT(pc__tenants_share(99, 1), 1);
    CHECK_INT(pc__tenants_share(UINT64_MAX, 50), UINT64_MAX / 2);
}

static void whose_room(void)
{
    pc__eviction ev = {.mem = pc__libc_allocator, .budget = 1000};
    pc__tenants ts = {.share = 500};
    pc__id salts[2] = {id_of(1), id_of(2)};
    pc__tenant *a = pc__tenants_find_or_add(&ts, &ev.mem, &salts[0]),
               *b = pc__tenants_find_or_add(&ts, &ev.mem, &salts[1]);
    pc__eviction_item items[10], *picked;
    for (uint64_t i = 0; i < 10; i++) {
        items[i] = item_of(i + 1, i < 6 ? a : b); /* those of a have the lowest scores */
        CHECK_OK(pc__eviction_add(&ev, &items[i]));
    }
    CHECK_INT(pc__tenants_excess(&ts, a), 100);
    CHECK(pc__tenants_over(&ts) == a);
    pc__tenants_shrink(&ts, &ev, &salts[0], &picked);
    CHECK(picked == &items[0] && !picked->next_picked);
    pc__eviction_evict(&ev, picked);
    /* b has 400 of 500, and the tier 900 of 1000 */
    pc__room room = {.tenant = b, .need = 100, .used = ev.bytes, .budget = 1000};
    CHECK_INT(pc__tenants_make_room(&ts, &ev, &room, &picked), PC_REASON_NONE);
    CHECK(!picked);
    room.need = 200;
    CHECK_INT(pc__tenants_make_room(&ts, &ev, &room, &picked), PC_REASON_NONE);
    CHECK(picked == &items[6] && !picked->next_picked); /* its own, with a higher score */
    pc__eviction_put_back(&ev, &picked);
    room = (pc__room){.tenant = b, .need = 600, .used = ev.bytes, .budget = 1000};
    CHECK_INT(pc__tenants_make_room(&ts, &ev, &room, &picked), PC_REASON_QUOTA);
    CHECK(!picked);
    CHECK_OK(pc__tenants_set_limit(&ts, &ev.mem, &salts[1], 2000)); /* its own limit holds */
    room = (pc__room){.tenant = b, .need = 200, .used = ev.bytes, .budget = 1000};
    CHECK_INT(pc__tenants_make_room(&ts, &ev, &room, &picked), PC_REASON_NONE);
    CHECK(picked == &items[1] && !picked->next_picked); /* as for everybody */
    pc__eviction_put_back(&ev, &picked);
    pc__eviction_hold(&ev, &items[8]);
    room = (pc__room){.tenant = a, .need = 1000, .used = ev.bytes, .budget = 1000};
    ts.share = 0;
    CHECK_INT(pc__tenants_make_room(&ts, &ev, &room, &picked), PC_REASON_NO_ROOM);
    CHECK(!picked && pc__eviction_candidate(&ev, NULL) == &items[1]);
    for (uint64_t i = 1; i < 10; i++)
        pc__eviction_remove(&ev, &items[i]);
    pc__tenants_free(&ts, &ev.mem);
    pc__eviction_free(&ev);
}

/* ------------------------------------------------------------------ a cache */

enum { STATES = 60, BYTES = 30000 };

static char folder[300];

static void new_folder(void)
{
    static int made;
    snprintf(folder, sizeof folder, "%s/shared%d", pc_test_folder(), made++);
}

static pc_cache *open_cache(pc_context *context, const char *salt, uint32_t share, uint32_t tier)
{
    pc_cache_options o = PC_CACHE_OPTIONS_INIT;
    pc_cache *cache = NULL;
    o.ram_bytes = tier == PC_TIER_RAM ? 1000000 : 64 << 20;
    o.compressed_bytes = tier == PC_TIER_COMPRESSED ? 1000000 : 0;
    o.disk_path = tier == PC_TIER_DISK ? folder : NULL;
    o.disk_bytes = tier == PC_TIER_DISK ? 1000000 : 0;
    o.salt = salt;
    o.salt_size = strlen(salt);
    o.tenant_share = share;
    o.deadline_seconds = 30;
    o.compressed_codec = PC_CODEC_RAW;
    CHECK_OK(pc_cache_new(&cache, context, &o));
    return cache;
}

/* Puts states one after the other until they have left RAM. */
static void fill(pc_cache *cache, pc_context *context, const char *salt, int32_t first)
{
    for (int32_t n = first; n < first + STATES; n++) {
        CHECK(own_put(cache, context, salt, n, BYTES, 0) >= 0);
        CHECK(pc_cache_trim(cache, 0, NULL) >= 0);
        CHECK(pc_cache_flush(cache) >= 0);
    }
}

static int count(pc_cache *cache, const char *salt, int32_t first)
{
    int found = 0;
    for (int32_t n = first; n < first + STATES; n++)
        found += own_get(cache, salt, n, BYTES) == PC_OK;
    return found;
}

/* One of two tenants writes three times what the folder holds. */
static void two_fill_a_folder(void)
{
    pc_context *context = own_context();
    pc_cache *cache;
    int had, has;
    new_folder();
    cache = open_cache(context, "first", 50, PC_TIER_DISK);
    fill(cache, context, "first", 0);
    had = count(cache, "first", 0);
    CHECK(had > 10 && had <= 17); /* half of the megabyte */
    pc_cache_free(cache);
    cache = open_cache(context, "second", 0, PC_TIER_DISK); /* knows of no share */
    fill(cache, context, "second", 1000);
    fill(cache, context, "second", 2000);
    has = count(cache, "second", 1000) + count(cache, "second", 2000);
    CHECK(has > 10 && has <= 17);
    pc_cache_free(cache);
    cache = open_cache(context, "first", 0, PC_TIER_DISK);
    CHECK_INT(count(cache, "first", 0), had);
    pc_cache_free(cache);
    pc_context_free(context);
}

/* In one cache, whose application gives salts by the request. */
static void two_fill_a_tier(uint32_t tier)
{
    pc_context *context = own_context();
    pc_cache *cache;
    pc_tier_stats s = PC_TIER_STATS_INIT;
    new_folder();
    cache = open_cache(context, "own", 0, tier);
    CHECK_OK(pc_cache_set_quota(cache, tier, "first", 5, 400000));
    CHECK_OK(pc_cache_set_quota(cache, tier, "second", 6, 300000));
    for (int round = 0; round < 2; round++)
        for (int32_t n = 0; n < STATES; n++) {
            const char *salt = round ? "second" : "first";
            CHECK(own_put(cache, context, salt, 1000 * round + n, BYTES, 0) >= 0);
            if (tier != PC_TIER_RAM)
                CHECK(pc_cache_trim(cache, 0, NULL) >= 0);
            CHECK(pc_cache_flush(cache) >= 0);
        }
    CHECK_OK(pc_cache_get_tier_stats(cache, tier, &s));
    CHECK(s.segments >= 12 && s.segments <= 23); /* 700 KB */
    CHECK(count(cache, "first", 0) >= 7);
    CHECK(count(cache, "second", 1000) >= 5);
    pc_cache_free(cache);
    pc_context_free(context);
}

static void refused(void)
{
    pc_context *context = own_context();
    pc_cache *cache = open_cache(context, "own", 0, PC_TIER_RAM);
    pc_cache_options o = PC_CACHE_OPTIONS_INIT;
    CHECK_STATUS(pc_cache_set_quota(cache, PC_TIER_DISK, "a", 1, 5), PC_ERR_INVALID);
    CHECK_STATUS(pc_cache_set_quota(cache, PC_TIER_NONE, "a", 1, 5), PC_ERR_INVALID);
    CHECK_STATUS(pc_cache_set_quota(cache, 77, "a", 1, 5), PC_ERR_INVALID);
    pc_cache_free(cache);
    o.tenant_share = 101;
    CHECK_STATUS(pc_cache_new(&cache, context, &o), PC_ERR_INVALID);
    pc_context_free(context);
}

int main(void)
{
    percent();
    whose_room();
    two_fill_a_folder();
    two_fill_a_tier(PC_TIER_RAM);
    two_fill_a_tier(PC_TIER_COMPRESSED);
    two_fill_a_tier(PC_TIER_DISK);
    refused();
    return pc_test_end();
}
