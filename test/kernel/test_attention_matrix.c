/* Catches: shared attention that differs from attention over the same keys in one run, in the
 * shapes in which Hydragen's published implementation tests itself: levels of shared and own keys
 * from 1 to 16384 long, one and eight K/V heads, partial results of every small shape merged.
 * The published tolerances are for fp16: largest 2e-3, mean relative 5e-3. They also hold for K and
 * V in bf16 at levels that multiply in fp32. Where weights are rounded to bf16, which has three
 * bits less than fp16, the tolerances are 8 times as wide. In fp32 they are far narrower. Runs once
 * a CPU level. */
#include "attn/plan.h"
#include "host_attention.h"
#include "levels.h"

typedef struct levels {
    size_t count;
    size_t sizes[3], lengths[3][8];
} levels;

static double relative(double a, double b)
{
    return 2.0 * fabs(a - b) / (fabs(a) + fabs(b) + 1e-8);
}

/* A row for each run of the last level; the runs of a level are spread evenly over those above. */
static void grow(host *h, const levels *tree, pc_test_rng *rng)
{
    uint32_t run[3][8];
    size_t leaves = tree->sizes[tree->count - 1];
    for (size_t l = 0; l < tree->count; l++)
        for (size_t i = 0; i < tree->sizes[l]; i++)
            run[l][i] = host_add_run(h, tree->lengths[l][i], rng);
    for (size_t r = 0; r < leaves; r++) {
        host_start_row(h);
        for (size_t l = 0; l < tree->count; l++) {
            size_t i = r * tree->sizes[l] / leaves;
            host_hold(h, run[l][i], 0, (uint32_t)tree->lengths[l][i]);
        }
        host_end_row(h);
    }
}

static void attention(pc_context *context, const levels *tree, int32_t kv_heads, uint32_t dtype)
{
    enum { HEADS = 8, DIM = 128 };
    host h = {.shape = {sizeof h.shape, HEADS, kv_heads, DIM, DIM, dtype, 0}, .scale = 0.125f};
    pc_test_rng rng = {tree->count * 100 + (uint64_t)kv_heads};
    double worst = 0.0, mean = 0.0, worst_lse = 0.0, want[DIM];
    grow(&h, tree, &rng);
    host_queries(&h, &rng);
    host_attend(&h, context, 0);
    for (size_t r = 0; r < h.rows; r++)
        for (size_t head = 0; head < HEADS; head++) {
            double lse = host_truth(&h, r, head, want);
            worst_lse = fmax(worst_lse, fabs((double)h.lse[r * HEADS + head] - lse));
            for (size_t d = 0; d < DIM; d++) {
                double got = (double)h.out[(r * HEADS + head) * DIM + d],
                       error = fabs(got - want[d]);
                worst = isnan(got) ? INFINITY : fmax(worst, error);
                mean += relative(got, want[d]) / (double)(h.rows * HEADS * DIM);
            }
        }
    double eps = dtype == PC_DTYPE_F32                                   ? 0.01
                 : dtype == PC_DTYPE_BF16 && pc__kernels_get()->bf16_dot ? 8.0
                                                                         : 1.0;
    if (!CHECK(worst <= 2e-3 * eps && mean <= 5e-3 * eps && worst_lse <= 2e-3 * eps)
        || getenv("PC_TEST_VERBOSE"))
        fprintf(stderr,
                "    %zu levels, %zu rows, %d K/V heads, %s: largest %.2e, mean relative %.2e, LSE "
                "%.2e\n",
                tree->count, h.rows, kv_heads, host_dtype(&h), worst, mean, worst_lse);
    host_free(&h);
}

/* b x s x h results of d values each, merged from 1 to 5 parts. */
static void combine(size_t results, size_t dim, size_t parts, pc_test_rng *rng)
{
    float part[5][129], out[129], lse;
    pc__state states[5];
    double mean = 0.0, worst = 0.0;
    for (size_t i = 0; i < results; i++) {
        double top = -INFINITY, sum = 0.0;
        for (size_t n = 0; n < parts; n++) {
            for (size_t d = 0; d < dim; d++)
                part[n][d] = pc_test_normal(rng);
            states[n] = (pc__state){part[n], 4.0f * pc_test_normal(rng), 1.0f};
            top = fmax(top, (double)states[n].m);
        }
        for (size_t n = 0; n < parts; n++)
            sum += exp((double)states[n].m - top);
        memset(out, 0xff, sizeof out);
        pc__merge_parts(parts, states, dim, out, &lse);
        worst = fmax(worst, fabs((double)lse - top - log(sum)));
        for (size_t d = 0; d < dim; d++) {
            double want = 0.0;
            for (size_t n = 0; n < parts; n++)
                want += exp((double)states[n].m - top) / sum * (double)part[n][d];
            worst = fmax(worst, fabs((double)out[d] - want));
            mean += relative((double)out[d], want) / (double)(results * dim);
        }
    }
    CHECK(worst <= 2e-6 && mean <= 1e-5);
}

int main(void)
{
    static const levels trees[] = {
        {2, {1, 1}, {{1}, {10}}},
        {2, {1, 2}, {{3}, {6, 6}}},
        {2, {1, 2}, {{3}, {6, 7}}},
        {3, {2, 4, 8}, {{7, 7}, {9, 10, 11, 4}, {129, 2, 3, 4, 5, 6, 7, 128}}},
        {2, {1, 3}, {{16384}, {1, 128, 256}}},
    };
    static const size_t dims[] = {63, 64, 128, 129};
    pc_context *context;
    pc_test_rng rng = {5};
    pc_test_need_level();
    if (!CHECK_OK(pc_context_new(&context, NULL)))
        return pc_test_end();
    for (size_t t = 0; t < sizeof trees / sizeof *trees; t++)
        for (int32_t kv_heads = 1; kv_heads <= 8; kv_heads += 7) {
            attention(context, &trees[t], kv_heads, PC_DTYPE_F32);
            attention(context, &trees[t], kv_heads, PC_DTYPE_BF16);
            attention(context, &trees[t], kv_heads, PC_DTYPE_F16);
        }
    for (size_t b = 1; b <= 3; b++)
        for (size_t s = 1; s <= 3; s++)
            for (size_t h = 1; h <= 3; h++)
                for (size_t d = 0; d < 4; d++)
                    for (size_t parts = 1; parts <= 5; parts++)
                        combine(b * s * h, dims[d], parts, &rng);
    pc_context_free(context);
    return pc_test_end();
}
