/* Groups of layers, from traced attention maps. */
#include "shared_layers.h"

#include <promptcache/bench.h>
#include <promptcache/extend.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { SAMPLES = 16, LONGEST = 128 };

void lazy_layers(int32_t *out, int32_t layers)
{
    for (int32_t l = 0; l < layers; l++)
        out[l] = l - l % 2;
}

typedef struct maps {
    float *all; /* [layer] of one input */
    size_t one; /* weights of a layer */
    int32_t layers;
    int seen;
} maps;

static void copy_maps(void *user, const pc_trace *trace)
{
    maps *m = user;
    if (strcmp(trace->name, "probs") != 0 || trace->layer < 0 || trace->layer >= m->layers)
        return;
    if ((size_t)(trace->shape[0] * trace->shape[1] * trace->shape[2]) == m->one) {
        memcpy(m->all + (size_t)trace->layer * m->one, trace->data, m->one * sizeof(float));
        m->seen++;
    }
}

/* Sum over all weights, in nats; divided by the rows it is the mean of a row. */
static double divergence(const float *a, const float *b, size_t count)
{
    double sum = 0;
    for (size_t i = 0; i < count; i++) {
        double x = (double)a[i], y = (double)b[i], mean = 0.5 * (x + y);
        sum += x > 0 ? 0.5 * x * log(x / mean) : 0;
        sum += y > 0 ? 0.5 * y * log(y / mean) : 0;
    }
    return sum;
}

/* Adds one input's divergences to sums [layer][layer]. */
static int add_input(double *sums, const pc_model *model, const pc_model_info *info,
                     const pc_input *input)
{
    maps m = {.one = (size_t)info->heads * input->count * input->count, .layers = info->layers};
    pc_lane lane = {.tokens = input->tokens, .count = input->count, .types = input->types};
    pc_eval_args args = PC_EVAL_ARGS_INIT;
    int64_t positions[LONGEST];
    size_t n = (size_t)info->layers;
    int code = EXIT_OK;
    for (size_t i = 0; i < input->count; i++)
        positions[i] = (int64_t)i;
    lane.positions = positions;
    args.lanes = &lane;
    args.lane_stride = sizeof(pc_lane);
    args.lane_count = 1;
    args.trace = copy_maps;
    args.trace_user = &m;
    if (!(m.all = calloc(n * m.one, sizeof *m.all)))
        return plain_error("no memory for attention maps");
    if (pc_eval(model, &args) < 0)
        code = input_error("maps", NULL);
    else if (m.seen != info->layers)
        code = plain_error("the model does not show its attention maps");
    for (size_t i = 0; i < n && code == EXIT_OK; i++)
        for (size_t j = i + 1; j < n; j++)
            sums[i * n + j] += divergence(m.all + i * m.one, m.all + j * m.one, m.one)
                               / (double)((size_t)info->heads * input->count);
    free(m.all);
    return code;
}

/* Makes groups by a limit; returns how many. */
static int32_t group(int32_t *out, const double *sums, int32_t layers, double limit)
{
    int32_t groups = 1;
    out[0] = 0;
    for (int32_t l = 1; l < layers; l++) {
        int32_t first = out[l - 1];
        out[l] = sums[first * layers + l] <= limit ? first : l;
        groups += out[l] == l;
    }
    return groups;
}

int san_layers(int32_t *out, const pc_model *model, const pc_model_info *info,
               const pc_input *inputs, size_t count)
{
    size_t n = (size_t)info->layers, used = 0;
    double *sums = calloc(n * n, sizeof *sums), best = INFINITY;
    int code = sums ? EXIT_OK : plain_error("no memory for layers");
    for (size_t i = 0; i < count && used < SAMPLES && code == EXIT_OK; i++)
        if (inputs[i].count <= LONGEST) {
            used++;
            code = add_input(sums, model, info, &inputs[i]);
        }
    for (size_t i = 0; i < n * n && code == EXIT_OK; i++)
        if (sums[i] > 0 && sums[i] < best
            && group(out, sums, info->layers, sums[i]) <= (info->layers + 1) / 2)
            best = sums[i];
    if (code == EXIT_OK && !used)
        code = plain_error("no input of at most %d tokens to compare layers by", LONGEST);
    if (code == EXIT_OK)
        group(out, sums, info->layers, best);
    free(sums);
    return code;
}
