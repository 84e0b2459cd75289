/* encode: fills a store with the states of schemas, so that later runs load them, in other
 * processes too. Events of the cache tell which states a tier did not keep. */
#include <promptcache/cache.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "cmd.h"
#include "constant_names.h"
#include "format_options.h"
#include "store_options.h"

/* What a tier did with the states of a schema, by the cache's events. */
typedef struct tier_news {
    uint64_t missing;      /* refused, or stored and evicted again for others of the same schema */
    uint32_t reason;       /* PC_REASON_… of the first of them */
    char cause[256];       /* the library's error text; may be empty */
    uint8_t (*stored)[32]; /* keys */
    size_t count, room;
} tier_news;

typedef struct arguments {
    const char *model, *packed;
    file_list schemas;
    long encoding, compute, kv, priority, rope_regime_length;
    int json;
    pml_options pml;
    format_options relay;
    store_options store;
    pthread_mutex_t lock; /* of the news: events come from I/O threads */
    tier_news news[PC_TIER_COUNT];
} arguments;

static void note_missing(tier_news *news, const pc_event *event)
{
    if (!news->missing++) {
        news->reason = event->reason;
        /* the event comes right after this thread's error */
        snprintf(news->cause, sizeof news->cause, "%s",
                 event->reason == PC_REASON_IO ? pc_error_text() : "");
    }
}

static void note_stored(tier_news *news, const uint8_t key[32])
{
    if (news->count == news->room) {
        size_t room = 2 * news->room + 64;
        uint8_t(*grown)[32] = realloc(news->stored, room * sizeof *grown);
        if (!grown)
            return; /* a later eviction of it is then not noticed */
        news->stored = grown;
        news->room = room;
    }
    memcpy(news->stored[news->count++], key, 32);
}

static int was_stored(const tier_news *news, const uint8_t key[32])
{
    size_t i = news->count;
    while (i && memcmp(news->stored[i - 1], key, 32) != 0)
        i--;
    return i != 0;
}

static void watch(void *user, const pc_event *event)
{
    arguments *a = user;
    if (event->tier >= PC_TIER_COUNT)
        return;
    pthread_mutex_lock(&a->lock);
    if (event->kind == PC_EVENT_STORE)
        note_stored(&a->news[event->tier], event->key);
    else if (event->kind == PC_EVENT_STORE_FAILED
             || (event->kind == PC_EVENT_EVICT && was_stored(&a->news[event->tier], event->key)))
        note_missing(&a->news[event->tier], event);
    pthread_mutex_unlock(&a->lock);
}

typedef struct objects {
    pc_context *context;
    pc_model *model;
    pc_cache *cache;
} objects;

static int32_t stop_encoding(void *user, const char *what, uint64_t done, uint64_t total)
{
    (void)user, (void)what; /* the module's name */
    return stop_loading(NULL, "encoding", done, total);
}

/* Loads one schema of the list, or that of the schema string. */
static int load_schema(const arguments *a, const objects *o, size_t index, pc_schema **out)
{
    pc_schema_options options = PC_SCHEMA_OPTIONS_INIT;
    options.flags = pml_flags(&a->pml);
    pc_status status = format_given(&a->relay)
                           ? load_format(out, o->model, &a->relay)
                           : pc_schema_load(out, o->model, a->schemas.items[index], &options);
    return status < 0 ? pml_error(format_given(&a->relay) ? "schema string" : "schema", status)
                      : -1;
}

static int encode(const arguments *a, const objects *o, const pc_schema *schema)
{
    pc_encode_options options = PC_ENCODE_OPTIONS_INIT;
    options.encoding = (uint32_t)a->encoding;
    options.progress = stop_encoding;
    options.priority = (int32_t)a->priority;
    options.rope_regime_length = (uint64_t)a->rope_regime_length;
    pc_status status = pc_schema_encode(schema, o->cache, &options);
    clear_progress();
    if (status < 0)
        return input_error("encode", NULL);
    return pc_cache_flush(o->cache) < 0 ? input_error("store", NULL) : -1;
}

/* What one tier has stored since an earlier count. */
typedef struct row {
    uint32_t tier;
    uint64_t stored, missing, bytes;
} row;

static row row_of(arguments *a, const objects *o, uint32_t tier, const pc_tier_stats *before)
{
    pc_tier_stats s = PC_TIER_STATS_INIT;
    row r = {.tier = tier};
    pc_cache_get_tier_stats(o->cache, tier, &s);
    r.stored = s.stored - before->stored;
    pthread_mutex_lock(&a->lock);
    r.missing = a->news[tier].missing;
    pthread_mutex_unlock(&a->lock);
    r.bytes = s.bytes_written - before->bytes_written;
    return r;
}

static void print_row(const arguments *a, const pc_schema *schema, const row *r)
{
    if (a->json)
        print_json(json_pack("{s:s,s:s,s:I,s:I,s:I,s:I}", "schema", pc_schema_name(schema), "tier",
                             tier_name(r->tier), "positions", (json_int_t)pc_schema_length(schema),
                             "stored", (json_int_t)r->stored, "missing", (json_int_t)r->missing,
                             "bytes", (json_int_t)r->bytes));
    else
        printf("%s, %lld positions: %llu new segments in %s (%.1f MB)%s\n",
               shown(pc_schema_name(schema)), (long long)pc_schema_length(schema),
               (unsigned long long)r->stored, tier_name(r->tier), 1e-6 * (double)r->bytes,
               r->missing   ? "; not all could be stored"
               : !r->stored ? "; nothing was missing"
                            : "");
}

/* Prints why a tier lacks states, and what to do. Resets its news. */
static void print_missing(arguments *a, const char *schema, uint32_t tier)
{
    static const char *const next[] = {
        [PC_REASON_NO_ROOM] = "a larger --disk-size makes room (and a larger --ram-size: all "
                              "states pass through RAM)",
        [PC_REASON_DEADLINE] = "--deadline gives it more time",
        [PC_REASON_UNREACHABLE] = "is the server of --remote running?"};
    tier_news *news = &a->news[tier];
    pthread_mutex_lock(&a->lock);
    if (news->missing) {
        fprintf(stderr, "%s: not all states of %s could be stored: %s: %s\n", program_name, schema,
                tier_name(tier),
                *news->cause                         ? shown(news->cause)
                : news->reason == PC_REASON_IO       ? "writing failed"
                : news->reason == PC_REASON_DEADLINE ? "writing took too long"
                                                     : reason_name(news->reason));
        if (news->reason < sizeof next / sizeof *next && next[news->reason])
            fprintf(stderr, "  %s\n", next[news->reason]);
    }
    news->missing = news->count = 0;
    pthread_mutex_unlock(&a->lock);
}

/* Encodes one schema. EXIT_CHECK: a tier lacks some of its states. */
static int fill_store(arguments *a, const objects *o, size_t index)
{
    pc_tier_stats before[PC_TIER_COUNT];
    pc_schema *schema = NULL;
    int code = load_schema(a, o, index, &schema), complete = 1;
    for (uint32_t t = 0; t < PC_TIER_COUNT; t++) {
        before[t] = (pc_tier_stats)PC_TIER_STATS_INIT;
        pc_cache_get_tier_stats(o->cache, t, &before[t]);
    }
    if (code < 0)
        code = encode(a, o, schema);
    for (uint32_t t = PC_TIER_DISK; t <= PC_TIER_REMOTE && code < 0; t++) {
        row r;
        if (!(t == PC_TIER_DISK ? a->store.disk != NULL : has_server(&a->store)))
            continue;
        r = row_of(a, o, t, &before[t]);
        print_row(a, schema, &r);
        complete = complete && !r.missing;
        print_missing(a, a->schemas.count ? a->schemas.items[index] : "the schema string", t);
    }
    pc_schema_free(schema);
    return code >= 0 ? code : complete ? -1 : EXIT_CHECK;
}

static int encode_all(arguments *a)
{
    pc_model_options options = PC_MODEL_OPTIONS_INIT;
    objects o = {0};
    int code = -1;
    watch_interrupt();
    a->store.on_event = watch;
    a->store.event_user = a;
    options.compute = COMPUTE_DTYPE(a->compute);
    options.kv = (uint32_t)a->kv;
    options.progress = stop_loading;
    options.packed_weights = a->packed;
    options.chat_template = a->pml.chat;
    code = open_context(&o.context);
    if (code < 0)
        code = open_store(&o.cache, o.context, &encode_command, &a->store);
    if (code < 0 && pc_model_load(&o.model, o.context, a->model, &options) < 0)
        code = model_error(a->model, MODEL_HINT);
    for (size_t i = 0; i < (a->schemas.count ? a->schemas.count : 1) && code < 0; i++)
        code = fill_store(a, &o, i);
    pc_cache_free(o.cache);
    pc_model_free(o.model);
    pc_context_free(o.context);
    for (uint32_t t = 0; t < PC_TIER_COUNT; t++)
        free(a->news[t].stored);
    return code < 0 ? EXIT_OK : code;
}

static int check_arguments(arguments *a)
{
    int code = check_store(&encode_command, &a->store);
    if (code >= 0)
        return code;
    if (!a->model)
        return usage_error(&encode_command, "--model is needed");
    if (!a->schemas.count && !format_given(&a->relay))
        return usage_error(&encode_command, "--schema is needed");
    if (a->schemas.count && format_given(&a->relay))
        return usage_error(&encode_command, "a PML schema and a schema string exclude each other");
    if (!store_given(&a->store))
        return usage_error(&encode_command, "--disk or --remote is needed: a store for the states");
    return format_given(&a->relay) ? check_format(&encode_command, &a->relay, 0) : -1;
}

static int run(int argc, char **argv)
{
    static arguments a = {.lock = PTHREAD_MUTEX_INITIALIZER};
    const option_row rows[] = {
        {"model", OPTION_PATH, &a.model, "GGUF file, Hugging Face folder or llama2.c checkpoint",
         NULL, 0, 0},
        {"schema", OPTION_FILES, &a.schemas,
         "PML file with the modules; may be given several times", NULL, 0, 0},
        PML_OPTION_ROWS(a.pml),
        FORMAT_OPTION_ROWS(a.relay),
        {"encoding", OPTION_CHOICE, &a.encoding,
         "which other modules a module attends to while it is encoded", "independent sink joint", 0,
         0},
        {"compute", OPTION_CHOICE, &a.compute, "number format", COMPUTE_CHOICES, 0, 0},
        {"kv", OPTION_CHOICE, &a.kv, "number format of K and V", KV_CHOICES, 0, 0},
        PACKED_ROW(a.packed),
        THREADS_ROW,
        STORE_OPTION_ROWS(a.store),
        {"priority", OPTION_NUMBER, &a.priority, "states of lower priority are evicted first (0)",
         NULL, -1000000, 1000000},
        {"rope-regime-length", OPTION_NUMBER, &a.rope_regime_length,
         "length of later requests, which selects the RoPE regime; 0: the length of the schema (0)",
         NULL, 0, INT32_MAX},
        {"json", OPTION_FLAG, &a.json, "one JSON object a schema and tier", NULL, 0, 0},
    };
    const char *others[1];
    size_t count;
    int code = read_options(&encode_command, argc, argv, rows, sizeof rows / sizeof *rows, others,
                            0, &count);
    if (code < 0)
        code = check_arguments(&a);
    return code >= 0 ? code : encode_all(&a);
}

const command encode_command = {
    .name = "encode",
    .usage = "encode --model M --schema S.pml (--disk DIR | --remote URL) [options]",
    .summary = "fills a store with the encoded modules of schemas",
    .run = run};
