/* A folder of records for tests: images whose bytes follow from a number, written and read back. */
#ifndef PC_TEST_DISK_H
#define PC_TEST_DISK_H

#include <promptcache/cache.h>
#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "records.h"
#include "store/disk/disk_root.h"
#include "store/tier.h"
#include "testing.h"

static inline pc__id disk_key(uint32_t number)
{
    pc_test_rng rng = {number * UINT64_C(0x9e3779b97f4a7c15) + 1};
    pc__id id;
    for (size_t i = 0; i < sizeof id.bytes; i += 8) {
        uint64_t bits = pc_test_bits(&rng);
        memcpy(id.bytes + i, &bits, 8);
    }
    return id;
}

/* Record `number` of about 3 * bytes; the same number always gives the same bytes. */
static inline void disk_image(toy_image *t, uint32_t number, size_t bytes)
{
    toy_image_make(t, number, number % TOY_TOKENS, bytes, 0);
    t->image.key = disk_key(number);
    t->image.has_content = 1;
    t->image.content = disk_key(number + 1000000);
    t->image.has_parent = 0;
    memset(t->image.parent.bytes, 0, 32);
    t->image.expires = 0;
    t->image.ttl = 0;
    t->image.priority = 0;
    t->image.cost = 1e-3;
}

/* PC__MAP_… of tiers that are opened without one. */
static uint32_t disk_map;

typedef struct disk_options {
    uint64_t budget;
    uint32_t read_only, map, tenant_share;
    pc_context *context;
    pc__tier_callbacks callbacks;
    const uint8_t *seal_key;
    const pc_allocator *mem;
} disk_options;

static inline pc_status disk_open(pc__tier **out, const char *path, const disk_options *o)
{
    pc__tier_common common = {.mem = o->mem ? o->mem : &pc__libc_allocator,
                              .context = o->context,
                              .callbacks = o->callbacks,
                              .budget = o->budget ? o->budget : UINT64_C(1) << 40,
                              .read_only = o->read_only,
                              .map = o->map ? o->map : disk_map,
                              .tenant_share = o->tenant_share};
    common.record.codec = PC_CODEC_RAW;
    common.record.seal_key = o->seal_key;
    return pc__tier_disk_new(out, &common, path);
}

/* As in the cache's threads, which may reuse files of evicted records (store/disk/disk_room.h). */
static inline void disk_block_signals(int block)
{
    sigset_t io;
    sigemptyset(&io);
    sigaddset(&io, SIGIO);
    pthread_sigmask(block ? SIG_BLOCK : SIG_UNBLOCK, &io, NULL);
}

/* A path where nothing exists yet; the strings are reused in a ring. */
static inline const char *disk_fresh_folder(void)
{
    static char ring[16][256];
    static unsigned next;
    char *out = ring[next % 16];
    snprintf(out, sizeof ring[0], "%s/store%u", pc_test_folder(), next++);
    return out;
}

static inline pc__tier *disk_open_tier(const char *path, uint64_t budget)
{
    pc__tier *tier = NULL;
    CHECK_OK(disk_open(&tier, path, &(disk_options){.budget = budget}));
    return tier;
}

static inline pc_status disk_put(pc__tier *tier, uint32_t number, size_t bytes, uint32_t *reason)
{
    toy_image t;
    uint32_t why = PC_REASON_NONE;
    pc_status status;
    disk_image(&t, number, bytes);
    status = tier->ops->put(tier, &t.image, pc__now() + 20, reason ? reason : &why);
    toy_image_free(&t);
    return status;
}

/* PC_OK: the record holds what was put; PC_ERR_INTERNAL: something else. */
static inline pc_status disk_compare(const pc__record *record, uint32_t number, size_t bytes)
{
    pc_status status = PC_OK;
    const pc__image *image = pc__record_image(record);
    toy_image t;
    int right;
    disk_image(&t, number, bytes);
    right = image->tokens == t.image.tokens && image->block_count == TOY_BLOCKS
            && (!image->tokens || !memcmp(image->token_ids, t.ids, image->tokens * sizeof *t.ids))
            && pc__id_equal(&image->key, &t.image.key);
    for (size_t b = 0; right && status == PC_OK && b < TOY_BLOCKS; b++) {
        uint8_t *block = malloc(t.block_bytes[b] + 1);
        right = block && image->block_bytes[b] == t.block_bytes[b];
        const void *lent = pc__record_block_address(record, b);
        if (right && lent)
            status = pc__record_check(record, b);
        right = right && (!lent || status < 0 || !memcmp(lent, t.blocks[b], t.block_bytes[b]));
        if (right && status == PC_OK)
            status = pc__record_block(record, b, block);
        right = right && (status < 0 || !memcmp(block, t.blocks[b], t.block_bytes[b]));
        free(block);
    }
    toy_image_free(&t);
    return right ? status : PC_ERR_INTERNAL;
}

/* Reads record `number` through the tier, reports it, and compares. PC_OK: right; PC_MISS;
 * PC_ERR_INTERNAL: wrong. */
static inline pc_status disk_get(pc__tier *tier, uint32_t number, size_t bytes,
                                 const uint8_t *seal_key)
{
    pc__id key = disk_key(number);
    pc__record_options options = {.seal_key = seal_key};
    pc__source *source = NULL;
    pc__record *record = NULL;
    int timed_out = 0;
    pc_status status = tier->ops->open(tier, &key, pc__now() + 20, &source, &timed_out);
    if (status != PC_OK)
        return status;
    status = pc__record_open(&record, &pc__libc_allocator, &options, source);
    if (status == PC_OK && source->map)
        source->map(source);
    if (status == PC_OK)
        status = disk_compare(record, number, bytes);
    tier->ops->read_done(tier, &key, status, source->bytes, 1e-3);
    pc__record_free(record);
    source->close(source);
    return status;
}

static inline pc_tier_stats disk_stats(pc__tier *tier)
{
    pc_tier_stats stats = PC_TIER_STATS_INIT;
    tier->ops->stats(tier, &stats);
    return stats;
}

/* Checks the rules of the public header. */
static inline int disk_balances(pc__tier *tier)
{
    pc_tier_stats s = disk_stats(tier);
    int fine = s.offered == s.stored + s.refused + s.failed + s.known
               && s.stored + s.found == s.segments + s.evicted + s.removed + s.lost
               && s.lookups == s.hits + s.misses + s.load_failed;
    if (!fine)
        fprintf(stderr,
                "offered %llu stored %llu adopted %llu known %llu refused %llu failed %llu evicted "
                "%llu removed %llu lost %llu resident %llu"
                " lookups %llu hits %llu misses %llu load_failed %llu\n",
                (unsigned long long)s.offered, (unsigned long long)s.stored,
                (unsigned long long)s.found, (unsigned long long)s.known,
                (unsigned long long)s.refused, (unsigned long long)s.failed,
                (unsigned long long)s.evicted, (unsigned long long)s.removed,
                (unsigned long long)s.lost, (unsigned long long)s.segments,
                (unsigned long long)s.lookups, (unsigned long long)s.hits,
                (unsigned long long)s.misses, (unsigned long long)s.load_failed);
    return fine;
}

static inline void disk_close_tier(pc__tier *tier)
{
    CHECK(disk_balances(tier));
    tier->ops->free(tier);
}

/* ---------------------------------------------------- the folder, read without the library */

typedef struct disk_files {
    size_t records, drafts, others;
    uint64_t record_bytes, draft_bytes;
} disk_files;

static inline void disk_count(const char *path, const char *inside, disk_files *out)
{
    char name[PATH_MAX];
    struct dirent *entry;
    struct stat st;
    snprintf(name, sizeof name, "%s%s%s", path, *inside ? "/" : "", inside);
    DIR *dir = opendir(name);
    while (dir && (entry = readdir(dir))) {
        snprintf(name, sizeof name, "%s/%s", inside, entry->d_name);
        if (entry->d_name[0] == '.' || fstatat(dirfd(dir), entry->d_name, &st, AT_SYMLINK_NOFOLLOW))
            continue;
        if (S_ISDIR(st.st_mode) && !*inside) {
            disk_count(path, entry->d_name, out);
        } else if (!strcmp(inside, "new")) {
            out->drafts++;
            out->draft_bytes += (uint64_t)st.st_size;
        } else if (*inside && strstr(entry->d_name, ".pcr")) {
            out->records++;
            out->record_bytes += (uint64_t)st.st_size;
        } else {
            out->others++;
        }
    }
    if (dir)
        closedir(dir);
}

static inline disk_files disk_look(const char *path)
{
    disk_files files = {0};
    disk_count(path, "", &files);
    return files;
}

/* The sum in the lock file (doc/format.md, "The folder"). */
static inline uint64_t disk_usage(const char *path, uint32_t *dirty)
{
    char name[PATH_MAX];
    uint8_t raw[64] = {0};
    uint64_t bytes = 0;
    snprintf(name, sizeof name, "%s/promptcache.lock", path);
    int fd = open(name, O_RDONLY);
    if (fd < 0 || pread(fd, raw, sizeof raw, 0) != (ssize_t)sizeof raw)
        return UINT64_MAX;
    close(fd);
    for (int i = 0; i < 8; i++)
        bytes |= (uint64_t)raw[16 + i] << 8 * i;
    *dirty = raw[12];
    return bytes;
}

static inline const char *disk_record_path(const char *path, uint32_t number)
{
    static char ring[4][PATH_MAX];
    static unsigned next;
    char *out = ring[next++ % 4], hex[65];
    pc__id key = disk_key(number);
    pc__id_hex(&key, hex);
    snprintf(out, sizeof ring[0], "%s/%.2s/%s.pcr", path, hex, hex);
    return out;
}

/* Of a writer that seals with this key. */
static inline const char *disk_sealed_path(const char *path, uint32_t number,
                                           const uint8_t *seal_key)
{
    static char ring[4][PATH_MAX];
    static unsigned next;
    char *out = ring[next++ % 4], name[PC__DISK_NAME];
    pc__record_options options = {.seal_key = seal_key};
    pc__id key = disk_key(number);
    pc__record_name record_name = pc__record_name_of(&key, &options);
    pc__disk_file_name(&record_name, name);
    snprintf(out, sizeof ring[0], "%s/%.2s/%s", path, name, name);
    return out;
}

/* Writes bytes under a record's name, as another writer of the folder could. */
static inline void disk_plant(const char *path, uint32_t number, const uint8_t *seal_key,
                              const void *data, size_t size)
{
    const char *name = disk_sealed_path(path, number, seal_key);
    char sub[PATH_MAX];
    snprintf(sub, sizeof sub, "%.*s", (int)(strrchr(name, '/') - name), name);
    mkdir(sub, 0700);
    int fd = open(name, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    CHECK(fd >= 0 && write(fd, data, size) == (ssize_t)size && !close(fd));
}

/* Changes the mode first: records are not writable. */
static inline int disk_truncate(const char *path, uint32_t number, off_t size)
{
    const char *name = disk_record_path(path, number);
    return chmod(name, 0600) || truncate(name, size);
}

#endif
