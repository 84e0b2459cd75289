/* Catches: pc_merge that differs from the attention over all keys together, or from a merge in
 * double precision (both bases, strides, parts that saw nothing, LSEs far apart); a result that is
 * written beside its place; arguments that cannot be right and are accepted. */
#include <promptcache/attend.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "guarded.h"
#include "testing.h"

enum { MOST = 5, HEADS = 3, DIM = 13, ROWS = 7 };

typedef struct scene {
    pc_test_rng rng;
    guarded outs[MOST], lses[MOST], out, lse;
    const float *out_list[MOST], *lse_list[MOST];
    pc_merge_args args;
} scene;

static float *floats(const guarded *g)
{
    return (float *)(void *)g->data;
}

static void draw_scene(scene *s, uint64_t seed)
{
    memset(s, 0, sizeof *s);
    s->rng.state = seed;
    size_t gap = seed % 3, out = HEADS * DIM + gap, lse = HEADS + gap, parts = seed % (MOST + 1);
    s->args = (pc_merge_args)PC_MERGE_ARGS_INIT;
    s->args.heads = HEADS, s->args.v_dim = DIM, s->args.row_count = ROWS;
    s->args.part_count = parts;
    s->args.flags = seed % 2 ? PC_MERGE_BASE2 : 0;
    s->args.out_row_stride = gap ? out : 0, s->args.lse_row_stride = gap ? lse : 0;
    for (size_t p = 0; p < parts; p++) {
        s->outs[p] = guarded_new(((ROWS - 1) * out + HEADS * DIM) * sizeof(float));
        s->lses[p] = guarded_new(((ROWS - 1) * lse + HEADS) * sizeof(float));
        s->out_list[p] = floats(&s->outs[p]), s->lse_list[p] = floats(&s->lses[p]);
        for (size_t i = 0; i < s->outs[p].bytes / sizeof(float); i++)
            floats(&s->outs[p])[i] = pc_test_normal(&s->rng);
        for (size_t i = 0; i < s->lses[p].bytes / sizeof(float); i++)
            floats(&s->lses[p])[i] = pc_test_bits(&s->rng) % 4
                                         ? (seed % 5 ? 3.0f : 400.0f) * pc_test_normal(&s->rng)
                                         : -INFINITY;
    }
    s->out = guarded_new(ROWS * HEADS * DIM * sizeof(float));
    s->lse = guarded_new(ROWS * HEADS * sizeof(float));
    s->args.outs = s->out_list, s->args.lses = s->lse_list;
    s->args.out = floats(&s->out), s->args.lse = floats(&s->lse);
}

static void check_vector(const scene *s, size_t row, size_t head)
{
    double unit = s->args.flags ? log(2.0) : 1, top = -INFINITY, sum = 0, want[DIM] = {0}, lse;
    size_t out = s->args.out_row_stride ? s->args.out_row_stride : HEADS * DIM,
           line = s->args.lse_row_stride ? s->args.lse_row_stride : HEADS;
    const float *got = floats(&s->out) + (row * HEADS + head) * DIM;
    float got_lse = floats(&s->lse)[row * HEADS + head];
    for (int pass = 0; pass < 2; pass++)
        for (size_t p = 0; p < s->args.part_count; p++) {
            double m = (double)s->lse_list[p][row * line + head] * unit;
            const float *v = s->out_list[p] + row * out + head * DIM;
            if (m == -INFINITY)
                continue;
            top = pass ? top : fmax(top, m);
            sum += pass ? exp(m - top) : 0;
            for (size_t d = 0; pass && d < DIM; d++)
                want[d] += exp(m - top) * (double)v[d];
        }
    for (size_t d = 0; d < DIM; d++)
        CHECK(fabs((double)got[d] - (sum > 0 ? want[d] / sum : 0)) < 1e-5);
    lse = (top + log(sum)) / unit;
    CHECK(sum > 0 ? fabs((double)got_lse - lse) < 1e-6 * fabs(lse) + 1e-5 : got_lse == -INFINITY);
}

static void check_scene(uint64_t seed)
{
    static scene s;
    draw_scene(&s, seed);
    CHECK_OK(pc_merge(&s.args));
    for (size_t row = 0; row < ROWS; row++)
        for (size_t head = 0; head < HEADS; head++)
            check_vector(&s, row, head);
    CHECK(guarded_intact(&s.out) && guarded_intact(&s.lse));
    s.args.lse = NULL;
    CHECK_OK(pc_merge(&s.args));
    for (size_t p = 0; p < s.args.part_count; p++)
        guarded_free(&s.outs[p]), guarded_free(&s.lses[p]);
    guarded_free(&s.out), guarded_free(&s.lse);
}

static void refused(pc_merge_args *args, const pc_merge_args *good, pc_status want,
                    const char *cause)
{
    CHECK_STATUS(pc_merge(args), want);
    CHECK_ERROR_HAS(cause);
    *args = *good;
}

static void bad_args(void)
{
    float part[2] = {1, 2}, lse[1] = {0}, out[2];
    const float *outs[2] = {part, NULL}, *lses[2] = {lse, lse};
    pc_merge_args good = PC_MERGE_ARGS_INIT, args;
    good.outs = outs, good.lses = lses, good.part_count = good.row_count = 1;
    good.heads = 1, good.v_dim = 2, good.out = out;
    args = good;
    CHECK_OK(pc_merge(&args));
    CHECK(out[0] == 1 && out[1] == 2);
    args.part_count = 2;
    refused(&args, &good, PC_ERR_INVALID, "outs[1] or lses[1] is NULL");
    args.part_count = 257;
    refused(&args, &good, PC_ERR_LIMIT, "257 parts");
    args.out = NULL;
    refused(&args, &good, PC_ERR_INVALID, "out is NULL");
    args.heads = 0;
    refused(&args, &good, PC_ERR_INVALID, "0 heads");
    args.v_dim = 1025;
    refused(&args, &good, PC_ERR_INVALID, "1025 dimensions");
    args.flags = 2;
    refused(&args, &good, PC_ERR_INVALID, "flags 0x2");
    args.out_row_stride = 1;
    refused(&args, &good, PC_ERR_INVALID, "1 and 1 floats apart");
    args.row_count = SIZE_MAX;
    refused(&args, &good, PC_ERR_INVALID, "floats apart");
    lse[0] = NAN;
    refused(&args, &good, PC_ERR_INVALID, "the LSE of part 0, row 0, head 0 is nan");
    lse[0] = INFINITY;
    refused(&args, &good, PC_ERR_INVALID, "is inf");
    CHECK_STATUS(pc_merge(NULL), PC_ERR_INVALID);
    args.row_count = 0;
    CHECK_OK(pc_merge(&args));
}

int main(void)
{
    bad_args();
    for (uint64_t i = 1; i <= 200; i++)
        check_scene(i);
    return pc_test_end();
}
