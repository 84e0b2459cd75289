/* Work memory. Catches: a block that two computations get at once; one that is not 64-byte aligned
 * or too small; fresh memory for every call; more blocks held than a few; blocks
 * that outlive the context; a failed allocation that is not told. */
#include <stdatomic.h>
#include <string.h>

#include "base/threads.h"
#include "base/work.h"
#include "counted_context.h"

#ifdef __SANITIZE_ADDRESS__
enum { HELD = 0 };
#else
enum { HELD = 1 };
#endif

enum { MIB = 1 << 20, CALLS = 1000 };

static void reuse(void)
{
    pc_test_memory memory = {0};
    pc_context *context = pc_test_counted_context(&memory, 1);
    void *first = pc__work_take(context, MIB), *again;
    CHECK(first && (uintptr_t)first % 64 == 0);
    memset(first, 1, MIB);
    pc__work_give(context, first);
    uint64_t calls = memory.calls;
    again = pc__work_take(context, MIB - 100);
    CHECK((again == first) == HELD);
    CHECK(memory.calls - calls == !HELD);
    pc__work_give(context, again);
    again = pc__work_take(context, MIB / 8); /* much too large for it */
    CHECK(again != first);
    pc__work_give(context, again);
    pc__work_give(context, NULL);
    pc_context_free(context);
    CHECK_INT(memory.live_blocks, 0);
}

/* Small and huge blocks go back at once; of the others a few stay, the last ones. */
static void bounded(void)
{
    static const size_t sizes[] = {100, 65536, 3 * MIB, 8 * MIB, 8 * MIB + 1, 9 * MIB};
    pc_test_memory memory = {0};
    pc_context *context = pc_test_counted_context(&memory, 1);
    int64_t live = memory.live_blocks;
    uint64_t calls;
    void *block[10];
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        for (int i = 0; i < 10; i++)
            CHECK((block[i] = pc__work_take(context, sizes[s])) != NULL);
        for (int i = 0; i < 10; i++)
            pc__work_give(context, block[i]);
        CHECK(memory.live_blocks - live <= (HELD ? PC__WORK_BLOCKS : 0));
    }
    calls = memory.calls;
    for (int i = 0; i < PC__WORK_BLOCKS; i++) /* 8 MiB was the last size that stays */
        CHECK((block[i] = pc__work_take(context, 8 * MIB)) != NULL);
    CHECK(memory.calls - calls == (HELD ? 0 : PC__WORK_BLOCKS));
    for (int i = 0; i < PC__WORK_BLOCKS; i++)
        pc__work_give(context, block[i]);
    pc_context_free(context);
    CHECK_INT(memory.live_blocks, 0);
}

static void failing(void)
{
    pc_test_memory memory = {0};
    pc_context *context = pc_test_counted_context(&memory, 1);
    memory.fail_at = memory.calls + 1;
    CHECK(!pc__work_take(context, MIB));
    memory.fail_at = 0;
    CHECK(strstr(pc_error_text(), "out of memory"));
    CHECK(!pc__work_take(context, SIZE_MAX));
    pc_context_free(context);
    CHECK_INT(memory.live_blocks, 0);
}

typedef struct hammering {
    pc_context *context;
    atomic_size_t faults;
} hammering;

/* Writes its own number into a block and finds it there before it gives the block back. */
static void hammer(void *arg, size_t index)
{
    hammering *h = arg;
    for (size_t i = 0; i < CALLS; i++) {
        size_t bytes = (size_t)65536 << (i + index) % 3, number = index * CALLS + i;
        uint64_t *block = pc__work_take(h->context, bytes);
        if (block) {
            block[0] = block[bytes / 8 - 1] = number;
            h->faults += block[0] != number || block[bytes / 8 - 1] != number;
        }
        h->faults += !block;
        pc__work_give(h->context, block);
    }
}

static void many_threads(void)
{
    pc_test_memory memory = {0};
    hammering h = {pc_test_counted_context(&memory, 4), 0};
    pc__parallel(h.context, 4, hammer, &h);
    CHECK_INT(h.faults, 0);
    pc_context_free(h.context);
    CHECK_INT(memory.live_blocks, 0);
}

int main(void)
{
    reuse();
    bounded();
    failing();
    many_threads();
    return pc_test_end();
}
