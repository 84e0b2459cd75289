/* The table of named tensors, and the files that it maps. */
#include "model/load/weights_internal.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

pc_status pc__weights_new(pc__weights **out, const pc_allocator *mem, const char *path)
{
    pc__weights *weights = pc__calloc(mem, 1, sizeof *weights);
    *out = NULL;
    if (!weights)
        return PC_ERR_NOMEM;
    weights->mem = *mem;
    if (!(weights->path = pc__strdup(mem, path))) {
        pc__free(mem, weights);
        return PC_ERR_NOMEM;
    }
    *out = weights;
    return PC_OK;
}

void pc__weights_free(pc__weights *weights)
{
    if (!weights)
        return;
    pc_allocator mem = weights->mem;
    for (size_t i = 0; i < weights->count; i++)
        pc__free(&mem, (void *)(uintptr_t)weights->tensors[i].name);
    for (size_t i = 0; i < weights->file_count; i++)
        pc__file_unmap(&weights->files[i]);
    pc__free(&mem, weights->tensors);
    pc__free(&mem, weights->files);
    pc__free(&mem, weights->path);
    pc__free(&mem, weights);
}

void pc__weights_release(const pc__weights *weights)
{
    for (size_t i = 0; i < weights->file_count; i++)
        pc__file_release(&weights->files[i], 0, weights->files[i].size);
}

/* Adds a file to the state. It is called before the file is mapped: if the file is replaced in
 * between, the state is that of a file that is gone. */
static void add_state(pc__weights *weights, const char *path)
{
    struct stat st;
    pc__digest digest;
    if (stat(path, &st)) {
        weights->unknown = 1;
        return;
    }
    pc__digest_start(&digest, "weights-state/1");
    pc__digest_bytes(&digest, weights->state.bytes, sizeof weights->state.bytes);
    pc__digest_text(&digest, path);
    pc__digest_u64(&digest, (uint64_t)st.st_size);
    pc__digest_u64(&digest, (uint64_t)st.st_mtim.tv_sec);
    pc__digest_u64(&digest, (uint64_t)st.st_mtim.tv_nsec);
    pc__digest_u64(&digest, (uint64_t)st.st_ino);
    pc__digest_u64(&digest, (uint64_t)st.st_dev);
    weights->state = pc__digest_end(&digest);
    if (st.st_mtim.tv_sec > weights->changed)
        weights->changed = st.st_mtim.tv_sec;
}

int pc__weights_state(const pc__weights *weights, pc__id *state, int64_t *changed)
{
    *state = weights->state;
    *changed = weights->changed;
    return weights->file_count && !weights->unknown;
}

pc_status pc__weights_map(pc__weights *weights, const char *path, pc__file *out)
{
    PC__TRY_RETURN(pc__grow(&weights->mem, (void **)&weights->files, &weights->file_capacity,
                            weights->file_count + 1, sizeof *weights->files));
    add_state(weights, path);
    PC__TRY_RETURN(pc__file_map(out, path));
    weights->files[weights->file_count++] = *out;
    return PC_OK;
}

pc_status pc__weights_add(pc__weights *weights, const pc__tensor *tensor, const char *name,
                          size_t name_size)
{
    PC__TRY_RETURN(pc__grow(&weights->mem, (void **)&weights->tensors, &weights->capacity,
                            weights->count + 1, sizeof *weights->tensors));
    pc__tensor *to = &weights->tensors[weights->count];
    *to = *tensor;
    if (!(to->name = pc__strndup(&weights->mem, name, name_size)))
        return PC_ERR_NOMEM;
    weights->count++;
    return PC_OK;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const pc__tensor *)a)->name, ((const pc__tensor *)b)->name);
}

pc_status pc__weights_seal(pc__weights *weights)
{
    if (weights->count > 1)
        qsort(weights->tensors, weights->count, sizeof *weights->tensors, by_name);
    for (size_t i = 1; i < weights->count; i++)
        if (!by_name(&weights->tensors[i - 1], &weights->tensors[i]))
            return pc__fail(PC_ERR_FORMAT, "%s: tensor '%s' appears twice", weights->path,
                            PC__QUOTE(weights->tensors[i].name));
    return PC_OK;
}

const pc__tensor *pc__weights_find(const pc__weights *weights, const char *name)
{
    pc__tensor key = {.name = name};
    return weights->count ? bsearch(&key, weights->tensors, weights->count, sizeof key, by_name)
                          : NULL;
}

/* The scales of a tensor of codes; NULL: it has none. */
static const pc__tensor *scales_of(const pc__weights *weights, const pc__tensor *codes)
{
    static const char ending[] = "_blocks";
    char name[256];
    size_t length = strlen(codes->name), stem = length - (sizeof ending - 1);
    const pc__tensor *scales;
    if (length < sizeof ending || length >= sizeof name || strcmp(codes->name + stem, ending)
        || codes->type != PC__T_U8 || codes->rank < 3 || codes->shape[codes->rank - 1] != 16)
        return NULL;
    memcpy(name, codes->name, stem);
    strcpy(name + stem, "_scales");
    scales = pc__weights_find(weights, name);
    return scales && scales->type == PC__T_U8 && scales->rank == codes->rank - 1
                   && !memcmp(scales->shape, codes->shape, scales->rank * sizeof *scales->shape)
               ? scales
               : NULL;
}

void pc__weights_join_scales(pc__weights *weights)
{
    size_t kept = 0;
    for (size_t i = 0; i < weights->count; i++) {
        pc__tensor *codes = &weights->tensors[i];
        const pc__tensor *scales = scales_of(weights, codes);
        if (!scales)
            continue;
        codes->type = PC__T_MXFP4_APART;
        codes->scales = scales->data;
        codes->rank--;
        codes->shape[codes->rank - 1] *= 32;
    }
    for (size_t i = 0; i < weights->count; i++) {
        int is_joined = 0;
        for (size_t c = 0; c < weights->count && weights->tensors[i].type == PC__T_U8; c++)
            is_joined |= weights->tensors[c].scales
                         && weights->tensors[c].scales == weights->tensors[i].data;
        if (is_joined)
            pc__free(&weights->mem, (void *)(uintptr_t)weights->tensors[i].name);
        else
            weights->tensors[kept++] = weights->tensors[i];
    }
    weights->count = kept;
}

size_t pc__weights_count(const pc__weights *weights)
{
    return weights->count;
}

const pc__tensor *pc__weights_at(const pc__weights *weights, size_t index)
{
    return index < weights->count ? &weights->tensors[index] : NULL;
}

const char *pc__weights_path(const pc__weights *weights)
{
    return weights->path;
}

uint64_t pc__weights_file_bytes(const pc__weights *weights)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < weights->file_count; i++)
        bytes += weights->files[i].size;
    return bytes;
}

void pc__weights_forget(pc__weights *weights)
{
    for (size_t i = 0; i < weights->count; i++)
        weights->tensors[i].data = NULL;
}

static int shape_elements(const uint64_t *shape, uint32_t rank, uint64_t *elements)
{
    uint64_t n = 1;
    for (uint32_t i = 0; i < rank; i++)
        if (__builtin_mul_overflow(n, shape[i], &n))
            return 0;
    *elements = n;
    return 1;
}

int pc__tensor_size(const pc__tensor *tensor, uint64_t *bytes)
{
    uint64_t elements, block = pc__ttypes[tensor->type].block,
                       row = tensor->rank ? tensor->shape[tensor->rank - 1] : 1;
    if (row % block || !shape_elements(tensor->shape, tensor->rank, &elements))
        return 0;
    return !__builtin_mul_overflow(elements / block, (uint64_t)pc__ttypes[tensor->type].block_bytes,
                                   bytes);
}
