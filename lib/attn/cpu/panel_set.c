/* The memory of panels, and packing them on all threads. */
#include "attn/cpu/panel_set.h"

#include <string.h>

#include "base/checksum.h"
#include "base/threads.h"

enum {
    BEHIND = 4096,  /* prefetches may reach past the end */
    LARGE = 4 << 20 /* bytes that get huge pages of their own (base/mem.c) */
};

void pc__panel_set_drop(pc__linear *linear)
{
    pc__panel_set *set = linear->packed;
    if (set && set->map)
        pc__packed_map_drop(set->map);
    else if (set && !set->joined)
        pc__free(&linear->context->mem, set->weights);
    pc__free(&linear->context->mem, set);
}

size_t pc__panel_set_bytes(const pc__linear *linear)
{
    const pc__panel_set *set = linear->packed;
    return set->count * set->bytes;
}

static pc__panel_set *small_set(pc__linear *linear)
{
    pc__panel_set *set = linear && !linear->ops->run ? linear->packed : NULL;
    return set && !set->map && !set->joined && set->count * set->bytes < LARGE ? set : NULL;
}

pc_status pc__linear_join(pc_context *context, pc__linear *const *linears, size_t count,
                          void **block)
{
    size_t bytes = 0;
    uint8_t *at;
    *block = NULL;
    for (size_t i = 0; i < count; i++) {
        const pc__panel_set *set = small_set(linears[i]);
        bytes += set ? (set->count * set->bytes + 63) / 64 * 64 : 0;
    }
    if (bytes < LARGE)
        return PC_OK;
    if (!(*block = at = pc__alloc_aligned(&context->mem, bytes + BEHIND, 64)))
        return PC_ERR_NOMEM;
    for (size_t i = 0; i < count; i++) {
        pc__panel_set *set = small_set(linears[i]);
        uint8_t *from = set ? set->weights : NULL;
        if (!set)
            continue;
        set->weights = pc__carve(&at, set->count * set->bytes);
        memcpy(set->weights, from, set->count * set->bytes);
        set->joined = 1;
        pc__free(&context->mem, from);
    }
    return PC_OK;
}

typedef struct panel_packing {
    const pc__panel_set *set;
    const pc__linear *linear;
    const pc__panel_packer *packer;
    uint8_t *scratch;
    size_t thread_bytes;
    atomic_size_t next;
} panel_packing;

static void pack_panels(void *arg, size_t index)
{
    panel_packing *p = arg;
    size_t i;
    while ((i = atomic_fetch_add(&p->next, 1)) < p->set->count)
        p->packer->pack(p->packer->arg, i * PC__PANEL, pc__panel_width(p->linear, i),
                        p->scratch + index * p->thread_bytes, p->set->weights + i * p->set->bytes);
}

static pc_status pack_all(const pc__panel_set *set, const pc__linear *linear,
                          const pc__panel_packer *packer)
{
    const pc_allocator *mem = &linear->context->mem;
    panel_packing p = {.set = set,
                       .linear = linear,
                       .packer = packer,
                       .thread_bytes = (packer->scratch_bytes + 63) / 64 * 64};
    p.scratch = pc__alloc_aligned(mem, linear->context->threads * p.thread_bytes + 64, 64);
    if (!p.scratch)
        return PC_ERR_NOMEM;
    pc__parallel(linear->context, linear->context->threads, pack_panels, &p);
    pc__free(mem, p.scratch);
    return PC_OK;
}

static pc_status take_memory(pc__panel_set *set, const pc_allocator *mem)
{
    if (!(set->weights = pc__alloc_aligned(mem, set->count * set->bytes + BEHIND, 64)))
        return PC_ERR_NOMEM;
    if (set->count)
        memset(set->weights + (set->count - 1) * set->bytes, 0, set->bytes);
    return PC_OK;
}

/* 1: the panels lie in the file of packed weights. */
static int find_packed(pc__panel_set *set, pc__packed *packed, uint64_t tag)
{
    const uint8_t *found = packed ? pc__packed_find(packed, tag, set->count * set->bytes, &set->map)
                                  : NULL;
    set->weights = (uint8_t *)(uintptr_t)found; /* nothing writes to a set that is made */
    return found != NULL;
}

pc_status pc__panel_set_make(pc__panel_set *set, const pc__linear *linear, size_t bytes,
                             const pc__panel_packer *packer)
{
    const uint64_t what[] = {linear->out, linear->in, linear->compute, packer->form};
    uint64_t tag = pc__checksum64(what, sizeof what);
    set->count = pc__panel_count(linear);
    set->bytes = bytes;
    if (find_packed(set, packer->packed, tag))
        return PC_OK;
    PC__TRY_RETURN(take_memory(set, &linear->context->mem));
    PC__TRY_RETURN(pack_all(set, linear, packer));
    if (packer->packed)
        pc__packed_write(packer->packed, tag, set->weights, set->count * bytes);
    return PC_OK;
}
