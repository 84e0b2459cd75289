/* Copies structs whose first field is their size; see options.h. */
#include "base/options.h"

#include <string.h>

#include "base/fail.h"
#include "base/mem.h"

static pc_status read_size(const void *from, size_t v1_size, const char *name, size_t *size)
{
    memcpy(size, from, sizeof *size); /* struct_size is always first */
    if (*size >= v1_size)
        return PC_OK;
    return pc__fail(PC_ERR_INVALID,
                    "%s: struct_size %zu is too small; set the struct up with its INIT macro", name,
                    *size);
}

pc_status pc__options_read(void *dst, size_t dst_size, size_t v1_size, const void *src,
                           const char *name)
{
    size_t size;
    memset(dst, 0, dst_size);
    memcpy(dst, &dst_size, sizeof dst_size);
    if (!src)
        return PC_OK;
    PC__TRY_RETURN(read_size(src, v1_size, name, &size));
    for (size_t i = dst_size; i < size; i++)
        if (((const unsigned char *)src)[i])
            return pc__fail(PC_ERR_UNSUPPORTED,
                            "%s: byte %zu is set, but this library is older and does not know it",
                            name, i);
    memcpy(dst, src, size < dst_size ? size : dst_size);
    memcpy(dst, &dst_size, sizeof dst_size);
    return PC_OK;
}

pc_status pc__result_write(void *dst, size_t v1_size, const void *src, size_t src_size,
                           const char *name)
{
    size_t size;
    if (!dst)
        return pc__fail(PC_ERR_INVALID, "%s: the pointer is NULL", name);
    PC__TRY_RETURN(read_size(dst, v1_size, name, &size));
    memcpy(dst, src, size < src_size ? size : src_size);
    if (size > src_size)
        memset((char *)dst + src_size, 0, size - src_size);
    memcpy(dst, &size, sizeof size);
    return PC_OK;
}

pc_status pc__check_flags(const char *name, uint64_t flags, uint64_t known)
{
    if (flags & ~known)
        return pc__fail(PC_ERR_INVALID, "%s: unknown flags %#llx", name,
                        (unsigned long long)(flags & ~known));
    return PC_OK;
}

pc_status pc__check_enum(const char *name, const char *field, uint32_t value, uint32_t last)
{
    if (value > last)
        return pc__fail(PC_ERR_INVALID, "%s: %s is %u, which does not exist", name, field, value);
    return PC_OK;
}

pc_status pc__check_kv_dtype(const char *name, const char *field, uint32_t value)
{
    if (value == PC_DTYPE_I16)
        return pc__fail(PC_ERR_UNSUPPORTED, "%s: %s is PC_DTYPE_I16, which K and V cannot have",
                        name, field);
    return pc__check_enum(name, field, value, PC_DTYPE_I8);
}

pc_status pc__check_array(const char *call, const char *name, const void *array, size_t count,
                          size_t element)
{
    if (!array && count)
        return pc__fail(PC_ERR_INVALID, "%s: %s is NULL, but has %zu elements", call, name, count);
    if (count > PTRDIFF_MAX / element)
        return pc__fail(PC_ERR_INVALID, "%s: %s has %zu elements: no memory holds so many", call,
                        name, count);
    return PC_OK;
}

/* No struct of ours will be longer; a stride beyond it is a mistake. */
enum { MOST_STRIDE = 1 << 16 };

pc_status pc__array_check(const pc__array *a, const void *array, size_t stride, size_t count)
{
    size_t element = stride > a->size ? stride : a->size;
    if (!count)
        return PC_OK;
    PC__TRY_RETURN(pc__check_array(a->call, a->array, array, count, element));
    if (stride < a->v1_size || stride > MOST_STRIDE)
        return pc__fail(PC_ERR_INVALID, "%s: the stride of %s is %zu; set it to sizeof(%s)",
                        a->call, a->array, stride, a->type);
    return PC_OK;
}

static pc_status copy_element(const pc__array *a, char *to, const char *from, size_t stride,
                              size_t index)
{
    memcpy(to, from, stride < a->size ? stride : a->size);
    for (size_t i = a->size; i < stride; i++)
        if (from[i])
            return pc__fail(PC_ERR_UNSUPPORTED,
                            "%s: byte %zu of %s[%zu], a %s, is set, but this library is older and "
                            "does not know it",
                            a->call, i, a->array, index, a->type);
    return PC_OK;
}

pc_status pc__array_in(const void **dense, void **copy, const pc_allocator *mem, const pc__array *a,
                       const void *array, size_t stride, size_t count)
{
    *copy = NULL;
    *dense = array;
    PC__TRY_RETURN(pc__array_check(a, array, stride, count));
    if (!count || stride == a->size)
        return PC_OK;
    char *made = pc__calloc(mem, count, a->size);
    pc_status status = made ? PC_OK : PC_ERR_NOMEM;
    for (size_t i = 0; i < count && status >= 0; i++)
        status = copy_element(a, made + i * a->size, (const char *)array + i * stride, stride, i);
    if (status < 0) {
        pc__free(mem, made);
        *dense = NULL;
        return status;
    }
    *dense = *copy = made;
    return PC_OK;
}

void pc__array_out(const pc__array *a, void *array, size_t stride, size_t index, const void *from)
{
    char *to = (char *)array + index * stride;
    memcpy(to, from, stride < a->size ? stride : a->size);
    if (stride > a->size)
        memset(to + a->size, 0, stride - a->size);
}
