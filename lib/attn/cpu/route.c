/* Top-k routing, and entries sorted by expert. */
#include "attn/cpu/route.h"

#include <math.h>
#include <string.h>

#include "base/threads.h"

enum { ROWS_AT_ONCE = 16 };

/* The largest logit after `last` in descending order (last -1: the largest of all). -1: none is
 * left that is not NaN. */
static int32_t next_largest(const float *logits, int32_t count, int32_t last)
{
    int32_t best = -1;
    for (int32_t e = 0; e < count; e++) {
        int after = last < 0 || logits[e] < logits[last] || (logits[e] == logits[last] && e > last);
        if (after && (best < 0 ? logits[e] == logits[e] : logits[e] > logits[best]))
            best = e;
    }
    return best;
}

static int32_t first_left(const int32_t *chosen, int32_t used)
{
    int32_t e = 0;
    for (int32_t i = 0; i < used; i++)
        if (chosen[i] == e) {
            e++;
            i = -1;
        }
    return e;
}

void pc__route_row(const pc__expert_config *config, const float *logits, int32_t *chosen,
                   float *weight)
{
    float all = 0.0f, some = 0.0f, most;
    for (int32_t i = 0; i < config->used; i++) {
        int32_t e = i && !(logits[chosen[i - 1]] == logits[chosen[i - 1]])
                        ? -1
                        : next_largest(logits, config->count, i ? chosen[i - 1] : -1);
        chosen[i] = e < 0 ? first_left(chosen, i) : e;
    }
    most = logits[chosen[0]];
    for (int32_t e = 0; e < config->count; e++)
        all += expf(logits[e] - most);
    for (int32_t i = 0; i < config->used; i++) {
        weight[i] = expf(logits[chosen[i]] - most) / all;
        some += weight[i];
    }
    for (int32_t i = 0; i < config->used; i++) {
        if (config->renormalise)
            weight[i] /= some;
        if (config->scale > 0)
            weight[i] *= config->scale;
    }
}

typedef struct routing_work {
    const pc__expert_config *config;
    pc__routes *routes;
    size_t rows;
} routing_work;

static void route_some(void *arg, size_t index)
{
    const routing_work *r = arg;
    size_t used = (size_t)r->config->used, end = (index + 1) * ROWS_AT_ONCE;
    for (size_t row = index * ROWS_AT_ONCE; row < end && row < r->rows; row++)
        pc__route_row(r->config, r->routes->logits + row * (size_t)r->config->count,
                      r->routes->chosen + row * used, r->routes->weight + row * used);
}

static void sort_few(uint32_t *entries, size_t count)
{
    for (size_t i = 1; i < count; i++)
        for (size_t k = i; k && entries[k] < entries[k - 1]; k--) {
            uint32_t smaller = entries[k];
            entries[k] = entries[k - 1];
            entries[k - 1] = smaller;
        }
}

/* Counts first; then first[e + 1] is where the next entry of expert e goes, and in the end where
 * its entries end. */
static void sort_by_expert(const pc__expert_config *config, size_t rows, pc__routes *routes)
{
    size_t used = (size_t)config->used, count = (size_t)config->count;
    uint32_t *next = routes->first + 1, sum = 0;
    memset(routes->first, 0, (count + 1) * sizeof *routes->first);
    for (size_t i = 0; i < rows * used; i++)
        next[routes->chosen[i]]++;
    for (size_t e = 0; e < count; e++) {
        uint32_t n = next[e];
        next[e] = sum;
        sum += n;
    }
    for (size_t i = 0; i < rows * used; i++) {
        uint32_t at = next[routes->chosen[i]]++;
        routes->row[at] = (uint32_t)(i / used);
        routes->share[at] = routes->weight[i];
        routes->of_row[i] = at;
    }
    for (size_t r = 0; r < rows; r++)
        sort_few(routes->of_row + r * used, used);
}

void pc__route(pc_context *context, const pc__expert_config *config, size_t rows,
               pc__routes *routes)
{
    routing_work r = {config, routes, rows};
    pc__parallel(context, (rows + ROWS_AT_ONCE - 1) / ROWS_AT_ONCE, route_some, &r);
    sort_by_expert(config, rows, routes);
}
