/* Curves on two logarithmic axes, as an SVG picture. */
#ifndef PLOT_H
#define PLOT_H

#include <stddef.h>

enum { PLOT_POINTS = 16, PLOT_CURVES = 48 };

typedef struct plot_curve {
    char name[48];
    double x[PLOT_POINTS], y[PLOT_POINTS]; /* > 0; others are left out */
    size_t count;
    int colour,
        dashed; /* curves of one colour belong together; dashed: 0 … 3, ever shorter dashes */
} plot_curve;

typedef struct plot {
    const char *title, *x_label, *y_label;
    plot_curve curves[PLOT_CURVES];
    size_t count;
} plot;

/* Adds a point to the curve of that name, which is made where there is none yet. */
void plot_point(plot *p, const char *name, int colour, int dashed, double x, double y);
/* EXIT_OK if `path` (NULL: none is wanted) can be written: to be asked before long work. */
int plot_may_write(const char *path);
int plot_write(const plot *p, const char *path); /* an exit code */

#endif
