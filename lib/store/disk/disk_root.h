/* The folder of the DISK tier as names and descriptors (doc/format.md, "The folder"):
 *
 *   promptcache.lock    taken by every writer; holds how many bytes lie in the folder
 *   promptcache.index   what is known of the records (store/disk/disk_index.h)
 *   new/                records that are being written; each is locked by its writer
 *   00/ … ff/           records, by the first byte of their key: <key in hex>[.<variant>].pcr
 *
 * A record is never changed, only removed or replaced. No file is trusted (base/dir.h).
 *
 * The lock file holds one record of 64 bytes:
 *
 *   0 magic "PCFOLDER" · 8 u32 version 1 · 12 u32 1: dirty · 16 u64 bytes · 24 u64 generation
 *   32 boot id (16 bytes) · 48 u32 share · 52 zeros · 56 XXH3-64 of bytes 0 … 55
 *
 * `bytes` is the size of all records and of all files in new/ whose writers live. A writer marks
 * the record dirty before its first change and writes the new sum after its last. If the record is
 * dirty, damaged or from before the last boot, the next writer scans the folder
 * (store/disk/disk_scan.h). `share` is the percentage
 * of a process's budget that one tenant's records may take; 0: nobody has said. */
#ifndef PC_STORE_DISK_ROOT_H
#define PC_STORE_DISK_ROOT_H

#include "base/digest.h"
#include "base/dir.h"
#include "store/record/record_name.h"

#define PC__DISK_LOCK "promptcache.lock"
#define PC__DISK_INDEX "promptcache.index"
#define PC__DISK_INDEX_NEW "promptcache.index.new"
#define PC__DISK_NEW "new"
#define PC__DISK_SUFFIX ".pcr"
enum { PC__DISK_NAME = 64 + PC__VARIANT + sizeof PC__DISK_SUFFIX, PC__DISK_SUBS = 256 };

/* As pc__dir_open. make: an empty folder becomes ours. PC_ERR_FORMAT: not a folder of records. */
pc_status pc__disk_root_open(pc__dir *out, const pc_allocator *mem, const char *path, int make);

void pc__disk_file_name(const pc__record_name *record_name, char name[PC__DISK_NAME]);
/* 1: `name` is the name of a record of this sub-folder. */
int pc__disk_parse_name(const char *name, unsigned sub, pc__record_name *record_name);

/* A descriptor, or -1 with errno. make: creates the sub-folder if it is missing. */
int pc__disk_sub(const pc__dir *root, unsigned sub, int make);
int pc__disk_new(const pc__dir *root, int make);
/* -1 with errno; ENOTDIR also for a link. */
int pc__disk_sub_stat(const pc__dir *root, unsigned sub, struct stat *st);
/* Opens the record's file for reading. PC_MISS: missing, or not a file of ours. PC_ERR_IO. */
pc_status pc__disk_open_record(const pc__dir *root, const pc__record_name *record_name, int *fd,
                               struct stat *st);
/* 1: the file exists, *st is filled. */
int pc__disk_stat_record(const pc__dir *root, const pc__record_name *record_name, struct stat *st);
/* PC_OK: removed, *bytes is its size. PC_MISS: missing. PC_ERR_IO. Under the folder's lock. */
pc_status pc__disk_unlink_record(const pc__dir *root, const pc__record_name *record_name,
                                 uint64_t *bytes);
/* Sets the file's date to now: it is the date of the last use. */
void pc__disk_touch_record(const pc__dir *root, const pc__record_name *record_name);

/* The lock file of a folder. One thread at a time. */
typedef struct pc__disk_lock {
    int fd;              /* -1: not open */
    uint64_t bytes;      /* valid while the lock is held */
    uint64_t generation; /* grows with every change by any process */
    uint32_t share;      /* percent; 0: nobody has said */
    int is_trusted;      /* `bytes` is right */
    int is_unknown;      /* not trusted, and after a crash of the machine: sizes may be wrong too */
    int is_dirty;        /* we have marked it */
    uint8_t boot[16];
} pc__disk_lock;

void pc__disk_lock_init(pc__disk_lock *lock);
void pc__disk_lock_close(pc__disk_lock *lock);
/* Waits for the lock, at most until `deadline` (pc__now clock). PC_AGAIN: another process still
 * holds it; the error text says so. PC_ERR_IO. */
pc_status pc__disk_lock_take(pc__disk_lock *lock, const pc__dir *root, double deadline);
/* Before the first change. After PC_ERR_IO nothing may be changed. */
pc_status pc__disk_lock_mark(pc__disk_lock *lock, const pc__dir *root);
/* Writes the new sum if there were changes, and unlocks. */
void pc__disk_lock_drop(pc__disk_lock *lock);
void pc__disk_lock_subtract(pc__disk_lock *lock, uint64_t bytes);

/* Traits of the file system of a folder, by the magic number of statfs(2). */
enum {
    PC__FS_LOCAL = 1,        /* only processes of this machine change its files */
    PC__FS_COUNTS_USERS = 2, /* a write lease fails if anybody else has the file open or mapped */
};
/* PC__FS_…; 0: unknown, perhaps a network's or a program's (FUSE). */
unsigned pc__file_system(int folder);

#endif
