/* bench trace: sends the requests of a trace to the store, as an application would: each block of a
 * prompt is looked up; a missing one is "computed" (memory is filled) and put. The blocks are
 * small, so that the times are those of the store itself. */
#include <promptcache/extend.h>
#include <promptcache/cache.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif

#include "bench.h"
#include "machine.h"
#include "plot.h"
#include "program.h"
#include "trace.h"

enum { MOST_SHARES = 16 };

typedef struct arguments {
    const char *trace, *shares, *picture;
    long block_bytes, flood;
    int json;
} arguments;

typedef struct row {
    double share;
    size_t room;     /* blocks */
    uint64_t budget; /* bytes */
    trace_result ours, lru, best;
    uint64_t refused;
    double seconds;
    size_t operations;
    double rss; /* most bytes that the process grew by */
} row;

typedef struct bench {
    const arguments *a;
    trace trace;
    pc_context *context;
    uint64_t entry_bytes; /* of a block, in the budget */
    double shares[MOST_SHARES];
    size_t share_count;
    row rows[MOST_SHARES];
} bench;

static int read_arguments(int argc, char **argv, arguments *a)
{
    const option_row rows[] = {
        {"trace", OPTION_FILE, &a->trace, "JSON lines with \"hash_ids\"", NULL, 0, 0},
        {"share", OPTION_TEXT, &a->shares,
         "sizes of the store as shares of all blocks (1,1/4,1/16)", NULL, 0, 0},
        {"block-bytes", OPTION_NUMBER, &a->block_bytes, "bytes of a block (4096)", NULL, 1,
         1 << 24},
        {"flood", OPTION_NUMBER, &a->flood,
         "blocks of a prompt that is never used again, after every second request (0)", NULL, 0,
         1 << 20},
        FORMAT_ROWS(a->json, "one JSON object"),
        {"plot", OPTION_FILE, &a->picture, "writes the curves as SVG", NULL, 0, 0},
    };
    const char *others[1];
    size_t count;
    int code = read_options(&bench_trace, argc, argv, rows, sizeof rows / sizeof *rows, others, 0,
                            &count);
    return code < 0 && !a->trace ? usage_error(&bench_trace, "--trace is missing") : code;
}

/* "1,1/4,0.1" */
static int read_shares(bench *b)
{
    const char *at = b->a->shares;
    for (char *end; *at; at = end + (*end == ',')) {
        double share = strtod(at, &end);
        if (*end == '/')
            share /= strtod(end + 1, &end);
        if (end == at || (*end && *end != ',') || !(share > 0 && share <= 1)
            || b->share_count == MOST_SHARES)
            return usage_error(
                &bench_trace,
                "--share takes up to %d numbers above 0 and at most 1, as in 1,1/4,0.1",
                MOST_SHARES);
        b->shares[b->share_count++] = share;
    }
    return b->share_count ? EXIT_OK : usage_error(&bench_trace, "--share is empty");
}

static double process_bytes(void)
{
    double pages = 0, all;
    FILE *f = fopen("/proc/self/statm", "r");
    if (f && fscanf(f, "%lf %lf", &all, &pages) != 2)
        pages = 0;
    if (f)
        fclose(f);
    return pages * (double)sysconf(_SC_PAGESIZE);
}

/* ----------------------------------------------------------- blocks as segments */

typedef struct block {
    uint8_t key[32], parent[32];
    int32_t token;
    uint64_t bytes;
    pc_raw raw;
} block;

static const uint8_t model_id[32] = "bench trace";

static void name_block(uint8_t key[32], uint32_t number)
{
    memset(key, 0, 32);
    memcpy(key, &number, sizeof number);
}

static void describe_block(block *b, uint32_t number, uint64_t bytes)
{
    name_block(b->key, number);
    b->token = (int32_t)number;
    b->bytes = bytes;
    b->raw = (pc_raw)PC_RAW_INIT;
    b->raw.model = model_id;
    b->raw.dtype = PC_DTYPE_BF16;
    b->raw.layout = PC_LAYOUT_APPLICATION;
    b->raw.tokens = &b->token;
    b->raw.token_count = 1;
    b->raw.block_bytes = &b->bytes;
    b->raw.block_count = 1;
}

static int compute(const bench *b, block *it, pc_segment **out)
{
    void *memory = malloc(it->bytes);
    if (!memory)
        return plain_error("out of memory");
    memset(memory, it->token & 0xff, it->bytes);
    it->raw.blocks = (const void *const *)&memory;
    if (pc_segment_wrap(out, b->context, &it->raw, free, memory) < 0) {
        free(memory);
        return input_error("a block", NULL);
    }
    return EXIT_OK;
}

/* Looks up one block, or computes and puts it. The request holds the reference. */
static int use_block(const bench *b, pc_cache *cache, row *r, size_t request, size_t at,
                     pc_segment **out)
{
    const trace *t = &b->trace;
    size_t place = at - t->first[request];
    double cost = trace_cost(place);
    block it;
    pc_status status;
    int code;
    describe_block(&it, t->blocks[at], (uint64_t)b->a->block_bytes);
    status = pc_cache_get(out, cache, it.key, &it.raw, 0, NULL);
    r->operations++;
    if (status == PC_OK && !t->novel[request]) {
        r->ours.hits++;
        r->ours.saved += cost;
    }
    if (status != PC_MISS)
        return status < 0 ? input_error("look-up of a block", NULL) : EXIT_OK;
    code = compute(b, &it, out);
    if (code == EXIT_OK) {
        pc_put_options o = PC_PUT_OPTIONS_INIT;
        o.cost_seconds = cost;
        if (place) {
            name_block(it.parent, t->blocks[at - 1]);
            o.parent = it.parent;
        }
        status = pc_cache_put(cache, it.key, *out, &o);
        r->operations++;
        r->refused += status == PC_MISS;
        code = status < 0 ? input_error("put of a block", NULL) : EXIT_OK;
    }
    return code;
}

static int replay(const bench *b, pc_cache *cache, row *r)
{
    const trace *t = &b->trace;
    double begin = machine_now(), rss, most;
    pc_segment **held = NULL;
    size_t room = 0;
    int code = EXIT_OK;
#ifdef __GLIBC__
    malloc_trim(0); /* memory that an earlier row freed would hide this row's growth */
#endif
    most = rss = process_bytes();
    for (size_t q = 0; q < t->request_count && code == EXIT_OK && !is_interrupted(NULL); q++) {
        size_t count = t->first[q + 1] - t->first[q], i = 0;
        if (count > room) {
            free(held);
            held = malloc(count * sizeof(pc_segment *));
            room = held ? count : 0;
            code = held ? code : plain_error("out of memory");
        }
        for (; i < count && i < room && code == EXIT_OK; i++)
            code = use_block(b, cache, r, q, t->first[q] + i, &held[i]);
        while (i-- > 0)
            pc_segment_free(held[i]);
        if (q % 64 == 0 || q + 1 == t->request_count) {
            double now = process_bytes();
            most = now > most ? now : most;
        }
    }
    free(held);
    r->seconds = machine_now() - begin;
    r->rss = most - rss;
    return code == EXIT_OK && is_interrupted(NULL) ? EXIT_INTERRUPTED : code;
}

/* ---------------------------------------------------------------------- rows */

static int with_cache(const bench *b, uint64_t budget, int (*run)(const bench *, pc_cache *, row *),
                      row *r)
{
    pc_cache_options o = PC_CACHE_OPTIONS_INIT;
    pc_cache *cache = NULL;
    int code;
    o.ram_bytes = budget;
    if (pc_cache_new(&cache, b->context, &o) < 0)
        return input_error("cache", NULL);
    code = run(b, cache, r);
    pc_cache_free(cache);
    return code;
}

static int measure_entry(const bench *b, pc_cache *cache, row *r)
{
    pc_cache_stats stats = PC_CACHE_STATS_INIT;
    pc_segment *segment = NULL;
    int code = use_block(b, cache, r, 0, 0, &segment);
    pc_segment_free(segment);
    if (code == EXIT_OK && pc_cache_get_stats(cache, &stats) < 0)
        code = input_error("statistics", NULL);
    r->budget = stats.segment_bytes;
    return code;
}

static int run_row(bench *b, row *r, double share)
{
    int code;
    *r = (row){.share = share};
    r->room = (size_t)llround(share * (double)b->trace.distinct);
    r->room = share < 1 ? r->room + !r->room : b->trace.block_count;
    r->budget = r->room * b->entry_bytes;
    code = trace_lru(&b->trace, r->room, &r->lru);
    if (code == EXIT_OK)
        code = trace_best(&b->trace, r->room, &r->best);
    return code == EXIT_OK ? with_cache(b, r->budget, replay, r) : code;
}

static int run(bench *b)
{
    row probe = {0};
    int code = trace_read(&b->trace, b->a->trace, (size_t)b->a->flood);
    if (code == EXIT_OK)
        code = with_cache(b, UINT64_C(1) << 30, measure_entry, &probe);
    b->entry_bytes = probe.budget;
    for (size_t i = 0; i < b->share_count && code == EXIT_OK; i++)
        code = run_row(b, &b->rows[i], b->shares[i]);
    return code;
}

/* -------------------------------------------------------------------- output */

static double percent(const bench *b, const trace_result *r)
{
    return 100.0 * (double)r->hits / (double)b->trace.look_ups;
}

static double best_of_all(const bench *b)
{
    return 100.0 * (double)(b->trace.look_ups - b->trace.distinct) / (double)b->trace.look_ups;
}

static void print_table(const bench *b)
{
    double all = trace_cost_of_all(&b->trace);
    printf(
        "%s: %zu requests, %zu blocks looked up, %zu different ones; at most %.1f %% can be hits\n",
        b->a->trace, b->trace.request_count, b->trace.look_ups, b->trace.distinct, best_of_all(b));
    if (b->a->flood)
        printf("and, after every second one, a request of %ld blocks that are never used again "
               "(not counted)\n",
               b->a->flood);
    printf("\n                          blocks found, %%           compute saved, %%\n"
           "    share  budget MiB    here    LRU   best     here    LRU   best   operations/s   "
           "RSS MiB   refused\n");
    for (size_t i = 0; i < b->share_count; i++) {
        const row *r = &b->rows[i];
        printf("%9.5f %11.1f %7.2f %6.2f %6.2f  %7.2f %6.2f %6.2f %14.0f %9.1f %9llu\n", r->share,
               (double)r->budget / 1048576, percent(b, &r->ours), percent(b, &r->lru),
               percent(b, &r->best), 100 * r->ours.saved / all, 100 * r->lru.saved / all,
               100 * r->best.saved / all, (double)r->operations / r->seconds, r->rss / 1048576,
               (unsigned long long)r->refused);
    }
    printf(
        "\nLRU and best (which knows the future) are simulated, with blocks of one size. A block "
        "costs more to\ncompute the more tokens are before it. RSS: most growth of the process. "
        "The budget includes the\nstore's own data.\n");
}

static void print_rows_json(const bench *b)
{
    json_t *rows = json_array();
    double all = trace_cost_of_all(&b->trace);
    for (size_t i = 0; i < b->share_count; i++) {
        const row *r = &b->rows[i];
        json_array_append_new(
            rows,
            json_pack("{s:f,s:I,s:I,s:f,s:f,s:f,s:f,s:f,s:f,s:f,s:I,s:I}", "share", r->share,
                      "blocks", (json_int_t)r->room, "budget_bytes", (json_int_t)r->budget, "hits",
                      percent(b, &r->ours), "hits_lru", percent(b, &r->lru), "hits_best",
                      percent(b, &r->best), "saved", 100 * r->ours.saved / all, "saved_lru",
                      100 * r->lru.saved / all, "saved_best", 100 * r->best.saved / all,
                      "operations_per_s", (double)r->operations / r->seconds, "rss_bytes",
                      (json_int_t)r->rss, "refused", (json_int_t)r->refused));
    }
    print_json(json_pack("{s:s,s:I,s:I,s:I,s:f,s:I,s:o}", "trace", b->a->trace, "requests",
                         (json_int_t)b->trace.request_count, "look_ups",
                         (json_int_t)b->trace.look_ups, "distinct", (json_int_t)b->trace.distinct,
                         "hits_best_unlimited", best_of_all(b), "flood", (json_int_t)b->a->flood,
                         "rows", rows));
}

static int draw(const bench *b)
{
    static plot curves = {.title = "Blocks found by the size of the store",
                          .x_label = "share of all blocks, %",
                          .y_label = "blocks found, %"};
    for (size_t i = 0; i < b->share_count; i++) {
        const row *r = &b->rows[i];
        plot_point(&curves, "promptcache", 0, 0, 100 * r->share, percent(b, &r->ours));
        plot_point(&curves, "least recently used", 1, 1, 100 * r->share, percent(b, &r->lru));
        plot_point(&curves, "best possible", 2, 2, 100 * r->share, percent(b, &r->best));
    }
    return plot_write(&curves, b->a->picture);
}

static int run_command_line(int argc, char **argv)
{
    arguments a = {.shares = "1,1/4,1/16", .block_bytes = 4096};
    static bench b;
    int code = read_arguments(argc, argv, &a);
    if (code >= 0)
        return code;
    b = (bench){.a = &a};
    watch_interrupt();
    code = read_shares(&b);
    if (code == EXIT_OK)
        code = plot_may_write(a.picture);
    if (code == EXIT_OK && (code = open_context(&b.context)) < 0)
        code = EXIT_OK;
    if (code == EXIT_OK)
        code = run(&b);
    if (code == EXIT_OK)
        (a.json ? print_rows_json : print_table)(&b);
    if (code == EXIT_OK && a.picture)
        code = draw(&b);
    trace_free(&b.trace);
    pc_context_free(b.context);
    return finish_output(code);
}

const command bench_trace = {
    .name = "trace",
    .usage = "trace --trace FILE [options]",
    .summary = "how many blocks of real traffic the store holds, by its size",
    .details = "Replays requests against stores of several sizes, given as shares of the memory of "
               "all blocks.\n"
               "Prints the share of blocks found, beside that of a store that evicts the least "
               "recently used, and\n"
               "beside the best possible.",
    .run = run_command_line};
