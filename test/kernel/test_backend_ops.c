/* Catches: a norm that adds to its rows first and has other bits than a sum and then its norm,
 * leaves x without the sum, or reads the addend after its result has overwritten it; keys that are
 * rotated on their way into pages by other positions or another RoPE, from another row on where
 * runs have several formats, twice, or not at all; K or V that a write of the other one changes;
 * lists that are used after the call. On the backend of PC_BACKEND. */
#include <stdlib.h>
#include <string.h>

#include "attn/backend.h"
#include "attn/kv_device.h"
#include "testing.h"

static pc_context *context;
static pc__backend *backend;
static pc_test_rng rng = {11};

static float *random_floats(size_t count)
{
    float *x = malloc(count * sizeof *x);
    for (size_t i = 0; i < count; i++)
        x[i] = pc_test_normal(&rng);
    return x;
}

static pc__floats *on_backend(const float *values, size_t count)
{
    pc__floats *x = pc__backend_vector(backend, values, count);
    CHECK(x != NULL);
    return x;
}

static float *shown(const pc__floats *x, size_t count)
{
    float *values = malloc(count * sizeof *values);
    CHECK_OK(pc__backend_copy(backend, values, x, count * sizeof *values));
    return values;
}

/* ------------------------------------------------------------------- norms */

enum { ROWS = 7, VECTORS = 3 };
typedef enum place { APART, IN_X, IN_ADDEND } place;

typedef struct norm_case {
    size_t dim;
    int mean; /* layer norm */
    float scale;
    place y;
    pc__norm_weights weights;
    const float *x, *add;
} norm_case;

typedef struct normed {
    float *x, *y;
} normed;

static void norm(pc__stream *stream, const norm_case *c, pc__floats *x, const pc__addend *addend,
                 pc__floats *y)
{
    (c->mean ? stream->ops->layer_norm : stream->ops->rms_norm)(stream, x, addend, ROWS, c->dim,
                                                                &c->weights, y);
}

/* fused: one operation does both. */
static normed run_norm(const norm_case *c, int fused)
{
    size_t count = ROWS * c->dim;
    pc__floats *x = on_backend(c->x, count), *add = on_backend(c->add, count),
               *own = on_backend(c->add, count),
               *y = c->y == IN_X        ? x
                    : c->y == IN_ADDEND ? add
                                        : own;
    pc__stream *stream;
    CHECK_OK(backend->ops->stream_new(&stream, backend));
    pc__addend addend = {add, c->scale};
    if (fused) {
        norm(stream, c, x, &addend, y);
        memset(&addend, 0xff, sizeof addend);
    } else {
        stream->ops->pointwise(stream, PC__SCALE, c->scale, add, count);
        stream->ops->add(stream, x, add, count);
        norm(stream, c, x, NULL, y);
    }
    CHECK_OK(stream->ops->finish(stream));
    stream->ops->stream_free(stream);
    normed result = {shown(x, count), shown(y, count)};
    pc__floats *all[] = {x, add, own};
    for (int i = 0; i < 3; i++)
        backend->ops->give(backend, all[i]);
    return result;
}

static void one_norm(const norm_case *c)
{
    size_t count = ROWS * c->dim, wrong = 0;
    normed want = run_norm(c, 0), got = run_norm(c, 1);
    for (size_t i = 0; i < count && c->y != IN_X; i++) {
        volatile float more = c->add[i] * c->scale;
        wrong += got.x[i] != c->x[i] + more;
    }
    int same = !memcmp(got.y, want.y, count * sizeof(float)) && !wrong;
    if (!CHECK(same))
        fprintf(stderr, "    norm %d of %zu numbers, addend times %g, y in place %d: %zu sums\n",
                c->mean, c->dim, (double)c->scale, (int)c->y, wrong);
    free(want.x);
    free(want.y);
    free(got.x);
    free(got.y);
}

/* dim: a device has other kernels for short rows, and for rows that do not fit its registers. */
static void norms(size_t dim)
{
    float *gain = random_floats(VECTORS * dim), *bias = random_floats(VECTORS * dim),
          *x = random_floats(ROWS * dim), *add = random_floats(ROWS * dim);
    norm_case c = {.dim = dim, .x = x, .add = add, .weights = {.vectors = VECTORS, .eps = 1e-5f}};
    c.weights.gain = on_backend(gain, VECTORS * dim);
    c.weights.bias = on_backend(bias, VECTORS * dim);
    for (c.mean = 0; c.mean < 2; c.mean++)
        for (c.y = APART; c.y <= IN_ADDEND; c.y++)
            for (int scaled = 0; scaled < 2; scaled++) {
                c.scale = scaled ? 0.22f : 1.0f;
                one_norm(&c);
            }
    backend->ops->give(backend, (void *)(uintptr_t)c.weights.gain);
    backend->ops->give(backend, (void *)(uintptr_t)c.weights.bias);
    free(gain);
    free(bias);
    free(x);
    free(add);
}

/* ------------------------------------------------------------------- K and V */

enum {
    RUNS = 3,
    LAYERS = 2,
    KV_HEADS = 2,
    K_DIM = 20,
    V_DIM = 10,
    TOKENS = 150,
    STORED = 90,
    K_STRIDE = KV_HEADS * K_DIM + 4,
    V_STRIDE = KV_HEADS * V_DIM + 1
};

static pc__kv *make_run(int here, uint32_t dtype, int32_t layers)
{
    pc__kv_shape shape = {layers, KV_HEADS, K_DIM, V_DIM, dtype, 0};
    pc__kv *kv;
    if (here)
        CHECK_OK(pc__kv_new(&kv, &context->mem, &shape, 0));
    else
        CHECK_OK(pc__kv_new_at(&kv, backend, &shape, 0));
    for (int64_t i = 0; i < TOKENS; i++)
        CHECK_OK(pc__kv_append(kv, &i, 1));
    for (int l = 0; l < layers && here; l++) /* not all tokens are written */
        memset(kv->layer[l], 0, pc__kv_layer_bytes(&shape, TOKENS));
    return kv;
}

/* Rows that fill pages of one run in part, with some of other runs between them. */
static void choose_tokens(pc__kv *const *all, pc__kv **runs, size_t *slots, int64_t *positions)
{
    size_t next[RUNS] = {40, 3, 0};
    for (size_t r = 0; r < STORED; r++) {
        size_t run = r == 17 || r == 18 ? 1 : r > 60 ? 2 : 0;
        runs[r] = all[run];
        slots[r] = next[run]++;
        positions[r] = (int64_t)(r * r % 500) - 9;
    }
}

/* The same by pc__kv_write and pc__rope_rotate. */
static void write_here(const pc__kv_rows *rows, const float *k, const float *v)
{
    float cosine[K_DIM], sine[K_DIM], key[KV_HEADS * K_DIM];
    for (size_t r = 0; r < rows->rows; r++) {
        if (rows->k)
            memcpy(key, k + r * K_STRIDE, sizeof key);
        if (rows->k && rows->rope) {
            pc__rope_angles(rows->rope, rows->positions[r], cosine, sine);
            pc__rope_rotate(rows->rope, cosine, sine, key, KV_HEADS, K_DIM);
        }
        pc__kv_write(rows->runs[r], rows->layer, rows->slots[r], rows->k ? key : NULL,
                     rows->v ? v + r * V_STRIDE : NULL);
    }
}

/* Layer 0: K and V; layer 1: V, then K of other rows. What the lists hold is spoilt after the last
 * call. */
static void store(pc__kv *const *all, const pc__rotation *rope, const float *k, const float *v,
                  int here)
{
    pc__kv *runs[STORED];
    size_t slots[STORED];
    int64_t positions[STORED];
    pc__stream *stream;
    choose_tokens(all, runs, slots, positions);
    CHECK_OK(backend->ops->stream_new(&stream, backend));
    pc__kv_rows rows = {runs, slots, 0, STORED, NULL, NULL, K_STRIDE, V_STRIDE, rope, positions};
    for (int call = 0; call < 3; call++) {
        pc__floats *x = on_backend(k, STORED * K_STRIDE), *y = on_backend(v, STORED * V_STRIDE);
        rows.layer = call > 0;
        rows.k = call == 1 ? NULL : x;
        rows.v = call == 2 ? NULL : y;
        rows.rows = call ? 40 : STORED;
        rows.runs = runs + (call == 2 ? 5 : 0);
        rows.slots = slots + (call == 2 ? 5 : 0);
        if (here)
            write_here(&rows, k, v);
        else
            stream->ops->store_kv(stream, &rows);
        if (call == 2) {
            memset(runs, 0, sizeof runs);
            memset(slots, 0xff, sizeof slots);
            memset(positions, 0xff, sizeof positions);
        }
        CHECK_OK(stream->ops->finish(stream));
        backend->ops->give(backend, x);
        backend->ops->give(backend, y);
    }
    stream->ops->stream_free(stream);
}

/* Ends both. */
static void compare_runs(const char *name, pc__kv *want, pc__kv *got)
{
    pc__kv *host;
    CHECK_OK(pc__kv_to_host(&host, got));
    for (int l = 0; l < want->shape.layers; l++)
        if (!CHECK(
                !memcmp(host->layer[l], want->layer[l], pc__kv_layer_bytes(&want->shape, TOKENS))))
            fprintf(stderr, "    %s: layer %d of format %u\n", name, l, want->shape.dtype);
    pc__kv_unref(host);
    pc__kv_unref(want);
    pc__kv_unref(got);
}

static void storing(const char *name, const pc__rotation *rope)
{
    static const uint32_t dtypes[RUNS] = {PC_DTYPE_BF16, PC_DTYPE_F32, PC_DTYPE_F16};
    float *k = random_floats(STORED * K_STRIDE), *v = random_floats(STORED * V_STRIDE);
    pc__kv *want[RUNS], *got[RUNS];
    for (int i = 0; i < RUNS; i++) {
        want[i] = make_run(1, dtypes[i], LAYERS);
        got[i] = make_run(pc__host_sees(backend), dtypes[i], LAYERS);
    }
    store(want, rope, k, v, 1);
    store(got, rope, k, v, 0);
    for (int i = 0; i < RUNS; i++)
        compare_runs(name, want[i], got[i]);
    free(k);
    free(v);
}

/* Many layers of one pass: two RoPE objects that take turns, one whose values change, and more
 * lists of positions than a backend keeps. */
static void turns(void)
{
    enum { TURNS = 90, FEW = 20 };
    double frequency[] = {1, 0.5, 0.01, 0.3}, other[] = {0.7, 0.2, 0.3, 0.001};
    pc__rotation rope = {8, 0, 1.0f, frequency}, local = {6, 0, 1.0f, other};
    float *k = random_floats(FEW * K_STRIDE);
    pc__kv *want = make_run(1, PC_DTYPE_F32, TURNS),
           *got = make_run(pc__host_sees(backend), PC_DTYPE_F32, TURNS), *runs[2][FEW];
    pc__floats *x = on_backend(k, FEW * K_STRIDE);
    size_t slots[FEW];
    int64_t positions[FEW];
    pc__stream *stream;
    CHECK_OK(backend->ops->stream_new(&stream, backend));
    for (size_t r = 0; r < FEW; r++) {
        runs[0][r] = want;
        runs[1][r] = got;
        slots[r] = 60 + r;
    }
    for (int turn = 0; turn < TURNS; turn++) {
        for (size_t r = 0; r < FEW; r++)
            positions[r] = (int64_t)r + (turn < 40 ? 5 : turn);
        frequency[2] += turn == 10 ? 0.1 : 0;
        rope.factor = turn < 20 ? 1.0f : 1.1f;
        rope.interleaved = turn > 30;
        pc__kv_rows rows = {.runs = runs[0],
                            .slots = slots,
                            .layer = turn,
                            .rows = turn % 5 ? FEW : FEW - 3,
                            .k = x,
                            .k_stride = K_STRIDE,
                            .rope = turn % 3 ? &rope : &local,
                            .positions = positions};
        write_here(&rows, k, NULL);
        rows.runs = runs[1];
        stream->ops->copy(stream, x, k, FEW * K_STRIDE * sizeof *k);
        stream->ops->store_kv(stream, &rows);
    }
    CHECK_OK(stream->ops->finish(stream));
    stream->ops->stream_free(stream);
    backend->ops->give(backend, x);
    compare_runs("turns", want, got);
    free(k);
}

/* One call whose rows take turns between runs of two formats: more pieces of different shapes than
 * a backend keeps lists. */
static void alternating(const pc__rotation *rope)
{
    static const uint32_t dtypes[2] = {PC_DTYPE_BF16, PC_DTYPE_F32};
    float *k = random_floats(STORED * K_STRIDE);
    pc__floats *x = on_backend(k, STORED * K_STRIDE);
    pc__kv *want[2], *got[2], *runs[STORED];
    size_t slots[STORED];
    int64_t positions[STORED];
    pc__stream *stream;
    pc__kv_rows rows = {runs, slots, 0, STORED, x, NULL, K_STRIDE, 0, rope, positions};
    for (int i = 0; i < 2; i++) {
        want[i] = make_run(1, dtypes[i], 1);
        got[i] = make_run(pc__host_sees(backend), dtypes[i], 1);
    }
    for (size_t r = 0; r < STORED; r++) {
        runs[r] = want[r % 2];
        slots[r] = r;
        positions[r] = (int64_t)r * 3;
    }
    write_here(&rows, k, NULL);
    for (size_t r = 0; r < STORED; r++)
        runs[r] = got[r % 2];
    CHECK_OK(backend->ops->stream_new(&stream, backend));
    stream->ops->store_kv(stream, &rows);
    CHECK_OK(stream->ops->finish(stream));
    stream->ops->stream_free(stream);
    backend->ops->give(backend, x);
    for (int i = 0; i < 2; i++)
        compare_runs("alternating", want[i], got[i]);
    free(k);
}

static void rotations(void)
{
    double frequency[] = {1, 0.5, 0.01, 0.3, 0.001, 0.7, 0.02, 0.9};
    storing("no rotation", NULL);
    for (int32_t dims = 6; dims <= 16; dims += 10)
        for (int32_t interleaved = 0; interleaved < 2; interleaved++) {
            const pc__rotation rope = {dims, interleaved, 1.1f, frequency};
            storing(interleaved ? "pairs" : "halves", &rope);
            alternating(&rope);
        }
    turns();
}

int main(void)
{
    static const size_t dims[] = {5, 64, 1040, 9000};
    CHECK_OK(pc_context_new(&context, NULL));
    backend = pc__backend_of(context);
    for (size_t i = 0; i < sizeof dims / sizeof *dims; i++)
        norms(dims[i]);
    rotations();
    pc_context_free(context);
    return pc_test_end();
}
