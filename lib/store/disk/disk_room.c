#include "store/disk/disk_room.h"

#include "store/disk/disk_scan.h"

#define SCAN_SECONDS                                                                               \
    1.0 /* others' changes are looked for that often at most, unless there is nothing left to give \
           up */
#define BATCH_SECONDS                                                           \
    0.02 /* that others may have to wait for the lock of a folder which shrinks \
          */

static int fits(const pc__disk *disk, uint64_t need, uint64_t limit)
{
    return need <= limit && disk->lock.bytes <= limit - need;
}

/* Out of the folder, or its file is a spare now. As pc__disk_unlink_record. */
static pc_status take_away(pc__disk *disk, const pc__record_name *record_name,
                           pc__disk_spare *spare, uint64_t *bytes)
{
    if (spare && spare->fd < 0 && pc__disk_reuse(disk, record_name, spare, bytes))
        return PC_OK;
    return pc__disk_unlink_record(&disk->root, record_name, bytes);
}

static pc_status erase(pc__disk *disk, const pc__record_name *record_name, uint32_t kind,
                       uint32_t reason, int lost, pc__disk_spare *spare)
{
    pc__disk_entry *e;
    uint64_t bytes;
    uint32_t tokens = 0;
    pc_status status = pc__disk_lock_mark(&disk->lock, &disk->root);
    if (status < 0)
        return status;
    status = take_away(disk, record_name, spare, &bytes);
    if (status < 0)
        return status;
    pc__disk_lock_subtract(&disk->lock, bytes);
    pthread_mutex_lock(&disk->guard);
    e = pc__disk_table_find(&disk->table, record_name);
    if (e)
        tokens = e->facts.tokens;
    if (e || status == PC_OK) { /* found gone, or ours to count */
        disk->counts.found += !e;
        disk->counts.lost += lost || status == PC_MISS;
        disk->counts.evicted += !lost && status == PC_OK && kind == PC_EVENT_EVICT;
        disk->counts.removed += !lost && status == PC_OK && kind == PC_EVENT_REMOVE;
        disk->changes++;
    }
    if (e && kind == PC_EVENT_EVICT && status == PC_OK)
        pc__disk_table_evict(&disk->table, e);
    else if (e)
        pc__disk_table_drop(&disk->table, e);
    pthread_mutex_unlock(&disk->guard);
    if (status == PC_OK)
        pc__disk_queue_event(disk, kind, reason, &record_name->key, bytes, tokens, 0);
    return status;
}

pc_status pc__disk_erase(pc__disk *disk, const pc__record_name *record_name, uint32_t kind,
                         uint32_t reason, int lost)
{
    return erase(disk, record_name, kind, reason, lost, NULL);
}

/* ------------------------------------------------------------------ expired */

/* What has expired by now, and when the next does. */
static pc_status list_expired(pc__disk *disk, int64_t now, pc__record_name **spots, size_t *count)
{
    size_t capacity = 0;
    int64_t next_expiry = 0;
    pc_status status = PC_OK;
    *spots = NULL;
    *count = 0;
    pthread_mutex_lock(&disk->guard);
    if (disk->table.next_expiry && disk->table.next_expiry <= now) {
        for (pc__disk_entry *e = pc__disk_table_next(&disk->table, NULL); e && status >= 0;
             e = pc__disk_table_next(&disk->table, e)) {
            if (pc__disk_facts_expired(&e->facts, now)) {
                status = pc__grow(&disk->mem, (void **)spots, &capacity, *count + 1,
                                  sizeof **spots);
                if (status >= 0)
                    (*spots)[(*count)++] = e->facts.record_name;
            } else if (e->facts.expires && (!next_expiry || e->facts.expires < next_expiry)) {
                next_expiry = e->facts.expires;
            }
        }
        if (status >= 0)
            disk->table.next_expiry = next_expiry;
    }
    pthread_mutex_unlock(&disk->guard);
    return status;
}

int pc__disk_was_used_elsewhere(pc__disk *disk, const pc__record_name *record_name, int64_t now)
{
    struct stat st;
    int used = 0;
    if (!pc__disk_stat_record(&disk->root, record_name, &st))
        return 0;
    pthread_mutex_lock(&disk->guard);
    pc__disk_entry *e = pc__disk_table_find(&disk->table, record_name);
    if (e && e->facts.ttl > 0 && pc__date_after(st.st_mtim.tv_sec, e->facts.ttl) > now) {
        e->facts.expires = pc__date_after(st.st_mtim.tv_sec, e->facts.ttl);
        e->facts.last = st.st_mtim.tv_sec;
        if (!disk->table.next_expiry || e->facts.expires < disk->table.next_expiry)
            disk->table.next_expiry = e->facts.expires;
        used = 1;
    }
    pthread_mutex_unlock(&disk->guard);
    return used;
}

pc_status pc__disk_drop_expired(pc__disk *disk)
{
    int64_t now = pc__now_date();
    pc__record_name *spots;
    size_t count;
    pc_status status = list_expired(disk, now, &spots, &count);
    for (size_t i = 0; i < count && status >= 0; i++)
        if (!pc__disk_was_used_elsewhere(disk, &spots[i], now))
            status = pc__disk_erase(disk, &spots[i], PC_EVENT_REMOVE, PC_REASON_EXPIRED, 0);
    if (status < 0) { /* some are still there */
        pthread_mutex_lock(&disk->guard);
        disk->table.next_expiry = now;
        pthread_mutex_unlock(&disk->guard);
    }
    pc__free(&disk->mem, spots);
    return status < 0 ? status : PC_OK;
}

/* --------------------------------------------------------------------- room */

/* PC_MISS: nothing may go. */
static pc_status evict_least(pc__disk *disk, int32_t priority, const pc__id *parent,
                             pc__disk_spare *spare)
{
    pc__disk_entry *saw = NULL, *least;
    pc__record_name record_name;
    pthread_mutex_lock(&disk->guard);
    if (parent) {
        record_name = pc__disk_record_name(disk, parent);
        saw = pc__disk_table_find(&disk->table, &record_name);
    }
    if (saw)
        pc__eviction_hold(&disk->table.eviction, &saw->item);
    least = pc__disk_table_candidate(&disk->table);
    if (least && least->item.priority > priority)
        least = NULL;
    if (least)
        record_name = least->facts.record_name;
    if (saw)
        pc__eviction_unhold(&disk->table.eviction, &saw->item);
    pthread_mutex_unlock(&disk->guard);
    if (!least)
        return PC_MISS;
    pc_status status = erase(disk, &record_name, PC_EVENT_EVICT, PC_REASON_NO_ROOM, 0, spare);
    return status < 0 ? status : PC_OK;
}

/* What others have added and removed. */
static pc_status catch_up(pc__disk *disk)
{
    pc_status status = pc__disk_scan(disk, 0);
    return status < 0 ? status : pc__disk_read_headers(disk);
}

/* What is of no use to anybody, until `need` bytes fit into `limit`; and then what others have
 * done. */
static pc_status tidy(pc__disk *disk, uint64_t need, uint64_t limit, int *scanned)
{
    uint64_t live;
    pc_status status = PC_OK;
    if (!fits(disk, need, limit))
        status = pc__disk_remove_abandoned(disk, &live);
    if (status >= 0 && !fits(disk, need, limit))
        status = pc__disk_drop_expired(disk);
    if (status >= 0 && !fits(disk, need, limit) && disk->generation != disk->lock.generation
        && pc__now() - disk->scanned > SCAN_SECONDS) {
        status = catch_up(disk);
        *scanned = 1;
    }
    return status;
}

pc_status pc__disk_make_room(pc__disk *disk, uint64_t need, int32_t priority, const pc__id *parent,
                             pc__disk_spare *spare)
{
    int scanned = 0;
    uint64_t found = disk->lock.bytes, limit = found > disk->budget ? found : disk->budget;
    pc_status status = need > disk->budget ? PC_MISS : tidy(disk, need, limit, &scanned);
    if (scanned && disk->lock.bytes < found) /* there is less than was thought */
        limit = disk->lock.bytes > disk->budget ? disk->lock.bytes : disk->budget;
    while (status == PC_OK && !fits(disk, need, limit)) {
        status = evict_least(disk, priority, parent, spare);
        if (status == PC_MISS && !scanned) {
            status = catch_up(disk);
            scanned = 1;
        }
    }
    return status;
}

/* until 0: however long it takes. */
static pc_status shrink(pc__disk *disk, double until)
{
    int scanned = 0;
    pc_status status = tidy(disk, 0, disk->budget, &scanned);
    while (status == PC_OK && !fits(disk, 0, disk->budget)) {
        if (until > 0 && pc__now() >= until)
            return PC_AGAIN;
        status = evict_least(disk, INT32_MAX, NULL, NULL);
        if (status == PC_MISS && !scanned) {
            status = catch_up(disk);
            scanned = 1;
        }
    }
    return status;
}

pc_status pc__disk_shrink_until(pc__disk *disk, double until)
{
    uint64_t parent, after;
    pc_status status;
    pthread_mutex_lock(&disk->guard);
    parent = disk->counts.evicted;
    pthread_mutex_unlock(&disk->guard);
    status = shrink(disk, until);
    pthread_mutex_lock(&disk->guard);
    after = disk->counts.evicted;
    disk->counts.evicted_behind += after - parent;
    pthread_mutex_unlock(&disk->guard);
    return status;
}

uint64_t pc__disk_bytes_over_budget(pc__disk *disk)
{
    uint64_t bytes;
    pthread_mutex_lock(&disk->guard);
    bytes = pc__disk_table_bytes(&disk->table) + disk->staging;
    pthread_mutex_unlock(&disk->guard);
    return disk->read_only || bytes <= disk->budget ? 0 : bytes - disk->budget;
}

pc_status pc__disk_shrink(pc__disk *disk, double until)
{
    double now = pc__now();
    pc_status status = pc__disk_enter(disk, until);
    if (status != PC_OK)
        return status;
    status = pc__disk_shrink_until(disk, until < now + BATCH_SECONDS ? until : now + BATCH_SECONDS);
    pc__disk_leave(disk);
    return status;
}
