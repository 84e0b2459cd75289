/* Catches: other experts than the largest, ties that depend on chance, weights that are not the
 * softmax over all experts (or wrongly normalised or scaled), groups or biases that choose wrongly,
 * rows in the wrong list, overlapping
 * lists, NaN that leads out of bounds. */
#include "attn/cpu/route.h"

#include <math.h>
#include <string.h>

#include "testing.h"

enum { MOST = 16, ROWS = 37 };

static int near(double a, double b)
{
    return fabs(a - b) <= 1e-6;
}

/* Softmax over all, in double. */
static double share_of(const float *logits, int count, int e)
{
    double sum = 0;
    for (int i = 0; i < count; i++)
        sum += exp((double)logits[i] - (double)logits[e]);
    return 1 / sum;
}

static void by_rank(void)
{
    const float logits[6] = {0.5f, 3.0f, -2.0f, 1.0f, 2.5f, 0.0f};
    const int32_t order[6] = {1, 4, 3, 0, 5, 2};
    for (int used = 1; used <= 6; used++) {
        for (int way = 0; way < 4; way++) {
            pc__expert_config config = {
                .count = 6, .used = used, .renormalise = way & 1, .scale = way & 2 ? 2.5f : 0.0f};
            int32_t chosen[6];
            float weight[6];
            double sum = 0;
            pc__route_row(&config, NULL, logits, NULL, chosen, weight);
            for (int i = 0; i < used; i++)
                sum += share_of(logits, 6, order[i]);
            for (int i = 0; i < used; i++) {
                double want = share_of(logits, 6, order[i]) / (way & 1 ? sum : 1.0)
                              * (way & 2 ? 2.5 : 1.0);
                CHECK_INT(chosen[i], order[i]);
                CHECK(near((double)weight[i], want));
            }
        }
    }
}

static void ties(void)
{
    const float same[5] = {1, 1, 1, 1, 1}, pairs[5] = {0, 2, 2, 0, 2};
    const int32_t of_same[5] = {0, 1, 2, 3, 4}, of_pairs[5] = {1, 2, 4, 0, 3};
    pc__expert_config config = {.count = 5};
    for (config.used = 1; config.used <= 5; config.used++) {
        int32_t chosen[5];
        float weight[5];
        pc__route_row(&config, NULL, same, NULL, chosen, weight);
        CHECK(!memcmp(chosen, of_same, (size_t)config.used * sizeof *chosen));
        for (int i = 0; i < config.used; i++)
            CHECK(near((double)weight[i], 0.2));
        pc__route_row(&config, NULL, pairs, NULL, chosen, weight);
        CHECK(!memcmp(chosen, of_pairs, (size_t)config.used * sizeof *chosen));
    }
}

/* Large logits do not overflow; NaN gives NaN weights and valid, different experts. */
static void extremes(void)
{
    const float large[4] = {3e38f, -3e38f, 2.9e38f, 0};
    float odd[3][4] = {{NAN, 1, NAN, 2}, {NAN, NAN, NAN, NAN}, {INFINITY, -INFINITY, INFINITY, 0}};
    pc__expert_config config = {.count = 4, .used = 3};
    int32_t chosen[4];
    float weight[4];
    pc__route_row(&config, NULL, large, NULL, chosen, weight);
    CHECK(chosen[0] == 0 && chosen[1] == 2 && chosen[2] == 3);
    CHECK(weight[0] == 1 && weight[1] == 0 && weight[2] == 0);
    for (int i = 0; i < 3; i++) {
        for (config.used = 1; config.used <= 4; config.used++) {
            int seen[4] = {0};
            pc__route_row(&config, NULL, odd[i], NULL, chosen, weight);
            CHECK(!(weight[0] == weight[0]));
            for (int j = 0; j < config.used; j++)
                CHECK(chosen[j] >= 0 && chosen[j] < 4 && !seen[chosen[j]]++);
        }
    }
}

/* DeepSeek-V3, section 2.1.2: groups count by the sum of their two best biased scores, the bias
 * chooses, the score alone counts. By hand: scores of groups 0, 1, 2 are 0.9 + 0.6 (biased 0.5 +
 * 1.0), 0.7 + 0.65, 0.8 + 0.1. */
static void groups(void)
{
    const float score[6] = {0.9f, 0.6f, 0.7f, 0.65f, 0.8f, 0.1f};
    const float bias[6] = {-0.4f, 0.4f, 0, 0, 0, 0};
    const int32_t order[3] = {1, 2, 3};
    float logits[6], scratch[12], weight[3];
    int32_t chosen[3];
    pc__expert_config config = {.count = 6,
                                .used = 3,
                                .sigmoid = 1,
                                .renormalise = 1,
                                .groups = 3,
                                .groups_used = 2,
                                .group_best = 2,
                                .selection_bias = 1};
    double sum = 0.6 + 0.7 + 0.65;
    for (int e = 0; e < 6; e++)
        logits[e] = logf(score[e] / (1 - score[e]));
    pc__route_row(&config, bias, logits, scratch, chosen, weight);
    for (int i = 0; i < 3; i++) {
        CHECK_INT(chosen[i], order[i]);
        CHECK(near((double)weight[i], (double)score[order[i]] / sum));
    }
    /* DeepSeek-V2: softmax, the best expert of a group stands for it */
    config = (pc__expert_config){
        .count = 6, .used = 2, .groups = 3, .groups_used = 1, .group_best = 1};
    pc__route_row(&config, NULL, logits, scratch, chosen, weight);
    CHECK(chosen[0] == 0 && chosen[1] == 1);
    CHECK(near((double)weight[0], share_of(logits, 6, 0)));
    /* Llama 4: the sigmoid of the largest logits as it is */
    config = (pc__expert_config){.count = 6, .used = 2, .sigmoid = 1};
    pc__route_row(&config, NULL, logits, NULL, chosen, weight);
    CHECK(chosen[0] == 0 && chosen[1] == 4 && near((double)weight[1], 0.8));
}

typedef struct routed {
    pc__routes routes;
    float logits[ROWS * MOST], weight[ROWS * MOST], share[ROWS * MOST];
    int32_t chosen[ROWS * MOST];
    uint32_t first[MOST + 1], row[ROWS * MOST], of_row[ROWS * MOST];
} routed;

static void start(routed *r)
{
    memset(r, 0xee, sizeof *r); /* old contents must not matter */
    r->routes = (pc__routes){.logits = r->logits,
                             .chosen = r->chosen,
                             .weight = r->weight,
                             .first = r->first,
                             .row = r->row,
                             .share = r->share,
                             .of_row = r->of_row};
}

/* Every entry has its expert, its row's weight, ascending rows; none is missing. */
static void check_lists(const pc__expert_config *config, const routed *r, size_t rows)
{
    size_t used = (size_t)config->used;
    CHECK_INT(r->first[0], 0);
    CHECK_INT(r->first[config->count], rows * used);
    for (int32_t e = 0; e < config->count; e++)
        for (uint32_t i = r->first[e]; i < r->first[e + 1] && i < rows * used; i++) {
            int found = 0;
            if (!CHECK(r->row[i] < rows && (i == r->first[e] || r->row[i] > r->row[i - 1])))
                continue;
            for (size_t j = 0; j < used; j++)
                found += r->chosen[r->row[i] * used + j] == e
                         && r->weight[r->row[i] * used + j] == r->share[i];
            CHECK_INT(found, 1);
        }
    for (size_t i = 0; i < rows * used; i++) {
        CHECK(r->of_row[i] < rows * used && r->row[r->of_row[i]] == i / used);
        CHECK(i % used == 0 || r->of_row[i] > r->of_row[i - 1]);
    }
}

/* Some experts are never chosen; the choice of a row does not depend on other rows. */
static void lists(pc_context *context)
{
    static routed all, one;
    pc__expert_config config = {.count = MOST, .used = 3, .renormalise = 1};
    pc_test_rng rng = {5};
    start(&all);
    for (int i = 0; i < ROWS * MOST; i++)
        all.logits[i] = pc_test_normal(&rng)
                        - (i % MOST == 4 || i % MOST == MOST - 1 ? 50.0f : 0.0f);
    pc__route(context, &config, ROWS, &all.routes);
    check_lists(&config, &all, ROWS);
    CHECK_INT(all.first[4], all.first[5]);
    CHECK_INT(all.first[MOST - 1], all.first[MOST]);
    for (size_t r = 0; r < ROWS; r++) {
        start(&one);
        memcpy(one.logits, all.logits + r * MOST, MOST * sizeof *one.logits);
        pc__route(context, &config, 1, &one.routes);
        check_lists(&config, &one, 1);
        CHECK(!memcmp(one.chosen, all.chosen + r * 3, 3 * sizeof *one.chosen));
        CHECK(!memcmp(one.weight, all.weight + r * 3, 3 * sizeof *one.weight));
    }
    config.used = MOST;
    pc__route(context, &config, ROWS, &all.routes);
    check_lists(&config, &all, ROWS);
    for (int32_t e = 0; e < MOST; e++)
        CHECK_INT(all.first[e + 1] - all.first[e], ROWS);
    pc__route(context, &config, 0, &all.routes);
    CHECK_INT(all.first[MOST], 0);
}

int main(void)
{
    pc_context *context = NULL;
    by_rank();
    groups();
    ties();
    extremes();
    if (CHECK_OK(pc_context_new(&context, NULL)))
        lists(context);
    pc_context_free(context);
    return pc_test_end();
}
