/* pc_fingerprint_files: a digest of files, by which an application names its model (doc/format.md,
 * files/1). */
#include <promptcache/extend.h>
#include <errno.h>
#include <sodium.h>
#include <string.h>
#include <unistd.h>

#include "base/digest.h"
#include "base/fail.h"
#include "base/file.h"
#include "base/options.h"

enum { PART = 1 << 15, PROGRESS = 1 << 25 }; /* bytes: of a read, between two reports */

typedef struct file_digest {
    pc__digest digest;
    pc_progress_fn progress;
    void *user;
} file_digest;

static pc_status report_progress(const file_digest *r, const char *path, size_t done, size_t size)
{
    pc__callback_begin();
    if (r->progress && r->progress(r->user, path, done, size))
        return pc__callback_cancelled("pc_fingerprint_files: cancelled in %s", path);
    return PC_OK;
}

/* Reads `n` bytes at `at`; n 0: checks that the file ends there. */
static pc_status read_file_part(int fd, const char *path, void *part, size_t n, size_t at)
{
    int64_t got = pc__read_at(fd, part, n ? n : 1, at);
    if (got < 0)
        return pc__fail(PC_ERR_IO, "%s: %s", path, strerror(errno));
    if ((size_t)got != n)
        return pc__fail(PC_ERR_IO, "%s: became %s while being read", path,
                        n ? "shorter" : "longer");
    return PC_OK;
}

static pc_status add_open_file(file_digest *r, int fd, const char *path, size_t size)
{
    unsigned char part[PART];
    pc__digest_u64(&r->digest, size);
    for (size_t at = 0, n; at < size; at += n) {
        if (at % PROGRESS == 0)
            PC__TRY_RETURN(report_progress(r, path, at, size));
        n = size - at < PART ? size - at : PART;
        PC__TRY_RETURN(read_file_part(fd, path, part, n, at));
        pc__digest_part(&r->digest, part, n);
    }
    return read_file_part(fd, path, part, 0, size);
}

static pc_status add_file_path(file_digest *r, const char *path)
{
    int fd;
    size_t size;
    pc_status status;
    if (!path)
        return pc__fail(PC_ERR_INVALID, "pc_fingerprint_files: a path is NULL");
    PC__TRY_RETURN(pc__file_open(path, &fd, &size));
    status = add_open_file(r, fd, path, size);
    close(fd);
    return status < 0 ? status : report_progress(r, path, size, size);
}

pc_status pc_fingerprint_files(uint8_t fingerprint[32], const char *const *paths, size_t count,
                               pc_progress_fn progress, void *progress_user)
{
    file_digest r = {.progress = progress, .user = progress_user};
    pc_status status = PC_OK;
    pc__id id;
    if (!fingerprint || !paths || !count)
        return pc__fail(PC_ERR_INVALID,
                        "pc_fingerprint_files: fingerprint is NULL, or paths is NULL or empty");
    PC__TRY_RETURN(pc__check_array("pc_fingerprint_files", "paths", paths, count, sizeof(*paths)));
    memset(fingerprint, 0, 32);
    if (sodium_init() < 0) /* selects code for this CPU */
        return pc__fail(PC_ERR_INTERNAL, "pc_fingerprint_files: libsodium cannot be initialised");
    pc__digest_start(&r.digest, "files/1");
    pc__digest_u64(&r.digest, count);
    for (size_t i = 0; i < count && status >= 0; i++)
        status = add_file_path(&r, paths[i]);
    id = pc__digest_end(&r.digest);
    if (status >= 0)
        memcpy(fingerprint, id.bytes, sizeof id.bytes);
    return status;
}
