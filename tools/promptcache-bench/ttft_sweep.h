/* Times to the first token by the length of the context (Prompt Cache, section 5.4): recomputed,
 * from copies of cached states, from shared ones. As a table, as bars of text, as a picture. */
#ifndef TTFT_SWEEP_H
#define TTFT_SWEEP_H

#include "plot.h"
#include "program.h"

enum { SWEEP_RECOMPUTE, SWEEP_COPY, SWEEP_SHARE, SWEEP_WAYS };
enum { SWEEP_LENGTHS = PLOT_POINTS, SWEEP_REPEATS = 64 };

typedef struct sweep_row {
    long context, fresh;                                          /* tokens */
    double bytes;                                                 /* of the cached states */
    double median[SWEEP_WAYS], low[SWEEP_WAYS], high[SWEEP_WAYS]; /* ms */
} sweep_row;

/* Sets the times of a way from `seconds` of `count` runs, which it sorts. */
void sweep_set(sweep_row *row, int way, double *seconds, size_t count);
void sweep_print(const sweep_row *rows, size_t count, int json);
int sweep_plot(const sweep_row *rows, size_t count, const char *path); /* an exit code */

#endif
