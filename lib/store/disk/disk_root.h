/* The folder of the tier DISK as names and descriptors (doc/format.md, "The folder"):
 *
 *   promptcache.lock    taken by whoever changes what is there; holds how much that is
 * (store/disk/disk_lock.h) promptcache.index   what is known of the records, so that they need not
 * be opened (store/disk/disk_index.h) new/                records that are being written; their
 * writers hold a lock on them as long as they live 00/ … ff/           records, by the first byte
 * of their key: <key in hex>[.<variant>].pcr. Never changed, only removed or replaced
 *
 * Nothing in it is trusted (base/dir.h). */
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

typedef pc__dir pc__disk_root;

/* As pc__dir_open; one that is empty becomes ours where `make`. PC_ERR_FORMAT: not a folder of
 * records. */
pc_status pc__disk_root_open(pc__disk_root *out, const pc_allocator *mem, const char *path,
                             int make);

void pc__disk_file_name(const pc__record_name *record_name, char name[PC__DISK_NAME]);
int pc__disk_parse_name(
    const char *name, unsigned sub,
    pc__record_name *record_name); /* 1: the name of a record of that sub-folder */

/* A descriptor, or -1 with errno. make: the sub-folder is made if it is not there. */
int pc__disk_sub(const pc__disk_root *root, unsigned sub, int make);
int pc__disk_new(const pc__disk_root *root, int make);
int pc__disk_sub_stat(const pc__disk_root *root, unsigned sub,
                      struct stat *st); /* -1 with errno; ENOTDIR too if it is a link */
/* The record's file, read-only. PC_MISS: not there, or not a file of ours. PC_ERR_IO. */
pc_status pc__disk_open_record(const pc__disk_root *root, const pc__record_name *record_name,
                               int *fd, struct stat *st);
/* 1: there, *st is filled. */
int pc__disk_stat_record(const pc__disk_root *root, const pc__record_name *record_name,
                         struct stat *st);
/* PC_OK: removed, *bytes it had; PC_MISS: was not there; PC_ERR_IO. Under the folder's lock. */
pc_status pc__disk_unlink_record(const pc__disk_root *root, const pc__record_name *record_name,
                                 uint64_t *bytes);
/* "last used" lives on in the file's date of change. */
void pc__disk_touch_record(const pc__disk_root *root, const pc__record_name *record_name);

#endif
