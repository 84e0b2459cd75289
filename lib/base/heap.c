/* A binary heap in an array; each node knows its position. */
#include "base/heap.h"

#include "base/mem.h"

static int is_less(const pc__heap_slot *a, const pc__heap_slot *b)
{
    return a->rank < b->rank || (a->rank == b->rank && a->key < b->key);
}

static void set_slot(pc__heap *heap, size_t place, pc__heap_slot slot)
{
    heap->slots[place] = slot;
    slot.node->place = place + 1;
}

/* Puts `slot` in; `place` is an empty position near its own. */
static void sift_slot(pc__heap *heap, size_t place, pc__heap_slot slot)
{
    for (; place && is_less(&slot, &heap->slots[(place - 1) / 2]); place = (place - 1) / 2)
        set_slot(heap, place, heap->slots[(place - 1) / 2]);
    for (size_t child = 2 * place + 1; child < heap->count; child = 2 * place + 1) {
        if (child + 1 < heap->count && is_less(&heap->slots[child + 1], &heap->slots[child]))
            child++;
        if (!is_less(&heap->slots[child], &slot))
            break;
        set_slot(heap, place, heap->slots[child]);
        place = child;
    }
    set_slot(heap, place, slot);
}

pc_status pc__heap_reserve(pc__heap *heap, const pc_allocator *mem, size_t count)
{
    return pc__grow(mem, (void **)&heap->slots, &heap->capacity, count, sizeof *heap->slots);
}

void pc__heap_add(pc__heap *heap, pc__heap_node *node, int64_t rank, double key)
{
    size_t place = node->place ? node->place - 1 : heap->count++;
    sift_slot(heap, place, (pc__heap_slot){key, rank, node});
}

void pc__heap_remove(pc__heap *heap, pc__heap_node *node)
{
    size_t place = node->place - 1;
    if (!node->place)
        return;
    node->place = 0;
    heap->count--;
    if (place < heap->count)
        sift_slot(heap, place, heap->slots[heap->count]);
}

void pc__heap_free(pc__heap *heap, const pc_allocator *mem)
{
    pc__free(mem, heap->slots);
    *heap = (pc__heap){0};
}
