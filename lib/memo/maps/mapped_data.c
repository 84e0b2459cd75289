#include "memo/maps/mapped_data.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>

#include "base/fail.h"

#define LEAST_SPARE (UINT64_C(1) << 30)
#define STEP (UINT64_C(1) << 16)

static void *map(int fd, uint64_t bytes)
{
    return bytes > SIZE_MAX ? MAP_FAILED : mmap(NULL, (size_t)bytes, PROT_READ, MAP_SHARED, fd, 0);
}

pc_status pc__mapped_data_cover(pc__mapped_data **view, const pc_allocator *mem, int fd,
                                uint64_t end, int spare, const char *path)
{
    uint64_t exact = (end + STEP - 1) / STEP * STEP,
             bytes = 2 * exact < LEAST_SPARE ? LEAST_SPARE : 2 * exact;
    pc__mapped_data *larger;
    void *data = MAP_FAILED;
    if (*view && (*view)->bytes >= end)
        return PC_OK;
    larger = pc__alloc(mem, sizeof *larger);
    if (!larger)
        return PC_ERR_NOMEM;
    if (spare)
        data = map(fd, bytes);
    if (data == MAP_FAILED) {
        bytes = exact; /* addresses are limited here */
        data = map(fd, bytes);
    }
    if (data == MAP_FAILED) {
        pc__free(mem, larger);
        return pc__fail(errno == ENOMEM ? PC_ERR_NOMEM : PC_ERR_IO, "%s: cannot map %llu bytes: %s",
                        path, (unsigned long long)bytes, strerror(errno));
    }
    *larger = (pc__mapped_data){data, bytes, 1};
    pc__mapped_data_unref(*view, mem);
    *view = larger;
    return PC_OK;
}

pc__mapped_data *pc__mapped_data_ref(pc__mapped_data *view)
{
    view->holds++;
    return view;
}

void pc__mapped_data_unref(pc__mapped_data *view, const pc_allocator *mem)
{
    if (!view || --view->holds)
        return;
    munmap((void *)(uintptr_t)view->data, (size_t)view->bytes);
    pc__free(mem, view);
}

int pc__range_lock(int fd, int type, uint64_t at, uint64_t bytes)
{
    struct flock range = {
        .l_type = (short)type, .l_whence = SEEK_SET, .l_start = (off_t)at, .l_len = (off_t)bytes};
    while (fcntl(fd, F_OFD_SETLK, &range))
        if (errno != EINTR)
            return errno == EACCES ? EAGAIN : errno;
    return 0;
}

int pc__range_is_locked(int fd, uint64_t at, uint64_t bytes)
{
    struct flock range = {
        .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = (off_t)at, .l_len = (off_t)bytes};
    return fcntl(fd, F_OFD_GETLK, &range) || range.l_type != F_UNLCK;
}
