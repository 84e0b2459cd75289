#include "attn/cpu/panel_set.h"

#include <string.h>

#include "base/threads.h"

enum { BEHIND = 4096 }; /* prefetches may look past the end */

pc_status pc__panel_set_new(pc__panel_set *set, const pc__linear *linear, size_t bytes)
{
    set->count = pc__panel_count(linear);
    set->bytes = bytes;
    set->weights = pc__alloc_aligned(&linear->context->mem, set->count * bytes + BEHIND, 64);
    if (!set->weights)
        return PC_ERR_NOMEM;
    if (set->count)
        memset(set->weights + (set->count - 1) * bytes, 0, bytes);
    return PC_OK;
}

void pc__panel_set_drop(pc__linear *linear)
{
    pc__panel_set *set = linear->packed;
    if (set)
        pc__free(&linear->context->mem, set->weights);
    pc__free(&linear->context->mem, set);
}

size_t pc__panel_set_bytes(const pc__linear *linear)
{
    const pc__panel_set *set = linear->packed;
    return set->count * set->bytes;
}

typedef struct packing {
    const pc__panel_set *set;
    const pc__linear *linear;
    pc__pack_panel_fn pack;
    void *arg;
    uint8_t *scratch;
    size_t lane_bytes;
    atomic_size_t next;
} packing;

static void pack_lane(void *arg, size_t index)
{
    packing *p = arg;
    size_t i;
    while ((i = atomic_fetch_add(&p->next, 1)) < p->set->count)
        p->pack(p->arg, i * PC__PANEL, pc__panel_width(p->linear, i), p->scratch + index * p->lane_bytes,
                p->set->weights + i * p->set->bytes);
}

pc_status pc__panel_set_pack(const pc__panel_set *set, const pc__linear *linear, size_t scratch_bytes, pc__pack_panel_fn pack,
                             void *arg)
{
    const pc_allocator *mem = &linear->context->mem;
    packing p = {.set = set, .linear = linear, .pack = pack, .arg = arg, .lane_bytes = (scratch_bytes + 63) / 64 * 64};
    p.scratch = pc__alloc_aligned(mem, linear->context->threads * p.lane_bytes + 64, 64);
    if (!p.scratch)
        return PC_ERR_NOMEM;
    pc__parallel(linear->context, linear->context->threads, pack_lane, &p);
    pc__free(mem, p.scratch);
    return PC_OK;
}

void pc__panel_add_bias(const pc__linear *linear, size_t first, size_t width, size_t rows, float *y)
{
    for (size_t r = 0; linear->bias && r < rows; r++)
        for (size_t n = first; n < first + width; n++)
            y[r * linear->out + n] += linear->bias[n];
}
