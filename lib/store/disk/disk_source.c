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

enum {
    CHUNK = 4 << 20,  /* a thousandth of a second to a second, from memory to the slowest disk */
    AHEAD = 32 << 20, /* what a disk is kept busy with while we check and decode: 8 << 20 gave a
                         shared one a tenth less */
    STEP = 256 << 10  /* at a time: the kernel does no more in one call where its own reading ahead
                         is set to the usual */
};

typedef struct disk_source {
    pc__source source;
    pc_allocator mem;
    int fd;
    atomic_uint_fast64_t asked; /* up to here the kernel has been asked to read */
    double deadline;
    pc__mapped_files *maps; /* a reference; NULL: it is read */
    uint8_t *map;           /* NULL: not mapped */
    char *where;            /* for texts */
} disk_source;

static disk_source *self_of(pc__source *source)
{
    return PC__AROUND(source, disk_source, source);
}

/* Where piece and offset lie in the file. The numbers come from headers: nothing is added before it
 * is compared. */
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
    return pc__fail(PC_ERR_IO, "%s: not read within its deadline", s->where);
}

/* Is this byte in the page cache? 0 also where nobody can tell. */
static int is_near(const disk_source *s, uint64_t at)
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

/* Several threads read one file at several places, which the kernel's own reading ahead takes for
 * jumps: it is told. What lies in the page cache needs none of it. */
static void read_ahead(disk_source *s, uint64_t end)
{
    uint64_t from = atomic_load_explicit(&s->asked, memory_order_relaxed), until = end + AHEAD;
    until = until < s->source.bytes ? until : s->source.bytes;
    if (from + STEP > until || !atomic_compare_exchange_strong(&s->asked, &from, until)
        || is_near(s, from))
        return;
    for (uint64_t at = from; at < until; at += STEP)
        (void)!posix_fadvise(s->fd, (off_t)at, (off_t)(until - at < STEP ? until - at : STEP),
                             POSIX_FADV_WILLNEED);
}

static pc_status read_part(pc__source *source, size_t piece, uint64_t offset, uint64_t at,
                           void *data, size_t size)
{
    disk_source *s = self_of(source);
    if (!lies_inside(s, offset, at, size))
        return pc__fail(PC_ERR_FORMAT, "%s: cut short: %llu bytes", s->where,
                        (unsigned long long)source->bytes);
    if (piece) /* who reads a header may want no more */
        read_ahead(s, offset + at + size);
    for (size_t done = 0, n; done < size; done += n) {
        int64_t got;
        n = size - done < CHUNK ? size - done : CHUNK;
        pc_status status = check_deadline(s);
        if (status < 0)
            return status;
        got = pc__read_at(s->fd, (char *)data + done, n, offset + at + done);
        if (got < 0)
            return pc__fail(PC_ERR_IO, "%s: %s", s->where, strerror(errno));
        if ((size_t)got < n)
            return pc__fail(PC_ERR_FORMAT, "%s: cut short while it was being read", s->where);
    }
    return PC_OK;
}

static const void *borrow(pc__source *source, size_t piece, uint64_t offset, uint64_t at,
                          size_t size)
{
    disk_source *s = self_of(source);
    (void)piece;
    return s->map && lies_inside(s, offset, at, size) ? s->map + offset + at : NULL;
}

/* Private: what a caller writes (pc__payload_ops.settle) stays in this process. */
static int map_file(pc__source *source)
{
    disk_source *s = self_of(source);
    void *data;
    if (s->map || !source->bytes || source->bytes > SIZE_MAX
        || !pc__mapped_files_reserve(s->maps, source->bytes))
        return s->map != NULL;
    data = mmap(NULL, (size_t)source->bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_NORESERVE,
                s->fd, 0);
    if (data == MAP_FAILED)
        pc__mapped_files_unreserve(s->maps, source->bytes); /* then it is read */
    else
        s->map = data;
    return s->map != NULL;
}

/* Is the file still as long as it was? */
static pc_status check_length(const disk_source *s, uint64_t end)
{
    struct stat st;
    if (fstat(s->fd, &st))
        return pc__fail(PC_ERR_IO, "%s: %s", s->where, strerror(errno));
    return (uint64_t)st.st_size < end
               ? pc__fail(PC_ERR_FORMAT, "%s: cut short while it was being read", s->where)
               : PC_OK;
}

/* The kernel takes the pages in now, many at a time, and says if it cannot. One that does not know
 * how is asked for the length at least. */
static pc_status touch_part(pc__source *source, size_t piece, uint64_t offset, uint64_t at,
                            size_t size)
{
    disk_source *s = self_of(source);
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
        return status < 0 ? status : pc__fail(PC_ERR_IO, "%s: cannot be read", s->where);
    }
#endif
    return check_length(s, offset + at + size);
}

static void close_rest(pc__source *source)
{
    disk_source *s = self_of(source);
    close(s->fd); /* a mapping needs none, and there may be thousands */
    s->fd = -1;
}

static void close_source(pc__source *source)
{
    disk_source *s = self_of(source);
    pc_allocator mem = s->mem;
    if (s->map) {
        munmap(s->map, (size_t)source->bytes);
        pc__mapped_files_unreserve(s->maps, source->bytes);
    }
    pc__mapped_files_unref(s->maps);
    if (s->fd >= 0)
        close(s->fd);
    pc__free(&mem, s->where);
    pc__free(&mem, s);
}

static char *where_of(const pc_allocator *mem, const pc__disk_root *root,
                      const pc__record_name *record_name)
{
    char name[PC__DISK_NAME], inside[PC__DISK_NAME + 3];
    pc__disk_file_name(record_name, name);
    memcpy(inside, name, 2);
    inside[2] = '/';
    memcpy(inside + 3, name, sizeof name);
    return pc__path_join(mem, root->path, inside);
}

pc_status pc__disk_source_new(pc__source **out, const pc_allocator *mem, const pc__disk_root *root,
                              const pc__record_name *record_name, int fd, uint64_t bytes,
                              double deadline, pc__mapped_files *maps)
{
    disk_source *s = pc__calloc(mem, 1, sizeof *s);
    *out = NULL;
    if (!s || !(s->where = where_of(mem, root, record_name))) {
        pc__free(mem, s);
        close(fd);
        return PC_ERR_NOMEM;
    }
    s->mem = *mem;
    s->fd = fd;
    s->deadline = deadline;
    s->source.read = read_part;
    if (maps) {
        s->maps = pc__mapped_files_ref(maps);
        s->source.map = map_file;
        s->source.borrow = borrow;
        s->source.touch = touch_part;
        s->source.close_rest = close_rest;
    }
    s->source.close = close_source;
    s->source.bytes = bytes;
    (void)!posix_fadvise(
        fd, 0, 0,
        POSIX_FADV_SEQUENTIAL); /* the kernel reads ahead twice as far while we check and decode */
    *out = &s->source;
    return PC_OK;
}

void pc__disk_source_prefetch(pc__source *source)
{
    read_ahead(self_of(source), 0);
}

static pc_status write_part(pc__sink *sink, size_t piece, uint64_t offset, const void *data,
                            size_t size)
{
    pc__disk_sink *s = PC__AROUND(sink, pc__disk_sink, sink);
    (void)piece;
    for (size_t done = 0, n; done < size; done += n) {
        int error;
        n = size - done < CHUNK ? size - done : CHUNK;
        if (s->deadline > 0 && pc__now() >= s->deadline) {
            s->timed_out = 1;
            return pc__fail(PC_ERR_IO, "%s: not written within its deadline", s->path);
        }
        error = pc__write_at(s->fd, (const char *)data + done, n, offset + done);
        if (error)
            return pc__fail(PC_ERR_IO, "%s: cannot write a record: %s", s->path, strerror(error));
    }
    return PC_OK;
}

void pc__disk_sink_init(pc__disk_sink *sink, int fd, const char *path, double deadline)
{
    *sink = (pc__disk_sink){{write_part}, fd, path, deadline, 0};
}
