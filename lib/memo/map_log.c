#include "memo/map_log.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/file.h"

pc_status pc__map_log_add(pc__map_log *log, const pc__dir *dir, const pc__maps_entry *entry, int sync)
{
    uint8_t raw[PC__MAPS_ENTRY];
    int error;
    pc__maps_entry_put(entry, raw);
    error = pc__write_at(log->fd, raw, sizeof raw, log->end);
    if (error) {
        log->is_suspect = ftruncate(log->fd, (off_t)log->end) != 0;
        errno = error;
        return pc__dir_fault(dir, PC__MAPS_LOG);
    }
    log->end += sizeof raw;
    log->entries++;
    log->has_news = 1;
    return sync ? pc__map_log_sync(log, dir) : PC_OK;
}

pc_status pc__map_log_sync(pc__map_log *log, const pc__dir *dir)
{
    if (!log->has_news)
        return PC_OK;
    if (fdatasync(log->fd)) { /* what of it is on the disk cannot be known any more */
        log->is_suspect = 1;
        return pc__dir_fault(dir, PC__MAPS_LOG);
    }
    log->has_news = 0;
    return PC_OK;
}

pc_status pc__map_log_replace(pc__map_log *log, const pc__dir *dir, const void *data, size_t size)
{
    struct stat st;
    int fd = -1;
    pc_status status = pc__dir_publish(dir, PC__MAPS_LOG_NEW, PC__MAPS_LOG, data, size, 1);
    if (status == PC_OK)
        status = pc__dir_file(dir, PC__MAPS_LOG, O_RDWR, &fd, &st);
    if (status < 0) {
        log->is_suspect |= log->fd < 0 || !pc__dir_has(dir, PC__MAPS_LOG, log->fd);
        return status;
    }
    pc__map_log_close(log);
    *log = (pc__map_log){.fd = fd, .end = size, .entries = (size - PC__MAPS_LOG_HEADER) / PC__MAPS_ENTRY};
    return PC_OK;
}

void pc__map_log_close(pc__map_log *log)
{
    if (log->fd >= 0)
        close(log->fd);
    log->fd = -1;
}
