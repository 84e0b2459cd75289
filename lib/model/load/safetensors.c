/* Safetensors: u64 length of a JSON header, the header {name: {dtype, shape, data_offsets: [begin,
 * end]}, "__metadata__": {…}}, the data. Offsets count from the start of the data, which tensors
 * fill without gap or overlap. A folder has model.safetensors, or files listed in
 * model.safetensors.index.json ({"weight_map": {tensor: file}}). */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "model/load/safetensors.h"
#include "model/load/weights_internal.h"
#include "text/json_file.h"

enum { MAX_HEADER = 100 << 20, MAX_INDEX = 100 << 20, MAX_RANK = 4, MAX_SHARDS = 4096 };

static const struct {
    const char *name;
    pc__ttype type;
} dtypes[] = {
    {"F32", PC__T_F32}, {"F16", PC__T_F16}, {"BF16", PC__T_BF16}, {"F64", PC__T_F64},
    {"I8", PC__T_I8},   {"I16", PC__T_I16}, {"I32", PC__T_I32},   {"I64", PC__T_I64},
    {"U8", PC__T_U8},   {"BOOL", PC__T_U8},
};

static pc_status read_dtype(const char *path, const char *name, json_t *info, pc__ttype *type)
{
    const char *dtype = json_string_value(json_object_get(info, "dtype"));
    if (!dtype)
        return pc__fail(PC_ERR_FORMAT, "%s: tensor '%s': dtype is missing", path, PC__QUOTE(name));
    for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++) {
        if (!strcmp(dtype, dtypes[i].name)) {
            *type = dtypes[i].type;
            return PC_OK;
        }
    }
    return pc__fail(PC_ERR_UNSUPPORTED, "%s: tensor '%s': dtype '%s' is not supported", path,
                    PC__QUOTE(name), PC__QUOTE(dtype));
}

/* Reads `count` integers that are not negative. */
static int read_numbers(json_t *array, size_t count, uint64_t *out)
{
    for (size_t i = 0; i < count; i++) {
        int64_t number;
        if (!pc__json_integer(json_array_get(array, i), 0, INT64_MAX, &number))
            return 0;
        out[i] = (uint64_t)number;
    }
    return 1;
}

static pc_status read_tensor(const char *path, const char *name, json_t *info, pc__tensor *tensor,
                             uint64_t offsets[2])
{
    json_t *shape = json_object_get(info, "shape"), *at = json_object_get(info, "data_offsets");
    size_t rank = json_array_size(shape);
    PC__TRY_RETURN(read_dtype(path, name, info, &tensor->type));
    if (rank > MAX_RANK)
        return pc__fail(PC_ERR_UNSUPPORTED, "%s: tensor '%s' has %zu dimensions, more than %d",
                        path, PC__QUOTE(name), rank, MAX_RANK);
    if (!json_is_array(shape) || !read_numbers(shape, rank, tensor->shape))
        return pc__fail(PC_ERR_FORMAT, "%s: tensor '%s': shape is not a list of sizes", path,
                        PC__QUOTE(name));
    tensor->rank = (uint32_t)rank;
    if (json_array_size(at) != 2 || !read_numbers(at, 2, offsets) || offsets[1] < offsets[0])
        return pc__fail(PC_ERR_FORMAT, "%s: tensor '%s': data_offsets is not [begin, end]", path,
                        PC__QUOTE(name));
    if (!pc__tensor_size(tensor, &tensor->bytes) || tensor->bytes != offsets[1] - offsets[0])
        return pc__fail(
            PC_ERR_FORMAT, "%s: tensor '%s': offsets %llu to %llu do not fit its shape and dtype",
            path, PC__QUOTE(name), (unsigned long long)offsets[0], (unsigned long long)offsets[1]);
    return PC_OK;
}

static pc_status add_tensors(pc__weights *weights, const char *path, json_t *header,
                             const uint8_t *data, size_t room)
{
    const char *name;
    json_t *info;
    json_object_foreach(header, name, info)
    {
        pc__tensor tensor = {0};
        uint64_t offsets[2];
        if (!strcmp(name, "__metadata__"))
            continue;
        PC__TRY_RETURN(read_tensor(path, name, info, &tensor, offsets));
        if (offsets[1] > room)
            return pc__fail(
                PC_ERR_FORMAT,
                "%s: tensor '%s': offset %llu lies beyond the end of the file (%zu bytes of data)",
                path, PC__QUOTE(name), (unsigned long long)offsets[1], room);
        tensor.data = data + offsets[0];
        PC__TRY_RETURN(pc__weights_add(weights, &tensor, name, strlen(name)));
    }
    return PC_OK;
}

static int by_data(const void *a, const void *b)
{
    const pc__tensor *x = a, *y = b;
    if (x->data != y->data)
        return x->data < y->data ? -1 : 1;
    return x->bytes < y->bytes ? -1 : x->bytes > y->bytes; /* empty ones first */
}

/* Checks that the tensors from index `first` on fill the data exactly. */
static pc_status check_no_gaps(pc__weights *weights, const char *path, size_t first,
                               const uint8_t *data, size_t room)
{
    const uint8_t *end = data;
    if (weights->count > first)
        qsort(weights->tensors + first, weights->count - first, sizeof *weights->tensors, by_data);
    for (size_t i = first; i < weights->count; i++) {
        const pc__tensor *tensor = &weights->tensors[i];
        if (tensor->data != end)
            return pc__fail(PC_ERR_FORMAT, "%s: tensor '%s': offset %zu, expected %zu: %s", path,
                            PC__QUOTE(tensor->name), (size_t)(tensor->data - data),
                            (size_t)(end - data),
                            tensor->data < end ? "tensors overlap" : "there is a gap");
        end += tensor->bytes;
    }
    if ((size_t)(end - data) != room)
        return pc__fail(PC_ERR_FORMAT, "%s: the file has %zu bytes of data, tensors fill %zu", path,
                        room, (size_t)(end - data));
    return PC_OK;
}

static pc_status parse_header(const char *path, const pc__file *file, json_t **header,
                              size_t *data_start)
{
    json_error_t error;
    uint64_t size;
    if (file->size < 8)
        return pc__fail(PC_ERR_FORMAT, "%s: byte 0: the file ends within the length of its header",
                        path);
    memcpy(&size, file->data, sizeof size);
    if (size > MAX_HEADER || size > file->size - 8)
        return pc__fail(PC_ERR_FORMAT,
                        "%s: byte 0: a header of %llu bytes does not fit into a file of %zu", path,
                        (unsigned long long)size, file->size);
    *header = json_loadb((const char *)file->data + 8, (size_t)size, JSON_REJECT_DUPLICATES,
                         &error);
    if (!*header)
        return pc__fail(PC_ERR_FORMAT, "%s: byte %d: header: %s", path, error.position + 8,
                        error.text);
    if (!json_is_object(*header))
        return pc__fail(PC_ERR_FORMAT, "%s: byte 8: the header is not an object", path);
    *data_start = (size_t)size + 8;
    return PC_OK;
}

static pc_status add_tensor_file(pc__weights *weights, const char *path)
{
    pc__file file;
    json_t *header = NULL;
    size_t start = 0, first = weights->count;
    pc_status status;
    PC__TRY(pc__weights_map(weights, path, &file), done);
    PC__TRY(parse_header(path, &file, &header, &start), done);
    PC__TRY(add_tensors(weights, path, header, file.data + start, file.size - start), done);
    status = check_no_gaps(weights, path, first, file.data + start, file.size - start);
done:
    json_decref(header);
    return status;
}

pc_status pc__safetensors_open(pc__weights **out, const pc_allocator *mem, const char *path)
{
    pc__weights *weights = NULL;
    pc_status status;
    *out = NULL;
    PC__TRY(pc__weights_new(&weights, mem, path), done);
    PC__TRY(add_tensor_file(weights, path), done);
    PC__TRY(pc__weights_seal(weights), done);
    pc__weights_join_scales(weights);
    *out = weights;
    weights = NULL;
done:
    pc__weights_free(weights);
    return status;
}

/* Whether the name is that of a file in the folder itself. */
static int is_plain_name(const char *name)
{
    return *name && *name != '.' && !strchr(name, '/') && !strchr(name, '\\');
}

/* Lists the different files of a weight map; borrows their names. */
static pc_status list_shards(const char *path, json_t *map, const char **shards, size_t *count)
{
    const char *tensor;
    json_t *file;
    *count = 0;
    json_object_foreach(map, tensor, file)
    {
        const char *name = json_string_value(file);
        size_t i = 0;
        if (!name || !is_plain_name(name))
            return pc__fail(PC_ERR_FORMAT, "%s: tensor '%s' is not in a file of this folder", path,
                            PC__QUOTE(tensor));
        while (i < *count && strcmp(shards[i], name))
            i++;
        if (i < *count)
            continue;
        if (*count == MAX_SHARDS)
            return pc__fail(PC_ERR_LIMIT, "%s: more than %d files", path, MAX_SHARDS);
        shards[(*count)++] = name;
    }
    return PC_OK;
}

/* Checks that every tensor is in the file that the map names. */
static pc_status check_map(const pc__weights *weights, const char *path, json_t *map,
                           const char *const *shards, size_t count)
{
    const char *name;
    json_t *file;
    json_object_foreach(map, name, file)
    {
        const pc__tensor *tensor = pc__weights_find(weights, name);
        size_t i = 0;
        while (i < count && strcmp(shards[i], json_string_value(file)))
            i++;
        if (!tensor || tensor->data < weights->files[i].data
            || tensor->data > weights->files[i].data + weights->files[i].size)
            return pc__fail(PC_ERR_FORMAT, "%s: tensor '%s' is not in %s", path, PC__QUOTE(name),
                            PC__QUOTE(json_string_value(file)));
    }
    return PC_OK;
}

static pc_status add_shards(pc__weights *weights, const char *path, const char *folder, json_t *map)
{
    const pc_allocator *mem = &weights->mem;
    const char **shards = pc__calloc(mem, MAX_SHARDS, sizeof *shards);
    size_t count;
    pc_status status = shards ? list_shards(path, map, shards, &count) : PC_ERR_NOMEM;
    for (size_t i = 0; status >= 0 && i < count; i++) {
        char *shard = pc__path_join(mem, folder, shards[i]);
        status = shard ? add_tensor_file(weights, shard) : PC_ERR_NOMEM;
        pc__free(mem, shard);
    }
    if (status >= 0)
        status = pc__weights_seal(weights);
    if (status >= 0)
        status = check_map(weights, path, map, shards, count);
    pc__free(mem, shards);
    return status;
}

static pc_status open_index(pc__weights *weights, const char *path, const char *folder)
{
    json_t *index, *map;
    pc_status status;
    PC__TRY_RETURN(pc__json_file(&index, &weights->mem, path, MAX_INDEX, 0));
    map = json_object_get(index, "weight_map");
    if (!json_is_object(map) || !json_object_size(map))
        status = pc__fail(PC_ERR_FORMAT, "%s: weight_map is missing", path);
    else
        status = add_shards(weights, path, folder, map);
    json_decref(index);
    return status;
}

pc_status pc__safetensors_open_folder(pc__weights **out, const pc_allocator *mem,
                                      const char *folder)
{
    char *single = pc__path_join(mem, folder, "model.safetensors");
    char *index = pc__path_join(mem, folder, "model.safetensors.index.json");
    pc__weights *weights = NULL;
    pc_status status = PC_ERR_NOMEM;
    *out = NULL;
    if (!single || !index)
        goto done;
    PC__TRY(pc__weights_new(&weights, mem, folder), done);
    status = add_tensor_file(weights, single);
    if (status >= 0)
        status = pc__weights_seal(weights);
    else if (status == PC_ERR_NOT_FOUND)
        status = open_index(weights, index, folder);
    if (status == PC_ERR_NOT_FOUND)
        status = pc__fail_in(
            status, "%s: model.safetensors is missing, and so is an index or one of its files",
            folder);
    if (status >= 0) {
        pc__weights_join_scales(weights);
        *out = weights;
        weights = NULL;
    }
done:
    pc__weights_free(weights);
    pc__free(mem, single);
    pc__free(mem, index);
    return status;
}
