/* A small safetensors reader that checks every offset and size. */
#include "golden_file.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "program.h"

static int bad(const char *path, const char *cause)
{
    return plain_error("%s: %s", path, cause);
}

static int read_tensor(golden_tensor *t, const char *name, const json_t *row, const char *data,
                       size_t size)
{
    const char *type = json_string_value(json_object_get(row, "dtype"));
    json_t *shape = json_object_get(row, "shape"), *offsets = json_object_get(row, "data_offsets"),
           *dim;
    json_int_t from = json_integer_value(json_array_get(offsets, 0)),
               to = json_integer_value(json_array_get(offsets, 1));
    size_t i;
    *t = (golden_tensor){.name = name, .count = 1, .rank = json_array_size(shape)};
    if (!type || t->rank > 8 || from < 0 || to < from || (uint64_t)to > size)
        return 0;
    t->integers = !strcmp(type, "I32");
    if (!t->integers && strcmp(type, "F32"))
        return 0;
    json_array_foreach(shape, i, dim)
    {
        t->shape[i] = json_integer_value(dim);
        if (t->shape[i] < 0 || t->shape[i] > 1 << 28)
            return 0;
        t->count *= (size_t)t->shape[i];
        if (t->count > size) /* keeps the product from overflowing */
            return 0;
    }
    t->data = data + from;
    if ((uintptr_t)t->data % 4)
        return 0;
    return t->count * 4 == (size_t)(to - from);
}

static json_t *read_about(const char *path)
{
    const char *slash = strrchr(path, '/');
    char name[4096], *text;
    size_t size;
    json_t *about;
    snprintf(name, sizeof name, "%.*sgolden.json", slash ? (int)(slash - path + 1) : 0, path);
    if (access(name, F_OK) || !(text = read_text(name, DATA_BYTES, &size)))
        return NULL;
    about = json_loadb(text, size, 0, NULL);
    free(text);
    return about;
}

int golden_open(golden_file *file, const char *path)
{
    size_t size;
    uint64_t header = 0;
    const char *name;
    json_t *row;
    memset(file, 0, sizeof *file);
    file->data = read_text(path, DATA_BYTES, &size);
    if (!file->data)
        return EXIT_INPUT;
    memcpy(&header, file->data, size < 8 ? 0 : 8);
    if (size < 8 || header > size - 8)
        return bad(path, "not a safetensors file");
    file->header = json_loadb(file->data + 8, header, 0, NULL);
    file->tensors = calloc(json_object_size(file->header) + 1, sizeof *file->tensors);
    if (!json_is_object(file->header) || !file->tensors)
        return bad(path, "the header is not JSON");
    json_object_foreach(file->header, name, row)
    {
        if (!strcmp(name, "__metadata__"))
            continue;
        if (!read_tensor(&file->tensors[file->count++], name, row, file->data + 8 + header,
                         size - 8 - header))
            return plain_error("%s: tensor '%s' has a bad type, shape or place", path, name);
    }
    file->about = read_about(path);
    return EXIT_OK;
}

void golden_close(golden_file *file)
{
    json_decref(file->header);
    json_decref(file->about);
    free(file->tensors);
    free(file->data);
}

golden_tensor *golden_find(golden_file *file, const char *format, ...)
{
    char name[256];
    va_list args;
    va_start(args, format);
    vsnprintf(name, sizeof name, format, args);
    va_end(args);
    for (size_t i = 0; i < file->count; i++)
        if (!strcmp(file->tensors[i].name, name)) {
            file->tensors[i].used = 1;
            return &file->tensors[i];
        }
    return NULL;
}

uint64_t golden_rope_length(const golden_file *file, const char *name)
{
    json_t *entry = json_object_get(json_object_get(file->about, "cases"), name);
    return (uint64_t)json_integer_value(json_object_get(entry, "rope_len"));
}
