/* The zeroing allocator (zeroing.h). */
#include "store/zeroing.h"

#include <string.h>

static void *alloc(void *user, size_t size, size_t align)
{
    const pc_allocator *from = &((const pc__zeroing *)user)->from;
    return from->alloc(from->user, size, align);
}

static void zero_and_free(void *user, void *ptr, size_t size, size_t align)
{
    const pc_allocator *from = &((const pc__zeroing *)user)->from;
    explicit_bzero(ptr, size);
    from->free(from->user, ptr, size, align);
}

void pc__zeroing_init(pc__zeroing *zeroing, const pc_allocator *from)
{
    zeroing->from = *from;
    zeroing->mem = (pc_allocator){zeroing, alloc, zero_and_free};
}
