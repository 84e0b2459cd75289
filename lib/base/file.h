/* Whole files, read-only: mapped (large weights) or read (small text). Reads and writes at an
 * offset. Paths. */
#ifndef PC_BASE_FILE_H
#define PC_BASE_FILE_H

#include "base/mem.h"

typedef struct pc__file {
    const uint8_t *data;
    size_t size;
} pc__file;

/* Opens a regular file for reading; the caller closes *fd. PC_ERR_NOT_FOUND, or PC_ERR_IO with the
 * path and the system's reason. PC_ERR_INVALID: the path is empty. */
pc_status pc__file_open(const char *path, int *fd, size_t *size);
/* The same for the result of a call that has opened `path`: a descriptor, or -1 and errno. Closes
 * the descriptor if it is refused. */
pc_status pc__file_take(int fd, const char *path, size_t *size);

/* Maps a regular file. As pc__file_open; an empty file has size 0. */
pc_status pc__file_map(pc__file *out, const char *path);
/* The same for a file that is open, of `size` bytes; it can be closed afterwards. */
pc_status pc__file_map_open(pc__file *out, int fd, size_t size, const char *path);
void pc__file_unmap(pc__file *file); /* size 0: does nothing */
/* Gives the memory of bytes [at, at + size) of a mapped file back to the system; the next access
 * reads them again. */
void pc__file_release(const pc__file *file, size_t at, size_t size);

/* Reads a regular file of at most `limit` bytes into a NUL-terminated block of `mem`. As
 * pc__file_open; PC_ERR_LIMIT. */
pc_status pc__file_read(const pc_allocator *mem, const char *path, size_t limit, char **data,
                        size_t *size);
/* The same for a file that is open, of `size` bytes. Closes it. */
pc_status pc__file_read_open(const pc_allocator *mem, int fd, const char *path, size_t limit,
                             char **data, size_t size);

/* Bytes [at, at + size) of an open file. Read: their number, less than `size` only at the end of
 * the file, or -1 with errno. Write: 0, or errno if not all could be written. */
int64_t pc__read_at(int fd, void *data, size_t size, uint64_t at);
int pc__write_at(int fd, const void *data, size_t size, uint64_t at);

/* "folder/name", or `name` itself where it is absolute or folder is NULL or "". NULL: out of
 * memory. */
char *pc__path_join(const pc_allocator *mem, const char *folder, const char *name);
/* The folder part of a path ("." where there is none). NULL: out of memory. */
char *pc__path_folder(const pc_allocator *mem, const char *path);

#endif
