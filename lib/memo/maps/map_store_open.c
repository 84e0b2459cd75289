/* Opening a folder of maps: reads the log, finds out which records are there, and cuts off what a
 * killed writer left unfinished. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fail.h"
#include "base/file.h"
#include "memo/maps/map_store_internal.h"

typedef struct log_row { /* an entry of the log */
    int64_t id;
    uint64_t index;
} log_row;

typedef struct opening {
    pc__map_store *store;
    uint8_t *log;
    size_t size;
    uint64_t data_bytes;
    pc__map_log_mark mark;
    log_row *rows;        /* [count] by id, then index */
    size_t count, bad;    /* bad: records that are lost */
    pc__map_item **items; /* [item_count] by offset */
    size_t item_count;
} opening;

/* ------------------------------------------------------------------- files */

static pc_status make_store(pc__map_store *store)
{
    pc__map_log_header header = {.signature = store->options.signature, .generation = 1};
    uint8_t raw[PC__MAPS_LOG_HEADER], data[PC__MAPS_DATA_HEADER];
    struct stat st;
    int fd, error = 0;
    PC__TRY_RETURN(pc__dir_file(&store->dir, PC__MAPS_DATA, O_RDWR | O_CREAT, &fd, &st));
    if (st.st_size > PC__MAPS_PAGE) {
        close(fd);
        return pc__fail(PC_ERR_FORMAT, "%s/%s: it has data, but there is no log", store->dir.path,
                        PC__MAPS_DATA);
    }
    if (getrandom(header.nonce, sizeof header.nonce, 0) != (ssize_t)sizeof header.nonce)
        error = errno;
    pc__map_data_header_put(header.nonce, data);
    if (!error)
        error = pc__write_at(fd, data, sizeof data, 0);
    if (!error && fsync(fd))
        error = errno;
    if (close(fd) && !error)
        error = errno;
    if (error) {
        errno = error;
        return pc__dir_fault(&store->dir, PC__MAPS_DATA);
    }
    pc__map_log_header_put(&header, raw);
    return pc__dir_publish(&store->dir, PC__MAPS_LOG_NEW, PC__MAPS_LOG, raw, sizeof raw, 1);
}

/* Read before the log, because a writer adds to the log first. */
static void read_mark(opening *o)
{
    uint8_t raw[PC__MAPS_MARK];
    struct stat st;
    int fd;
    if (pc__dir_file(&o->store->dir, PC__MAPS_DATA, O_RDONLY, &fd, &st) < 0)
        return; /* no file yet, or check_files reports the error */
    if (pc__read_at(fd, raw, sizeof raw, PC__MAPS_MARK_AT) != sizeof raw
        || !pc__map_log_mark_get(raw, &o->mark))
        o->mark = (pc__map_log_mark){0};
    close(fd);
}

static pc_status read_log(opening *o)
{
    pc__map_store *store = o->store;
    struct stat st;
    int flags = store->options.read_only ? O_RDONLY : O_RDWR;
    pc_status status = pc__dir_file(&store->dir, PC__MAPS_LOG, flags, &store->log.fd, &st);
    if (status == PC_ERR_NOT_FOUND && store->options.create
        && (status = make_store(store)) == PC_OK)
        status = pc__dir_file(&store->dir, PC__MAPS_LOG, flags, &store->log.fd, &st);
    if (status < 0)
        return status;
    o->size = (size_t)st.st_size;
    return pc__dir_read_at(&store->dir, &store->mem, PC__MAPS_LOG, store->log.fd, 0, &o->log,
                           &o->size);
}

static pc_status check_files(opening *o)
{
    pc__map_store *store = o->store;
    pc__map_log_header header;
    uint8_t raw[PC__MAPS_DATA_HEADER];
    char where[600];
    struct stat st;
    int64_t got;
    snprintf(where, sizeof where, "%.500s/%s", store->dir.path, PC__MAPS_LOG);
    PC__TRY_RETURN(pc__map_log_header_get(o->log, o->size, where, &header));
    PC__TRY_RETURN(pc__map_signature_check(&header.signature, &store->options.signature, where));
    memcpy(store->data.nonce, header.nonce, sizeof header.nonce);
    store->next_id = header.next_id;
    store->generation = header.generation;
    PC__TRY_RETURN(pc__dir_file(&store->dir, PC__MAPS_DATA,
                                store->options.read_only ? O_RDONLY : O_RDWR, &store->data.fd,
                                &st));
    got = pc__read_at(store->data.fd, raw, sizeof raw, 0);
    if (got < 0)
        return pc__dir_fault(&store->dir, PC__MAPS_DATA);
    o->data_bytes = (uint64_t)st.st_size;
    snprintf(where, sizeof where, "%.500s/%s", store->dir.path, PC__MAPS_DATA);
    return pc__map_data_header_get(raw, (size_t)got, store->data.nonce, where);
}

/* --------------------------------------------------------------- what the log says */

static const uint8_t *entry_at(const opening *o, uint64_t index)
{
    return o->log + PC__MAPS_LOG_HEADER + index * PC__MAPS_ENTRY;
}

static int by_id(const void *a, const void *b)
{
    const log_row *x = a, *y = b;
    return x->id != y->id ? (x->id > y->id) - (x->id < y->id)
                          : (x->index > y->index) - (x->index < y->index);
}

/* Never written to: the file was made longer when the machine crashed. */
static int is_blank_entry(const uint8_t *entry)
{
    static const uint8_t zeros[PC__MAPS_ENTRY];
    return !memcmp(entry, zeros, sizeof zeros);
}

/* A damaged entry counts as a lost record, and so does one that was cut off. An incomplete entry at
 * the end, which the mark does not count, was never reported as stored. */
static pc_status read_log_entries(opening *o)
{
    pc__map_store *store = o->store;
    size_t entries = (o->size - PC__MAPS_LOG_HEADER) / PC__MAPS_ENTRY, last = 0, seen = entries;
    int is_sorted = 1;
    o->rows = pc__alloc(&store->mem, (entries + 1) * sizeof *o->rows);
    if (!o->rows)
        return PC_ERR_NOMEM;
    for (size_t i = 0; i < entries; i++) {
        pc__map_log_entry e;
        if (!pc__map_log_entry_get(entry_at(o, i), &store->options.signature, &e))
            continue;
        last = i + 1;
        is_sorted &= !o->count || o->rows[o->count - 1].id <= e.id;
        o->rows[o->count++] = (log_row){e.id, i};
        store->next_id = e.id >= store->next_id ? e.id + 1 : store->next_id;
        store->table.clock = e.clock > store->table.clock ? e.clock : store->table.clock;
    }
    while (seen > last && is_blank_entry(entry_at(o, seen - 1)))
        seen--;
    o->bad = seen - o->count;
    if (o->mark.generation == store->generation && o->mark.entries > seen)
        o->bad += (size_t)o->mark.entries - seen; /* cut off */
    store->log.end = PC__MAPS_LOG_HEADER + last * PC__MAPS_ENTRY;
    store->log.entries = last;
    pc__map_data_count_log(&store->data, store->log.end);
    if (!is_sorted)
        qsort(o->rows, o->count, sizeof *o->rows, by_id);
    return PC_OK;
}

static pc__map_item *new_item(const opening *o, uint64_t index, int64_t date, double now)
{
    pc__map_item *item = pc__calloc(&o->store->mem, 1, sizeof *item);
    if (!item)
        return NULL;
    pc__map_log_entry_get(entry_at(o, index), &o->store->options.signature, &item->entry);
    item->log_index = index;
    item->last = now - (item->entry.used < date ? (double)(date - item->entry.used) : 0);
    return item;
}

static pc_status make_items(opening *o)
{
    int64_t date = pc__now_date();
    double now = pc__now();
    o->items = pc__alloc(&o->store->mem, (o->count + 1) * sizeof(pc__map_item *));
    if (!o->items)
        return PC_ERR_NOMEM;
    for (size_t i = 0; i < o->count; i++) {
        pc__map_item *item;
        if (i + 1 < o->count && o->rows[i + 1].id == o->rows[i].id)
            continue;
        item = new_item(o, o->rows[i].index, date, now);
        if (!item)
            return PC_ERR_NOMEM;
        if (item->entry.kind == PC__MAPS_STORED)
            o->items[o->item_count++] = item;
        else
            pc__free(&o->store->mem, item);
    }
    return PC_OK;
}

static int by_offset(const void *a, const void *b)
{
    const pc__map_item *x = *(pc__map_item *const *)a, *y = *(pc__map_item *const *)b;
    return x->entry.at != y->entry.at
               ? (x->entry.at > y->entry.at) - (x->entry.at < y->entry.at)
               : (x->log_index > y->log_index) - (x->log_index < y->log_index);
}

static int by_item_id(const void *a, const void *b)
{
    const pc__map_item *x = *(pc__map_item *const *)a, *y = *(pc__map_item *const *)b;
    return (x->entry.id > y->entry.id) - (x->entry.id < y->entry.id);
}

/* Drops records that end beyond the file, and of two that overlap the older one: the entry that
 * removed it was lost. */
static void drop_impossible(opening *o)
{
    size_t kept = 0;
    qsort(o->items, o->item_count, sizeof *o->items, by_offset);
    for (size_t i = 0; i < o->item_count; i++) {
        pc__map_item *item = o->items[i], *before = kept ? o->items[kept - 1] : NULL;
        int overlaps = before && before->entry.at + pc__map_extent(&before->entry) > item->entry.at;
        if (item->entry.at + item->entry.bytes > o->data_bytes
            || (overlaps && before->log_index > item->log_index)) {
            pc__free(&o->store->mem, item);
            o->bad++;
            continue;
        }
        if (overlaps) {
            pc__free(&o->store->mem, before);
            o->bad++;
            kept--;
        }
        o->items[kept++] = item;
    }
    o->item_count = kept;
}

static pc_status enter_items(opening *o)
{
    pc__map_store *store = o->store;
    for (size_t i = 0; i < o->item_count; i++)
        PC__TRY_RETURN(pc__map_data_claim(&store->data, &o->items[i]->entry));
    PC__TRY_RETURN(pc__map_table_reserve(&store->table, o->item_count));
    qsort(o->items, o->item_count, sizeof *o->items, by_item_id);
    for (size_t i = 0; i < o->item_count; i++)
        (void)pc__map_table_put(&store->table, o->items[i]); /* replaces none */
    store->counts.stored = o->item_count + o->bad;
    store->counts.damaged = o->bad;
    o->item_count = 0; /* the table owns them */
    return PC_OK;
}

static pc_status open_files(opening *o)
{
    pc__map_store *store = o->store;
    uint64_t end;
    read_mark(o);
    PC__TRY_RETURN(read_log(o));
    PC__TRY_RETURN(check_files(o));
    PC__TRY_RETURN(read_log_entries(o));
    PC__TRY_RETURN(make_items(o));
    drop_impossible(o);
    PC__TRY_RETURN(enter_items(o));
    end = store->options.read_only ? o->data_bytes : store->data.space.end;
    PC__TRY_RETURN(pc__map_data_cover(&store->data, end, !store->options.read_only));
    if (store->options.read_only)
        return PC_OK;
    store->log.is_suspect = o->bad
                            || (o->size != store->log.end
                                && ftruncate(store->log.fd, (off_t)store->log.end));
    pc__map_data_truncate(&store->data);
    return PC_OK;
}

/* ------------------------------------------------------------------------- opening */

static pc_status check_store_options(const char *folder, const pc__map_store_options *options)
{
    const pc__map_signature *signature = &options->signature;
    if (options->create && options->read_only)
        return pc__fail(PC_ERR_INVALID, "%s: a new store cannot be opened read-only", folder);
    if (!pc__map_signature_valid(signature))
        return pc__fail(PC_ERR_INVALID,
                        "%s: %d layers, %d heads, causal %d or map format %u is not valid", folder,
                        (int)signature->layers, (int)signature->heads, (int)signature->causal,
                        (unsigned)signature->format);
    return PC_OK;
}

pc_status pc__map_store_open(pc__map_store **out, const pc_allocator *mem, const char *folder,
                             const pc__map_store_options *options)
{
    opening o = {0};
    pc__map_store *store;
    pc_status status;
    *out = NULL;
    PC__TRY_RETURN(check_store_options(folder, options));
    store = pc__calloc(mem, 1, sizeof *store);
    if (!store)
        return PC_ERR_NOMEM;
    store->mem = *mem;
    store->options = *options;
    store->process = pc__process();
    store->dir.fd = store->lock_fd = store->log.fd = -1;
    pc__map_data_init(&store->data, &store->mem, &store->dir, options->budget_bytes);
    store->table.mem = &store->mem;
    store->table.never_evicts = options->read_only;
    pthread_mutex_init(&store->work, NULL);
    pthread_mutex_init(&store->guard, NULL);
    o.store = store;
    status = pc__dir_open(&store->dir, mem, folder, options->create);
    if (status == PC_OK && !options->read_only)
        status = pc__dir_lock(&store->dir, PC__MAPS_LOCK, 0, &store->lock_fd);
    if (status == PC_OK)
        status = open_files(&o);
    for (size_t i = 0; i < o.item_count; i++)
        pc__free(mem, o.items[i]);
    pc__free(mem, o.items);
    pc__free(mem, o.rows);
    pc__free(mem, o.log);
    store->is_open = status == PC_OK;
    if (store->is_open)
        *out = store;
    else
        pc__map_store_free(store);
    return status;
}
