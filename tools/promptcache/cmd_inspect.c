/* inspect: lists the records of a folder, or shows one record in full. */
#include <stdlib.h>

#include "cmd.h"
#include "record_rows.h"

typedef struct arguments {
    const char *folder, *record, *seal_key_file;
    int json, tokens;
} arguments;

/* The ids of a record; NULL after a message. */
static int32_t *read_tokens(const folder_view *view, size_t index, size_t *count)
{
    int32_t *ids;
    if (pc_folder_tokens(view->folder, index, NULL, 0, count) < 0) {
        input_error("tokens", NULL);
        return NULL;
    }
    ids = malloc((*count + 1) * sizeof *ids);
    if (!ids)
        plain_error("out of memory");
    else if (pc_folder_tokens(view->folder, index, ids, *count, count) < 0) {
        input_error("tokens", NULL);
        free(ids);
        ids = NULL;
    }
    return ids;
}

static int show_one(const arguments *a, const folder_view *view, size_t index)
{
    pc_record_info info = PC_RECORD_INFO_INIT;
    pc_status status = pc_folder_get(view->folder, index, &info);
    size_t count = 0;
    int code = status < 0 ? EXIT_CHECK : EXIT_OK;
    json_t *row = a->json ? record_json(&info, status) : NULL;
    int32_t *ids = NULL;
    if (status < 0 && !a->json)
        input_error("record", NULL);
    else if (!a->json)
        print_record(view, &info);
    if (a->tokens && status >= 0 && !(ids = read_tokens(view, index, &count)))
        code = EXIT_INPUT;
    if (ids && a->json) {
        json_t *list = json_array();
        for (size_t i = 0; i < count; i++)
            json_array_append_new(list, json_integer(ids[i]));
        json_object_set_new(row, "token_ids", list);
    } else if (ids) {
        printf("token ids    ");
        for (size_t i = 0; i < count; i++)
            printf(" %d", (int)ids[i]);
        putchar('\n');
    }
    free(ids);
    if (row)
        print_json(row);
    return code;
}

static int list_all(const arguments *a, const folder_view *view)
{
    size_t count = pc_folder_count(view->folder), damaged = 0;
    unsigned long long bytes = 0, tokens = 0;
    if (!a->json && !a->tokens)
        print_record_head();
    for (size_t i = 0; i < count && !is_interrupted(NULL); i++) {
        pc_record_info info = PC_RECORD_INFO_INIT;
        pc_status status = pc_folder_get(view->folder, i, &info);
        bytes += info.file_bytes;
        tokens += status >= 0 ? info.tokens : 0;
        damaged += status < 0;
        if (a->tokens) {
            int code = show_one(a, view, i);
            if (code == EXIT_INPUT)
                return code;
        } else if (a->json) {
            print_json(record_json(&info, status));
        } else {
            print_record_row(view, &info, status);
        }
    }
    if (!a->json && !a->tokens)
        printf("%zu records, %llu tokens, %llu bytes%s\n", count, tokens, bytes,
               damaged ? "; `promptcache verify` lists the damaged ones" : "");
    return damaged ? EXIT_CHECK : EXIT_OK;
}

static int run(int argc, char **argv)
{
    arguments a = {0};
    const char *others[2];
    folder_view view;
    size_t count, index;
    int code;
    const option_row rows[] = {
        {"tokens", OPTION_FLAG, &a.tokens, "also prints the token ids", NULL, 0, 0},
        SEAL_KEY_ROW(&a.seal_key_file),
        {"json", OPTION_FLAG, &a.json, "one JSON object a record", NULL, 0, 0},
    };
    code = read_options(&inspect_command, argc, argv, rows, sizeof rows / sizeof *rows, others, 2,
                        &count);
    if (code >= 0)
        return code;
    if (!count)
        return usage_error(&inspect_command, "a folder is needed");
    watch_interrupt();
    if ((code = open_view(&view, others[0], a.seal_key_file)) >= 0)
        return code;
    if (count == 1)
        code = list_all(&a, &view);
    else if ((code = find_record(&view, &inspect_command, others[1], &index)) < 0)
        code = show_one(&a, &view, index);
    close_view(&view);
    return code;
}

const command inspect_command = {.name = "inspect",
                                 .usage = "inspect DIR [KEY] [--tokens] [--json] [options]",
                                 .summary = "lists the records of a folder, or shows one in full",
                                 .run = run};
