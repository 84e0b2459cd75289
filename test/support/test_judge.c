/* Catches: a measurement that takes a query for its own neighbour, crosses groups, or reads items
 * that are not stored; wrong means and shares (against a plain count over all pairs); results that
 * depend on threads; ranks of ties that are not their mean, a lost sign, NaN if one side is
 * constant; accepted labels that are not finite; leaks. */
#include "judge.h"

#include <math.h>
#include <stdatomic.h>
#include <string.h>

#include "base/context.h"
#include "feature_items.h"
#include "memo/train/vector_ops.h"

enum { DIM = PC__FEATURE_DIM, ITEMS = 90, CELLS = 32 };
static feature_items items;
static pc__projector *projector;

typedef struct asked {
    atomic_uint calls, wrong;
    size_t stored;
    int grouped;
    float add;
} asked;

static float label_of(void *user, size_t i, size_t j)
{
    asked *a = user;
    atomic_fetch_add(&a->calls, 1);
    if (i == j || (a->stored && (j >= a->stored || i < a->stored))
        || (a->grouped && items.groups[i] != items.groups[j]))
        atomic_fetch_add(&a->wrong, 1);
    return feature_items_label(&items, i, j) + a->add;
}

static pc_context *context_of(uint32_t threads)
{
    pc_context *context;
    pc_context_options options = PC_CONTEXT_OPTIONS_INIT;
    options.threads = threads;
    CHECK_OK(pc_context_new(&context, &options));
    return context;
}

static double distance_of(size_t i, size_t j)
{
    float f[2 * DIM];
    pc__projector_features(projector, items.pooled + i * CELLS, 1, f);
    pc__projector_features(projector, items.pooled + j * CELLS, 1, f + DIM);
    return sqrt((double)pc__vector_ops_get()->square_distance(f, f + DIM, DIM));
}

static judge_result plain(size_t stored, int grouped)
{
    judge_result r = {0};
    for (size_t q = stored; q < ITEMS; q++) {
        double nearest = INFINITY, nearest_label = 0, best = INFINITY, sum = 0, count = 0;
        for (size_t i = 0; i < (stored ? stored : ITEMS); i++) {
            if (i == q || (grouped && items.groups[i] != items.groups[q]))
                continue;
            double distance = distance_of(q, i), label = (double)feature_items_label(&items, q, i);
            if (distance < nearest)
                nearest = distance, nearest_label = label;
            best = label < best ? label : best;
            sum += label;
            count++;
        }
        if (!(count > 0))
            continue;
        r.queries++;
        r.pairs += (size_t)count;
        r.nearest_label += nearest_label, r.best_label += best, r.random_label += sum / count;
    }
    r.nearest_label /= (double)r.queries, r.best_label /= (double)r.queries,
        r.random_label /= (double)r.queries;
    r.share = (r.random_label - r.nearest_label) / (r.random_label - r.best_label);
    return r;
}

static void all_pairs(void)
{
    pc_context *context = context_of(2);
    for (size_t stored = 0; stored <= 60; stored += 30)
        for (int grouped = 0; grouped < 2; grouped++) {
            asked a = {.stored = stored, .grouped = grouped};
            judge_input judging = {.pooled = items.pooled,
                                   .count = ITEMS,
                                   .stored = stored,
                                   .groups = grouped ? items.groups : NULL,
                                   .label = label_of,
                                   .label_user = &a};
            judge_result got, want = plain(stored, grouped);
            CHECK_OK(judge_projector(projector, context, &judging, &got));
            CHECK_INT(got.queries, want.queries);
            CHECK_INT(got.pairs, want.pairs);
            CHECK_INT(atomic_load(&a.calls), want.pairs);
            CHECK_INT(atomic_load(&a.wrong), 0);
            CHECK(fabs(got.nearest_label - want.nearest_label) < 1e-12
                  && fabs(got.best_label - want.best_label) < 1e-12);
            CHECK(fabs(got.random_label - want.random_label) < 1e-12
                  && fabs(got.share - want.share) < 1e-9);
            CHECK(got.rank_correlation > 0 && got.rank_correlation < 1);
        }
    pc_context_free(context);
}

static void samples(void)
{
    judge_result one, other;
    asked a = {0};
    judge_input judging = {.pooled = items.pooled,
                           .count = ITEMS,
                           .label = label_of,
                           .label_user = &a,
                           .queries = 20,
                           .candidates = 7,
                           .seed = 5};
    for (uint32_t threads = 1; threads <= 3; threads++) {
        pc_context *context = context_of(threads);
        CHECK_OK(judge_projector(projector, context, &judging, &other));
        if (threads == 1)
            one = other;
        CHECK(!memcmp(&one, &other, sizeof one));
        pc_context_free(context);
    }
    CHECK_INT(one.queries, 20);
    CHECK_INT(one.pairs, 140);
    CHECK_INT(atomic_load(&a.wrong), 0);
}

static void refusals(void)
{
    pc_context *context = context_of(1);
    uint32_t alone[ITEMS];
    judge_result r;
    asked a = {.add = NAN};
    judge_input judging = {
        .pooled = items.pooled, .count = ITEMS, .label = label_of, .label_user = &a};
    CHECK_STATUS(judge_projector(projector, context, &judging, &r), PC_ERR_INVALID);
    CHECK_ERROR_HAS("label nan");
    CHECK_INT(r.queries, 0);
    a.add = 0;
    for (uint32_t i = 0; i < ITEMS; i++)
        alone[i] = i;
    judging.groups = alone;
    CHECK_STATUS(judge_projector(projector, context, &judging, &r), PC_ERR_INVALID);
    CHECK_ERROR_HAS("no query has a stored item of its group");
    judging.groups = NULL;
    judging.stored = ITEMS;
    CHECK_STATUS(judge_projector(projector, context, &judging, &r), PC_ERR_INVALID);
    judging.stored = 0, judging.count = 1;
    CHECK_STATUS(judge_projector(projector, context, &judging, &r), PC_ERR_INVALID);
    pc_context_free(context);
}

static void without_memory(void)
{
    pc_status status = PC_ERR_NOMEM;
    for (uint64_t at = 1; status != PC_OK && at < 20; at++) {
        pc_test_memory memory = {0};
        pc_allocator failing = pc_test_allocator(&memory);
        pc_context_options options = PC_CONTEXT_OPTIONS_INIT;
        pc_context *context;
        asked a = {0};
        judge_input judging = {
            .pooled = items.pooled, .count = ITEMS, .label = label_of, .label_user = &a};
        judge_result r;
        options.threads = 1;
        options.allocator = &failing;
        CHECK_OK(pc_context_new(&context, &options));
        memory.fail_at = memory.calls + at;
        status = judge_projector(projector, context, &judging, &r);
        CHECK(status == PC_OK || (status == PC_ERR_NOMEM && !r.pairs));
        pc_context_free(context);
        CHECK_INT(memory.live_blocks, 0);
    }
    CHECK_OK(status);
}

static double correlation_of(const double *a, const double *b, size_t count)
{
    double out = 2;
    CHECK_OK(rank_correlation(&pc__libc_allocator, a, b, count, &out));
    return out;
}

static void ranks(void)
{
    const double up[] = {-3, 0, 0.5, 1e9, INFINITY}, down[] = {5, 4, 3, 2, 1},
                 mixed[] = {2, 1, 4, 3, 5}, same[] = {7, 7, 7, 7, 7}, tied[] = {1, 2, 2, 3, 3};
    CHECK(correlation_of(up, up, 5) == 1);
    CHECK(correlation_of(up, down, 5) == -1);
    CHECK(fabs(correlation_of(up, mixed, 5) - 0.8) < 1e-15); /* 1 - 6 * 4 / (5 * 24) */
    CHECK(correlation_of(up, same, 5) == 0);
    CHECK(fabs(correlation_of(up, tied, 5) - 9 / sqrt(90))
          < 1e-15); /* ranks 1, 2.5, 2.5, 4.5, 4.5: cov 9, squares 10 and 9 */
    CHECK(correlation_of(up, down, 1) == 0 && correlation_of(up, down, 0) == 0);
    pc_status status = PC_ERR_NOMEM;
    for (uint64_t at = 1; status != PC_OK && at < 10; at++) {
        pc_test_memory memory = {.fail_at = at};
        pc_allocator failing = pc_test_allocator(&memory);
        double out;
        status = rank_correlation(&failing, up, tied, 5, &out);
        CHECK(status == PC_OK || status == PC_ERR_NOMEM);
        CHECK_INT(memory.live_blocks, 0);
    }
    CHECK_OK(status);
}

int main(void)
{
    pc__projector_shape shape = {CELLS, 1, 64, 1, CELLS, 16};
    items = feature_items_new(ITEMS, CELLS, 8);
    CHECK_OK(pc__projector_new(&projector, &pc__libc_allocator, &shape, 2));
    CHECK_OK(pc__projector_norm(projector, items.pooled, ITEMS));
    all_pairs();
    samples();
    refusals();
    without_memory();
    ranks();
    pc__projector_free(projector);
    feature_items_free(&items);
    return pc_test_end();
}
