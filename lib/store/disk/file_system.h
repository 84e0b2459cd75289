/* What is known of the file system that a folder lies on, by the magic number of statfs(2). */
#ifndef PC_STORE_DISK_FILE_SYSTEM_H
#define PC_STORE_DISK_FILE_SYSTEM_H

enum {
    PC__FS_LOCAL = 1, /* on this machine, so that only what happens here changes its files */
    PC__FS_COUNTS_USERS =
        2, /* a write lease is granted only where nobody else has the file open or mapped */
};

/* PC__FS_…; 0: not known: it may be a network's, or a program's (FUSE). */
unsigned pc__file_system(int folder);

#endif
