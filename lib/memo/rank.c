#include "memo/rank.h"

#include <math.h>
#include <stdlib.h>

typedef struct ranked {
    double value;
    size_t item;
} ranked;

static int by_value(const void *a, const void *b)
{
    const ranked *x = a, *y = b;
    if (x->value != y->value)
        return x->value < y->value ? -1 : 1;
    return x->item < y->item ? -1 : 1;
}

/* rank[i]: of values[i], minus the mean of all ranks. */
static void centred_ranks(const double *values, size_t count, ranked *order, double *rank)
{
    for (size_t i = 0; i < count; i++)
        order[i] = (ranked){values[i], i};
    qsort(order, count, sizeof *order, by_value);
    for (size_t from = 0, to; from < count; from = to) {
        for (to = from + 1; to < count && order[to].value == order[from].value; to++)
            ;
        for (size_t i = from; i < to; i++)
            rank[order[i].item] = 0.5 * ((double)from + (double)(to - 1) - (double)(count - 1));
    }
}

pc_status pc__rank_correlation(const pc_allocator *mem, const double *a, const double *b, size_t count, double *out)
{
    ranked *order = pc__calloc(mem, count + 1, sizeof *order);
    double *ranks = pc__calloc(mem, 2 * count + 1, sizeof *ranks), ab = 0, aa = 0, bb = 0;
    pc_status status = order && ranks ? PC_OK : PC_ERR_NOMEM;
    *out = 0;
    if (status == PC_OK) {
        centred_ranks(a, count, order, ranks);
        centred_ranks(b, count, order, ranks + count);
        for (size_t i = 0; i < count; i++) {
            ab += ranks[i] * ranks[count + i];
            aa += ranks[i] * ranks[i];
            bb += ranks[count + i] * ranks[count + i];
        }
        if (aa > 0 && bb > 0)
            *out = ab / sqrt(aa * bb);
    }
    pc__free(mem, order);
    pc__free(mem, ranks);
    return status;
}
