/* Folders of records, for the commands inspect, verify and evict. */
#ifndef RECORD_ROWS_H
#define RECORD_ROWS_H

#include "program.h"

#include <promptcache/admin.h>

typedef struct folder_view {
    pc_context *context;
    pc_folder *folder;
    int has_key;
} folder_view;

/* -1, or the exit code after a message. key_file: NULL for none. */
int open_view(folder_view *view, const char *path, const char *key_file);
void close_view(folder_view *view);

/* Finds the record that `text` names: by the first digits of its key, or by its file, which is
 * unique even if several seals share a key. -1, or the exit code after a message. */
int find_record(const folder_view *view, const command *about, const char *text, size_t *index);

/* status: of pc_folder_get. */
json_t *record_json(const pc_record_info *info, pc_status status);
void print_record_head(void);
void print_record_row(const folder_view *view, const pc_record_info *info, pc_status status);
void print_record(const folder_view *view, const pc_record_info *info);
void key_text(const uint8_t key[32], char text[65]);

/* clang-format off */
#define SEAL_KEY_ROW(target) \
    {"seal-key-file", OPTION_FILE, target, \
     "key of sealed records: 32 bytes or 64 hex digits, in a file that only its owner may read", \
     NULL, 0, 0}
/* clang-format on */

#endif
