/* Reads and writes the size-prefixed structs of the public header across versions (doc/abi.md). */
#ifndef PC_BASE_OPTIONS_H
#define PC_BASE_OPTIONS_H

#include <stddef.h>
#include <stdint.h>
#include <promptcache.h>

/* The size of a struct in version 1 of the ABI, given its last field then. Not sizeof: the struct
 * may grow, and who was compiled before must still be read. */
#define PC__V1_SIZE(type, last) (offsetof(type, last) + sizeof(((type *)0)->last))

/* Copies a caller's option struct: NULL means all defaults (zeros), a shorter one is filled up with
 * zeros, one shorter than version 1 (`v1_size`) is PC_ERR_INVALID, a longer one must be zero where
 * we know nothing of it, else PC_ERR_UNSUPPORTED. `name` stands in the error text. */
pc_status pc__options_read(void *dst, size_t dst_size, size_t v1_size, const void *src,
                           const char *name);

/* Writes a result struct up to the size that the caller gave in its struct_size; keeps that
 * struct_size. */
pc_status pc__result_write(void *dst, size_t v1_size, const void *src, size_t src_size,
                           const char *name);

/* Bits of `flags` that are none of the `known` ones; the header's flags are ints, so ~ of them is
 * of another sign. */
static inline uint64_t pc__unknown_bits(uint64_t flags, uint64_t known)
{
    return flags & ~known;
}

#endif
