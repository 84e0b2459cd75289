/* The data file of a map store: room to write records into, and memory to read them from.
 *
 * Reading. The file is mapped. A mapping covers the file from its start and stays where it is until
 * its last holder releases it. A file that grows beyond the mapping gets a larger one. Mappings are
 * made larger than the file: where the file grows within one, the mapping shows the new bytes.
 *
 * Writing. A record gets an extent, a multiple of PC__MAPS_PAGE: a gap of map_space.h, or the end
 * of the file, within the budget. Readers in other processes hold shared locks on the records that
 * they use, so the writer takes an exclusive lock on an extent before it touches the bytes, and
 * looks for another extent if it cannot.
 *
 * Threads: internally locked. Placing, punching and truncating: one thread at a time. */
#ifndef PC_MEMO_MAP_DATA_H
#define PC_MEMO_MAP_DATA_H

#include <pthread.h>

#include "base/dir.h"
#include "memo/maps/map_format.h"
#include "memo/maps/map_space.h"

typedef struct pc__mapped_data {
    const uint8_t *data;
    uint64_t bytes;
    size_t holds;
} pc__mapped_data;

typedef struct pc__map_data {
    const pc_allocator *mem;
    const pc__dir *dir;
    uint64_t budget; /* of data and log together; 0: none */
    int fd;
    uint8_t nonce[PC__MAPS_NONCE];
    int no_holes;         /* the file system cannot punch them. For the one thread that places */
    pthread_mutex_t lock; /* of the rest */
    pc__map_space space;
    pc__mapped_data *view;
    uint64_t log_bytes;
} pc__map_data;

/* No file yet; `mem` and `dir` outlive it. */
void pc__map_data_init(pc__map_data *data, const pc_allocator *mem, const pc__dir *dir,
                       uint64_t budget);
void pc__map_data_close(pc__map_data *data);
/* While the store is opened, in the order of offsets: this record is there. */
pc_status pc__map_data_claim(pc__map_data *data, const pc__map_log_entry *entry);
/* Maps the file up to `end` at least. `spare`: with addresses to grow into. PC_ERR_NOMEM,
 * PC_ERR_IO: the old mapping stays. */
pc_status pc__map_data_cover(pc__map_data *data, uint64_t end, int spare);
pc__mapped_data *pc__map_data_hold(pc__map_data *data);
void pc__map_data_release(pc__map_data *data, pc__mapped_data *view);

/* Gives out an extent within the budget less `keep_free`, locked against readers until
 * pc__map_data_unlock, and mapped. PC_MISS: no room, unless a record is evicted. */
pc_status pc__map_data_place(pc__map_data *data, uint64_t bytes, uint64_t keep_free, uint64_t *at);
void pc__map_data_unlock(pc__map_data *data, uint64_t at, uint64_t bytes);
void pc__map_data_free(pc__map_data *data, uint64_t at, uint64_t bytes); /* an extent comes back */
/* Both do as much as readers allow: punch makes all gaps holes, truncate ends the file behind its
 * last record. */
void pc__map_data_punch(pc__map_data *data);
void pc__map_data_truncate(pc__map_data *data);
uint64_t pc__map_data_occupied(pc__map_data *data); /* bytes on the disk, with the log */
uint64_t pc__map_data_taken(pc__map_data *data);    /* bytes of all extents given out */
void pc__map_data_count_log(pc__map_data *data, uint64_t bytes);

/* A record to be written, of layers of `sizes` bytes, or of the layout's where sizes is NULL. */
typedef struct pc__map_record_parts {
    const pc__map_layout *layout;
    int32_t layers;
    const void *metadata;
    const void *const *maps; /* [layers] */
    const uint64_t *sizes;   /* [layers], or NULL */
} pc__map_record_parts;
/* Sets entry->bytes and entry->sum; the rest is set, and entry->at has an extent. */
pc_status pc__map_data_write(pc__map_data *data, pc__map_log_entry *entry,
                             const pc__map_record_parts *parts, int sync);

/* Bytes of the extent of a record. */
static inline uint64_t pc__map_extent(const pc__map_log_entry *entry)
{
    return pc__map_round_up(entry->bytes, PC__MAPS_PAGE);
}

/* Locks a part of a file against all other descriptors, also of other processes (fcntl, open file
 * description locks). type: F_RDLCK, F_WRLCK, F_UNLCK. bytes 0: to the end of all files. Does not
 * wait. 0; EAGAIN: another descriptor has a lock that conflicts; or another errno. */
int pc__range_lock(int fd, int type, uint64_t at, uint64_t bytes);
int pc__range_is_locked(int fd, uint64_t at, uint64_t bytes); /* by another one */

#endif
