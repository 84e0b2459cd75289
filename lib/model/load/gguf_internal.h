/* The struct of a pc__gguf, for the files gguf_*.c.
 *
 * The file, little-endian: "GGUF", u32 version, u64 tensors, u64 keys; the keys, each a string (u64
 * length, bytes), u32 type, value; the tensors' descriptions, each a name, u32 rank, u64 dimensions
 * (fastest first), u32 type, u64 offset; zeros up to a multiple of general.alignment; the data,
 * from which offsets count. */
#ifndef PC_MODEL_GGUF_INTERNAL_H
#define PC_MODEL_GGUF_INTERNAL_H

#include "model/load/gguf.h"
#include "model/load/weights_internal.h"

/* Types of values, as the format numbers them. */
typedef enum pc__gguf_type {
    PC__GGUF_U8,
    PC__GGUF_I8,
    PC__GGUF_U16,
    PC__GGUF_I16,
    PC__GGUF_U32,
    PC__GGUF_I32,
    PC__GGUF_F32,
    PC__GGUF_BOOL,
    PC__GGUF_STRING,
    PC__GGUF_ARRAY,
    PC__GGUF_U64,
    PC__GGUF_I64,
    PC__GGUF_F64
} pc__gguf_type;

typedef struct pc__gguf_entry {
    char *key;
    uint32_t type; /* of the value, or of the elements of an array */
    int is_array;
    uint64_t count;      /* elements; 1 for a single value */
    const uint8_t *data; /* first value, in the mapped file; for a string its length field */
    char *text;          /* copy of a single string; NULL if it contains a NUL */
} pc__gguf_entry;

struct pc__gguf {
    pc_allocator mem;
    pc__weights *weights;    /* owns path and mapped file */
    pc__gguf_entry *entries; /* by key */
    size_t count, capacity;
};

/* NULL: no such key. */
const pc__gguf_entry *pc__gguf_find(const pc__gguf *gguf, const char *key);
/* The string at *at (checked when the file was opened); moves *at past it. */
pc__text pc__gguf_next_text(const uint8_t **at);
/* Sets GGUF's name of a tensor type and our type. 0: it cannot be read. */
int pc__gguf_tensor_type(uint32_t number, pc__ttype *type, const char **name);

#endif
