/* memo tune: thresholds of a memo, for a loss by the library's measures or by the task's own.
 *
 * By the task's own measure, every input is computed twice: in full, and with the maps of its
 * nearest record, however unlike that is. The score at any thresholds then follows without
 * computing again: an input has the values of the second method if its similarity reaches the
 * threshold of its bucket.
 *
 * Buckets are tuned in the order of their inputs, most first. Each may lose its share of the limit,
 * by inputs, and what earlier buckets left. Its threshold is the lowest one such that it and all
 * higher candidates (up to STEPS, spread evenly over its inputs) stay within that. So a lucky value
 * below unlucky ones does not count. No threshold is below --least, where few inputs would say
 * little about others. A threshold needs LEAST_HITS hits that are not remembered word for word.
 *
 * A validation set is a sample, and another one may lose more by chance. The loss that must stay
 * within the limit is therefore the one that 19 of 20 samples of the same size do not exceed; they
 * are drawn with repetition from this one (bootstrap). */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "measures.h"
#include "cmd.h"
#include "memo_session.h"
#include "plot.h"

enum { STEPS = 64, CURVE = 14, SAMPLES = 100, LEAST_HITS = 30 };
static const double shut = 2; /* no similarity reaches this threshold */

typedef struct arguments {
    memo_session_options session;
    const char *loss, *measure, *picture;
    double limit, least, hit_limit, percentile;
    int json, dry;
} arguments;

typedef struct tuning {
    const arguments *a;
    memo_session s;
    answers full, near; /* near: with the maps of the nearest record */
    const float **rows;
    size_t *buckets;    /* of inputs; MEMO_BUCKETS: none */
    double *similarity; /* of inputs; may be negative; -INFINITY: no record */
    double *sorted;
    double *losses, *of_hits; /* [inputs] with the maps of the nearest record; of some hits */
    double thresholds[MEMO_BUCKETS];
    size_t inputs[MEMO_BUCKETS];
    double full_score;
    double *full_items, *mixed_items; /* of items: item_values */
    size_t *sample;                   /* [SAMPLES][items] */
    double sample_full[SAMPLES];      /* scores */
    plot plot;
} tuning;

/* Score at t->thresholds, and the number of hits. */
static double mixed(tuning *t, size_t *hits)
{
    *hits = 0;
    for (size_t i = 0; i < t->s.data.input_count; i++) {
        int hit = t->buckets[i] < MEMO_BUCKETS && t->similarity[i] >= t->thresholds[t->buckets[i]];
        t->rows[i] = (hit ? t->near.values : t->full.values) + i * t->full.width;
        *hits += (size_t)hit;
    }
    return score(&t->s, t->rows, t->full.width);
}

/* ------------------------------------------------------------------- chance */

static int draw_samples(tuning *t)
{
    size_t n = t->s.data.item_count;
    uint64_t state = (uint64_t)t->a->session.seed + 1;
    t->full_items = malloc(2 * n * sizeof *t->full_items);
    t->sample = malloc(SAMPLES * n * sizeof *t->sample);
    if (!t->full_items || !t->sample)
        return plain_error("no memory for %zu items", n);
    t->mixed_items = t->full_items + n;
    item_values(&t->s, t->rows, t->full.width, t->full_items);
    for (size_t i = 0; i < SAMPLES * n; i++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        t->sample[i] = (size_t)((state >> 33) % n);
    }
    for (size_t k = 0; k < SAMPLES; k++)
        t->sample_full[k] = score_items(&t->s, t->full_items, t->sample + k * n, n);
    return EXIT_OK;
}

/* The loss of score at t->thresholds that 19 of 20 samples do not exceed. */
static double likely_loss(tuning *t)
{
    double losses[SAMPLES];
    size_t n = t->s.data.item_count, hits;
    mixed(t, &hits);
    item_values(&t->s, t->rows, t->full.width, t->mixed_items);
    for (size_t k = 0; k < SAMPLES; k++)
        losses[k] = t->sample_full[k] - score_items(&t->s, t->mixed_items, t->sample + k * n, n);
    qsort(losses, SAMPLES, sizeof *losses, ascending);
    return losses[SAMPLES - 1 - SAMPLES / 20];
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x < y) - (x > y);
}

/* The similarities of the inputs of a bucket (MEMO_BUCKETS: of all), highest first. */
static size_t sort_similarities(tuning *t, size_t bucket)
{
    size_t count = 0;
    for (size_t i = 0; i < t->s.data.input_count; i++)
        if (t->buckets[i] < MEMO_BUCKETS && (t->buckets[i] == bucket || bucket == MEMO_BUCKETS)
            && isfinite(t->similarity[i]))
            t->sorted[count++] = t->similarity[i];
    qsort(t->sorted, count, sizeof *t->sorted, by_value);
    return count;
}

/* Losses of the hits of a bucket (MEMO_BUCKETS: of all) that are not remembered word for word. */
static hit_losses losses_of(tuning *t, size_t bucket)
{
    size_t n = 0;
    for (size_t i = 0; i < t->s.data.input_count; i++) {
        size_t b = t->buckets[i];
        if (b < MEMO_BUCKETS && (b == bucket || bucket == MEMO_BUCKETS) && t->similarity[i] < 1
            && t->similarity[i] >= t->thresholds[b])
            t->of_hits[n++] = t->losses[i];
    }
    return hit_losses_of(t->of_hits, n, t->a->percentile);
}

static int is_within(tuning *t, size_t bucket, double allowed)
{
    if (t->thresholds[bucket] < t->a->least || !(likely_loss(t) <= allowed))
        return 0;
    return t->a->hit_limit < 0 || losses_of(t, bucket).high <= t->a->hit_limit;
}

static void search_bucket(tuning *t, size_t bucket, double allowed)
{
    size_t count = sort_similarities(t, bucket), steps = count < STEPS ? count : STEPS, same = 0;
    while (same < count && t->sorted[same] >= 1)
        same++;
    for (size_t i = 1; i <= steps; i++) {
        double before = t->thresholds[bucket];
        if (i * count / steps < same + LEAST_HITS)
            continue;
        t->thresholds[bucket] = t->sorted[i * count / steps - 1];
        if (!is_within(t, bucket, allowed)) {
            t->thresholds[bucket] = before;
            return;
        }
    }
}

static void search(tuning *t)
{
    size_t seen = 0, all = t->s.data.input_count;
    int done[MEMO_BUCKETS] = {0};
    for (size_t i = 0; i < t->s.bucket_count; i++)
        t->thresholds[i] = shut;
    for (size_t n = 0; n < t->s.bucket_count; n++) {
        size_t best = MEMO_BUCKETS;
        for (size_t i = 0; i < t->s.bucket_count; i++)
            if (!done[i] && (best == MEMO_BUCKETS || t->inputs[i] > t->inputs[best]))
                best = i;
        done[best] = 1;
        seen += t->inputs[best];
        search_bucket(t, best, t->a->limit * (double)seen / (double)all);
    }
}

/* What hits may lose in use before the bucket closes itself: twice the mean 1 - cosine of its hits
 * here. 0, no limit: choices, of which only the logits of the candidates are known here. */
static double hit_limit(const tuning *t, size_t bucket)
{
    double sum = 0;
    size_t hits = 0;
    for (size_t i = 0; i < t->s.data.input_count && t->s.data.kind != DATA_CHOICES; i++)
        if (t->buckets[i] == bucket && t->similarity[i] >= t->thresholds[bucket]) {
            sum += t->losses[i];
            hits++;
        }
    return hits ? 2 * fmax(sum / (double)hits, 1e-6) : 0;
}

static int set_thresholds(tuning *t)
{
    uint32_t kind = t->s.data.kind == DATA_CHOICES ? PC_LOSS_CHANGED : PC_LOSS_COSINE;
    for (size_t i = 0; i < t->s.bucket_count; i++) {
        pc_memo_bucket b = PC_MEMO_BUCKET_INIT, measured = PC_MEMO_BUCKET_INIT;
        hit_losses hits = losses_of(t, i);
        measured.hit_percentile = isfinite(hits.mean) ? t->a->percentile : 0;
        measured.hit_loss = isfinite(hits.mean) ? hits.mean : 0;
        measured.hit_loss_high = isfinite(hits.mean) ? hits.high : 0;
        measured.hit_loss_worst = isfinite(hits.mean) ? hits.worst : 0;
        if (pc_memo_get_bucket(t->s.memo, i, &b) < 0
            || (b.trained
                && pc_memo_set_threshold(t->s.memo, i, t->thresholds[i], kind, hit_limit(t, i),
                                         &measured)
                       < 0))
            return input_error("threshold", NULL);
    }
    return EXIT_OK;
}

/* ---------------------------------------------------------------------- curve */

static void print_point(tuning *t, const char *name, double points, size_t hits)
{
    double share = 100 * (double)hits / (double)t->s.data.input_count;
    hit_losses lost = losses_of(t, MEMO_BUCKETS);
    if (t->a->json)
        print_json(json_pack("{s:s,s:s,s:f,s:f,s:f,s:f,s:f,s:o,s:o,s:o}", "measure",
                             score_name(t->s.data.kind), "threshold", name, "full_score",
                             t->full_score, "score", points, "loss", t->full_score - points,
                             "hit_rate", share / 100, "hit_percentile", t->a->percentile,
                             "hit_loss", json_number(lost.mean), "hit_loss_high",
                             json_number(lost.high), "hit_loss_worst", json_number(lost.worst)));
    else if (isfinite(lost.mean))
        printf("%-10s %8.2f %8.2f %8.1f  %9.4f %9.4f %9.4f\n", name, points, t->full_score - points,
               share, lost.mean, lost.high, lost.worst);
    else
        printf("%-10s %8.2f %8.2f %8.1f  %9s %9s %9s\n", name, points, t->full_score - points,
               share, "-", "-", "-");
}

static void one_point(tuning *t, double threshold)
{
    char name[32];
    size_t hits;
    double points;
    for (size_t i = 0; i < t->s.bucket_count; i++)
        t->thresholds[i] = threshold;
    points = mixed(t, &hits);
    snprintf(name, sizeof name, "%.6f", threshold);
    print_point(t, name, points, hits);
    plot_point(&t->plot, "hits, %", 0, 0, 1 - threshold,
               100 * (double)hits / (double)t->s.data.input_count);
    plot_point(&t->plot, "loss, points", 1, 0, 1 - threshold, t->full_score - points);
}

/* One threshold for all buckets. */
static void print_curve(tuning *t)
{
    size_t count = sort_similarities(t, MEMO_BUCKETS);
    double candidates[CURVE];
    for (size_t i = 0; i < CURVE && count; i++)
        candidates[i] = t->sorted[(i + 1) * count / CURVE ? (i + 1) * count / CURVE - 1 : 0];
    if (!t->a->json)
        printf(
            "%-10s %8s %8s %8s  hits lose  at %3g %%     worst   (%s, everything computed: %.2f)\n",
            "threshold", "score", "loss", "hits %", t->a->percentile, score_name(t->s.data.kind),
            t->full_score);
    for (size_t i = 0; i < CURVE && count; i++)
        one_point(t, candidates[i]);
}

static int by_measure(tuning *t)
{
    size_t hits, n = t->s.data.input_count;
    double points;
    int code;
    for (size_t i = 0; i < n; i++) {
        const pc_memo_result *r = &t->near.results[i];
        if (!bucket_of(&t->s, t->s.data.inputs[i].count, &t->buckets[i]))
            t->buckets[i] = MEMO_BUCKETS;
        else
            t->inputs[t->buckets[i]]++;
        t->similarity[i] = r->record >= 0 && r->reuse != PC_REUSE_NONE ? r->similarity : -INFINITY;
        t->rows[i] = t->full.values + i * t->full.width;
    }
    t->full_score = score(&t->s, t->rows, t->full.width);
    if ((code = draw_samples(t)) != EXIT_OK)
        return code;
    print_curve(t);
    search(t);
    points = mixed(t, &hits);
    print_point(t, "tuned", points, hits);
    if (t->a->picture && plot_write(&t->plot, t->a->picture) != EXIT_OK)
        return EXIT_INPUT;
    return t->a->dry ? EXIT_OK : set_thresholds(t);
}

static int compute_both(tuning *t)
{
    const method everything = {.flags = 0}, nearest = {.memo = t->s.memo, .threshold = -INFINITY};
    size_t n = t->s.data.input_count;
    int code;
    if ((code = session_train_head(&t->s)) != EXIT_OK
        || (code = answers_new(&t->full, &t->s, &t->s.data)) != EXIT_OK
        || (code = answers_new(&t->near, &t->s, &t->s.data)) != EXIT_OK)
        return code;
    t->rows = malloc(n * sizeof *t->rows);
    t->buckets = malloc(n * sizeof *t->buckets);
    t->similarity = malloc(4 * n * sizeof *t->similarity);
    if (!t->rows || !t->buckets || !t->similarity)
        return plain_error("no memory for %zu inputs", n);
    t->sorted = t->similarity + n;
    t->losses = t->sorted + n;
    t->of_hits = t->losses + n;
    if ((code = answers_run(&t->full, &t->s, &t->s.data, &everything)) == EXIT_OK)
        code = answers_run(&t->near, &t->s, &t->s.data, &nearest);
    if (code == EXIT_OK)
        input_losses(&t->s, &t->full, &t->near, t->losses);
    return code;
}

/* ----------------------------------------------------------- what the library chooses */

static int by_loss(tuning *t, uint32_t loss)
{
    memo_progress progress = {.shown = 0};
    pc_memo_work work = PC_MEMO_WORK_INIT;
    pc_status status;
    work.progress = show_memo_progress;
    work.progress_user = &progress;
    work.loss = loss;
    work.limit = t->a->limit;
    work.hit_limit = t->a->hit_limit < 0
                         ? 0
                         : fmax(t->a->hit_limit, 1e-300); /* 0 means the library's own limit */
    work.hit_percentile = t->a->percentile;
    status = pc_memo_tune(t->s.memo, t->s.data.inputs, sizeof(pc_input), t->s.data.input_count,
                          &work);
    end_progress(&progress);
    return status < 0 ? input_error("tune", NULL) : EXIT_OK;
}

static int tune(const arguments *a, long loss)
{
    static tuning t;
    pc_memo_options memo = PC_MEMO_OPTIONS_INIT;
    int code;
    t = (tuning){.a = a,
                 .plot = {.title = "Reused attention maps",
                          .x_label = "distance of features that is accepted (1 - threshold)",
                          .y_label = "percent, points"}};
    memo.verify_share = -1;
    watch_interrupt();
    if ((code = session_open(&t.s, &a->session, &memo)) == EXIT_OK
        && (code = session_read(&t.s)) == EXIT_OK) {
        if (loss >= 0)
            code = by_loss(&t, (uint32_t)loss);
        else if (!t.s.data.item_count)
            code = plain_error("no row of the data has a score or an answer");
        else if ((code = compute_both(&t)) == EXIT_OK)
            code = by_measure(&t);
    }
    if (code == EXIT_OK)
        code = print_buckets(&t.s, a->json);
    free(t.rows);
    free(t.buckets);
    free(t.similarity);
    free(t.full_items);
    free(t.sample);
    answers_free(&t.full);
    answers_free(&t.near);
    session_close(&t.s);
    return code;
}

/* -1: right. *loss: PC_LOSS_…, or -1 for the task's own measure. */
static int check(const command *about, const arguments *a, long *loss)
{
    static const char *const losses[] = {"cosine", "changed", "kl"};
    long kind = a->session.data.kind;
    int code = session_check(about, &a->session, 0);
    *loss = -1;
    if (code >= 0)
        return code;
    if (!a->loss == !a->measure)
        return usage_error(about, "one of --loss and --measure is needed");
    if (!(a->limit >= 0))
        return usage_error(about, "--limit is needed: the largest loss to accept");
    for (long i = 0; a->loss && i < 3; i++)
        *loss = strcmp(a->loss, losses[i]) ? *loss : i;
    if (a->loss && *loss < 0)
        return usage_error(about, "--loss '%s' is none of: cosine changed kl", a->loss);
    if (a->loss && (a->picture || a->dry || a->session.train))
        return usage_error(about, "--plot, --dry and --train need --measure");
    if (a->measure && strcmp(a->measure, "spearman") != 0 && strcmp(a->measure, "accuracy") != 0)
        return usage_error(about, "--measure '%s' is none of: spearman accuracy", a->measure);
    if (a->measure
        && (kind == DATA_TEXTS || (kind == DATA_PAIRS) != !strcmp(a->measure, "spearman")))
        return usage_error(
            about, "--measure spearman needs --kind pairs; accuracy needs labels or choices");
    return session_check(about, &a->session, 1);
}

static int run_command_line(int argc, char **argv)
{
    arguments a = {.session = {.batch = 16, .seed = 1},
                   .limit = -1,
                   .least = 0.5,
                   .hit_limit = -1,
                   .percentile = HIT_PERCENTILE};
    const option_row rows[] = {
        MEMO_MODEL_ROWS(a.session),
        DATA_ROWS(a.session.data),
        MEMO_JUDGE_ROWS(a.session),
        {"loss", OPTION_TEXT, &a.loss, "cosine, changed or kl", NULL, 0, 0},
        {"measure", OPTION_TEXT, &a.measure, "spearman or accuracy", NULL, 0, 0},
        {"limit", OPTION_REAL, &a.limit,
         "largest loss, as in --loss cosine --limit 0.001, --measure accuracy --limit 0.3", NULL, 0,
         100},
        {"hit-limit", OPTION_REAL, &a.hit_limit, "largest loss of hits, as in --hit-limit 0.05",
         NULL, 0, 100},
        {"hit-percentile", OPTION_REAL, &a.percentile, "percentile of the losses of hits (95)",
         NULL, 1, 100},
        {"least", OPTION_REAL, &a.least, "with --measure: the lowest threshold to try (0.5)", NULL,
         -1e9, 1},
        {"dry", OPTION_FLAG, &a.dry, "only prints; the thresholds stay as they are", NULL, 0, 0},
        {"plot", OPTION_FILE, &a.picture, "the curve as SVG", NULL, 0, 0},
        {"json", OPTION_FLAG, &a.json, "JSON, an object a point, then one a bucket", NULL, 0, 0},
    };
    const char *others[1];
    size_t count;
    long loss;
    int code;
    if ((code = read_options(&memo_tune, argc, argv, rows, sizeof rows / sizeof *rows, others, 0,
                             &count))
            >= 0
        || (code = check(&memo_tune, &a, &loss)) >= 0)
        return code;
    a.session.data.judged = loss < 0;
    return plot_may_write(a.picture) ? EXIT_INPUT : tune(&a, loss);
}

const command memo_tune = {
    .name = "memo tune",
    .usage =
        "memo tune --model M --memo DIR --data FILE (--loss L | --measure M) --limit X [options]",
    .summary = "sets thresholds for a loss that you name, by inputs that the memo has not seen",
    .details =
        "Sets the threshold of every bucket of lengths to the lowest similarity at which the loss "
        "stays\n"
        "within the limit.\n"
        "  --loss cosine|changed|kl     mean over all inputs: 1 - cosine of embeddings; share of "
        "inputs with\n"
        "                               another most likely class or token; divergence in nats\n"
        "  --measure spearman|accuracy  loss of the task in points of 100. Prints (and --plot "
        "draws) loss and\n"
        "                               hits over one threshold for all buckets, then at the "
        "thresholds\n"
        "                               found. 19 of 20 samples of the same size stay within the "
        "limit.\n"
        "  --hit-limit X                also limits the loss of hits, at --hit-percentile of them: "
        "with --loss\n"
        "                               in its unit (four times --limit), with --measure 1 - "
        "cosine of\n"
        "                               embeddings or the share of other choices (no limit)\n"
        "The inputs should be others than those that the memo was built from.\n\n" DATA_HELP,
    .run = run_command_line};
