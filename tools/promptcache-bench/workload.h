/* Workloads: requests that share the beginnings of their prompts, served through pc_batch in
 * several methods of sharing. `bench serve`, `needles`, `samples` and `mmlu` make the requests;
 * run_workloads does everything else.
 *
 * A prompt is a chain of pieces that other requests have too (a system prompt, then a question that
 * many samples answer), and tokens of its own. The states of the pieces are in the cache before the
 * clock starts; whole blocks of 64 tokens are reused. The lengths of the answers are given, so that
 * every method does the same work: no token that the model chooses ends an answer.
 *
 * The clock is real time, from the first arrival on. One thread admits the requests that have
 * arrived, makes a step, and so on; it sleeps while nothing is to be done. */
#ifndef WORKLOAD_H
#define WORKLOAD_H

#include "bench_model.h"
#include "plot.h"

enum { WORKLOAD_LEVELS = 2, MOST_METHODS = 12, MOST_REPEATS = 99, MOST_XS = 16 };
/* A prompt is long from this share of the longest one on, and short up to that share. */
enum { LONG_SHARE = 4, SHORT_SHARE = 8 };

/* -------------------------------------------------------------- workload.c */

typedef struct piece {
    int32_t *tokens;
    size_t count;
    uint64_t stamp; /* workload.stamp when it was last counted */
} piece;

typedef struct request {
    piece *shared[WORKLOAD_LEVELS];
    size_t levels;
    piece own; /* may be empty */
    size_t output;
    double arrival; /* seconds after the start of the run */
    /* of the last run */
    double *times;    /* [output] machine_now() at each of its tokens; the run's own memory */
    size_t generated; /* of them so far */
    int counted;      /* its prompt is in the bound */
    struct probe *probe;
    pc_sequence *sequence;
} request;

typedef struct workload {
    piece *pieces;
    request *requests;
    size_t piece_count, count;
    size_t batch;   /* sequences at a time */
    uint64_t stamp; /* grows with each count of distinct pieces */
} workload;

/* Zeroed pieces and requests; an exit code. */
int workload_new(workload *w, size_t pieces, size_t requests, size_t batch);
void workload_free(workload *w);
/* `count` random tokens; `stream` is the seed. An exit code. */
int piece_fill(piece *p, const bench_model *b, size_t count, uint64_t stream);
/* The tokens of a text, at most `most` (0: all); ids are taken modulo the model's vocabulary. */
int piece_from_text(piece *p, const bench_model *b, const char *text, size_t size, size_t most);
size_t shared_tokens(const request *r, size_t levels); /* of its first pieces */
/* Sets the arrivals of a Poisson process. */
void set_arrivals(workload *w, double rate, uint64_t seed);

/* ---------------------------------------------------------- workload_run.c */

struct run_args;
struct run_result;

/* What serves requests: the library's batch (workload_batch.c), or the loop of another program. Its
 * functions return exit codes. Each token that it makes is a call of note_token. */
typedef struct server {
    int (*open)(void **out, const workload *w, const struct run_args *args);
    /* Admits a request with its prompt. */
    int (*start)(void *server, request *r, const int32_t *tokens, size_t count);
    /* One step. computing: seconds of it in which the model computes; stays NAN: not known. */
    int (*step)(void *server, double *computing);
    /* Gives up a request, finished or not, and adds what is known of it to the result. */
    void (*drop)(void *server, request *r, struct run_result *out);
    void (*close)(void *server);
} server;
extern const server batch_server;
void note_token(request *r);

/* How the batch holds what its sequences share, and how it computes prompts. */
typedef struct method {
    const char *name, *label; /* label: in pictures */
    uint32_t baseline;        /* PC_BASELINE_… */
    size_t levels;            /* PC_BASELINE_COPIES: how many of the first pieces are shared */
    int cached;               /* 0: everything is computed for every request */
    uint32_t step_tokens;     /* pc_batch_options.step_tokens */
    const server *by;         /* NULL: batch_server */
} method;

/* clang-format off */
#define METHODS_HELP \
    "Methods:\n" \
    "  shared        the library as it is\n" \
    "  per-row       the shared states are stored once; every sequence reads them for itself\n" \
    "  copies        every sequence has its own copy\n" \
    "  recompute     every prompt is computed in full\n" \
    "  no-attention  as shared; no token after the prompt attends: answers mean nothing,\n" \
    "                and no kind of attention is faster\n" \
    "  pieces        as shared: new prompts are computed in pieces beside decoding, by the\n" \
    "                costs of this machine\n" \
    "  whole         new prompts are computed as a whole, one after the other, before decoding"
/* clang-format on */
enum {
    METHOD_SHARED,
    METHOD_PER_ROW,
    METHOD_COPIES,
    METHOD_RECOMPUTE,
    METHOD_NO_ATTENTION,
    METHOD_PIECES,
    METHOD_WHOLE,
    METHODS
};
extern const method usual_methods[METHODS];

/* Seconds: median, 95 and 99 of 100, the longest. */
typedef struct spread {
    double median, most95, most99, longest;
    size_t count;
} spread;

typedef struct run_result {
    double seconds; /* by the clock */
    double busy;    /* of them at work */
    double prefill; /* of them for prompts */
    double bound;   /* least time of the same passes if everything that can be shared is */
    double latency; /* seconds a token from arrival to end, mean of the requests */
    spread first;   /* from arrival to the first token */
    spread between; /* from a token to the next one of the same answer */
    spread behind;  /* as first, of short prompts that arrive behind a long one */
    double stepping, computing; /* seconds of all steps, and of them those that compute */
    size_t finished, generated, passes;
    uint64_t prompt, cached; /* tokens of the prompts, and of them those from the cache */
    int stopped;             /* at the limit of seconds */
} run_result;

typedef struct run_args {
    const bench_model *model;
    pc_cache *cache;
    const method *how;
    double most_seconds;
    uint64_t number; /* of the run: makes the prompts' own tokens new to the cache */
} run_args;

/* Computes the states of all chains of pieces that are not in the cache. */
int workload_prepare(workload *w, const bench_model *b, pc_cache *cache, double *seconds);
int workload_run(workload *w, const run_args *args, run_result *out);
/* The most bytes of K and V at one time. */
double workload_bytes(workload *w, const bench_model *b, const method *how);

/* ------------------------------------------------------ workload_compare.c */

typedef struct workload_options {
    bench_model_options model;
    const char *methods, *picture;
    long batch, repeats, memory, seed;
    double seconds;
    int json;
} workload_options;
/* at_a_time, the_methods: the defaults as text */
/* clang-format off */
#define WORKLOAD_ROWS(o, at_a_time, the_methods) \
    BENCH_MODEL_ROWS((o).model), \
    {"batch", OPTION_NUMBER, &(o).batch, "sequences at a time (" at_a_time ")", NULL, 1, 4096}, \
    {"methods", OPTION_TEXT, &(o).methods, "methods to compare (" the_methods ")", NULL, 0, 0}, \
    {"repeats", OPTION_NUMBER, &(o).repeats, \
     "runs of each method, in turn; the median counts (1)", NULL, 1, MOST_REPEATS}, \
    {"seconds", OPTION_REAL, &(o).seconds, "a run stops after this many (600)", NULL, 0.1, 1e6}, \
    {"memory", OPTION_NUMBER, &(o).memory, \
     "MiB for K and V; a method that needs more is left out (8000)", NULL, 1, 1 << 20}, \
    {"seed", OPTION_NUMBER, &(o).seed, "of all random numbers (1)", NULL, 0, 1 << 30}, \
    {"plot", OPTION_FILE, &(o).picture, "writes the curves as SVG", NULL, 0, 0}, \
    FORMAT_ROWS((o).json, "one JSON object a row")
#define WORKLOAD_DEFAULTS(at_a_time, the_methods) \
    {.methods = (the_methods), .batch = (at_a_time), .repeats = 1, .memory = 8000, .seed = 1, \
     .seconds = 600}
/* clang-format on */

typedef struct comparison {
    const workload_options *options;
    const char *name;   /* of the benchmark, in JSON */
    const char *x_name; /* what changes from row to row of the table */
    plot *plot;
    int arrivals;           /* requests come one by one: the table shows latencies */
    int with_prepared;      /* the time of preparing counts in requests a second */
    int without_head;       /* the table has no head */
    const char *fixed_name; /* the second thing in which rows and curves differ; NULL: none */
    double fixed;
    int colour;
    double served[MOST_METHODS]; /* requests a second in the last rows; 0: left out */
    /* set by run_workloads */
    bench_model model;
    const method *methods[MOST_METHODS];
    size_t method_count;
    uint64_t runs;
    pc_cache *cache; /* of all workloads; made when first used */
} comparison;

/* What a benchmark brings: its requests. `bench` is its own struct. */
typedef struct workload_kind {
    const command *about;
    const method *methods; /* those that --methods may name */
    size_t method_count;
    int (*open)(void *bench); /* reads files; NULL: none. An exit code */
    int (*make)(const void *bench, workload *w, size_t x);
    void (*describe)(const void *bench, const workload *w, size_t index); /* as text */
    int (*measure)(void *bench, workload *w, size_t x); /* NULL: compare_methods */
} workload_kind;
/* The option with the numbers x, each from low to high. */
typedef struct x_list {
    const char *option, *text, *example;
    long low, high;
} x_list;

/* The whole benchmark: reads list and methods, opens files and model, then makes, describes,
 * measures and frees a workload for each x, and draws the picture. An exit code. */
int run_workloads(const workload_kind *kind, comparison *c, const x_list *list, void *bench);
/* Runs all methods in turn and prints a row for each. */
int compare_methods(comparison *c, workload *w, double x);
/* For the files of this family. */
int prepare_workload(comparison *c, workload *w, double *seconds);
int warm_up(comparison *c, workload *w);
int run_method(comparison *c, workload *w, const method *how, run_result *out);
int method_fits(const comparison *c, workload *w, double x, const method *how);

/* -------------------------------------------------------- workload_table.c */

void print_head(const comparison *c);
/* One row and its point in the picture; index: of the method. prepared: seconds. */
void print_row(const comparison *c, const workload *w, double x, size_t index, const run_result *r,
               double prepared);

/* --------------------------------------------------------- workload_rate.c */

/* For every method, the highest rate of arrivals (requests a second, searched from `rate` on) at
 * which the mean latency stays within `limit`. An exit code. */
int find_rates(comparison *c, workload *w, double x, double rate, double limit);

#endif
