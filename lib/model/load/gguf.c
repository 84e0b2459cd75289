/* The GGUF reader: header, keys, tensor descriptions. Owns the entries of a pc__gguf. */
#include "model/load/gguf_internal.h"

#include <stdlib.h>
#include <string.h>

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "weights are used as they lie in the file, which is little-endian"
#endif

enum { MAX_RANK = 4, MAX_NAME = 1 << 16, MAX_ALIGNMENT = 1 << 20 };

typedef struct gguf_reader {
    const char *path;
    const uint8_t *data;
    size_t size, at;
} gguf_reader;

static pc_status read_bytes(gguf_reader *r, void *out, size_t size, const char *what)
{
    memset(out, 0, size);
    if (size > r->size - r->at)
        return pc__fail(PC_ERR_FORMAT, "%s: byte %zu: the file ends within %s", r->path, r->at,
                        what);
    memcpy(out, r->data + r->at, size);
    r->at += size;
    return PC_OK;
}

static pc_status read_gguf_text(gguf_reader *r, pc__text *out, const char *what)
{
    uint64_t size;
    size_t start = r->at;
    PC__TRY_RETURN(read_bytes(r, &size, sizeof size, what));
    if (size > r->size - r->at)
        return pc__fail(PC_ERR_FORMAT,
                        "%s: byte %zu: %s of %llu bytes does not fit into the rest of the file",
                        r->path, start, what, (unsigned long long)size);
    *out = (pc__text){(const char *)r->data + r->at, (size_t)size};
    r->at += (size_t)size;
    return PC_OK;
}

/* Reads a key or the name of a tensor. */
static pc_status read_name(gguf_reader *r, pc__text *out, const char *what)
{
    size_t start = r->at;
    PC__TRY_RETURN(read_gguf_text(r, out, what));
    if (!out->size || out->size > MAX_NAME)
        return pc__fail(PC_ERR_FORMAT, "%s: byte %zu: %s has %zu bytes", r->path, start, what,
                        out->size);
    if (memchr(out->data, 0, out->size))
        return pc__fail(PC_ERR_FORMAT, "%s: byte %zu: %s contains a NUL byte", r->path, start,
                        what);
    return PC_OK;
}

/* Skips `count` values of a type that is not an array. */
static pc_status skip_values(gguf_reader *r, const char *key, uint32_t type, uint64_t count)
{
    static const uint8_t width[] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
    size_t start = r->at;
    pc_status status = PC_OK;
    pc__text text;
    if (type == PC__GGUF_ARRAY || type >= sizeof width)
        return pc__fail(PC_ERR_UNSUPPORTED, "%s: byte %zu: key '%s' has values of unknown type %u",
                        r->path, start, PC__QUOTE(key), type);
    if (type == PC__GGUF_STRING) {
        for (uint64_t i = 0; i < count && status >= 0; i++)
            status = read_gguf_text(r, &text, "a string");
        return status < 0 ? pc__fail_in(status, "key '%s'", PC__QUOTE(key)) : PC_OK;
    }
    if (count > (r->size - r->at) / width[type])
        return pc__fail(
            PC_ERR_FORMAT,
            "%s: byte %zu: key '%s': %llu values of %u bytes do not fit into the rest of the file",
            r->path, start, PC__QUOTE(key), (unsigned long long)count, (unsigned)width[type]);
    r->at += (size_t)count * width[type];
    return PC_OK;
}

static pc_status read_value(const pc_allocator *mem, gguf_reader *r, pc__gguf_entry *entry)
{
    pc__text text;
    PC__TRY_RETURN(read_bytes(r, &entry->type, sizeof entry->type, "a type"));
    entry->count = 1;
    entry->is_array = entry->type == PC__GGUF_ARRAY;
    if (entry->is_array) {
        PC__TRY_RETURN(read_bytes(r, &entry->type, sizeof entry->type, "a type of elements"));
        PC__TRY_RETURN(read_bytes(r, &entry->count, sizeof entry->count, "a number of elements"));
    }
    const uint8_t *at = entry->data = r->data + r->at;
    PC__TRY_RETURN(skip_values(r, entry->key, entry->type, entry->count));
    if (entry->type == PC__GGUF_STRING && !entry->is_array) {
        text = pc__gguf_next_text(&at);
        if (!memchr(text.data, 0, text.size)
            && !(entry->text = pc__strndup(mem, text.data, text.size)))
            return PC_ERR_NOMEM;
    }
    return PC_OK;
}

static pc_status read_entry(pc__gguf *gguf, gguf_reader *r)
{
    pc__gguf_entry entry = {0};
    pc__text key = {NULL, 0};
    PC__TRY_RETURN(pc__grow(&gguf->mem, (void **)&gguf->entries, &gguf->capacity, gguf->count + 1,
                            sizeof entry));
    PC__TRY_RETURN(read_name(r, &key, "a key"));
    entry.key = pc__strndup(&gguf->mem, key.data, key.size);
    pc_status status = entry.key ? read_value(&gguf->mem, r, &entry) : PC_ERR_NOMEM;
    gguf->entries[gguf->count++] = entry; /* pc__gguf_free frees half-made entries too */
    return status;
}

static int entries_by_key(const void *a, const void *b)
{
    return strcmp(((const pc__gguf_entry *)a)->key, ((const pc__gguf_entry *)b)->key);
}

static pc_status read_gguf_entries(pc__gguf *gguf, gguf_reader *r, uint64_t count)
{
    for (uint64_t i = 0; i < count; i++)
        PC__TRY_RETURN(read_entry(gguf, r));
    if (gguf->count > 1)
        qsort(gguf->entries, gguf->count, sizeof *gguf->entries, entries_by_key);
    for (size_t i = 1; i < gguf->count; i++)
        if (!entries_by_key(&gguf->entries[i - 1], &gguf->entries[i]))
            return pc__fail(PC_ERR_FORMAT, "%s: key '%s' appears twice", r->path,
                            PC__QUOTE(gguf->entries[i].key));
    return PC_OK;
}

/* clang-format off */
/* By ggml's numbers. The other types are named in the error text. */
static const struct {
    const char *name;
    int readable;
    pc__ttype type;
} tensor_types[] = {
    [0] = {"F32", 1, PC__T_F32}, [1] = {"F16", 1, PC__T_F16}, [2] = {"Q4_0", 1, PC__T_Q4_0},
    [3] = {"Q4_1", 1, PC__T_Q4_1}, [6] = {"Q5_0", 1, PC__T_Q5_0}, [7] = {"Q5_1", 1, PC__T_Q5_1},
    [8] = {"Q8_0", 1, PC__T_Q8_0}, [9] = {"Q8_1", 0, 0}, [10] = {"Q2_K", 1, PC__T_Q2_K},
    [11] = {"Q3_K", 1, PC__T_Q3_K}, [12] = {"Q4_K", 1, PC__T_Q4_K}, [13] = {"Q5_K", 1, PC__T_Q5_K},
    [14] = {"Q6_K", 1, PC__T_Q6_K}, [15] = {"Q8_K", 0, 0}, [16] = {"IQ2_XXS", 0, 0},
    [17] = {"IQ2_XS", 0, 0}, [18] = {"IQ3_XXS", 0, 0}, [19] = {"IQ1_S", 0, 0},
    [20] = {"IQ4_NL", 1, PC__T_IQ4_NL}, [21] = {"IQ3_S", 0, 0}, [22] = {"IQ2_S", 0, 0},
    [23] = {"IQ4_XS", 1, PC__T_IQ4_XS}, [24] = {"I8", 1, PC__T_I8}, [25] = {"I16", 1, PC__T_I16},
    [26] = {"I32", 1, PC__T_I32}, [27] = {"I64", 1, PC__T_I64}, [28] = {"F64", 1, PC__T_F64},
    [29] = {"IQ1_M", 0, 0}, [30] = {"BF16", 1, PC__T_BF16}, [34] = {"TQ1_0", 0, 0},
    [35] = {"TQ2_0", 0, 0}, [39] = {"MXFP4", 1, PC__T_MXFP4}
};
/* clang-format on */

static int gguf_tensor_type(uint32_t number, pc__ttype *type, const char **name)
{
    int known = number < sizeof tensor_types / sizeof *tensor_types && tensor_types[number].name;
    *name = known ? tensor_types[number].name : "unknown";
    if (!known || !tensor_types[number].readable)
        return 0;
    *type = tensor_types[number].type;
    return 1;
}

/* Reads the description of a tensor, without `data`. *offset counts from the start of the data. */
static pc_status read_tensor_info(gguf_reader *r, pc__tensor *tensor, pc__text *name,
                                  uint64_t *offset)
{
    uint64_t dims[MAX_RANK];
    uint32_t number = 0;
    const char *type_name;
    pc__quoted shown;
    size_t start = r->at;
    PC__TRY_RETURN(read_name(r, name, "the name of a tensor"));
    PC__TRY_RETURN(read_bytes(r, &tensor->rank, sizeof tensor->rank, "a tensor's rank"));
    if (!tensor->rank || tensor->rank > MAX_RANK)
        return pc__fail(PC_ERR_FORMAT, "%s: byte %zu: tensor '%s' has %u dimensions", r->path,
                        start, pc__quote(name->data, name->size, &shown), tensor->rank);
    PC__TRY_RETURN(read_bytes(r, dims, tensor->rank * sizeof *dims, "a tensor's dimensions"));
    PC__TRY_RETURN(read_bytes(r, &number, sizeof number, "a tensor's type"));
    PC__TRY_RETURN(read_bytes(r, offset, sizeof *offset, "a tensor's offset"));
    for (uint32_t i = 0; i < tensor->rank; i++)
        tensor->shape[i] = dims[tensor->rank - 1 - i];
    if (!gguf_tensor_type(number, &tensor->type, &type_name))
        return pc__fail(PC_ERR_UNSUPPORTED,
                        "%s: byte %zu: tensor '%s' has type %s (%u), which is not supported",
                        r->path, start, pc__quote(name->data, name->size, &shown), type_name,
                        number);
    if (!pc__tensor_size(tensor, &tensor->bytes))
        return pc__fail(PC_ERR_FORMAT,
                        "%s: byte %zu: tensor '%s' of type %s has an impossible shape", r->path,
                        start, pc__quote(name->data, name->size, &shown), type_name);
    return PC_OK;
}

/* Reads the descriptions twice: the data start where they end, which the first pass finds. */
static pc_status read_tensors(pc__gguf *gguf, gguf_reader *r, uint64_t count, uint64_t alignment)
{
    gguf_reader second = *r;
    uint64_t offset, end = 0, room;
    pc__tensor tensor = {0};
    pc__text name;
    pc__quoted shown;
    for (uint64_t i = 0; i < count; i++)
        PC__TRY_RETURN(read_tensor_info(r, &tensor, &name, &offset));
    size_t start = (r->at + (size_t)alignment - 1) & ~((size_t)alignment - 1);
    if (count && start > r->size)
        return pc__fail(PC_ERR_FORMAT, "%s: byte %zu: the file ends before its tensors", r->path,
                        r->at);
    room = count ? r->size - start : 0;
    for (uint64_t i = 0; i < count; i++) {
        PC__TRY_RETURN(read_tensor_info(&second, &tensor, &name, &offset));
        if (offset % alignment || offset < end)
            return pc__fail(PC_ERR_FORMAT, "%s: tensor '%s': offset %llu is %s", r->path,
                            pc__quote(name.data, name.size, &shown), (unsigned long long)offset,
                            offset < end ? "inside another tensor" : "not aligned");
        if (offset > room || tensor.bytes > room - offset)
            return pc__fail(
                PC_ERR_FORMAT,
                "%s: tensor '%s': offset %llu with %llu bytes lies beyond the end of the file",
                r->path, pc__quote(name.data, name.size, &shown), (unsigned long long)offset,
                (unsigned long long)tensor.bytes);
        tensor.data = r->data + start + offset;
        end = offset + tensor.bytes;
        PC__TRY_RETURN(pc__weights_add(gguf->weights, &tensor, name.data, name.size));
    }
    return pc__weights_seal(gguf->weights);
}

static pc_status read_gguf_header(gguf_reader *r, uint64_t *tensors, uint64_t *entries)
{
    uint8_t magic[4];
    uint32_t version = 0;
    PC__TRY_RETURN(read_bytes(r, magic, sizeof magic, "the magic"));
    if (memcmp(magic, "GGUF", 4))
        return pc__fail(PC_ERR_FORMAT, "%s: byte 0: not a GGUF file", r->path);
    PC__TRY_RETURN(read_bytes(r, &version, sizeof version, "the version"));
    if (version == UINT32_C(0x02000000) || version == UINT32_C(0x03000000))
        return pc__fail(PC_ERR_UNSUPPORTED, "%s: byte 4: big-endian files are not supported",
                        r->path);
    if (version != 2 && version != 3)
        return pc__fail(PC_ERR_UNSUPPORTED, "%s: byte 4: version %u is not supported (2 and 3 are)",
                        r->path, version);
    PC__TRY_RETURN(read_bytes(r, tensors, sizeof *tensors, "the number of tensors"));
    return read_bytes(r, entries, sizeof *entries, "the number of keys");
}

static pc_status check_alignment(const pc__gguf *gguf, const char *path, uint64_t *alignment)
{
    *alignment = 32;
    if (!pc__gguf_find(gguf, "general.alignment"))
        return PC_OK;
    if (!pc__gguf_u64(gguf, "general.alignment", alignment) || !*alignment
        || *alignment > MAX_ALIGNMENT || *alignment & (*alignment - 1))
        return pc__fail(PC_ERR_FORMAT, "%s: key 'general.alignment' is not a power of two up to %d",
                        path, MAX_ALIGNMENT);
    return PC_OK;
}

static pc_status check_split(const pc__gguf *gguf, const char *path)
{
    uint64_t files;
    if (pc__gguf_u64(gguf, "split.count", &files) && files > 1)
        return pc__fail(PC_ERR_UNSUPPORTED,
                        "%s: the model is split into %llu files: join them first", path,
                        (unsigned long long)files);
    return PC_OK;
}

/* Maps the file and reads what stands before the tensors. */
static pc_status read_front(pc__gguf *gguf, gguf_reader *r, uint64_t *tensors)
{
    uint64_t entries = 0;
    pc__file file;
    PC__TRY_RETURN(pc__weights_new(&gguf->weights, &gguf->mem, r->path));
    PC__TRY_RETURN(pc__weights_map(gguf->weights, r->path, &file));
    r->data = file.data;
    r->size = file.size;
    PC__TRY_RETURN(read_gguf_header(r, tensors, &entries));
    return read_gguf_entries(gguf, r, entries);
}

static pc_status read_back(pc__gguf *gguf, gguf_reader *r, uint64_t tensors)
{
    uint64_t alignment;
    PC__TRY_RETURN(check_split(gguf, r->path));
    PC__TRY_RETURN(check_alignment(gguf, r->path, &alignment));
    return read_tensors(gguf, r, tensors, alignment);
}

static pc_status open_gguf_file(pc__gguf **out, const pc_allocator *mem, const char *path,
                                int keys_only)
{
    pc__gguf *gguf = pc__calloc(mem, 1, sizeof *gguf);
    gguf_reader r = {.path = path};
    uint64_t tensors = 0;
    pc_status status;
    *out = NULL;
    if (!gguf)
        return PC_ERR_NOMEM;
    gguf->mem = *mem;
    PC__TRY(read_front(gguf, &r, &tensors), done);
    if (!keys_only)
        PC__TRY(read_back(gguf, &r, tensors), done);
    *out = gguf;
    gguf = NULL;
done:
    pc__gguf_free(gguf);
    return status;
}

pc_status pc__gguf_open(pc__gguf **out, const pc_allocator *mem, const char *path)
{
    return open_gguf_file(out, mem, path, 0);
}

pc_status pc__gguf_open_keys(pc__gguf **out, const pc_allocator *mem, const char *path)
{
    return open_gguf_file(out, mem, path, 1);
}

void pc__gguf_free(pc__gguf *gguf)
{
    if (!gguf)
        return;
    pc_allocator mem = gguf->mem;
    for (size_t i = 0; i < gguf->count; i++) {
        pc__free(&mem, gguf->entries[i].key);
        pc__free(&mem, gguf->entries[i].text);
    }
    pc__free(&mem, gguf->entries);
    pc__weights_free(gguf->weights);
    pc__free(&mem, gguf);
}

pc__weights *pc__gguf_weights(pc__gguf *gguf)
{
    return gguf->weights;
}
