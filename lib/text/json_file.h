/* JSON of files, with one error text: "file:line:column: cause". A key may stand once. */
#ifndef PC_TEXT_JSON_FILE_H
#define PC_TEXT_JSON_FILE_H

#include <jansson.h>

#include "base/mem.h"

/* `flags`: JSON_… for json_loadb. *out is NULL after an error: PC_ERR_FORMAT, PC_ERR_NOMEM. */
pc_status pc__json_parse(json_t **out, const char *text, size_t size, size_t flags,
                         const char *where);
/* The same for a file of at most `limit` bytes. As pc__file_read. */
pc_status pc__json_file(json_t **out, const pc_allocator *mem, const char *path, size_t limit,
                        size_t flags);
/* The same for the file folder/name. */
pc_status pc__json_in_folder(json_t **out, const pc_allocator *mem, const char *folder,
                             const char *name, size_t limit, size_t flags);

/* Whether the value is an integer from `least` to `most`; then *out is it. Readers take every
 * number of a file this way, or by its kind (model/load/count.h), so that none is used unchecked.
 */
int pc__json_integer(const json_t *value, int64_t least, int64_t most, int64_t *out);

#endif
