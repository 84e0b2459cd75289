/* Compares the free room of a data file with a map of its pages. Catches: extents that overlap,
 * gaps that are lost or touch each other, totals that do not fit the gaps, an array that has to
 * grow when an extent comes back. */
#include <stdlib.h>
#include <string.h>

#include "memo/maps/map_space.h"
#include "testing.h"

enum { PAGES = 4096, PIECES = 200 };

typedef struct piece {
    uint64_t at, bytes;
} piece;

/* Gaps and totals agree with the pages. */
static int agrees(const pc__map_space *room, const uint8_t *pages)
{
    uint64_t taken = 0, on_disk = 0, at = 1;
    int fine = 1;
    for (size_t i = 1; i < room->end; i++)
        taken += pages[i];
    for (size_t i = 0; i < room->count && fine; i++) {
        const pc__map_gap *gap = &room->gaps[i];
        fine = gap->at >= at && gap->bytes && gap->on_disk <= gap->bytes
               && gap->at + gap->bytes <= room->end;
        fine = fine && (gap->at == 1 || pages[gap->at - 1])
               && (gap->at + gap->bytes == room->end || pages[gap->at + gap->bytes]); /* whole */
        for (uint64_t p = at; p < gap->at && fine; p++)
            fine = pages[p];
        for (uint64_t p = gap->at; p < gap->at + gap->bytes && fine; p++)
            fine = !pages[p];
        at = gap->at + gap->bytes;
        on_disk += gap->on_disk;
    }
    for (uint64_t p = at; p < room->end && fine; p++)
        fine = pages[p];
    return fine && taken == room->taken && on_disk == room->on_disk
           && room->count <= room->pieces + 1;
}

static void test_random(uint64_t seed)
{
    static uint8_t pages[PAGES];
    pc_test_rng rng = {seed};
    pc__map_space room = {.end = 1};
    piece pieces[PIECES];
    size_t count = 0;
    memset(pages, 0, sizeof pages);
    for (int step = 0; step < 3000; step++) {
        uint64_t bits = pc_test_bits(&rng), bytes = 1 + bits % 9;
        if (count < PIECES && bits >> 20 & 1) {
            pc__map_gap last = {0};
            CHECK_OK(pc__map_space_reserve(&room, &pc__libc_allocator));
            size_t gap = pc__map_space_find(&room, bytes, &last);
            for (size_t i = 0; i < room.count; i++) /* the smallest gap that is large enough */
                CHECK(room.gaps[i].bytes < bytes
                      || (gap != SIZE_MAX && room.gaps[gap].bytes <= room.gaps[i].bytes));
            if (gap == SIZE_MAX && room.end + bytes >= PAGES)
                continue;
            int64_t before = (int64_t)(room.taken + room.on_disk),
                    growth = pc__map_space_growth(&room, gap, bytes);
            uint64_t at = pc__map_space_take(&room, gap, bytes);
            CHECK_INT((int64_t)(room.taken + room.on_disk), before + growth);
            for (uint64_t p = at; p < at + bytes; p++) {
                CHECK(!pages[p]);
                pages[p] = 1;
            }
            pieces[count++] = (piece){at, bytes};
        } else if (count) {
            size_t which = bits >> 32 & 0xffff, capacity = room.capacity;
            piece p = pieces[which %= count];
            memset(pages + p.at, 0, p.bytes);
            pc__map_space_return(&room, p.at, p.bytes, bits >> 50 & 1 ? p.bytes : 0);
            CHECK_INT(room.capacity, capacity);
            pieces[which] = pieces[--count];
        }
        if (step % 50 == 49) {
            uint64_t end = pc__map_space_used_end(&room);
            CHECK(end <= room.end);
            pc__map_space_truncate(&room, end);
            CHECK_INT(room.end, end);
        }
        if (!CHECK(agrees(&room, pages)))
            break;
    }
    while (count) {
        count--;
        memset(pages + pieces[count].at, 0, pieces[count].bytes);
        pc__map_space_return(&room, pieces[count].at, pieces[count].bytes, 0);
    }
    CHECK(room.count <= 1 && !room.taken && !room.pieces);
    pc__map_space_free(&room, &pc__libc_allocator);
}

static void test_claim(void)
{
    pc__map_space room = {.end = 1};
    static uint8_t pages[64];
    static const piece known[] = {{1, 3}, {4, 2}, {9, 1}, {20, 5}};
    for (size_t i = 0; i < 4; i++) {
        CHECK_OK(pc__map_space_reserve(&room, &pc__libc_allocator));
        pc__map_space_claim(&room, known[i].at, known[i].bytes);
        memset(pages + known[i].at, 1, known[i].bytes);
    }
    CHECK_INT(room.end, 25);
    CHECK_INT(room.count, 2);
    CHECK_INT(room.on_disk, 3 + 10);
    CHECK(agrees(&room, pages));
    pc__map_space_free(&room, &pc__libc_allocator);
}

int main(void)
{
    test_claim();
    for (uint64_t seed = 1; seed <= 20; seed++)
        test_random(seed);
    return pc_test_end();
}
