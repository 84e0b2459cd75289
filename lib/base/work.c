/* Work memory: pc__work_take and pc__work_give, over the blocks that a context holds. */
#include "base/work.h"

/* malloc reuses smaller blocks by itself. Larger ones are rare, and would stay for good. */
enum { SMALLEST = 64 << 10, LARGEST = 8 << 20, UNIT = 64 << 10 };

static int is_held(size_t bytes)
{
#ifdef __SANITIZE_ADDRESS__
    return (void)bytes, 0; /* a use after the end of a call shall be seen */
#else
    return bytes >= SMALLEST && bytes <= LARGEST;
#endif
}

/* A block that was given back, large enough and not much larger than needed, or NULL. */
static void *take_held(pc_context *context, size_t bytes)
{
    for (size_t i = 0; i < PC__WORK_BLOCKS; i++) {
        void *empty = NULL, *block = atomic_exchange(&context->work[i], NULL);
        size_t capacity = block ? pc__block_size(block) : 0;
        if (block && capacity >= bytes && capacity / 4 <= bytes)
            return block;
        if (block && !atomic_compare_exchange_strong(&context->work[i], &empty, block))
            pc__free(&context->mem, block);
    }
    return NULL;
}

void *pc__work_take(pc_context *context, size_t bytes)
{
    void *block;
    if (!is_held(bytes))
        return pc__alloc_aligned(&context->mem, bytes, 64);
    block = take_held(context, bytes);
    return block ? block : pc__alloc_aligned(&context->mem, (bytes + UNIT - 1) / UNIT * UNIT, 64);
}

void pc__work_give(pc_context *context, void *block)
{
    size_t i = 0;
    if (!block || !is_held(pc__block_size(block))) {
        pc__free(&context->mem, block);
        return;
    }
    while (i < PC__WORK_BLOCKS && atomic_load(&context->work[i]))
        i++;
    if (i == PC__WORK_BLOCKS)
        i = atomic_fetch_add(&context->work_next, 1) % PC__WORK_BLOCKS;
    pc__free(&context->mem, atomic_exchange(&context->work[i], block));
}
