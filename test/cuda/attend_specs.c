/* The list of cases of attention, their tolerances, and how far results are from what is wanted. */
#include <math.h>
#include <stdio.h>

#include "attend_case.h"

typedef struct attend_dims {
    uint32_t k, v;
} attend_dims;
#define DIMS(format, k, v) {k, v},
static const attend_dims shapes[] = {PC__CUDA_SHAPES(DIMS, )};
enum { SHAPES = sizeof shapes / sizeof *shapes, FORMATS = 4, VARIANTS = 12 };

/* tokens and rows are halved for the largest shapes */
static const attend_spec variants[VARIANTS] = {
    {.kind = CASE_TREE, .kv_heads = 2, .group = 1, .rows = 5, .tokens = 200, .section_pages = 2},
    {.kind = CASE_TREE,
     .kv_heads = 1,
     .group = 4,
     .rows = 6,
     .tokens = 150,
     .section_pages = 4,
     .rope = CASE_HALVES,
     .sinks = 1},
    {.kind = CASE_PREFILL,
     .kv_heads = 2,
     .group = 2,
     .rows = 20,
     .tokens = 70,
     .section_pages = 16,
     .rope = CASE_HALVES,
     .chunk = 32},
    {.kind = CASE_PREFILL,
     .kv_heads = 1,
     .group = 8,
     .rows = 12,
     .tokens = 100,
     .section_pages = 1,
     .rope = CASE_PAIRS,
     .window = 50},
    {.kind = CASE_RAGGED,
     .kv_heads = 1,
     .group = 3,
     .rows = 7,
     .tokens = 260,
     .section_pages = 2,
     .rope = CASE_HALVES,
     .window = 500,
     .chunk = 900,
     .slopes = 1,
     .holes = 1},
    {.kind = CASE_RAGGED,
     .kv_heads = 2,
     .group = 1,
     .rows = 5,
     .tokens = 190,
     .section_pages = 3,
     .rope = CASE_PARTIAL,
     .soft_cap = 5},
    {.kind = CASE_SINGLE,
     .kv_heads = 1,
     .group = 1,
     .rows = 3,
     .tokens = 130,
     .section_pages = 4,
     .rope = CASE_ODD,
     .chunk = 100,
     .sinks = 1},
    {.kind = CASE_SINGLE,
     .kv_heads = 1,
     .group = 8,
     .rows = 4,
     .tokens = 129,
     .section_pages = 4,
     .slopes = 1},
    {.kind = CASE_TREE,
     .kv_heads = 1,
     .group = 5,
     .rows = 4,
     .tokens = 128,
     .section_pages = 2,
     .rope = CASE_HALVES,
     .window = 64,
     .soft_cap = 3,
     .sinks = 1},
    {.kind = CASE_PREFILL,
     .kv_heads = 1,
     .group = 2,
     .rows = 70,
     .tokens = 64,
     .section_pages = 4,
     .rope = CASE_PARTIAL,
     .slopes = 1,
     .soft_cap = 8},
    {.kind = CASE_RAGGED,
     .kv_heads = 1,
     .group = 7,
     .rows = 7,
     .tokens = 140,
     .section_pages = 2,
     .rope = CASE_PAIRS,
     .slopes = 1,
     .holes = 1,
     .sinks = 1},
    {.kind = CASE_TREE,
     .kv_heads = 2,
     .group = 2,
     .rows = 9,
     .tokens = 300,
     .section_pages = 32,
     .rope = CASE_HALVES},
};

attend_spec attend_spec_of(size_t index, uint64_t seed)
{
    attend_spec spec = variants[index / (SHAPES * FORMATS) % VARIANTS];
    const attend_dims *dims = &shapes[index / FORMATS % SHAPES];
    spec.format = index % FORMATS;
    spec.k_dim = dims->k;
    spec.v_dim = dims->v;
    spec.seed = seed * 1000003 + index;
    if (dims->v > 256) { /* the latent has one head */
        spec.kv_heads = 1;
        spec.tokens = spec.tokens / 2 + 1;
        spec.rows = spec.rows / 2 + 1;
    }
    return spec;
}

const char *attend_spec_text(const attend_spec *s)
{
    static const char *const kinds[] = {"tree", "prefill", "ragged", "single"}, *const formats[] = {
                                                                                    "f32", "bf16",
                                                                                    "f16", "i8"};
    static char text[256];
    snprintf(
        text, sizeof text,
        "%s %s %u/%u, %u x %u heads, %u rows, %u tokens, sections of %u pages, rope %u, window "
        "%lld, chunk %lld, cap %g%s%s%s, seed %llu",
        kinds[s->kind], formats[s->format], s->k_dim, s->v_dim, s->kv_heads, s->group, s->rows,
        s->tokens, s->section_pages, s->rope, (long long)s->window, (long long)s->chunk,
        (double)s->soft_cap, s->slopes ? ", slopes" : "", s->sinks ? ", sinks" : "",
        s->holes ? ", holes" : "", (unsigned long long)s->seed);
    return text;
}

/* Queries of size 2 and keys of size 1 give scores of size 2; their error is that of the rounded
 * query over the root of the dimensions, and weights have the rounding of their format. */
double attend_case_tolerance(const attend_spec *spec)
{
    static const double tolerance[] = {1e-5, 4e-3, 1.5e-3, 2.5e-3};
    return tolerance[spec->format];
}

double attend_case_error(const attend_case *c)
{
    double most = 1e-3, worst = 0;
    size_t dims = c->spec.v_dim;
    for (size_t i = 0; i < c->vectors * dims; i++)
        most = fmax(most, fabs((double)c->want[i]));
    for (size_t i = 0; i < c->vectors * dims; i++) {
        double error = fabs((double)c->task.out[i] - (double)c->want[i]) / most;
        worst = error <= worst ? worst : isnan(error) ? INFINITY : error;
    }
    for (size_t i = 0; i < c->vectors; i++) {
        double got = (double)c->task.lse[i], want = (double)c->want_lse[i],
               error = got == want ? 0 : fabs(got - want) / fmax(1, fabs(want));
        worst = error <= worst ? worst : isnan(error) ? INFINITY : error;
    }
    return worst;
}
