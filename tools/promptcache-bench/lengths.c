/* The built-in distributions of lengths, and pairs of lengths from a file. */
#include "lengths.h"

#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "draw.h"
#include "program.h"

/* ------------------------------------------------------------------------ */

enum { BINS = 7, QUANTILES = 17 };

/* Shares of the pairs in hundredths of a percent: a row for each bin of prompts, a column for each
 * of answers; then the starts of the bins. From the statistics that RelayAttention published for
 * its benchmark (82 780 pairs). */
static const int histogram[BINS][BINS] = {
    {41, 75, 113, 235, 412, 585, 160},   {25, 62, 74, 153, 337, 660, 271},
    {24, 44, 81, 97, 193, 399, 234},     {57, 59, 65, 92, 137, 274, 194},
    {176, 138, 91, 91, 130, 196, 152},   {588, 464, 291, 171, 150, 187, 147},
    {565, 437, 284, 171, 136, 144, 139},
};
static const int prompt_bins[BINS + 1] = {4, 16, 32, 64, 128, 256, 512, 1025};
/* The end of the last bin follows from the published quantiles (99 %: 986). */
static const int output_bins[BINS + 1] = {4, 16, 32, 64, 128, 256, 512, 1025};

/* Quantiles of lengths that RelayAttention published for MMLU. */
static const double percents[QUANTILES] = {0,  1,  5,  10, 20, 25, 30, 40, 50,
                                           60, 70, 75, 80, 90, 95, 99, 100};
static const double mmlu_examples[QUANTILES] = {379, 379, 406, 429, 475,  504,  528,  553, 600,
                                                653, 691, 716, 755, 1224, 1739, 2895, 2895};
static const double mmlu_question[QUANTILES] = {55,  63,  70,  75,  83,  87,  92,  101, 114,
                                                131, 149, 160, 186, 301, 387, 563, 1219};

long lengths_between(long low, long high, uint64_t *state)
{
    double from = log((double)low), to = log((double)high + 1);
    long value = (long)exp(from + draw_unit(state) * (to - from));
    return value < low ? low : value > high ? high : value;
}

static long in_bin(const int *bins, int i, uint64_t *state)
{
    return lengths_between(bins[i], bins[i + 1] - 1L, state);
}

static length_pair draw_built_in(uint64_t *state)
{
    int total = 0, at = 0;
    for (int i = 0; i < BINS * BINS; i++)
        total += histogram[i / BINS][i % BINS];
    for (int left = (int)(draw_unit(state) * total); at < BINS * BINS - 1; at++)
        if ((left -= histogram[at / BINS][at % BINS]) < 0)
            break;
    length_pair pair = {in_bin(prompt_bins, at / BINS, state), 0};
    pair.output = in_bin(output_bins, at % BINS, state);
    return pair;
}

length_pair lengths_draw(const lengths *l, uint64_t *state)
{
    return l->pairs ? l->pairs[draw_bits(state) % l->count] : draw_built_in(state);
}

static long between(const double *values, uint64_t *state)
{
    double u = 100 * draw_unit(state);
    int i = 1;
    while (i < QUANTILES - 1 && u > percents[i])
        i++;
    return (long)(values[i - 1]
                  + (u - percents[i - 1]) * (values[i] - values[i - 1])
                        / (percents[i] - percents[i - 1]));
}

long lengths_mmlu_examples(uint64_t *state)
{
    return between(mmlu_examples, state);
}

long lengths_mmlu_question(uint64_t *state)
{
    return between(mmlu_question, state);
}

/* ------------------------------------------------------------------------ */

/* Reads a line "prompt,output"; 0: something else. */
static int read_pair(const char *line, length_pair *pair)
{
    char *end;
    pair->prompt = strtol(line, &end, 10);
    if (end == line || *end != ',')
        return 0;
    line = end + 1;
    pair->output = strtol(line, &end, 10);
    return end != line && (!*end || *end == '\n' || *end == '\r') && pair->prompt > 0
           && pair->output > 0 && pair->prompt < INT_MAX && pair->output < INT_MAX;
}

static int read_pairs(lengths *l, const char *path, const char *text)
{
    size_t lines = 1, number = 1;
    for (const char *at = text; (at = strchr(at, '\n')); at++)
        lines++;
    if (!(l->pairs = calloc(lines, sizeof *l->pairs)))
        return plain_error("%s: no memory for %zu lines", path, lines);
    for (const char *at = text, *next; at && *at; at = next, number++) {
        next = strchr(at, '\n');
        next = next ? next + 1 : NULL;
        if (!read_pair(at, &l->pairs[l->count]))
            return plain_error("%s:%zu: not a line prompt,output with two lengths", path, number);
        l->count++;
    }
    return l->count ? EXIT_OK : plain_error("%s: there is no line in it", path);
}

int lengths_open(lengths *l, const char *path)
{
    size_t size;
    char *text;
    int code;
    *l = (lengths){NULL, 0};
    if (!path)
        return EXIT_OK;
    if (!(text = read_text(path, DATA_BYTES, &size)))
        return EXIT_INPUT;
    code = read_pairs(l, path, text);
    free(text);
    if (code != EXIT_OK)
        lengths_close(l);
    return code;
}

void lengths_close(lengths *l)
{
    free(l->pairs);
    *l = (lengths){NULL, 0};
}

size_t lengths_scaled(double length, double scale)
{
    double value = length * scale + 0.5;
    return value < 1 ? 1 : (size_t)value;
}
