/* Catches: reading beyond the end of log or records; invalid offsets, sizes and compressed
 * layers that are accepted; a store that cannot use what it has accepted. Input: a byte (bit 0:
 * checksums stay as they are, else they are corrected, so that the reader gets further; bit 1:
 * opens a reader, else a writer, which then changes everything; bit 2: the input has the data
 * file's header, too), two bytes with the size of the log, the log, and the data from its first
 * record on. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/little_endian.h"
#include "fuzz.h"
#include "memo/maps/map_format.h"

enum { LAYERS = 2, NO_SUMS = 1, READER = 2, WITH_HEADER = 4, MOST = 64 << 10 };
static char folder[] = "/tmp/pc-fuzz-XXXXXX";

static void remove_files(void)
{
    static const char *const names[] = {PC__MAPS_LOG, PC__MAPS_LOG_NEW, PC__MAPS_DATA,
                                        PC__MAPS_LOCK};
    char path[64];
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, names[i]);
        unlink(path);
    }
}

static void remove_folder(void)
{
    remove_files();
    rmdir(folder);
}

static void write_file(const char *name, const uint8_t *data, size_t size)
{
    char path[64];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    FUZZ_CHECK(fd >= 0 && write(fd, data, size) == (ssize_t)size);
    close(fd);
}

/* Corrects rows, metadata and header of the record where an entry says there is one. */
static void sum_record(uint8_t *entry, uint8_t *data, size_t size)
{
    uint64_t at = pc__get_u64(entry + 16), header = PC__MAPS_HEADER + LAYERS * PC__MAPS_ROW;
    uint32_t metadata = pc__get_u32(entry + 44);
    uint8_t *record, sum[PC__CHECKSUM];
    pc__checksum state;
    if (at > size || size - at < header)
        return;
    record = data + at;
    for (int i = 0; i < LAYERS; i++) {
        uint8_t *row = record + PC__MAPS_HEADER + i * PC__MAPS_ROW;
        uint64_t from = pc__get_u64(row), bytes = pc__get_u64(row + 8);
        if (from <= size - at && bytes <= size - at - from)
            pc__checksum_of(record + from, (size_t)bytes, row + 16);
    }
    if (metadata <= size - at - header)
        pc__checksum_of(record + header, metadata, record + 96);
    pc__checksum_start(&state);
    pc__checksum_add(&state, record, PC__MAPS_HEADER_SUM);
    pc__checksum_add(&state, record + PC__MAPS_HEADER, (size_t)header - PC__MAPS_HEADER);
    pc__checksum_end(&state, sum);
    memcpy(record + PC__MAPS_HEADER_SUM, sum, sizeof sum);
    memcpy(entry + 80, sum, sizeof sum);
}

static void make_files(uint8_t flags, uint8_t *log, size_t log_size, const uint8_t *rest,
                       size_t size)
{
    size_t before = flags & WITH_HEADER ? 0 : PC__MAPS_PAGE, data_size = before + size;
    uint8_t *data = calloc(1, data_size + 1);
    FUZZ_CHECK(data);
    if (before && log_size >= 88)
        pc__map_data_header_put(log + 72, data);
    memcpy(data + before, rest, size);
    for (size_t at = PC__MAPS_LOG_HEADER; at + PC__MAPS_ENTRY <= log_size && !(flags & NO_SUMS);
         at += PC__MAPS_ENTRY) {
        sum_record(log + at, data, data_size);
        pc__checksum_of(log + at, 112, log + at + 112);
    }
    if (log_size >= PC__MAPS_LOG_HEADER && !(flags & NO_SUMS))
        pc__checksum_of(log, 112, log + 112);
    write_file(PC__MAPS_LOG, log, log_size);
    write_file(PC__MAPS_DATA, data, data_size);
    free(data);
}

static pc__map_store *open_store(int is_reader)
{
    pc__map_store_options options = {
        .signature = {.layers = LAYERS, .heads = 1, .causal = 1, .format = PC_MAP_F16},
        .read_only = is_reader,
        .cold_seconds = 1e-9,
        .relaxed = 1};
    pc__map_store *store = NULL;
    return fuzz_ok(pc__map_store_open(&store, &fuzz_memory, folder, &options)) ? store : NULL;
}

static int count_one(void *count, const pc__map_record *record)
{
    (void)record;
    ++*(size_t *)count;
    return 0;
}

static size_t count_records(pc__map_store *store)
{
    size_t count = 0;
    pc__map_store_each(store, count_one, &count);
    return count;
}

static void check_balance(pc__map_store *store)
{
    pc_memo_stats s;
    pc__map_store_get_stats(store, &s);
    FUZZ_CHECK(s.stored == s.live + s.evicted + s.removed + s.damaged
               && s.live == count_records(store));
}

typedef struct seen {
    int64_t ids[MOST / PC__MAPS_ENTRY];
    size_t metadata[MOST / PC__MAPS_ENTRY], count;
} seen;

static int see(void *user, const pc__map_record *record)
{
    seen *s = user;
    FUZZ_CHECK(!s->count || record->id > s->ids[s->count - 1]);
    s->metadata[s->count] = record->metadata_size;
    s->ids[s->count++] = record->id;
    return 0;
}

static void read_all(pc__map_store *store)
{
    seen *s = calloc(1, sizeof *s);
    volatile uint8_t sink = 0;
    FUZZ_CHECK(s != NULL);
    pc__map_store_each(store, see, s);
    for (size_t i = 0; i < s->count; i++) {
        pc__maps maps;
        if (s->metadata[i] < MOST) {
            uint8_t *metadata = malloc(s->metadata[i] + 1);
            fuzz_ok(pc__map_store_metadata(store, s->ids[i], metadata, s->metadata[i]));
            free(metadata);
        }
        pc_status status = pc__map_store_get(store, s->ids[i], &maps);
        if (fuzz_ok(status) && status == PC_OK) {
            for (int layer = 0; layer < LAYERS; layer++)
                sink = sink ^ *(const uint8_t *)maps.layer[layer];
            pc__maps_release(store, &maps);
        }
    }
    free(s);
    check_balance(store);
}

static void change_all(void)
{
    static const uint8_t layer[20] = {7};
    const void *const maps[LAYERS] = {layer, layer};
    const pc__id tokens = {{1}};
    pc_memo_stats s;
    int64_t id;
    pc__map_store *store = open_store(0);
    if (!store)
        return;
    read_all(store);
    pc_status status = pc__map_store_add(store, &tokens, 4, NULL, 0, maps, &id, NULL, NULL);
    FUZZ_CHECK(status == PC_OK || (status == PC_ERR_LIMIT && id == -1)); /* no id is left */
    FUZZ_CHECK(pc__map_store_tidy(store) == PC_OK);
    read_all(store);
    size_t count = count_records(store);
    pc__map_store_free(store);
    store = open_store(0);
    FUZZ_CHECK(store && count_records(store) == count);
    read_all(store);
    pc__map_store_get_stats(store, &s);
    FUZZ_CHECK(!s.damaged && s.live == count);
    pc__map_store_free(store);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static int has_folder;
    size_t blocks = fuzz_blocks(), log_size;
    if (size < 3 || size > MOST)
        return 0;
    if (!has_folder) {
        FUZZ_CHECK(mkdtemp(folder));
        atexit(remove_folder);
        has_folder = 1;
    }
    log_size = (size_t)data[1] | (size_t)data[2] << 8;
    if (log_size > size - 3)
        log_size = size - 3;
    uint8_t *log = malloc(log_size + 1);
    FUZZ_CHECK(log);
    memcpy(log, data + 3, log_size);
    make_files(data[0], log, log_size, data + 3 + log_size, size - 3 - log_size);
    free(log);
    if (data[0] & READER) {
        pc__map_store *store = open_store(1);
        if (store)
            read_all(store);
        pc__map_store_free(store);
    } else {
        change_all();
    }
    remove_files();
    fuzz_no_leak(blocks);
    return 0;
}
