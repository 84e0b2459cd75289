/* Files that are read or mapped as a whole, reads and writes at an offset, paths. */
#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fail.h"

pc_status pc__file_open(const char *path, int *fd, size_t *size)
{
    *fd = -1;
    *size = 0;
    if (!*path)
        return pc__fail(PC_ERR_INVALID, "the path is empty: a path is needed");
    *fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* opening a pipe must not block */
    return pc__file_take(*fd, path, size);
}

pc_status pc__file_take(int fd, const char *path, size_t *size)
{
    struct stat st;
    if (fd < 0)
        return pc__fail(errno == ENOENT ? PC_ERR_NOT_FOUND : PC_ERR_IO, "%s: %s", path,
                        strerror(errno));
    if (fstat(fd, &st) || !S_ISREG(st.st_mode)) {
        close(fd);
        return pc__fail(PC_ERR_IO, "%s: not a regular file", path);
    }
    *size = (size_t)st.st_size;
    return PC_OK;
}

pc_status pc__file_map_open(pc__file *out, int fd, size_t size, const char *path)
{
    void *data = size ? mmap(NULL, size, PROT_READ, MAP_PRIVATE, fd, 0) : NULL;
    memset(out, 0, sizeof *out);
    if (data == MAP_FAILED)
        return pc__fail(PC_ERR_IO, "%s: cannot be mapped: %s", path, strerror(errno));
    *out = (pc__file){data, size};
    return PC_OK;
}

pc_status pc__file_map(pc__file *out, const char *path)
{
    int fd;
    size_t size;
    pc_status status;
    memset(out, 0, sizeof *out);
    PC__TRY_RETURN(pc__file_open(path, &fd, &size));
    status = pc__file_map_open(out, fd, size, path);
    close(fd);
    return status;
}

void pc__file_release(const pc__file *file, size_t at, size_t size)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE), first = at / page * page;
    if (size)
        madvise((void *)(uintptr_t)(file->data + first), at - first + size, MADV_DONTNEED);
}

void pc__file_unmap(pc__file *file)
{
    if (file->data)
        munmap((void *)(uintptr_t)file->data, file->size);
    memset(file, 0, sizeof *file);
}

pc_status pc__file_read(const pc_allocator *mem, const char *path, size_t limit, char **data,
                        size_t *size)
{
    int fd;
    *data = NULL;
    PC__TRY_RETURN(pc__file_open(path, &fd, size));
    return pc__file_read_open(mem, fd, path, limit, data, *size);
}

pc_status pc__file_read_open(const pc_allocator *mem, int fd, const char *path, size_t limit,
                             char **data, size_t size)
{
    int64_t got = 0;
    pc_status status = PC_OK;
    *data = NULL;
    if (size > limit)
        status = pc__fail(PC_ERR_LIMIT, "%s: %zu bytes are more than the limit of %zu", path, size,
                          limit);
    else if (!(*data = pc__alloc(mem, size + 1)))
        status = PC_ERR_NOMEM;
    else if ((got = pc__read_at(fd, *data, size, 0)) != (int64_t)size)
        status = pc__fail(PC_ERR_IO, "%s: %s", path,
                          got < 0 ? strerror(errno) : "became shorter while being read");
    close(fd);
    if (status == PC_OK) {
        (*data)[size] = 0;
        return PC_OK;
    }
    pc__free(mem, *data);
    *data = NULL;
    return status;
}

int64_t pc__read_at(int fd, void *data, size_t size, uint64_t at)
{
    size_t got = 0;
    while (got < size) {
        ssize_t n = pread(fd, (char *)data + got, size - got, (off_t)(at + got));
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -1;
        if (!n)
            break;
        got += (size_t)n;
    }
    return (int64_t)got;
}

int pc__write_at(int fd, const void *data, size_t size, uint64_t at)
{
    for (size_t done = 0; done < size;) {
        ssize_t n = pwrite(fd, (const char *)data + done, size - done, (off_t)(at + done));
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return n ? errno : ENOSPC;
        done += (size_t)n;
    }
    return 0;
}

char *pc__path_join(const pc_allocator *mem, const char *folder, const char *name)
{
    size_t n;
    char *path;
    if (name[0] == '/' || !folder || !*folder)
        return pc__strdup(mem, name);
    n = strlen(folder);
    path = pc__alloc(mem, n + strlen(name) + 2);
    if (path) {
        memcpy(path, folder, n);
        path[n] = '/';
        strcpy(path + n + 1, name);
    }
    return path;
}

char *pc__path_folder(const pc_allocator *mem, const char *path)
{
    const char *slash = strrchr(path, '/');
    if (!slash)
        return pc__strdup(mem, ".");
    return pc__strndup(mem, path, slash == path ? 1 : (size_t)(slash - path));
}
