/* Records that are mapped instead of read. Catches: small records mapped, or others not mapped;
 * ignored flags; a file cut short after opening that kills the process instead of failing the load;
 * a write to a mapped block that reaches the file; descriptors or mappings that leak; mapped bytes
 * not counted; a segment that does not outlive its cache, entry or file. */
#include "base/context.h"
#include "disk.h"
#include "store/disk/disk_source.h"
#include <promptcache/cache.h>

enum { SMALL = 3000, LARGE = 200000 }; /* of a block; records have three */

static pc__source *open_one(pc__tier *tier, uint32_t number, double seconds, pc__record **record)
{
    static const pc__record_options options = {0};
    pc__source *source = NULL;
    pc__id key = disk_key(number);
    int timed_out;
    CHECK_OK(tier->ops->open(tier, &key, pc__now() + seconds, &source, &timed_out));
    CHECK_OK(pc__record_open(record, &pc__libc_allocator, &options, source));
    return source;
}

static void close_one(pc__tier *tier, uint32_t number, pc__source *source, pc__record *record,
                      pc_status status)
{
    pc__id key = disk_key(number);
    tier->ops->read_done(tier, &key, status, source->bytes, 1e-3);
    pc__record_free(record);
    source->close(source);
}

/* Which are mapped: by size and flags. */
static void who_is_mapped(void)
{
    static const struct {
        uint32_t how;
        int small, large;
    } cases[] = {{PC__MAP_NEVER, 0, 0}, {PC__MAP_LOCAL, 0, 1}, {PC__MAP_ALWAYS, 1, 1}};
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        pc__tier *tier = NULL;
        pc__record *record;
        pc__mapped_files *maps;
        const char *path = disk_fresh_folder();
        CHECK_OK(disk_open(&tier, path, &(disk_options){.map = cases[c].how}));
        int folder = open(path, O_RDONLY | O_DIRECTORY);
        CHECK_OK(pc__mapped_files_new(&maps, &pc__libc_allocator, folder, cases[c].how));
        int unknown = cases[c].how == PC__MAP_LOCAL
                      && !maps; /* the file system of the tests' folder is unknown */
        close(folder);
        pc__mapped_files_unref(maps);
        CHECK_OK(disk_put(tier, 1, SMALL, NULL));
        CHECK_OK(disk_put(tier, 2, LARGE, NULL));
        for (uint32_t n = 1; n < 3; n++) {
            pc__source *source = open_one(tier, n, 20, &record);
            int is_mapped = source->map && source->map(source);
            CHECK_INT(is_mapped, !unknown && (n == 1 ? cases[c].small : cases[c].large));
            CHECK_INT(disk_stats(tier).mapped_bytes, is_mapped ? source->bytes : 0);
            CHECK_OK(disk_compare(record, n, n == 1 ? SMALL : LARGE));
            close_one(tier, n, source, record, PC_OK);
            CHECK_INT(disk_stats(tier).mapped_bytes, 0);
        }
        disk_close_tier(tier);
    }
}

/* Beyond the limit of mappings, files are read. */
static void most(void)
{
    pc__mapped_files *maps;
    uint64_t count = 0;
    CHECK_OK(pc__mapped_files_new(&maps, &pc__libc_allocator, -1, PC__MAP_LOCAL));
    CHECK(!maps); /* not known to be local */
    CHECK_OK(pc__mapped_files_new(&maps, &pc__libc_allocator, -1, PC__MAP_ALWAYS));
    while (count < 100000 && pc__mapped_files_reserve(maps, 10))
        count++;
    CHECK(count > 1000 && count < 65530);
    CHECK_INT(pc__mapped_files_bytes(maps), 10 * count);
    pc__mapped_files_unreserve(maps, 10);
    CHECK(pc__mapped_files_reserve(maps, 10) && !pc__mapped_files_reserve(maps, 10));
    for (uint64_t i = 0; i < count; i++)
        pc__mapped_files_unreserve(maps, 10);
    CHECK_INT(pc__mapped_files_bytes(maps), 0);
    pc__mapped_files_unref(maps);
}

/* A file cut short after it was opened fails the load, and no more. */
static void cut_short(off_t to)
{
    const char *path = disk_fresh_folder();
    pc__tier *tier = NULL;
    pc__record *record;
    pc_status status = PC_OK;
    CHECK_OK(disk_open(&tier, path, &(disk_options){.map = PC__MAP_ALWAYS}));
    CHECK_OK(disk_put(tier, 5, LARGE, NULL));
    pc__source *source = open_one(tier, 5, 20, &record);
    CHECK(source->map(source));
    CHECK_OK(pc__record_check(record, 0));
    CHECK(!disk_truncate(path, 5, to));
    for (size_t b = 0; b < TOY_BLOCKS && status == PC_OK; b++)
        status = pc__record_check(record, b);
    CHECK_STATUS(status, PC_ERR_FORMAT);
    CHECK_ERROR_HAS("cut short");
    close_one(tier, 5, source, record, status);
    CHECK_STATUS(disk_get(tier, 5, LARGE, NULL), PC_MISS); /* it is gone */
    CHECK_INT(disk_stats(tier).mapped_bytes, 0);
    disk_close_tier(tier);
}

/* The deadline holds, mapped or not. */
static void deadline(void)
{
    const char *path = disk_fresh_folder();
    pc__tier *tier = NULL;
    pc__record *record = NULL;
    CHECK_OK(disk_open(&tier, path, &(disk_options){.map = PC__MAP_ALWAYS}));
    CHECK_OK(disk_put(tier, 6, SMALL, NULL));
    pc__source *source = open_one(tier, 6, 0.5, &record);
    CHECK(source->map(source));
    usleep(510000);
    CHECK_STATUS(pc__record_check(record, 0), PC_ERR_IO);
    CHECK_INT(atomic_load(&source->timed_out), 1);
    close_one(tier, 6, source, record, PC_ERR_IO);
    disk_close_tier(tier);
}

static size_t descriptors(void)
{
    size_t count = 0;
    DIR *dir = opendir("/proc/self/fd");
    while (dir && readdir(dir))
        count++;
    if (dir)
        closedir(dir);
    return count;
}

/* Mapped blocks are private, need no descriptor, and outlive the file. */
static void lent(void)
{
    const char *path = disk_fresh_folder();
    pc__tier *tier = NULL;
    pc__record *record;
    CHECK_OK(disk_open(&tier, path, &(disk_options){.map = PC__MAP_ALWAYS}));
    CHECK_OK(disk_put(tier, 7, LARGE, NULL));
    struct stat st;
    CHECK(!stat(disk_record_path(path, 7), &st) && (st.st_mode & 07777) == 0400);
    size_t before = descriptors();
    pc__source *source = open_one(tier, 7, 20, &record);
    CHECK(pc__record_is_plain(record) && !pc__record_block_address(record, 1));
    CHECK_STATUS(pc__record_check(record, 1), PC_ERR_INTERNAL);
    CHECK(source->map(source) && source->map(source));
    for (size_t b = 0; b < TOY_BLOCKS; b++)
        CHECK_OK(pc__record_check(record, b));
    source->close_rest(source);
    CHECK_INT(descriptors(), before);
    uint8_t *block = (uint8_t *)(uintptr_t)pc__record_block_address(record, 1);
    CHECK(block && block[5] == toy_byte(7, 1, 5) && !((uintptr_t)block % 64));
    if (block)
        block[5] = (uint8_t)(block[5] + 1);
    CHECK_OK(disk_get(tier, 7, LARGE, NULL)); /* from the file, as it was */
    pc__id key = disk_key(7);
    tier->ops->remove(tier, &key);
    CHECK(block && block[5] == (uint8_t)(toy_byte(7, 1, 5) + 1)
          && block[LARGE] == toy_byte(7, 1, LARGE));
    tier->ops->free(tier); /* before the memory that it borrows */
    pc__record_free(record);
    source->close(source);
    CHECK(descriptors() < before);
}

/* ------------------------------------------------------------------ through a cache */

typedef struct states {
    uint8_t model[32];
    int32_t tokens[4];
    uint8_t *memory[2];
    uint64_t bytes[2];
    pc_raw raw;
} states;

static void make_states(states *s)
{
    *s = (states){.model = {9}, .tokens = {1, 2, 3, 4}, .bytes = {LARGE, LARGE}};
    for (size_t b = 0; b < 2; b++) {
        s->memory[b] = malloc(LARGE);
        for (size_t i = 0; i < LARGE; i++)
            s->memory[b][i] = toy_byte(77, b, i);
    }
    s->raw = (pc_raw)PC_RAW_INIT;
    s->raw.model = s->model;
    strcpy(s->raw.architecture, "own");
    s->raw.layout = PC_LAYOUT_APPLICATION;
    s->raw.tokens = s->tokens;
    s->raw.token_count = 4;
    s->raw.blocks = (const void *const *)(void *const *)(void *)s->memory;
    s->raw.block_bytes = s->bytes;
    s->raw.block_count = 2;
}

static pc_cache *open_cache(pc_context *context, const char *folder, uint64_t flags, uint32_t codec)
{
    pc_cache *cache = NULL;
    pc_cache_options o = PC_CACHE_OPTIONS_INIT;
    o.flags = flags | PC_CACHE_ALWAYS_LOAD;
    o.disk_path = folder;
    o.disk_codec = codec;
    o.deadline_seconds = 20;
    CHECK_OK(pc_cache_new(&cache, context, &o));
    return cache;
}

static uint64_t mapped(pc_cache *cache)
{
    pc_tier_stats stats = PC_TIER_STATS_INIT;
    CHECK_OK(pc_cache_get_tier_stats(cache, PC_TIER_DISK, &stats));
    return stats.mapped_bytes;
}

/* With any flags the states are equal; RAM counts which were mapped. */
static void by_flags(pc_context *context, uint64_t flags, uint32_t codec, int is_mapped)
{
    const char *folder = disk_fresh_folder();
    uint8_t key[32] = {3};
    pc_segment *segment = NULL;
    pc_get_info info = PC_GET_INFO_INIT;
    pc_raw raw = PC_RAW_INIT;
    pc_cache_stats host = PC_CACHE_STATS_INIT;
    states s;
    make_states(&s);
    pc_cache *cache = open_cache(context, folder, flags, codec);
    CHECK_OK(pc_segment_wrap(&segment, context, &s.raw, NULL, NULL));
    CHECK_OK(pc_cache_put(cache, key, segment, NULL));
    CHECK_OK(pc_cache_flush(cache));
    pc_segment_free(segment);
    CHECK_OK(pc_cache_clear(cache));
    CHECK_INT(mapped(cache), 0);
    CHECK_OK(pc_cache_get(&segment, cache, key, &s.raw, 0, &info));
    CHECK_INT(info.tier, PC_TIER_DISK);
    CHECK_INT(mapped(cache) >= 2 * LARGE, is_mapped);
    CHECK_INT(mapped(cache) == 0, !is_mapped);
    CHECK_OK(pc_cache_get_stats(cache, &host));
    CHECK(host.segments == 1 && host.segment_bytes >= 2 * LARGE
          && host.segment_bytes < 2 * LARGE + 40000);
    CHECK_OK(pc_cache_clear(cache)); /* it is in use, and stays */
    CHECK_INT(mapped(cache) != 0, is_mapped);
    pc_cache_free(cache);
    CHECK_OK(pc_segment_raw(segment, &raw));
    for (size_t b = 0; b < 2 && raw.block_count == 2; b++)
        CHECK(raw.block_bytes[b] == LARGE && !memcmp(raw.blocks[b], s.memory[b], LARGE));
    pc_segment_free(segment);
    for (size_t b = 0; b < 2; b++)
        free(s.memory[b]);
}

static void flags(void)
{
    pc_context *context = NULL;
    pc_cache *cache = NULL;
    pc_cache_options o = PC_CACHE_OPTIONS_INIT;
    CHECK_OK(pc_context_new(&context, NULL));
    by_flags(context, PC_CACHE_MMAP, PC_CODEC_DEFAULT, 1);
    by_flags(context, PC_CACHE_NO_MMAP, PC_CODEC_DEFAULT, 0);
    by_flags(context, PC_CACHE_ZERO_MEMORY, PC_CODEC_DEFAULT, 0);
    by_flags(context, PC_CACHE_ZERO_MEMORY | PC_CACHE_MMAP, PC_CODEC_DEFAULT, 0);
    by_flags(context, PC_CACHE_MMAP, PC_CODEC_ZSTD, 0);
    o.flags = PC_CACHE_MMAP | PC_CACHE_NO_MMAP;
    CHECK_STATUS(pc_cache_new(&cache, context, &o), PC_ERR_INVALID);
    CHECK(!cache);
    pc_context_free(context);
}

/* Loads from the folder with one allocation failing after the other: right or not at all, with no
 * mapping or descriptor left. */
static void without_memory(void)
{
    const char *folder = disk_fresh_folder();
    uint8_t key[32] = {3};
    pc_context *context = NULL;
    pc_segment *segment = NULL;
    size_t before, loaded = 0;
    int completed = 0;
    uint64_t at = 0;
    states s;
    make_states(&s);
    CHECK_OK(pc_context_new(&context, NULL));
    pc_cache *cache = open_cache(context, folder, 0, PC_CODEC_DEFAULT);
    CHECK_OK(pc_segment_wrap(&segment, context, &s.raw, NULL, NULL));
    CHECK_OK(pc_cache_put(cache, key, segment, NULL));
    pc_segment_free(segment);
    pc_cache_free(cache);
    pc_context_free(context);
    before = descriptors();
    while (!completed && ++at < 400) {
        pc_test_memory memory = {.fail_at = at};
        pc_allocator mem = pc_test_allocator(&memory);
        pc_context_options o = PC_CONTEXT_OPTIONS_INIT;
        pc_cache_options c = PC_CACHE_OPTIONS_INIT;
        pc_raw raw = PC_RAW_INIT;
        pc_status status;
        o.allocator = &mem;
        o.threads = 1;
        c.disk_path = folder;
        c.flags = PC_CACHE_MMAP | PC_CACHE_ALWAYS_LOAD;
        c.deadline_seconds = 20;
        context = NULL;
        cache = NULL;
        segment = NULL;
        if ((status = pc_context_new(&context, &o)) >= 0
            && (status = pc_cache_new(&cache, context, &c)) >= 0)
            status = pc_cache_get(&segment, cache, key, &s.raw, 0, NULL);
        CHECK((status == PC_OK) == (segment != NULL));
        if (segment && CHECK_OK(pc_segment_raw(segment, &raw)))
            CHECK(!memcmp(raw.blocks[1], s.memory[1], LARGE));
        loaded += segment != NULL;
        pc_segment_free(segment);
        pc_cache_free(cache);
        pc_context_free(context);
        completed = memory.calls < at;
        CHECK_INT(memory.live_blocks, 0);
        CHECK_INT(descriptors(), before);
        CHECK(!completed || segment);
    }
    CHECK(completed && at > 20 && loaded);
    for (size_t b = 0; b < 2; b++)
        free(s.memory[b]);
}

int main(void)
{
    who_is_mapped();
    most();
    cut_short(0);
    cut_short(100000);
    cut_short(3 * LARGE);
    deadline();
    lent();
    flags();
    without_memory();
    return pc_test_end();
}
