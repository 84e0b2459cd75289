#include "store/disk/disk_lock.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>
#include <xxhash.h>

#include "base/fail.h"
#include "base/file.h"
#include "base/little_endian.h"

enum {
    RECORD_BYTES = 64,
    AT_VERSION = 8,
    AT_DIRTY = 12,
    AT_BYTES = 16,
    AT_GENERATION = 24,
    AT_BOOT = 32,
    AT_CHECK = 56,
    VERSION = 1
};
static const char magic[9] = "PCFOLDER";

/* Changes with every start of the machine; zeros where the system does not tell. */
static void read_boot_id(uint8_t boot[16])
{
    char text[64] = {0};
    size_t n = 0;
    int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    memset(boot, 0, 16);
    if (fd < 0)
        return;
    if (pc__read_at(fd, text, sizeof text - 1, 0) > 0)
        for (const char *c = text; *c && n < 32; c++) {
            int digit = *c >= '0' && *c <= '9'   ? *c - '0'
                        : *c >= 'a' && *c <= 'f' ? *c - 'a' + 10
                                                 : -1;
            if (digit >= 0) {
                boot[n / 2] = (uint8_t)(n % 2 ? boot[n / 2] | digit : digit << 4);
                n++;
            }
        }
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

static void read_record(pc__disk_lock *lock)
{
    uint8_t raw[RECORD_BYTES];
    int whole = pc__read_at(lock->fd, raw, sizeof raw, 0) == (int64_t)sizeof raw
                && !memcmp(raw, magic, 8) && pc__get_u32(raw + AT_VERSION) == VERSION
                && pc__get_u64(raw + AT_CHECK) == XXH3_64bits(raw, AT_CHECK);
    lock->is_dirty = 0;
    lock->is_unknown = !whole || memcmp(raw + AT_BOOT, lock->boot, sizeof lock->boot);
    lock->is_trusted = !lock->is_unknown && !pc__get_u32(raw + AT_DIRTY);
    lock->bytes = whole ? pc__get_u64(raw + AT_BYTES) : 0;
    lock->generation = whole ? pc__get_u64(raw + AT_GENERATION) : 0;
}

static int write_record(const pc__disk_lock *lock, uint32_t dirty)
{
    uint8_t raw[RECORD_BYTES] = {0};
    memcpy(raw, magic, 8);
    pc__put_u32(raw + AT_VERSION, VERSION);
    pc__put_u32(raw + AT_DIRTY, dirty);
    pc__put_u64(raw + AT_BYTES, lock->bytes);
    pc__put_u64(raw + AT_GENERATION, lock->generation);
    memcpy(raw + AT_BOOT, lock->boot, sizeof lock->boot);
    pc__put_u64(raw + AT_CHECK, XXH3_64bits(raw, AT_CHECK));
    return pc__write_at(lock->fd, raw, sizeof raw, 0);
}

pc_status pc__disk_lock_take(pc__disk_lock *lock, const pc__disk_root *root, double deadline)
{
    pc_status status = pc__dir_lock(root, PC__DISK_LOCK, deadline, &lock->fd);
    if (status == PC_OK)
        read_record(lock);
    return status;
}

pc_status pc__disk_lock_mark(pc__disk_lock *lock, const pc__disk_root *root)
{
    int error;
    if (lock->is_dirty)
        return PC_OK;
    error = write_record(lock, 1);
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
        write_record(lock,
                     !lock->is_trusted); /* if it fails it stays dirty, and the next one counts */
        lock->is_dirty = 0;
    }
    flock(lock->fd, LOCK_UN);
}

void pc__disk_lock_add(pc__disk_lock *lock, uint64_t bytes)
{
    lock->bytes += bytes;
}

void pc__disk_lock_subtract(pc__disk_lock *lock, uint64_t bytes)
{
    if (bytes > lock->bytes) /* somebody has changed files by hand */
        lock->is_trusted = 0;
    lock->bytes -= bytes < lock->bytes ? bytes : lock->bytes;
}
