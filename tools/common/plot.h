/* Curves on two logarithmic axes, as an SVG picture. */
#ifndef PLOT_H
#define PLOT_H

#include <stddef.h>

enum { PLOT_POINTS = 16, PLOT_CURVES = 48 };

typedef struct plot_curve {
    char name[48];
    double x[PLOT_POINTS], y[PLOT_POINTS]; /* positive; other values are left out */
    size_t count;
    int colour, dashed; /* dashed: 0 to 3, ever shorter dashes */
} plot_curve;

typedef struct plot {
    const char *title, *x_label, *y_label;
    plot_curve curves[PLOT_CURVES];
    size_t count;
} plot;

/* Adds a point to the curve of that name; the first point makes the curve. */
void plot_point(plot *p, const char *name, int colour, int dashed, double x, double y);
/* Before long work: EXIT_OK if `path` can be written, or is NULL. */
int plot_may_write(const char *path);
int plot_write(const plot *p, const char *path); /* an exit code */

#endif
