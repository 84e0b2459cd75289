/* Catches: pc_pages_write and pc_pages_read that mix up tokens, heads or dimensions in any order,
 * stride or format; that lose more than the run's format does; that touch other tokens of the run,
 * or memory beside what they are given; whole pages that are written differently from single
 * tokens; arguments that cannot be right and are accepted. */
#include <promptcache/attend.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "attn/half.h"
#include "attn/kv.h"
#include "guarded.h"
#include "levels.h"
#include "pages_write.h"
#include "testing.h"

enum { TOKENS = 200, MOST_HEADS = 3, MOST_DIM = 70 };

typedef struct side { /* K or V of the caller */
    size_t dim, token, head;
    guarded memory;
} side;

typedef struct scene {
    pc_test_rng rng;
    pc_attend_shape shape;
    guarded run, twin; /* twin: the same, written by single tokens in fp32 */
    pc_pages_args args;
    side k, v;
} scene;

static size_t bytes_of(uint32_t dtype)
{
    return dtype == PC_DTYPE_F32 ? 4 : 2;
}

static uint32_t below(scene *s, uint32_t n)
{
    return (uint32_t)(pc_test_bits(&s->rng) % n);
}

static float load(uint32_t dtype, const uint8_t *from)
{
    float x;
    uint16_t half;
    if (dtype == PC_DTYPE_F32)
        memcpy(&x, from, 4);
    else
        memcpy(&half, from, 2);
    return dtype == PC_DTYPE_F32    ? x
           : dtype == PC_DTYPE_BF16 ? pc__bf16_to(half)
                                    : pc__half_to(half);
}

static void store(uint32_t dtype, float x, uint8_t *to)
{
    uint16_t half = dtype == PC_DTYPE_BF16 ? pc__bf16_from(x) : pc__half_from(x);
    if (dtype == PC_DTYPE_F32)
        memcpy(to, &x, 4);
    else
        memcpy(to, &half, 2);
}

static uint8_t *element(const scene *s, const side *x, size_t t, size_t h, size_t d)
{
    return x->memory.data + (t * x->token + h * x->head + d) * bytes_of(s->args.dtype);
}

/* Strides without gaps are not named. */
static void order(scene *s, side *x, size_t dim, int gaps)
{
    size_t heads = (size_t)s->shape.kv_heads, count = s->args.count;
    x->dim = dim;
    if (s->args.layout == PC_KV_NHD) {
        x->head = dim + (gaps ? below(s, 3) : 0);
        x->token = heads * x->head + (gaps ? below(s, 3) : 0);
    } else {
        x->token = dim + (gaps ? below(s, 3) : 0);
        x->head = count * x->token + (gaps ? below(s, 3) : 0);
    }
    x->memory = guarded_new(((count - 1) * x->token + (heads - 1) * x->head + dim)
                            * bytes_of(s->args.dtype));
}

static void fill(scene *s, const side *x)
{
    for (size_t t = 0; t < s->args.count; t++)
        for (size_t h = 0; h < (size_t)s->shape.kv_heads; h++)
            for (size_t d = 0; d < x->dim; d++)
                store(s->args.dtype, pc_test_normal(&s->rng), element(s, x, t, h, d));
}

static void draw_scene(scene *s, uint64_t seed)
{
    static const uint32_t dtypes[] = {PC_DTYPE_F32, PC_DTYPE_BF16, PC_DTYPE_F16, PC_DTYPE_I8};
    memset(s, 0, sizeof *s);
    s->rng.state = seed;
    s->shape = (pc_attend_shape)PC_ATTEND_SHAPE_INIT;
    s->shape.heads = s->shape.kv_heads = 1 + (int32_t)below(s, MOST_HEADS);
    s->shape.k_dim = 1 + (int32_t)below(s, MOST_DIM);
    s->shape.v_dim = 1 + (int32_t)below(s, MOST_DIM);
    s->shape.dtype = dtypes[below(s, 4)];
    s->args = (pc_pages_args)PC_PAGES_ARGS_INIT;
    s->args.shape = &s->shape;
    s->args.dtype = dtypes[below(s, 3)];
    s->args.layout = below(s, 2) ? PC_KV_HND : PC_KV_NHD;
    s->args.first = below(s, 2) ? 0 : below(s, TOKENS - 1);
    if (s->shape.dtype == PC_DTYPE_I8)
        s->args.first = s->args.first / 64 * 64;
    s->args.count = 1 + below(s, (uint32_t)(TOKENS - s->args.first));
    int gaps = (int)below(s, 2);
    order(s, &s->k, (size_t)s->shape.k_dim, gaps);
    order(s, &s->v, (size_t)s->shape.v_dim, gaps);
    if (gaps) {
        s->args.k_token_stride = s->k.token, s->args.k_head_stride = s->k.head;
        s->args.v_token_stride = s->v.token, s->args.v_head_stride = s->v.head;
    }
    fill(s, &s->k), fill(s, &s->v);
    s->run = guarded_new(pc_pages_bytes(&s->shape, TOKENS));
    s->twin = guarded_new(pc_pages_bytes(&s->shape, TOKENS));
    memset(s->run.data, 0, s->run.bytes);
    memset(s->twin.data, 0, s->twin.bytes);
    s->args.pages = s->run.data;
}

/* Dense fp32 rows of tokens [t, t + count). */
static float *rows_of(const scene *s, const side *x, size_t t, size_t count)
{
    size_t heads = (size_t)s->shape.kv_heads;
    float *rows = malloc(count * heads * x->dim * sizeof *rows), *to = rows;
    for (size_t i = t; i < t + count; i++)
        for (size_t h = 0; h < heads; h++)
            for (size_t d = 0; d < x->dim; d++)
                *to++ = load(s->args.dtype, element(s, x, i, h, d));
    return rows;
}

/* I8: by pages, whose scales are those of all tokens. */
static void write_twin(const scene *s)
{
    size_t step = s->shape.dtype == PC_DTYPE_I8 ? 64 : 1;
    for (size_t t = 0; t < s->args.count; t += step) {
        size_t n = s->args.count - t < step ? s->args.count - t : step;
        float *k = rows_of(s, &s->k, t, n), *v = rows_of(s, &s->v, t, n);
        CHECK_OK(write_pages(&s->shape, s->twin.data, s->args.first + t, n, k, v));
        free(k), free(v);
    }
}

/* What the run's format and that of the caller may lose. */
static int is_near(const scene *s, float got, float want)
{
    double loss = s->shape.dtype == PC_DTYPE_I8     ? 0.05
                  : s->shape.dtype == PC_DTYPE_BF16 ? 0.004 * fabs((double)want)
                  : s->shape.dtype == PC_DTYPE_F16  ? 0.0005 * fabs((double)want) + 1e-7
                                                    : 0;
    if (s->args.dtype != PC_DTYPE_F32 && s->args.dtype != s->shape.dtype)
        loss += (s->args.dtype == PC_DTYPE_BF16 ? 0.004 : 0.0005) * fabs((double)want) + 1e-7;
    return fabs((double)got - (double)want) <= loss;
}

static void compare(const scene *s, const side *wrote, const side *read)
{
    for (size_t t = 0; t < s->args.count; t++)
        for (size_t h = 0; h < (size_t)s->shape.kv_heads; h++)
            for (size_t d = 0; d < wrote->dim; d++)
                if (!is_near(s, load(s->args.dtype, element(s, read, t, h, d)),
                             load(s->args.dtype, element(s, wrote, t, h, d)))) {
                    CHECK(!"a value is another one");
                    return;
                }
}

/* Gaps stay as they were. */
static int gaps_intact(const scene *s, const side *x)
{
    size_t bytes = bytes_of(s->args.dtype), elements = x->memory.bytes / bytes,
           heads = (size_t)s->shape.kv_heads;
    uint8_t *used = calloc(elements, 1);
    int intact = 1;
    for (size_t t = 0; t < s->args.count; t++)
        for (size_t h = 0; h < heads; h++)
            memset(used + t * x->token + h * x->head, 1, x->dim);
    for (size_t i = 0; i < elements * bytes; i++)
        intact = intact && (used[i / bytes] || x->memory.data[i] == GUARDED_POISON);
    free(used);
    return intact && guarded_intact(&x->memory);
}

static void check_scene(uint64_t seed)
{
    static scene s;
    draw_scene(&s, seed);
    side k = s.k, v = s.v;
    pc_pages_args read = s.args;
    s.args.k = s.k.memory.data, s.args.v = s.v.memory.data;
    CHECK_OK(pc_pages_write(&s.args));
    write_twin(&s);
    if (!CHECK(!memcmp(s.run.data, s.twin.data, s.run.bytes) && guarded_intact(&s.run)))
        fprintf(stderr, "    case %llu: dtypes %u and %u\n", (unsigned long long)seed,
                s.shape.dtype, s.args.dtype);
    k.memory = guarded_new(k.memory.bytes), v.memory = guarded_new(v.memory.bytes);
    read.k = k.memory.data, read.v = v.memory.data;
    CHECK_OK(pc_pages_read(&read));
    compare(&s, &s.k, &k), compare(&s, &s.v, &v);
    CHECK(gaps_intact(&s, &k) && gaps_intact(&s, &v));
    CHECK(!memcmp(s.run.data, s.twin.data, s.run.bytes));
    uint8_t *was = malloc(k.memory.bytes);
    memcpy(was, k.memory.data, k.memory.bytes);
    read.k = NULL; /* V alone, then K alone */
    CHECK_OK(pc_pages_read(&read));
    read.k = k.memory.data, read.v = NULL;
    CHECK_OK(pc_pages_read(&read));
    CHECK(!memcmp(was, k.memory.data, k.memory.bytes));
    free(was);
    guarded *all[] = {&s.k.memory, &s.v.memory, &k.memory, &v.memory, &s.run, &s.twin};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        guarded_free(all[i]);
}

static void refused(pc_pages_args *args, const pc_pages_args *good, pc_status want,
                    const char *cause)
{
    CHECK_STATUS(pc_pages_write(args), want);
    CHECK_ERROR_HAS(cause);
    CHECK_STATUS(pc_pages_read(args), want);
    CHECK_ERROR_HAS(cause);
    *args = *good;
}

static void bad_args(void)
{
    static _Alignas(64) float pages[64 * 8], k[64 * 4], v[64 * 4];
    pc_attend_shape shape = {sizeof shape, 1, 1, 4, 4, PC_DTYPE_F32, 0};
    pc_pages_args good = PC_PAGES_ARGS_INIT, args;
    good.shape = &shape, good.pages = pages, good.count = 64, good.k = k, good.v = v;
    args = good;
    CHECK_OK(pc_pages_write(&args));
    args.dtype = PC_DTYPE_I8;
    refused(&args, &good, PC_ERR_UNSUPPORTED, "dtype of k and v is I8");
    args.dtype = 99;
    refused(&args, &good, PC_ERR_INVALID, "dtype is 99");
    args.layout = 2;
    refused(&args, &good, PC_ERR_INVALID, "layout is 2");
    args.pages = NULL;
    refused(&args, &good, PC_ERR_INVALID, "pages is NULL");
    args.pages = (char *)pages + 4;
    refused(&args, &good, PC_ERR_INVALID, "not 64-byte aligned");
    args.first = SIZE_MAX;
    refused(&args, &good, PC_ERR_INVALID, "no memory holds so many");
    args.v_token_stride = SIZE_MAX / 2;
    refused(&args, &good, PC_ERR_INVALID, "no memory holds so many");
    args.k = args.v = NULL;
    refused(&args, &good, PC_ERR_INVALID, "NULL");
    args.k = NULL;
    CHECK_STATUS(pc_pages_write(&args), PC_ERR_INVALID);
    CHECK_OK(pc_pages_read(&args));
    CHECK_STATUS(pc_pages_write(NULL), PC_ERR_INVALID);
    args = (pc_pages_args)PC_PAGES_ARGS_INIT;
    args.shape = &shape; /* no tokens: nothing is needed */
    CHECK_OK(pc_pages_write(&args));
    CHECK_OK(pc_pages_read(&args));
}

int main(void)
{
    pc_test_need_level();
    bad_args();
    for (uint64_t i = 1; i <= 400; i++)
        check_scene(i);
    return pc_test_end();
}
