/* Catches: attention that loses accuracy by being shared, divided and merged: against attention in
 * double precision its error must not exceed that of the kernel that computes all keys of a row in
 * one call. Also catches faults in edge cases: empty plans and rows, rows that see nothing, single
 * rows, and memory that is used twice as the header allows. Runs once a CPU level. */
#include <promptcache/bench.h>

#include "attn/half.h"
#include "host_attention.h"
#include "levels.h"

enum { HEADS = 4, KV_HEADS = 2, GROUP = HEADS / KV_HEADS, K_DIM = 64, V_DIM = 48 };

typedef struct errors {
    double squares, worst;
    size_t count;
} errors;

static uint32_t below(pc_test_rng *rng, uint32_t n)
{
    return (uint32_t)(pc_test_bits(rng) % n);
}

static void add(errors *e, double error)
{
    e->squares += error * error;
    e->worst = isnan(error) ? INFINITY : fmax(e->worst, fabs(error));
    e->count++;
}

static double rms(const errors *e)
{
    return sqrt(e->squares / (double)e->count);
}

/* The row's keys joined in a run of its own. */
static uint32_t joined(host *h, size_t row)
{
    size_t n = 0, run = h->runs++, k_token = KV_HEADS * K_DIM, v_token = KV_HEADS * V_DIM;
    for (uint32_t s = h->first[row]; s < h->first[row + 1]; s++)
        n += h->spans[s].hi - h->spans[s].lo;
    h->run[run].tokens = n;
    h->k[run] = malloc(n * k_token * sizeof(float) + 1);
    h->v[run] = malloc(n * v_token * sizeof(float) + 1);
    n = 0;
    for (uint32_t s = h->first[row]; s < h->first[row + 1]; s++) {
        const pc_row_span *span = &h->spans[s];
        size_t count = span->hi - span->lo;
        memcpy(h->k[run] + n * k_token, h->k[span->run] + span->lo * k_token,
               count * k_token * sizeof(float));
        memcpy(h->v[run] + n * v_token, h->v[span->run] + span->lo * v_token,
               count * v_token * sizeof(float));
        n += count;
    }
    host_pack(h, run);
    return (uint32_t)run;
}

/* The query heads of one K/V head in one call over the whole run. */
static void in_one_call(const host *h, uint32_t run, size_t row, size_t kv, float *out)
{
    size_t element = h->shape.dtype == PC_DTYPE_F32 ? 4 : 2;
    size_t tokens = h->run[run].tokens, pages = (tokens + PC_PAGE_TOKENS - 1) / PC_PAGE_TOKENS;
    size_t page = pc_pages_bytes(&h->shape, PC_PAGE_TOKENS) / KV_HEADS;
    const float *q = h->q + (row * HEADS + kv * GROUP) * K_DIM;
    float scaled[GROUP * K_DIM], m[GROUP], l[GROUP] = {0}, acc[GROUP * V_DIM] = {0};
    uint16_t rounded[GROUP * K_DIM];
    uint32_t lo[GROUP] = {0}, hi[GROUP];
    pc__attn_task task = {.pages = (const uint8_t *)h->pages[run] + kv * page,
                          .page_stride = page * KV_HEADS,
                          .k_dim = K_DIM,
                          .v_dim = V_DIM,
                          .v_offset = K_DIM * PC_PAGE_TOKENS * element,
                          .rows = GROUP,
                          .q = scaled,
                          .q16 = rounded,
                          .lo = lo,
                          .hi = hi,
                          .m = m,
                          .l = l,
                          .acc = acc};
    for (size_t i = 0; i < GROUP * K_DIM; i++)
        rounded[i] = pc__bf16_from(scaled[i] = q[i] * h->scale);
    for (size_t g = 0; g < GROUP; g++) {
        m[g] = -INFINITY;
        hi[g] = (uint32_t)tokens;
    }
    pc__attend_of(pc__kernels_get(), h->shape.dtype)(&task, 0, pages);
    for (size_t i = 0; i < GROUP * V_DIM; i++)
        out[i] = acc[i] / l[i / V_DIM];
}

static void compare_row(host *h, size_t row, errors *plan, errors *whole)
{
    double want[V_DIM];
    float out[GROUP * V_DIM];
    uint32_t run = joined(h, row);
    for (size_t kv = 0; kv < KV_HEADS; kv++) {
        in_one_call(h, run, row, kv, out);
        for (size_t g = 0; g < GROUP; g++) {
            size_t head = kv * GROUP + g;
            host_truth(h, row, head, want);
            for (size_t d = 0; d < V_DIM; d++) {
                add(plan, (double)h->out[(row * HEADS + head) * V_DIM + d] - want[d]);
                add(whole, (double)out[g * V_DIM + d] - want[d]);
            }
        }
    }
}

static const char *dtype_name(uint32_t dtype)
{
    return dtype == PC_DTYPE_F32 ? "f32" : dtype == PC_DTYPE_F16 ? "f16" : "bf16";
}

static host new_host(uint32_t dtype)
{
    return (host){.shape = {sizeof(pc_attend_shape), HEADS, KV_HEADS, K_DIM, V_DIM, dtype, 0},
                  .scale = 0.25f};
}

/* Rows over parts of some shared runs and one of their own; `most` is about the longest run. */
static host random_host(uint32_t dtype, uint32_t most, pc_test_rng *rng)
{
    host h = new_host(dtype);
    uint32_t shared = 1 + below(rng, 4), rows = 1 + below(rng, 5);
    for (uint32_t i = 0; i < shared; i++)
        host_add_run(&h, 1 + below(rng, most), rng);
    for (uint32_t r = 0; r < rows; r++) {
        host_start_row(&h);
        for (uint32_t i = 0; i < shared; i++) {
            uint32_t tokens = (uint32_t)h.run[i].tokens,
                     lo = below(rng, 3) ? 0 : below(rng, tokens);
            if (i == 0 || below(rng, 3))
                host_hold(&h, i, lo, below(rng, 3) ? tokens : lo + 1 + below(rng, tokens - lo));
        }
        uint32_t own = host_add_run(&h, 1 + below(rng, most / 4 + 1), rng);
        host_hold(&h, own, 0, (uint32_t)h.run[own].tokens);
        host_end_row(&h);
    }
    host_queries(&h, rng);
    return h;
}

/* The root mean square is at most 5 % above that of one call, which chance explains; the largest
 * error of as many values is less than twice as large. */
static void no_less_accurate(pc_context *context, uint32_t dtype, uint32_t most, size_t cases)
{
    errors plan = {0}, whole = {0};
    pc_test_rng rng = {most + dtype};
    for (size_t i = 0; i < cases; i++) {
        host h = random_host(dtype, most, &rng);
        size_t rows = h.rows;
        host_attend(&h, context, 0);
        for (size_t r = 0; r < rows; r++)
            compare_row(&h, r, &plan, &whole);
        host_free(&h);
    }
    int fine = rms(&plan) <= 1.05 * rms(&whole) && plan.worst <= 2.0 * whole.worst;
    if (!CHECK(fine) || getenv("PC_TEST_VERBOSE"))
        fprintf(stderr,
                "    %s %s, runs up to %u: RMS %.3g, in one call %.3g; largest %.3g, in one call "
                "%.3g (%zu values)\n",
                pc__kernels_get()->name, dtype_name(dtype), most, rms(&plan), rms(&whole),
                plan.worst, whole.worst, plan.count);
}

static int nothing_seen(const host *h, size_t row)
{
    int ok = 1;
    for (size_t i = row * HEADS * V_DIM; i < (row + 1) * HEADS * V_DIM; i++)
        ok &= h->out[i] == 0.0f;
    for (size_t i = row * HEADS; i < (row + 1) * HEADS; i++)
        ok &= h->lse[i] == -INFINITY;
    return ok;
}

/* No rows; rows without spans, or whose spans are empty, beside one that sees something; a window
 * that hides all. */
static void edges(pc_context *context, uint32_t dtype)
{
    pc_test_rng rng = {3};
    host none = new_host(dtype), h = new_host(dtype);
    host_queries(&none, &rng);
    host_attend(&none, context, 0);
    host_free(&none);
    host_add_run(&h, 130, &rng);
    for (size_t r = 0; r < 4; r++) {
        host_start_row(&h);
        if (r == 1)
            host_hold(&h, 0, 70, 70);
        if (r == 2)
            host_hold(&h, 0, 60, 70);
        if (r == 3)
            host_hold(&h, 0, 130, 130);
        host_end_row(&h);
    }
    host_queries(&h, &rng);
    host_attend(&h, context, 0);
    CHECK(nothing_seen(&h, 0) && nothing_seen(&h, 1) && !nothing_seen(&h, 2)
          && nothing_seen(&h, 3));
    CHECK(isfinite(h.lse[2 * HEADS]) && isfinite(h.out[2 * HEADS * V_DIM]));
    pc_plan_args plan_args = host_plan_args(&h, 0);
    pc_attend_args args = host_attend_args(&h);
    pc_plan *plan = NULL;
    args.window = 5;
    memset(h.out, 0xff, 4 * HEADS * V_DIM * sizeof *h.out);
    CHECK_OK(pc_plan_new(&plan, context, &plan_args));
    CHECK_OK(pc_attend(plan, &args));
    pc_plan_free(plan);
    for (size_t r = 0; r < 4; r++)
        CHECK(nothing_seen(&h, r));
    host_free(&h);
}

/* A row of a batch has the same bits as alone. */
static void one_row(pc_context *context, uint32_t dtype)
{
    pc_test_rng rng = {8};
    host h = random_host(dtype, 1500, &rng);
    size_t rows = h.rows;
    float *together = malloc(rows * HEADS * V_DIM * sizeof *together), *q = h.q;
    uint32_t first[HOST_ROWS + 1];
    host_attend(&h, context, 0);
    memcpy(together, h.out, rows * HEADS * V_DIM * sizeof *together);
    memcpy(first, h.first, sizeof first);
    pc_row_span spans[HOST_SPANS];
    memcpy(spans, h.spans, sizeof spans);
    for (size_t r = 0; r < rows; r++) {
        h.rows = 1;
        h.first[1] = first[r + 1] - first[r];
        memcpy(h.spans, spans + first[r], h.first[1] * sizeof *spans);
        h.q = q + r * HEADS * K_DIM;
        host_attend(&h, context, r % 2 ? PC_PLAN_PER_ROW : 0);
        CHECK(!memcmp(h.out, together + r * HEADS * V_DIM, HEADS * V_DIM * sizeof *together));
    }
    h.q = q;
    free(together);
    host_free(&h);
}

/* Two runs in the same pages, one page held twice by a row at other places, rows with the same
 * query, results that begin where the queries end. */
static void memory_used_twice(pc_context *context, uint32_t dtype)
{
    pc_test_rng rng = {21};
    host h = new_host(dtype);
    host_add_run(&h, 100, &rng);
    for (size_t r = 0; r < 3; r++) {
        host_start_row(&h);
        host_hold(&h, r == 1, 0, 100);
        if (r == 2)
            host_hold(&h, 1, 0, 100);
        host_end_row(&h);
    }
    h.run[1] = h.run[0];
    h.runs = 2;
    h.pages[1] = h.pages[0];
    size_t q = HEADS * K_DIM, out = HEADS * V_DIM;
    float *all = malloc((3 * q + 3 * out + 3 * HEADS) * sizeof *all);
    for (size_t r = 0; r < 3; r++)
        for (size_t i = 0; i < q; i++)
            all[r * q + i] = r ? all[i] : pc_test_normal(&rng);
    h.q = all;
    h.out = all + 3 * q;
    h.lse = h.out + 3 * out;
    host_attend(&h, context, 0);
    CHECK(!memcmp(h.out, h.out + out, out * sizeof *h.out)); /* the other run, the same keys */
    float most = 0.0f, most_lse = 0.0f,
          rounding = dtype == PC_DTYPE_BF16 && pc__kernels_get()->bf16_dot ? 0x1p-8f : 1e-5f;
    for (size_t i = 0; i < out; i++)
        most = fmaxf(most, fabsf(h.out[2 * out + i] - h.out[i]));
    for (size_t i = 0; i < HEADS; i++)
        most_lse = fmaxf(most_lse, fabsf(h.lse[2 * HEADS + i] - h.lse[i] - 0.693147f));
    CHECK(most <= rounding
          && most_lse <= rounding); /* every key twice changes no mean and doubles the sum */
    for (size_t i = q; i < 3 * q; i++)
        CHECK(all[i] == all[i % q]); /* the queries are as they were */
    free(all);
    h.q = h.out = h.lse = NULL;
    h.pages[1] = NULL;
    host_free(&h);
}

int main(void)
{
    static const uint32_t dtypes[] = {PC_DTYPE_F32, PC_DTYPE_BF16, PC_DTYPE_F16};
    pc_context *context;
    pc_test_need_level();
    if (!CHECK_OK(pc_context_new(&context, NULL)))
        return pc_test_end();
    for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++) {
        uint32_t dtype = dtypes[i];
        no_less_accurate(context, dtype, 30, 100);
        no_less_accurate(context, dtype, 300, 60);
        no_less_accurate(context, dtype, 3000, 12);
        edges(context, dtype);
        one_row(context, dtype);
        memory_used_twice(context, dtype);
    }
    pc_context_free(context);
    return pc_test_end();
}
