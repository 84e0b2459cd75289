/* Catches: values of a latent page that are not those of an ordinary page with the same numbers,
 * bit for bit, in any format, level and shape; values made for more or fewer than the pages that
 * are asked for; scratch memory that is too small; a page of an I8 run that is opened wrongly. */
#include <math.h>

#include "attn/half.h"
#include "attn/kv_page.h"
#include "attn/plan_latent.h"
#include "guarded.h"
#include "testing.h"

enum { ROWS = 37, TOKENS = 200, PAGES = 4 };

typedef struct scene {
    pc__kv_shape latent, plain; /* plain: the same K and V as an ordinary run */
    guarded pages, plain_pages, scratch;
    float *q;
    uint16_t *q16;
    uint32_t lo[ROWS], hi[ROWS];
} scene;

typedef struct result {
    float m[ROWS], l[ROWS], *acc;
} result;

/* An I8 run is compared with an fp32 run of its values. */
static void make_pages(scene *s, pc_test_rng *rng)
{
    size_t k_dim = (size_t)s->latent.k_dim, v_dim = (size_t)s->latent.v_dim;
    size_t bytes = pc__kv_page_bytes(&s->latent), plain = pc__kv_page_bytes(&s->plain);
    float *k = malloc(PC__PAGE * (k_dim + v_dim) * sizeof *k), *v = k + PC__PAGE * k_dim;
    s->pages = guarded_new(PAGES * bytes);
    s->plain_pages = guarded_new(PAGES * plain);
    for (size_t p = 0; p < PAGES; p++) {
        size_t left = TOKENS - p * PC__PAGE, tokens = left < PC__PAGE ? left : PC__PAGE;
        for (size_t i = 0; i < PC__PAGE * k_dim; i++)
            k[i] = pc_test_normal(rng);
        pc__page_write(&s->latent, s->pages.data + p * bytes, tokens, k, NULL);
        pc__page_read(&s->latent, s->pages.data + p * bytes, k, v);
        for (size_t t = 0; t < PC__PAGE; t++) /* by the definition, not by what was read */
            for (size_t d = 0; d < v_dim; d++)
                v[t * v_dim + d] = k[(k_dim - v_dim + d) * PC__PAGE + t];
        pc__page_write(&s->plain, s->plain_pages.data + p * plain, tokens, k, v);
    }
    free(k);
}

static void make_scene(scene *s, uint32_t dtype, int32_t k_dim, int32_t v_dim)
{
    pc_test_rng rng = {dtype * 1000 + (uint64_t)k_dim};
    size_t k = (size_t)k_dim, even = k + k % 2;
    s->latent = (pc__kv_shape){1, 1, k_dim, v_dim, dtype, 1};
    s->plain = (pc__kv_shape){1, 1, k_dim, v_dim, dtype == PC_DTYPE_I8 ? PC_DTYPE_F32 : dtype, 0};
    make_pages(s, &rng);
    s->scratch = guarded_new(pc__latent_scratch(&s->latent));
    s->q = calloc(ROWS * k, sizeof *s->q);
    s->q16 = calloc(ROWS * even, sizeof *s->q16);
    for (size_t r = 0; r < ROWS; r++) {
        for (size_t d = 0; d < k; d++) {
            s->q[r * k + d] = 0.2f * pc_test_normal(&rng);
            s->q16[r * even + d] = pc__bf16_from(s->q[r * k + d]);
        }
        s->lo[r] = r % 3 ? 0 : (uint32_t)(pc_test_bits(&rng) % TOKENS);
        s->hi[r] = r % 5 ? TOKENS : s->lo[r] + (uint32_t)(pc_test_bits(&rng) % (TOKENS - s->lo[r]));
    }
}

static void free_scene(scene *s)
{
    CHECK(guarded_intact(&s->scratch) && guarded_intact(&s->pages));
    guarded_free(&s->pages);
    guarded_free(&s->plain_pages);
    guarded_free(&s->scratch);
    free(s->q);
    free(s->q16);
}

static pc__attn_task task_of(const scene *s, const pc__kv_shape *shape, const guarded *pages,
                             size_t rows, result *to)
{
    for (size_t r = 0; r < rows; r++) {
        to->m[r] = -INFINITY;
        to->l[r] = 0.0f;
    }
    to->acc = calloc(rows * (size_t)shape->v_dim, sizeof *to->acc);
    return (pc__attn_task){.pages = pages->data,
                           .page_stride = pc__kv_page_bytes(shape),
                           .v_offset = pc__kv_k_bytes(shape),
                           .k_dim = (size_t)shape->k_dim,
                           .v_dim = (size_t)shape->v_dim,
                           .rows = rows,
                           .q = s->q,
                           .q16 = s->q16,
                           .lo = s->lo,
                           .hi = s->hi,
                           .m = to->m,
                           .l = to->l,
                           .acc = to->acc};
}

static void check(const scene *s, const pc__kernels *kernels, size_t rows, size_t from, size_t to)
{
    result want, got;
    const uint8_t *later[2] = {s->pages.data, s->pages.data};
    pc__attn_task task = task_of(s, &s->plain, &s->plain_pages, rows, &want);
    size_t floats = rows * (size_t)s->latent.v_dim;
    pc__attend_of(kernels, s->plain.dtype)(&task, from, to);
    task = task_of(s, &s->latent, &s->pages, rows, &got);
    task.prefetch_pages = later;
    task.prefetch_count = 2;
    pc__latent_attend(&s->latent, pc__latent_kernel(kernels, s->latent.dtype), &task, from, to,
                      s->scratch.data);
    if (!CHECK(!memcmp(want.m, got.m, rows * sizeof *want.m)
               && !memcmp(want.l, got.l, rows * sizeof *want.l)
               && !memcmp(want.acc, got.acc, floats * sizeof *want.acc)))
        fprintf(stderr, "    %s, dtype %u, %d and %d dimensions, %zu rows, pages %zu to %zu\n",
                kernels->name, s->latent.dtype, s->latent.k_dim, s->latent.v_dim, rows, from, to);
    free(want.acc);
    free(got.acc);
}

/* The block alone: as an ordinary page of the format holds it. */
static void check_block(const scene *s)
{
    size_t bytes = pc__kv_page_bytes(&s->latent), plain = pc__kv_page_bytes(&s->plain),
           k_bytes = pc__kv_k_bytes(&s->plain);
    size_t v_bytes = (size_t)s->latent.v_dim * PC__PAGE * (s->latent.dtype == PC_DTYPE_F32 ? 4 : 2);
    for (size_t p = 0; p < PAGES; p++) {
        pc__latent_values(&s->latent, s->pages.data + p * bytes, s->scratch.data);
        CHECK(!memcmp(s->scratch.data, s->plain_pages.data + p * plain + k_bytes, v_bytes));
    }
}

int main(void)
{
    static const char *const names[] = {"c", "avx2", "avx512", "avx512vnni", "avx512bf16", "amx"};
    static const int32_t dims[][2] = {{1, 1},   {7, 5},   {8, 8},   {40, 32},
                                      {24, 16}, {33, 20}, {66, 63}, {576, 512}};
    for (uint32_t dtype = PC_DTYPE_F32; dtype <= PC_DTYPE_I8; dtype++)
        for (size_t d = 0; d < sizeof dims / sizeof *dims; d++) {
            scene s;
            make_scene(&s, dtype, dims[d][0], dims[d][1]);
            if (dtype != PC_DTYPE_I8)
                check_block(&s);
            for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
                const pc__kernels *kernels = pc__kernels_named(names[i]);
                if (!kernels)
                    continue;
                check(&s, kernels, 1, 0, PAGES);
                check(&s, kernels, 6, 1, 2);
                check(&s, kernels, ROWS, 0, PAGES);
            }
            free_scene(&s);
        }
    return pc_test_end();
}
