/* Stochastic gradient descent with momentum and a weight penalty, on mini-batches in a new random
 * order each epoch. The learning rate falls linearly to zero. Embeddings are standardised first, so
 * that the constants do not depend on their size. */
#include "linear_head.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "draw.h"

enum { EPOCHS = 40, BATCH = 32 };
static const double step = 0.02, momentum = 0.9, penalty = 3e-3;

static void standardise(linear_head *h, const float *x, size_t count)
{
    for (size_t d = 0; d < h->width; d++) {
        double sum = 0, squares = 0;
        for (size_t i = 0; i < count; i++)
            sum += (double)x[i * h->width + d];
        h->mean[d] = sum / (double)count;
        for (size_t i = 0; i < count; i++) {
            double v = (double)x[i * h->width + d] - h->mean[d];
            squares += v * v;
        }
        h->scale[d] = squares > 0 ? 1 / sqrt(squares / (double)count) : 0;
    }
}

static void scores(const linear_head *h, const float *x, double *out)
{
    for (size_t c = 0; c < h->classes; c++) {
        const double *w = h->weights + c * (h->width + 1);
        out[c] = w[h->width];
        for (size_t d = 0; d < h->width; d++)
            out[c] += w[d] * ((double)x[d] - h->mean[d]) * h->scale[d];
    }
}

static void softmax(double *values, size_t count)
{
    double most = values[0], sum = 0;
    for (size_t i = 1; i < count; i++)
        most = values[i] > most ? values[i] : most;
    for (size_t i = 0; i < count; i++)
        sum += values[i] = exp(values[i] - most);
    for (size_t i = 0; i < count; i++)
        values[i] /= sum;
}

/* Adds the gradient of one example. */
static void add_gradient(const linear_head *h, const float *x, size_t label, double *work,
                         double *gradient)
{
    scores(h, x, work);
    softmax(work, h->classes);
    for (size_t c = 0; c < h->classes; c++) {
        double *g = gradient + c * (h->width + 1), error = work[c] - (c == label);
        for (size_t d = 0; d < h->width; d++)
            g[d] += error * ((double)x[d] - h->mean[d]) * h->scale[d];
        g[h->width] += error;
    }
}

static void shuffle(size_t *order, size_t count, uint64_t *state)
{
    for (size_t i = count; i > 1; i--) {
        size_t j = (size_t)(draw_bits(state) % i), was = order[i - 1];
        order[i - 1] = order[j];
        order[j] = was;
    }
}

typedef struct training {
    linear_head *head;
    const float *x;
    const size_t *labels;
    size_t count, *order;
    double *work, *gradient, *velocity;
} training;

static void epoch(const training *t, double rate)
{
    linear_head *h = t->head;
    size_t weights = h->classes * (h->width + 1);
    for (size_t first = 0; first < t->count; first += BATCH) {
        size_t n = t->count - first < BATCH ? t->count - first : BATCH;
        memset(t->gradient, 0, weights * sizeof *t->gradient);
        for (size_t i = first; i < first + n; i++)
            add_gradient(h, t->x + t->order[i] * h->width, t->labels[t->order[i]], t->work,
                         t->gradient);
        for (size_t i = 0; i < weights; i++) {
            t->velocity[i] = momentum * t->velocity[i]
                             - rate * (t->gradient[i] / (double)n + penalty * h->weights[i]);
            h->weights[i] += t->velocity[i];
        }
    }
}

int head_train(linear_head *h, const float *x, const size_t *labels, size_t count, size_t width,
               size_t classes, uint64_t seed)
{
    size_t weights = classes * (width + 1);
    training t = {.head = h, .x = x, .labels = labels, .count = count};
    uint64_t state = seed;
    *h = (linear_head){.width = width, .classes = classes};
    h->weights = calloc(weights + 2 * width, sizeof *h->weights);
    t.work = calloc(classes + 2 * weights, sizeof *t.work);
    t.order = malloc((count + 1) * sizeof *t.order);
    if (h->weights && t.work && t.order) {
        h->mean = h->weights + weights;
        h->scale = h->mean + width;
        t.gradient = t.work + classes;
        t.velocity = t.gradient + weights;
        for (size_t i = 0; i < count; i++)
            t.order[i] = i;
        standardise(h, x, count);
        for (int e = 0; e < EPOCHS; e++) {
            shuffle(t.order, count, &state);
            epoch(&t, step * (1 - (double)e / (double)EPOCHS));
        }
    }
    free(t.work);
    free(t.order);
    return h->scale != NULL;
}

size_t head_class(const linear_head *h, const float *x)
{
    size_t best = 0;
    double most = -INFINITY;
    for (size_t c = 0; c < h->classes; c++) {
        const double *w = h->weights + c * (h->width + 1);
        double score = w[h->width];
        for (size_t d = 0; d < h->width; d++)
            score += w[d] * ((double)x[d] - h->mean[d]) * h->scale[d];
        if (score > most) {
            most = score;
            best = c;
        }
    }
    return best;
}

void head_free(linear_head *h)
{
    free(h->weights);
    *h = (linear_head){.width = 0};
}
