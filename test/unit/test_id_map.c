/* Catches: an id that is not found after others were removed or moved, or the table has grown; a
 * removed id that is found; a failed allocation that changes something. */
#include "memo/index/id_map.h"

#include <stdlib.h>

#include "testing.h"

enum { IDS = 4000 };

/* Compares with an array that has the position of each id. */
static void check_all(const pc__id_map *id_map, const size_t *where)
{
    size_t living = 0, wrong = 0;
    for (int64_t id = 0; id < IDS; id++) {
        wrong += pc__id_map_find(id_map, id) != where[id];
        living += where[id] != PC__NO_POSITION;
    }
    CHECK_INT(wrong, 0);
    CHECK_INT(id_map->living, living);
}

static void churn(int fill)
{
    pc__id_map id_map = {.mem = &pc__libc_allocator};
    size_t *where = malloc(IDS * sizeof *where);
    pc_test_rng rng = {5};
    for (size_t i = 0; i < IDS; i++)
        where[i] = PC__NO_POSITION;
    CHECK(pc__id_map_find(&id_map, 3) == PC__NO_POSITION);
    for (int step = 0; step < 20000; step++) {
        size_t id = pc_test_bits(&rng) % IDS;
        if (where[id] == PC__NO_POSITION) {
            CHECK_OK(pc__id_map_reserve(&id_map, 1));
            where[id] = id_map.count;
            pc__id_map_add(&id_map, (int64_t)id);
            continue;
        }
        size_t position = where[id];
        pc__id_map_vacate(&id_map, position);
        where[id] = PC__NO_POSITION;
        if (!fill)
            continue;
        pc__id_map_fill(&id_map, position);
        if (position < id_map.count)
            where[id_map.ids[position]] = position;
    }
    check_all(&id_map, where);
    pc__id_map_free(&id_map);
    free(where);
}

static void no_memory(void)
{
    for (uint64_t at = 1; at <= 2; at++) {
        pc_test_memory memory = {.fail_at = at};
        pc_allocator mem = pc_test_allocator(&memory);
        pc__id_map id_map = {.mem = &mem};
        CHECK_STATUS(pc__id_map_reserve(&id_map, 100), PC_ERR_NOMEM);
        CHECK(!id_map.count && pc__id_map_find(&id_map, 0) == PC__NO_POSITION);
        CHECK_OK(pc__id_map_reserve(&id_map, 100));
        pc__id_map_add(&id_map, 7);
        CHECK_INT(pc__id_map_find(&id_map, 7), 0);
        pc__id_map_free(&id_map);
        CHECK_INT(memory.live_blocks, 0);
    }
}

int main(void)
{
    churn(0);
    churn(1);
    no_memory();
    return pc_test_end();
}
