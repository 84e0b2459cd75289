/* The file systems that are known. */
#include "store/disk/file_system.h"

#include <stddef.h>
#include <stdint.h>
#include <sys/vfs.h>

static const struct {
    uint32_t magic;
    unsigned traits;
} known[] = {
    {0xef53, PC__FS_LOCAL | PC__FS_COUNTS_USERS},     /* ext2, ext3, ext4 */
    {0x58465342, PC__FS_LOCAL | PC__FS_COUNTS_USERS}, /* XFS */
    {0x9123683e, PC__FS_LOCAL | PC__FS_COUNTS_USERS}, /* Btrfs */
    {0x01021994, PC__FS_LOCAL | PC__FS_COUNTS_USERS}, /* tmpfs */
    {0xf2f52010, PC__FS_LOCAL | PC__FS_COUNTS_USERS}, /* F2FS */
    {0x794c7630, PC__FS_LOCAL}, /* overlayfs: a mapping is one of another file below */
    {0x858458f6, PC__FS_LOCAL}, /* ramfs */
    {0x2fc12fc1, PC__FS_LOCAL}, /* ZFS */
    {0xca451a4e, PC__FS_LOCAL}, /* bcachefs */
    {0x3153464a, PC__FS_LOCAL}, /* JFS */
    {0x73717368, PC__FS_LOCAL}, /* SquashFS */
    {0xe0f5e1e2, PC__FS_LOCAL}, /* EROFS */
};

unsigned pc__file_system(int folder)
{
    struct statfs fs;
    if (fstatfs(folder, &fs))
        return 0;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if ((uint32_t)fs.f_type == known[i].magic)
            return known[i].traits;
    return 0;
}
