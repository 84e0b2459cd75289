/* Appends to the log file and replaces it; reads it again where a writer may have changed it. */
#include "memo/maps/map_log.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"

pc_status pc__map_log_add(pc__map_log *log, const pc__dir *dir, const pc__map_log_entry *entry,
                          int sync)
{
    uint8_t raw[PC__MAPS_ENTRY];
    int error;
    pc__map_log_entry_put(entry, raw);
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
    if (fdatasync(log->fd)) { /* nobody knows how much of it is on the disk */
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
    *log = (pc__map_log){
        .fd = fd, .end = size, .entries = (size - PC__MAPS_LOG_HEADER) / PC__MAPS_ENTRY};
    return PC_OK;
}

int pc__map_log_holds(const pc__dir *dir, const pc_allocator *mem,
                      const pc__map_signature *signature, const pc__map_log_entry *entry)
{
    uint8_t *data;
    size_t size;
    int holds = pc__dir_read(dir, mem, PC__MAPS_LOG, UINT64_MAX, &data, &size) < 0 || !size;
    for (size_t at = PC__MAPS_LOG_HEADER; at + PC__MAPS_ENTRY <= size; at += PC__MAPS_ENTRY) {
        pc__map_log_entry e;
        /* The last entry of an id counts. */
        if (pc__map_log_entry_get(data + at, signature, &e) && e.id == entry->id)
            holds = e.kind == PC__MAPS_STORED && e.at == entry->at
                    && !memcmp(e.sum, entry->sum, PC__CHECKSUM);
    }
    pc__free(mem, data);
    return holds;
}

void pc__map_log_close(pc__map_log *log)
{
    if (log->fd >= 0)
        close(log->fd);
    log->fd = -1;
}
