#include "judge.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/threads.h"
#include "memo/train/vector_ops.h"
#include "base/splitmix.h"

/* ------------------------------------------------------------ correlation of ranks */

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

pc_status rank_correlation(const pc_allocator *mem, const double *a, const double *b, size_t count,
                           double *out)
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

/* ------------------------------------------------------------------------- judging */

enum { DIM = PC__FEATURE_DIM, CHUNK = 64, QUERIES = 200, CANDIDATES = 500 };

typedef struct judge {
    const pc__projector *projector;
    const judge_input *of;
    const pc__vector_ops *loops;
    size_t first_query, stored, queries, candidates;
    float *features;          /* [count][DIM] */
    size_t *query;            /* [items that may ask] */
    size_t *found;            /* [queries]: candidates of each */
    double *distance, *label; /* [queries][candidates] */
} judge;

static int may_answer(const judge *j, size_t query, size_t item)
{
    const uint32_t *groups = j->of->groups;
    return item != query && (!groups || groups[item] == groups[query]);
}

/* Draws the query's candidates: reservoir sampling over the stored items in their order, by (seed,
 * query). Their numbers go into `out`. */
static size_t draw(const judge *j, size_t query, double *out)
{
    uint64_t state = pc__splitmix_start(j->of->seed, 2 + query);
    size_t seen = 0;
    for (size_t item = 0; item < j->stored; item++) {
        if (!may_answer(j, query, item))
            continue;
        size_t at = seen < j->candidates ? seen : pc__splitmix_below(&state, seen + 1);
        seen++;
        if (at < j->candidates)
            out[at] = (double)item; /* exact: there are fewer than 2^53 */
    }
    return seen < j->candidates ? seen : j->candidates;
}

static void make_features(void *arg, size_t i)
{
    const judge *j = arg;
    size_t from = i * CHUNK, left = j->of->count - from;
    pc__projector_features(j->projector, j->of->pooled + from * pc__projector_pooled(j->projector),
                           left < CHUNK ? left : CHUNK, j->features + from * DIM);
}

static void ask(void *arg, size_t i)
{
    const judge *j = arg;
    const judge_input *of = j->of;
    size_t query = j->query[i];
    double *distance = j->distance + i * j->candidates, *label = j->label + i * j->candidates;
    j->found[i] = draw(j, query, label);
    for (size_t c = 0; c < j->found[i]; c++) {
        size_t item = (size_t)label[c];
        distance[c] = sqrt((double)j->loops->square_distance(j->features + query * DIM,
                                                             j->features + item * DIM, DIM));
        label[c] = (double)of->label(of->label_user, query, item);
    }
}

/* All pairs in order, without gaps. */
static pc_status close_up(judge *j, judge_result *out)
{
    for (size_t i = 0; i < j->queries; i++)
        for (size_t c = 0; c < j->found[i]; c++, out->pairs++) {
            double distance = j->distance[i * j->candidates + c],
                   label = j->label[i * j->candidates + c];
            if (!isfinite(distance) || !isfinite(label))
                return pc__fail(PC_ERR_INVALID,
                                "judging a projector: query %zu: distance %g, label %g",
                                j->query[i], distance, label);
            j->distance[out->pairs] = distance;
            j->label[out->pairs] = label;
        }
    return out->pairs ? PC_OK
                      : pc__fail(PC_ERR_INVALID,
                                 "judging a projector: no query has a stored item of its group");
}

static void average(const judge *j, judge_result *out)
{
    const double *distance = j->distance, *label = j->label;
    for (size_t i = 0; i < j->queries; distance += j->found[i], label += j->found[i], i++) {
        size_t nearest = 0, best = 0;
        double sum = 0;
        if (!j->found[i])
            continue;
        for (size_t c = 0; c < j->found[i]; c++) {
            sum += label[c];
            nearest = distance[c] < distance[nearest] ? c : nearest;
            best = label[c] < label[best] ? c : best;
        }
        out->queries++;
        out->nearest_label += label[nearest];
        out->best_label += label[best];
        out->random_label += sum / (double)j->found[i];
    }
    double queries = (double)out->queries;
    out->nearest_label /= queries, out->best_label /= queries, out->random_label /= queries;
    if (out->random_label > out->best_label)
        out->share = (out->random_label - out->nearest_label)
                     / (out->random_label - out->best_label);
}

/* The items that ask: `queries` of them, in an order that the seed decides. */
static void choose_queries(judge *j)
{
    uint64_t state = pc__splitmix_start(j->of->seed, 1);
    size_t all = j->of->count - j->first_query;
    for (size_t i = 0; i < all; i++)
        j->query[i] = j->first_query + i;
    pc__splitmix_shuffle(&state, j->query, all);
}

pc_status judge_projector(const pc__projector *projector, pc_context *context,
                          const judge_input *judging, judge_result *out)
{
    const pc_allocator *mem = &context->mem;
    judge j = {.projector = projector, .of = judging, .loops = pc__vector_ops_get()};
    pc_status status;
    *out = (judge_result){0};
    if (judging->stored >= judging->count || judging->count < 2)
        return pc__fail(PC_ERR_INVALID, "judging a projector: %zu items, of which %zu are stored",
                        judging->count, judging->stored);
    j.first_query = judging->stored;
    j.stored = judging->stored ? judging->stored : judging->count;
    j.queries = judging->queries ? judging->queries : QUERIES;
    j.candidates = judging->candidates ? judging->candidates : CANDIDATES;
    j.queries = j.queries < judging->count - j.first_query ? j.queries
                                                           : judging->count - j.first_query;
    j.candidates = j.candidates < j.stored ? j.candidates : j.stored;
    status = PC_ERR_NOMEM;
    if ((j.features = pc__calloc(mem, judging->count, DIM * sizeof *j.features))
        && (j.query = pc__calloc(mem, judging->count - j.first_query, sizeof *j.query))
        && (j.found = pc__calloc(mem, j.queries, sizeof *j.found))
        && (j.distance = pc__calloc(mem, j.queries * j.candidates, sizeof *j.distance))
        && (j.label = pc__calloc(mem, j.queries * j.candidates, sizeof *j.label))) {
        choose_queries(&j);
        pc__parallel(context, (judging->count + CHUNK - 1) / CHUNK, make_features, &j);
        pc__parallel(context, j.queries, ask, &j);
        status = close_up(&j, out);
    }
    if (status >= 0)
        status = rank_correlation(mem, j.distance, j.label, out->pairs, &out->rank_correlation);
    if (status >= 0)
        average(&j, out);
    else
        *out = (judge_result){0};
    pc__free(mem, j.features);
    pc__free(mem, j.query);
    pc__free(mem, j.found);
    pc__free(mem, j.distance);
    pc__free(mem, j.label);
    return status;
}
