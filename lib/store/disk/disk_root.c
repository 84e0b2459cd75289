/* File names, descriptors and the lock file of a folder; file systems (disk_root.h). */
#include "store/disk/disk_root.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/checksum.h"
#include "base/fail.h"
#include "base/file.h"
#include "base/little_endian.h"

enum { FOLDER_FLAGS = O_RDONLY | O_DIRECTORY | O_CLOEXEC };

/* Names have small letters only. */
static const char CAPITALS[] = "ABCDEF";

static int is_sub_name(const char *name)
{
    return strlen(name) == 2 && pc__hex_byte(name) >= 0 && !strpbrk(name, CAPITALS);
}

static int is_known_name(const char *name)
{
    return !strcmp(name, ".") || !strcmp(name, "..") || !strcmp(name, PC__DISK_NEW)
           || !strncmp(name, "promptcache.", 12) || is_sub_name(name);
}

/* A folder without a lock file is ours if it holds nothing else: it is new, or lost the file. */
static pc_status holds_nothing_else(const pc__dir *root, int make)
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

pc_status pc__disk_root_open(pc__dir *out, const pc_allocator *mem, const char *path, int make)
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
        int byte = pc__hex_byte(digits + 2 * i);
        if (byte < 0)
            return 0;
        key->bytes[i] = (uint8_t)byte;
    }
    return strcspn(digits, CAPITALS) >= 2 * sizeof key->bytes;
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
    snprintf(name, 3, "%02x", sub % 256);
}

static int open_folder(const pc__dir *root, const char *name, int make)
{
    int fd = openat(root->fd, name, FOLDER_FLAGS | O_NOFOLLOW);
    if (fd >= 0 || errno != ENOENT || !make)
        return fd;
    if (mkdirat(root->fd, name, 0700) && errno != EEXIST)
        return -1;
    return openat(root->fd, name, FOLDER_FLAGS | O_NOFOLLOW);
}

int pc__disk_sub(const pc__dir *root, unsigned sub, int make)
{
    char name[3];
    sub_name(sub, name);
    return open_folder(root, name, make);
}

int pc__disk_new(const pc__dir *root, int make)
{
    return open_folder(root, PC__DISK_NEW, make);
}

int pc__disk_sub_stat(const pc__dir *root, unsigned sub, struct stat *st)
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

/* The meaning of errno after opening or removing: PC_MISS if there is no record. */
static pc_status no_record(const pc__dir *root, const char *name)
{
    if (errno == ENOENT || errno == ELOOP || errno == ENOTDIR || errno == ENXIO || errno == EISDIR)
        return PC_MISS;
    /* A writer is taking this file for another record just now (store/disk/disk_room.h). */
    if (errno == EWOULDBLOCK)
        return PC_MISS;
    return pc__fail(PC_ERR_IO, "%s/%.2s/%s: %s", root->path, name, name, strerror(errno));
}

/* 1: the opened file still has this name, and we hold the shared lock that keeps writers off while
 * it is open or mapped. 0: since the name was looked up, a writer has taken the file for another
 * record (store/disk/disk_room.h): it is locked, or has another name. */
static int is_held(int sub, const char *name, int fd, const struct stat *st)
{
    struct stat now;
    if (flock(fd, LOCK_SH | LOCK_NB) && errno == EWOULDBLOCK)
        return 0;
    return !fstatat(sub, name, &now, AT_SYMLINK_NOFOLLOW) && now.st_ino == st->st_ino
           && now.st_dev == st->st_dev;
}

pc_status pc__disk_open_record(const pc__dir *root, const pc__record_name *record_name, int *fd,
                               struct stat *st)
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

int pc__disk_stat_record(const pc__dir *root, const pc__record_name *record_name, struct stat *st)
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

pc_status pc__disk_unlink_record(const pc__dir *root, const pc__record_name *record_name,
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

void pc__disk_touch_record(const pc__dir *root, const pc__record_name *record_name)
{
    const struct timespec times[2] = {{0, UTIME_OMIT}, {0, UTIME_NOW}};
    char name[PC__DISK_NAME];
    int sub = pc__disk_sub(root, record_name->key.bytes[0], 0);
    if (sub < 0)
        return;
    pc__disk_file_name(record_name, name);
    (void)!utimensat(sub, name, times, AT_SYMLINK_NOFOLLOW); /* on failure only a date is lost */
    close(sub);
}

/* --------------------------------------------------------------- the lock file */

enum {
    RECORD_BYTES = 64,
    AT_VERSION = 8,
    AT_DIRTY = 12,
    AT_BYTES = 16,
    AT_GENERATION = 24,
    AT_BOOT = 32,
    AT_SHARE = 48,
    AT_CHECK = 56,
    LOCK_VERSION = 1
};
static const char lock_magic[9] = "PCFOLDER";

/* Changes with every boot; zeros if the system does not tell. */
static void read_boot_id(uint8_t boot[16])
{
    char text[64] = {0};
    size_t n = 0;
    int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    memset(boot, 0, 16);
    if (fd < 0)
        return;
    if (pc__read_at(fd, text, sizeof text - 1, 0) > 0)
        for (const char *c = text; n < 16 && pc__hex_byte(c += *c == '-') >= 0; c += 2)
            boot[n++] = (uint8_t)pc__hex_byte(c);
    close(fd);
}

void pc__disk_lock_init(pc__disk_lock *lock)
{
    *lock = (pc__disk_lock){.fd = -1};
    read_boot_id(lock->boot);
}

void pc__disk_lock_close(pc__disk_lock *lock)
{
    if (lock->fd >= 0)
        close(lock->fd);
    lock->fd = -1;
}

static void read_lock_record(pc__disk_lock *lock)
{
    uint8_t raw[RECORD_BYTES];
    int whole = pc__read_at(lock->fd, raw, sizeof raw, 0) == (int64_t)sizeof raw
                && !memcmp(raw, lock_magic, 8) && pc__get_u32(raw + AT_VERSION) == LOCK_VERSION
                && pc__get_u64(raw + AT_CHECK) == pc__checksum64(raw, AT_CHECK);
    lock->is_dirty = 0;
    lock->is_unknown = !whole || memcmp(raw + AT_BOOT, lock->boot, sizeof lock->boot);
    lock->is_trusted = !lock->is_unknown && !pc__get_u32(raw + AT_DIRTY);
    lock->bytes = whole ? pc__get_u64(raw + AT_BYTES) : 0;
    lock->generation = whole ? pc__get_u64(raw + AT_GENERATION) : 0;
    lock->share = whole ? pc__get_u32(raw + AT_SHARE) : 0;
}

static int write_lock_record(const pc__disk_lock *lock, uint32_t dirty)
{
    uint8_t raw[RECORD_BYTES] = {0};
    memcpy(raw, lock_magic, 8);
    pc__put_u32(raw + AT_VERSION, LOCK_VERSION);
    pc__put_u32(raw + AT_DIRTY, dirty);
    pc__put_u64(raw + AT_BYTES, lock->bytes);
    pc__put_u64(raw + AT_GENERATION, lock->generation);
    pc__put_u32(raw + AT_SHARE, lock->share);
    memcpy(raw + AT_BOOT, lock->boot, sizeof lock->boot);
    pc__put_u64(raw + AT_CHECK, pc__checksum64(raw, AT_CHECK));
    return pc__write_at(lock->fd, raw, sizeof raw, 0);
}

pc_status pc__disk_lock_take(pc__disk_lock *lock, const pc__dir *root, double deadline)
{
    pc_status status = pc__dir_lock(root, PC__DISK_LOCK, deadline, &lock->fd);
    if (status == PC_OK)
        read_lock_record(lock);
    return status;
}

pc_status pc__disk_lock_mark(pc__disk_lock *lock, const pc__dir *root)
{
    int error;
    if (lock->is_dirty)
        return PC_OK;
    error = write_lock_record(lock, 1);
    if (error)
        return pc__fail_system(PC_ERR_IO, error, "%s/%s: %s", root->path, PC__DISK_LOCK,
                               strerror(error));
    lock->is_dirty = 1;
    return PC_OK;
}

void pc__disk_lock_drop(pc__disk_lock *lock)
{
    if (lock->is_dirty) {
        lock->generation++;
        /* On failure the record stays dirty, and the next process scans. */
        write_lock_record(lock, !lock->is_trusted);
        lock->is_dirty = 0;
    }
    flock(lock->fd, LOCK_UN);
}

void pc__disk_lock_subtract(pc__disk_lock *lock, uint64_t bytes)
{
    if (bytes > lock->bytes) /* files were changed by hand */
        lock->is_trusted = 0;
    lock->bytes -= bytes < lock->bytes ? bytes : lock->bytes;
}

/* --------------------------------------------------------------- file systems */

static const struct {
    uint32_t magic;
    unsigned traits;
} known_systems[] = {
    {0xef53, PC__FS_LOCAL | PC__FS_COUNTS_USERS},     /* ext2, ext3, ext4 */
    {0x58465342, PC__FS_LOCAL | PC__FS_COUNTS_USERS}, /* XFS */
    {0x9123683e, PC__FS_LOCAL | PC__FS_COUNTS_USERS}, /* Btrfs */
    {0x01021994, PC__FS_LOCAL | PC__FS_COUNTS_USERS}, /* tmpfs */
    {0xf2f52010, PC__FS_LOCAL | PC__FS_COUNTS_USERS}, /* F2FS */
    {0x794c7630, PC__FS_LOCAL},                       /* a mapping is one of another file below */
    {0x858458f6, PC__FS_LOCAL},                       /* ramfs */
    {0x2fc12fc1, PC__FS_LOCAL},                       /* ZFS */
    {0xca451a4e, PC__FS_LOCAL},                       /* bcachefs */
    {0x3153464a, PC__FS_LOCAL},                       /* JFS */
    {0x73717368, PC__FS_LOCAL},                       /* SquashFS */
    {0xe0f5e1e2, PC__FS_LOCAL},                       /* EROFS */
};

unsigned pc__file_system(int folder)
{
    struct statfs fs;
    if (fstatfs(folder, &fs))
        return 0;
    for (size_t i = 0; i < sizeof known_systems / sizeof *known_systems; i++)
        if ((uint32_t)fs.f_type == known_systems[i].magic)
            return known_systems[i].traits;
    return 0;
}
