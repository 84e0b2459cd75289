/* Catches: a plan whose result differs from ordinary attention over the concatenated keys (several
 * spans a row, shared and ragged spans, several placements of one run, empty spans, ALiBi, windows,
 * chunks, sinks, soft cap, grouped heads), a row that depends on its neighbours or on the number of
 * threads, latents that are read more often than once, leaks and crashes when an allocation
 * fails. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "attn/plan_internal.h"
#include "testing.h"

enum { RUNS = 7, MAX_ROWS = 40, MAX_SPANS = 6 };

typedef struct world {
    pc__kv_shape shape;
    int32_t heads;
    pc__kv *run[RUNS];
    float *k[RUNS], *v[RUNS]; /* [token][kv_head][dim] as stored (rotated at relative positions) */
    pc__rotation rope;
    double frequency[64];
    int use_rope, use_alibi;
    int64_t window, chunk;
    int use_sinks;
    float sinks[64];
    float cap, slopes[64];
    size_t rows;
    int64_t position[MAX_ROWS];
    size_t first[MAX_ROWS + 1];
    pc__kv_span spans[MAX_ROWS * MAX_SPANS];
    float *q;
} world;

static uint32_t below(pc_test_rng *rng, uint32_t n)
{
    return (uint32_t)(pc_test_bits(rng) % n);
}

static void make_run(world *w, pc_test_rng *rng, size_t i, size_t tokens, int holes)
{
    size_t kd = (size_t)(w->shape.kv_heads * w->shape.k_dim),
           vd = (size_t)(w->shape.kv_heads * w->shape.v_dim);
    int64_t at = 0;
    CHECK_OK(pc__kv_new(&w->run[i], &pc__libc_allocator, &w->shape, i % 2 ? tokens : 0));
    w->k[i] = malloc(tokens * kd * sizeof(float) + 4);
    w->v[i] = malloc(tokens * vd * sizeof(float) + 4);
    for (size_t t = 0; t < tokens; t++, at += holes && below(rng, 4) == 0 ? 1 + below(rng, 9) : 1) {
        for (size_t d = 0; d < kd; d++)
            w->k[i][t * kd + d] = pc_test_normal(rng);
        for (size_t d = 0; d < vd; d++)
            w->v[i][t * vd + d] = pc_test_normal(rng);
        CHECK_OK(pc__kv_append(w->run[i], &at, 1));
    }
    for (int32_t l = 0; l < w->shape.layers; l++)
        for (size_t t = 0; t < tokens; t++) {
            pc__kv_write(w->run[i], l, t, w->k[i] + t * kd, w->v[i] + t * vd);
            pc__kv_read(w->run[i], l, t, w->k[i] + t * kd,
                        w->v[i] + t * vd); /* what was rounded counts */
        }
}

static void make_rows(world *w, pc_test_rng *rng)
{
    size_t n = 0;
    w->rows = 1 + below(rng, MAX_ROWS);
    for (size_t r = 0; r < w->rows; r++) {
        size_t spans = below(rng, MAX_SPANS + 1);
        w->position[r] = below(rng, 5000);
        w->first[r] = n;
        for (size_t s = 0; s < spans; s++) {
            pc__kv *run = w->run[(r + s) % RUNS];
            uint32_t lo = below(rng, (uint32_t)run->tokens + 1),
                     hi = lo + below(rng, (uint32_t)(run->tokens - lo) + 1);
            w->spans[n++] = (pc__kv_span){run, (int64_t)below(rng, 6000) - 500, lo, hi};
        }
    }
    w->first[w->rows] = n;
    w->q = malloc(w->rows * (size_t)(w->heads * w->shape.k_dim) * sizeof(float));
    for (size_t i = 0; i < w->rows * (size_t)(w->heads * w->shape.k_dim); i++)
        w->q[i] = 2.0f * pc_test_normal(rng);
}

static size_t run_index(const world *w, const pc__kv *run)
{
    size_t i = 0;
    while (w->run[i] != run)
        i++;
    return i;
}

/* q rotated by a distance, in double */
static void turn(const world *w, const float *q, int64_t distance, double *out)
{
    int32_t half = w->rope.dims / 2;
    for (int32_t d = 0; d < w->shape.k_dim; d++)
        out[d] = (double)q[d];
    for (int32_t i = 0; w->use_rope && i < half; i++) {
        int32_t a = w->rope.interleaved ? 2 * i : i, b = w->rope.interleaved ? a + 1 : i + half;
        double c = cos((double)distance * w->frequency[i]),
               s = sin((double)distance * w->frequency[i]);
        out[a] = (double)q[a] * c - (double)q[b] * s;
        out[b] = (double)q[a] * s + (double)q[b] * c;
    }
}

static double score_of(const world *w, const double *q, size_t run, size_t t, int32_t head,
                       int64_t distance, float scale)
{
    int32_t kv_head = head / (w->heads / w->shape.kv_heads);
    const float *k = w->k[run] + ((int32_t)t * w->shape.kv_heads + kv_head) * w->shape.k_dim;
    double s = 0.0;
    for (int32_t d = 0; d < w->shape.k_dim; d++)
        s += q[d] * (double)k[d];
    s *= (double)scale;
    if (w->cap != 0.0f)
        s = (double)w->cap * tanh(s / (double)w->cap);
    return w->use_alibi ? s - (double)w->slopes[head] * (double)distance : s;
}

static int64_t chunk_of(const world *w, int64_t position)
{
    return (int64_t)floor((double)position / (double)w->chunk);
}

static void naive_row(const world *w, size_t r, int32_t head, float scale, double *out, double *lse)
{
    double top = w->use_sinks ? (double)w->sinks[head] : -INFINITY, sum = 0.0, q[256];
    memset(out, 0, (size_t)w->shape.v_dim * sizeof *out);
    for (int pass = 0; pass < 2; pass++)
        for (size_t i = w->first[r]; i < w->first[r + 1]; i++) {
            const pc__kv_span *s = &w->spans[i];
            size_t run = run_index(w, s->kv);
            turn(w, w->q + ((int32_t)r * w->heads + head) * w->shape.k_dim,
                 w->position[r] - s->start, q);
            for (size_t t = s->lo; t < s->hi; t++) {
                int64_t distance = w->position[r] - s->start - pc__kv_relative(s->kv, t);
                double x = score_of(w, q, run, t, head, distance, scale);
                const float *v = w->v[run]
                                 + ((int32_t)t * w->shape.kv_heads
                                    + head / (w->heads / w->shape.kv_heads))
                                       * w->shape.v_dim;
                if ((w->window && distance >= w->window)
                    || (w->chunk
                        && chunk_of(w, w->position[r] - distance) != chunk_of(w, w->position[r])))
                    continue;
                top = pass ? top : fmax(top, x);
                sum += pass ? exp(x - top) : 0.0;
                for (int32_t d = 0; pass && d < w->shape.v_dim; d++)
                    out[d] += exp(x - top) * (double)v[d];
            }
        }
    sum += w->use_sinks ? exp((double)w->sinks[head] - top) : 0.0;
    for (int32_t d = 0; sum > 0.0 && d < w->shape.v_dim; d++)
        out[d] /= sum;
    *lse = sum > 0.0 ? top + log(sum) : -INFINITY;
}

static pc__attn_layer layer_of(const world *w)
{
    pc__attn_layer layer = {.layer = 1,
                            .heads = w->heads,
                            .window = w->window,
                            .chunk = w->chunk,
                            .soft_cap = w->cap,
                            .scale = 1.0f / sqrtf((float)w->shape.k_dim)};
    layer.slopes = w->use_alibi ? w->slopes : NULL;
    layer.sinks = w->use_sinks ? w->sinks : NULL;
    layer.rope = w->use_rope ? &w->rope : NULL;
    return layer;
}

/* Distance as the longest of a row's vectors goes; reports the worst over all rows. */
static double worst(const world *w, const float *out, const float *lse)
{
    double top = 0.0;
    for (size_t r = 0; r < w->rows; r++)
        for (int32_t h = 0; h < w->heads; h++) {
            double want[256], want_lse;
            naive_row(w, r, h, 1.0f / sqrtf((float)w->shape.k_dim), want, &want_lse);
            for (int32_t d = 0; d < w->shape.v_dim; d++)
                top = fmax(
                    top,
                    fabs(want[d] - (double)out[((int32_t)r * w->heads + h) * w->shape.v_dim + d]));
            if (want_lse == -INFINITY)
                CHECK((double)lse[(int32_t)r * w->heads + h] == -INFINITY);
            else
                top = fmax(top, fabs(want_lse - (double)lse[(int32_t)r * w->heads + h])
                                    / fmax(1.0, fabs(want_lse)));
        }
    return top;
}

static void attend(pc_context *context, const world *w, size_t first, size_t count, float *out,
                   float *lse)
{
    pc__rows rows = {count, w->position + first, w->first + first, w->spans, 0};
    pc__attn_layer layer = layer_of(w);
    size_t shifted[MAX_ROWS + 1], vectors = (size_t)w->heads;
    pc__row_plan *plan;
    for (size_t i = 0; i <= count; i++)
        shifted[i] = w->first[first + i] - w->first[first];
    rows.first = shifted;
    rows.spans = w->spans + w->first[first];
    memset(out, 0xA5, count * vectors * (size_t)w->shape.v_dim * sizeof *out);
    if (CHECK_OK(
            pc__row_plan_new(&plan, context, &pc__cpu_plan_limits, &rows, &w->shape, w->heads)))
        CHECK_OK(pc__plan_attend(plan, &layer, w->q + first * vectors * (size_t)w->shape.k_dim, out,
                                 lse));
    pc__row_plan_free(plan);
}

/* Values that are the last channels of K, in every third world. */
static void make_latent(pc__kv_shape *shape, uint64_t seed)
{
    shape->latent = seed % 3 == 0;
    if (shape->latent && shape->v_dim > shape->k_dim)
        shape->v_dim = shape->k_dim;
}

/* Chunks in every fourth world, sinks in every fifth: small ones, and one that takes nearly all. */
static void make_chunks_and_sinks(world *w, uint64_t seed)
{
    w->chunk = seed % 4 == 1 ? 1 + (int64_t)(seed * 2654435761u % 1500) : 0;
    w->use_sinks = seed % 5 == 2;
    for (int i = 0; i < 64; i++)
        w->sinks[i] = i % 7 == 3 ? 30.0f : 0.5f * (float)(i % 5) - 1.0f;
}

static void make_world(world *w, pc_test_rng *rng, uint32_t dtype)
{
    static const int32_t dims[] = {8, 15, 16, 33, 64, 80, 128};
    uint64_t seed = rng->state;
    memset(w, 0, sizeof *w);
    w->shape = (pc__kv_shape){
        2, 1 + (int32_t)below(rng, 3), dims[below(rng, 7)], dims[below(rng, 7)], dtype, 0};
    make_latent(&w->shape, seed);
    make_chunks_and_sinks(w, seed);
    w->heads = w->shape.kv_heads * (1 + (int32_t)below(rng, 4));
    w->use_rope = below(rng, 3) > 0;
    w->use_alibi = below(rng, 3) == 0;
    w->window = below(rng, 3) ? 0 : 1 + below(rng, 3000);
    w->cap = below(rng, 4) ? 0.0f : 5.0f;
    w->rope = (pc__rotation){w->shape.k_dim / 4 * 2, (int32_t)below(rng, 2), 1.0f, w->frequency};
    for (int i = 0; i < 64; i++) {
        w->frequency[i] = pow(10000.0, -i / 32.0);
        w->slopes[i] = 0.01f * (float)(i % 5);
    }
    for (size_t i = 0; i < RUNS; i++)
        make_run(w, rng, i, i == 0 ? 0 : i == 1 ? 2500 : 1 + below(rng, 200), i == 3);
    make_rows(w, rng);
}

static void free_world(world *w)
{
    for (size_t i = 0; i < RUNS; i++) {
        pc__kv_unref(w->run[i]);
        free(w->k[i]);
        free(w->v[i]);
    }
    free(w->q);
}

static void compare(pc_context *one, pc_context *two, uint64_t seed, uint32_t dtype)
{
    pc_test_rng rng = {seed};
    world w;
    make_world(&w, &rng, dtype);
    size_t vectors = (size_t)w.heads, floats = w.rows * vectors * (size_t)w.shape.v_dim;
    float *a = malloc(floats * 4), *b = malloc(floats * 4), *la = malloc(w.rows * vectors * 4),
          *lb = malloc(w.rows * vectors * 4);
    double error;
    attend(one, &w, 0, w.rows, a, la);
    error = worst(&w, a, la);
    if (!CHECK(error <= (dtype == PC_DTYPE_F32 ? 5e-5 : 4e-2)))
        fprintf(stderr, "    seed %llu dtype %u: error %g\n", (unsigned long long)seed, dtype,
                error);
    attend(two, &w, 0, w.rows, b, lb);
    CHECK(!memcmp(a, b, floats * 4) && !memcmp(la, lb, w.rows * vectors * 4));
    size_t part = w.rows / 2; /* the second half alone */
    attend(two, &w, part, w.rows - part, b, lb);
    CHECK(!memcmp(a + part * vectors * (size_t)w.shape.v_dim, b,
                  (w.rows - part) * vectors * (size_t)w.shape.v_dim * 4));
    CHECK(!memcmp(la + part * vectors, lb, (w.rows - part) * vectors * 4));
    free(a), free(b), free(la), free(lb);
    free_world(&w);
}

static void check_map(pc_context *context)
{
    pc_test_rng rng = {99};
    world w;
    pc__row_plan *plan;
    make_world(&w, &rng, PC_DTYPE_F32);
    pc__rows rows = {w.rows, w.position, w.first, w.spans, 0};
    pc__attn_layer layer = layer_of(&w);
    float *out = malloc(w.rows * (size_t)(w.heads * w.shape.v_dim) * 4),
          *lse = malloc(w.rows * (size_t)w.heads * 4);
    CHECK_OK(pc__row_plan_new(&plan, context, &pc__cpu_plan_limits, &rows, &w.shape, w.heads));
    CHECK_OK(pc__plan_attend(plan, &layer, w.q, out, lse));
    for (size_t r = 0; r < w.rows; r++) {
        size_t keys = 0;
        for (size_t i = w.first[r]; i < w.first[r + 1]; i++)
            keys += w.spans[i].kv->tokens;
        float *map = malloc(keys * (size_t)w.heads * 4 + 4);
        CHECK_OK(pc__plan_map(plan, &layer, w.q, r, lse, map));
        for (size_t h = 0; h < (size_t)w.heads; h++) {
            double sum = 0.0;
            for (size_t t = 0; t < keys; t++)
                sum += (double)map[h * keys + t];
            CHECK(isinf(lse[r * (size_t)w.heads + h]) ? sum == 0.0 : fabs(sum - 1.0) < 1e-4);
        }
        free(map);
    }
    pc__row_plan_free(plan);
    free(out), free(lse);
    free_world(&w);
}

static void fail_everywhere(void)
{
    pc_test_rng rng = {5};
    world w;
    make_world(&w, &rng, PC_DTYPE_F32);
    pc__rows rows = {w.rows, w.position, w.first, w.spans, 0};
    for (uint64_t at = 1;; at++) {
        pc_test_memory memory = {.fail_at = at};
        pc_allocator allocator = pc_test_allocator(&memory);
        pc_context_options options = PC_CONTEXT_OPTIONS_INIT;
        pc_context *context;
        pc__row_plan *plan = NULL;
        options.allocator = &allocator;
        options.threads = 1;
        if (pc_context_new(&context, &options) == PC_OK) {
            pc_status status = pc__row_plan_new(&plan, context, &pc__cpu_plan_limits, &rows,
                                                &w.shape, w.heads);
            CHECK(status == PC_OK || (status == PC_ERR_NOMEM && !plan));
            pc__row_plan_free(plan);
        }
        pc_context_free(context);
        CHECK_INT(memory.live_blocks, 0);
        if (memory.calls < at)
            break;
    }
    free_world(&w);
}

/* Chunks of one section, which parts of several spans share when they fit together; room for
 * as many states as the longest row has; angles of what is seen only. */
static void chunks(pc_context *context)
{
    enum { SECTION = 1024, LONG = 2 * SECTION + 452, ROWS = 5 };
    static const size_t want[ROWS] = {3, 1, 1, 2, 0};
    const pc__kv_shape shape = {1, 1, 8, 8, PC_DTYPE_F32, 0};
    const int64_t positions[ROWS] = {9000, 9000, 9000, 9000, 9000};
    const size_t first[ROWS + 1] = {0, 1, 2, 4, 6, 7};
    world w = {.shape = shape};
    pc_test_rng rng = {1};
    pc__row_plan *plan = NULL;
    make_run(&w, &rng, 0, LONG, 0);
    make_run(&w, &rng, 1, 40, 0);
    const pc__kv_span spans[7] = {{.kv = w.run[0], .hi = LONG},
                                  {.kv = w.run[0], .hi = SECTION},
                                  {.kv = w.run[0], .hi = SECTION - 24},
                                  {.kv = w.run[1], .hi = 24},
                                  {.kv = w.run[0], .hi = SECTION - 24},
                                  {.kv = w.run[1], .hi = 25},
                                  {.kv = w.run[1], .start = 77, .lo = 5, .hi = 5}};
    pc__rows rows = {ROWS, positions, first, spans, 0};
    if (CHECK_OK(pc__row_plan_new(&plan, context, &pc__cpu_plan_limits, &rows, &shape, 1))) {
        for (size_t r = 0; r < ROWS; r++)
            CHECK_INT(plan->slot_first[r + 1] - plan->slot_first[r], want[r]);
        CHECK_INT(plan->most_slots, 3);
        CHECK_INT(plan->distance_count, 1);
    }
    pc__row_plan_free(plan);
    for (size_t i = 0; i < 2; i++) {
        pc__kv_unref(w.run[i]);
        free(w.k[i]);
        free(w.v[i]);
    }
}

/* A decoding step over latents, at the sizes of DeepSeek-V2-Lite: 32 rows of 16 heads over 4096
 * shared tokens read each page once, so as many bytes as the latents have. */
static void latents_read_once(pc_context *context)
{
    enum { STEP = 32, SHARED = 4096 };
    const pc__kv_shape shape = {1, 1, 576, 512, PC_DTYPE_BF16, 1};
    int64_t positions[STEP];
    size_t first[STEP + 1] = {0}, read = 0, bytes = 0;
    pc__kv_span spans[STEP];
    pc__kv *kv = NULL;
    pc__row_plan *plan = NULL;
    if (!CHECK_OK(pc__kv_new_unset(&kv, &pc__libc_allocator, &shape, SHARED, NULL)))
        return;
    for (size_t r = 0; r < STEP; r++) {
        positions[r] = SHARED;
        spans[r] = (pc__kv_span){kv, 0, 0, SHARED};
        first[r + 1] = r + 1;
    }
    pc__rows rows = {STEP, positions, first, spans, 0};
    if (CHECK_OK(pc__row_plan_new(&plan, context, &pc__cpu_plan_limits, &rows, &shape, 16)))
        for (size_t c = 0; c < plan->call_count; c++) {
            const pc__plan_pair *pair = &plan->pairs[plan->calls[c].first];
            read += pair->hi - pair->lo;
        }
    bytes = read / PC__PAGE * pc__kv_page_bytes(&shape);
    CHECK_INT(bytes, SHARED * 576 * 2);
    pc__row_plan_free(plan);
    pc__kv_unref(kv);
}

int main(void)
{
    pc_context_options options = PC_CONTEXT_OPTIONS_INIT;
    pc_context *one, *two;
    options.threads = 1;
    CHECK_OK(pc_context_new(&one, &options));
    options.threads = 3;
    CHECK_OK(pc_context_new(&two, &options));
    for (uint64_t seed = 1; seed <= 25; seed++) {
        compare(one, two, seed, PC_DTYPE_F32);
        compare(one, two, seed, PC_DTYPE_BF16);
    }
    check_map(two);
    latents_read_once(one);
    chunks(one);
    fail_everywhere();
    pc_context_free(one);
    pc_context_free(two);
    return pc_test_end();
}
