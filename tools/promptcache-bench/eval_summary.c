/* Sums results up by data set and mode, and prints them. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "eval_results.h"

/* Rows of one data set, measure, range of lengths and mode. */
typedef struct group {
    const char *dataset, *metric, *mode;
    int range; /* of lengths; 0: all */
    size_t items, skipped, cut;
    double score, tokens, cached; /* sums */
    size_t same, compared;        /* answers that are those of the full prefill */
    double *ttft;                 /* [items], ms */
    size_t timed;
} group;

typedef struct summary {
    const eval_results *results;
    group *groups;
    size_t count, row_count;
} summary;

static const char *const range_names[] = {"", "below 4000", "4000 to 7999", "8000 and more",
                                          "not told"};

static int range_of(const json_t *row)
{
    json_int_t length = json_integer_value(json_object_get(row, "length"));
    return length < 0 ? 4 : length < 4000 ? 1 : length < 8000 ? 2 : 3;
}

static const char *text_of(const json_t *row, const char *key)
{
    const char *text = json_string_value(json_object_get(row, key));
    return text ? text : "";
}

/* NULL: out of memory. */
static group *group_of(summary *s, const json_t *row, int by_length)
{
    int range = by_length ? range_of(row) : 0;
    group *g = s->groups;
    for (; g < s->groups + s->count; g++)
        if (g->range == range && !strcmp(g->dataset, text_of(row, "dataset"))
            && !strcmp(g->metric, text_of(row, "metric")) && !strcmp(g->mode, text_of(row, "mode")))
            return g;
    *g = (group){.dataset = text_of(row, "dataset"),
                 .metric = text_of(row, "metric"),
                 .mode = text_of(row, "mode"),
                 .range = range};
    if (!(g->ttft = malloc((s->row_count + 1) * sizeof *g->ttft)))
        return NULL;
    s->count++;
    return g;
}

/* The answer of the full prefill to the item of this row; NULL: there is none. */
static const char *full_answer(const eval_results *r, const json_t *row)
{
    char key[4200];
    const json_t *index;
    snprintf(key, sizeof key, "%s:%lld:%s", text_of(row, "file"),
             (long long)json_integer_value(json_object_get(row, "line")), eval_modes[0].name);
    index = json_object_get(r->keys, key);
    row = index ? json_array_get(r->rows, (size_t)json_integer_value(index)) : NULL;
    return json_string_value(json_object_get(row, "answer"));
}

static void add_row(summary *s, group *g, const json_t *row)
{
    const char *answer = text_of(row, "answer"), *full = full_answer(s->results, row);
    const json_t *ttft = json_object_get(row, "ttft_ms");
    if (json_object_get(row, "skipped")) {
        g->skipped++;
        return;
    }
    g->items++;
    g->score += json_number_value(json_object_get(row, "score"));
    g->tokens += json_number_value(json_object_get(row, "tokens"));
    g->cached += json_number_value(json_object_get(row, "tokens_cached"));
    g->cut += json_is_true(json_object_get(row, "cut"));
    if (json_is_number(ttft))
        g->ttft[g->timed++] = json_number_value(ttft);
    if (full && strcmp(g->mode, eval_modes[0].name) != 0) {
        g->compared++;
        g->same += !strcmp(full, answer);
    }
}

/* ---------------------------------------------------------------------- output */

static double score_of(const group *g)
{
    return g->items ? 100 * g->score / (double)g->items : NAN;
}

/* Points that the score differs from that of the full prefill over the same items; NaN: there is
 * none. */
static double difference(const summary *s, const group *g)
{
    for (const group *f = s->groups; f < s->groups + s->count; f++)
        if (f != g && !strcmp(f->mode, eval_modes[0].name) && f->range == g->range
            && !strcmp(f->dataset, g->dataset) && !strcmp(f->metric, g->metric)
            && f->items == g->items)
            return score_of(g) - score_of(f);
    return NAN;
}

/* The value that a share of the sorted times does not exceed. */
static double quantile(const group *g, double share)
{
    return g->timed ? g->ttft[(size_t)(share * (double)(g->timed - 1) + 0.5)] : NAN;
}

static double share_of(size_t part, size_t all)
{
    return all ? 100 * (double)part / (double)all : NAN;
}

typedef struct line {
    double score, difference, same, ttft, low, high, tokens, cached;
} line;

static line line_of(const summary *s, group *g)
{
    double items = g->timed ? (double)g->items : NAN;
    line l = {.score = score_of(g),
              .difference = difference(s, g),
              .same = share_of(g->same, g->compared),
              .ttft = g->timed ? median(g->ttft, g->timed) : NAN,
              .tokens = g->tokens / items,
              .cached = g->cached / items};
    l.low = quantile(g, 0.25);
    l.high = quantile(g, 0.75);
    return l;
}

static void print_row_json(const group *g, const line *l)
{
    json_t *row = json_pack("{s:s,s:s,s:s,s:I,s:I,s:I}", "dataset", g->dataset, "metric", g->metric,
                            "mode", g->mode, "items", (json_int_t)g->items, "skipped",
                            (json_int_t)g->skipped, "cut", (json_int_t)g->cut);
    const struct {
        const char *name;
        double value;
    } numbers[] = {{"score", l->score},   {"difference", l->difference}, {"same", l->same},
                   {"ttft_ms", l->ttft},  {"ttft_low_ms", l->low},       {"ttft_high_ms", l->high},
                   {"tokens", l->tokens}, {"tokens_cached", l->cached}};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        json_object_set_new(row, numbers[i].name, json_number(numbers[i].value));
    if (g->range)
        json_object_set_new(row, "lengths", json_string(range_names[g->range]));
    print_json(row);
}

/* A field of CSV, in quotes. */
static void print_field(const char *text)
{
    putchar('"');
    for (const char *at = shown(text); *at; at++) {
        if (*at == '"')
            putchar('"');
        putchar(*at);
    }
    printf("\",");
}

static void print_row_csv(const group *g, const line *l)
{
    const double numbers[] = {l->score, l->difference, l->same,   l->ttft,
                              l->low,   l->high,       l->tokens, l->cached};
    print_field(g->dataset);
    print_field(range_names[g->range]);
    print_field(g->metric);
    printf("%s,%zu,%zu,%zu", g->mode, g->items, g->skipped, g->cut);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (isfinite(numbers[i]))
            printf(",%.6g", numbers[i]);
        else
            putchar(',');
    putchar('\n');
}

static void print_number(const char *format, int width, double value)
{
    if (isfinite(value))
        printf(format, value);
    else
        printf(" %*s", width, "-");
}

static void print_row_text(const group *g, const line *l)
{
    char times[48] = "-";
    if (isfinite(l->ttft))
        snprintf(times, sizeof times, "%.2f (%.2f to %.2f)", l->ttft, l->low, l->high);
    printf("%-20s %-14s %-11s", shown(g->dataset), g->metric, g->mode);
    if (g->range)
        printf(" %-13s", range_names[g->range]);
    printf(" %5zu", g->items);
    print_number(" %6.2f", 6, l->score);
    print_number(" %+7.2f", 7, l->difference);
    print_number(" %5.1f%%", 6, l->same);
    printf(" %28s", times);
    print_number(" %8.1f", 8, l->tokens);
    print_number(" %8.1f", 8, l->cached);
    if (g->cut)
        printf("  %zu cut", g->cut);
    if (g->skipped)
        printf("  %zu skipped: too long", g->skipped);
    putchar('\n');
}

static void print_head(const eval_options *o)
{
    if (o->csv)
        puts("dataset,lengths,metric,mode,items,skipped,cut,score,difference,same,ttft_ms,"
             "ttft_low_ms,ttft_high_ms,tokens,tokens_cached");
    else if (!o->json)
        printf("%-20s %-14s %-11s%s %5s %6s %7s %6s %28s %8s %8s\n", "data set", "measure", "mode",
               o->by_length ? " length       " : "", "items", "score", "differs", "same",
               "TTFT ms (middle half)", "tokens", "cached");
}

static void print_groups(summary *s, const eval_options *o)
{
    print_head(o);
    for (size_t i = 0; i < s->count; i++) {
        group *g = &s->groups[i];
        line l = line_of(s, g);
        if (o->json)
            print_row_json(g, &l);
        else if (o->csv)
            print_row_csv(g, &l);
        else
            print_row_text(g, &l);
    }
}

int eval_results_print(const eval_results *r, const eval_options *o)
{
    summary s = {.results = r, .row_count = json_array_size(r->rows)};
    int code = EXIT_OK;
    if (!(s.groups = calloc(s.row_count + 1, sizeof *s.groups)))
        return plain_error("out of memory");
    for (size_t i = 0; i < s.row_count && code == EXIT_OK; i++) {
        const json_t *row = json_array_get(r->rows, i);
        group *g = group_of(&s, row, o->by_length);
        if (g)
            add_row(&s, g, row);
        else
            code = plain_error("out of memory");
    }
    if (code == EXIT_OK)
        print_groups(&s, o);
    for (size_t i = 0; i < s.count; i++)
        free(s.groups[i].ttft);
    free(s.groups);
    return code;
}
