#include "store/disk/disk_root.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "base/fail.h"

enum { FOLDER_FLAGS = O_RDONLY | O_DIRECTORY | O_CLOEXEC };

static int hex_value(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static int is_sub_name(const char *name)
{
    return strlen(name) == 2 && hex_value(name[0]) >= 0 && hex_value(name[1]) >= 0;
}

static int is_known_name(const char *name)
{
    return !strcmp(name, ".") || !strcmp(name, "..") || !strcmp(name, PC__DISK_NEW)
           || !strncmp(name, "promptcache.", 12) || is_sub_name(name);
}

/* A folder without a lock file is ours if nothing in it is not: it is new, or the file was lost. */
static pc_status holds_nothing_else(const pc__disk_root *root, int make)
{
    struct stat st;
    struct dirent *entry;
    pc_status status = PC_OK;
    int fd, count = 0;
    DIR *dir;
    if (!fstatat(root->fd, PC__DISK_LOCK, &st, AT_SYMLINK_NOFOLLOW) && S_ISREG(st.st_mode))
        return PC_OK;
    fd = openat(root->fd, ".", FOLDER_FLAGS);
    dir = fd < 0 ? NULL : fdopendir(fd);
    if (!dir) {
        status = pc__fail(PC_ERR_IO, "%s: %s", root->path, strerror(errno));
        if (fd >= 0)
            close(fd);
        return status;
    }
    while (status == PC_OK && (entry = readdir(dir))) {
        if (!is_known_name(entry->d_name))
            status = pc__fail(PC_ERR_FORMAT, "%s: holds '%.80s': not a folder of records",
                              root->path, entry->d_name);
        count += entry->d_name[0] != '.';
    }
    closedir(dir);
    if (status == PC_OK && !count && !make)
        status = pc__fail(PC_ERR_FORMAT, "%s: empty: not a folder of records", root->path);
    return status;
}

pc_status pc__disk_root_open(pc__disk_root *out, const pc_allocator *mem, const char *path,
                             int make)
{
    pc_status status = pc__dir_open(out, mem, path, make);
    if (status == PC_OK && (status = holds_nothing_else(out, make)) < 0)
        pc__dir_close(out, mem);
    return status;
}

void pc__disk_file_name(const pc__record_name *record_name, char name[PC__DISK_NAME])
{
    char hex[65];
    pc__id_hex(&record_name->key, hex);
    snprintf(name, PC__DISK_NAME, "%s%s%s%s", hex, *record_name->variant ? "." : "",
             record_name->variant, PC__DISK_SUFFIX);
}

static int read_key(const char *digits, pc__id *key)
{
    for (size_t i = 0; i < sizeof key->bytes; i++) {
        int high = hex_value(digits[2 * i]), low = hex_value(digits[2 * i + 1]);
        if (high < 0 || low < 0)
            return 0;
        key->bytes[i] = (uint8_t)(16 * high + low);
    }
    return 1;
}

int pc__disk_parse_name(const char *name, unsigned sub, pc__record_name *record_name)
{
    const size_t suffix = strlen(PC__DISK_SUFFIX);
    size_t size = strnlen(name, PC__DISK_NAME), variant;
    *record_name = (pc__record_name){0};
    if (size >= PC__DISK_NAME || size < 64 + suffix || strcmp(name + size - suffix, PC__DISK_SUFFIX)
        || !read_key(name, &record_name->key))
        return 0;
    variant = size - 64 - suffix;
    if (variant
        && (name[64] != '.' || !pc__variant_read(name + 65, variant - 1, record_name->variant)))
        return 0;
    return record_name->key.bytes[0] == sub;
}

static void sub_name(unsigned sub, char name[3])
{
    static const char digits[] = "0123456789abcdef";
    name[0] = digits[sub / 16 % 16];
    name[1] = digits[sub % 16];
    name[2] = 0;
}

static int open_folder(const pc__disk_root *root, const char *name, int make)
{
    int fd = openat(root->fd, name, FOLDER_FLAGS | O_NOFOLLOW);
    if (fd >= 0 || errno != ENOENT || !make)
        return fd;
    if (mkdirat(root->fd, name, 0700) && errno != EEXIST)
        return -1;
    return openat(root->fd, name, FOLDER_FLAGS | O_NOFOLLOW);
}

int pc__disk_sub(const pc__disk_root *root, unsigned sub, int make)
{
    char name[3];
    sub_name(sub, name);
    return open_folder(root, name, make);
}

int pc__disk_new(const pc__disk_root *root, int make)
{
    return open_folder(root, PC__DISK_NEW, make);
}

int pc__disk_sub_stat(const pc__disk_root *root, unsigned sub, struct stat *st)
{
    char name[3];
    sub_name(sub, name);
    if (fstatat(root->fd, name, st, AT_SYMLINK_NOFOLLOW))
        return -1;
    if (S_ISDIR(st->st_mode))
        return 0;
    errno = ENOTDIR;
    return -1;
}

/* What an error of opening or removing says about the record: nothing there, or trouble. */
static pc_status no_record(const pc__disk_root *root, const char *name)
{
    if (errno == ENOENT || errno == ELOOP || errno == ENOTDIR || errno == ENXIO || errno == EISDIR)
        return PC_MISS;
    if (errno == EWOULDBLOCK) /* just now its file is being taken for another record
                                 (store/disk/disk_reuse.h) */
        return PC_MISS;
    return pc__fail(PC_ERR_IO, "%s/%.2s/%s: %s", root->path, name, name, strerror(errno));
}

/* Whether the file that was opened under the name is still the record of that name, and stays so
 * while it is open or mapped. Between the look-up of the name and the opening a writer may have
 * taken the file for another record (store/disk/disk_reuse.h): he has it locked, or it has another
 * name by now. */
static int is_held(int sub, const char *name, int fd, const struct stat *st)
{
    struct stat now;
    if (flock(fd, LOCK_SH | LOCK_NB) && errno == EWOULDBLOCK)
        return 0;
    return !fstatat(sub, name, &now, AT_SYMLINK_NOFOLLOW) && now.st_ino == st->st_ino
           && now.st_dev == st->st_dev;
}

pc_status pc__disk_open_record(const pc__disk_root *root, const pc__record_name *record_name,
                               int *fd, struct stat *st)
{
    char name[PC__DISK_NAME];
    int sub = pc__disk_sub(root, record_name->key.bytes[0], 0);
    pc_status status = PC_OK;
    pc__disk_file_name(record_name, name);
    *fd = sub < 0 ? -1
                  : openat(sub, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (*fd < 0)
        status = no_record(root, name);
    else if (fstat(*fd, st))
        status = pc__fail(PC_ERR_IO, "%s/%.2s/%s: %s", root->path, name, name, strerror(errno));
    else if (!pc__dir_is_trusted(root, st) || !is_held(sub, name, *fd, st))
        status = PC_MISS;
    if (sub >= 0)
        close(sub);
    if (*fd < 0)
        return status;
    if (status != PC_OK) {
        close(*fd);
        *fd = -1;
    }
    return status;
}

int pc__disk_stat_record(const pc__disk_root *root, const pc__record_name *record_name,
                         struct stat *st)
{
    char name[PC__DISK_NAME];
    int sub = pc__disk_sub(root, record_name->key.bytes[0], 0), there;
    if (sub < 0)
        return 0;
    pc__disk_file_name(record_name, name);
    there = !fstatat(sub, name, st, AT_SYMLINK_NOFOLLOW) && pc__dir_is_trusted(root, st);
    close(sub);
    return there;
}

pc_status pc__disk_unlink_record(const pc__disk_root *root, const pc__record_name *record_name,
                                 uint64_t *bytes)
{
    char name[PC__DISK_NAME];
    struct stat st;
    pc_status status = PC_OK;
    int sub = pc__disk_sub(root, record_name->key.bytes[0], 0);
    *bytes = 0;
    pc__disk_file_name(record_name, name);
    if (sub < 0)
        return no_record(root, name);
    if (fstatat(sub, name, &st, AT_SYMLINK_NOFOLLOW))
        status = no_record(root, name);
    else if (!pc__dir_is_trusted(root, &st))
        status = PC_MISS;
    else if (unlinkat(sub, name, 0))
        status = no_record(root, name);
    else
        *bytes = (uint64_t)st.st_size;
    close(sub);
    return status;
}

void pc__disk_touch_record(const pc__disk_root *root, const pc__record_name *record_name)
{
    const struct timespec times[2] = {{0, UTIME_OMIT}, {0, UTIME_NOW}};
    char name[PC__DISK_NAME];
    int sub = pc__disk_sub(root, record_name->key.bytes[0], 0);
    if (sub < 0)
        return;
    pc__disk_file_name(record_name, name);
    (void)!utimensat(sub, name, times, AT_SYMLINK_NOFOLLOW); /* it only loses a date */
    close(sub);
}
