/* verify: reads records in full and checks everything that the given key can open. */
#include <string.h>

#include "cmd.h"
#include "record_rows.h"

typedef struct arguments {
    const char *seal_key_file, *record;
    int json, quiet, frame;
} arguments;

/* The result for one record. */
typedef enum finding { GOOD, BAD, FRAME, GONE, FINDINGS } finding;

/* Why only the frame of a record was checked; NULL: not so. */
static const char *frame_only(const pc_record_info *info, int has_key)
{
    if (info->opened || !info->version)
        return NULL;
    if (!info->sealed)
        return "frame only: its codec is not known";
    return has_key ? "frame only: another key" : "frame only: sealed, and no key was given";
}

/* EXIT_OK; EXIT_CHECK: damaged, or only its frame could be checked; EXIT_INPUT: not readable. */
static int verify_one(const arguments *a, const folder_view *view, size_t index, finding *what)
{
    pc_record_info info = PC_RECORD_INFO_INIT;
    char key[65];
    pc_folder_get(view->folder, index, &info);
    pc_status status = pc_folder_verify(view->folder, index);
    const char *frame = status == PC_ERR_UNSUPPORTED ? frame_only(&info, a->seal_key_file != NULL)
                                                     : NULL;
    *what = status == PC_ERR_NOT_FOUND ? GONE : frame ? FRAME : status < 0 ? BAD : GOOD;
    if (*what == GONE && !a->record)
        return EXIT_OK;
    key_text(info.key, key);
    if (a->json) {
        json_t *row = json_pack("{s:s,s:s,s:I,s:b}", "key", key, "variant", info.variant,
                                "file_bytes", (json_int_t)info.file_bytes, "ok", status >= 0);
        if (status < 0)
            json_object_set_new(row, "error", json_text(pc_error_text(), strlen(pc_error_text())));
        if (frame)
            json_object_set_new(row, "frame", json_string(frame));
        print_json(row);
    } else if (frame) {
        if (!a->quiet || !a->frame)
            printf("frame %s  %s\n", key, frame);
    } else if (status < 0) {
        printf("bad   %s  %s\n", key, pc_error_text());
    } else if (!a->quiet) {
        printf("ok    %s\n", key);
    }
    if (status >= 0 || (frame && a->frame))
        return EXIT_OK;
    return status == PC_ERR_FORMAT || status == PC_ERR_UNSUPPORTED ? EXIT_CHECK : EXIT_INPUT;
}

static int verify_all(const arguments *a, const folder_view *view)
{
    size_t count = pc_folder_count(view->folder), found[FINDINGS] = {0}, done = 0;
    int code = EXIT_OK;
    for (; done < count && !is_interrupted(NULL); done++) {
        finding what;
        int one = verify_one(a, view, done, &what);
        found[what]++;
        code = one > code ? one : code;
    }
    if (done < count)
        return input_error("verify", NULL);
    if (!a->json) {
        printf("%zu records: %zu good, %zu bad", count - found[GONE], found[GOOD], found[BAD]);
        if (found[FRAME])
            printf(", %zu frame only", found[FRAME]);
        putchar('\n');
    }
    return code;
}

static int run(int argc, char **argv)
{
    arguments a = {0};
    const char *others[1];
    folder_view view;
    size_t count, index;
    finding what;
    int code;
    const option_row rows[] = {
        {"key", OPTION_TEXT, &a.record, "only this record: its key, or its file", NULL, 0, 0},
        SEAL_KEY_ROW(&a.seal_key_file),
        {"frame", OPTION_FLAG, &a.frame,
         "accepts sealed records without the key if their frames are right: exit code 0", NULL, 0,
         0},
        {"quiet", OPTION_FLAG, &a.quiet, "prints only bad records", NULL, 0, 0},
        {"json", OPTION_FLAG, &a.json, "one JSON object a record", NULL, 0, 0},
    };
    code = read_options(&verify_command, argc, argv, rows, sizeof rows / sizeof *rows, others, 1,
                        &count);
    if (code >= 0)
        return code;
    if (!count)
        return usage_error(&verify_command, "a folder is needed");
    watch_interrupt();
    if ((code = open_view(&view, others[0], a.seal_key_file)) >= 0)
        return code;
    if (!a.record)
        code = verify_all(&a, &view);
    else if ((code = find_record(&view, &verify_command, a.record, &index)) < 0)
        code = verify_one(&a, &view, index, &what);
    close_view(&view);
    return code;
}

const command verify_command = {
    .name = "verify",
    .usage = "verify DIR [--key KEY|FILE] [--frame] [--quiet] [--json] [options]",
    .summary = "checks every byte of the records of a folder",
    .run = run};
