/* bench store: speed of the tiers below RAM. States computed by a model are put into a cache and
 * fetched again from a tier, one after the other. DISK and REMOTE: RAM is cleared before each pass.
 * COMPRESSED holds what RAM evicts and would be cleared too: there the same states are put under so
 * many keys that RAM holds less than half of them, and those found in RAM do not count.
 *
 * load_bytes_per_s: bytes of states a second by pc_cache_get.
 * raw_read_bytes_per_s: bytes of the files a second if they are read from end to end into memory in
 * use (COMPRESSED: copied in memory; REMOTE: none, the server's files are not ours).
 * fresh_read_bytes_per_s: the same into new memory for each file, as a load needs it.
 * share, fresh_share: seconds of that reading over seconds of loading, so that smaller files do not
 * count for a codec. best_share: of the fastest of each, for a machine with other work.
 * RAW on DISK has two rows: "map", the cache's own choice, and "read" (PC_CACHE_NO_MMAP).
 * Rates of a codec are of one core, by the counters of COMPRESSED; they include checksums and
 * memory. */
#include <promptcache/cache.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench.h"
#include "constant_names.h"
#include "file_tree.h"
#include "machine.h"
#include "store_states.h"

enum { MOST_REPEATS = 64 };
static const char *const codec_names[] = {"raw", "zstd", "int8", "int4"}; /* from PC_CODEC_RAW on */
static const uint32_t tiers[] = {PC_TIER_COMPRESSED, PC_TIER_DISK, PC_TIER_REMOTE};
static const char *const tier_names[] = {"compressed", "disk", "remote"};

typedef struct arguments {
    bench_model_options model;
    const char *text, *codec_list, *tier_list, *remote, *remote_file, *folder;
    long segments, tokens, repeats, io_threads;
    unsigned codecs, tiers; /* bits */
    int json;
} arguments;

/* One tier with one codec. */
typedef struct case_result {
    size_t tier, codec;
    const char *page_cache; /* of DISK: "warm" or "cold"; else NULL */
    int no_map;             /* PC_CACHE_NO_MMAP */
    int mapped;             /* files were mapped, not read */
    uint64_t stored;
    double load[MOST_REPEATS], read[MOST_REPEATS], fresh[MOST_REPEATS]; /* seconds */
    double compress, decompress; /* bytes a second of the codec on one core */
    int equal;                   /* all bits are as they were computed */
} case_result;

/* One entry of a cache. */
typedef struct entry {
    const store_state *state;
    uint8_t key[32];
} entry;

typedef struct entries {
    entry *items;
    size_t count;
    size_t pass; /* loads that are timed together */
    size_t next;
} entries;

/* Size of RAM in states. A sixteenth of it may be on the way to COMPRESSED at a time, and a state
 * must fit into that. */
enum { RAM_STATES = 17 };

/* A server may still hold entries of an earlier run: the keys are new each time. */
static int make_entries(entries *e, const bench_model *b, const store_states *s, size_t tier)
{
    uint64_t first = (uint64_t)(machine_now() * 1e9) << 16;
    size_t aliases = tiers[tier] == PC_TIER_COMPRESSED ? 2 * RAM_STATES / s->count + 1 : 1;
    *e = (entries){calloc(aliases * s->count, sizeof *e->items), 0, s->count, 0};
    for (size_t i = 0; e->items && i < aliases * s->count; i++) {
        e->items[i].state = &s->items[i % s->count];
        if (!state_key(e->items[i].state, b, first + i / s->count, e->items[i].key))
            return input_error("key", NULL);
        e->count++;
    }
    return e->items ? EXIT_OK : plain_error("out of memory");
}

static int open_cache(pc_cache **out, const bench_model *b, const arguments *a,
                      const store_states *s, size_t tier, size_t codec, const char *folder,
                      int no_map)
{
    pc_cache_options o = PC_CACHE_OPTIONS_INIT;
    o.ram_bytes = RAM_STATES * (s->largest + 4096);
    o.flags = PC_CACHE_ALWAYS_LOAD | (no_map ? PC_CACHE_NO_MMAP : 0);
    o.deadline_seconds = 600;
    o.io_threads = (uint32_t)a->io_threads;
    if (tiers[tier] == PC_TIER_COMPRESSED) {
        o.compressed_bytes = (3 * RAM_STATES + s->count) * s->largest + (64 << 20);
        o.compressed_codec = (uint32_t)codec + PC_CODEC_RAW;
        o.io_threads = 1; /* rates of one core */
    } else if (tiers[tier] == PC_TIER_DISK) {
        o.disk_path = folder;
        o.disk_bytes = 2 * s->bytes + (64 << 20);
        o.disk_codec = (uint32_t)codec + PC_CODEC_RAW;
    } else {
        o.remote = a->remote;
        o.ttl_seconds = 900; /* the server forgets all of it */
        o.remote_codec = (uint32_t)codec + PC_CODEC_RAW;
    }
    return pc_cache_new(out, b->context, &o) < 0 ? input_error("cache", NULL) : EXIT_OK;
}

static int put_all(pc_cache *cache, const bench_model *b, const entries *e)
{
    for (size_t i = 0; i < e->count; i++) {
        pc_segment *segment = NULL;
        pc_status status = pc_segment_wrap(&segment, b->context, &e->items[i].state->raw, NULL,
                                           NULL);
        if (status >= 0)
            status = pc_cache_put(cache, e->items[i].key, segment, NULL);
        pc_segment_free(segment);
        if (status >= 0)
            status = pc_cache_flush(cache); /* one by one: a long queue would refuse entries */
        if (status < 0)
            return input_error("store", NULL);
    }
    return EXIT_OK;
}

static int is_mapped(pc_cache *cache, size_t tier)
{
    pc_tier_stats stats = PC_TIER_STATS_INIT;
    return pc_cache_get_tier_stats(cache, tiers[tier], &stats) >= 0 && stats.mapped_bytes;
}

/* Fetches an entry. 1: from the tier, its time is added to *seconds; 0: from RAM; -1 after a
 * message.
 */
static int get_one(pc_cache *cache, const entry *e, size_t tier, double *seconds,
                   case_result *check)
{
    pc_segment *segment = NULL;
    pc_get_info info = PC_GET_INFO_INIT;
    pc_raw raw = PC_RAW_INIT;
    double start = machine_now(), elapsed;
    pc_status status = pc_cache_get(&segment, cache, e->key, &e->state->raw, 0, &info);
    elapsed = machine_now() - start;
    if (status == PC_MISS) {
        plain_error("%s did not return a state: %s", tier_names[tier], reason_name(info.reason));
        return -1;
    }
    if (status < 0 || pc_segment_raw(segment, &raw) < 0) {
        input_error("load", NULL);
        return -1;
    }
    if (check) {
        check->equal &= sum_blocks(&raw) == e->state->sum;
        check->mapped |= is_mapped(cache, tier);
    }
    pc_segment_free(segment);
    pc_cache_flush(cache); /* evicted entries reach their tier before the next fetch */
    if (info.tier != tiers[tier])
        return 0;
    *seconds += elapsed;
    return 1;
}

/* Seconds to load as many entries as there are states; < 0 after a message. */
static double get_all(pc_cache *cache, entries *e, size_t tier, case_result *check)
{
    double seconds = 0;
    size_t loads = 0;
    if (tiers[tier] != PC_TIER_COMPRESSED && pc_cache_clear(cache) < 0) {
        input_error("clear", NULL);
        return -1;
    }
    for (size_t i = 0; loads < e->pass; i++) {
        int got = i < 4 * e->count
                      ? get_one(cache, &e->items[e->next++ % e->count], tier, &seconds, check)
                      : 0;
        if (got < 0)
            return -1;
        if (i == 4 * e->count) {
            plain_error("%zu states were never loaded from %s", e->pass - loads, tier_names[tier]);
            return -1;
        }
        loads += (size_t)got;
    }
    return seconds;
}

/* Seconds to copy as many bytes as the tier holds. */
static double copy_seconds(uint64_t bytes, void *memory, size_t size)
{
    double start = machine_now();
    for (uint64_t left = bytes; left;) {
        size_t n = left < size / 2 ? (size_t)left : size / 2;
        memcpy(memory, (char *)memory + size / 2, n);
        left -= n;
    }
    return machine_now() - start;
}

static double read_once(const case_result *r, const file_tree *files, void *memory, size_t size)
{
    if (tiers[r->tier] == PC_TIER_COMPRESSED)
        return copy_seconds(r->stored, memory, size);
    return tiers[r->tier] == PC_TIER_DISK ? read_files(files, memory, size) : NAN;
}

/* The cache is cleared first: mapped files would stay in the page cache. */
static void cool(pc_cache *cache, const file_tree *files)
{
    pc_cache_clear(cache);
    drop_files(files);
}

/* Loads and reads in turn. */
static int repeat(case_result *r, pc_cache *cache, const arguments *a, entries *e,
                  const file_tree *files, void *memory, size_t size)
{
    int cold = r->page_cache && !strcmp(r->page_cache, "cold");
    r->equal = 1;
    if (get_all(cache, e, r->tier, r) < 0)
        return EXIT_CHECK;
    for (long i = 0; i < a->repeats; i++) {
        if (cold)
            cool(cache, files);
        if ((r->load[i] = get_all(cache, e, r->tier, NULL)) < 0)
            return EXIT_CHECK;
        if (cold)
            cool(cache, files);
        if ((r->read[i] = read_once(r, files, memory, size)) < 0)
            return plain_error("a file of the folder cannot be read");
        if (cold)
            cool(cache, files);
        r->fresh[i] = tiers[r->tier] == PC_TIER_DISK ? read_files(files, NULL, size) : NAN;
        if (is_interrupted(NULL))
            return EXIT_INTERRUPTED;
    }
    return EXIT_OK;
}

/* How files were loaded; NULL: not from files. */
static const char *access_of(const case_result *r)
{
    return tiers[r->tier] != PC_TIER_DISK ? NULL : r->mapped ? "map" : "read";
}

/* A number, or "-" for NaN. */
static const char *known(char text[32], int decimals, double value)
{
    if (isnan(value))
        return "-";
    snprintf(text, 32, "%.*f", decimals, value);
    return text;
}

static double least(const double *values, size_t count)
{
    double out = values[0];
    for (size_t i = 1; i < count; i++)
        out = values[i] < out ? values[i] : out;
    return out;
}

static void print_row(const case_result *result, const arguments *a, const store_states *s,
                      int first)
{
    case_result r = *result; /* median sorts */
    size_t n = (size_t)a->repeats;
    double load = median(r.load, n), read = isnan(r.read[0]) ? NAN : median(r.read, n),
           fresh = isnan(r.fresh[0]) ? NAN : median(r.fresh, n),
           best = least(r.read, n) / least(r.load, n);
    double bytes = (double)s->bytes, stored = (double)r.stored;
    char rate_text[32], share_text[32], fresh_text[32], best_text[32];
    if (!a->json && first)
        printf("%-6s %-5s %-5s %-5s %8s %8s %6s %9s %9s %9s %6s %6s %9s %9s\n", "tier", "", "",
               "codec", "MB", "stored", "ratio", "load MB/s", "read MB/s", "fresh", "share", "best",
               "compress", "decompr.");
    if (a->json)
        print_json(json_pack(
            "{s:s,s:s,s:I,s:I,s:f,s:o,s:o,s:o,s:o,s:o,s:f,s:o,s:o,s:b,s:o,s:o,s:I,s:I}", "tier",
            tier_names[r.tier], "codec", codec_names[r.codec], "bytes", (json_int_t)s->bytes,
            "stored_bytes", (json_int_t)r.stored, "load_bytes_per_s", bytes / load,
            "raw_read_bytes_per_s", json_number(stored / read), "fresh_read_bytes_per_s",
            json_number(stored / fresh), "fresh_share", json_number(fresh / load), "share",
            json_number(read / load), "best_share", json_number(best), "codec_ratio",
            bytes / stored, "compress_bytes_per_s", json_number(r.compress),
            "decompress_bytes_per_s", json_number(r.decompress), "equal", r.equal, "page_cache",
            r.page_cache ? json_string(r.page_cache) : json_null(), "access",
            access_of(&r) ? json_string(access_of(&r)) : json_null(), "segments",
            (json_int_t)s->count, "tokens", (json_int_t)a->tokens));
    else
        printf("%-6s %-5s %-5s %-5s %8.1f %8.1f %6.3f %9.0f %9s %9s %6s %6s %9.0f %9.0f %s\n",
               tier_names[r.tier], r.page_cache ? r.page_cache : "",
               access_of(&r) ? access_of(&r) : "", codec_names[r.codec], bytes / 1e6, stored / 1e6,
               bytes / stored, bytes / load / 1e6, known(rate_text, 0, stored / read / 1e6),
               known(fresh_text, 0, stored / fresh / 1e6), known(share_text, 2, read / load),
               known(best_text, 2, best), r.compress / 1e6, r.decompress / 1e6,
               r.equal ? "equal" : "near");
    fflush(stdout);
}

static double rate(uint64_t bytes, double seconds)
{
    return seconds > 0 ? (double)bytes / seconds : NAN;
}

/* Fetches every entry once, so that what RAM evicts is in the tier, and memory for loads is
 * allocated. */
static int all_once(pc_cache *cache, const entries *e, size_t tier)
{
    double seconds = 0;
    for (size_t i = 0; i < e->count; i++)
        if (get_one(cache, &e->items[i], tier, &seconds, NULL) < 0)
            return EXIT_CHECK;
    return EXIT_OK;
}

/* Rates of a codec by the counters of COMPRESSED. */
static int measure_codec(double *compress, double *decompress, const bench_model *b,
                         const arguments *a, const store_states *s, size_t codec)
{
    pc_cache *cache = NULL;
    entries e = {NULL, 0, 0, 0};
    pc_tier_stats before = PC_TIER_STATS_INIT, after = PC_TIER_STATS_INIT;
    int code = make_entries(&e, b, s, 0);
    if (code == EXIT_OK && (code = open_cache(&cache, b, a, s, 0, codec, NULL, 0)) == EXIT_OK
        && (code = put_all(cache, b, &e)) == EXIT_OK
        && (code = all_once(cache, &e, 0)) == EXIT_OK) {
        pc_cache_get_tier_stats(cache, PC_TIER_COMPRESSED, &before);
        if ((code = all_once(cache, &e, 0)) == EXIT_OK) {
            pc_cache_get_tier_stats(cache, PC_TIER_COMPRESSED, &after);
            *compress = rate(before.stored * s->largest, before.seconds_written);
            *decompress = rate((after.hits - before.hits) * s->largest,
                               after.seconds_read - before.seconds_read);
        }
    }
    pc_cache_free(cache);
    free(e.items);
    return code;
}

static int measure(case_result *r, pc_cache *cache, const arguments *a, entries *e,
                   const store_states *s, const char *folder, size_t *rows)
{
    pc_tier_stats stats = PC_TIER_STATS_INIT;
    file_tree files = {NULL, 0, 0, 0, 0};
    size_t size;
    void *memory;
    int disk = tiers[r->tier] == PC_TIER_DISK, code = EXIT_OK;
    if (pc_cache_get_tier_stats(cache, tiers[r->tier], &stats) < 0)
        return input_error("statistics", NULL);
    if (!stats.stored || stats.stored < (disk ? s->count : 1))
        return plain_error("%s stored %llu of %zu states", tier_names[r->tier],
                           (unsigned long long)stats.stored, e->count);
    r->stored = stats.bytes_written / stats.stored * s->count;
    if (disk && !list_files(&files, folder))
        return plain_error("%s cannot be listed", folder);
    size = disk ? (size_t)files.largest : (size_t)(2 * s->largest);
    if (!(memory = machine_memory(size)))
        code = plain_error("out of memory");
    else
        memset(memory, 1, size);
    for (int cold = 0; cold <= disk && code == EXIT_OK; cold++) {
        r->page_cache = disk ? (cold ? "cold" : "warm") : NULL;
        if ((code = repeat(r, cache, a, e, &files, memory, size)) == EXIT_OK)
            print_row(r, a, s, !(*rows)++);
    }
    free(memory);
    free_files(&files);
    return code;
}

/* Uses a new folder in --folder, and removes it. */
static int one_case(const bench_model *b, const arguments *a, const store_states *s, case_result *r,
                    size_t *rows)
{
    char folder[4096] = "";
    pc_cache *cache = NULL;
    entries e = {NULL, 0, 0, 0};
    int code;
    if (tiers[r->tier] == PC_TIER_DISK) {
        if ((size_t)snprintf(folder, sizeof folder, "%s/promptcache-bench-XXXXXX", a->folder)
                >= sizeof folder
            || !mkdtemp(folder))
            return plain_error("%s: no folder can be made there", a->folder);
    }
    if ((code = make_entries(&e, b, s, r->tier)) == EXIT_OK
        && (code = open_cache(&cache, b, a, s, r->tier, r->codec, folder, r->no_map)) == EXIT_OK
        && (code = put_all(cache, b, &e)) == EXIT_OK
        && (code = all_once(cache, &e, r->tier)) == EXIT_OK)
        code = measure(r, cache, a, &e, s, folder, rows);
    pc_cache_free(cache);
    free(e.items);
    if (folder[0])
        remove_tree(folder);
    return code;
}

static int can_map(size_t tier, size_t codec)
{
    return tiers[tier] == PC_TIER_DISK && codec + PC_CODEC_RAW == PC_CODEC_RAW;
}

static int all_cases(const bench_model *b, const arguments *a, const store_states *s)
{
    size_t rows = 0;
    int code = EXIT_OK;
    for (size_t c = 0; c < 4 && code == EXIT_OK; c++) {
        double compress = NAN, decompress = NAN;
        if (!(a->codecs >> c & 1))
            continue;
        code = measure_codec(&compress, &decompress, b, a, s, c);
        for (size_t t = 0; t < 3 && code == EXIT_OK; t++)
            for (int no_map = 0; no_map <= can_map(t, c) && code == EXIT_OK && a->tiers >> t & 1;
                 no_map++) {
                case_result r = {.tier = t,
                                 .codec = c,
                                 .no_map = no_map,
                                 .compress = compress,
                                 .decompress = decompress};
                code = one_case(b, a, s, &r, &rows);
            }
    }
    return code;
}

static int run_bench(const arguments *a, const command *about)
{
    bench_model b;
    store_states s = {NULL, 0, 0, 0};
    int code;
    watch_interrupt();
    if ((code = bench_model_open(&b, &a->model, about)) == EXIT_OK
        && (code = make_states(&s, &b, a->text, (size_t)a->segments, (size_t)a->tokens)) == EXIT_OK)
        code = all_cases(&b, a, &s);
    free_states(&s);
    bench_model_close(&b);
    return code;
}

/* From an option, its file, or the environment. Returns -1, or the exit code after a message. */
static int choose_server(arguments *a, secret *server)
{
    int is_asked = (a->tiers & 4) != 0, code = -1;
    if (a->remote && a->remote_file)
        return usage_error(&bench_store, "--remote and --remote-file exclude each other");
    if (!a->remote && !a->remote_file && is_asked)
        a->remote = program_variable(REMOTE_VARIABLE);
    if ((a->remote || a->remote_file) != is_asked)
        return usage_error(&bench_store, "--remote and --tier remote go together");
    if (a->remote_file && (code = read_secret_line(server, a->remote_file)) < 0)
        a->remote = server->bytes;
    return code;
}

static int run_command_line(int argc, char **argv)
{
    arguments a = {.codec_list = "raw,zstd,int8,int4",
                   .tier_list = "compressed,disk",
                   .segments = 4,
                   .tokens = 1024,
                   .repeats = 5};
    const char *others[1];
    secret server = {NULL, 0};
    const option_row rows[] = {
        BENCH_MODEL_ROWS(a.model),
        {"text", OPTION_FILE, &a.text, "text whose tokens are computed; default: random ids", NULL,
         0, 0},
        {"codec", OPTION_TEXT, &a.codec_list, "codecs, of raw,zstd,int8,int4 (all)", NULL, 0, 0},
        {"tier", OPTION_TEXT, &a.tier_list, "tiers, of compressed,disk,remote (compressed,disk)",
         NULL, 0, 0},
        {"remote", OPTION_TEXT, &a.remote,
         "server of the tier remote: redis://host[:port][/db], or rediss:// with TLS "
         "(PC_REMOTE of the environment)",
         NULL, 0, 0},
        {"remote-file", OPTION_FILE, &a.remote_file,
         "the same from a file that only its owner may read", NULL, 0, 0},
        {"folder", OPTION_DIR, &a.folder, "for the folder of the tier disk ($TMPDIR or /tmp)", NULL,
         0, 0},
        {"segments", OPTION_NUMBER, &a.segments, "number of segments, 2 to 4096 (4)", NULL, 2,
         4096},
        {"tokens", OPTION_NUMBER, &a.tokens, "tokens of each segment (1024)", NULL, 1, 1 << 20},
        {"io-threads", OPTION_NUMBER, &a.io_threads, "I/O threads of the cache; 0: its default (0)",
         NULL, 0, 64},
        {"repeats", OPTION_NUMBER, &a.repeats,
         "loads of each entry, 1 to 64; the median counts (5)", NULL, 1, MOST_REPEATS},
        FORMAT_ROWS(a.json, "one JSON object a row"),
    };
    size_t count;
    int code = read_options(&bench_store, argc, argv, rows, sizeof rows / sizeof *rows, others, 0,
                            &count);
    if (code >= 0)
        return code;
    if ((code = read_names(&bench_store, "codec", a.codec_list, codec_names, 4, &a.codecs)) >= 0
        || (code = read_names(&bench_store, "tier", a.tier_list, tier_names, 3, &a.tiers)) >= 0)
        return code;
    if (a.text && !a.model.model)
        return usage_error(&bench_store, "--text needs --model and its tokenizer");
    if (!a.folder)
        a.folder = temporary_folder();
    if ((code = choose_server(&a, &server)) < 0)
        code = run_bench(&a, &bench_store);
    free_secret(&server);
    return code;
}

const command bench_store = {
    .name = "store",
    .usage = "store [--shape NAME | --model M [--text FILE]] [--codec "
             "LIST] [--tier LIST] [options]",
    .summary = "speed of the store's tiers and codecs, against plain reading",
    .details = "Speed of the tiers and codecs of the store: loading states, against reading the "
               "same files.",
    .run = run_command_line};
