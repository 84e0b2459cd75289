/* Catches: parts of device memory that overlap, are not aligned, or are lost when they come back;
 * a limit that is passed; a block that is kept while there is no memory for another one; threads
 * that take and give at once. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "cuda_testing.h"

enum { PARTS = 200 };
static const size_t MIB = 1 << 20;

typedef struct part {
    uint64_t address;
    size_t bytes;
} part;

static int overlap(const part *a, const part *b)
{
    return a->address < b->address + b->bytes && b->address < a->address + a->bytes;
}

static int fits(const part *parts, const part *added)
{
    for (int i = 0; i < PARTS; i++)
        if (parts[i].address && overlap(&parts[i], added))
            return 0;
    return added->address % PC__CUDA_ALIGNMENT == 0;
}

static void random_parts(void)
{
    static part parts[PARTS];
    pc_test_rng rng = {1};
    pc_cuda_place p;
    int right = 0, taken = 0;
    CHECK_OK(pc_cuda_open(&p, NULL, 0));
    for (int i = 0; i < 5000; i++) {
        part *at = &parts[pc_test_bits(&rng) % PARTS];
        if (at->address) {
            pc__cuda_pool_give(p.pool, (void *)(uintptr_t)at->address);
            at->address = 0;
            continue;
        }
        part added = {0, pc_test_bits(&rng) % (pc_test_bits(&rng) % 2 ? 2000 : 200000)};
        void *memory;
        CHECK_OK(pc__cuda_pool_take(p.pool, added.bytes, &memory));
        added.address = (uint64_t)(uintptr_t)memory;
        taken++;
        right += fits(parts, &added);
        *at = added;
    }
    CHECK_INT(right, taken);
    CHECK(pc__cuda_pool_look(p.pool).held <= 2 * (size_t)PC__CUDA_BLOCK_BYTES);
    for (int i = 0; i < PARTS; i++)
        pc__cuda_pool_give(p.pool, (void *)(uintptr_t)parts[i].address);
    CHECK_INT(pc__cuda_pool_look(p.pool).given, 0);
    pc__cuda_pool_trim(p.pool);
    CHECK_INT(pc__cuda_pool_look(p.pool).held, 0); /* every part has found its neighbours */
    pc_cuda_close(&p);
}

static void limit(void)
{
    pc_cuda_place p;
    void *a, *b, *c;
    CHECK_OK(pc_cuda_open(&p, NULL, 48 * MIB));
    CHECK_INT(pc__cuda_pool_look(p.pool).limit, 48 * MIB);
    CHECK_OK(pc__cuda_pool_take(p.pool, 20 * MIB, &a));
    CHECK_OK(pc__cuda_pool_take(p.pool, 20 * MIB, &b));
    CHECK_STATUS(pc__cuda_pool_take(p.pool, 20 * MIB, &c), PC_ERR_NOMEM);
    CHECK_ERROR_HAS(
        "20971520 bytes of device memory: 41943040 bytes of at most 50331648 are taken");
    CHECK(c == NULL);
    CHECK_STATUS(pc__cuda_pool_take(p.pool, 49 * MIB, &c), PC_ERR_NOMEM);
    CHECK_ERROR_HAS("the limit is");
    CHECK_OK(pc__cuda_pool_take(p.pool, 1, &c)); /* no block of the usual size, but one */
    pc__cuda_pool_give(p.pool, a);
    pc__cuda_pool_give(p.pool, b);
    CHECK_OK(pc__cuda_pool_take(p.pool, 44 * MIB, &a)); /* the two were given up for it */
    CHECK_INT(pc__cuda_pool_look(p.pool).held, 46 * MIB);
    pc__cuda_pool_give(p.pool, a);
    pc__cuda_pool_give(p.pool, c);
    pc__cuda_pool_give(p.pool, NULL);
    pc_cuda_close(&p);
}

/* Other processes use the device, so that there is less than the pool may take. */
static void device_is_full(void)
{
    pc_fake_options options = PC_FAKE_OPTIONS;
    pc_cuda_place p;
    void *a, *b;
    if (pc_cuda_real())
        return;
    options.memory = 50 * MIB;
    CHECK_OK(pc_cuda_open(&p, &options, 0));
    CHECK_INT(pc__cuda_pool_look(p.pool).limit, 50 * MIB);
    pc_fake_others(0, 10 * MIB);
    CHECK_OK(pc__cuda_pool_take(p.pool, 30 * MIB, &a));
    CHECK_STATUS(pc__cuda_pool_take(p.pool, 11 * MIB, &b), PC_ERR_NOMEM);
    CHECK_ERROR_HAS("cudaMalloc: cudaErrorMemoryAllocation");
    CHECK_ERROR_HAS("11534336 bytes of device memory");
    CHECK_OK(pc__cuda_pool_take(p.pool, 10 * MIB, &b));
    pc__cuda_pool_give(p.pool, a);
    pc__cuda_pool_give(p.pool, b);
    pc_cuda_close(&p);
}

static void *take_and_give(void *argument)
{
    pc__cuda_pool *pool = argument;
    size_t failed = 0;
    for (size_t i = 0; i < 2000; i++) {
        void *a = NULL, *b = NULL;
        failed += pc__cuda_pool_take(pool, 1000 * (i % 50), &a) < 0;
        failed += pc__cuda_pool_take(pool, 70000, &b) < 0;
        failed += a == b;
        pc__cuda_pool_give(pool, a);
        pc__cuda_pool_give(pool, b);
    }
    return (void *)(uintptr_t)failed;
}

static void several_threads(void)
{
    pthread_t threads[4];
    pc_cuda_place p;
    CHECK_OK(pc_cuda_open(&p, NULL, 0));
    /* The counting allocator of the tests is safe for that. */
    for (int i = 0; i < 4; i++)
        pthread_create(&threads[i], NULL, take_and_give, p.pool);
    for (int i = 0; i < 4; i++) {
        void *failed;
        pthread_join(threads[i], &failed);
        CHECK(failed == NULL);
    }
    CHECK_INT(pc__cuda_pool_look(p.pool).given, 0);
    pc_cuda_close(&p);
}

int main(void)
{
    random_parts();
    limit();
    device_is_full();
    several_threads();
    return pc_test_end();
}
