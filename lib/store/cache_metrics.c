/* All counters in the text format of Prometheus (exposition format 0.0.4): names promptcache_…, one
 * line for each tier of the cache. Every counter is printed from the start, at zero, so that rates
 * are right from the first scrape. Names never change. */
#include "store/cache_internal.h"

#include <promptcache/cache.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/options.h"

/* The output; text beyond the capacity is only counted. */
typedef struct metrics_page {
    char *text;
    size_t capacity, size;
    const char *labels; /* of every sample; "": none */
} metrics_page;

enum { MOST_LABELS = 255 }; /* bytes */

static void print_metric(metrics_page *p, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static void print_metric(metrics_page *p, const char *format, ...)
{
    char line[512];
    va_list args;
    int n;
    va_start(args, format);
    n = vsnprintf(line, sizeof line, format, args);
    va_end(args);
    if (n < 0)
        return;
    if ((size_t)n >= sizeof line)
        n = (int)sizeof line - 1;
    if (p->size < p->capacity) {
        size_t room = p->capacity - p->size;
        memcpy(p->text + p->size, line, (size_t)n < room ? (size_t)n : room);
    }
    p->size += (size_t)n;
}

/* A sample up to its value. `tier` NULL: it is of no tier. */
static void print_sample(metrics_page *p, const char *name, const char *tier)
{
    const char *comma = *p->labels && tier ? "," : "";
    print_metric(p, "promptcache_%s", name);
    if (tier)
        print_metric(p, "{%s%stier=\"%s\"} ", p->labels, comma, tier);
    else
        print_metric(p, *p->labels ? "{%s} " : "%s ", p->labels);
}

typedef struct metric {
    const char *name, *type, *help;
    size_t offset; /* in pc_tier_stats */
    uint32_t real; /* a double, not a count */
} metric;

/* clang-format off */
#define COUNT(name, field, help) {name, "counter", help, offsetof(pc_tier_stats, field), 0}
#define SECONDS(name, field, help) {name, "counter", help, offsetof(pc_tier_stats, field), 1}
#define GAUGE(name, field, help) {name, "gauge", help, offsetof(pc_tier_stats, field), 0}
/* clang-format on */

static const metric tier_metrics[] = {
    COUNT("tier_lookups_total", lookups, "Look-ups in a tier: hits, misses and failed loads."),
    COUNT("tier_hits_total", hits, "Look-ups that a tier has served."),
    COUNT("tier_misses_total", misses,
          "Look-ups of what a tier did not have, or was too slow for."),
    COUNT("tier_load_failures_total", load_failed, "Look-ups of what a tier had and did not give."),
    COUNT("tier_not_worth_total", slower_than_compute,
          "Look-ups where computing was expected to be faster than loading."),
    COUNT("tier_offered_total", offered, "Segments that a tier was to keep."),
    COUNT("tier_stored_total", stored, "Segments that a tier has taken."),
    COUNT("tier_found_total", found,
          "Segments that were in a tier when it was opened, or that others put there."),
    COUNT("tier_known_total", known, "Segments that were offered to a tier that had them."),
    COUNT("tier_refused_total", refused, "Segments that a tier had no room for."),
    COUNT(
        "tier_dropped_total", dropped,
        "Segments that were to be written to a tier and were given up on the way: too much waited, "
        "or the tier was out of use."),
    COUNT("tier_store_failures_total", failed, "Segments that could not be written."),
    COUNT("tier_evicted_total", evicted, "Segments that gave way to others."),
    COUNT("tier_removed_total", removed, "Segments that were cleared, removed or expired."),
    COUNT("tier_lost_total", lost, "Segments that were found gone or damaged."),
    COUNT("tier_read_bytes_total", bytes_read, "Bytes read from a tier."),
    COUNT("tier_written_bytes_total", bytes_written, "Bytes written to a tier."),
    SECONDS("tier_read_seconds_total", seconds_read, "Seconds that reading from a tier took."),
    SECONDS("tier_write_seconds_total", seconds_written, "Seconds that writing to a tier took."),
    GAUGE("tier_segments", segments, "Segments in a tier."),
    GAUGE("tier_segment_bytes", segment_bytes, "Bytes that they take."),
    GAUGE("tier_pinned_bytes", pinned_bytes, "Bytes of those that are pinned."),
    GAUGE("tier_staging_bytes", staging_bytes, "Bytes that are being loaded or written."),
    GAUGE("tier_mapped_bytes", mapped_bytes,
          "Bytes of files of a tier that are mapped, not copied: in the page cache of the system."),
    COUNT("tier_evicted_behind_total", evicted_behind,
          "Of those that gave way: removed by a thread of the cache, because a folder was larger "
          "than its budget when it was opened."),
    GAUGE("tier_excess_bytes", excess_bytes,
          "Bytes beyond the budget of a tier, on their way out."),
    GAUGE("tier_budget_bytes", budget_bytes, "Bytes that a tier may take."),
};

static const char *const tier_names[PC_TIER_COUNT] = {"none",       "device", "ram",
                                                      "compressed", "disk",   "remote"};

static void print_head(metrics_page *p, const char *name, const char *type, const char *help)
{
    print_metric(p, "# HELP promptcache_%s %s\n# TYPE promptcache_%s %s\n", name, help, name, type);
}

static void print_tier_metric(metrics_page *p, const metric *m, const pc_tier_stats *stats,
                              const uint32_t *there)
{
    print_head(p, m->name, m->type, m->help);
    for (uint32_t t = 0; t < PC_TIER_COUNT; t++) {
        const char *field = (const char *)&stats[t] + m->offset;
        uint64_t number;
        double real;
        if (!there[t])
            continue;
        print_sample(p, m->name, tier_names[t]);
        if (m->real) {
            memcpy(&real, field, sizeof real);
            print_metric(p, "%.9g\n", real);
        } else {
            memcpy(&number, field, sizeof number);
            print_metric(p, "%" PRIu64 "\n", number);
        }
    }
}

/* Why each tier is out of use. */
static void print_reasons(metrics_page *p, const pc_tier_stats *stats, const uint32_t *there)
{
    print_head(p, "tier_out_of_use", "gauge",
               "Why a tier is not asked at the moment, as a number of PC_REASON_; 0: it is.");
    for (uint32_t t = 0; t < PC_TIER_COUNT; t++)
        if (there[t]) {
            print_sample(p, "tier_out_of_use", tier_names[t]);
            print_metric(p, "%" PRIu32 "\n", stats[t].reason);
        }
}

static void print_number(metrics_page *p, const char *name, const char *help, uint64_t number)
{
    print_head(p, name, "counter", help);
    print_sample(p, name, NULL);
    print_metric(p, "%" PRIu64 "\n", number);
}

static void print_count(metrics_page *p, const char *name, const char *help,
                        const atomic_uint_fast64_t *count)
{
    print_number(p, name, help, (uint64_t)atomic_load(count));
}

static void print_cache(metrics_page *p, const pc_cache *cache)
{
    const pc__cache_counts *c = &cache->counts;
    print_count(p, "lookups_total", "Look-ups of segments.", &c->lookups);
    print_count(p, "hits_total", "Look-ups that some tier has served.", &c->hits);
    print_count(p, "loads_total", "Loads from tiers below RAM that were started.", &c->loads);
    print_count(p, "loads_joined_total", "Requests that shared a load with another one.",
                &c->joined);
    print_count(p, "loads_early_total",
                "Segments that were used before all of their layers had come.", &c->early);
    print_count(p, "prefetches_total", "Loads that nobody waited for when they were started.",
                &c->prefetches);
    print_count(p, "not_admitted_total",
                "Segments that were not written below RAM because they had been used once only.",
                &c->not_admitted);
    print_number(p, "unwritten_total",
                 "Writes that were given up: no room on the way, or a tier that does not answer.",
                 pc__cache_dropped(cache));
    print_count(p, "promoted_total",
                "Segments that were written to a tier above the one that they came from.",
                &c->promoted);
    print_head(p, "load_seconds_total", "counter", "Seconds of the loads that gave a segment.");
    print_sample(p, "load_seconds_total", NULL);
    print_metric(p, "%.9g\n", 1e-9 * (double)atomic_load(&c->load_seconds_n));
}

/* Behind a label's name, '=' and its value in quotes; NULL: there is none. */
static const char *skip_label(const char *at)
{
    size_t name = strspn(at, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789");
    if (!name || (*at >= '0' && *at <= '9') || at[name] != '=' || at[name + 1] != '"')
        return NULL;
    for (at += name + 2; *at != '"'; at++) {
        if (*at == '\\' && strchr("\\\"n", at[1] ? at[1] : ' '))
            at++;
        else if ((unsigned char)*at < ' ' || *at == '\\')
            return NULL;
    }
    return at + 1;
}

static pc_status check_labels(const char *labels)
{
    const char *at = labels;
    if (strlen(labels) > MOST_LABELS)
        return pc__fail(PC_ERR_INVALID, "pc_prometheus_options: labels have more than %d bytes",
                        MOST_LABELS);
    while (*at) {
        const char *end = skip_label(at);
        if (!end || (*end && (*end != ',' || !end[1])))
            return pc__fail(PC_ERR_INVALID,
                            "pc_prometheus_options: labels: byte %zu: not name=\"value\", with "
                            "commas between",
                            (size_t)(at - labels) + 1);
        at = end + (*end == ',');
    }
    return PC_OK;
}

pc_status pc_cache_prometheus(pc_cache *cache, char *text, size_t capacity, size_t *size,
                              const pc_prometheus_options *options)
{
    PC__HOLD(pc_cache, cache);
    pc_tier_stats stats[PC_TIER_COUNT] = {{0}};
    uint32_t there[PC_TIER_COUNT] = {0};
    metrics_page p = {.text = text, .capacity = capacity, .labels = ""};
    pc_prometheus_options o;
    if (!cache || !size)
        return pc__fail(PC_ERR_INVALID, "pc_cache_prometheus: cache or size is NULL");
    PC__TRY_RETURN(pc__cache_check(cache, "pc_cache_prometheus"));
    if (!text && capacity)
        return pc__fail(PC_ERR_INVALID, "pc_cache_prometheus: text is NULL, capacity is %zu",
                        capacity);
    PC__TRY_RETURN(pc__options_read(&o, sizeof o, PC__V1_SIZE(pc_prometheus_options, labels),
                                    options, "pc_prometheus_options"));
    if (o.labels) {
        PC__TRY_RETURN(check_labels(o.labels));
        p.labels = o.labels;
    }
    for (uint32_t t = PC_TIER_RAM; t < PC_TIER_COUNT; t++) {
        there[t] = t == PC_TIER_RAM || cache->tiers[t];
        if (there[t])
            pc__cache_tier_stats(cache, t, &stats[t]);
    }
    print_cache(&p, cache);
    for (size_t m = 0; m < sizeof tier_metrics / sizeof *tier_metrics; m++)
        print_tier_metric(&p, &tier_metrics[m], stats, there);
    print_reasons(&p, stats, there);
    *size = p.size;
    if (text && p.size > capacity)
        return pc__fail(PC_ERR_LIMIT,
                        "pc_cache_prometheus: the text has %zu bytes, there is room for %zu",
                        p.size, capacity);
    return PC_OK;
}
