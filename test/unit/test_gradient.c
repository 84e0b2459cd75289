/* Catches: a gradient that differs from differences of the loss (all in fp64, for every weight of a
 * small projector), a loss that differs from equation 3 of the paper, NaN from items with equal
 * features, results that depend on the number of threads. */
#include "memo/train/gradient.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/context.h"
#include "testing.h"

enum {
    ITEMS = 6,
    BATCH = 5,
    HIDDEN = 6,
    ROWS = 2,
    COLUMNS = 3,
    CELLS = ROWS * COLUMNS,
    INNER = 16,
    DIM = PC__FEATURE_DIM
};
enum { WEIGHTS = (CELLS + 1) * INNER + INNER * DIM };

typedef struct net {
    pc__projector *projector;
    float pooled[ITEMS * CELLS], labels[BATCH * BATCH];
    size_t items[BATCH];
} net;

static net net_new(uint64_t seed)
{
    net n = {.items = {4, 0, 5, 2, 1}};
    pc_test_rng rng = {seed};
    pc__projector_shape shape = {HIDDEN, 1, 9, ROWS, COLUMNS, INNER};
    CHECK_OK(pc__projector_new(&n.projector, &pc__libc_allocator, &shape, seed));
    for (size_t i = 0; i < ITEMS * CELLS; i++)
        n.pooled[i] = 3 + 2 * pc_test_normal(&rng);
    CHECK_OK(pc__projector_norm(n.projector, n.pooled, ITEMS));
    for (size_t i = 0; i < BATCH; i++)
        for (size_t j = i + 1; j < BATCH; j++) { /* residuals on both sides of both knees */
            float features[2 * DIM], distance;
            pc__projector_features(n.projector, n.pooled + n.items[i] * CELLS, 1, features);
            pc__projector_features(n.projector, n.pooled + n.items[j] * CELLS, 1, features + DIM);
            distance = sqrtf(pc__vector_ops_c.square_distance(features, features + DIM, DIM));
            n.labels[i * BATCH + j] = n.labels[j * BATCH + i] = distance - 0.2f
                                                                - 1.6f * (float)((i + j) % 4)
                                                                + 2.4f;
        }
    return n;
}

/* The loss of the paper. */
static double loss_of(const net *n, const double *weights)
{
    static double features[BATCH][DIM];
    double loss = 0;
    for (size_t r = 0; r < BATCH; r++) {
        double inner[INNER];
        for (size_t k = 0; k < INNER; k++) {
            double sum = weights[CELLS * INNER + k];
            for (size_t c = 0; c < CELLS; c++)
                sum += ((double)n->pooled[n->items[r] * CELLS + c] - (double)n->projector->mean[c])
                       * (double)n->projector->scale[c] * weights[c * INNER + k];
            inner[k] = sum > 0 ? sum : 0;
        }
        for (size_t d = 0; d < DIM; d++) {
            features[r][d] = 0;
            for (size_t k = 0; k < INNER; k++)
                features[r][d] += inner[k] * weights[(CELLS + 1) * INNER + k * DIM + d];
        }
    }
    for (size_t i = 0; i < BATCH; i++)
        for (size_t j = i + 1; j < BATCH; j++) {
            double square = 0;
            for (size_t d = 0; d < DIM; d++)
                square += (features[i][d] - features[j][d]) * (features[i][d] - features[j][d]);
            double off = fabs(sqrt(square) - (double)n->labels[i * BATCH + j]);
            loss += off < 1 ? 0.5 * off * off : off - 0.5;
        }
    return loss / (BATCH * (BATCH - 1) / 2);
}

static void against_differences(pc_context *context)
{
    static double weights[WEIGHTS];
    for (uint64_t seed = 1; seed <= 3; seed++) {
        net n = net_new(seed);
        pc__gradient *g;
        double worst = 0, largest = 0, square = 0;
        CHECK_INT(n.projector->weights, WEIGHTS);
        CHECK_OK(pc__gradient_new(&g, n.projector, BATCH));
        memcpy(g->labels, n.labels, sizeof n.labels);
        double loss = pc__gradient_compute(g, context, n.projector->first, n.pooled, n.items,
                                           BATCH);
        for (size_t i = 0; i < WEIGHTS; i++)
            weights[i] = (double)n.projector->first[i];
        CHECK(fabs(loss - loss_of(&n, weights)) < 1e-5 * loss);
        for (size_t i = 0; i < WEIGHTS; i++) {
            double held = weights[i], step = 1e-6, up, down;
            weights[i] = held + step, up = loss_of(&n, weights);
            weights[i] = held - step, down = loss_of(&n, weights);
            weights[i] = held;
            double want = (up - down) / (2 * step), off = fabs(want - (double)g->result[i]);
            worst = off > worst ? off : worst;
            largest = fabs(want) > largest ? fabs(want) : largest;
            square += (double)g->result[i] * (double)g->result[i];
        }
        printf("seed %d: loss %.4f, largest of the gradient %.4f, farthest off by %.2g\n",
               (int)seed, loss, largest, worst);
        CHECK(largest > 0.01);
        CHECK(worst < 5e-6 * largest);
        CHECK(fabs(g->length - sqrt(square)) < 1e-5 * g->length);
        pc__gradient_free(g);
        pc__projector_free(n.projector);
    }
}

static void equal_items(pc_context *context)
{
    net n = net_new(4);
    size_t items[3] = {2, 2, 2};
    pc__gradient *g;
    CHECK_OK(pc__gradient_new(&g, n.projector, BATCH));
    for (size_t i = 0; i < 9; i++)
        g->labels[i] = 0.5f;
    double loss = pc__gradient_compute(g, context, n.projector->first, n.pooled, items, 3);
    CHECK(loss == 0.125);
    for (size_t i = 0; i < WEIGHTS; i++)
        CHECK(g->result[i] == 0);
    CHECK(g->length == 0);
    pc__gradient_free(g);
    pc__projector_free(n.projector);
}

static void any_threads(void)
{
    enum { MANY = 40, WIDE = 90 };
    static float first[(WIDE + 1) * 32 + 32 * DIM];
    pc__projector_shape shape = {WIDE, 1, 9, 1, WIDE, 32};
    static float pooled[MANY * WIDE];
    size_t items[MANY];
    pc_test_rng rng = {9};
    for (size_t i = 0; i < MANY * WIDE; i++)
        pooled[i] = pc_test_normal(&rng);
    for (uint32_t threads = 1; threads <= 4; threads++) {
        pc_context_options options = PC_CONTEXT_OPTIONS_INIT;
        pc_context *context;
        pc__projector *p;
        pc__gradient *g;
        options.threads = threads;
        CHECK_OK(pc_context_new(&context, &options));
        CHECK_OK(pc__projector_new(&p, &pc__libc_allocator, &shape, 1));
        CHECK_OK(pc__gradient_new(&g, p, MANY));
        for (size_t i = 0; i < MANY; i++)
            for (size_t j = 0; j < MANY; j++)
                g->labels[i * MANY + j] = (float)((i + j) % 7);
        for (size_t i = 0; i < MANY; i++)
            items[i] = MANY - 1 - i;
        pc__gradient_compute(g, context, p->first, pooled, items, MANY);
        if (threads == 1)
            memcpy(first, g->result, sizeof first);
        CHECK(!memcmp(first, g->result, sizeof first));
        pc__gradient_free(g);
        pc__projector_free(p);
        pc_context_free(context);
    }
}

int main(void)
{
    pc_context *context;
    pc_context_options options = PC_CONTEXT_OPTIONS_INIT;
    options.threads = 2;
    CHECK_OK(pc_context_new(&context, &options));
    against_differences(context);
    equal_items(context);
    any_threads();
    pc_context_free(context);
    return pc_test_end();
}
