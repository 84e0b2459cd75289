/* Catches: a plan whose tables on the device are not its calls: rows, spans, sections, positions
 * with gaps, distances, slots or waves that are mixed up, rows that nobody writes, a format whose
 * units go to the kernel of another; windows, caps, slopes or angles of another layer; maps of
 * other rows, runs or lanes; tables or lists that are uploaded in each layer; values that a kernel
 * reads or writes and nobody wrote or owns; memory that is not given back, or an error that is not
 * reported, when a call of the runtime or an allocation fails. The CPU computes the same plans.
 * PC_TEST_LONG=1: all of these, and more plans.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cuda/backend_cuda.h"
#include "attn/half.h"
#include "attn/kv_device.h"
#include "attn/plan_internal.h"
#include "base/hash_table.h"
#include "cuda_testing.h"
#include "fake_kernels.h"

enum { LAYERS = 2, MOST_RUNS = 8, MOST_ROWS = 24, MOST_SPANS = 4 };

/* ------------------------------------------------------------ a small backend */

static int is_long(void)
{
    return getenv("PC_TEST_LONG") != NULL;
}

static void *take(pc__backend *backend, size_t bytes)
{
    void *memory;
    return pc__cuda_pool_take(pc__cuda_backend_of(backend)->pool, bytes, &memory) < 0 ? NULL
                                                                                      : memory;
}

static void give(pc__backend *backend, void *memory)
{
    pc__cuda_pool_give(pc__cuda_backend_of(backend)->pool, memory);
}

static pc_status finish(pc__stream *stream)
{
    return pc__cuda_finish(pc__cuda_stream_of(stream));
}

static void copy(pc__stream *stream, void *to, const void *from, size_t bytes)
{
    pc__cuda_copy(pc__cuda_stream_of(stream), to, from, bytes);
}

static void zero(pc__stream *stream, void *to, size_t bytes)
{
    pc__cuda_zero(pc__cuda_stream_of(stream), to, bytes);
}

static pc_status stream_new(pc__stream **out, pc__backend *backend);

static void stream_free(pc__stream *stream)
{
    (void)stream;
}

static void free_nothing(pc__backend *backend)
{
    (void)backend;
}

static const pc__backend_ops ops = {.name = "cuda",
                                    .free = free_nothing,
                                    .take = take,
                                    .give = give,
                                    .stream_new = stream_new,
                                    .stream_free = stream_free,
                                    .finish = finish,
                                    .copy = copy,
                                    .zero = zero,
                                    .attend = pc__cuda_op_attend,
                                    .attention_map = pc__cuda_op_attention_map,
                                    .apply_maps = pc__cuda_op_apply_maps,
                                    .record_maps = pc__cuda_op_record_maps};

typedef struct place {
    pc_cuda_place p;
    pc_context *context;
    pc__cuda_backend cuda;
    pc__cuda_backend_stream stream;
    pc_test_rng rng;
} place;

/* The one for all. */
static pc_status stream_new(pc__stream **out, pc__backend *backend)
{
    *out = &PC__AROUND(backend, place, cuda.base)->stream.base;
    return PC_OK;
}

static void open_place(place *at, uint64_t seed)
{
    int blocks;
    pc_context_options options = PC_CONTEXT_OPTIONS_INIT;
    memset(at, 0, sizeof *at);
    at->rng.state = seed;
    options.threads = 1;
    options.allocator = &at->p.allocator;
    CHECK_OK(pc_cuda_open(&at->p, NULL, 0));
    CHECK_OK(pc__cuda_kernel_prepare(&pc__cuda_kernels.map_record_i8, at->p.device, &blocks));
    CHECK_OK(pc_context_new(&at->context, &options));
    at->cuda.device = at->p.device;
    at->cuda.pool = at->p.pool;
    at->stream.base = (pc__stream){&ops, &at->cuda.base, at->context};
    at->stream.cuda = at->p.stream;
    at->cuda.base.ops = &ops;
    at->cuda.base.context = at->context;
    at->cuda.base.limits = pc__cuda_plan_limits;
    pthread_mutex_init(&at->cuda.lock, NULL);
    CHECK_OK(pc__backend_begin(&at->cuda.base));
}

static void close_place(place *at)
{
    pc__backend_end(&at->cuda.base);
    pthread_mutex_destroy(&at->cuda.lock);
    pc_context_free(at->context);
    pc_cuda_close(&at->p);
}

static uint32_t below(place *at, uint32_t n)
{
    return n ? (uint32_t)(pc_test_bits(&at->rng) >> 20) % n : 0;
}

static float *normals(place *at, size_t count, float size)
{
    float *x = calloc(count + 1, sizeof *x);
    for (size_t i = 0; i < count; i++)
        x[i] = pc_test_normal(&at->rng) * size;
    return x;
}

/* A copy on the device. */
static pc__floats *to_device(place *at, const float *from, size_t count)
{
    pc__floats *to = take(&at->cuda.base, count * sizeof *from);
    copy(&at->stream.base, to, from, count * sizeof *from);
    CHECK_OK(finish(&at->stream.base));
    return to;
}

/* ---------------------------------------------------------------------- runs */

typedef struct run {
    pc__kv *host, *device; /* the same run, if it has a mirror */
    pc__kv *exact;         /* the values of `host` as fp32 */
    pc__kv_hold hold;      /* of its mirror, if it has one */
    pc__kv **list;         /* what is held */
} run;

static void write_tokens(place *at, pc__kv *kv, size_t tokens, int holes)
{
    size_t k = (size_t)(kv->shape.kv_heads * kv->shape.k_dim),
           v = (size_t)(kv->shape.kv_heads * kv->shape.v_dim);
    int64_t position = 0;
    for (size_t t = 0; t < tokens; t++, position += holes ? 1 + (int64_t)below(at, 4) : 1) {
        CHECK_OK(pc__kv_append(kv, &position, 1));
        for (int32_t l = 0; l < LAYERS; l++) {
            float *values = normals(at, k + v, 1.0f);
            pc__kv_write(kv, l, t, values, values + k);
            free(values);
        }
    }
}

/* A run that lies on the device alone, its last page first. */
static pc__kv *move_run(place *at, const pc__kv *kv)
{
    pc__kv *moved;
    size_t each = pc__kv_layer_page_bytes(&kv->shape);
    CHECK_OK(pc__kv_new_at(&moved, &at->cuda.base, &kv->shape, 0));
    for (size_t t = 0; t < kv->tokens; t++) { /* page after page: each in a block of its own */
        int64_t position = pc__kv_relative(kv, t);
        CHECK_OK(pc__kv_append(moved, &position, 1));
    }
    const pc__kv_device *d = atomic_load(&moved->device);
    for (size_t l = 0; l < LAYERS; l++)
        for (size_t p = 0; p * PC__PAGE < kv->tokens; p++)
            CHECK_OK(pc__backend_copy(&at->cuda.base, d->page[p] + l * d->layer_stride,
                                      kv->layer[l] + p * each, each));
    return moved;
}

static run new_run(place *at, pc__kv_shape shape, size_t tokens, int holes, int moved)
{
    run r = {0};
    uint32_t dtype = shape.dtype;
    if (dtype == PC_DTYPE_I8)
        shape.dtype = PC_DTYPE_F32;
    CHECK_OK(pc__kv_new(&r.host, &pc__libc_allocator, &shape, tokens));
    write_tokens(at, r.host, tokens, holes);
    if (dtype != shape.dtype) {
        pc__kv *converted;
        CHECK_OK(pc__kv_convert(&converted, at->context, r.host, dtype));
        pc__kv_unref(r.host);
        r.host = converted;
    }
    CHECK_OK(pc__kv_convert(&r.exact, at->context, r.host, PC_DTYPE_F32));
    if (moved && dtype != PC_DTYPE_I8) {
        r.device = move_run(at, r.host);
    } else {
        r.device = pc__kv_ref(r.host);
        r.list = malloc(sizeof(*r.list));
        *r.list = r.host;
        CHECK_OK(pc__kv_mirrors_hold(&r.hold, &at->cuda.base, r.list, 1, 1));
        CHECK_OK(pc__kv_mirrors_fill(&r.hold, LAYERS - 1));
    }
    return r;
}

static void free_run(run r)
{
    pc__kv_mirrors_release(&r.hold);
    free(r.list);
    pc__kv_unref(r.host);
    pc__kv_unref(r.device);
    pc__kv_unref(r.exact);
}

/* --------------------------------------------------------------------- plans */

typedef struct head_dims {
    int32_t heads, kv_heads, k, v;
    int plain; /* no kernels of its own: attend_naive takes it, which rounds nothing */
} head_dims;

typedef struct batch {
    head_dims dims;
    run runs[MOST_RUNS];
    size_t run_count, rows;
    int64_t positions[MOST_ROWS];
    size_t first[MOST_ROWS + 1];
    pc__kv_span host[MOST_ROWS * MOST_SPANS], device[MOST_ROWS * MOST_SPANS];
    double tolerance; /* of its least exact format, or of attend_naive */
    pc__row_plan *cpu, *plan;
    float *q, *want, *want_lse;
    pc__floats *x, *y, *lse;
} batch;

static const uint32_t dtypes[] = {PC_DTYPE_F32, PC_DTYPE_BF16, PC_DTYPE_F16, PC_DTYPE_I8};

/* The kernels of 16-bit formats round queries, as the CPU's do. attend_naive is compared with what
 * the CPU computes of fp32. */
static void add_span(batch *b, size_t row, size_t index, int64_t start, uint32_t lo, uint32_t hi)
{
    size_t at = b->first[row + 1]++;
    b->host[at] = (pc__kv_span){b->dims.plain ? b->runs[index].exact : b->runs[index].host, start,
                                lo, hi};
    b->device[at] = (pc__kv_span){b->runs[index].device, start, lo, hi};
}

/* Run 0 is shared by all rows but some, the next ones by some; some spans are empty. */
static void make_rows(place *at, batch *b)
{
    for (size_t row = 0; row < b->rows; row++) {
        b->first[row + 1] = b->first[row];
        b->positions[row] = 1500 + (int64_t)below(at, 900);
        if (below(at, 8) == 0)
            continue; /* sees nothing */
        for (size_t i = 0; i < b->run_count && i < MOST_SPANS; i++) {
            size_t index = i ? (row / 3 + i) % b->run_count : 0;
            uint32_t tokens = (uint32_t)b->runs[index].host->tokens, lo = 0, hi = tokens;
            if (i && (index == 0 || below(at, 3) == 0))
                continue;
            if (below(at, 3) == 0) {
                lo = below(at, tokens + 1);
                hi = lo + below(at, tokens - lo + 1);
            }
            add_span(b, row, index, (int64_t)(below(at, 3) * 200), lo, hi);
        }
    }
}

static void make_runs(place *at, batch *b, uint32_t formats, size_t longest)
{
    static const double tolerance[] = {1e-5, 4e-3, 1.5e-3, 2.5e-3};
    b->run_count = 2 + below(at, MOST_RUNS - 2);
    for (size_t i = 0; i < b->run_count; i++) {
        uint32_t f = below(at, 4);
        while (!(formats >> f & 1))
            f = (f + 1) % 4;
        double its_own = tolerance[b->dims.plain ? 0 : f];
        b->tolerance = its_own > b->tolerance ? its_own : b->tolerance;
        pc__kv_shape shape = {LAYERS, b->dims.kv_heads, b->dims.k, b->dims.v, dtypes[f], 0};
        b->runs[i] = new_run(at, shape, 1 + below(at, i ? 130 : (uint32_t)longest),
                             below(at, 3) == 0, below(at, 2) == 0);
    }
}

static void new_batch(place *at, batch *b, head_dims dims, uint32_t formats, size_t longest,
                      const pc__plan_limits *limits, int per_row)
{
    pc__kv_shape shape = {LAYERS, dims.kv_heads, dims.k, dims.v, PC_DTYPE_F32, 0};
    memset(b, 0, sizeof *b);
    b->dims = dims;
    b->rows = 1 + below(at, MOST_ROWS);
    make_runs(at, b, formats, longest);
    make_rows(at, b);
    pc__rows host = {b->rows, b->positions, b->first, b->host, 0},
             device = {b->rows, b->positions, b->first, b->device, per_row};
    size_t vectors = b->rows * (size_t)dims.heads;
    CHECK_OK(
        pc__row_plan_new(&b->cpu, at->context, &pc__cpu_plan_limits, &host, &shape, dims.heads));
    CHECK_OK(pc__row_plan_new(&b->plan, at->context, limits, &device, &shape, dims.heads));
    b->q = normals(at, vectors * (size_t)dims.k, 2.0f);
    b->want = normals(at, vectors * (size_t)dims.v, 0.0f);
    b->want_lse = normals(at, vectors, 0.0f);
    b->x = to_device(at, b->q, vectors * (size_t)dims.k);
    b->y = take(&at->cuda.base, vectors * (size_t)dims.v * sizeof(float));
    b->lse = take(&at->cuda.base, vectors * sizeof(float));
}

static void free_batch(place *at, batch *b)
{
    pc__row_plan_free(b->cpu);
    pc__row_plan_free(b->plan);
    free(b->q), free(b->want), free(b->want_lse);
    give(&at->cuda.base, b->x), give(&at->cuda.base, b->y), give(&at->cuda.base, b->lse);
    for (size_t i = 0; i < b->run_count; i++)
        free_run(b->runs[i]);
}

/* The largest difference, relative to the largest wanted value; infinities must be equal. */
static double error_of(const float *got, const float *want, size_t count, double least)
{
    double most = least, worst = 0;
    for (size_t i = 0; i < count; i++)
        if (isfinite(want[i]))
            most = fmax(most, fabs((double)want[i]));
    for (size_t i = 0; i < count; i++) {
        double error = got[i] == want[i] ? 0 : fabs((double)got[i] - (double)want[i]) / most;
        worst = error <= worst ? worst : isnan(error) ? INFINITY : error;
    }
    return worst;
}

static float *fetch(place *at, const pc__floats *from, size_t count)
{
    float *to = normals(at, count, 0.0f);
    copy(&at->stream.base, to, from, count * sizeof *to);
    CHECK_OK(finish(&at->stream.base));
    return to;
}

static void check_map(place *at, batch *b, const pc__attn_layer *layer, size_t row)
{
    size_t keys = 0;
    for (size_t i = b->first[row]; i < b->first[row + 1]; i++)
        keys += b->host[i].kv->tokens;
    size_t count = keys * (size_t)b->dims.heads;
    float *want = normals(at, count, 0.0f), *got = normals(at, count, 1.0f);
    pc__floats *lse = to_device(at, b->want_lse, b->rows * (size_t)b->dims.heads);
    CHECK_OK(pc__plan_map(b->cpu, layer, b->q, row, b->want_lse, want));
    CHECK_OK(pc__cuda_op_attention_map(&at->stream.base, b->plan, layer, b->x, row, lse, got));
    CHECK_OK(finish(&at->stream.base));
    CHECK(error_of(got, want, count, 1.0) < 2e-5); /* nothing is rounded */
    give(&at->cuda.base, lse);
    free(want), free(got);
}

static void check_layer(place *at, batch *b, const pc__attn_layer *layer, int with_lse)
{
    size_t vectors = b->rows * (size_t)b->dims.heads, values = vectors * (size_t)b->dims.v;
    CHECK_OK(pc__plan_attend(b->cpu, layer, b->q, b->want, b->want_lse));
    CHECK_OK(
        pc__cuda_op_attend(&at->stream.base, b->plan, layer, b->x, b->y, with_lse ? b->lse : NULL));
    float *got = fetch(at, b->y, values), *lse = fetch(at, b->lse, with_lse ? vectors : 0);
    double error = error_of(got, b->want, values, 1e-3);
    if (!CHECK(error <= b->tolerance))
        printf("    values of layer %d: %g of %g\n", layer->layer, error, b->tolerance);
    if (with_lse)
        CHECK(error_of(lse, b->want_lse, vectors, 1.0) <= b->tolerance);
    free(got), free(lse);
}

static pc__rotation rope_of(double *frequency, int32_t dims, int32_t interleaved)
{
    for (int32_t i = 0; i < dims / 2; i++)
        frequency[i] = pow(10000.0, -(double)i / (double)dims);
    return (pc__rotation){dims, interleaved, 1.0f, frequency};
}

/* Both layers of a plan, and a second time: its tables stay. */
static void check_batch(place *at, batch *b)
{
    double frequency[2][128];
    pc__rotation ropes[] = {rope_of(frequency[0], b->dims.k / 4 * 2, 0),
                            rope_of(frequency[1], b->dims.k / 2 * 2, 1)};
    float *slopes = normals(at, (size_t)b->dims.heads, 0.02f),
          *sinks = normals(at, (size_t)b->dims.heads, 2.0f);
    for (int i = 0; i < 3; i++) {
        pc__attn_layer layer = {.layer = i % LAYERS,
                                .heads = b->dims.heads,
                                .window = below(at, 2) ? 1300 + (int64_t)below(at, 500) : 0,
                                .chunk = below(at, 3) ? 0 : 700 + (int64_t)below(at, 500),
                                .scale = 1.0f / sqrtf((float)b->dims.k),
                                .soft_cap = below(at, 3) ? 0.0f : 6.0f,
                                .slopes = below(at, 2) ? slopes : NULL,
                                .sinks = below(at, 2) ? sinks : NULL,
                                .rope = below(at, 4) ? &ropes[i % 2] : NULL};
        check_layer(at, b, &layer, i != 1);
        check_map(at, b, &layer, below(at, (uint32_t)b->rows));
    }
    free(slopes), free(sinks);
}

static const head_dims shapes[] = {
    {4, 2, 64, 64, 0}, {3, 1, 80, 80, 0}, {2, 2, 33, 21, 1}, {6, 3, 20, 36, 1}};
enum { SHAPES = sizeof shapes / sizeof *shapes };

static void plans(uint64_t seed)
{
    place at;
    batch b;
    open_place(&at, seed);
    for (size_t i = 0; i < 2 * SHAPES; i++) {
        pc__plan_limits limits = pc__cuda_plan_limits;
        uint32_t formats = i % 2 ? 15 : 1u << below(&at, 4);
        if (i % 3) /* sections that rows share in parts, and many waves */
            limits.section = 64u << below(&at, 2);
        if (i % 3 == 2)
            limits.state_floats = 2000;
        new_batch(&at, &b, shapes[i % SHAPES], formats, i ? 150 : 700, &limits, i == 5);
        check_batch(&at, &b);
        free_batch(&at, &b);
    }
    close_place(&at);
}

/* A plan without a row, and one whose rows see nothing. */
static void nothing_to_see(void)
{
    static const int64_t positions[2] = {0, 5};
    static const size_t first[3] = {0, 0, 0};
    static const pc__kv_shape shape = {LAYERS, 1, 64, 64, PC_DTYPE_BF16, 0};
    pc__attn_layer layer = {.heads = 2, .scale = 0.125f};
    place at;
    open_place(&at, 1);
    for (size_t rows = 0; rows <= 2; rows += 2) {
        pc__rows none = {rows, positions, first, NULL, 0};
        pc__row_plan *plan;
        float *q = normals(&at, 4 * 64, 1.0f);
        pc__floats *x = to_device(&at, q, 4 * 64), *y = take(&at.cuda.base, 4 * 64 * 4),
                   *lse = take(&at.cuda.base, 4 * 4);
        CHECK_OK(pc__row_plan_new(&plan, at.context, &pc__cuda_plan_limits, &none, &shape, 2));
        CHECK_OK(pc__cuda_op_attend(&at.stream.base, plan, &layer, x, y, lse));
        CHECK_OK(finish(&at.stream.base));
        for (size_t i = 0; i < rows * 2 * 64; i++)
            CHECK(((const float *)pc_fake_reach(y))[i] == 0.0f);
        for (size_t i = 0; i < rows * 2; i++)
            CHECK(((const float *)pc_fake_reach(lse))[i] == -INFINITY);
        pc__row_plan_free(plan);
        give(&at.cuda.base, x), give(&at.cuda.base, y), give(&at.cuda.base, lse);
        free(q);
    }
    close_place(&at);
}

/* ---------------------------------------------------------------------- maps */

enum { LANES = 4 };

typedef struct map_set {
    run runs[LANES];
    pc__map_shape shape[LANES];
    void *map[LANES], *want[LANES];
    int64_t *distance[LANES];
    size_t first_row[LANES], rows;
    uint32_t dtype[LANES];
} map_set;

/* Runs of the first `count` formats. */
static void new_maps(place *at, map_set *s, head_dims dims, uint32_t count)
{
    static const uint32_t formats[] = {PC_MAP_F32, PC_MAP_F16, PC_MAP_U8};
    memset(s, 0, sizeof *s);
    s->rows = 3; /* rows of nobody stand in front */
    for (size_t i = 0; i < LANES; i++) {
        size_t tokens = 1 + below(at, 90), spare = below(at, 40);
        s->dtype[i] = dtypes[below(at, count)];
        s->runs[i] = new_run(at,
                             (pc__kv_shape){LAYERS, dims.kv_heads, dims.k, dims.v, s->dtype[i], 0},
                             tokens + spare, below(at, 2) == 0, below(at, 2) == 0);
        s->shape[i] = (pc__map_shape){formats[below(at, 3)], dims.heads, tokens, (int)below(at, 2)};
        s->map[i] = calloc(1, pc__map_bytes(&s->shape[i]));
        s->want[i] = calloc(1, pc__map_bytes(&s->shape[i]));
        s->distance[i] = calloc(tokens, sizeof *s->distance[i]);
        for (size_t t = 0; t < tokens; t++)
            s->distance[i][t] = pc__kv_relative(s->runs[i].host, t);
        s->first_row[i] = s->rows;
        s->rows += tokens;
    }
}

static void free_map_runs(map_set *s)
{
    for (size_t i = 0; i < LANES; i++)
        free_run(s->runs[i]);
}

static void free_maps(map_set *s)
{
    for (size_t i = 0; i < LANES; i++)
        free(s->map[i]), free(s->want[i]), free(s->distance[i]);
}

static void softmax_map(place *at, const pc__map_shape *shape, void *map)
{
    float *row = calloc(shape->tokens, sizeof *row);
    for (size_t h = 0; h < (size_t)shape->heads; h++)
        for (size_t r = 0; r < shape->tokens; r++) {
            size_t keys = pc__map_row_keys(shape, r);
            float sum = 0;
            for (size_t k = 0; k < keys; k++)
                sum += row[k] = expf(pc_test_normal(&at->rng) * 2);
            for (size_t k = 0; k < keys; k++)
                row[k] /= sum;
            pc__map_pack_row(shape, h, r, row, map);
        }
    free(row);
}

static void check_apply(place *at, head_dims dims)
{
    map_set s;
    pc__map_lane host[LANES], device[LANES];
    new_maps(at, &s, dims, 3);
    size_t width = (size_t)(dims.heads * dims.v), count = s.rows * width;
    float *start = normals(at, count, 1.0f), *want = calloc(count, sizeof *want);
    memcpy(want, start, count * sizeof *want);
    for (size_t i = 0; i < LANES; i++) {
        softmax_map(at, &s.shape[i], s.map[i]);
        host[i] = (pc__map_lane){s.shape[i], s.map[i], s.runs[i].host, s.first_row[i]};
        device[i] = (pc__map_lane){s.shape[i], s.map[i], s.runs[i].device, s.first_row[i]};
    }
    pc__floats *out = to_device(at, start, count);
    CHECK_OK(pc__map_apply(at->context, host, LANES, 1, want));
    CHECK_OK(pc__cuda_op_apply_maps(&at->stream.base, device, LANES, 1, out));
    float *got = fetch(at, out, count);
    CHECK(!memcmp(got, want, 3 * width * sizeof *got));
    for (size_t i = 0; i < LANES; i++) {
        /* weights of a row add up to 1, values are below 6; a map's scale is rounded */
        double room = 6
                      * (s.dtype[i] == PC_DTYPE_BF16  ? 0x1p-8
                         : s.dtype[i] == PC_DTYPE_F16 ? 0x1p-10
                                                      : 2e-6);
        size_t from = s.first_row[i] * width;
        for (size_t j = from; j < from + s.shape[i].tokens * width; j++)
            if (!(fabs((double)got[j] - (double)want[j]) <= room)) {
                CHECK(!"a value is wrong");
                break;
            }
    }
    give(&at->cuda.base, out);
    free(start), free(want), free(got);
    free_map_runs(&s);
    free_maps(&s);
}

static float weight_at(const pc__map_shape *shape, const void *map, size_t head, size_t row,
                       size_t key, float *step)
{
    size_t all = pc__map_row_at(shape, shape->tokens),
           at = head * all + pc__map_row_at(shape, row) + key,
           scales = ((size_t)shape->heads * all + 3) / 4 * 4;
    *step = 0;
    if (shape->format == PC_MAP_F32)
        return ((const float *)map)[at];
    if (shape->format == PC_MAP_F16)
        return pc__half_to(((const uint16_t *)map)[at]);
    memcpy(step, (const uint8_t *)map + scales + (head * shape->tokens + row) * 4, 4);
    return *step * (float)((const uint8_t *)map)[at];
}

static size_t wrong_weights(const pc__map_shape *shape, const void *got, const void *want)
{
    size_t wrong = 0;
    for (size_t h = 0; h < (size_t)shape->heads; h++)
        for (size_t r = 0; r < shape->tokens; r++)
            for (size_t k = 0; k < pc__map_row_keys(shape, r); k++) {
                float step, own_step;
                double x = (double)weight_at(shape, want, h, r, k, &step),
                       y = (double)weight_at(shape, got, h, r, k, &own_step),
                       room = 3e-4 * x + 1.01 * (double)step + 1e-30;
                if (shape->format == PC_MAP_F16)
                    room += 0x1p-10 * x + 0x1p-24;
                wrong += !(fabs(x - y) <= room)
                         || !(fabs((double)(step - own_step)) <= 3e-4 * (double)step);
            }
    return wrong;
}

static void check_record(place *at, head_dims dims)
{
    map_set s;
    pc__map_out host[LANES], device[LANES];
    double frequency[128];
    pc__rotation rope = rope_of(frequency, dims.k / 4 * 2, (int32_t)below(at, 2));
    new_maps(at, &s, dims, 4);
    size_t heads = (size_t)dims.heads, k = (size_t)dims.k;
    float *q = normals(at, s.rows * heads * k, 2.0f), *lse = normals(at, s.rows * heads, 0.5f),
          *slopes = normals(at, heads, 0.02f);
    for (size_t i = 0; i < s.rows * heads; i++)
        lse[i] += 5.0f;
    for (size_t i = 0; i < LANES; i++) {
        host[i] = (pc__map_out){s.shape[i],     s.want[i], s.runs[i].host,
                                s.first_row[i], 11,        s.distance[i]};
        device[i] = (pc__map_out){s.shape[i],     s.map[i], s.runs[i].device,
                                  s.first_row[i], 11,       s.distance[i]};
    }
    pc__attn_layer layer = {.layer = 1,
                            .heads = dims.heads,
                            .window = below(at, 2) ? 40 : 0,
                            .chunk = below(at, 2) ? 29 : 0,
                            .scale = 1.0f / sqrtf((float)k),
                            .soft_cap = below(at, 2) ? 5.0f : 0.0f,
                            .slopes = below(at, 2) ? slopes : NULL,
                            .rope = below(at, 3) ? &rope : NULL};
    pc__floats *x = to_device(at, q, s.rows * heads * k), *y = to_device(at, lse, s.rows * heads);
    CHECK_OK(pc__record_maps(at->context, &layer, host, LANES, q, lse));
    CHECK_OK(pc__cuda_op_record_maps(&at->stream.base, &layer, device, LANES, x, y));
    CHECK_OK(finish(&at->stream.base));
    for (size_t i = 0; i < LANES; i++)
        CHECK_INT(wrong_weights(&s.shape[i], s.map[i], s.want[i]), 0);
    give(&at->cuda.base, x), give(&at->cuda.base, y);
    free(q), free(lse), free(slopes);
    free_map_runs(&s);
    free_maps(&s);
}

static void maps(uint64_t seed)
{
    place at;
    open_place(&at, seed);
    for (size_t i = 0; i < SHAPES; i++) {
        check_apply(&at, shapes[i]);
        check_record(&at, shapes[i]);
    }
    CHECK_OK(pc__cuda_op_apply_maps(&at.stream.base, NULL, 0, 0, NULL));
    close_place(&at);
}

/* What kernels do not take is refused as the CPU refuses it. */
static void refusals(void)
{
    place at;
    batch b;
    open_place(&at, 3);
    run r = new_run(&at, (pc__kv_shape){LAYERS, 1, 64, 64, PC_DTYPE_I8, 0}, 5, 0, 0);
    pc__map_lane lane = {{PC_MAP_F32, 2, 5, 1}, NULL, r.device, 0};
    pc__attn_layer layer = {.heads = 4, .scale = 1.0f};
    CHECK_STATUS(pc__cuda_op_apply_maps(&at.stream.base, &lane, 1, 0, NULL), PC_ERR_UNSUPPORTED);
    lane.shape.tokens = 6;
    CHECK_STATUS(pc__cuda_op_apply_maps(&at.stream.base, &lane, 1, 0, NULL), PC_ERR_MISMATCH);
    new_batch(&at, &b, shapes[0], 1, 60, &pc__cuda_plan_limits, 0);
    double frequency[128];
    pc__rotation rope = rope_of(frequency, 66, 0);
    layer.rope = &rope;
    CHECK_STATUS(pc__cuda_op_attend(&at.stream.base, b.plan, &layer, b.x, b.y, b.lse),
                 PC_ERR_INVALID);
    free_batch(&at, &b);
    free_run(r);
    close_place(&at);
}

/* ------------------------------------------------------------------- uploads */

/* A plan uploads tables, slopes, sinks, chunks and angles once, nothing for other layers; counts of
 * claims need no zeros. */
static void one_upload(uint64_t seed)
{
    place at;
    batch b;
    double frequency[128];
    float slopes[4] = {0.1f, 0.2f, 0.3f, 0.4f}, sinks[4] = {1, 2, 3, 4};
    pc__rotation rope = rope_of(frequency, 32, 0);
    pc__attn_layer layer = {
        .heads = 4, .scale = 0.125f, .chunk = 700, .slopes = slopes, .sinks = sinks, .rope = &rope};
    open_place(&at, seed);
    new_batch(&at, &b, shapes[0], 15, 700, &pc__cuda_plan_limits, 0);
    const enum cudaMemcpyKind up = cudaMemcpyHostToDevice;
    uint64_t copies = pc_fake_copies(up, NULL), zeros = pc_fake_count("cudaMemsetAsync");
    for (int32_t l = 0; l < 4; l++) {
        layer.layer = l % LAYERS;
        layer.window = l % 2 ? 500 : 0;
        CHECK_OK(pc__cuda_op_attend(&at.stream.base, b.plan, &layer, b.x, b.y, b.lse));
        CHECK_INT(pc_fake_copies(up, NULL) - copies, 5);
    }
    CHECK_INT(pc_fake_count("cudaMemsetAsync") - zeros, 0);
    CHECK_OK(finish(&at.stream.base));
    free_batch(&at, &b);
    close_place(&at);
}

/* ------------------------------------------------------------------ failures */

typedef struct ordeal {
    place at;
    batch b;
    map_set s;
    pc__floats *out, *lse;
    float *prob;
} ordeal;

static pc_status every_operation(ordeal *o)
{
    pc__stream *stream = &o->at.stream.base;
    double frequency[128];
    float slopes[4] = {0.1f, 0.2f, 0.3f, 0.4f};
    pc__rotation rope = rope_of(frequency, 32, 0);
    pc__attn_layer layer = {
        .heads = 4, .scale = 0.125f, .window = 1700, .slopes = slopes, .rope = &rope};
    pc__map_lane in[LANES];
    pc__map_out out[LANES];
    for (size_t i = 0; i < LANES; i++) {
        in[i] = (pc__map_lane){o->s.shape[i], o->s.map[i], o->s.runs[i].device, o->s.first_row[i]};
        out[i] = (pc__map_out){
            o->s.shape[i],   o->s.want[i], o->s.runs[i].device, o->s.first_row[i], 0,
            o->s.distance[i]};
    }
    PC__TRY_RETURN(pc__cuda_op_attend(stream, o->b.plan, &layer, o->b.x, o->b.y, o->b.lse));
    PC__TRY_RETURN(
        pc__cuda_op_attention_map(stream, o->b.plan, &layer, o->b.x, 0, o->b.lse, o->prob));
    PC__TRY_RETURN(pc__cuda_op_apply_maps(stream, in, LANES, 0, o->out));
    return pc__cuda_op_record_maps(stream, &layer, out, LANES, o->out, o->lse);
}

/* Call `n` of the runtime, or allocation `n`, fails; returns how many there were. */
static uint64_t one_failure(uint64_t n, int of_memory)
{
    ordeal *o = calloc(1, sizeof *o);
    size_t keys = 0;
    open_place(&o->at, 11);
    new_batch(&o->at, &o->b, shapes[0], 15, 70, &pc__cuda_plan_limits, 0);
    new_maps(&o->at, &o->s, shapes[0], 3);
    for (size_t i = o->b.first[0]; i < o->b.first[1]; i++)
        keys += o->b.host[i].kv->tokens;
    o->prob = normals(&o->at, keys * 4, 0);
    float *start = normals(&o->at, o->s.rows * 4 * 64, 1);
    o->out = to_device(&o->at, start, o->s.rows * 4 * 64);
    o->lse = to_device(&o->at, start, o->s.rows * 4);
    uint64_t calls = pc_fake_calls(), allocations = o->at.p.memory.calls;
    if (of_memory)
        o->at.p.memory.fail_at = n ? allocations + n : 0;
    else
        pc_fake_fail_call(n, cudaErrorInvalidValue);
    pc_status status = every_operation(o), late = finish(&o->at.stream.base);
    calls = (of_memory ? o->at.p.memory.calls - allocations : pc_fake_calls() - calls);
    if (n && of_memory) /* a second attempt may have been made */
        CHECK((late == PC_OK || late == PC_ERR_NOMEM)
              && (status == PC_OK || status == PC_ERR_NOMEM));
    else if (n && !pc_fake_failed_giving())
        CHECK(status < 0 || late < 0);
    else
        CHECK_OK(status < 0 ? status : late);
    o->at.p.memory.fail_at = 0;
    pc_fake_fail_call(0, 0);
    finish(&o->at.stream.base);
    give(&o->at.cuda.base, o->out), give(&o->at.cuda.base, o->lse);
    free_batch(&o->at, &o->b);
    free_map_runs(&o->s);
    close_place(&o->at); /* a context that is gone may still run copies */
    free_maps(&o->s);
    free(start), free(o->prob), free(o);
    return calls;
}

static void failures(void)
{
    for (int of_memory = 0; of_memory < 2; of_memory++) {
        uint64_t calls = one_failure(0, of_memory);
        CHECK(calls > (of_memory ? 10 : 40));
        for (uint64_t n = 1; n <= calls; n += is_long() ? 1 : of_memory ? 3 : 29)
            one_failure(n, of_memory);
    }
}

int main(void)
{
    pc_fake_kernels_add();
    if (!pc_cuda_real())
        nothing_to_see();
    refusals();
    for (uint64_t seed = 1; seed <= (is_long() ? 10 : 1); seed++) {
        plans(seed);
        maps(seed);
    }
    if (!pc_cuda_real()) {
        one_upload(1);
        failures();
    }
    return pc_test_end();
}
