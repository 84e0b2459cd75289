/* Catches: digests in lanes that differ from one at a time, at any size, number of items or level;
 * items left out or digested twice; reads past the end of the data. */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/cpu_mask.h"
#include "base/digest_lanes.h"
#include "testing.h"

enum { ITEMS = 40, LARGEST = 3000 };

typedef struct items {
    pc__digest_item all[ITEMS];
    pc__id ids[ITEMS];
    size_t count, next;
    int ended[ITEMS];
} items;

static int next(void *user, pc__digest_item *item)
{
    items *i = user;
    if (i->next == i->count)
        return 0;
    *item = i->all[i->next++];
    return 1;
}

static void done(void *user, const pc__digest_item *item, const pc__id *id)
{
    items *i = user;
    size_t at = (size_t)(uintptr_t)item->user;
    i->ids[at] = *id;
    i->ended[at]++;
}

static void check_all(const pc__lane_code *code, items *i)
{
    const pc__digest_source source = {"test/1", i, next, done};
    pc__digest_in_lanes(code, &source);
    for (size_t k = 0; k < i->count; k++) {
        pc__digest digest;
        pc__id want;
        pc__digest_start(&digest, "test/1");
        pc__digest_bytes(&digest, i->all[k].data, i->all[k].size);
        want = pc__digest_end(&digest);
        CHECK(pc__id_equal(&want, &i->ids[k]));
        CHECK_INT(i->ended[k], 1);
    }
}

/* `end`: of readable memory, right behind the data of every item. */
static void with_code(const pc__lane_code *code, const uint8_t *end)
{
    for (size_t size = 0; size < LARGEST; size += 1 + size / 300 * 37) {
        items i = {.count = 1};
        i.all[0] = (pc__digest_item){end - size, size, NULL};
        check_all(code, &i);
    }
    for (size_t count = 0; count <= ITEMS; count++) {
        items i = {.count = count};
        for (size_t k = 0; k < count; k++) {
            size_t size = (size_t)rand() % LARGEST / (1 + (size_t)rand() % 20);
            i.all[k] = (pc__digest_item){end - size, size, (void *)(uintptr_t)k};
        }
        check_all(code, &i);
    }
}

int main(void)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    uint8_t *data = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
                         0);
    if (!CHECK(data != MAP_FAILED && page >= LARGEST))
        return pc_test_end();
    for (size_t i = 0; i < page; i++)
        data[i] = (uint8_t)rand();
    CHECK(!mprotect(data + page, page, PROT_NONE));
#if defined(__x86_64__)
    if (pc__cpu_has_avx2())
        with_code(&pc__lane_code_avx2, data + page);
    if (pc__cpu_has_avx512())
        with_code(&pc__lane_code_avx512, data + page);
#endif
    munmap(data, 2 * page);
    return pc_test_end();
}
