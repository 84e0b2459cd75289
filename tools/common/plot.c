/* Curves as SVG: axes in powers of two, a legend on the right. */
#include "plot.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "program.h"

enum { WIDTH = 760, HEIGHT = 460, LEFT = 70, RIGHT = 200, TOP = 50, BOTTOM = 50 };

static const char *const colours[] = {"#1f6fb4", "#c8511b", "#2f8f4e", "#8447a8",
                                      "#a07d10", "#555555", "#c2418a", "#17868f"};
static const char *const styles[] = {"", " stroke-dasharray='8 4'", " stroke-dasharray='2 3'",
                                     " stroke-dasharray='8 3 2 3'"};
enum { COLOURS = sizeof colours / sizeof *colours };

typedef struct range {
    double low, high; /* logarithms to base 2 */
} range;

void plot_point(plot *p, const char *name, int colour, int dashed, double x, double y)
{
    plot_curve *c = p->curves;
    while (c < p->curves + p->count && strcmp(c->name, name) != 0)
        c++;
    if (c == p->curves + PLOT_CURVES || !(x > 0) || !(y > 0) || !isfinite(y))
        return;
    if (c == p->curves + p->count) {
        *c = (plot_curve){.colour = colour, .dashed = dashed};
        snprintf(c->name, sizeof c->name, "%s", name);
        p->count++;
    }
    if (c->count < PLOT_POINTS) {
        c->x[c->count] = x;
        c->y[c->count++] = y;
    }
}

/* The powers of two just outside of all values. */
static range range_of(const plot *p, int vertical)
{
    range r = {1e9, -1e9};
    for (size_t c = 0; c < p->count; c++)
        for (size_t i = 0; i < p->curves[c].count; i++) {
            double v = log2(vertical ? p->curves[c].y[i] : p->curves[c].x[i]);
            r.low = fmin(r.low, floor(v));
            r.high = fmax(r.high, ceil(v));
        }
    r.high = r.high > r.low ? r.high : r.low + 1;
    return r;
}

static double across(range r, double v)
{
    return (double)LEFT + (log2(v) - r.low) / (r.high - r.low) * (double)(WIDTH - LEFT - RIGHT);
}

static double down(range r, double v)
{
    return HEIGHT - BOTTOM - (log2(v) - r.low) / (r.high - r.low) * (HEIGHT - TOP - BOTTOM);
}

static void number(double v, char *text, size_t size)
{
    if (v >= 1024 && fmod(v, 1024) == 0)
        snprintf(text, size, "%gk", v / 1024);
    else
        snprintf(text, size, v < 1 ? "%.2g" : "%g", v);
}

static void write_axes(FILE *f, const plot *p, range x, range y)
{
    char text[32];
    for (double e = x.low; e <= x.high; e++) {
        number(exp2(e), text, sizeof text);
        fprintf(f,
                "<path d='M%.1f %d V%d' stroke='#e3e3e3'/><text x='%.1f' y='%d' "
                "text-anchor='middle'>%s</text>\n",
                across(x, exp2(e)), TOP, HEIGHT - BOTTOM, across(x, exp2(e)), HEIGHT - BOTTOM + 18,
                text);
    }
    for (double e = y.low; e <= y.high; e++) {
        number(exp2(e), text, sizeof text);
        fprintf(f,
                "<path d='M%d %.1f H%d' stroke='#e3e3e3'/><text x='%d' y='%.1f' "
                "text-anchor='end'>%s</text>\n",
                LEFT, down(y, exp2(e)), WIDTH - RIGHT, LEFT - 8, down(y, exp2(e)) + 4, text);
    }
    fprintf(f, "<text x='%d' y='26' font-size='15' font-weight='bold'>%s</text>\n", LEFT, p->title);
    fprintf(f, "<text x='%d' y='%d' text-anchor='middle'>%s</text>\n", (LEFT + WIDTH - RIGHT) / 2,
            HEIGHT - 12, p->x_label);
    fprintf(f, "<text transform='translate(18 %d) rotate(-90)' text-anchor='middle'>%s</text>\n",
            (TOP + HEIGHT - BOTTOM) / 2, p->y_label);
}

static void write_curve(FILE *f, const plot_curve *c, size_t index, range x, range y)
{
    const char *colour = colours[c->colour % COLOURS], *dashes = styles[c->dashed & 3];
    int line = TOP + 8 + 18 * (int)index;
    fprintf(f, "<path fill='none' stroke='%s' stroke-width='2'%s d='", colour, dashes);
    for (size_t i = 0; i < c->count; i++)
        fprintf(f, "%c%.1f %.1f ", i ? 'L' : 'M', across(x, c->x[i]), down(y, c->y[i]));
    fprintf(f, "'/>\n");
    for (size_t i = 0; i < c->count; i++)
        fprintf(f, "<circle cx='%.1f' cy='%.1f' r='3' fill='%s'/>\n", across(x, c->x[i]),
                down(y, c->y[i]), colour);
    fprintf(f,
            "<path d='M%d %d h26' stroke='%s' stroke-width='2'%s/><text x='%d' y='%d'>%s</text>\n",
            WIDTH - RIGHT + 14, line, colour, dashes, WIDTH - RIGHT + 46, line + 4, c->name);
}

int plot_may_write(const char *path)
{
    FILE *f = path ? fopen(path, "a") : NULL;
    if (path && !f)
        return plain_error("%s: cannot be written: %s", path, strerror(errno));
    if (f)
        fclose(f);
    return EXIT_OK;
}

int plot_write(const plot *p, const char *path)
{
    range x = range_of(p, 0), y = range_of(p, 1);
    int height = TOP + 18 * (int)p->count + 20 > HEIGHT ? TOP + 18 * (int)p->count + 20 : HEIGHT;
    FILE *f = fopen(path, "w");
    int failed;
    if (!f)
        return plain_error("%s: cannot be written: %s", path, strerror(errno));
    errno = 0;
    fprintf(f,
            "<svg xmlns='http://www.w3.org/2000/svg' width='%d' height='%d' "
            "font-family='sans-serif' font-size='12'>\n"
            "<rect width='100%%' height='100%%' fill='white'/>\n",
            WIDTH, height);
    write_axes(f, p, x, y);
    for (size_t c = 0; c < p->count; c++)
        write_curve(f, &p->curves[c], c, x, y);
    fprintf(f, "</svg>\n");
    failed = ferror(f);
    return fclose(f) || failed ? write_failed(path, errno) : EXIT_OK;
}
