/* A session of a memo command: opening, answers, scores, buckets and progress. */
#include "memo_session.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "constant_names.h"
#include "machine.h"
#include "measures.h"

/* ------------------------------------------------------------------ session */

int session_check(const command *about, const memo_session_options *o, int judged)
{
    if (!o->model)
        return usage_error(about, "--model is needed");
    if (!o->folder)
        return usage_error(about, "--memo is needed: the folder of the memo");
    if (judged && !o->data.files.count)
        return usage_error(about, "--data is needed");
    if (judged && o->data.kind == DATA_LABELS && !o->train)
        return usage_error(about, "--kind labels needs --train: rows to train the classifier by");
    if (o->train && o->data.kind != DATA_LABELS)
        return usage_error(about, "--train needs --kind labels");
    return judged ? data_check(about, &o->data) : -1;
}

int session_open_model(memo_session *s, const memo_session_options *options)
{
    pc_model_options model = PC_MODEL_OPTIONS_INIT;
    *s = (memo_session){.options = options, .info = PC_MODEL_INFO_INIT};
    model.compute = COMPUTE_DTYPE(options->compute);
    model.progress = stop_loading;
    model.packed_weights = options->packed;
    int code = open_context(&s->context);
    if (code >= 0)
        return code;
    if (pc_model_load(&s->model, s->context, options->model, &model) < 0)
        return model_error(options->model, MODEL_HINT);
    pc_model_get_info(s->model, &s->info);
    return EXIT_OK;
}

int session_open_memo(memo_session *s, const pc_memo_options *memo)
{
    const char *folder = s->options->folder;
    switch (pc_memo_open(&s->memo, s->model, folder, memo)) {
    case PC_OK:
        break;
    case PC_AGAIN:
        return plain_error("%s: another process is adding to it", folder);
    default:
        return input_error("memo", NULL);
    }
    s->bucket_count = pc_memo_bucket_count(s->memo);
    return s->bucket_count <= MEMO_BUCKETS
               ? EXIT_OK
               : plain_error("%s: more than %d buckets", folder, MEMO_BUCKETS);
}

int session_open(memo_session *s, const memo_session_options *options, const pc_memo_options *memo)
{
    int code = session_open_model(s, options);
    return code == EXIT_OK ? session_open_memo(s, memo) : code;
}

void session_close(memo_session *s)
{
    data_free(&s->data);
    labels_free(&s->labels);
    head_free(&s->head);
    pc_memo_free(s->memo);
    pc_model_free(s->model);
    pc_context_free(s->context);
    *s = (memo_session){.options = NULL};
}

int session_read(memo_session *s)
{
    int code = data_read(&s->data, s->model, &s->options->data, &s->labels);
    if (code == EXIT_OK)
        data_print(&s->data, "data", stderr);
    return code;
}

int session_train_head(memo_session *s)
{
    data_options rows = s->options->data;
    dataset train = {.kind = 0};
    answers a = {.width = 0};
    const method full = {.flags = 0};
    size_t *classes = NULL;
    int code;
    if (s->options->data.kind != DATA_LABELS)
        return EXIT_OK;
    rows.files = (file_list){{s->options->train}, 1};
    rows.limit = 0;
    if ((code = data_read(&train, s->model, &rows, &s->labels)) == EXIT_OK
        && (code = answers_new(&a, s, &train)) == EXIT_OK
        && (code = answers_run(&a, s, &train, &full)) == EXIT_OK) {
        data_print(&train, "head trained by", stderr);
        classes = malloc(train.input_count * sizeof *classes);
        for (size_t i = 0; classes && i < train.input_count; i++)
            classes[i] = train.items[i].right;
        if (!classes
            || !head_train(&s->head, a.values, classes, train.input_count, a.width, s->labels.count,
                           (uint64_t)s->options->seed))
            code = plain_error("no memory to train a head");
    }
    free(classes);
    answers_free(&a);
    data_free(&train);
    return code;
}

/* ------------------------------------------------------------------ answers */

int answers_new(answers *a, const memo_session *s, const dataset *data)
{
    *a = (answers){.width = data->kind == DATA_CHOICES ? DATA_CANDIDATES : (size_t)s->info.hidden};
    a->values = malloc(data->input_count * a->width * sizeof *a->values);
    a->results = calloc(data->input_count, sizeof *a->results);
    return a->values && a->results
               ? EXIT_OK
               : plain_error("no memory for the results of %zu inputs", data->input_count);
}

void answers_free(answers *a)
{
    free(a->values);
    free(a->results);
    *a = (answers){.width = 0};
}

static void add_stats(pc_prefill_stats *sum, const pc_prefill_stats *one)
{
    sum->inputs += one->inputs;
    sum->tokens += one->tokens;
    sum->hits += one->hits;
    sum->output_hits += one->output_hits;
    sum->hit_tokens += one->hit_tokens;
    sum->seconds_features += one->seconds_features;
    sum->seconds_search += one->seconds_search;
    sum->seconds_maps += one->seconds_maps;
    sum->seconds_forward += one->seconds_forward;
    sum->seconds_verify += one->seconds_verify;
}

/* Copies the logits of the candidates of inputs first to first + count - 1. */
static void copy_candidates(answers *a, const dataset *d, size_t first, size_t count,
                            const float *logits, size_t vocab)
{
    for (size_t i = 0; i < d->item_count; i++) {
        const data_item *item = &d->items[i];
        if (item->first >= first && item->first < first + count)
            for (size_t c = 0; c < item->candidate_count; c++)
                a->values[item->first * a->width + c] =
                    logits[(item->first - first) * vocab + (size_t)item->candidates[c]];
    }
}

static double cpu_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

int answers_run(answers *a, const memo_session *s, const dataset *d, const method *how)
{
    size_t batch = (size_t)s->options->batch, vocab = (size_t)s->info.vocab;
    float *logits = d->kind == DATA_CHOICES ? malloc(batch * vocab * sizeof *logits) : NULL;
    pc_prefill_options o = PC_PREFILL_OPTIONS_INIT;
    int code = EXIT_OK;
    double began = machine_now(), cpu = cpu_now();
    a->stats = (pc_prefill_stats)PC_PREFILL_STATS_INIT;
    if (d->kind == DATA_CHOICES && !logits)
        return plain_error("no memory for logits");
    o.memo = how->memo;
    o.flags = how->flags;
    o.map_layers = how->map_layers;
    o.threshold = how->threshold != 0 ? &how->threshold : NULL;
    o.pool = (uint32_t)s->options->pool;
    o.logits = logits;
    o.cancelled = is_interrupted;
    for (size_t i = 0; i < d->input_count && code == EXIT_OK; i += batch) {
        size_t n = d->input_count - i < batch ? d->input_count - i : batch;
        pc_prefill_stats one = PC_PREFILL_STATS_INIT;
        o.embeddings = logits ? NULL : a->values + i * a->width;
        o.results = a->results + i;
        o.result_stride = sizeof(pc_memo_result);
        if (pc_prefill(s->model, d->inputs + i, sizeof(pc_input), n, &o, &one) < 0)
            code = input_error("prefill", NULL);
        else if (logits)
            copy_candidates(a, d, i, n, logits, vocab);
        add_stats(&a->stats, &one);
    }
    a->seconds = machine_now() - began;
    a->cpu_seconds = cpu_now() - cpu;
    free(logits);
    return code;
}

/* -------------------------------------------------------------------- score */

const char *score_name(long kind)
{
    return kind == DATA_PAIRS ? "Spearman" : "accuracy";
}

static size_t best_of(const float *values, size_t count)
{
    size_t best = 0;
    for (size_t i = 1; i < count; i++)
        if (values[i] > values[best])
            best = i;
    return best;
}

void item_values(const memo_session *s, const float *const *rows, size_t width, double *values)
{
    const dataset *d = &s->data;
    for (size_t i = 0; i < d->item_count; i++) {
        const data_item *item = &d->items[i];
        const float *row = rows[item->first];
        if (d->kind == DATA_PAIRS)
            values[i] = cosine(row, rows[item->first + 1], width);
        else
            values[i] = item->right
                        == (d->kind == DATA_LABELS ? head_class(&s->head, row)
                                                   : best_of(row, item->candidate_count));
    }
}

double score_items(const memo_session *s, const double *values, const size_t *which, size_t count)
{
    const dataset *d = &s->data;
    double *found = malloc((2 * count + 1) * sizeof *found), *wanted = found ? found + count : NULL,
           result = NAN, right = 0;
    for (size_t i = 0; found && i < count; i++) {
        size_t item = which ? which[i] : i;
        found[i] = values[item];
        wanted[i] = d->items[item].score;
        right += values[item];
    }
    if (found)
        result = d->kind == DATA_PAIRS ? spearman(found, wanted, count)
                 : count               ? 100 * right / (double)count
                                       : 0;
    free(found);
    return result;
}

double score(const memo_session *s, const float *const *rows, size_t width)
{
    double *values = malloc((s->data.item_count + 1) * sizeof *values), result = NAN;
    if (values) {
        item_values(s, rows, width, values);
        result = score_items(s, values, NULL, s->data.item_count);
    }
    free(values);
    return result;
}

void input_losses(const memo_session *s, const answers *full, const answers *other, double *losses)
{
    const dataset *d = &s->data;
    size_t width = full->width;
    for (size_t i = 0; i < d->input_count && d->kind != DATA_CHOICES; i++)
        losses[i] = 1 - cosine(full->values + i * width, other->values + i * width, width);
    for (size_t i = 0; i < d->item_count && d->kind == DATA_CHOICES; i++) {
        size_t input = d->items[i].first, count = d->items[i].candidate_count;
        losses[input] = best_of(full->values + input * width, count)
                        != best_of(other->values + input * width, count);
    }
}

/* ------------------------------------------------------------------ buckets */

int bucket_of(const memo_session *s, size_t tokens, size_t *bucket)
{
    for (*bucket = 0; *bucket < s->bucket_count; ++*bucket) {
        pc_memo_bucket b = PC_MEMO_BUCKET_INIT;
        if (pc_memo_get_bucket(s->memo, *bucket, &b) >= 0 && tokens >= b.min_tokens
            && tokens <= b.max_tokens)
            return 1;
    }
    return 0;
}

static const char *const losses[] = {"cosine", "changed", "kl"};

/* Whether the losses of the hits at tuning are known. */
static int has_hit_losses(const pc_memo_bucket *b)
{
    return b->open && b->hit_percentile > 0;
}

static void print_bucket_json(const pc_memo_bucket *b)
{
    json_t *row = json_pack(
        "{s:I,s:I,s:I,s:b,s:b,s:s,s:s,s:f,s:f,s:f,s:f,s:f,s:I}", "min_tokens",
        (json_int_t)b->min_tokens, "max_tokens", (json_int_t)b->max_tokens, "records",
        (json_int_t)b->records, "trained", (int)b->trained, "open", (int)b->open, "reason",
        reason_name(b->reason), "loss", b->loss < 3 ? losses[b->loss] : "?", "threshold",
        b->threshold, "limit", b->limit, "tuned_loss", b->tuned_loss, "tuned_hit_rate",
        b->tuned_hit_rate, "verified_loss", b->verified_loss, "verified", (json_int_t)b->verified);
    int known = has_hit_losses(b);
    json_object_set_new(row, "hit_limit", b->hit_limit > 0 ? json_real(b->hit_limit) : json_null());
    json_object_set_new(row, "hit_percentile", known ? json_real(b->hit_percentile) : json_null());
    json_object_set_new(row, "hit_loss", known ? json_real(b->hit_loss) : json_null());
    json_object_set_new(row, "hit_loss_high", known ? json_real(b->hit_loss_high) : json_null());
    json_object_set_new(row, "hit_loss_worst", known ? json_real(b->hit_loss_worst) : json_null());
    print_json(row);
}

static const char *why_closed(const pc_memo_bucket *b)
{
    if (b->reason == PC_REASON_UNTRAINED)
        return !b->trained    ? "not trained yet"
               : b->limit > 0 ? "too few inputs of these lengths for tuning"
                              : "not tuned yet";
    if (b->reason == PC_REASON_UNLIKE || !b->reason)
        return "no threshold keeps the limit";
    return reason_name(b->reason);
}

static void print_bucket(const pc_memo_bucket *b)
{
    char tokens[32];
    snprintf(tokens, sizeof tokens, "%u-%u", b->min_tokens, b->max_tokens);
    printf("%-11s %9llu  %-7s ", tokens, (unsigned long long)b->records, b->trained ? "yes" : "no");
    if (!b->open) {
        printf("closed: %s\n", why_closed(b));
        return;
    }
    printf("%9.6f", b->threshold);
    if (b->limit > 0)
        printf("  %.3g of %.3g %s, %.1f %% hits", b->tuned_loss, b->limit,
               b->loss < 3 ? losses[b->loss] : "?", 100 * b->tuned_hit_rate);
    if (has_hit_losses(b))
        printf("; hits lose %.3g, at %g %% %.3g, at worst %.3g", b->hit_loss, b->hit_percentile,
               b->hit_loss_high, b->hit_loss_worst);
    if (b->verified)
        printf("; since then %.3g over %llu hits", b->verified_loss,
               (unsigned long long)b->verified);
    printf("\n");
}

int print_buckets(const memo_session *s, int json)
{
    if (!json)
        printf("%-11s %9s  %-7s %9s  %s\n", "tokens", "records", "trained", "threshold",
               "tuned loss");
    for (size_t i = 0; i < s->bucket_count; i++) {
        pc_memo_bucket b = PC_MEMO_BUCKET_INIT;
        if (pc_memo_get_bucket(s->memo, i, &b) < 0)
            return input_error("memo", NULL);
        if (json)
            print_bucket_json(&b);
        else
            print_bucket(&b);
    }
    return EXIT_OK;
}

/* ----------------------------------------------------------------- progress */

int32_t show_memo_progress(void *progress, const char *what, uint64_t done, uint64_t total)
{
    memo_progress *p = progress;
    double now = machine_now(), rate;
    if (!isatty(2))
        return is_interrupted(NULL);
    if (strncmp(p->what, what, sizeof p->what - 1) != 0) {
        end_progress(p);
        *p = (memo_progress){.began = now, .first = done};
        snprintf(p->what, sizeof p->what, "%s", what);
    }
    if (now - p->written > 0.2 || done == total) {
        p->written = now;
        p->shown = 1;
        rate = now > p->began ? (double)(done - p->first) / (now - p->began) : 0;
        fprintf(stderr, "\r%s: %llu", what, (unsigned long long)done);
        if (total)
            fprintf(stderr, " of %llu", (unsigned long long)total);
        if (rate > 0)
            fprintf(stderr, ", %.1f a second", rate);
        if (rate > 0 && total > done)
            fprintf(stderr, ", %.0f s left", (double)(total - done) / rate);
        fprintf(stderr, "      ");
    }
    return is_interrupted(NULL);
}

void end_progress(memo_progress *p)
{
    if (p->shown)
        fputc('\n', stderr);
    p->shown = 0;
}
