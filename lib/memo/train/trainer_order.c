/* Makes the batches of an epoch: shuffles items, groups them, divides groups, shuffles batches. */
#include <stdlib.h>

#include "base/splitmix.h"
#include "memo/train/trainer.h"

pc_status pc__training_order_new(pc__training_order *out, const pc_allocator *mem, size_t items,
                                 const uint32_t *groups, size_t batch)
{
    *out = (pc__training_order){.mem = *mem, .groups = groups, .items = items, .batch = batch};
    out->order = pc__calloc(mem, items, sizeof *out->order);
    out->batch_ranges = pc__calloc(mem, items / 2 + 1, sizeof *out->batch_ranges);
    if (groups)
        out->grouped = pc__calloc(mem, items, sizeof *out->grouped);
    if (out->order && out->batch_ranges && (out->grouped || !groups))
        return PC_OK;
    pc__training_order_free(out);
    return PC_ERR_NOMEM;
}

void pc__training_order_free(pc__training_order *order)
{
    if (order->mem.alloc) {
        pc__free(&order->mem, order->order);
        pc__free(&order->mem, order->batch_ranges);
        pc__free(&order->mem, order->grouped);
    }
    *order = (pc__training_order){.items = 0};
}

static int by_group(const void *a, const void *b)
{
    const struct pc__grouped *x = a, *y = b;
    if (x->group != y->group)
        return x->group < y->group ? -1 : 1;
    return x->place < y->place ? -1 : 1;
}

static void gather_groups(pc__training_order *o)
{
    for (size_t i = 0; i < o->items; i++)
        o->grouped[i] = (struct pc__grouped){o->groups[o->order[i]], i, o->order[i]};
    qsort(o->grouped, o->items, sizeof *o->grouped, by_group);
    for (size_t i = 0; i < o->items; i++)
        o->order[i] = o->grouped[i].item;
}

void pc__training_order_make(pc__training_order *order, uint64_t seed, size_t epoch)
{
    uint64_t state = pc__splitmix_start(seed, 16 + epoch);
    for (size_t i = 0; i < order->items; i++)
        order->order[i] = i;
    pc__splitmix_shuffle(&state, order->order, order->items);
    if (order->groups)
        gather_groups(order);
    order->batches = 0;
    for (size_t at = 0, end; at < order->items; at = end) {
        end = at + 1;
        while (end < order->items && end - at < order->batch
               && (!order->groups || order->grouped[end].group == order->grouped[at].group))
            end++;
        if (end - at > 1)
            order->batch_ranges[order->batches++] = (pc__batch_range){at, end - at};
    }
    for (size_t i = order->batches; i > 1; i--) {
        size_t j = pc__splitmix_below(&state, i);
        pc__batch_range held = order->batch_ranges[i - 1];
        order->batch_ranges[i - 1] = order->batch_ranges[j];
        order->batch_ranges[j] = held;
    }
}
