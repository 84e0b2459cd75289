/* memo eval: score and time of a task, everything computed against the memo, in turn. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "measures.h"
#include "cmd.h"
#include "memo_session.h"
#include "plot.h"
#include "shared_layers.h"

enum { MOST_THRESHOLDS = 14, MOST_TIMES = 33 };
static const double tuned = 10; /* instead of a threshold: each bucket's own */
static const double lazy =
    11; /* no memo: every second layer uses the maps of the layer before it (LazyFormer) */
static const double san = 12; /* no memo: groups of layers with similar maps share one (SAN) */

typedef struct arguments {
    memo_session_options session;
    const char *thresholds, *picture;
    long repeats;
    double verify, percentile;
    int json;
} arguments;

typedef struct evaluation {
    const arguments *a;
    memo_session s;
    answers full, memo;
    const float **rows;
    int32_t *layers; /* of the baseline */
    double full_score;
    double cpu_ratio; /* of the row: processor time, full over memo */
    double *losses;   /* [inputs] */
    hit_losses hits;  /* of the row: losses of the inputs that reused maps */
    plot plot;
} evaluation;

typedef struct spread {
    double median, low, high;
} spread;

static const char *name_of(double threshold)
{
    return threshold == tuned ? "tuned" : threshold == lazy ? "lazy" : "san";
}

static spread spread_of(double *values, size_t count)
{
    spread s = {.median = median(values, count)};
    s.low = values[0]; /* sorted now */
    s.high = values[count - 1];
    return s;
}

/* -------------------------------------------------------------------- results */

static double score_of(evaluation *e, const answers *a)
{
    for (size_t i = 0; i < e->s.data.input_count; i++)
        e->rows[i] = a->values + i * a->width;
    return score(&e->s, e->rows, a->width);
}

/* NaN: no input was a hit, or nothing was gained. */
static double price_of(const evaluation *e, double threshold, double points, double speedup)
{
    return threshold <= tuned && !e->memo.stats.hits ? NAN
                                                     : gamma_of(e->full_score, points, speedup);
}

static json_t *gap(double value)
{
    return isfinite(value) ? json_real(value) : json_null();
}

static void print_row_json(const evaluation *e, double threshold, double points, const spread *full,
                           const spread *memo)
{
    const pc_prefill_stats *t = &e->memo.stats;
    double speedup = full->median / memo->median;
    json_t *row = json_pack("{s:s,s:I,s:f,s:f,s:f,s:f,s:f,s:f,s:f}", "measure",
                            score_name(e->s.data.kind), "inputs", (json_int_t)t->inputs,
                            "full_score", e->full_score, "score", points, "loss",
                            e->full_score - points, "hit_rate", (double)t->hits / (double)t->inputs,
                            "full_s", full->median, "memo_s", memo->median, "speedup", speedup);
    json_object_set_new(row, "threshold",
                        threshold <= 1 ? json_real(threshold) : json_string(name_of(threshold)));
    json_object_set_new(row, "cpu_speedup", json_real(e->cpu_ratio));
    json_object_set_new(row, "gamma", gap(price_of(e, threshold, points, speedup)));
    json_object_set_new(row, "exact_rate", json_real((double)t->output_hits / (double)t->inputs));
    json_object_set_new(row, "hit_percentile", json_real(e->a->percentile));
    json_object_set_new(row, "hit_loss", gap(e->hits.mean));
    json_object_set_new(row, "hit_loss_high", gap(e->hits.high));
    json_object_set_new(row, "hit_loss_worst", gap(e->hits.worst));
    json_object_set_new(row, "full_s_low", json_real(full->low));
    json_object_set_new(row, "full_s_high", json_real(full->high));
    json_object_set_new(row, "memo_s_low", json_real(memo->low));
    json_object_set_new(row, "memo_s_high", json_real(memo->high));
    json_object_set_new(row, "features_s", json_real(t->seconds_features));
    json_object_set_new(row, "search_s", json_real(t->seconds_search));
    json_object_set_new(row, "maps_s", json_real(t->seconds_maps));
    json_object_set_new(row, "forward_s", json_real(t->seconds_forward));
    json_object_set_new(row, "verify_s", json_real(t->seconds_verify));
    print_json(row);
}

static void print_losses(const hit_losses *h)
{
    if (isfinite(h->mean))
        printf("%8.4f %8.4f %8.4f ", h->mean, h->high, h->worst);
    else
        printf("%8s %8s %8s ", "-", "-", "-");
}

static void print_row(const evaluation *e, double threshold, double points, const spread *full,
                      const spread *memo)
{
    const pc_prefill_stats *t = &e->memo.stats;
    double speedup = full->median / memo->median, gamma = price_of(e, threshold, points, speedup);
    char name[32], price[32];
    if (threshold <= 1)
        snprintf(name, sizeof name, "%g", threshold);
    else
        snprintf(name, sizeof name, "%s", name_of(threshold));
    snprintf(price, sizeof price, isfinite(gamma) ? "%.3f" : "-", gamma);
    printf("%-9s %8.2f %7.2f %7.1f %7.1f ", name, points, e->full_score - points,
           100 * (double)t->hits / (double)t->inputs,
           100 * (double)t->output_hits / (double)t->inputs);
    print_losses(&e->hits);
    printf("%9.3f (%.3f-%.3f) %9.3f (%.3f-%.3f) %7.3f %7.3f %7s\n", full->median, full->low,
           full->high, memo->median, memo->low, memo->high, speedup, e->cpu_ratio, price);
}

static void print_head(const evaluation *e)
{
    printf("%s %.2f of %zu items, everything computed; %ld passes of each method in turn\n",
           score_name(e->s.data.kind), e->full_score, e->s.data.item_count, e->a->repeats);
    char high[40];
    snprintf(high, sizeof high, "at %g %%", e->a->percentile);
    printf("%-9s %8s %7s %7s %7s %8s %8s %8s %9s %15s %9s %15s %7s %7s %7s\n", "threshold", "score",
           "loss", "hits %", "exact %", "hits lose", high, "worst", "full s", "", "memo s", "",
           "ratio", "cpu", "gamma");
}

/* of_memo: hits are the inputs that reused maps; else all inputs are. */
static void judge_hits(evaluation *e, int of_memo)
{
    size_t n = 0;
    input_losses(&e->s, &e->full, &e->memo, e->losses);
    for (size_t i = 0; i < e->s.data.input_count; i++)
        if (!of_memo || e->memo.results[i].reuse == PC_REUSE_MAPS)
            e->losses[n++] = e->losses[i];
    e->hits = hit_losses_of(e->losses, n, e->a->percentile);
}

/* Both methods in turn, after one pass with the memo that is not timed. */
static int one_threshold(evaluation *e, double threshold)
{
    double full[MOST_TIMES], memo[MOST_TIMES], full_cpu[MOST_TIMES], memo_cpu[MOST_TIMES], points;
    const method everything = {.flags = 0},
                 other = {threshold > tuned ? NULL : e->s.memo, 0,
                          threshold > tuned ? e->layers : NULL, threshold < tuned ? threshold : 0};
    size_t n = (size_t)e->a->repeats;
    spread full_s, memo_s;
    int code = EXIT_OK;
    if (threshold == lazy)
        lazy_layers(e->layers, e->s.info.layers);
    if (threshold == san)
        code = san_layers(e->layers, e->s.model, &e->s.info, e->s.data.inputs,
                          e->s.data.input_count);
    if (code == EXIT_OK)
        code = answers_run(&e->memo, &e->s, &e->s.data, &other);
    for (size_t i = 0; i < n && code == EXIT_OK; i++) {
        if ((code = answers_run(&e->full, &e->s, &e->s.data, &everything)) == EXIT_OK)
            code = answers_run(&e->memo, &e->s, &e->s.data, &other);
        full[i] = e->full.seconds;
        memo[i] = e->memo.seconds;
        full_cpu[i] = e->full.cpu_seconds;
        memo_cpu[i] = e->memo.cpu_seconds;
    }
    if (code != EXIT_OK)
        return code;
    points = score_of(e, &e->memo);
    judge_hits(e, threshold <= tuned);
    full_s = spread_of(full, n);
    memo_s = spread_of(memo, n);
    e->cpu_ratio = median(full_cpu, n) / median(memo_cpu, n);
    (e->a->json ? print_row_json : print_row)(e, threshold, points, &full_s, &memo_s);
    fflush(stdout);
    if (threshold <= 1) {
        plot_point(&e->plot, "hits, %", 0, 0, 1 - threshold,
                   100 * (double)e->memo.stats.hits / (double)e->memo.stats.inputs);
        plot_point(&e->plot, "loss, points", 1, 0, 1 - threshold, e->full_score - points);
        plot_point(&e->plot, "full / memo, %", 2, 0, 1 - threshold,
                   100 * full_s.median / memo_s.median);
    }
    return EXIT_OK;
}

static int measure(evaluation *e, const double *thresholds, size_t count)
{
    const method everything = {.flags = 0};
    int code;
    if ((code = answers_new(&e->full, &e->s, &e->s.data)) != EXIT_OK
        || (code = answers_new(&e->memo, &e->s, &e->s.data)) != EXIT_OK)
        return code;
    e->losses = malloc(e->s.data.input_count * sizeof *e->losses);
    if (!e->losses || !(e->rows = malloc(e->s.data.input_count * sizeof *e->rows)))
        return plain_error("no memory for %zu inputs", e->s.data.input_count);
    if (!(e->layers = malloc((size_t)e->s.info.layers * sizeof *e->layers)))
        return plain_error("out of memory");
    if ((code = answers_run(&e->full, &e->s, &e->s.data, &everything)) != EXIT_OK)
        return code;
    e->full_score = score_of(e, &e->full);
    if (!e->a->json)
        print_head(e);
    for (size_t i = 0; i < count && code == EXIT_OK; i++)
        code = one_threshold(e, thresholds[i]);
    return code == EXIT_OK && e->a->picture ? plot_write(&e->plot, e->a->picture) : code;
}

static int evaluate(const arguments *a, const double *thresholds, size_t count)
{
    static evaluation e;
    pc_memo_options memo = PC_MEMO_OPTIONS_INIT;
    int code;
    e = (evaluation){.a = a,
                     .plot = {.title = "Reused attention maps",
                              .x_label = "distance of features that is accepted (1 - threshold)",
                              .y_label = "percent, points"}};
    memo.flags = PC_MEMO_READ_ONLY;
    memo.verify_share = a->verify > 0 ? a->verify : -1;
    watch_interrupt();
    if ((code = session_open(&e.s, &a->session, &memo)) == EXIT_OK
        && (code = session_read(&e.s)) == EXIT_OK && (code = session_train_head(&e.s)) == EXIT_OK)
        code = e.s.data.item_count ? measure(&e, thresholds, count)
                                   : plain_error("no row of the data has a score or an answer");
    free(e.rows);
    free(e.losses);
    free(e.layers);
    answers_free(&e.full);
    answers_free(&e.memo);
    session_close(&e.s);
    return code;
}

/* "0.99,tuned" to thresholds. Returns how many; 0: not such a list. */
static size_t read_thresholds(const char *list, double *out)
{
    size_t count = 0;
    for (char *end; count < MOST_THRESHOLDS; list = end + 1) {
        size_t n = strcspn(list, ",");
        double named = n == 5 && !strncmp(list, "tuned", n)  ? tuned
                       : n == 4 && !strncmp(list, "lazy", n) ? lazy
                       : n == 3 && !strncmp(list, "san", n)  ? san
                                                             : 0;
        if (named > 1) {
            out[count++] = named;
            end = (char *)(uintptr_t)(list + n);
        } else {
            out[count] = strtod(list, &end);
            if (end == list || !(out[count] >= -1e9 && out[count] <= 1))
                return 0;
            count++;
        }
        if (!*end)
            return count;
        if (*end != ',')
            return 0;
    }
    return 0;
}

static int run_command_line(int argc, char **argv)
{
    arguments a = {.session = {.batch = 16, .seed = 1, .data = {.kind = DATA_PAIRS, .judged = 1}},
                   .thresholds = "0.995,0.99,0.95,tuned",
                   .repeats = 3,
                   .percentile = HIT_PERCENTILE};
    const option_row rows[] = {
        MEMO_MODEL_ROWS(a.session),
        DATA_ROWS(a.session.data),
        MEMO_JUDGE_ROWS(a.session),
        {"thresholds", OPTION_TEXT, &a.thresholds,
         "similarities, `tuned`, `lazy`, `san` (0.995,0.99,0.95,tuned)", NULL, 0, 0},
        {"repeats", OPTION_NUMBER, &a.repeats, "passes of each method, in turn (3)", NULL, 1,
         MOST_TIMES},
        {"verify", OPTION_REAL, &a.verify,
         "share of hits that are also computed in full (0; in use 0.01)", NULL, 0, 1},
        {"hit-percentile", OPTION_REAL, &a.percentile, "percentile of the losses of hits (95)",
         NULL, 1, 100},
        {"plot", OPTION_FILE, &a.picture, "curves over the thresholds, as SVG", NULL, 0, 0},
        {"json", OPTION_FLAG, &a.json, "JSON, an object a threshold", NULL, 0, 0},
    };
    double thresholds[MOST_THRESHOLDS];
    const char *others[1];
    size_t count;
    int code;
    if ((code = read_options(&memo_eval, argc, argv, rows, sizeof rows / sizeof *rows, others, 0,
                             &count))
            >= 0
        || (code = session_check(&memo_eval, &a.session, 1)) >= 0)
        return code;
    if (a.session.data.kind == DATA_TEXTS)
        return usage_error(&memo_eval, "--kind texts has no score; use pairs, labels or choices");
    if (!(count = read_thresholds(a.thresholds, thresholds)))
        return usage_error(&memo_eval,
                           "--thresholds takes up to %d numbers of at most 1, `tuned`, `lazy`, "
                           "`san`, as in 0.99,tuned",
                           MOST_THRESHOLDS);
    return plot_may_write(a.picture) ? EXIT_INPUT : evaluate(&a, thresholds, count);
}

const command memo_eval = {
    .name = "memo eval",
    .usage = "memo eval --model M --memo DIR --data FILE --kind pairs|labels|choices [options]",
    .summary = "score and time, everything computed against the memo",
    .details = "Score (Spearman of pairs, accuracy of labels and choices, times 100) and time of "
               "all inputs:\n"
               "everything computed against the memo, in turn. The memo's time includes features, "
               "search and maps.\n"
               "  hits       share of the inputs that reused maps or outputs\n"
               "  exact      share of the inputs that are remembered word for word and got back "
               "their outputs\n"
               "  hits lose  loss of the inputs that reused maps, in the mean, at a percentile and "
               "at worst:\n"
               "             1 - cosine of both embeddings; of choices 1 if another one is chosen\n"
               "  ratio      time of the full computation over that with the memo; cpu: the same "
               "of processor time\n"
               "  gamma      lost score as a fraction, over the ratio of times minus 1; less is "
               "better; - without\n"
               "             hits or without a gain\n"
               "`lazy`: no memo; every second layer uses the maps of the layer before it "
               "(LazyFormer). `san`: no\n"
               "memo; groups of layers with similar maps share one.\n\n" DATA_HELP,
    .run = run_command_line};
