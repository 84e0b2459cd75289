/* Catches: a kernel of maps times values, or of recorded weights, of any level, that differs from
 * the reference, reads past the end of weights, scales or pages, uses padding, writes outside its
 * rows, or whose rows depend on the other rows computed with them. With PC_TEST_LONG=1 it also
 * prints how near products come to the peak of the machine. */
#include <math.h>
#include <stdlib.h>
#include <time.h>

#include "attn/half.h"
#include "attn/cpu/kernels_internal.h"
#include "attn/map.h"
#include "base/threads.h"
#include "guarded.h"
#include "testing.h"

static const char *const levels[] = {"c", "avx2", "avx512", "avx512vnni", "avx512bf16", "amx"};
static const uint32_t dtypes[] = {PC_DTYPE_F32, PC_DTYPE_BF16, PC_DTYPE_F16};
enum { LEVELS = sizeof levels / sizeof *levels };

typedef struct scene {
    uint32_t format, dtype;
    int causal;
    size_t tokens, k_dim, v_dim;
    uint8_t *positive; /* the pages without signs */
    guarded weights, scale, pages, q, m, lo, hi;
    pc__map_task task;
    pc__attn_task scores;
} scene;

static void store(uint8_t *block, uint32_t dtype, size_t at, float x)
{
    if (dtype == PC_DTYPE_F32)
        ((float *)(void *)block)[at] = x;
    else
        ((uint16_t *)(void *)block)[at] = dtype == PC_DTYPE_BF16 ? pc__bf16_from(x)
                                                                 : pc__half_from(x);
}

/* Two K/V heads, the second of which is checked; the last page ends at the guard. Padding is as
 * large as it can be. */
static void make_pages(scene *s, pc_test_rng *rng)
{
    pc__kv_shape shape = {1, 2, (int32_t)s->k_dim, (int32_t)s->v_dim, s->dtype, 0};
    size_t page = pc__kv_page_bytes(&shape), pages = (s->tokens + PC__PAGE - 1) / PC__PAGE;
    size_t by = s->dtype == PC_DTYPE_F32 ? 1 : 2;
    s->pages = guarded_new(pages * 2 * page);
    memset(s->pages.data, 0, s->pages.bytes);
    for (size_t t = 0; t < pages * PC__PAGE; t++) {
        uint8_t *k = s->pages.data + (t / PC__PAGE * 2 + 1) * page, *v = k + pc__kv_k_bytes(&shape);
        float large = t < s->tokens ? 0.0f : 60000.0f;
        for (size_t d = 0; d < s->k_dim; d++)
            store(k, s->dtype, (d / by * PC__PAGE + t % PC__PAGE) * by + d % by,
                  large + pc_test_normal(rng));
        for (size_t d = 0; d < s->v_dim; d++)
            store(v, s->dtype, (t % PC__PAGE / by * s->v_dim + d) * by + t % by,
                  large + pc_test_normal(rng));
    }
    s->positive = malloc(s->pages.bytes);
    memcpy(s->positive, s->pages.data, s->pages.bytes);
    for (size_t i = 4 / by - 1; i < s->pages.bytes; i += 4 / by)
        s->positive[i] &= 0x7f;
    s->task.values = s->pages.data + page + pc__kv_k_bytes(&shape);
    s->task.page_stride = 2 * page;
    s->scores = (pc__attn_task){.pages = s->pages.data + page,
                                .page_stride = 2 * page,
                                .v_offset = pc__kv_k_bytes(&shape),
                                .k_dim = s->k_dim,
                                .v_dim = s->v_dim};
}

static void make_weights(scene *s, pc_test_rng *rng)
{
    pc__map_shape shape = {s->format, 1, s->tokens, s->causal};
    size_t count = pc__map_row_at(&shape, s->tokens);
    s->weights = guarded_new(count * pc__map_weight_bytes(s->format));
    s->scale = guarded_new(s->tokens * sizeof(float));
    for (size_t i = 0; i < count; i++) {
        float x = pc_test_uniform(rng) * (i % 5 ? 0.01f : 1.0f);
        if (s->format == PC_MAP_F32)
            ((float *)(void *)s->weights.data)[i] = x;
        else if (s->format == PC_MAP_F16)
            ((uint16_t *)(void *)s->weights.data)[i] = pc__half_from(x);
        else
            s->weights.data[i] = (uint8_t)(x * 255.0f);
    }
    for (size_t r = 0; r < s->tokens; r++)
        ((float *)(void *)s->scale.data)[r] = 1.0f / (float)(100 + r % 7);
    s->task.format = s->format;
    s->task.causal = s->causal;
    s->task.tokens = s->tokens;
    s->task.weights = s->weights.data;
    s->task.scale = s->format == PC_MAP_U8 ? s->scale.data : NULL;
    s->task.v_dim = s->v_dim;
}

static void make_rows(scene *s, size_t rows, pc_test_rng *rng)
{
    float *q, *m;
    s->q = guarded_new(rows * s->k_dim * sizeof(float));
    s->m = guarded_new(rows * sizeof(float));
    s->lo = guarded_new(rows * 4);
    s->hi = guarded_new(rows * 4);
    q = (float *)(void *)s->q.data;
    m = (float *)(void *)s->m.data;
    for (size_t i = 0; i < rows * s->k_dim; i++)
        q[i] = pc__bf16_to(pc__bf16_from(pc_test_normal(rng) / sqrtf((float)s->k_dim)));
    for (size_t r = 0; r < rows; r++) {
        uint32_t hi = (uint32_t)(pc_test_bits(rng) % (s->tokens + 1));
        ((uint32_t *)(void *)s->hi.data)[r] = hi;
        ((uint32_t *)(void *)s->lo.data)[r] = r % 3 && hi ? (uint32_t)(pc_test_bits(rng) % hi) : 0;
        m[r] = 2.0f + pc_test_normal(rng);
    }
    s->scores.rows = rows;
    s->scores.q = q;
    s->scores.m = m;
    s->scores.lo = (const uint32_t *)(const void *)s->lo.data;
    s->scores.hi = (const uint32_t *)(const void *)s->hi.data;
}

static void drop(scene *s)
{
    free(s->positive);
    guarded *all[] = {&s->weights, &s->scale, &s->pages, &s->q, &s->m, &s->lo, &s->hi};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        CHECK(guarded_intact(all[i]));
        guarded_free(all[i]);
    }
}

/* The size of every sum's terms, for what rounding may do: the reference over values without signs.
 */
static void sizes(const scene *s, const pc__map_task *row, float *out)
{
    pc__map_task task = *row;
    task.values = s->positive + (task.values - s->pages.data);
    task.out = out;
    pc__map_of(&pc__kernels_c, s->dtype)(&task);
}

/* Rows [first, first + rows), against the reference and against each row alone. */
static void products(scene *s, const pc__kernels *kernels, size_t first, size_t rows)
{
    size_t stride = s->v_dim + 3;
    guarded out = guarded_new(((rows - 1) * stride + s->v_dim) * sizeof(float));
    float *got = (float *)(void *)out.data, want[PC__MAX_HEAD], size[PC__MAX_HEAD],
          alone[PC__MAX_HEAD];
    float share = s->dtype == PC_DTYPE_BF16 && kernels->bf16_dot && s->format != PC_MAP_U8 ? 0x1p-8f
                                                                                           : 1e-5f;
    s->task.first = first;
    s->task.rows = rows;
    s->task.out = got;
    s->task.out_stride = stride;
    pc__map_of(kernels, s->dtype)(&s->task);
    for (size_t r = 0; r < rows; r++) {
        pc__map_task one = s->task;
        one.first = first + r;
        one.rows = 1;
        one.out = want;
        pc__map_of(&pc__kernels_c, s->dtype)(&one);
        one.out = alone;
        pc__map_of(kernels, s->dtype)(&one);
        CHECK(!memcmp(alone, got + r * stride, s->v_dim * sizeof(float)));
        sizes(s, &one, size);
        for (size_t d = 0; d < s->v_dim; d++)
            CHECK(fabsf(got[r * stride + d] - want[d]) <= share * size[d] + 1e-30f);
        for (size_t d = s->v_dim; d < stride && r + 1 < rows; d++)
            CHECK(out.data[(r * stride + d) * sizeof(float)] == GUARDED_POISON);
    }
    CHECK(guarded_intact(&out));
    guarded_free(&out);
}

static void recorded(scene *s, const pc__kernels *kernels, int cap)
{
    size_t pages = (s->tokens + PC__PAGE - 1) / PC__PAGE, stride = pages * PC__PAGE,
           count = s->scores.rows * stride;
    guarded out = guarded_new(count * sizeof(float));
    float *got = (float *)(void *)out.data, *want = malloc(count * sizeof *want);
    s->scores.soft_cap = cap ? 2.0f : 0.0f;
    pc__weights_c(&s->scores, s->dtype, pages, want, stride);
    pc__weights_of(kernels, s->dtype)(&s->scores, s->dtype, pages, got, stride);
    for (size_t i = 0; i < count; i++) {
        size_t t = i % stride;
        int seen = t >= s->scores.lo[i / stride] && t < s->scores.hi[i / stride];
        CHECK(seen ? fabsf(got[i] - want[i]) <= 2e-5f * want[i] + 1e-30f : got[i] == 0.0f);
    }
    CHECK(guarded_intact(&out));
    guarded_free(&out);
    free(want);
}

static void all_of(const pc__kernels *kernels, pc_test_rng *rng)
{
    static const size_t lengths[] = {1, 2, 63, 64, 65, 131}, dims[] = {1, 15, 16, 64, 80, 128};
    for (int i = 0; i < 3 * 3 * 2 * 6; i++) {
        scene s = {.format = (uint32_t)(i % 3),
                   .dtype = dtypes[i / 3 % 3],
                   .causal = i / 9 % 2,
                   .tokens = lengths[i / 18],
                   .k_dim = dims[(i + i / 18) % 6],
                   .v_dim = dims[(i / 3 + i / 18) % 6]};
        size_t first = pc_test_bits(rng) % s.tokens;
        make_pages(&s, rng);
        make_weights(&s, rng);
        make_rows(&s, 1 + pc_test_bits(rng) % 20, rng);
        products(&s, kernels, 0, s.tokens);
        products(&s, kernels, first, 1 + pc_test_bits(rng) % (s.tokens - first));
        recorded(&s, kernels, i % 2);
        drop(&s);
    }
}

/* ------------------------------------------------------------------ how fast */

enum { PANEL_IN = 256, PANEL_ROWS = 12, PANEL_TURNS = 200, READ_BYTES = 1 << 27 };

typedef struct machine {
    pc_context *context;
    double flops, bytes; /* a second */
    uint8_t *memory;
} machine;

static void multiply(void *arg, size_t i)
{
    static _Alignas(64) uint16_t panel[PANEL_IN * PC__PANEL], x[PANEL_ROWS * PANEL_IN];
    float y[PANEL_ROWS * PC__PANEL];
    (void)arg;
    (void)i;
    for (int turn = 0; turn < PANEL_TURNS; turn++)
        pc__kernels_get()->panel_bf16(&(pc__panel_task){panel, PANEL_IN, x, PANEL_IN, PANEL_ROWS, y,
                                                        PC__PANEL, PC__PANEL, NULL});
}

static void read_part(void *arg, size_t i)
{
    const machine *m = arg;
    const uint64_t *at = (const uint64_t *)(const void *)(m->memory + i * (READ_BYTES / 16));
    uint64_t sums[8] = {0};
    for (size_t k = 0; k < READ_BYTES / 16 / 8; k += 8)
        for (size_t j = 0; j < 8; j++)
            sums[j] += at[k + j];
    if (sums[0] + sums[3] == 1)
        printf(" ");
}

/* One thread's own time, so that others on the machine disturb less. */
static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static double least(void (*what)(void *arg), void *arg)
{
    double best = 1e9, spent = 0.0;
    for (int i = 0; i < 5 || (i < 400 && spent < 0.1); i++) {
        double start = now(), took;
        what(arg);
        took = now() - start;
        spent += took;
        best = took < best ? took : best;
    }
    return best;
}

static void all_products(void *arg)
{
    pc__parallel(((machine *)arg)->context, 1, multiply, arg);
}

static void all_reads(void *arg)
{
    pc__parallel(((machine *)arg)->context, 16, read_part, arg);
}

typedef struct work {
    machine *m;
    pc__map_lane lanes[32];
    size_t count;
    float *out;
} work;

static void apply(void *arg)
{
    work *w = arg;
    CHECK_OK(pc__map_apply(w->m->context, w->lanes, w->count, 0, w->out));
}

/* Each lane's maps and values lie in memory of their own, as those of a memo do. */
static void one_shape(machine *m, int32_t heads, int32_t kv_heads, int32_t dim, size_t tokens,
                      size_t count, uint32_t format, int causal)
{
    pc__kv_shape shape = {1, kv_heads, dim, dim, PC_DTYPE_BF16, 0};
    work w = {.m = m,
              .count = count,
              .out = malloc(count * tokens * (size_t)(heads * dim) * sizeof(float))};
    pc__map_shape map = {format, heads, tokens, causal};
    size_t bytes = pc__map_bytes(&map), values = tokens * (size_t)(kv_heads * dim) * 2;
    double keys = causal ? (double)tokens * (double)(tokens + 1) / 2
                         : (double)tokens * (double)tokens,
           seconds, bound;
    for (size_t i = 0; i < count; i++) {
        pc__kv *kv = NULL;
        void *weights = malloc(bytes);
        CHECK_OK(pc__kv_new(&kv, &m->context->mem, &shape, tokens));
        for (size_t t = 0; t < tokens; t++) {
            int64_t at = (int64_t)t;
            CHECK_OK(pc__kv_append(kv, &at, 1));
        }
        memset(weights, 0x11, bytes);
        w.lanes[i] = (pc__map_lane){map, weights, kv, i * tokens};
    }
    seconds = least(apply, &w);
    bound = fmax(2.0 * keys * (double)(heads * dim) * (double)count / m->flops,
                 (double)(count * (bytes + values)) / m->bytes);
    printf(
        "%2d x %3d, %2d K/V, L %4zu, batch %2zu, %s%s: %9.1f us, bound %9.1f us (%s), share %.2f\n",
        heads, dim, kv_heads, tokens, count, format == PC_MAP_U8 ? "u8" : "f16",
        causal ? " causal" : "", seconds * 1e6, bound * 1e6,
        bound * m->flops > 2.0 * keys * (double)(heads * dim) * (double)count * 1.0001 ? "bytes"
                                                                                       : "FLOPs",
        bound / seconds);
    for (size_t i = 0; i < count; i++) {
        free((void *)(uintptr_t)w.lanes[i].map);
        pc__kv_unref((pc__kv *)(uintptr_t)w.lanes[i].kv);
    }
    free(w.out);
}

static void speed(void)
{
    machine m = {.memory = malloc(READ_BYTES)};
    pc_context_options options = PC_CONTEXT_OPTIONS_INIT;
    options.threads = 1;
    if (!CHECK_OK(pc_context_new(&m.context, &options)))
        return;
    memset(m.memory, 1, READ_BYTES);
    m.flops = 2.0 * (double)PANEL_IN * (double)PANEL_ROWS * (double)PC__PANEL * (double)PANEL_TURNS
              / least(all_products, &m);
    m.bytes = (double)READ_BYTES / least(all_reads, &m);
    printf("%s: bf16 %.0f GFLOP/s, memory %.1f GB/s, one thread\n", pc__kernels_get()->name,
           m.flops / 1e9, m.bytes / 1e9);
    for (size_t tokens = 32; tokens <= 1024; tokens *= 2)
        for (size_t count = 1; count <= 32; count *= count < 4 ? 4 : 8)
            for (uint32_t format = PC_MAP_F16; format <= PC_MAP_U8; format++) {
                if (tokens * count > 8192)
                    continue;
                one_shape(&m, 12, 12, 64, tokens, count, format, 0);
                one_shape(&m, 32, 4, 64, tokens, count, format, 1);
                one_shape(&m, 32, 32, 128, tokens, count, format, 1);
            }
    pc_context_free(m.context);
    free(m.memory);
}

int main(void)
{
    for (size_t i = 0; i < LEVELS; i++) {
        pc_test_rng rng = {11};
        const pc__kernels *kernels = pc__kernels_named(levels[i]);
        if (kernels)
            all_of(kernels, &rng);
        else
            printf("%s: not here\n", levels[i]);
    }
    if (getenv("PC_TEST_LONG"))
        speed();
    return pc_test_end();
}
