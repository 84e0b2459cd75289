/* bench memo: the time that a remembered attention map saves, and the cost of looking for one.
 *
 * Prompts of random tokens, four methods in turn: everything computed without a memo; with the maps
 * of the nearest remembered prompt of the same length, however unlike it is (the time includes
 * features, search and maps); with a memo in which nothing is similar enough; and the attention of
 * one layer, for the bound (memo_bound.h). Other prefills, in turn with a memo open and without,
 * show what a memo costs that is not used. Both costs are medians of ratios of one turn, with the
 * range that holds the true median 19 times in 20. */
#include <promptcache/memo.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "bench.h"
#include "bench_model.h"
#include "draw.h"
#include "file_tree.h"
#include "machine.h"
#include "memo_bound.h"
#include "plot.h"

enum { MOST = 16, MOST_TIMES = 257, ARMS = 4, SHORT = 8, SHORT_RECORDS = 40 };
enum { FULL, HIT, MISS, ATTEND };

/* Additional time, as a fraction of the time without. */
typedef struct cost {
    double median, low, high;
} cost;

typedef struct arguments {
    bench_model_options model;
    const char *lengths, *batches, *picture, *folder;
    long repeats, records, map, index, seed;
    int json;
} arguments;

typedef struct bench {
    const arguments *a;
    bench_model model;
    pc_memo *memo;
    char folder[512];
    uint64_t random;
    long lengths[MOST], batches[MOST];
    size_t length_count, batch_count;
    plot plot;
} bench;

/* -------------------------------------------------------------------- prompts */

typedef struct prompts {
    pc_input *inputs;
    int32_t *tokens;
    float *embeddings;
    size_t count;
} prompts;

static void free_prompts(prompts *p)
{
    free(p->inputs);
    free(p->tokens);
    free(p->embeddings);
}

static int make_prompts(bench *b, prompts *p, size_t count, size_t length)
{
    *p = (prompts){.count = count};
    p->inputs = calloc(count, sizeof *p->inputs);
    p->tokens = malloc(count * length * sizeof *p->tokens);
    p->embeddings = malloc(count * (size_t)b->model.info.hidden * sizeof *p->embeddings);
    if (!p->inputs || !p->tokens || !p->embeddings)
        return plain_error("no memory for %zu prompts of %zu tokens", count, length);
    for (size_t i = 0; i < count * length; i++)
        p->tokens[i] = (int32_t)(draw_bits(&b->random) % (uint64_t)b->model.info.vocab);
    for (size_t i = 0; i < count; i++)
        p->inputs[i] = (pc_input){p->tokens + i * length, length, NULL};
    return EXIT_OK;
}

static int prefill(const bench *b, const prompts *p, int arm, double *us, pc_prefill_stats *stats)
{
    pc_prefill_options o = PC_PREFILL_OPTIONS_INIT;
    double began = machine_now();
    o.memo = arm == FULL ? NULL : b->memo;
    static const double nearest = -INFINITY;
    o.threshold = arm == HIT ? &nearest : NULL;
    o.embeddings = p->embeddings;
    o.cancelled = is_interrupted;
    *stats = (pc_prefill_stats)PC_PREFILL_STATS_INIT;
    if (pc_prefill(b->model.model, p->inputs, sizeof(pc_input), p->count, &o, stats) < 0)
        return input_error("prefill", NULL);
    *us = 1e6 * (machine_now() - began);
    if (arm != FULL && stats->hits != (arm == HIT ? p->count : 0))
        return plain_error("%llu of %zu prompts reused maps, but %s should",
                           (unsigned long long)stats->hits, p->count, arm == HIT ? "all" : "none");
    return EXIT_OK;
}

/* ----------------------------------------------------------------------- memo */

static int add(bench *b, size_t count, size_t length)
{
    prompts p;
    pc_memo_work work = PC_MEMO_WORK_INIT;
    int code = make_prompts(b, &p, count, length);
    work.progress = stop_loading;
    if (code == EXIT_OK && pc_memo_add(b->memo, p.inputs, sizeof(pc_input), count, &work) < 0)
        code = input_error("memo", NULL);
    free_prompts(&p);
    return code;
}

/* Bytes of the maps of all records. */
static double memo_bytes(const bench *b)
{
    double sum = 0, weight = b->a->map == 1 ? 1 : 2;
    for (size_t i = 0; i < b->length_count; i++) {
        double n = (double)b->lengths[i],
               pairs = is_encoder(&b->model.info) ? n * n : n * (n + 1) / 2;
        sum += (double)b->a->records * pairs * weight * b->model.info.heads * b->model.info.layers;
    }
    return sum;
}

static int make_folder(bench *b)
{
    struct statvfs space;
    double bytes = memo_bytes(b);
    snprintf(b->folder, sizeof b->folder - 32, "%s",
             b->a->folder ? b->a->folder : temporary_folder());
    if (statvfs(b->folder, &space)
        || (double)space.f_bavail * (double)space.f_frsize < 1.2 * bytes) {
        plain_error("%s: no room for %.1f GB of maps; use another --folder or fewer --records",
                    b->folder, bytes / 1e9);
        *b->folder = 0;
        return EXIT_INPUT;
    }
    strcat(b->folder, "/promptcache-memo-XXXXXX");
    if (mkdtemp(b->folder))
        return EXIT_OK;
    plain_error("%s: the folder cannot be made", b->folder);
    *b->folder = 0;
    return EXIT_INPUT;
}

static int open_memo(bench *b, pc_memo_options *o)
{
    o->index = (uint32_t)b->a->index;
    o->verify_share = -1;
    return pc_memo_open(&b->memo, b->model.model, b->folder, o) == PC_OK
               ? EXIT_OK
               : input_error("memo", NULL);
}

static int reopen_memo(bench *b)
{
    pc_memo_options o = PC_MEMO_OPTIONS_INIT;
    return open_memo(b, &o);
}

static void close_memo(bench *b)
{
    pc_memo_free(b->memo);
    b->memo = NULL;
}

/* One bucket for all lengths: short prompts cost little and are enough to train its projector. */
static int make_memo(bench *b)
{
    pc_memo_options o = PC_MEMO_OPTIONS_INIT;
    pc_memo_work work = PC_MEMO_WORK_INIT;
    uint32_t longest = SHORT;
    int code = make_folder(b);
    if (code != EXIT_OK)
        return code;
    for (size_t i = 0; i < b->length_count; i++)
        longest = (uint32_t)b->lengths[i] > longest ? (uint32_t)b->lengths[i] : longest;
    o.bucket_tokens = &longest;
    o.bucket_count = 1;
    o.map_format = b->a->map == 1 ? PC_MAP_U8 : PC_MAP_F16;
    code = open_memo(b, &o);
    if (code == EXIT_OK)
        code = add(b, SHORT_RECORDS, SHORT);
    for (size_t i = 0; i < b->length_count && code == EXIT_OK; i++)
        code = add(b, (size_t)b->a->records, (size_t)b->lengths[i]);
    work.epochs = 1;
    work.progress = stop_loading;
    if (code == EXIT_OK
        && (pc_memo_train(b->memo, &work) < 0
            || pc_memo_set_threshold(b->memo, 0, 1.0, PC_LOSS_COSINE, 0, NULL) < 0))
        code = input_error("memo", NULL);
    return code;
}

/* -------------------------------------------------------------------- results */

typedef struct row {
    memo_shape shape;
    double us[ARMS];
    cost miss, off;
    memo_parts parts;
    pc_prefill_stats hit;
} row;

static void print_row(bench *b, const row *r)
{
    size_t length = r->shape.length, batch = r->shape.batch;
    const memo_parts *p = &r->parts;
    double speedup = r->us[FULL] / r->us[HIT], bound = r->us[FULL] / p->bound_us;
    double search = 1e6 * r->hit.seconds_search, features = 1e6 * r->hit.seconds_features,
           maps = 1e6 * r->hit.seconds_maps;
    char name[48];
    snprintf(name, sizeof name, "batch %zu: hit", batch);
    plot_point(&b->plot, name, (int)batch, 0, (double)length, speedup);
    snprintf(name, sizeof name, "batch %zu: bound", batch);
    plot_point(&b->plot, name, (int)batch, 1, (double)length, bound);
    if (b->a->json)
        print_json(json_pack(
            "{s:I,s:I,s:f,s:f,s:f,s:f,s:f,s:f,s:[f,f],s:f,s:[f,f],s:f,s:f,s:f,s:f,s:f,s:f,s:f,s:f}",
            "length", (json_int_t)length, "batch", (json_int_t)batch, "full_us", r->us[FULL],
            "hit_us", r->us[HIT], "speedup", speedup, "bound_speedup", bound, "bound_share",
            p->bound_us / r->us[HIT], "miss_overhead", r->miss.median, "miss_range", r->miss.low,
            r->miss.high, "off_overhead", r->off.median, "off_range", r->off.low, r->off.high,
            "miss_us", r->us[MISS], "features_us", features, "search_us", search, "maps_us", maps,
            "attend_us", p->attend_us, "qk_us", p->qk_us, "values_us", p->values_us, "bound_us",
            p->bound_us));
    else
        printf("%6zu %6zu %11.0f %11.0f %8.3f %8.3f %7.1f %6.2f (%5.2f to %5.2f) %6.2f (%5.2f to "
               "%5.2f) %9.0f %7.0f %7.0f\n",
               length, batch, r->us[FULL], r->us[HIT], speedup, bound,
               100 * p->bound_us / r->us[HIT], 100 * r->miss.median, 100 * r->miss.low,
               100 * r->miss.high, 100 * r->off.median, 100 * r->off.low, 100 * r->off.high,
               features, search, maps);
    fflush(stdout);
}

/* The true median lies between two ranks 19 times in 20: those of the heads of a coin thrown n
 * times.
 */
static cost cost_of(const double *with, const double *without, size_t n)
{
    double ratios[MOST_TIMES], half = 0.98 * sqrt((double)n), middle = 0.5 * (double)(n - 1);
    cost c;
    for (size_t i = 0; i < n; i++)
        ratios[i] = with[i] / without[i] - 1;
    c.median = median(ratios, n); /* sorts the ratios */
    c.low = ratios[(size_t)fmax(floor(middle - half), 0)];
    c.high = ratios[(size_t)fmin(ceil(middle + half), (double)(n - 1))];
    return c;
}

/* The methods in turns, each of which begins with another method. */
static int measure(bench *b, const prompts *p, row *r)
{
    double times[ARMS][MOST_TIMES];
    size_t n = (size_t)b->a->repeats;
    pc_prefill_stats stats;
    bound_attention attention;
    int code = bound_attention_open(&attention, &b->model, &r->shape);
    for (size_t i = 0; i <= n && code == EXIT_OK; i++) /* the first turn warms up */
        for (size_t k = 0; k < ARMS && code == EXIT_OK; k++) {
            size_t arm = (k + i) % ARMS;
            double *us = &times[arm][i ? i - 1 : 0];
            code = arm == ATTEND ? bound_attention_time(&attention, us)
                                 : prefill(b, p, (int)arm, us, &stats);
            if (arm == HIT)
                r->hit = stats;
        }
    bound_attention_close(&attention);
    if (code != EXIT_OK)
        return code;
    r->miss = cost_of(times[MISS], times[FULL], n);
    for (size_t k = 0; k < ARMS; k++)
        r->us[k] = median(times[k], n);
    memo_parts_of(&b->model, &r->shape, r->us[FULL], r->us[ATTEND], &r->parts);
    return EXIT_OK;
}

/* Leaves the memo open. */
static int measure_off(bench *b, const prompts *p, cost *off)
{
    double with[MOST_TIMES], without[MOST_TIMES];
    size_t n = (size_t)b->a->repeats;
    pc_prefill_stats stats;
    int code = EXIT_OK;
    for (size_t i = 0; i <= n && code == EXIT_OK; i++) {
        size_t at = i ? i - 1 : 0;
        close_memo(b);
        if ((code = prefill(b, p, FULL, &without[at], &stats)) == EXIT_OK
            && (code = reopen_memo(b)) == EXIT_OK)
            code = prefill(b, p, FULL, &with[at], &stats);
    }
    if (code == EXIT_OK)
        *off = cost_of(with, without, n);
    return code;
}

static int one_row(bench *b, size_t l, size_t k)
{
    row r = {.shape = {(size_t)b->lengths[l], (size_t)b->batches[k], !is_encoder(&b->model.info),
                       b->a->map == 1 ? 1 : 2}};
    prompts p;
    int code = make_prompts(b, &p, r.shape.batch, r.shape.length);
    if (code == EXIT_OK && (code = measure(b, &p, &r)) == EXIT_OK
        && (code = measure_off(b, &p, &r.off)) == EXIT_OK)
        print_row(b, &r);
    free_prompts(&p);
    return code;
}

static void drop_long(bench *b)
{
    size_t count = 0;
    for (size_t i = 0; i < b->length_count; i++) {
        if (b->model.info.context_length > 0 && b->lengths[i] > b->model.info.context_length)
            fprintf(stderr, "length %ld: left out, the model's context is %d\n", b->lengths[i],
                    b->model.info.context_length);
        else
            b->lengths[count++] = b->lengths[i];
    }
    b->length_count = count;
}

static int run(bench *b)
{
    int code;
    drop_long(b);
    if (!b->length_count)
        return plain_error("no length is left");
    code = make_memo(b);
    if (code == EXIT_OK && !b->a->json)
        printf("%s, %ld turns; %.0f GFLOP/s, %.1f GB/s measured\n%6s %6s %11s %11s %8s %8s %7s "
               "%23s %23s %9s %7s %7s\n",
               b->model.info.architecture, b->a->repeats, b->model.machine.flop_rate / 1e9,
               b->model.machine.read_rate / 1e9, "length", "batch", "full us", "hit us", "speedup",
               "bound", "% of it", "miss, %", "off, %", "features", "search", "maps");
    for (size_t l = 0; l < b->length_count; l++)
        for (size_t k = 0; k < b->batch_count && code == EXIT_OK; k++)
            code = one_row(b, l, k);
    return code == EXIT_OK && b->a->picture ? plot_write(&b->plot, b->a->picture) : code;
}

static int start(const arguments *a, const command *about)
{
    static bench b;
    int code;
    b = (bench){.a = a,
                .random = (uint64_t)a->seed,
                .plot = {.title = "Prefill with remembered attention maps",
                         .x_label = "tokens",
                         .y_label = "times faster"}};
    b.length_count = read_numbers(a->lengths, b.lengths, MOST);
    b.batch_count = read_numbers(a->batches, b.batches, MOST);
    for (size_t i = 0; i < b.length_count; i++)
        if (b.lengths[i] < 2 || b.lengths[i] > 1 << 16)
            return usage_error(about, "--length: 2 to %d", 1 << 16);
    for (size_t i = 0; i < b.batch_count; i++)
        if (b.batches[i] < 1 || b.batches[i] > 1024)
            return usage_error(about, "--batch: 1 to 1024");
    if (!b.length_count || !b.batch_count)
        return usage_error(about, "--length and --batch take up to %d numbers, as in 128,512",
                           MOST);
    if (plot_may_write(a->picture) != EXIT_OK)
        return EXIT_INPUT;
    watch_interrupt();
    if ((code = bench_model_open(&b.model, &a->model, about)) == EXIT_OK)
        code = run(&b);
    pc_memo_free(b.memo);
    if (*b.folder)
        remove_tree(b.folder);
    bench_model_close(&b.model);
    return code;
}

static int run_command_line(int argc, char **argv)
{
    arguments a = {
        .lengths = "128,512,1024", .batches = "1,8", .repeats = 9, .records = 2, .seed = 1};
    const option_row rows[] = {
        BENCH_MODEL_ROWS(a.model),
        {"length", OPTION_TEXT, &a.lengths, "tokens of a prompt (128,512,1024)", NULL, 0, 0},
        {"batch", OPTION_TEXT, &a.batches, "prompts together (1,8)", NULL, 0, 0},
        {"repeats", OPTION_NUMBER, &a.repeats, "turns (9)", NULL, 1, MOST_TIMES - 1},
        {"records", OPTION_NUMBER, &a.records, "remembered prompts of each length (2)", NULL, 1,
         10000},
        {"map", OPTION_CHOICE, &a.map, "number format of the maps", "f16 u8", 0, 0},
        {"index", OPTION_CHOICE, &a.index, "index of features", "auto scan flat hnsw ivf", 0, 0},
        {"folder", OPTION_DIR, &a.folder,
         "for the memo, which is removed at the end ($TMPDIR, or /tmp)", NULL, 0, 0},
        {"seed", OPTION_NUMBER, &a.seed, "of the prompts (1)", NULL, 0, 1e9},
        {"plot", OPTION_FILE, &a.picture, "speed-up over length, as SVG", NULL, 0, 0},
        FORMAT_ROWS(a.json, "one JSON object a row"),
    };
    const char *others[1];
    size_t count;
    int code = read_options(&bench_memo, argc, argv, rows, sizeof rows / sizeof *rows, others, 0,
                            &count);
    return code >= 0 ? code : start(&a, &bench_memo);
}

const command bench_memo = {
    .name = "memo",
    .usage = "memo [--shape NAME | --model M] [--length LIST] [--batch LIST] [options]",
    .summary = "prefill with remembered attention maps, against computing them",
    .details = "Prefill of prompts of random tokens: everything computed; with the maps of a "
               "remembered prompt\n"
               "(the time includes features, search and maps); and with a memo in which nothing is "
               "similar.\n"
               "  bound  least time, from parts measured in the same run: full, less its "
               "attention, queries and\n"
               "         keys, plus maps times values at the peak\n"
               "  miss   cost of a memo that does not help; off: of one that is open but not used. "
               "Medians of\n"
               "         ratios, and the range that holds the true one 19 times in 20",
    .run = run_command_line};
