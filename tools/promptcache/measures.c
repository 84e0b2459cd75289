/* Rank correlation, cosine, price of speed, and losses at a percentile. */
#include "measures.h"

#include <math.h>
#include <stdlib.h>

#include "program.h"

typedef struct ranked {
    double value;
    size_t index;
} ranked;

static int by_value(const void *a, const void *b)
{
    const ranked *x = a, *y = b;
    return (x->value > y->value) - (x->value < y->value);
}

static void rank(const double *values, size_t count, ranked *work, double *out)
{
    for (size_t i = 0; i < count; i++)
        work[i] = (ranked){values[i], i};
    qsort(work, count, sizeof *work, by_value);
    for (size_t i = 0, end; i < count; i = end) {
        for (end = i + 1; end < count && work[end].value == work[i].value;)
            end++;
        for (size_t j = i; j < end; j++)
            out[work[j].index] = 0.5 * (double)(i + end - 1);
    }
}

double spearman(const double *a, const double *b, size_t count)
{
    ranked *work = malloc((count + 1) * sizeof *work);
    double *x = malloc((2 * count + 1) * sizeof *x), *y = x ? x + count : NULL;
    double mean = 0.5 * ((double)count - 1), xy = 0, xx = 0, yy = 0, result = NAN;
    if (work && x) {
        rank(a, count, work, x);
        rank(b, count, work, y);
        for (size_t i = 0; i < count; i++) {
            xy += (x[i] - mean) * (y[i] - mean);
            xx += (x[i] - mean) * (x[i] - mean);
            yy += (y[i] - mean) * (y[i] - mean);
        }
        result = xx > 0 && yy > 0 ? 100 * xy / sqrt(xx * yy) : 0;
    }
    free(work);
    free(x);
    return result;
}

double cosine(const float *a, const float *b, size_t width)
{
    double ab = 0, aa = 0, bb = 0;
    for (size_t i = 0; i < width; i++) {
        ab += (double)a[i] * (double)b[i];
        aa += (double)a[i] * (double)a[i];
        bb += (double)b[i] * (double)b[i];
    }
    return aa > 0 && bb > 0 ? ab / sqrt(aa * bb) : 0;
}

double gamma_of(double full_score, double score, double speedup)
{
    return speedup > 1 ? (full_score - score) / 100 / (speedup - 1) : NAN;
}

hit_losses hit_losses_of(double *losses, size_t count, double percentile)
{
    hit_losses h = {NAN, NAN, NAN};
    double rank = ceil(percentile / 100 * (double)count);
    if (!count)
        return h;
    qsort(losses, count, sizeof *losses, ascending);
    h.mean = 0;
    for (size_t i = 0; i < count; i++)
        h.mean += losses[i] / (double)count;
    h.high = losses[rank < 1 ? 0 : (size_t)rank - 1];
    h.worst = losses[count - 1];
    return h;
}
