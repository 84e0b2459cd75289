/* pc_folder: lists, checks and removes the records of a folder, without a model. Reading takes no
 * lock. Records are removed as the tier removes them (store/disk/disk_room.h). */
#include <promptcache/cache.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/context.h"
#include "base/options.h"
#include "store/disk/disk_room.h"
#include "store/disk/disk_scan.h"
#include "store/disk/disk_source.h"

#define REMOVE_SECONDS 10.0 /* seconds that a removal waits for other processes */

typedef struct folder_item {
    pc__record_name record_name;
    uint64_t bytes;
    pc_status status; /* of its header */
    pc_record_info info;
} folder_item;

struct pc_folder {
    size_t references; /* the caller's, and one of each call that runs */
    pid_t process;     /* that has opened it */
    pc_allocator mem;
    pc_context *context;
    pc__codecs *codecs;
    uint8_t seal_key[32];
    pc__record_options record;
    pc__dir root;
    folder_item *items; /* [count] by name, then by variant */
    size_t count;
    pc__disk disk; /* open for removals if has_disk */
    int has_disk;
};

static void ref_folder(pc_folder *folder)
{
    folder->references++;
}

PC__HOLDABLE(pc_folder, ref_folder, pc_folder_free)

/* ------------------------------------------------------------------ reading */

/* Puts the record's path before the error text, as pc__fail_in. */
static pc_status fail_at(pc_status status, const pc_folder *folder,
                         const pc__record_name *record_name)
{
    char name[PC__DISK_NAME];
    pc__disk_file_name(record_name, name);
    return pc__fail_in(status, "%s/%.2s/%s", folder->root.path, name, name);
}

static pc_status is_gone(const pc_folder *folder, const pc__record_name *record_name)
{
    char name[PC__DISK_NAME];
    pc__disk_file_name(record_name, name);
    return pc__fail(PC_ERR_NOT_FOUND, "%s: record %s was removed", folder->root.path, name);
}

/* Opens the record as it is now. On success the caller closes *source. */
static pc_status open_item(pc_folder *folder, const pc__record_name *record_name,
                           pc__record **record, pc__source **source, uint64_t *bytes)
{
    struct stat st;
    int fd;
    pc_status status = pc__disk_open_record(&folder->root, record_name, &fd, &st);
    *record = NULL;
    *source = NULL;
    if (status == PC_MISS)
        return is_gone(folder, record_name);
    if (status < 0)
        return status;
    *bytes = (uint64_t)st.st_size;
    PC__TRY_RETURN(
        pc__disk_source_new(source, &folder->mem, &folder->root, record_name, fd, *bytes, 0, NULL));
    status = pc__record_open_frame(record, &folder->mem, &folder->record, *source);
    if (status >= 0 && !pc__record_name_matches(record_name, *record))
        status = pc__fail(PC_ERR_FORMAT,
                          pc__id_equal(&pc__record_shown(*record)->key, &record_name->key)
                              ? "its name says another seal than it has"
                              : "it holds the record of another key");
    if (status >= 0)
        return PC_OK;
    pc__record_free(*record);
    (*source)->close(*source);
    return fail_at(status, folder, record_name);
}

static pc_status read_item(pc_folder *folder, folder_item *it)
{
    pc__record *record;
    pc__source *source;
    struct stat st;
    pc_status status = open_item(folder, &it->record_name, &record, &source, &it->bytes);
    it->info = (pc_record_info){.struct_size = sizeof it->info};
    if (status >= 0) {
        const pc__image *image = pc__record_image(record);
        int there = pc__disk_stat_record(&folder->root, &it->record_name, &st);
        pc__record_describe(record, &it->info);
        it->info.expires = pc__end_after_use(image->expires, image->ttl,
                                             there ? st.st_mtim.tv_sec : 0);
        pc__record_free(record);
        source->close(source);
    }
    memcpy(it->info.name, it->record_name.key.bytes, sizeof it->info.name);
    if (status < 0)
        memcpy(it->info.key, it->info.name, sizeof it->info.key);
    memcpy(it->info.variant, it->record_name.variant, sizeof it->info.variant);
    it->info.file_bytes = it->bytes;
    it->status = status;
    return status == PC_ERR_NOMEM ? status : PC_OK;
}

static int by_record_name(const void *a, const void *b)
{
    const pc__record_name *p = &((const folder_item *)a)->record_name,
                          *q = &((const folder_item *)b)->record_name;
    int order = memcmp(p->key.bytes, q->key.bytes, 32);
    return order ? order : strcmp(p->variant, q->variant);
}

static pc__tier_common folder_tier_options(const pc_folder *folder, int read_only)
{
    return (pc__tier_common){.mem = &folder->mem,
                             .context = folder->context,
                             .record = folder->record,
                             .budget = UINT64_MAX,
                             .read_only = (uint32_t)read_only};
}

/* Lists the names by index and folder, then reads each header. */
static pc_status list_items(pc_folder *folder, const char *path)
{
    pc__tier_common common = folder_tier_options(folder, 1);
    pc_status status = PC_OK;
    size_t count;
    PC__TRY_RETURN(pc__disk_open(&folder->disk, &common, path, 0));
    count = folder->disk.table.eviction.items.count;
    folder->items = pc__calloc(&folder->mem, count, sizeof *folder->items);
    if (!folder->items)
        status = PC_ERR_NOMEM;
    for (pc__disk_entry *e = pc__disk_table_next(&folder->disk.table, NULL); e && status >= 0;
         e = pc__disk_table_next(&folder->disk.table, e)) {
        folder_item *it = &folder->items[folder->count];
        it->record_name = e->facts.record_name;
        it->bytes = e->facts.bytes;
        status = read_item(folder, it);
        if (status >= 0 && it->status != PC_ERR_NOT_FOUND)
            folder->count++;
    }
    pc__disk_close(&folder->disk);
    if (folder->count)
        qsort(folder->items, folder->count, sizeof *folder->items, by_record_name);
    return status;
}

pc_status pc_folder_open(pc_folder **out, pc_context *context, const char *path,
                         const pc_folder_options *options)
{
    PC__HOLD(pc_context, context);
    pc_folder_options o;
    pc_folder *folder;
    pc_status status;
    if (!out)
        return pc__fail(PC_ERR_INVALID, "pc_folder_open: out is NULL");
    *out = NULL;
    if (!context || !path)
        return pc__fail(PC_ERR_INVALID, "pc_folder_open: context or path is NULL");
    PC__TRY_RETURN(pc__options_read(&o, sizeof o, PC__V1_SIZE(pc_folder_options, flags), options,
                                    "pc_folder_options"));
    PC__TRY_RETURN(pc__check_flags("pc_folder_options", o.flags, 0));
    folder = pc__calloc(&context->mem, 1, sizeof *folder);
    if (!folder)
        return PC_ERR_NOMEM;
    folder->references = 1;
    folder->mem = context->mem;
    folder->process = pc__process();
    folder->context = pc__context_ref(context);
    folder->root.fd = -1;
    PC__TRY(pc__codecs_new(&folder->codecs, &folder->mem, NULL, 0), fail);
    folder->record.codecs = folder->codecs;
    if (o.seal_key) {
        memcpy(folder->seal_key, o.seal_key, sizeof folder->seal_key);
        folder->record.seal_key = folder->seal_key;
    }
    PC__TRY(pc__disk_root_open(&folder->root, &folder->mem, path, 0), fail);
    PC__TRY(list_items(folder, path), fail);
    *out = folder;
    return PC_OK;
fail:
    pc_folder_free(folder);
    return status;
}

void pc_folder_free(pc_folder *folder)
{
    pc_allocator mem;
    pc_context *context;
    if (!folder || --folder->references)
        return;
    mem = folder->mem;
    context = folder->context;
    if (folder->has_disk)
        pc__disk_close(&folder->disk);
    pc__dir_close(&folder->root, &mem);
    pc__codecs_free(folder->codecs);
    pc__free(&mem, folder->items);
    explicit_bzero(folder->seal_key, sizeof folder->seal_key);
    pc__free(&mem, folder);
    pc__context_unref(context);
}

size_t pc_folder_count(const pc_folder *folder)
{
    return folder ? folder->count : 0;
}

static pc_status check_index(const pc_folder *folder, size_t index, const char *call)
{
    if (!folder)
        return pc__fail(PC_ERR_INVALID, "%s: folder is NULL", call);
    PC__TRY_RETURN(pc__check_process(folder->process, call, "the folder"));
    if (index >= folder->count)
        return pc__fail(PC_ERR_NOT_FOUND, "%s: record %zu of %zu", call, index, folder->count);
    return PC_OK;
}

pc_status pc_folder_get(const pc_folder *folder, size_t index, pc_record_info *info)
{
    PC__HOLD(pc_folder, folder);
    const folder_item *it;
    pc_status status;
    PC__TRY_RETURN(check_index(folder, index, "pc_folder_get"));
    it = &folder->items[index];
    status = pc__result_write(info, PC__V1_SIZE(pc_record_info, name), &it->info, sizeof it->info,
                              "pc_record_info");
    if (status < 0 || it->status >= 0)
        return status;
    pc__fail(it->status, "%s",
             it->status == PC_ERR_FORMAT ? "its header is damaged, or does not match its name"
             : it->status == PC_ERR_UNSUPPORTED ? "of a later version of the format"
                                                : "cannot be read");
    return fail_at(it->status, folder, &it->record_name);
}

pc_status pc_folder_tokens(pc_folder *folder, size_t index, int32_t *tokens, size_t capacity,
                           size_t *count)
{
    PC__HOLD(pc_folder, folder);
    pc__record *record;
    pc__source *source;
    uint64_t bytes;
    pc_status status = PC_OK;
    PC__TRY_RETURN(check_index(folder, index, "pc_folder_tokens"));
    if (!count || (capacity && !tokens))
        return pc__fail(PC_ERR_INVALID, "pc_folder_tokens: %s is NULL", count ? "tokens" : "count");
    *count = (size_t)folder->items[index].info.tokens;
    PC__TRY_RETURN(open_item(folder, &folder->items[index].record_name, &record, &source, &bytes));
    const pc__image *image = pc__record_image(record);
    *count = image->tokens;
    if (!image->token_ids && image->tokens)
        status = pc__fail(PC_ERR_UNSUPPORTED, "%s: the record is sealed, and its key was not given",
                          folder->root.path);
    else if (capacity && image->tokens)
        memcpy(tokens, image->token_ids,
               (capacity < image->tokens ? capacity : image->tokens) * sizeof *tokens);
    if (status >= 0 && capacity && capacity < image->tokens)
        status = pc__fail(PC_ERR_LIMIT, "pc_folder_tokens: %zu tokens, there is room for %zu",
                          image->tokens, capacity);
    pc__record_free(record);
    source->close(source);
    return status;
}

pc_status pc_folder_verify(pc_folder *folder, size_t index)
{
    PC__HOLD(pc_folder, folder);
    pc__record *record;
    pc__source *source;
    uint64_t bytes;
    pc_status status;
    PC__TRY_RETURN(check_index(folder, index, "pc_folder_verify"));
    PC__TRY_RETURN(open_item(folder, &folder->items[index].record_name, &record, &source, &bytes));
    status = pc__record_verify(record);
    pc__record_free(record);
    source->close(source);
    return status < 0 ? fail_at(status, folder, &folder->items[index].record_name) : PC_OK;
}

/* ----------------------------------------------------------------- removing */

/* The path may be relative, or lead to another folder by now. */
static int is_same_folder(const pc_folder *folder)
{
    struct stat ours, there;
    return !fstat(folder->root.fd, &ours) && !fstat(folder->disk.root.fd, &there)
           && ours.st_ino == there.st_ino && ours.st_dev == there.st_dev;
}

static pc_status open_for_removal(pc_folder *folder)
{
    pc_status status;
    if (!folder->has_disk) {
        pc__tier_common common = folder_tier_options(folder, 0);
        PC__TRY_RETURN(pc__disk_open(&folder->disk, &common, folder->root.path, 0));
        if (!is_same_folder(folder)) {
            pc__disk_close(&folder->disk);
            return pc__fail(PC_ERR_STATE, "%s: is another folder than the one that was opened",
                            folder->root.path);
        }
        folder->has_disk = 1;
    }
    status = pc__disk_enter(&folder->disk, pc__now() + REMOVE_SECONDS);
    return status == PC_AGAIN ? PC_ERR_IO : status;
}

pc_status pc_folder_remove(pc_folder *folder, size_t index)
{
    PC__HOLD(pc_folder, folder);
    const pc__record_name *record_name;
    pc_status status;
    PC__TRY_RETURN(check_index(folder, index, "pc_folder_remove"));
    PC__TRY_RETURN(open_for_removal(folder));
    record_name = &folder->items[index].record_name;
    status = pc__disk_erase(&folder->disk, record_name, PC_EVENT_REMOVE, PC_REASON_NONE, 0);
    pc__disk_leave(&folder->disk);
    if (status != PC_MISS)
        return status;
    return is_gone(folder, record_name);
}

static void add_up(void *user, const pc_event *event)
{
    uint64_t *sums = user;
    sums[0]++;
    sums[1] += event->bytes;
}

pc_status pc_folder_trim(pc_folder *folder, uint64_t bytes, uint64_t *removed, uint64_t *freed)
{
    PC__HOLD(pc_folder, folder);
    uint64_t sums[2] = {0, 0};
    pc__disk *disk;
    pc_status status;
    if (removed)
        *removed = 0;
    if (freed)
        *freed = 0;
    if (!folder)
        return pc__fail(PC_ERR_INVALID, "pc_folder_trim: folder is NULL");
    PC__TRY_RETURN(pc__check_process(folder->process, "pc_folder_trim", "the folder"));
    PC__TRY_RETURN(open_for_removal(folder));
    disk = &folder->disk;
    disk->budget = bytes;
    disk->callbacks = (pc__tier_callbacks){add_up, NULL, sums};
    status = pc__disk_rescan(disk);
    if (status >= 0)
        status = pc__disk_drop_expired(disk);
    if (status >= 0)
        status = pc__disk_shrink_until(disk, 0); /* PC_MISS: the rest is being written */
    sums[0] += disk->reclaimed;
    sums[1] += disk->reclaimed_bytes;
    disk->reclaimed = disk->reclaimed_bytes = 0;
    pc__disk_leave(disk);
    disk->callbacks = (pc__tier_callbacks){0};
    disk->budget = UINT64_MAX;
    if (removed)
        *removed = sums[0];
    if (freed)
        *freed = sums[1];
    return status < 0 ? status : PC_OK;
}
