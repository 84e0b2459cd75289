/* What the files gguf_*.c share: the struct of a pc__gguf, typed access to its metadata.
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
/* ---- the configuration (gguf_config.c) */

/* Keys are those of the architecture: "<architecture>.<name>". */
typedef struct pc__meta {
    pc__gguf *gguf;
    const pc__weights *weights;
    const char *path;
    const char *architecture;
} pc__meta;

enum { PC__META_KEY = 128 };

const char *pc__meta_key(const pc__meta *s, const char *name, char key[PC__META_KEY]); /* key */
/* Reads a size; 0 and PC_OK if the key is missing and not `wanted`. Of one value a layer all must
 * be equal. */
pc_status pc__meta_size(const pc__meta *s, const char *name, int wanted, int32_t *out);
/* *out stays if the key is missing. */
pc_status pc__meta_number(const pc__meta *s, const char *name, double *out);
/* PC_ERR_UNSUPPORTED: the key exists with a value other than `neutral`, which changes nothing. */
pc_status pc__meta_only(const pc__meta *s, const char *name, double neutral);

pc_status pc__gguf_rope(const pc__meta *s, const pc_allocator *mem, pc__arch *arch);
/* `name`: that of the architecture's models with experts; NULL: refuses experts. */
pc_status pc__gguf_experts(const pc__meta *s, const char *name, pc__arch *arch);

#endif
