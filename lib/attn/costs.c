/* The costs in force: measured ones from the file, else estimates for each set of kernels. */
#include "attn/costs.h"

#include <stdlib.h>
#include <string.h>

#include "attn/kernels.h"

/* Rough estimates for each set of kernels. A reading costs its arithmetic; from memory it costs at
 * least the time of the bytes. */
#define AT_LEAST(least, x) ((x) < (least) ? (least) : (x))
/* clang-format off */
#define ESTIMATE(name, row, read) \
    {NULL, \
     {sizeof(pc_costs), "", name, PC_COSTS_BUILT_IN, 0, \
      {AT_LEAST(4, row), AT_LEAST(4, 2 * (row)), 4 * (row), 8 * (row), 16 * (row), \
       32 * (row), 64 * (row), 128 * (row), 256 * (row)}, \
      {AT_LEAST(read, row), AT_LEAST(read, 2 * (row)), AT_LEAST(read, 4 * (row)), \
       AT_LEAST(read, 8 * (row)), AT_LEAST(read, 16 * (row)), 32 * (row), 64 * (row), \
       128 * (row), 256 * (row)}}}
/* clang-format on */

static const pc__cost_table built_in[] = {
    ESTIMATE("amx", 1.0, 30),    ESTIMATE("avx512bf16", 2.5, 30), ESTIMATE("avx512vnni", 6.0, 30),
    ESTIMATE("avx512", 6.0, 30), ESTIMATE("avx2", 6.0, 30),       ESTIMATE("c", 100.0, 60),
};

static const pc__cost_table *estimated_costs(void)
{
    const char *name = pc__kernels_get()->name;
    size_t last = sizeof built_in / sizeof *built_in - 1, i = 0;
    while (i < last && strcmp(built_in[i].public.kernels, name))
        i++;
    return &built_in[i];
}

pc_status pc__costs_use(pc_context *context, const pc_costs *costs)
{
    pc__cost_table *own = pc__alloc(&context->mem, sizeof *own);
    void *first = atomic_load(&context->own_costs);
    if (!own)
        return PC_ERR_NOMEM;
    own->public = *costs;
    do {
        own->next = first;
    } while (!atomic_compare_exchange_weak(&context->own_costs, &first, own));
    atomic_store(&context->costs, own);
    return PC_OK;
}

/* If the file is missing or bad, the estimates are used. */
static void load_costs(pc_context *context)
{
    char path[PC__COSTS_PATH];
    pc_costs costs;
    pc_status status = PC_ERR_NOT_FOUND;
    pc__costs_path(path, sizeof path);
    if (*path)
        status = pc__costs_read(&context->mem, path, pc__kernels_get()->name, &costs);
    if (status >= 0 && pc__costs_use(context, &costs) >= 0) {
        pc__log(context, PC_LOG_DEBUG, "costs of attention from %s", path);
        return;
    }
    if (status != PC_ERR_NOT_FOUND)
        pc__log(context, PC_LOG_WARN, "costs of attention: %s; estimates are used",
                pc_error_text());
    atomic_store(&context->costs, estimated_costs());
}

const pc__cost_table *pc__costs_of(pc_context *context)
{
    const pc__cost_table *costs = atomic_load_explicit(&context->costs, memory_order_acquire);
    if (!costs) {
        load_costs(context);
        costs = atomic_load(&context->costs);
    }
    return costs;
}

double pc__cost(const pc__cost_table *costs, size_t rows, int cached)
{
    const double *of = cached ? costs->public.cached_ns : costs->public.memory_ns;
    size_t i = 0;
    while (i + 2 < PC_COST_COUNT && (size_t)2 << i < rows)
        i++;
    double low = of[i],
           share = ((double)rows - (double)((size_t)1 << i)) / (double)((size_t)1 << i);
    return low + share * (of[i + 1] - low);
}

static double cost_of_all(const pc__cost_table *costs, size_t slots, size_t group, size_t tile,
                          int cached)
{
    size_t first = slots < tile ? slots : tile, whole = (slots - first) / tile,
           rest = (slots - first) % tile;
    double sum = pc__cost(costs, first * group, 0)
                 + (double)whole * pc__cost(costs, tile * group, cached);
    return rest ? sum + pc__cost(costs, rest * group, cached) : sum;
}

size_t pc__cost_tile(const pc__cost_table *costs, size_t slots, size_t group, size_t most,
                     int cached)
{
    const double clearly = 0.95;
    size_t best = slots < most ? slots : most;
    double least = cost_of_all(costs, slots, group, best, cached);
    for (size_t tile = best / 2; tile; tile /= 2) {
        double cost = cost_of_all(costs, slots, group, tile, cached);
        if (cost < clearly * least) {
            least = cost;
            best = tile;
        }
    }
    return best;
}

pc_status pc_costs_get(pc_context *context, pc_costs *costs)
{
    PC__HOLD(pc_context, context);
    if (!context || !costs)
        return pc__fail(PC_ERR_INVALID, "pc_costs_get: context or costs is NULL");
    const pc_costs *now = &pc__costs_of(context)->public;
    return pc__result_write(costs, PC__V1_SIZE(pc_costs, memory_ns), now, sizeof *now, "pc_costs");
}
