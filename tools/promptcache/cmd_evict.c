/* evict: removes records of a folder, by size, key, date or seal. */
#include <string.h>
#include <time.h>

#include "cmd.h"
#include "record_rows.h"
#include "store_options.h"

typedef struct arguments {
    const char *to;
    const char *seal_key_file;
    file_list keys;
    int expired, other_keys, all, json;
} arguments;

typedef struct totals {
    uint64_t removed, freed;
} totals;

static int remove_one(const folder_view *view, size_t index, totals *sum)
{
    pc_record_info info = PC_RECORD_INFO_INIT;
    pc_folder_get(view->folder, index, &info);
    pc_status status = pc_folder_remove(view->folder, index);
    if (status == PC_ERR_NOT_FOUND) /* another process has removed it */
        return -1;
    if (status < 0)
        return input_error("evict", NULL);
    sum->removed++;
    sum->freed += info.file_bytes;
    return -1;
}

static int remove_named(const arguments *a, const folder_view *view, totals *sum)
{
    int code = -1;
    for (size_t i = 0; i < a->keys.count && code < 0; i++) {
        size_t index;
        code = find_record(view, &evict_command, a->keys.items[i], &index);
        if (code < 0)
            code = remove_one(view, index, sum);
    }
    return code;
}

static int has_expired(const pc_record_info *info)
{
    return info->expires && info->expires <= (int64_t)time(NULL);
}

/* Of a record that the given key opens, the model is known. */
static int has_other_key(const pc_record_info *info)
{
    return info->sealed && !info->opened && memcmp(info->model, (uint8_t[32]){0}, 32) == 0;
}

static int remove_each(const folder_view *view, int (*goes)(const pc_record_info *info),
                       totals *sum)
{
    int code = -1;
    for (size_t i = 0; i < pc_folder_count(view->folder) && code < 0; i++) {
        pc_record_info info = PC_RECORD_INFO_INIT;
        if (pc_folder_get(view->folder, i, &info) >= 0 && goes(&info))
            code = remove_one(view, i, sum);
    }
    return code;
}

static int evict(const arguments *a, const folder_view *view, uint64_t to)
{
    totals sum = {0, 0};
    int code = -1;
    if (a->keys.count)
        code = remove_named(a, view, &sum);
    else if (a->expired || a->other_keys)
        code = remove_each(view, a->expired ? has_expired : has_other_key, &sum);
    else if (pc_folder_trim(view->folder, to, &sum.removed, &sum.freed) < 0)
        code = input_error("evict", NULL);
    if (code >= 0)
        return code;
    if (a->json)
        print_json(json_pack("{s:I,s:I}", "removed", (json_int_t)sum.removed, "freed_bytes",
                             (json_int_t)sum.freed));
    else
        printf("%llu removed, %llu bytes freed\n", (unsigned long long)sum.removed,
               (unsigned long long)sum.freed);
    return EXIT_OK;
}

static int run(int argc, char **argv)
{
    arguments a = {0};
    const char *others[1];
    folder_view view;
    size_t count;
    uint64_t to = 0;
    int code;
    const option_row rows[] = {
        {"to", OPTION_TEXT, &a.to,
         "removes the lowest eviction scores until this size is left, as in 500M or 16G", NULL, 0,
         0},
        {"key", OPTION_FILES, &a.keys, "removes this record: its key, or its file", NULL, 0, 0},
        {"expired", OPTION_FLAG, &a.expired, "removes expired records", NULL, 0, 0},
        {"other-keys", OPTION_FLAG, &a.other_keys,
         "removes records sealed with another key than --seal-key-file", NULL, 0, 0},
        SEAL_KEY_ROW(&a.seal_key_file),
        {"all", OPTION_FLAG, &a.all, "removes everything", NULL, 0, 0},
        {"json", OPTION_FLAG, &a.json, "one JSON object", NULL, 0, 0},
    };
    code = read_options(&evict_command, argc, argv, rows, sizeof rows / sizeof *rows, others, 1,
                        &count);
    if (code >= 0)
        return code;
    if (!count)
        return usage_error(&evict_command, "a folder is needed");
    if ((a.to != NULL) + (a.keys.count > 0) + a.expired + a.other_keys + a.all != 1)
        return usage_error(&evict_command,
                           "one of --to, --key, --expired, --other-keys and --all is needed");
    if (a.other_keys && !a.seal_key_file)
        return usage_error(&evict_command,
                           "--other-keys needs --seal-key-file, the key whose records stay");
    if (a.to && strcmp(a.to, "0") && (code = read_size(&evict_command, "to", a.to, &to)) >= 0)
        return code;
    if ((code = open_view(&view, others[0], a.seal_key_file)) >= 0)
        return code;
    code = evict(&a, &view, to);
    close_view(&view);
    return code;
}

const command evict_command = {
    .name = "evict",
    .usage = "evict DIR --to SIZE | --key KEY | --expired | --other-keys | --all [--json]",
    .summary = "removes records of a folder",
    .run = run};
