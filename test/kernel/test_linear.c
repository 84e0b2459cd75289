/* Catches: a linear layer that is wrong in any implementation (our panels of every level, oneDNN at
 * every level of instructions), at sizes that no block divides; a row whose bits depend on the
 * other rows, on its place or on the threads; output written outside its rows; a choice that
 * ignores PC_LINEAR; leaks and crashes when an allocation fails; a changed number of threads of
 * OpenMP. Levels are chosen once per process, so every implementation runs in a child process. */
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#if defined(PC_HAVE_ONEDNN)
#include <omp.h>
#endif

#include "attn/half.h"
#include "attn/cpu/linear_internal.h"
#include "attn/kernels.h"
#include "counted_context.h"

enum { ROWS = 100, GUARD = 64 };

/* Without the plug-in module our own layers take its place. */
static int has_onednn(void)
{
#if defined(PC_HAVE_ONEDNN)
    return !getenv("PC_TEST_NO_MODULES");
#else
    return 0;
#endif
}

typedef struct way {
    const char *linear, *mask, *isa; /* PC_LINEAR, PC_CPU_MASK, DNNL_MAX_CPU_ISA; NULL: not set */
} way;

typedef struct layer {
    size_t in, out;
    uint32_t compute;
    float *w, *bias, *x; /* as given, not rounded */
    atomic_uint *given;  /* [out] how often a row of weights was asked for */
} layer;

static const char *dtype_name(uint32_t compute)
{
    return compute == PC_DTYPE_F32 ? "f32" : "bf16";
}

static void give_rows(void *user, size_t first, size_t count, float *rows)
{
    layer *l = user;
    memcpy(rows, l->w + first * l->in, count * l->in * sizeof *rows);
    for (size_t n = first; n < first + count; n++)
        atomic_fetch_add(&l->given[n], 1);
}

static layer make_layer(size_t in, size_t out, uint32_t compute)
{
    layer l = {in,
               out,
               compute,
               malloc(in * out * sizeof(float)),
               malloc(out * sizeof(float)),
               malloc(ROWS * in * sizeof(float)),
               calloc(out, sizeof(atomic_uint))};
    pc_test_rng rng = {in * 1000 + out + compute};
    for (size_t i = 0; i < in * out; i++)
        l.w[i] = pc_test_normal(&rng);
    for (size_t i = 0; i < out; i++)
        l.bias[i] = 10.0f * pc_test_normal(&rng);
    for (size_t r = 0; r < ROWS; r++) /* rows of very different size side by side */
        for (size_t i = 0; i < in; i++)
            l.x[r * in + i] = r == 7 ? 0.0f
                                     : pc_test_normal(&rng)
                                           * (r % 9 == 4   ? 1e15f
                                              : r % 9 == 5 ? 1e-15f
                                                           : 1.0f);
    return l;
}

static void free_layer(layer *l)
{
    free(l->w);
    free(l->bias);
    free(l->x);
    free(l->given);
}

static double rounded(const layer *l, float x)
{
    return (double)(l->compute == PC_DTYPE_F32 ? x : pc__bf16_to(pc__bf16_from(x)));
}

/* Runs with guard values around y and compares those afterwards. */
static void run(const pc__linear *linear, const layer *l, const float *x, size_t rows, float *y)
{
    size_t n = rows * l->out;
    uint32_t *block = malloc((n + 2 * GUARD) * sizeof *block);
    int intact = 1;
    for (size_t i = 0; i < n + 2 * GUARD; i++)
        block[i] = 0xdeadbeefu;
    CHECK_OK(pc__linear_run(linear, x, rows, (float *)(void *)(block + GUARD)));
    for (size_t i = 0; i < GUARD; i++)
        intact &= block[i] == 0xdeadbeefu && block[n + GUARD + i] == 0xdeadbeefu;
    CHECK(intact);
    memcpy(y, block + GUARD, n * sizeof *y);
    free(block);
}

/* The error of fp32 sums in any order: on random numbers the bound grows with the root of their
 * length. */
static void compare(const layer *l, const float *bias, const float *y)
{
    const double unit = 0x1p-24;
    double worst = 0.0;
    for (size_t r = 0; r < ROWS; r++)
        for (size_t n = 0; n < l->out; n++) {
            double sum = 0.0, size = 0.0;
            for (size_t i = 0; i < l->in; i++) {
                double term = rounded(l, l->x[r * l->in + i]) * rounded(l, l->w[n * l->in + i]);
                sum += term;
                size += fabs(term);
            }
            double shift = bias ? (double)bias[n] : 0.0;
            double limit = (4.0 * sqrt((double)l->in) + 4.0) * unit * size
                           + unit * fabs(sum + shift);
            double error = fabs((double)y[r * l->out + n] - (sum + shift));
            worst = fmax(worst, limit > 0.0 ? error / limit : error > 0.0 ? INFINITY : 0.0);
        }
    if (!CHECK(worst <= 1.0))
        fprintf(stderr, "    %s, %zu to %zu: %.2f of the limit\n", dtype_name(l->compute), l->in,
                l->out, worst);
}

static int same_bits(const float *a, const float *b, size_t count)
{
    return !memcmp(a, b, count * sizeof *a);
}

/* Rows alone, in groups, and at other places among neighbours that are NaN. */
static void rows_stand_alone(const pc__linear *linear, const layer *l, const float *want)
{
    static const size_t groups[] = {2, 15, 33, 64}, places[] = {0, 1, 50, 97, ROWS - 1};
    float *y = malloc(ROWS * l->out * sizeof *y), *x = malloc(ROWS * l->in * sizeof *x);
    for (size_t r = 0; r < ROWS; r += r % 31 == 3 ? 1 : 7) {
        run(linear, l, l->x + r * l->in, 1, y);
        CHECK(same_bits(y, want + r * l->out, l->out));
    }
    for (size_t g = 0; g < sizeof groups / sizeof *groups; g++)
        for (size_t r = g; r + groups[g] <= ROWS; r += 29) {
            run(linear, l, l->x + r * l->in, groups[g], y);
            CHECK(same_bits(y, want + r * l->out, groups[g] * l->out));
        }
    for (size_t p = 0; p < sizeof places / sizeof *places; p++) {
        for (size_t i = 0; i < ROWS * l->in; i++)
            x[i] = i % 3 ? NAN : INFINITY;
        memcpy(x + places[p] * l->in, l->x + 3 * l->in, l->in * sizeof *x);
        run(linear, l, x, ROWS, y);
        CHECK(same_bits(y + places[p] * l->out, want + 3 * l->out, l->out));
    }
    free(y);
    free(x);
}

/* An application's own loop: backwards, in one thread. */
static void backwards(void *user, size_t n, void (*body)(void *arg, size_t i), void *arg)
{
    ++*(int *)user;
    while (n--)
        body(arg, n);
}

static pc_context *context_of(uint32_t threads, int *loops)
{
    pc_context_options options = PC_CONTEXT_OPTIONS_INIT;
    pc_context *context = NULL;
    options.threads = threads;
    options.parallel_for = loops ? backwards : NULL;
    options.parallel_user = loops;
    CHECK_OK(pc_context_new(&context, &options));
    return context;
}

static void other_threads(const layer *l, const float *bias, uint32_t threads, int *loops,
                          const float *want)
{
    static const size_t rows[] = {1, 33, ROWS};
    pc_context *context = context_of(threads, loops);
    pc__weight_source from = {.user = (void *)l, .rows = give_rows};
    pc__linear *linear = NULL;
    float *y = malloc(ROWS * l->out * sizeof *y);
    CHECK_OK(pc__linear_new(&linear, context, l->out, l->in, l->compute, &from, bias));
    for (size_t i = 0; linear && i < sizeof rows / sizeof *rows; i++) {
        run(linear, l, l->x, rows[i], y);
        CHECK(same_bits(y, want, rows[i] * l->out));
    }
    free(y);
    pc__linear_free(linear);
    pc_context_free(context);
}

typedef struct caller {
    const pc__linear *linear;
    const layer *l;
    const float *want;
    size_t first, rows;
    int same;
} caller;

static void *call(void *arg)
{
    caller *c = arg;
    float *y = malloc(c->rows * c->l->out * sizeof *y);
    c->same = 1;
    for (int i = 0; i < 20; i++)
        c->same &= pc__linear_run(c->linear, c->l->x + c->first * c->l->in, c->rows, y) == PC_OK
                   && same_bits(y, c->want + c->first * c->l->out, c->rows * c->l->out);
    free(y);
    return NULL;
}

/* One layer, run by several threads at the same time. */
static void together(const pc__linear *linear, const layer *l, const float *want)
{
    caller callers[3] = {
        {linear, l, want, 0, 40, 0}, {linear, l, want, 33, 1, 0}, {linear, l, want, 5, 70, 0}};
    pthread_t threads[3];
    for (int i = 0; i < 3; i++)
        pthread_create(&threads[i], NULL, call, &callers[i]);
    for (int i = 0; i < 3; i++) {
        pthread_join(threads[i], NULL);
        CHECK(callers[i].same);
    }
}

static void one_layer(pc_context *context, size_t in, size_t out, uint32_t compute)
{
    layer l = make_layer(in, out, compute);
    const float *bias = (in + out) % 2 ? l.bias : NULL;
    pc__weight_source from = {.user = &l, .rows = give_rows};
    pc__linear *linear = NULL;
    float *y = malloc(ROWS * out * sizeof *y), none = 3.0f;
    int loops = 0, once = 1;
    if (CHECK_OK(pc__linear_new(&linear, context, out, in, compute, &from, bias))) {
        for (size_t n = 0; n < out; n++)
            once &= l.given[n] == 1;
        CHECK(once);
        CHECK(pc__linear_bytes(linear)
              >= in * out * (compute == PC_DTYPE_F32 ? 4 : 2) + (bias ? out * 4 : 0));
        CHECK_OK(pc__linear_run(linear, l.x, 0, &none));
        CHECK(none == 3.0f);
        run(linear, &l, l.x, ROWS, y);
        compare(&l, bias, y);
        rows_stand_alone(linear, &l, y);
        if (in == 33)
            together(linear, &l, y);
        other_threads(&l, bias, 3, NULL, y);
        other_threads(&l, bias, 3, &loops, y);
        CHECK(loops > 0);
    }
    pc__linear_free(linear);
    free(y);
    free_layer(&l);
}

/* Layers of two formats that take the same inputs, at once and one by one. */
static void side_by_side(pc_context *context)
{
    static const uint32_t computes[] = {PC_DTYPE_BF16, PC_DTYPE_F32, PC_DTYPE_BF16};
    static const size_t outs[] = {70, 33, 1};
    enum { COUNT = 3, IN = 50, AT = 9 };
    layer l[COUNT];
    pc__linear *linear[COUNT] = {NULL};
    float *together[COUNT], *alone[COUNT];
    for (int i = 0; i < COUNT; i++) {
        l[i] = make_layer(IN, outs[i], computes[i]);
        pc__weight_source from = {.user = &l[i], .rows = give_rows};
        CHECK_OK(pc__linear_new(&linear[i], context, outs[i], IN, computes[i], &from, l[i].bias));
        together[i] = malloc(AT * outs[i] * sizeof(float));
        alone[i] = malloc(AT * outs[i] * sizeof(float));
    }
    CHECK_OK(pc__linear_run_all((const pc__linear *const *)linear, COUNT, l[0].x, AT, together));
    for (int i = 0; i < COUNT; i++) {
        CHECK_OK(pc__linear_run(linear[i], l[0].x, AT, alone[i]));
        CHECK(same_bits(together[i], alone[i], AT * outs[i]));
    }
    for (int i = 0; i < COUNT; i++) {
        pc__linear_free(linear[i]);
        free(together[i]);
        free(alone[i]);
        free_layer(&l[i]);
    }
}

/* Many parts: rows picked out of order, rows from the middle, no rows, of layers of two formats and
 * two sizes; each gives what it gives alone. */
static void in_parts(pc_context *context)
{
    static const uint32_t computes[] = {PC_DTYPE_BF16, PC_DTYPE_F32},
                          picked[] = {8, 3, 3, 0, 7, 11, 1, 2, 2, 5};
    static const size_t outs[] = {70, 33};
    enum { KINDS = 2, IN = 50, JOBS = 14, PICKED = 10 };
    layer l[KINDS];
    pc__linear *linear[KINDS] = {NULL};
    float *want[KINDS], *y[JOBS];
    pc__linear_job jobs[JOBS];
    for (int i = 0; i < KINDS; i++) {
        l[i] = make_layer(IN, outs[i], computes[i]);
        pc__weight_source from = {.user = &l[i], .rows = give_rows};
        CHECK_OK(pc__linear_new(&linear[i], context, outs[i], IN, computes[i], &from, l[i].bias));
        want[i] = malloc(ROWS * outs[i] * sizeof(float));
        CHECK_OK(pc__linear_run(linear[i], l[0].x, ROWS, want[i]));
    }
    for (size_t i = 0; i < JOBS; i++) {
        size_t of = i / 2 % KINDS, count = i % 5;
        y[i] = malloc(5 * outs[of] * sizeof(float));
        jobs[i] = i < JOBS / 2
                      ? (pc__linear_job){linear[of], l[0].x, picked, PICKED, i % 6, count, y[i]}
                      : (pc__linear_job){linear[of], l[0].x, NULL, ROWS, 3 * i, count, y[i]};
    }
    CHECK_OK(pc__linear_run_jobs(jobs, 0));
    CHECK_OK(pc__linear_run_jobs(jobs, JOBS));
    for (size_t i = 0; i < JOBS; i++)
        for (size_t r = 0; r < jobs[i].count; r++) {
            size_t of = i / 2 % KINDS,
                   row = jobs[i].row ? picked[jobs[i].first + r] : jobs[i].first + r;
            CHECK(same_bits(y[i] + r * outs[of], want[of] + row * outs[of], outs[of]));
        }
    for (size_t i = 0; i < JOBS; i++)
        free(y[i]);
    for (int i = 0; i < KINDS; i++) {
        pc__linear_free(linear[i]);
        free(want[i]);
        free_layer(&l[i]);
    }
}

/* Weights that are moved together give the same results and sizes as before; a second time there is
 * nothing to move. If there is no memory for it, all stays as it was. */
static void joined(void)
{
    enum { LAYERS = 4, IN = 700, OUT = 1000, AT = 3 };
    layer l = make_layer(IN, OUT, PC_DTYPE_F32);
    pc__weight_source from = {.user = &l, .rows = give_rows};
    pc__linear *linear[LAYERS] = {NULL};
    float *y[2] = {malloc(AT * OUT * sizeof(float)), malloc(AT * OUT * sizeof(float))};
    pc_test_memory memory = {0};
    pc_allocator mem = pc_test_allocator(&memory);
    pc_context_options options = PC_CONTEXT_OPTIONS_INIT;
    pc_context *context = NULL;
    options.allocator = &mem;
    options.threads = 2;
    CHECK_OK(pc_context_new(&context, &options));
    void *block = NULL, *again = context;
    for (int i = 0; i < LAYERS - 1; i++) /* the last one is NaN */
        CHECK_OK(pc__linear_new(&linear[i], context, OUT, IN, i ? PC_DTYPE_F32 : PC_DTYPE_BF16,
                                &from, l.bias));
    size_t bytes = pc__linear_bytes(linear[1]);
    CHECK_OK(pc__linear_run(linear[1], l.x, AT, y[0]));
    int own = linear[1]->ops == &pc__linear_panels;
    block = context;
    memory.fail_at = memory.calls + 1;
    CHECK_STATUS(pc__linear_join(context, linear, LAYERS, &block), own ? PC_ERR_NOMEM : PC_OK);
    memory.fail_at = 0;
    CHECK(!block);
    CHECK_OK(pc__linear_run(linear[1], l.x, AT, y[1]));
    CHECK(same_bits(y[0], y[1], AT * OUT));
    CHECK_OK(pc__linear_join(context, linear, LAYERS, &block));
    CHECK((block != NULL) == own);
    CHECK_OK(pc__linear_join(context, linear, LAYERS, &again));
    CHECK(!again);
    for (int i = 1; i < LAYERS - 1; i++) {
        CHECK_OK(pc__linear_run(linear[i], l.x, AT, y[1]));
        CHECK(same_bits(y[0], y[1], AT * OUT));
    }
    CHECK_INT(pc__linear_bytes(linear[1]), bytes);
    for (int i = 0; i < LAYERS; i++)
        pc__linear_free(linear[i]);
    pc__free(&context->mem, block);
    pc_context_free(context);
    CHECK_INT(memory.live_blocks, 0);
    free(y[0]);
    free(y[1]);
    free_layer(&l);
}

static pc_status new_and_run(pc_context *context, layer *l, float *y)
{
    pc__weight_source from = {.user = l, .rows = give_rows};
    pc__linear *linear = (pc__linear *)(void *)y; /* must be cleared by a failure */
    pc_status status = pc__linear_new(&linear, context, l->out, l->in, l->compute, &from, l->bias);
    if (status < 0)
        CHECK(linear == NULL);
    else
        status = pc__linear_run(linear, l->x, 33, y);
    pc__linear_free(linear);
    return status;
}

static void out_of_memory(uint32_t compute)
{
    layer l = make_layer(35, 70, compute);
    float *want = malloc(33 * l.out * sizeof *want), *y = malloc(33 * l.out * sizeof *y);
    pc_status status = PC_ERR_NOMEM;
    for (uint64_t at = 0; status == PC_ERR_NOMEM && at < 100; at++) {
        pc_test_memory memory = {0};
        pc_context *context = pc_test_counted_context(&memory, 1);
        memory.fail_at = at ? memory.calls + at : 0;
        status = new_and_run(context, &l, at ? y : want);
        if (!at) {
            CHECK_OK(status);
            status = PC_ERR_NOMEM; /* now with failures */
        } else if (status >= 0) {
            CHECK(at > 4); /* the body, the weights, what packs them, the bias */
            CHECK(same_bits(y, want, 33 * l.out));
        } else {
            CHECK_ERROR_HAS("linear layer of 35 to 70 features: out of memory");
        }
        pc_context_free(context);
        CHECK_INT(memory.live_blocks, 0);
    }
    CHECK_OK(status);
    free(want);
    free(y);
    free_layer(&l);
}

/* Which implementation a layer gets; NULL: refused, which only a demand for oneDNN may be. */
static const char *way_of(pc_context *context, const way *w, uint32_t compute)
{
    layer l = make_layer(5, 3, compute);
    pc__weight_source from = {.user = &l, .rows = give_rows};
    pc__linear *linear = NULL;
    const char *name = NULL;
    pc_status status = pc__linear_new(&linear, context, l.out, l.in, compute, &from, NULL);
    if (status == PC_ERR_UNSUPPORTED && w->linear && !strcmp(w->linear, "onednn")) {
        CHECK_ERROR_HAS("linear layer of 5 to 3 features: oneDNN: ");
    } else if (CHECK_OK(status)) {
        name = linear->ops == &pc__linear_panels ? "own" : "onednn";
        if (w->linear)
            CHECK_STR(name, has_onednn() ? w->linear : "own");
    }
    pc__linear_free(linear);
    free_layer(&l);
    return name;
}

static int run_way(const way *w)
{
    static const size_t ins[] = {1, 2, 31, 33, 2049}, outs[] = {1, 31, 32, 33, 100};
    pc_context *context = context_of(1, NULL);
#if defined(PC_HAVE_ONEDNN)
    omp_set_num_threads(5);
#endif
    for (int d = 0; d < 2; d++) {
        uint32_t compute = d ? PC_DTYPE_BF16 : PC_DTYPE_F32;
        const char *name = way_of(context, w, compute);
        printf("PC_LINEAR=%s PC_CPU_MASK=%s DNNL_MAX_CPU_ISA=%s %s: %s\n",
               w->linear ? w->linear : "", w->mask ? w->mask : "", w->isa ? w->isa : "",
               dtype_name(compute), name ? name : pc_error_text());
        for (size_t i = 0; name && i < 5; i++)
            for (size_t o = 0; o < 5; o++)
                one_layer(context, ins[i], outs[o], compute);
        if (name)
            out_of_memory(compute);
        if (name && d) {
            side_by_side(context);
            in_parts(context);
            joined();
        }
    }
#if defined(PC_HAVE_ONEDNN)
    CHECK_INT(omp_get_max_threads(), 5);
#endif
    pc_context_free(context);
    return pc_test_end();
}

static void set(const char *name, const char *value)
{
    if (value)
        setenv(name, value, 1);
    else
        unsetenv(name);
}

static void in_a_child(const way *w)
{
    int status = -1;
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        set("PC_LINEAR", w->linear);
        set("PC_CPU_MASK", w->mask);
        set("DNNL_MAX_CPU_ISA", w->isa);
        exit(run_way(w));
    }
    CHECK(child > 0 && waitpid(child, &status, 0) == child);
    CHECK_INT(status, 0);
}

int main(void)
{
    static const way ways[] = {
        {NULL, NULL, NULL},
        {NULL, "c", NULL},
        {"own", "c", NULL},
        {"own", "avx512", NULL},
        {"own", "avx512bf16", NULL},
#if defined(PC_HAVE_ONEDNN)
        {"onednn", NULL, "ALL"},
        {"onednn", NULL, "AVX512_CORE_BF16"},
        {"onednn", NULL, "AVX512_CORE"},
        {"onednn", NULL, "AVX2"},
        {"onednn", NULL, "AVX"},
        {"onednn", NULL, "SSE41"},
#endif
    };
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++)
        if ((!ways[i].mask || pc__kernels_named(ways[i].mask))
            && (!ways[i].isa || has_onednn() || !strcmp(ways[i].isa, "ALL")))
            in_a_child(&ways[i]);
    return pc_test_end();
}
