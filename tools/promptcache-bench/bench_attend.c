/* bench attend: one step of attention of a batch. All rows share a prefix and have suffixes of
 * their own. Three methods: shared (pc_attend as it is), per row (one copy of the prefix, read for
 * every row) and unshared (every row has its own copy, as in an engine without sharing). On a GPU,
 * everything lies in its memory, and its own clock counts (bench_device.h). --pool compares two
 * others: shared, over packed pages and over the pages of a pool, and times making the plans.
 *
 * Each pass goes through more layers than any cache holds, as in a model, where other layers come
 * between two uses of the same K and V. The bound is the longer of two times, both by rates
 * measured at the start: to read all K and V once, and to do the arithmetic. */
#include <promptcache/attend.h>
#include <promptcache/bench.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "attend_pool.h"
#include "bench.h"
#include "bench_device.h"
#include "machine.h"
#include "plot.h"
#include "program.h"

enum { MOST = 16, MOST_LAYERS = 64, MOST_TIMES = 99 };
enum { SHARED, PER_ROW, UNSHARED, POOL, ARMS };

/* In the order of --dtype. products: the format whose peak the bound uses; int8 is multiplied in 16
 * bits, as fast as bf16. */
static const struct {
    const char *name;
    uint32_t dtype, products;
} dtypes[] = {{"f32", PC_DTYPE_F32, PC_DTYPE_F32},
              {"bf16", PC_DTYPE_BF16, PC_DTYPE_BF16},
              {"f16", PC_DTYPE_F16, PC_DTYPE_F32},
              {"int8", PC_DTYPE_I8, PC_DTYPE_BF16}};

typedef struct arguments {
    const char *rows, *prefix, *suffix, *picture, *backend;
    long heads, kv_heads, head_dim, dtype, repeats, memory, layers, pool, pool_layout;
    int json, ceilings, busy;
} arguments;

typedef struct bench {
    const arguments *a;
    pc_context *context;
    bench_device device; /* not open: the CPU computes */
    pc_attend_shape shape;
    double read_rate, flop_rate;
    size_t rows, prefix, suffix;
    size_t layers;
    uint8_t *memory; /* all pages */
    /* [layer][run]: the prefix, the suffixes, then the copies of the prefix */
    const void **pages;
    size_t runs, copies;
    attend_pool pool;
    double plan_us[ARMS]; /* to make one */
    float *q, *out;
    float *results; /* of the first method, in host memory; NULL: none yet */
    pc_plan *plan[ARMS];
    size_t rounds[ARMS]; /* of a pass through all layers */
    double host_us;      /* of a call of `shared`, until it returned; NAN: the CPU computes */
    plot *plot;
} bench;

static size_t run_bytes(const bench *b, size_t tokens)
{
    return pc_pages_bytes(&b->shape, tokens);
}

static int on_device(const bench *b)
{
    return b->device.is_open;
}

/* Memory that pc_attend reads and writes. An exit code. */
static int take(bench *b, size_t bytes, void *out)
{
    void *memory = NULL;
    int code = EXIT_OK;
    if (on_device(b))
        code = bench_device_take(&b->device, bytes + 1, &memory);
    else if (!(memory = machine_memory(bytes + 1)))
        code = plain_error("no %zu MiB of memory; --memory limits it", bytes >> 20);
    memcpy(out, &memory, sizeof memory);
    return code;
}

static void give(bench *b, void *memory)
{
    if (on_device(b))
        bench_device_give(&b->device, memory);
    else
        free(memory);
}

/* Between memory of the host and what `take` gives. An exit code. */
static int copy(bench *b, void *to, const void *from, size_t bytes)
{
    if (on_device(b))
        return bench_device_copy(&b->device, to, from, bytes);
    memcpy(to, from, bytes);
    return EXIT_OK;
}

/* Begins of the memory are copied, doubled each time. */
static int repeat_page(bench *b, const uint8_t *values, uint8_t *memory, size_t page, size_t bytes)
{
    int code = bytes ? copy(b, memory, values, page) : EXIT_OK;
    for (size_t done = page; done < bytes && code == EXIT_OK; done *= 2)
        code = copy(b, memory + done, memory, done < bytes - done ? done : bytes - done);
    return code;
}

static pc_status write_page(const bench *b, void *page, float *values)
{
    pc_pages_args args = PC_PAGES_ARGS_INIT;
    args.shape = &b->shape;
    args.pages = page;
    args.count = PC_PAGE_TOKENS;
    args.k = args.v = values;
    return pc_pages_write(&args);
}

/* Repeats one page of values from -1 to 1: the values do not change the time. */
static int fill(bench *b, uint8_t *memory, size_t bytes)
{
    size_t page = run_bytes(b, PC_PAGE_TOKENS),
           floats = (size_t)b->shape.kv_heads * (size_t)b->shape.k_dim * PC_PAGE_TOKENS;
    float *values = malloc(floats * sizeof *values);
    uint8_t *written = aligned_alloc(64, page);
    int code = EXIT_OK;
    for (size_t i = 0; values && i < floats; i++)
        values[i] = (float)(i * 2654435761u % 2001) * 1e-3f - 1.0f;
    if (!values || !written)
        code = plain_error("no memory for a page");
    else if (write_page(b, written, values) < 0)
        code = input_error("pages", NULL);
    else
        code = repeat_page(b, written, memory, page, bytes);
    free(values), free(written);
    return code;
}

/* Bytes of all layers: more than any cache holds. */
static size_t enough_bytes(const bench *b)
{
    size_t cpu = (size_t)256 << 20;
    return on_device(b) ? 8 * b->device.l2_bytes : cpu;
}

/* At least two on a GPU, so that no layer finds its own prefix in the cache. */
static size_t wanted_layers(const bench *b, size_t layer)
{
    size_t layers = layer ? (enough_bytes(b) + layer - 1) / layer : 1, least = on_device(b) ? 2 : 1;
    if (b->a->layers)
        return (size_t)b->a->layers;
    return layers > MOST_LAYERS ? MOST_LAYERS : layers < least ? least : layers;
}

/* Of all pages: --memory, and nine tenths of what a GPU has. */
static size_t room_of(const bench *b)
{
    size_t room = (size_t)b->a->memory << 20, own = b->device.unused_bytes / 10 * 9;
    if (!on_device(b))
        return b->a->memory ? room : (size_t)6000 << 20;
    return b->a->memory && room < own ? room : own;
}

static int lay_out(bench *b)
{
    size_t shared = run_bytes(b, b->prefix), own = run_bytes(b, b->suffix),
           layer = shared + b->rows * own, at = 0;
    size_t room = room_of(b), enough = enough_bytes(b);
    int code;
    b->layers = wanted_layers(b, layer);
    while (!b->a->layers && b->layers > 1 && b->layers * (layer + b->rows * shared) > room
           && b->layers * layer > enough / 2)
        b->layers--;
    b->host_us = NAN;
    b->copies = !b->a->pool && b->layers * (layer + b->rows * shared) <= room ? b->rows : 0;
    b->runs = 1 + b->rows + b->copies;
    if ((code = take(b, b->layers * (layer + b->copies * shared), &b->memory)) != EXIT_OK)
        return code;
    b->pages = calloc(b->layers * b->runs, sizeof *b->pages);
    if (!b->pages)
        return plain_error("no memory for %zu layers of %zu rows", b->layers, b->rows);
    if ((code = fill(b, b->memory, b->layers * (layer + b->copies * shared))) != EXIT_OK)
        return code;
    for (size_t l = 0; l < b->layers; l++)
        for (size_t i = 0; i < b->runs; i++) {
            b->pages[l * b->runs + i] = b->memory + at;
            at += i > 0 && i <= b->rows ? own : shared;
        }
    return EXIT_OK;
}

/* The first page of the memory is a packed page that all repeat. */
static int open_pool(bench *b, const pc_run *runs)
{
    b->pool.shape = (pc_pool)PC_POOL_INIT;
    b->pool.shape.dtype = b->shape.dtype;
    b->pool.shape.page_tokens = (uint32_t)b->a->pool;
    b->pool.shape.layout = (uint32_t)b->a->pool_layout;
    return attend_pool_open(&b->pool, &b->shape, b->memory, runs, b->runs, b->layers);
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The last plan stays. */
static pc_status new_plan(bench *b, int arm, const pc_plan_args *args)
{
    double us[9];
    pc_status status = PC_OK;
    for (int i = 0; i < 9 && status >= 0; i++) {
        double began = machine_now();
        pc_plan_free(b->plan[arm]);
        status = pc_plan_new(&b->plan[arm], b->context, args);
        us[i] = 1e6 * (machine_now() - began);
    }
    qsort(us, 9, sizeof *us, by_size);
    b->plan_us[arm] = us[4];
    return status;
}

static int make_plan(bench *b, int arm)
{
    pc_plan_args args = PC_PLAN_ARGS_INIT;
    int code = EXIT_OK;
    pc_run *runs = calloc(b->runs, sizeof *runs);
    pc_row_span *spans = calloc(2 * b->rows, sizeof *spans);
    uint32_t *first = calloc(b->rows + 1, sizeof *first);
    int64_t *positions = calloc(b->rows, sizeof *positions);
    pc_status status = PC_ERR_NOMEM;
    if (runs && spans && first && positions) {
        for (size_t i = 0; i < b->runs; i++)
            runs[i].tokens = i > 0 && i <= b->rows ? b->suffix : b->prefix;
        for (size_t r = 0; r < b->rows; r++) {
            uint32_t prefix = arm == UNSHARED ? (uint32_t)(1 + b->rows + r) : 0;
            spans[2 * r] = (pc_row_span){0, prefix, 0, (uint32_t)b->prefix, 0};
            spans[2 * r + 1] = (pc_row_span){(int64_t)b->prefix, (uint32_t)(1 + r), 0,
                                             (uint32_t)b->suffix, 0};
            first[r + 1] = (uint32_t)(2 * r + 2);
            positions[r] = (int64_t)(b->prefix + b->suffix);
        }
        args.shape = &b->shape;
        args.runs = runs;
        args.run_stride = sizeof(pc_run);
        args.run_count = b->runs;
        args.positions = positions;
        args.first = first;
        args.spans = spans;
        args.span_stride = sizeof(pc_row_span);
        args.row_count = b->rows;
        args.flags = arm == PER_ROW ? PC_PLAN_PER_ROW : 0;
        if (arm == POOL && (code = open_pool(b, runs)) == EXIT_OK) {
            args.pool = &b->pool.shape;
            attend_pool_place(&b->pool, runs, b->runs);
        }
        status = code == EXIT_OK ? new_plan(b, arm, &args) : PC_OK;
    }
    free(runs), free(spans), free(first), free(positions);
    return code != EXIT_OK ? code : status < 0 ? input_error("plan", NULL) : EXIT_OK;
}

/* Once through all layers. */
static int attend_layers(const bench *b, int arm)
{
    pc_attend_args args = PC_ATTEND_ARGS_INIT;
    args.q = b->q;
    args.out = b->out;
    args.stream = b->device.stream;
    args.flags = on_device(b) ? PC_ATTEND_QUEUE : 0;
    for (size_t l = 0; l < b->layers; l++) {
        if (arm == POOL)
            attend_pool_set(&b->pool, l, &args);
        else
            args.pages = b->pages + l * b->runs;
        if (pc_attend(b->plan[arm], &args) < 0)
            return input_error("attend", NULL);
    }
    return EXIT_OK;
}

/* Seconds of a layer. */
static int pass(bench *b, int arm, double *seconds)
{
    double began = machine_now();
    int code = on_device(b) ? bench_device_begin(&b->device) : EXIT_OK;
    for (size_t i = 0; i < b->rounds[arm] && code == EXIT_OK; i++)
        code = attend_layers(b, arm);
    *seconds = machine_now() - began;
    if (arm == SHARED && on_device(b))
        b->host_us = 1e6 * *seconds / (double)(b->rounds[arm] * b->layers);
    if (code == EXIT_OK && on_device(b))
        code = bench_device_end(&b->device, seconds);
    *seconds /= (double)(b->rounds[arm] * b->layers);
    return code;
}

/* Warms up. A GPU then gets so many launches at once that it never waits for one, but no more than
 * a fiftieth of a second of work. */
static int first_pass(bench *b, int arm)
{
    double once;
    b->rounds[arm] = 1;
    int code = pass(b, arm, &once);
    if (code != EXIT_OK || !on_device(b) || b->a->layers)
        return code;
    if ((code = pass(b, arm, &once)) != EXIT_OK) /* without what only the first one does */
        return code;
    double all = once * (double)b->layers;
    while (b->rounds[arm] * b->layers < MOST_LAYERS && all * (double)b->rounds[arm] < 0.02)
        b->rounds[arm]++;
    return code;
}

static size_t result_count(const bench *b)
{
    return b->rows * (size_t)b->shape.heads * (size_t)b->shape.v_dim;
}

/* The methods read equal values, so that a wrong one shows. Owns `got`. */
static int compare_results(bench *b, int arm, float *got)
{
    double most = 0, worst = 0;
    if (!b->results) {
        b->results = got;
        return EXIT_OK;
    }
    for (size_t i = 0; i < result_count(b); i++) {
        double error = fabs((double)got[i] - (double)b->results[i]);
        most = fmax(most, fabs((double)b->results[i]));
        worst = error <= worst ? worst : error; /* also NaN */
    }
    free(got);
    return worst <= 0.02 * most ? EXIT_OK
                                : plain_error("method %d of %zu rows is wrong: %g off, of %g",
                                              arm + 1, b->rows, worst, most);
}

static int check_results(bench *b, int arm)
{
    size_t bytes = result_count(b) * sizeof(float);
    float *got = malloc(bytes);
    int code = got ? EXIT_OK : plain_error("no memory for %zu rows", b->rows);
    if (code == EXIT_OK)
        code = copy(b, got, b->out, bytes);
    if (code == EXIT_OK)
        return compare_results(b, arm, got);
    free(got);
    return code;
}

/* Microseconds. */
static machine_bound bound_of(const bench *b)
{
    double page = (double)run_bytes(b, PC_PAGE_TOKENS) / PC_PAGE_TOKENS;
    double bytes = page * (double)(b->prefix + b->rows * b->suffix);
    double flops = 4.0 * (double)b->shape.heads * (double)b->shape.k_dim * (double)b->rows
                   * (double)(b->prefix + b->suffix);
    return machine_bound_of(bytes, 1e-6 * b->read_rate, flops, 1e-6 * b->flop_rate);
}

static void draw_row(const bench *b, const double *us, double bound)
{
    static const char *const names[] = {"shared", "per row", "own copies", "bound"};
    const double values[] = {us[SHARED], us[PER_ROW], us[UNSHARED], bound};
    int colour = 0;
    for (size_t rows = b->rows; rows > 1; rows /= 2)
        colour++;
    for (int i = 0; i < 4; i++) {
        char name[48];
        snprintf(name, sizeof name, "%zu + %zu: %s", b->rows, b->suffix, names[i]);
        plot_point(b->plot, name, colour, i, (double)b->prefix, values[i]);
    }
}

static void print_row(const bench *b, const double *us)
{
    machine_bound bound = bound_of(b);
    int is_read = bound.by_bytes > bound.by_flops;
    draw_row(b, us, bound.least);
    if (b->a->json) {
        print_json(json_pack(
            "{s:I,s:I,s:I,s:I,s:I,s:I,s:s,s:o,s:f,s:f,s:f,s:o,s:f,s:f,s:f,s:s,s:I,s:o}", "rows",
            (json_int_t)b->rows, "prefix", (json_int_t)b->prefix, "suffix", (json_int_t)b->suffix,
            "heads", (json_int_t)b->shape.heads, "kv_heads", (json_int_t)b->shape.kv_heads,
            "head_dim", (json_int_t)b->shape.k_dim, "dtype", dtypes[b->a->dtype].name,
            "unshared_us", json_number(us[UNSHARED]), "per_row_us", us[PER_ROW], "shared_us",
            us[SHARED], "chosen_us", us[SHARED], "speedup", json_number(us[UNSHARED] / us[SHARED]),
            "speedup_per_row", us[PER_ROW] / us[SHARED], "bound_us", bound.least, "bound_share",
            bound.least / us[SHARED], "bound_by", is_read ? "bytes" : "flops", "layers",
            (json_int_t)b->layers, "host_us", json_number(b->host_us)));
        return;
    }
    printf("%5zu %7zu %7zu ", b->rows, b->prefix, b->suffix);
    if (isnan(us[UNSHARED]))
        printf("%12s %12.1f %12.1f %9s", "-", us[PER_ROW], us[SHARED], "-");
    else
        printf("%12.1f %12.1f %12.1f %8.2fx", us[UNSHARED], us[PER_ROW], us[SHARED],
               us[UNSHARED] / us[SHARED]);
    printf(" %8.2fx %10.1f  %3.0f %% of %s", us[PER_ROW] / us[SHARED], bound.least,
           100 * bound.least / us[SHARED], is_read ? "bandwidth" : "arithmetic");
    if (on_device(b))
        printf("  %8.1f", b->host_us);
    printf("\n");
    fflush(stdout);
}

/* A line of --pool: medians, their spread, and what making the plan took. */
static void print_pool(const bench *b, double (*times)[MOST_TIMES])
{
    size_t n = (size_t)b->a->repeats;
    double packed = 1e6 * median(times[SHARED], n), pool = 1e6 * median(times[POOL], n);
    double least[ARMS], most[ARMS]; /* the medians have sorted the times */
    for (int arm = 0; arm < ARMS; arm++) {
        least[arm] = 1e6 * times[arm][0];
        most[arm] = 1e6 * times[arm][n - 1];
    }
    if (b->a->json) {
        print_json(json_pack(
            "{s:I,s:I,s:I,s:s,s:I,s:f,s:f,s:f,s:f,s:f,s:f,s:f,s:f}", "rows", (json_int_t)b->rows,
            "prefix", (json_int_t)b->prefix, "suffix", (json_int_t)b->suffix, "dtype",
            dtypes[b->a->dtype].name, "pool", (json_int_t)b->a->pool, "packed_us", packed,
            "packed_least_us", least[SHARED], "packed_most_us", most[SHARED], "pool_us", pool,
            "pool_least_us", least[POOL], "pool_most_us", most[POOL], "packed_plan_us",
            b->plan_us[SHARED], "pool_plan_us", b->plan_us[POOL]));
        return;
    }
    printf("%5zu %7zu %7zu %9.1f (%.0f to %.0f) %9.1f (%.0f to %.0f) %6.2f %9.1f %9.1f\n", b->rows,
           b->prefix, b->suffix, packed, least[SHARED], most[SHARED], pool, least[POOL], most[POOL],
           packed / pool, b->plan_us[SHARED], b->plan_us[POOL]);
    fflush(stdout);
}

static int has_arm(const bench *b, int arm)
{
    if (b->a->pool)
        return arm == SHARED || arm == POOL;
    return arm == UNSHARED ? b->copies > 0 : arm != POOL;
}

static int measure(bench *b)
{
    double times[ARMS][MOST_TIMES], us[ARMS];
    long n = b->a->repeats;
    int code = EXIT_OK;
    for (int arm = 0; arm < ARMS && code == EXIT_OK; arm++)
        if (has_arm(b, arm)) {
            code = make_plan(b, arm);
            if (code == EXIT_OK)
                code = first_pass(b, arm);
            if (code == EXIT_OK)
                code = check_results(b, arm);
        }
    for (long i = 0; i < n && code == EXIT_OK; i++)
        for (int arm = 0; arm < ARMS && code == EXIT_OK; arm++)
            if (b->plan[arm])
                code = pass(b, arm, &times[arm][i]);
    if (code == EXIT_OK && b->a->pool) {
        print_pool(b, times);
        return code;
    }
    for (int arm = 0; arm < ARMS && code == EXIT_OK; arm++)
        us[arm] = b->plan[arm] ? 1e6 * median(times[arm], (size_t)n) : (double)NAN;
    if (code == EXIT_OK)
        print_row(b, us);
    return code;
}

static int make_rows(bench *b)
{
    size_t vectors = b->rows * (size_t)b->shape.heads * (size_t)b->shape.k_dim,
           bytes = vectors * sizeof *b->q;
    float *values = malloc(bytes);
    int code = values ? take(b, bytes, &b->q) : plain_error("no memory for %zu rows", b->rows);
    if (code == EXIT_OK)
        code = take(b, bytes, &b->out);
    for (size_t i = 0; i < vectors && code == EXIT_OK; i++)
        values[i] = (float)(i * 2654435761u % 1000) * 1e-3f - 0.5f;
    if (code == EXIT_OK)
        code = copy(b, b->q, values, bytes);
    free(values);
    return code;
}

static int one_shape(bench *b, long rows, long prefix, long suffix)
{
    int code;
    b->rows = (size_t)rows;
    b->prefix = (size_t)prefix;
    b->suffix = (size_t)suffix;
    code = make_rows(b);
    if (code == EXIT_OK)
        code = lay_out(b);
    if (code == EXIT_OK)
        code = measure(b);
    for (int arm = 0; arm < ARMS; arm++) {
        pc_plan_free(b->plan[arm]);
        b->plan[arm] = NULL;
    }
    attend_pool_close(&b->pool);
    give(b, b->q), give(b, b->out), give(b, b->memory);
    free(b->pages), free(b->results);
    b->q = b->out = b->results = NULL, b->memory = NULL, b->pages = NULL;
    return code;
}

static int measure_machine(bench *b)
{
    int code;
    if (!on_device(b)) {
        b->read_rate = machine_read_rate(machine_threads());
        b->flop_rate = machine_flop_rate(machine_threads(), dtypes[b->a->dtype].products);
        return EXIT_OK;
    }
    if ((code = bench_device_byte_rate(&b->device, &b->read_rate)) != EXIT_OK)
        return code;
    return bench_device_flop_rate(&b->device, &b->flop_rate);
}

static void print_machine(const bench *b)
{
    const arguments *a = b->a;
    if (on_device(b))
        printf("%s", b->device.name);
    else
        printf("%u threads", machine_threads());
    printf(", %.1f GB/s, %.0f GFLOP/s", b->read_rate / 1e9, b->flop_rate / 1e9);
    if (a->ceilings) {
        printf("\n");
        return;
    }
    printf("; %ld query heads, %ld K/V heads of %ld, %s; microseconds of a layer\n", a->heads,
           a->kv_heads, a->head_dim, dtypes[a->dtype].name);
    if (a->pool) {
        printf(" rows  prefix  suffix  packed (least to most)  pool of %ld  pack./pool  plan  "
               "plan, pool\n",
               a->pool);
        return;
    }
    printf(" rows  prefix  suffix     unshared      per row       shared  unsh/sh.  row/sh.    "
           "  bound%s\n",
           on_device(b) ? "                    host" : "");
}

typedef struct sizes {
    long rows[MOST], prefix[MOST], suffix[MOST];
    size_t row_count, prefix_count, suffix_count;
} sizes;

static int run_shapes(bench *b, const sizes *s)
{
    int code = measure_machine(b);
    if (code == EXIT_OK && (!b->a->json || b->a->ceilings))
        print_machine(b);
    for (size_t i = 0; i < s->row_count && code == EXIT_OK && !b->a->ceilings; i++)
        for (size_t j = 0; j < s->prefix_count && code == EXIT_OK; j++)
            for (size_t k = 0; k < s->suffix_count && code == EXIT_OK; k++)
                if (s->prefix[j] + s->suffix[k])
                    code = one_shape(b, s->rows[i], s->prefix[j], s->suffix[k]);
    return code;
}

static int run_all(bench *b, const command *about)
{
    const arguments *a = b->a;
    sizes s;
    int code;
    s.row_count = read_numbers(a->rows, s.rows, MOST);
    s.prefix_count = read_numbers(a->prefix, s.prefix, MOST);
    s.suffix_count = read_numbers(a->suffix, s.suffix, MOST);
    if (!s.row_count || !s.prefix_count || !s.suffix_count)
        return usage_error(
            about, "--rows, --prefix and --suffix take up to %d numbers, as in 1,8,32", MOST);
    for (size_t i = 0; i < s.row_count; i++)
        if (s.rows[i] < 1)
            return usage_error(about, "--rows: at least 1");
    if ((code = open_backend(&b->context, a->backend)) >= 0)
        return code;
    /* any other backend is taken for one of CUDA */
    code = strcmp(a->backend, "cpu") ? bench_device_open(&b->device) : EXIT_OK;
    if (code == EXIT_OK)
        code = run_shapes(b, &s);
    bench_device_close(&b->device);
    pc_context_free(b->context);
    return code;
}

static int run_command_line(int argc, char **argv)
{
    arguments a = {
        "1,4,16,32", "1024,2048,8192", "128", NULL, "cpu", 32, 32, 128, 1, 9, 0, 0, 0, 0, 0, 0, 0};
    const option_row options[] = {
        {"rows", OPTION_TEXT, &a.rows, "rows of the batch (1,4,16,32)", NULL, 0, 0},
        {"prefix", OPTION_TEXT, &a.prefix, "tokens that all rows share (1024,2048,8192)", NULL, 0,
         0},
        {"suffix", OPTION_TEXT, &a.suffix, "tokens of the suffix of each row (128)", NULL, 0, 0},
        {"heads", OPTION_NUMBER, &a.heads, "query heads (32)", NULL, 1, 1024},
        {"kv-heads", OPTION_NUMBER, &a.kv_heads, "K/V heads (32)", NULL, 1, 1024},
        {"head-dim", OPTION_NUMBER, &a.head_dim, "dimensions of a head (128)", NULL, 1, 1024},
        {"dtype", OPTION_CHOICE, &a.dtype, "number format of K and V (bf16)", "f32 bf16 f16 int8",
         0, 0},
        {"repeats", OPTION_NUMBER, &a.repeats,
         "runs of each method, in turn; the median counts (9)", NULL, 1, MOST_TIMES},
        {"memory", OPTION_NUMBER, &a.memory,
         "most MiB; unshared is left out if its copies do not fit; 0: 6000, or what a GPU has (0)",
         NULL, 0, 1 << 20},
        {"layers", OPTION_NUMBER, &a.layers,
         "layers of a pass; 0: more than the caches hold, on a GPU many passes at once (0)", NULL,
         0, MOST_LAYERS},
        {"pool", OPTION_NUMBER, &a.pool,
         "compares packed pages with those of a pool, of so many tokens: 16, 32, 64 or 128; 0: no "
         "(0)",
         NULL, 0, 128},
        {"pool-layout", OPTION_CHOICE, &a.pool_layout, "order of a page of the pool (nhd)",
         "nhd hnd", 0, 0},
        {"busy", OPTION_FLAG, &a.busy,
         "counts processor time, of one thread (--threads 1): for a machine that is busy", NULL, 0,
         0},
        {"ceilings", OPTION_FLAG, &a.ceilings,
         "only measures the machine: bytes and operations a second", NULL, 0, 0},
        {"backend", OPTION_TEXT, &a.backend,
         "what computes: cpu, or cuda on the first GPU, whose memory holds everything (cpu)", NULL,
         0, 0},
        {"plot", OPTION_FILE, &a.picture, "writes the curves as SVG", NULL, 0, 0},
        THREADS_ROW,
        FORMAT_ROWS(a.json, "one JSON object a row"),
    };
    const char *others[1];
    size_t count;
    static plot curves = {.title = "One layer of attention over a shared prefix",
                          .x_label = "tokens of the prefix",
                          .y_label = "microseconds"};
    bench b = {.a = &a, .plot = &curves};
    int code = read_options(&bench_attend, argc, argv, options, sizeof options / sizeof *options,
                            others, 0, &count);
    if (code >= 0)
        return code;
    if (a.heads % a.kv_heads)
        return usage_error(&bench_attend, "--heads %ld is no multiple of --kv-heads %ld", a.heads,
                           a.kv_heads);
    if (a.pool && (a.dtype == 3 || strcmp(a.backend, "cpu")))
        return usage_error(&bench_attend, "--pool: f32, bf16 or f16 on the CPU");
    if (a.busy && machine_threads() != 1)
        return usage_error(&bench_attend, "--busy: with --threads 1");
    if (a.busy)
        machine_count_cpu_time();
    b.shape = (pc_attend_shape)PC_ATTEND_SHAPE_INIT;
    b.shape.heads = (int32_t)a.heads;
    b.shape.kv_heads = (int32_t)a.kv_heads;
    b.shape.k_dim = b.shape.v_dim = (int32_t)a.head_dim;
    b.shape.dtype = dtypes[a.dtype].dtype;
    code = plot_may_write(a.picture);
    if (code == EXIT_OK)
        code = run_all(&b, &bench_attend);
    return code == EXIT_OK && a.picture ? plot_write(&curves, a.picture) : code;
}

const command bench_attend = {
    .name = "attend",
    .usage = "attend [--rows LIST] [--prefix LIST] [--suffix LIST] [options]",
    .summary = "attention of a batch over a shared prefix, against reading it for every row",
    .details = "attention of a batch over a shared prefix, against reading it for every row",
    .run = run_command_line};
