/* Measures of prefill-only work, in points of 100. */
#ifndef MEASURES_H
#define MEASURES_H

#include <stddef.h>

/* Rank correlation; equal values share the mean of their ranks. 0 if one side is constant; NaN: out
 * of memory. */
double spearman(const double *a, const double *b, size_t count);
double cosine(const float *a, const float *b, size_t width);
/* Price of speed (AttnCache, equation 6): the lost score as a fraction, over speedup - 1. NaN: no
 * gain. */
double gamma_of(double full_score, double score, double speedup);

/* Losses of hits: mean, at a percentile (nearest rank), worst. count 0: all NaN. */
typedef struct hit_losses {
    double mean, high, worst;
} hit_losses;
hit_losses hit_losses_of(double *losses /* [count], sorted then */, size_t count,
                         double percentile);

#endif
