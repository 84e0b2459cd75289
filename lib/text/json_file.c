/* Reads JSON by jansson; says where the text is wrong. */
#include "text/json_file.h"

#include "base/fail.h"
#include "base/file.h"

pc_status pc__json_parse(json_t **out, const char *text, size_t size, size_t flags,
                         const char *where)
{
    json_error_t error;
    *out = NULL;
    if (!size)
        return pc__fail(PC_ERR_FORMAT, "%s: the file is empty", where);
    *out = json_loadb(text, size, JSON_REJECT_DUPLICATES | flags, &error);
    if (*out)
        return PC_OK;
    if (json_error_code(&error) == json_error_out_of_memory)
        return pc__fail(PC_ERR_NOMEM, "%s: out of memory", where);
    pc__fail(PC_ERR_FORMAT, "%s:%d:%d: %s", where, error.line, error.column, error.text);
    if (error.line > 0 && error.column > 0)
        pc__fail_place((uint64_t)error.line, (uint64_t)error.column);
    return PC_ERR_FORMAT;
}

pc_status pc__json_file(json_t **out, const pc_allocator *mem, const char *path, size_t limit,
                        size_t flags)
{
    char *text;
    size_t size;
    pc_status status = pc__file_read(mem, path, limit, &text, &size);
    *out = NULL;
    if (status >= 0)
        status = pc__json_parse(out, text, size, flags, path);
    pc__free(mem, text);
    return status;
}

pc_status pc__json_in_folder(json_t **out, const pc_allocator *mem, const char *folder,
                             const char *name, size_t limit, size_t flags)
{
    char *path = pc__path_join(mem, folder, name);
    pc_status status = path ? pc__json_file(out, mem, path, limit, flags) : PC_ERR_NOMEM;
    pc__free(mem, path);
    return status;
}

int pc__json_integer(const json_t *value, int64_t least, int64_t most, int64_t *out)
{
    if (!json_is_integer(value) || json_integer_value(value) < least
        || json_integer_value(value) > most)
        return 0;
    *out = json_integer_value(value);
    return 1;
}
