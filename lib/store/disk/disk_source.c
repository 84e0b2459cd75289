/* Reads files of records, in chunks or mapped (disk_source.h). */
#include "store/disk/disk_source.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fail.h"
#include "base/file.h"
#include "base/hash_table.h"
#include "store/tier.h"

enum {
    CHUNK = 4 << 20, /* 1 ms from memory, up to 1 s from the slowest disk */
    /* Read ahead while we check and decode. With 8 << 20 a shared disk was a tenth slower. */
    READ_AHEAD = 32 << 20,
    /* Bytes a call: with usual settings the kernel reads no more at once. */
    STEP = 256 << 10
};

#define LEAST_BYTES (UINT64_C(256) << 10) /* smaller files are read as fast */
enum { MOST_MAPPED = 16384 };

/* ---------------------------------------------------------------- mapped files */

struct pc__mapped_files {
    pc_allocator mem;
    atomic_size_t references;
    uint64_t least;
    atomic_size_t count;
    atomic_uint_fast64_t bytes;
};

pc_status pc__mapped_files_new(pc__mapped_files **out, const pc_allocator *mem, int folder,
                               uint32_t how)
{
    pc__mapped_files *mapped;
    *out = NULL;
    if (how == PC__MAP_NEVER || (how == PC__MAP_LOCAL && !(pc__file_system(folder) & PC__FS_LOCAL)))
        return PC_OK;
    mapped = pc__calloc(mem, 1, sizeof *mapped);
    if (!mapped)
        return PC_ERR_NOMEM;
    mapped->mem = *mem;
    mapped->least = how == PC__MAP_ALWAYS ? 1 : LEAST_BYTES;
    atomic_init(&mapped->references, 1);
    *out = mapped;
    return PC_OK;
}

void pc__mapped_files_unref(pc__mapped_files *mapped)
{
    if (mapped && atomic_fetch_sub_explicit(&mapped->references, 1, memory_order_acq_rel) == 1) {
        pc_allocator mem = mapped->mem;
        pc__free(&mem, mapped);
    }
}

int pc__mapped_files_reserve(pc__mapped_files *mapped, uint64_t bytes)
{
    if (bytes < mapped->least)
        return 0;
    if (atomic_fetch_add_explicit(&mapped->count, 1, memory_order_relaxed) >= MOST_MAPPED) {
        atomic_fetch_sub_explicit(&mapped->count, 1, memory_order_relaxed);
        return 0;
    }
    atomic_fetch_add_explicit(&mapped->bytes, bytes, memory_order_relaxed);
    return 1;
}

void pc__mapped_files_unreserve(pc__mapped_files *mapped, uint64_t bytes)
{
    atomic_fetch_sub_explicit(&mapped->count, 1, memory_order_relaxed);
    atomic_fetch_sub_explicit(&mapped->bytes, bytes, memory_order_relaxed);
}

uint64_t pc__mapped_files_bytes(const pc__mapped_files *mapped)
{
    return mapped ? atomic_load(&mapped->bytes) : 0;
}

/* --------------------------------------------------------------------- reading */

typedef struct disk_source {
    pc__source source;
    pc_allocator mem;
    int fd;
    atomic_uint_fast64_t asked; /* the kernel was asked to read up to here */
    double deadline;
    pc__mapped_files *mapped; /* a reference; NULL: never mapped */
    uint8_t *map;             /* NULL: not mapped */
    char *path;               /* for error texts */
} disk_source;

static disk_source *disk_source_of(pc__source *source)
{
    return PC__AROUND(source, disk_source, source);
}

/* 1: piece and offset lie inside the file. The numbers come from headers, so each is compared
 * before it is added. */
static int lies_inside(const disk_source *s, uint64_t offset, uint64_t at, size_t size)
{
    uint64_t bytes = s->source.bytes;
    return offset <= bytes && at <= bytes - offset && size <= bytes - offset - at;
}

static pc_status check_deadline(disk_source *s)
{
    if (s->deadline <= 0 || pc__now() < s->deadline)
        return PC_OK;
    atomic_store(&s->source.timed_out, 1);
    return pc__fail(PC_ERR_IO, "%s: not read within its deadline", s->path);
}

/* 1: the byte is in the page cache. 0: it is not, or the system cannot tell. */
static int is_in_page_cache(const disk_source *s, uint64_t at)
{
#ifdef RWF_NOWAIT
    char byte;
    struct iovec to = {&byte, 1};
    return preadv2(s->fd, &to, 1, (off_t)at, RWF_NOWAIT) == 1;
#else
    (void)s, (void)at;
    return 0;
#endif
}

/* Several threads read one file at several places. The kernel takes that for random access, so we
 * ask it to read ahead. Files in the page cache need none of it. */
static void read_ahead(disk_source *s, uint64_t end)
{
    uint64_t from = atomic_load_explicit(&s->asked, memory_order_relaxed), until = end + READ_AHEAD;
    until = until < s->source.bytes ? until : s->source.bytes;
    if (from + STEP > until || !atomic_compare_exchange_strong(&s->asked, &from, until)
        || is_in_page_cache(s, from))
        return;
    for (uint64_t at = from; at < until; at += STEP)
        (void)!posix_fadvise(s->fd, (off_t)at, (off_t)(until - at < STEP ? until - at : STEP),
                             POSIX_FADV_WILLNEED);
}

static pc_status read_part(pc__source *source, size_t piece, uint64_t offset, uint64_t at,
                           void *data, size_t size)
{
    disk_source *s = disk_source_of(source);
    if (!lies_inside(s, offset, at, size))
        return pc__fail(PC_ERR_FORMAT, "%s: cut short: %llu bytes", s->path,
                        (unsigned long long)source->bytes);
    if (piece) /* a caller that reads the header may read nothing else */
        read_ahead(s, offset + at + size);
    for (size_t done = 0, n; done < size; done += n) {
        int64_t got;
        n = size - done < CHUNK ? size - done : CHUNK;
        PC__TRY_RETURN(check_deadline(s));
        got = pc__read_at(s->fd, (char *)data + done, n, offset + at + done);
        if (got < 0)
            return pc__fail(PC_ERR_IO, "%s: %s", s->path, strerror(errno));
        if ((size_t)got < n)
            return pc__fail(PC_ERR_FORMAT, "%s: cut short while being read", s->path);
    }
    return PC_OK;
}

static const void *borrow(pc__source *source, size_t piece, uint64_t offset, uint64_t at,
                          size_t size)
{
    disk_source *s = disk_source_of(source);
    (void)piece;
    return s->map && lies_inside(s, offset, at, size) ? s->map + offset + at : NULL;
}

/* A private mapping: what a caller writes (pc__payload_ops.block_ready) stays in this process. */
static int map_file(pc__source *source)
{
    disk_source *s = disk_source_of(source);
    void *data;
    if (s->map || !source->bytes || source->bytes > SIZE_MAX
        || !pc__mapped_files_reserve(s->mapped, source->bytes))
        return s->map != NULL;
    data = mmap(NULL, (size_t)source->bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_NORESERVE,
                s->fd, 0);
    if (data == MAP_FAILED)
        pc__mapped_files_unreserve(s->mapped, source->bytes); /* it is read instead */
    else
        s->map = data;
    return s->map != NULL;
}

/* PC_ERR_FORMAT: the file has become shorter. */
static pc_status check_length(const disk_source *s, uint64_t end)
{
    struct stat st;
    if (fstat(s->fd, &st))
        return pc__fail(PC_ERR_IO, "%s: %s", s->path, strerror(errno));
    return (uint64_t)st.st_size < end
               ? pc__fail(PC_ERR_FORMAT, "%s: cut short while being read", s->path)
               : PC_OK;
}

/* Populates the pages, many at a time; the kernel reports those that it cannot read. A kernel
 * without MADV_POPULATE_READ: checks at least the length. */
static pc_status touch_part(pc__source *source, size_t piece, uint64_t offset, uint64_t at,
                            size_t size)
{
    disk_source *s = disk_source_of(source);
    pc_status status = check_deadline(s);
    (void)piece;
    if (status < 0)
        return status;
    read_ahead(s, offset + at + size);
#ifdef MADV_POPULATE_READ
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), begin = (offset + at) / page * page;
    if (!madvise(s->map + begin, (size_t)(offset + at - begin) + size, MADV_POPULATE_READ))
        return PC_OK;
    if (errno == EFAULT) {
        status = check_length(s, offset + at + size);
        return status < 0 ? status : pc__fail(PC_ERR_IO, "%s: cannot be read", s->path);
    }
#endif
    return check_length(s, offset + at + size);
}

static void close_rest(pc__source *source)
{
    disk_source *s = disk_source_of(source);
    close(s->fd); /* a mapping needs no descriptor, and there may be thousands */
    s->fd = -1;
}

static void close_source(pc__source *source)
{
    disk_source *s = disk_source_of(source);
    pc_allocator mem = s->mem;
    if (s->map) {
        munmap(s->map, (size_t)source->bytes);
        pc__mapped_files_unreserve(s->mapped, source->bytes);
    }
    pc__mapped_files_unref(s->mapped);
    if (s->fd >= 0)
        close(s->fd);
    pc__free(&mem, s->path);
    pc__free(&mem, s);
}

static char *path_of(const pc_allocator *mem, const pc__dir *root,
                     const pc__record_name *record_name)
{
    char name[PC__DISK_NAME], inside[PC__DISK_NAME + 3];
    pc__disk_file_name(record_name, name);
    memcpy(inside, name, 2);
    inside[2] = '/';
    memcpy(inside + 3, name, sizeof name);
    return pc__path_join(mem, root->path, inside);
}

pc_status pc__disk_source_new(pc__source **out, const pc_allocator *mem, const pc__dir *root,
                              const pc__record_name *record_name, int fd, uint64_t bytes,
                              double deadline, pc__mapped_files *mapped)
{
    disk_source *s = pc__calloc(mem, 1, sizeof *s);
    *out = NULL;
    if (!s || !(s->path = path_of(mem, root, record_name))) {
        pc__free(mem, s);
        close(fd);
        return PC_ERR_NOMEM;
    }
    s->mem = *mem;
    s->fd = fd;
    s->deadline = deadline;
    s->source.read = read_part;
    if (mapped) {
        atomic_fetch_add(&mapped->references, 1);
        s->mapped = mapped;
        s->source.map = map_file;
        s->source.borrow = borrow;
        s->source.touch = touch_part;
        s->source.close_rest = close_rest;
    }
    s->source.close = close_source;
    s->source.bytes = bytes;
    /* The kernel reads ahead twice as far. */
    (void)!posix_fadvise(fd, 0, 0, POSIX_FADV_SEQUENTIAL);
    *out = &s->source;
    return PC_OK;
}

void pc__disk_source_prefetch(pc__source *source)
{
    read_ahead(disk_source_of(source), 0);
}
