/* The table of named tensors, and the files that it maps. */
#include "model/load/weights_internal.h"

#include <stdlib.h>
#include <string.h>

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

pc_status pc__weights_map(pc__weights *weights, const char *path, pc__file *out)
{
    PC__TRY_RETURN(pc__grow(&weights->mem, (void **)&weights->files, &weights->file_capacity,
                            weights->file_count + 1, sizeof *weights->files));
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
                            weights->tensors[i].name);
    return PC_OK;
}

const pc__tensor *pc__weights_find(const pc__weights *weights, const char *name)
{
    pc__tensor key = {.name = name};
    return weights->count ? bsearch(&key, weights->tensors, weights->count, sizeof key, by_name)
                          : NULL;
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
