/* Catches: a full disk that disables RAM, disables the folder for good, or is not reported; another
 * fault of a folder that is no error; threads that wait while another one opens the folder; an
 * opening that waits until the folder is within its budget; a folder that never shrinks, or not
 * while requests compute. */
#include "store/cache_internal.h"

#include <promptcache/cache.h>
#include <errno.h>
#include <stdarg.h>

#include "at_rest.h"
#include "disk.h"

/* ------------------------------------------------------------ a disk without room */

enum { ROOM = 0, NO_FOLDER = 1, NO_FILE = 2, NO_BYTE = 3, SLOW_FOLDER = 4 };
static atomic_int room; /* what there is no room for */
static int error = ENOSPC;

static int fails(int what)
{
    if (atomic_load(&room) != what)
        return 0;
    errno = error;
    return 1;
}

#define WRAP_OPEN(name)                                                                        \
    int __real_##name(int dir, const char *path, int flags, ...);                              \
    int __wrap_##name(int dir, const char *path, int flags, ...);                              \
    int __wrap_##name(int dir, const char *path, int flags, ...)                               \
    {                                                                                          \
        va_list args;                                                                          \
        va_start(args, flags);                                                                 \
        mode_t mode = flags & O_CREAT ? va_arg(args, mode_t) : 0;                              \
        va_end(args);                                                                          \
        return flags & O_CREAT && fails(NO_FILE) ? -1 : __real_##name(dir, path, flags, mode); \
    }
#define WRAP_WRITE(name)                                                    \
    ssize_t __real_##name(int fd, const void *data, size_t size, off_t at); \
    ssize_t __wrap_##name(int fd, const void *data, size_t size, off_t at); \
    ssize_t __wrap_##name(int fd, const void *data, size_t size, off_t at)  \
    {                                                                       \
        return fails(NO_BYTE) ? -1 : __real_##name(fd, data, size, at);     \
    }
WRAP_OPEN(openat)
WRAP_OPEN(openat64)
WRAP_WRITE(pwrite)
WRAP_WRITE(pwrite64)
int __real_mkdir(const char *path, mode_t mode);
int __wrap_mkdir(const char *path, mode_t mode);

static atomic_int making, made; /* slow folders */

int __wrap_mkdir(const char *path, mode_t mode)
{
    if (atomic_load(&room) == SLOW_FOLDER) {
        atomic_store(&making, 1);
        for (double until = pc__now() + 5; atomic_load(&room) == SLOW_FOLDER && pc__now() < until;)
            pc_test_breathe();
        atomic_store(&made, 1);
    }
    return fails(NO_FOLDER) ? -1 : __real_mkdir(path, mode);
}

static atomic_int warnings;
static char warning[512];

static void keep_warning(void *user, uint32_t level, const char *line)
{
    (void)user;
    if (level == PC_LOG_WARN && atomic_fetch_add(&warnings, 1) == 0)
        snprintf(warning, sizeof warning, "%s", line);
}

enum { SIZE = 3000, RECORDS = 400 };

static pc_tier_stats disk_of(pc_cache *cache)
{
    pc_tier_stats s = PC_TIER_STATS_INIT;
    CHECK_OK(pc_cache_get_tier_stats(cache, PC_TIER_DISK, &s));
    CHECK_INT(s.stored + s.found, s.segments + s.evicted + s.removed + s.lost);
    return s;
}

static uint64_t fill(const char *path)
{
    pc__tier *tier = disk_open_tier(path, 0);
    uint64_t bytes;
    for (uint32_t n = 0; n < RECORDS; n++)
        CHECK_OK(disk_put(tier, n, SIZE, NULL));
    bytes = disk_stats(tier).segment_bytes;
    disk_close_tier(tier);
    return bytes;
}

/* A folder over its budget shrinks in the background. */
static void shrinks(pc_context *context, int working)
{
    pc_cache_options o = PC_CACHE_OPTIONS_INIT;
    pc_cache *cache = NULL;
    pc_tier_stats s;
    o.disk_path = disk_fresh_folder();
    o.disk_bytes = fill(o.disk_path) / 8;
    CHECK_OK(pc_cache_new(&cache, context, &o));
    pc__cache_request_running(cache, working);
    for (double until = pc__now() + PC_AT_REST_SECONDS;
         (s = disk_of(cache)).excess_bytes && pc__now() < until;) {
        CHECK_INT(s.evicted_behind, s.evicted); /* both counts of one moment */
        pc_test_breathe();
    }
    CHECK_INT(s.excess_bytes, 0);
    CHECK(s.segment_bytes <= o.disk_bytes && s.evicted > RECORDS / 2);
    CHECK_INT(s.evicted_behind, s.evicted);
    CHECK(disk_look(o.disk_path).record_bytes <= o.disk_bytes);
    pc__cache_request_running(cache, -working);
    pc_cache_free(cache);
}

static uint8_t bytes_of_states[4096];

static pc_status store(pc_cache *cache, pc_context *context, int32_t number)
{
    uint8_t key[32] = {1}, model[32] = {2};
    void *blocks[] = {bytes_of_states};
    const uint64_t bytes[] = {sizeof bytes_of_states};
    pc_raw raw = PC_RAW_INIT;
    pc_segment *segment = NULL;
    pc_status status;
    memcpy(key + 8, &number, sizeof number);
    raw.model = model;
    raw.layout = PC_LAYOUT_APPLICATION;
    raw.tokens = &number;
    raw.token_count = 1;
    raw.blocks = (const void *const *)blocks;
    raw.block_bytes = bytes;
    raw.block_count = 1;
    CHECK_OK(pc_segment_wrap(&segment, context, &raw, NULL, NULL));
    status = pc_cache_put(cache, key, segment, NULL);
    pc_segment_free(segment);
    CHECK(pc_cache_flush(cache) >= 0);                           /* a folder may be full or gone */
    CHECK_OK(pc_cache_get(&segment, cache, key, &raw, 0, NULL)); /* RAM has it in any case */
    pc_segment_free(segment);
    return status;
}

/* The cache works, statistics and log report the fault, and the folder is used once there is room.
 */
static void full_disk(pc_context *context, int what, int number)
{
    pc_cache_options o = PC_CACHE_OPTIONS_INIT;
    pc_cache *cache = NULL;
    pc_tier_stats s;
    uint8_t key[32] = {9}, model[32] = {2};
    const uint64_t bytes = sizeof bytes_of_states;
    int32_t token = 5;
    pc_raw raw = PC_RAW_INIT;
    pc_get_info info = PC_GET_INFO_INIT;
    pc_segment *segment;
    char text[16384];
    size_t size;
    o.disk_path = disk_fresh_folder();
    error = number;
    atomic_store(&warnings, 0);
    atomic_store(&room, what);
    CHECK_OK(pc_cache_new(&cache, context, &o));
    if (!cache)
        return;
    CHECK_INT(atomic_load(&warnings), 1);
    CHECK(strstr(warning, o.disk_path) && strstr(warning, strerror(number)));
    CHECK_OK(store(cache, context, 1));
    s = disk_of(cache);
    CHECK(s.offered == 1 && s.failed == 1 && s.reason == PC_REASON_IO && s.budget_bytes > 0
          && s.segments == 0);
    raw.model = model;
    raw.layout = PC_LAYOUT_APPLICATION;
    raw.tokens = &token;
    raw.token_count = 1;
    raw.block_bytes = &bytes;
    raw.block_count = 1;
    CHECK_STATUS(pc_cache_get(&segment, cache, key, &raw, 0, &info), PC_MISS);
    CHECK_INT(info.reason, PC_REASON_IO);
    s = disk_of(cache);
    CHECK(s.lookups == 1 && s.load_failed == 1);
    CHECK_OK(pc_cache_prometheus(cache, text, sizeof text - 1, &size, NULL));
    text[size] = 0;
    CHECK(strstr(text, "\npromptcache_tier_out_of_use{tier=\"disk\"} 11\n")
          && strstr(text, "\npromptcache_tier_out_of_use{tier=\"ram\"} 0\n"));
    atomic_store(&room, ROOM);
    pc__io_sweep_soon(cache->io); /* in vain: it is too early */
    for (double until = pc__now() + PC_AT_REST_SECONDS;
         disk_of(cache).reason && pc__now() < until;) {
        pc__io_sweep_soon(cache->io);
        pc_test_breathe();
    }
    CHECK_OK(store(cache, context, 2));
    s = disk_of(cache);
    CHECK(s.reason == PC_REASON_NONE && s.stored == 1 && s.offered == 2 && s.failed == 1
          && s.segments == 1);
    pc_cache_free(cache);
    CHECK_INT(disk_look(o.disk_path).records, 1);
}

/* While a thread opens the folder, others do not wait for it: statistics come at once. */
static void slow_opening(pc_context *context)
{
    pc_cache_options o = PC_CACHE_OPTIONS_INIT;
    pc_cache *cache = NULL;
    o.disk_path = disk_fresh_folder();
    error = ENOSPC;
    atomic_store(&room, NO_FOLDER);
    CHECK_OK(pc_cache_new(&cache, context, &o));
    atomic_store(&room, SLOW_FOLDER);
    for (double until = pc__now() + PC_AT_REST_SECONDS;
         !atomic_load(&making) && pc__now() < until;) {
        pc__io_sweep_soon(cache->io);
        pc_test_breathe();
    }
    CHECK(atomic_load(&making));
    CHECK_INT(disk_of(cache).reason, PC_REASON_IO);
    CHECK(!atomic_load(&made));
    atomic_store(&room, ROOM);
    pc_cache_free(cache);
}

/* Faults other than a full disk are errors. */
static void other_errors(pc_context *context)
{
    pc_cache_options o = PC_CACHE_OPTIONS_INIT;
    pc_cache *cache = NULL;
    o.disk_path = disk_fresh_folder();
    error = EACCES;
    atomic_store(&room, NO_FOLDER);
    CHECK_STATUS(pc_cache_new(&cache, context, &o), PC_ERR_IO);
    CHECK_ERROR_HAS(strerror(EACCES));
    atomic_store(&room, ROOM);
}

int main(void)
{
    pc_context_options co = PC_CONTEXT_OPTIONS_INIT;
    pc_context *context = NULL;
    co.log = keep_warning;
    CHECK_OK(pc_context_new(&context, &co));
    full_disk(context, NO_FOLDER, ENOSPC);
    full_disk(context, NO_FILE, EDQUOT);
    full_disk(context, NO_BYTE, ENOSPC);
    slow_opening(context);
    other_errors(context);
    shrinks(context, 0);
    shrinks(context, 1);
    pc_context_free(context);
    return pc_test_end();
}
