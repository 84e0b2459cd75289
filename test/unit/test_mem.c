/* Catches: sizes that overflow, blocks that are not aligned or lost by a failed growth, an
 * allocator that is given another size or alignment on free than on alloc. */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "testing.h"

/* Remembers size and alignment of every block and wants them back. */
typedef struct exact_memory {
    struct {
        void *ptr;
        size_t size, align;
    } block[64];
    size_t calls, largest;
    int wrong;
} exact_memory;

static void *exact_alloc(void *user, size_t size, size_t align)
{
    exact_memory *m = user;
    void *ptr = NULL;
    m->calls++;
    m->largest = size > m->largest ? size : m->largest;
    for (size_t i = 0; i < 64; i++) {
        if (m->block[i].ptr || posix_memalign(&ptr, align < 8 ? 8 : align, size ? size : 1))
            continue;
        m->block[i].ptr = ptr;
        m->block[i].size = size;
        m->block[i].align = align;
        return ptr;
    }
    return NULL;
}

static void exact_free(void *user, void *ptr, size_t size, size_t align)
{
    exact_memory *m = user;
    for (size_t i = 0; i < 64; i++) {
        if (m->block[i].ptr != ptr)
            continue;
        m->wrong |= m->block[i].size != size || m->block[i].align != align;
        m->block[i].ptr = NULL;
        free(ptr);
        return;
    }
    m->wrong = 1;
}

static size_t live(const exact_memory *m)
{
    size_t n = 0;
    for (size_t i = 0; i < 64; i++)
        n += m->block[i].ptr != NULL;
    return n;
}

static void alignment(void)
{
    exact_memory m = {0};
    const pc_allocator exact = {sizeof(pc_allocator), &m, exact_alloc, exact_free};
    const pc_allocator *all[] = {&exact, &pc__libc_allocator};
    for (size_t a = 0; a < 2; a++)
        for (size_t align = 16; align <= 4096; align *= 2)
            for (size_t size = 0; size < 70; size += 23) {
                unsigned char *p = pc__alloc_aligned(all[a], size, align);
                if (!CHECK(p && (uintptr_t)p % align == 0))
                    continue;
                memset(p, 0x77, size);
                pc__free(all[a], p);
            }
    CHECK(pc__alloc(&exact, 0) != NULL);
    CHECK_INT(live(&m), 1);
    pc__free(&exact, m.block[0].ptr ? (char *)m.block[0].ptr + 16 : NULL);
    pc__free(&exact, NULL);
    CHECK_INT(live(&m), 0);
    CHECK(!m.wrong);
}

static void overflow(void)
{
    exact_memory m = {0};
    const pc_allocator exact = {sizeof(pc_allocator), &m, exact_alloc, exact_free};
    CHECK(!pc__calloc(&exact, SIZE_MAX / 2, 3));
    CHECK_ERROR_HAS("out of memory");
    CHECK(!pc__calloc(&exact, (size_t)1 << 33, (size_t)1 << 31));
    CHECK(!pc__alloc(&exact, SIZE_MAX));
    CHECK_ERROR_HAS("18446744073709551615 bytes");
    CHECK(!pc__alloc_aligned(&exact, SIZE_MAX - 100, 4096));
    CHECK(!pc__strndup(&exact, "a", SIZE_MAX));
    CHECK_INT(m.calls, 0); /* none of these may ask for a small block instead */
}

static void zeroed(void)
{
    pc_test_memory memory = {0};
    const pc_allocator mem = pc_test_allocator(&memory); /* poisons its blocks */
    unsigned char *p = pc__calloc(&mem, 13, 7);
    int any = 0;
    for (size_t i = 0; p && i < 13 * 7; i++)
        any |= p[i];
    CHECK(p && !any);
    pc__free(&mem, p);
    CHECK((p = pc__calloc(&mem, 0, 8)) != NULL);
    pc__free(&mem, p);
    CHECK_INT(memory.live_blocks, 0);
}

static void reallocation(void)
{
    exact_memory m = {0};
    const pc_allocator exact = {sizeof(pc_allocator), &m, exact_alloc, exact_free};
    pc_test_memory memory = {.fail_at = 2};
    const pc_allocator failing = pc_test_allocator(&memory);
    char *p = pc__realloc(&exact, NULL, 6), *old;
    memcpy(p, "hello", 6);
    p = pc__realloc(&exact, p, 4000);
    CHECK_STR(p, "hello");
    p = pc__realloc(&exact, p, 3); /* the contents that fit stay */
    CHECK(!memcmp(p, "hel", 3));
    pc__free(&exact, p);
    CHECK(!m.wrong && live(&m) == 0);
    old = pc__strdup(&failing, "kept");
    CHECK(!pc__realloc(&failing, old, 100));
    CHECK_STR(old, "kept");
    pc__free(&failing, old);
    CHECK_INT(memory.live_blocks, 0);
}

static void growth(void)
{
    pc_test_memory memory = {0};
    const pc_allocator mem = pc_test_allocator(&memory);
    uint64_t *array = NULL;
    size_t capacity = 0, calls, before;
    CHECK_OK(pc__grow(&mem, (void **)&array, &capacity, 1, sizeof *array));
    CHECK(capacity >= 1);
    for (size_t i = 0; i < 10000; i++) {
        before = capacity;
        calls = memory.calls;
        CHECK_OK(pc__grow(&mem, (void **)&array, &capacity, i + 1, sizeof *array));
        CHECK(capacity > i && (capacity == before || capacity >= before + before / 2));
        CHECK(capacity != before || memory.calls == calls);
        array[i] = i * i;
    }
    CHECK(array[9999] == UINT64_C(9999) * 9999 && array[1] == 1);
    CHECK_OK(pc__grow(&mem, (void **)&array, &capacity, 0, sizeof *array));
    before = capacity;
    memory.fail_at = memory.calls + 1;
    CHECK_STATUS(pc__grow(&mem, (void **)&array, &capacity, capacity + 1, sizeof *array),
                 PC_ERR_NOMEM);
    CHECK(capacity == before && array[9998] == UINT64_C(9998) * 9998);
    calls = memory.calls;
    CHECK_STATUS(pc__grow(&mem, (void **)&array, &capacity, SIZE_MAX / 4, sizeof *array),
                 PC_ERR_NOMEM);
    CHECK_STATUS(pc__grow(&mem, (void **)&array, &capacity, SIZE_MAX, 1), PC_ERR_NOMEM);
    CHECK(capacity == before && memory.calls == calls);
    pc__free(&mem, array);
    CHECK_INT(memory.live_blocks, 0);
}

static void strings(void)
{
    pc_test_memory memory = {0};
    const pc_allocator mem = pc_test_allocator(&memory);
    char *a = pc__strdup(&mem, ""), *b = pc__strndup(&mem, "abcdef", 3);
    CHECK_STR(a, "");
    CHECK_STR(b, "abc");
    pc__free(&mem, a);
    pc__free(&mem, b);
    memory.fail_at = memory.calls + 1;
    CHECK(!pc__strdup(&mem, "x"));
    CHECK_INT(memory.live_blocks, 0);
}

static void bytes(void)
{
    pc_test_memory memory = {0};
    const pc_allocator mem = pc_test_allocator(&memory);
    pc__bytes b = {.mem = &mem};
    CHECK_OK(pc__bytes_add(&b, NULL, 0));
    CHECK_STR(b.data, "");
    for (int i = 0; i < 1000; i++)
        CHECK_OK(pc__bytes_add(&b, "a\0b", 3));
    CHECK_INT(b.size, 3000);
    CHECK(b.data[b.size] == 0 && !memcmp(b.data + 2997, "a\0b", 3));
    memory.fail_at = memory.calls + 1;
    CHECK_STATUS(pc__bytes_add(&b, b.data, 3000), PC_ERR_NOMEM);
    CHECK(b.size == 3000 && b.data[3000] == 0);
    CHECK_STATUS(pc__bytes_add(&b, "x", SIZE_MAX - 2), PC_ERR_NOMEM); /* the sum wraps round */
    CHECK_STATUS(pc__bytes_add(&b, "x", SIZE_MAX), PC_ERR_NOMEM);
    CHECK_INT(b.size, 3000);
    pc__bytes_free(&b);
    pc__bytes_free(&b);
    CHECK(!b.data && !b.size && !memory.live_blocks);
}

/* Whole pages are given back to the system while blocks around them are in use, and malloc works as
 * before; an application's memory is not touched. */
static void to_system(void)
{
    enum { COUNT = 64, BYTES = 300000 };
    char *keep[COUNT], *drop[COUNT];
    exact_memory m = {0};
    pc_allocator host = {sizeof(pc_allocator), &m, exact_alloc, exact_free};
    for (int i = 0; i < COUNT; i++) {
        keep[i] = pc__alloc(&pc__libc_allocator, 100 + (size_t)i);
        drop[i] = pc__alloc_aligned(&pc__libc_allocator, BYTES >> (i % 8), 64);
        memset(keep[i], i, 100);
        memset(drop[i], -1, BYTES >> (i % 8));
    }
    for (int i = 0; i < COUNT; i++)
        pc__free_to_system(&pc__libc_allocator, drop[i]);
    for (int i = 0; i < COUNT; i++) {
        drop[i] = pc__calloc(&pc__libc_allocator, 1, BYTES >> (i % 5));
        CHECK(drop[i] && !drop[i][0] && !drop[i][(BYTES >> (i % 5)) - 1]);
    }
    for (int i = 0; i < COUNT; i++) {
        CHECK(keep[i][0] == (char)i && keep[i][99] == (char)i);
        pc__free_to_system(&pc__libc_allocator, keep[i]);
        pc__free_to_system(&pc__libc_allocator, drop[i]);
    }
    pc__free_to_system(&pc__libc_allocator, NULL);
    pc__free_to_system(&host, pc__alloc_aligned(&host, BYTES, 64));
    CHECK(m.calls == 1 && !m.wrong && live(&m) == 0);
    pc__free_to_system(&pc__libc_allocator, pc__alloc(&pc__libc_allocator, (size_t)5 << 20));
}

int main(void)
{
    to_system();
    alignment();
    overflow();
    zeroed();
    reallocation();
    growth();
    strings();
    bytes();
    return pc_test_end();
}
