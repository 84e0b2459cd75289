/* Workloads: requests that share the beginnings of their prompts, and one loop that serves them
 * through pc_batch in several ways of sharing.
 *
 * A prompt is a chain of pieces that other requests hold too (a system prompt, then a question that
 * many samples answer) and tokens of its own. What is reused comes from the cache, whole blocks of
 * 64 tokens; the states of the pieces are there before the clock starts. Lengths of answers are
 * given, so that every way does the same work: nothing that a model says ends them.
 *
 * The clock is that of the requests: it stands still between two of them when nothing is to be
 * done, so that arrivals cost no waiting. */
#ifndef WORKLOAD_H
#define WORKLOAD_H

#include "bench_model.h"
#include "plot.h"

enum { WORKLOAD_LEVELS = 2, MOST_WAYS = 6, MOST_REPEATS = 99, MOST_XS = 16 };

typedef struct piece {
    int32_t *tokens;
    size_t count;
    uint64_t seen; /* the last count of its tokens, see workload.stamp */
} piece;

typedef struct request {
    piece *shared[WORKLOAD_LEVELS];
    size_t levels;
    piece own; /* may be empty */
    size_t output;
    double arrival; /* seconds */
    /* of the last run */
    double first, end; /* clock at its first and behind its last token */
    size_t generated;
    pc_sequence *sequence;
} request;

typedef struct workload {
    piece *pieces;
    request *requests;
    size_t piece_count, count;
    size_t batch;   /* sequences at a time */
    uint64_t stamp; /* of one count of distinct pieces */
} workload;

/* Zeroed pieces and requests; an exit code. */
int workload_new(workload *w, size_t pieces, size_t requests, size_t batch);
void workload_free(workload *w);
/* `count` tokens that follow from `stream`: other streams, other tokens. An exit code. */
int piece_fill(piece *p, const bench_model *b, size_t count, uint64_t stream);
/* At most `most` tokens of a text (0: all of them), made fit for the model's vocabulary. */
int piece_from_text(piece *p, const bench_model *b, const char *text, size_t size, size_t most);
size_t shared_tokens(const request *r, size_t levels); /* of its first pieces */

/* ---------------------------------------------------------- workload_run.c */

/* How the batch holds what its sequences share. */
typedef struct way {
    const char *name, *label; /* label: in pictures */
    uint32_t baseline;        /* PC_BASELINE_… */
    size_t levels;            /* PC_BASELINE_COPIES: so many of the first pieces are shared */
    int cached;               /* 0: everything is computed for every request */
} way;

/* shared: what the library does. per-row: stored once, read by every sequence for itself. copies:
 * every sequence has its own. recompute: every prompt is computed whole. no-attention: as shared,
 * but nothing attends behind the prompt. */
enum { WAY_SHARED, WAY_PER_ROW, WAY_COPIES, WAY_RECOMPUTE, WAY_NO_ATTENTION, WAYS };
extern const way usual_ways[WAYS];
/* clang-format off */
#define WAYS_HELP \
    "Ways: shared (what the library does), per-row (the shared states are stored once, but\n" \
    "every sequence reads them for itself), copies (every sequence has its own), recompute\n" \
    "(every prompt is computed whole), no-attention (as shared, but steps behind the prompt\n" \
    "leave attention out: answers mean nothing, and no way of attending is faster).\n"
/* clang-format on */

typedef struct run_result {
    double seconds; /* by the clock */
    double busy;    /* of them at work */
    double prefill; /* of them for prompts */
    double bound;   /* the least time of the same passes, all that can be shared being shared */
    double latency; /* seconds a token from arrival to the end, mean of the requests */
    double first_median, first_most; /* seconds to the first token: median, 99 of 100 */
    size_t finished, generated, passes;
    uint64_t prompt, cached; /* tokens of the prompts, and of them taken from the cache */
    int stopped;             /* at the limit of seconds */
} run_result;

typedef struct run_args {
    const bench_model *model;
    pc_cache *cache;
    const way *how;
    double most_seconds;
    uint64_t number; /* of the run: makes the prompts' own tokens new to the cache */
} run_args;

/* Computes the states of all chains of pieces that the cache does not have. */
int workload_prepare(workload *w, const bench_model *b, pc_cache *cache, double *seconds);
int workload_run(workload *w, const run_args *args, run_result *out);
/* K and V at the same time, in bytes. */
double workload_bytes(workload *w, const bench_model *b, const way *how);

/* -------------------------------------------------------- workload_table.c */

typedef struct workload_options {
    bench_model_options model;
    const char *ways, *picture;
    long batch, repeats, memory, seed;
    double seconds;
    int json;
} workload_options;
/* at_a_time, the_ways: the defaults as text */
/* clang-format off */
#define WORKLOAD_ROWS(o, at_a_time, the_ways) \
    BENCH_MODEL_ROWS((o).model), \
        {"batch", OPTION_NUMBER, &(o).batch, "sequences at a time (" at_a_time ")", NULL, 1, \
         4096}, \
        {"ways", OPTION_TEXT, &(o).ways, "which to compare (" the_ways ")", NULL, 0, 0}, \
        {"repeats", OPTION_NUMBER, &(o).repeats, \
         "runs of each way, in turn; the median counts (1)", NULL, 1, MOST_REPEATS}, \
        {"seconds", OPTION_REAL, &(o).seconds, "a run stops after so many (600)", NULL, 0.1, 1e6}, \
        {"memory", OPTION_NUMBER, &(o).memory, \
         "MiB for K and V; a way that needs more is left out (8000)", NULL, 1, 1 << 20}, \
        {"seed", OPTION_NUMBER, &(o).seed, "of what is drawn (1)", NULL, 0, 1 << 30}, \
        {"plot", OPTION_FILE, &(o).picture, "writes the curves as SVG", NULL, 0, 0}, \
        FORMAT_ROWS((o).json, "one JSON object a row")
/* clang-format on */

/* clang-format off */
#define WORKLOAD_DEFAULTS(at_a_time, the_ways) \
    { \
        .ways = (the_ways), .batch = (at_a_time), .repeats = 1, .memory = 8000, .seed = 1, \
        .seconds = 600 \
    }
/* clang-format on */

typedef struct comparison {
    const bench_model *model;
    const workload_options *options;
    const char *name;   /* of the benchmark, in JSON */
    const char *x_name; /* what changes from table row to table row */
    const way *ways[MOST_WAYS];
    size_t way_count;
    int arrivals;      /* requests come one by one: latencies are of interest */
    int with_prepared; /* a request's share of preparing counts too */
    plot *plot;
    const char *fixed_name; /* what else rows and curves differ in; NULL: nothing */
    double fixed;
    int colour;
    uint64_t runs;
    pc_cache *cache; /* of all workloads; made when first used */
} comparison;

/* Before any work: the ways that the list names, of those in `all`, and whether the picture may be
 * written. An exit code. */
int open_comparison(comparison *c, const way *all, size_t count, const command *about);
/* Gives the cache back and, if `code` is EXIT_OK, writes the picture that was asked for. `code`, or
 * that of the writing. */
int close_comparison(comparison *c, int code);
void print_head(const comparison *c);
/* One row a way. */
int compare_ways(comparison *c, workload *w, double x);
/* The option that says what changes from table row to table row: numbers from low to high. */
typedef struct x_list {
    const char *option, *text, *example;
    long low, high;
} x_list;
/* Sets xs [MOST_XS] and how many there are; an exit code, after a message. */
int read_xs(const x_list *list, const command *about, long *xs, size_t *count);
typedef struct workload_maker {
    int (*open)(void *bench); /* reads the files that are needed; NULL: none. An exit code */
    int (*make)(const void *bench, workload *w, size_t x);
    void (*tell)(const void *bench, const workload *w, size_t index); /* what is in it, as text */
    void *bench;
} workload_maker;
/* All of a benchmark: the list and the comparison are read and opened, then files and model, then a
 * workload for every x is made, told about, compared, freed. An exit code. */
int compare_list(comparison *c, bench_model *model, const x_list *list, const workload_maker *maker,
                 const way *all, size_t way_count, const command *about);
/* The highest rate of arrivals (requests a second, from `rate` on) at which the mean latency stays
 * within `limit`, for every way; rates are tried by doubling and halving, then between. */
int find_rates(comparison *c, workload *w, double x, double rate, double limit);
/* Sets the arrivals of a Poisson process. */
void set_arrivals(workload *w, double rate, uint64_t seed);

#endif
