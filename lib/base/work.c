/* Work memory: pc__work_take and pc__work_give, over the blocks that a context holds. */
#include "base/work.h"

/* malloc reuses smaller blocks by itself. Larger ones are rare, and would stay for good. */
enum { SMALLEST = 64 << 10, LARGEST = 8 << 20, UNIT = 64 << 10 };

/* Stands before every block. */
typedef struct work_block {
    _Alignas(64) size_t capacity;
} work_block;

static int is_held(size_t bytes)
{
#ifdef __SANITIZE_ADDRESS__
    return (void)bytes, 0; /* a use after the end of a call shall be seen */
#else
    return bytes >= SMALLEST && bytes <= LARGEST;
#endif
}

/* A block that was given back, large enough and not much larger than needed, or NULL. */
static work_block *take_held(pc_context *context, size_t bytes)
{
    for (size_t i = 0; i < PC__WORK_BLOCKS; i++) {
        void *empty = NULL;
        work_block *block = atomic_exchange(&context->work[i], NULL);
        if (block && block->capacity >= bytes && block->capacity / 4 <= bytes)
            return block;
        if (block && !atomic_compare_exchange_strong(&context->work[i], &empty, block))
            pc__free(&context->mem, block);
    }
    return NULL;
}

void *pc__work_take(pc_context *context, size_t bytes)
{
    work_block *block = is_held(bytes) ? take_held(context, bytes) : NULL;
    if (!block) {
        size_t rounded = is_held(bytes) ? (bytes + UNIT - 1) / UNIT * UNIT : bytes;
        if (bytes > SIZE_MAX - sizeof *block)
            rounded = SIZE_MAX - sizeof *block;
        if (!(block = pc__alloc_aligned(&context->mem, sizeof *block + rounded, 64)))
            return NULL;
        block->capacity = rounded;
    }
    return block + 1;
}

void pc__work_give(pc_context *context, void *memory)
{
    work_block *block = memory ? (work_block *)memory - 1 : NULL;
    size_t i = 0;
    if (!block)
        return;
    if (!is_held(block->capacity)) {
        pc__free(&context->mem, block);
        return;
    }
    while (i < PC__WORK_BLOCKS && atomic_load(&context->work[i]))
        i++;
    if (i == PC__WORK_BLOCKS)
        i = atomic_fetch_add(&context->work_next, 1) % PC__WORK_BLOCKS;
    pc__free(&context->mem, atomic_exchange(&context->work[i], block));
}
