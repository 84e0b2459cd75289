#include "store/wiping.h"

#include <string.h>

static void *alloc(void *user, size_t size, size_t align)
{
    const pc_allocator *from = &((const pc__wiping *)user)->from;
    return from->alloc(from->user, size, align);
}

static void wipe_and_free(void *user, void *ptr, size_t size, size_t align)
{
    const pc_allocator *from = &((const pc__wiping *)user)->from;
    explicit_bzero(ptr, size);
    from->free(from->user, ptr, size, align);
}

void pc__wiping_init(pc__wiping *wiping, const pc_allocator *from)
{
    wiping->from = *from;
    wiping->mem = (pc_allocator){wiping, alloc, wipe_and_free};
}
