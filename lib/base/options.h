/* Public structs begin with their size, so that old and new versions can be mixed (doc/abi.md). */
#ifndef PC_BASE_OPTIONS_H
#define PC_BASE_OPTIONS_H

#include <stddef.h>
#include <stdint.h>
#include <promptcache.h>

/* The size of a struct in version 1 of the ABI, by its last field then. sizeof would grow with the
 * struct and refuse older callers. */
#define PC__V1_SIZE(type, last) (offsetof(type, last) + sizeof(((type *)0)->last))

/* Copies a caller's option struct. NULL: all defaults (zeros). Shorter: filled up with zeros;
 * shorter than version 1 (`v1_size`): PC_ERR_INVALID. Longer: the bytes that we do not know must be
 * zero, else PC_ERR_UNSUPPORTED. `name` is for the error text. */
pc_status pc__options_read(void *dst, size_t dst_size, size_t v1_size, const void *src,
                           const char *name);

/* Writes a result struct up to the struct_size that the caller has set, and keeps that size. */
pc_status pc__result_write(void *dst, size_t v1_size, const void *src, size_t src_size,
                           const char *name);

/* PC_ERR_INVALID: `flags` of `name` has bits that are not in `known`. */
pc_status pc__check_flags(const char *name, uint64_t flags, uint64_t known);

/* PC_ERR_INVALID: an enumerator above `last` does not exist. One that exists, but that the call
 * does not take, is PC_ERR_UNSUPPORTED; the caller says so. */
pc_status pc__check_enum(const char *name, const char *field, uint32_t value, uint32_t last);
/* The same for a number format of K and V. */
pc_status pc__check_kv_dtype(const char *name, const char *field, uint32_t value);

/* PC_ERR_INVALID: an array of `call` is NULL but has elements, or has more than fit into memory, so
 * that sums and products of its size would wrap. */
pc_status pc__check_array(const char *call, const char *name, const void *array, size_t count,
                          size_t element);

/* An array of structs that a caller gives. They have no struct_size; a stride beside the array, the
 * caller's sizeof of an element, lets them grow (doc/abi.md). */
typedef struct pc__array {
    const char *call;  /* for error texts: "pc_eval" */
    const char *array; /* "lanes" */
    const char *type;  /* of an element: "pc_lane" */
    size_t size;       /* sizeof of ours */
    size_t v1_size;    /* PC__V1_SIZE */
} pc__array;
#define PC__ARRAY(call, array, type, last) \
    (&(const pc__array){call, array, #type, sizeof(type), PC__V1_SIZE(type, last)})

/* Elements of a caller's array as a dense array of ours: *dense. That is the caller's memory if the
 * stride is our size, and *copy is NULL; else both are a copy, for pc__free. An element is read as
 * pc__options_read reads a struct. */
pc_status pc__array_in(const void **dense, void **copy, const pc_allocator *mem, const pc__array *a,
                       const void *array, size_t stride, size_t count);
/* PC_ERR_INVALID: an array, for results too, that cannot be one. */
pc_status pc__array_check(const pc__array *a, const void *array, size_t stride, size_t count);
/* Writes element `index` of a checked array of results up to its stride; behind what we know stands
 * zero. */
void pc__array_out(const pc__array *a, void *array, size_t stride, size_t index, const void *from);

#endif
