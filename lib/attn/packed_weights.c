/* The file of packed weights. All numbers are little-endian:
 *
 *   0     header, 4096 bytes: see header_fields; its last 16 bytes are the checksum of the others
 *   4096  sets of panels, each at a multiple of 4096
 *   then  for each set: u64 place, bytes, tag; then u64 checksums of its blocks of 256 KiB
 *
 * A draft is written beside it and renamed when it is complete. Who writes it holds a lock; others
 * that load the same model meanwhile leave the file alone. */
#include "attn/packed_weights.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "attn/kernels.h"
#include "base/checksum.h"
#include "base/clock.h"
#include "base/dir.h"
#include "base/fail.h"
#include "base/fields.h"
#include "base/file.h"
#include "base/little_endian.h"
#include "base/threads.h"

enum {
    PAGE = 4096,
    BLOCK = 256 << 10,
    NAME = 80,
    VERSION = 1 /* also of the layout of panels: a change of it needs another number */
};
static const char magic[8] = "PCPACKED";

typedef struct header {
    char magic[8];
    uint32_t version, library; /* library: XXH3 of its version, low bits */
    pc__id files, weights, fingerprint;
    char kernels[PC__KERNELS_CLASS];
    uint64_t table, table_bytes, table_checksum; /* place, size, XXH3 */
} header;

static const pc__field header_fields[] = {PC__FIELD(header, 0, magic),
                                          PC__FIELD(header, 8, version),
                                          PC__FIELD(header, 12, library),
                                          PC__FIELD(header, 16, files),
                                          PC__FIELD(header, 48, weights),
                                          PC__FIELD(header, 80, fingerprint),
                                          PC__FIELD(header, 112, table),
                                          PC__FIELD(header, 120, table_bytes),
                                          PC__FIELD(header, 128, table_checksum),
                                          PC__FIELD(header, 136, kernels)};

struct pc__packed {
    pc_context *context;
    pc__dir dir;
    char name[NAME], draft[NAME + 8], lock_name[NAME + 8];
    header header;
    int64_t changed;
    pc__packed_map *map;     /* of the file that is read; NULL: none is */
    int file, lock, written; /* descriptors or -1: read from, held, of the draft */
    int error;               /* of writing, as errno */
    int damaged;             /* 1: of the file that is read */
    uint8_t *table;          /* of the file that is read */
    size_t at;               /* in the table */
    pc__bytes entries;       /* the table of the draft */
    uint64_t end;            /* of the draft's sets */
};

static void name_files(pc__packed *p, const pc__packed_key *key)
{
    char real[PATH_MAX], hex[65];
    pc__digest digest;
    pc__id id;
    pc__digest_start(&digest, "packed-name/1");
    pc__digest_text(&digest, realpath(key->path, real) ? real : key->path);
    pc__digest_text(&digest, p->header.kernels);
    pc__digest_u64(&digest, key->compute);
    id = pc__digest_end(&digest);
    pc__id_hex(&id, hex);
    snprintf(p->name, sizeof p->name, "%.32s.pcpacked", hex);
    snprintf(p->draft, sizeof p->draft, "%s.draft", p->name);
    snprintf(p->lock_name, sizeof p->lock_name, "%s.lock", p->name);
}

static void log_reason(const pc__packed *p, const char *what)
{
    pc__log(p->context, PC_LOG_WARN, "packed weights %s: %s: %s", p->name, what, pc_error_text());
}

static void close_file(int *fd)
{
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

/* Reads the header; 1: it is whole and of this model, these kernels and this library. */
static int read_header(pc__packed *p, uint64_t size, header *out)
{
    uint8_t page[PAGE], sum[PC__CHECKSUM];
    if (size < PAGE || pc__read_at(p->file, page, PAGE, 0) != PAGE)
        return 0;
    pc__checksum_of(page, PAGE - sizeof sum, sum);
    pc__fields_get(out, page, PC__FIELDS(header_fields));
    return !memcmp(sum, page + PAGE - sizeof sum, sizeof sum)
           && !memcmp(out->magic, magic, sizeof magic) && out->version == VERSION
           && out->library == p->header.library && pc__id_equal(&out->files, &p->header.files)
           && !memcmp(out->kernels, p->header.kernels, sizeof out->kernels) && out->table >= PAGE
           && out->table <= size && out->table_bytes == size - out->table;
}

static int read_table(pc__packed *p, const header *found)
{
    if (!(p->table = pc__alloc(&p->context->mem, (size_t)found->table_bytes)))
        return 0;
    return pc__read_at(p->file, p->table, (size_t)found->table_bytes, found->table)
               == (int64_t)found->table_bytes
           && pc__checksum64(p->table, (size_t)found->table_bytes) == found->table_checksum;
}

static void stop_reading(pc__packed *p)
{
    close_file(&p->file);
    pc__packed_map_drop(p->map);
    p->map = NULL;
}

static int map_file(pc__packed *p, size_t size)
{
    pc_status status = pc__packed_map_new(&p->map, &p->context->mem, p->file, size, p->name);
    if (status < 0)
        log_reason(p, "not read");
    return status >= 0;
}

/* Opens a file that can be read, or leaves p->file -1. */
static void open_packed(pc__packed *p)
{
    struct stat st;
    header found;
    pc_status status = pc__dir_file(&p->dir, p->name, O_RDONLY, &p->file, &st);
    if (status < 0) {
        if (status != PC_ERR_NOT_FOUND)
            log_reason(p, "not read");
        p->file = -1;
        return;
    }
    if (read_header(p, (uint64_t)st.st_size, &found) && read_table(p, &found)) {
        p->header = found;
        if (map_file(p, (size_t)st.st_size))
            return;
    } else {
        pc__log(p->context, PC_LOG_INFO, "packed weights %s: stale or damaged, written anew",
                p->name);
    }
    stop_reading(p);
}

pc__packed *pc__packed_open(pc_context *context, const pc__packed_key *key)
{
    pc__packed *p = pc__calloc(&context->mem, 1, sizeof *p);
    if (!p)
        return NULL;
    *p = (pc__packed){.context = context,
                      .changed = key->changed,
                      .file = -1,
                      .lock = -1,
                      .written = -1,
                      .entries = {.mem = &context->mem},
                      .end = PAGE};
    memcpy(p->header.magic, magic, sizeof magic);
    p->header.version = VERSION;
    p->header.library = (uint32_t)pc__checksum64(pc_version(), strlen(pc_version()));
    p->header.files = key->files;
    strncpy(p->header.kernels, pc__kernels_class(), sizeof p->header.kernels - 1);
    name_files(p, key);
    if (pc__dir_open(&p->dir, &context->mem, key->folder, 1) < 0) {
        log_reason(p, "neither read nor written");
        pc__free(&context->mem, p);
        return NULL;
    }
    open_packed(p);
    return p;
}

int pc__packed_weights(const pc__packed *p, pc__id *weights)
{
    if (p->file >= 0)
        *weights = p->header.weights;
    return p->file >= 0;
}

/* Files that changed just now could change again without another time. */
static int is_settled(const pc__packed *p)
{
    return pc__now_date() - p->changed > 1;
}

static void start_draft(pc__packed *p)
{
    pc_status status;
    if (!is_settled(p)) {
        pc__log(p->context, PC_LOG_INFO, "packed weights %s: the model changed just now, not kept",
                p->name);
        return;
    }
    status = pc__dir_lock(&p->dir, p->lock_name, 0, &p->lock);
    if (status >= 0 && status != PC_AGAIN)
        status = pc__dir_draft(&p->dir, p->draft, &p->written);
    if (status == PC_OK)
        return;
    log_reason(p, "not written");
    p->written = -1;
}

void pc__packed_begin(pc__packed *p, const pc__id *weights, const pc__id *fingerprint)
{
    int same = pc__id_equal(&p->header.weights, weights)
               && pc__id_equal(&p->header.fingerprint, fingerprint);
    if (p->file >= 0 && same)
        return;
    stop_reading(p);
    p->header.weights = *weights;
    p->header.fingerprint = *fingerprint;
    start_draft(p);
}

static size_t blocks_of(size_t bytes)
{
    return (bytes + BLOCK - 1) / BLOCK;
}

static size_t block_bytes(size_t bytes, size_t index)
{
    return bytes - index * BLOCK < BLOCK ? bytes - index * BLOCK : BLOCK;
}

/* A set whose blocks are checked, or get checksums, in parallel. */
typedef struct set_blocks {
    const uint8_t *data;
    uint8_t *sums; /* of the table */
    size_t bytes;
    atomic_int damaged;
} set_blocks;

static void check_block(void *arg, size_t i)
{
    set_blocks *s = arg;
    if (pc__checksum64(s->data + i * BLOCK, block_bytes(s->bytes, i))
        != pc__get_u64(s->sums + 8 * i))
        atomic_store(&s->damaged, 1);
}

/* The next set of the table, if it is this one. */
static int find_set(pc__packed *p, uint64_t tag, size_t bytes, set_blocks *out)
{
    uint8_t *entry = p->table + p->at;
    size_t size = 24 + 8 * blocks_of(bytes);
    uint64_t at;
    if (p->header.table_bytes - p->at < size || pc__get_u64(entry + 8) != bytes
        || pc__get_u64(entry + 16) != tag)
        return 0;
    at = pc__get_u64(entry);
    if (at % PAGE || at > p->header.table || p->header.table - at < bytes)
        return 0;
    out->data = pc__packed_map_file(p->map)->data + at;
    out->sums = entry + 24;
    out->bytes = bytes;
    p->at += size;
    return 1;
}

const uint8_t *pc__packed_find(pc__packed *p, uint64_t tag, size_t bytes, pc__packed_map **holder)
{
    set_blocks s = {0};
    if (p->file < 0)
        return NULL;
    if (!find_set(p, tag, bytes, &s)) {
        p->damaged = 1;
        return NULL;
    }
    pc__parallel(p->context, blocks_of(bytes), check_block, &s);
    p->damaged |= s.damaged;
    if (s.damaged)
        return NULL;
    *holder = pc__packed_map_hold(p->map);
    return s.data;
}

static void sum_block(void *arg, size_t i)
{
    const set_blocks *s = arg;
    pc__put_u64(s->sums + 8 * i, pc__checksum64(s->data + i * BLOCK, block_bytes(s->bytes, i)));
}

/* 0, or errno. */
static int add_set(pc__packed *p, uint64_t tag, const uint8_t *from, size_t bytes)
{
    size_t size = 24 + 8 * blocks_of(bytes);
    uint8_t *entry = pc__calloc(&p->context->mem, 1, size);
    set_blocks s = {.data = from, .bytes = bytes};
    int error = ENOMEM;
    if (!entry)
        return error;
    pc__put_u64(entry, p->end);
    pc__put_u64(entry + 8, bytes);
    pc__put_u64(entry + 16, tag);
    s.sums = entry + 24;
    pc__parallel(p->context, blocks_of(bytes), sum_block, &s);
    if (pc__bytes_add(&p->entries, entry, size) >= 0)
        error = pc__write_at(p->written, from, bytes, p->end);
    p->end += (bytes + PAGE - 1) / PAGE * PAGE;
    pc__free(&p->context->mem, entry);
    return error;
}

void pc__packed_write(pc__packed *p, uint64_t tag, const uint8_t *from, size_t bytes)
{
    if (p->written >= 0 && !p->error)
        p->error = add_set(p, tag, from, bytes);
}

static int write_ends(pc__packed *p)
{
    uint8_t page[PAGE] = {0};
    header *h = &p->header;
    int error;
    h->table = p->end;
    h->table_bytes = p->entries.size;
    h->table_checksum = pc__checksum64(p->entries.data, p->entries.size);
    pc__fields_put(page, h, PC__FIELDS(header_fields));
    pc__checksum_of(page, PAGE - PC__CHECKSUM, page + PAGE - PC__CHECKSUM);
    error = pc__write_at(p->written, p->entries.data, p->entries.size, p->end);
    return error ? error : pc__write_at(p->written, page, PAGE, 0);
}

static void publish(pc__packed *p, int complete)
{
    if (!complete) { /* the error text says why */
        pc__dir_discard(&p->dir, p->draft, p->written);
        p->written = -1;
        return;
    }
    if (!p->error)
        p->error = write_ends(p);
    if (pc__dir_commit(&p->dir, p->draft, p->name, p->written, p->error, 1) < 0)
        log_reason(p, "not written");
    p->written = -1;
}

static void remove_damaged(pc__packed *p)
{
    pc__log(p->context, PC_LOG_WARN,
            "packed weights %s: damaged, what could not be read was packed again", p->name);
    if (pc__dir_has(&p->dir, p->name, p->file) && unlinkat(p->dir.fd, p->name, 0))
        pc__log(p->context, PC_LOG_WARN, "packed weights %s: cannot be removed: %s", p->name,
                strerror(errno));
}

void pc__packed_close(pc__packed *p, int complete)
{
    if (!p)
        return;
    const pc_allocator *mem = &p->context->mem;
    if (p->written >= 0)
        publish(p, complete);
    if (p->file >= 0 && (p->damaged || (complete && p->at != p->header.table_bytes)))
        remove_damaged(p);
    stop_reading(p);
    close_file(&p->lock);
    pc__dir_close(&p->dir, mem);
    pc__bytes_free(&p->entries);
    pc__free(mem, p->table);
    pc__free(mem, p);
}
