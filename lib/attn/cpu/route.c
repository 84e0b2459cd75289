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

/* What softmax or sigmoid need beside a logit. */
typedef struct score_terms {
    int sigmoid;
    float most, all;
} score_terms;

static score_terms terms_of(const pc__expert_config *config, const float *logits)
{
    score_terms terms = {config->sigmoid, logits[0], 0.0f};
    for (int32_t e = 0; e < config->count && !config->sigmoid; e++)
        terms.most = logits[e] > terms.most ? logits[e] : terms.most;
    for (int32_t e = 0; e < config->count && !config->sigmoid; e++)
        terms.all += expf(logits[e] - terms.most);
    return terms;
}

static float score_of(const score_terms *terms, float logit)
{
    return terms->sigmoid ? 1.0f / (1.0f + expf(-logit)) : expf(logit - terms->most) / terms->all;
}

/* The sum of the largest values of a group. */
static float group_value(const pc__expert_config *config, const float *values, int32_t group)
{
    int32_t width = config->count / config->groups, last = -1;
    float sum = 0.0f;
    for (int32_t i = 0; i < config->group_best && i < width; i++) {
        last = next_largest(values + group * width, width, last);
        if (last < 0)
            break;
        sum += values[group * width + last];
    }
    return sum;
}

/* How many groups count more than this one; of equal ones the first counts more. */
static int32_t groups_above(const pc__expert_config *config, const float *values, int32_t group)
{
    float own = group_value(config, values, group);
    int32_t above = 0;
    for (int32_t g = 0; g < config->groups; g++) {
        float value = group_value(config, values, g);
        above += value > own || (value == own && g < group);
    }
    return above;
}

/* What the choice compares: scores with their bias; -inf in groups that are not open. */
static void fill_choice(const pc__expert_config *config, const score_terms *terms,
                        const float *bias, const float *logits, float *values, float *choice)
{
    int32_t width = config->groups ? config->count / config->groups : 0;
    for (int32_t e = 0; e < config->count; e++)
        choice[e] = values[e] = score_of(terms, logits[e]) + (bias ? bias[e] : 0.0f);
    for (int32_t g = 0; g < config->groups; g++)
        if (groups_above(config, values, g) >= config->groups_used)
            for (int32_t e = g * width; e < (g + 1) * width; e++)
                choice[e] = -INFINITY;
}

static void choose(const pc__expert_config *config, const float *choice, int32_t *chosen)
{
    for (int32_t i = 0; i < config->used; i++) {
        int32_t e = i && !(choice[chosen[i - 1]] == choice[chosen[i - 1]])
                        ? -1
                        : next_largest(choice, config->count, i ? chosen[i - 1] : -1);
        chosen[i] = e < 0 ? first_left(chosen, i) : e;
    }
}

void pc__route_row(const pc__expert_config *config, const float *bias, const float *logits,
                   float *scratch, int32_t *chosen, float *weight)
{
    const score_terms terms = terms_of(config, logits);
    float some = 0.0f;
    if (bias || config->groups) {
        fill_choice(config, &terms, bias, logits, scratch, scratch + config->count);
        choose(config, scratch + config->count, chosen);
    } else {
        choose(config, logits, chosen); /* the order of the scores, before they are rounded */
    }
    for (int32_t i = 0; i < config->used; i++) {
        weight[i] = score_of(&terms, logits[chosen[i]]);
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
        pc__route_row(r->config, r->routes->bias,
                      r->routes->logits + row * (size_t)r->config->count,
                      r->routes->scratch + row * pc__route_scratch(r->config),
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
