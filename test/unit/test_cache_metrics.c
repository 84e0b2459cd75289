/* Catches: text that Prometheus' parser refuses (a sample without HELP and TYPE, a series twice, a
 * malformed number), counters that are missing at the start or differ from pc_cache_get_tier_stats,
 * a buffer overrun. */
#include "store/cache_internal.h"

#include <promptcache/cache.h>
#include <stdlib.h>
#include <string.h>

#include "testing.h"

static char *text_of(pc_cache *cache, size_t *size)
{
    char *text;
    size_t again;
    CHECK_OK(pc_cache_prometheus(cache, NULL, 0, size, NULL));
    CHECK(*size > 1000);
    text = malloc(*size + 1);
    memset(text, '#', *size + 1);
    CHECK_OK(pc_cache_prometheus(cache, text, *size, &again, NULL));
    CHECK_INT(again, *size);
    CHECK(text[*size] == '#'); /* nothing beyond */
    text[*size] = '\0';
    return text;
}

/* Value of a series; -1: missing, or there twice. */
static double value(const char *text, const char *series)
{
    char line[256];
    const char *at;
    snprintf(line, sizeof line, "\n%s ", series);
    at = strstr(text, line);
    if (!at || strstr(at + 1, line))
        return -1;
    return strtod(at + strlen(line), NULL);
}

static void check_lines(const char *text)
{
    char family[128] = "";
    size_t helps = 0, types = 0, samples = 0;
    for (const char *line = text; *line;) {
        const char *end = strchr(line, '\n');
        char copy[512];
        if (!CHECK(end && (size_t)(end - line) < sizeof copy))
            return;
        memcpy(copy, line, (size_t)(end - line));
        copy[end - line] = '\0';
        if (!strncmp(copy, "# HELP ", 7)) {
            CHECK_INT(sscanf(copy + 7, "%127s", family), 1);
            CHECK(strstr(copy + 7, " ") != NULL);
            helps++;
        } else if (!strncmp(copy, "# TYPE ", 7)) {
            char name[128], type[16];
            CHECK_INT(sscanf(copy + 7, "%127s %15s", name, type), 2);
            CHECK_STR(name, family);
            CHECK(!strcmp(type, "counter") || !strcmp(type, "gauge"));
            CHECK(strcmp(type, "counter") || !strcmp(name + strlen(name) - 6, "_total"));
            types++;
        } else {
            char *rest;
            const char *number = strrchr(copy, ' ');
            CHECK(!strncmp(copy, family, strlen(family))
                  && (copy[strlen(family)] == ' ' || copy[strlen(family)] == '{'));
            CHECK(number && strtod(number + 1, &rest) >= 0 && !*rest);
            samples++;
        }
        line = end + 1;
    }
    CHECK(helps == types && samples >= helps);
}

static void release(void *owner, void *payload)
{
    (void)owner;
    (void)payload;
}

static const pc__payload_ops ops = {.release = release};

static void use(pc_cache *cache)
{
    static const pc__id nothing;
    for (int32_t t = 0; t < 7; t++) {
        pc__id key = pc__segment_key(&nothing, NULL, 0, 0, &t, NULL, 1);
        pc_segment *segment = NULL;
        CHECK_STATUS(pc__cache_get_entry(cache, &key, &t, 1, &segment, NULL), PC_MISS);
        CHECK_OK(pc__segment_new(&segment, &pc__libc_allocator, &ops, NULL, NULL, 1000, &t, 1));
        CHECK_OK(pc__cache_put_entry(cache, &(pc__entry_desc){.key = key, .cost = 1}, NULL, segment,
                                     NULL, NULL));
        pc__segment_unref(segment);
        CHECK_OK(pc__cache_get_entry(cache, &key, &t, 1, &segment, NULL));
        pc__segment_unref(segment);
    }
}

static void compare(pc_cache *cache, double hits, double lookups)
{
    pc_tier_stats s = PC_TIER_STATS_INIT;
    size_t size;
    char *text = text_of(cache, &size);
    check_lines(text);
    CHECK_OK(pc_cache_get_tier_stats(cache, PC_TIER_RAM, &s));
    CHECK(value(text, "promptcache_lookups_total") == lookups);
    CHECK(value(text, "promptcache_hits_total") == hits);
    CHECK(value(text, "promptcache_tier_stored_total{tier=\"ram\"}") == (double)s.stored);
    CHECK(value(text, "promptcache_tier_segment_bytes{tier=\"ram\"}") == (double)s.segment_bytes);
    CHECK(value(text, "promptcache_tier_budget_bytes{tier=\"ram\"}") == (double)s.budget_bytes);
    CHECK(value(text, "promptcache_tier_evicted_total{tier=\"ram\"}") == (double)s.evicted);
    CHECK(value(text, "promptcache_tier_read_seconds_total{tier=\"ram\"}") >= 0);
    CHECK(value(text, "promptcache_tier_hits_total{tier=\"disk\"}") < 0); /* it has none */
    free(text);
}

/* Labels stand before the tier, or alone; what is none is refused. */
static void labels(pc_cache *cache)
{
    static const char *const wrong[] = {"a",         "a=b",       "a=\"b",          "a=\"b\",",
                                        "1a=\"b\"",  "=\"b\"",    "a=\"b\"b=\"c\"", "a=\"\n\"",
                                        "a=\"\\x\"", "a=\"b\\\"", "a=\"b\"}\nx 1"};
    pc_prometheus_options o = PC_PROMETHEUS_OPTIONS_INIT;
    static char text[65536], longest[300];
    size_t size = 0;
    o.labels = "model=\"a \\\"b\\\\\",zone=\"\"";
    CHECK_OK(pc_cache_prometheus(cache, text, sizeof text - 1, &size, &o));
    text[size] = 0;
    check_lines(text);
    CHECK(value(text, "promptcache_lookups_total{model=\"a \\\"b\\\\\",zone=\"\"}") >= 0);
    CHECK(value(text, "promptcache_tier_segments{model=\"a \\\"b\\\\\",zone=\"\",tier=\"ram\"}")
          >= 0);
    CHECK(strstr(text, "promptcache_tier_segments{tier") == NULL);
    o.labels = "";
    CHECK_OK(pc_cache_prometheus(cache, text, sizeof text - 1, &size, &o));
    text[size] = 0;
    CHECK(value(text, "promptcache_lookups_total") >= 0);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        o.labels = wrong[i];
        if (!CHECK_STATUS(pc_cache_prometheus(cache, text, sizeof text, &size, &o), PC_ERR_INVALID))
            fprintf(stderr, "    %s\n", wrong[i]);
    }
    CHECK_ERROR_HAS("labels: byte 1");
    memset(longest, 'a', sizeof longest - 1);
    o.labels = longest;
    CHECK_STATUS(pc_cache_prometheus(cache, text, sizeof text, &size, &o), PC_ERR_INVALID);
    CHECK_ERROR_HAS("more than 255 bytes");
}

int main(void)
{
    pc_context *context = NULL;
    pc_cache *cache = NULL;
    char little[10];
    size_t size = 0;
    CHECK_OK(pc_context_new(&context, NULL));
    CHECK_OK(pc_cache_new(&cache, context, NULL));
    compare(cache, 0, 0);
    use(cache);
    compare(cache, 7, 14);
    labels(cache);
    memset(little, '.', sizeof little);
    CHECK_STATUS(pc_cache_prometheus(cache, little, 5, &size, NULL), PC_ERR_LIMIT);
    CHECK(size > 1000 && little[5] == '.');
    CHECK_STATUS(pc_cache_prometheus(NULL, little, 5, &size, NULL), PC_ERR_INVALID);
    CHECK_STATUS(pc_cache_prometheus(cache, NULL, 5, &size, NULL), PC_ERR_INVALID);
    CHECK_STATUS(pc_cache_prometheus(cache, little, 5, NULL, NULL), PC_ERR_INVALID);
    pc_cache_free(cache);
    pc_context_free(context);
    return pc_test_end();
}
