/* The codecs of a cache: the built-in ones, of which RAW is here, and the application's. */
#include <string.h>

#include "base/fail.h"
#include "base/mem.h"
#include "base/options.h"
#include "store/codec/codec.h"

enum { BUILT_IN = 4, NAME_BYTES = 32 };

typedef struct codec_entry {
    pc_codec_ops ops;
    char name[NAME_BYTES]; /* a copy: the application's string may be gone later */
} codec_entry;

struct pc__codecs {
    pc_allocator mem;
    size_t count;
    codec_entry entries[];
};

/* ---------------------------------------------------------------- PC_CODEC_RAW */

static size_t raw_bound(void *user, const pc_codec_block *block)
{
    (void)user;
    return block->bytes <= SIZE_MAX ? (size_t)block->bytes : 0;
}

static pc_status raw_encode(void *user, const pc_codec_block *block, const void *data, void *out,
                            size_t capacity, size_t *size)
{
    (void)user;
    *size = 0;
    if (capacity < block->bytes)
        return pc__fail(PC_ERR_LIMIT, "raw block %u: %zu bytes of room for %llu", block->index,
                        capacity, (unsigned long long)block->bytes);
    memcpy(out, data, (size_t)block->bytes);
    *size = (size_t)block->bytes;
    return PC_OK;
}

static pc_status raw_decode(void *user, const pc_codec_block *block, const void *in, size_t size,
                            void *out)
{
    (void)user;
    if (size != block->bytes)
        return pc__fail(PC_ERR_FORMAT, "raw block %u: %zu bytes stored, %llu expected",
                        block->index, size, (unsigned long long)block->bytes);
    memcpy(out, in, size);
    return PC_OK;
}

pc_codec_ops pc__codec_raw(const pc_allocator *mem)
{
    return (pc_codec_ops){
        sizeof(pc_codec_ops), PC_CODEC_RAW,          0, "raw", raw_bound, raw_encode,
        raw_decode,           (void *)(uintptr_t)mem};
}

/* -------------------------------------------------------------------- the list */

static pc_status check_application_codec(const pc__codecs *codecs, const pc_codec_ops *ops,
                                         size_t index)
{
    if (ops->id < PC_CODEC_APPLICATION)
        return pc__fail(PC_ERR_INVALID, "codec %zu: id %u is below PC_CODEC_APPLICATION (%d)",
                        index, ops->id, PC_CODEC_APPLICATION);
    if (pc__codecs_find(codecs, ops->id))
        return pc__fail(PC_ERR_INVALID, "codec %zu: id %u is used twice", index, ops->id);
    if (!ops->bound || !ops->encode || !ops->decode)
        return pc__fail(PC_ERR_INVALID, "codec %zu (id %u): %s is missing", index, ops->id,
                        !ops->bound    ? "bound"
                        : !ops->encode ? "encode"
                                       : "decode");
    if (!ops->name || !ops->name[0] || strnlen(ops->name, NAME_BYTES) == NAME_BYTES)
        return pc__fail(PC_ERR_INVALID, "codec %zu (id %u): a name of 1 to %d bytes is needed",
                        index, ops->id, NAME_BYTES - 1);
    if (ops->lossy > 1)
        return pc__fail(PC_ERR_INVALID, "codec %zu (id %u): lossy is %u, not 0 or 1", index,
                        ops->id, ops->lossy);
    return PC_OK;
}

/* The application's header decides how large an element is. */
static pc_status add_application_codecs(pc__codecs *codecs, const pc_codec_ops *application,
                                        size_t count)
{
    const uint8_t *at = (const uint8_t *)application;
    for (size_t i = 0; i < count; i++) {
        codec_entry *e = &codecs->entries[codecs->count];
        size_t stride;
        PC__TRY_RETURN(pc__options_read(&e->ops, sizeof e->ops, PC__V1_SIZE(pc_codec_ops, user), at,
                                        "pc_codec_ops"));
        PC__TRY_RETURN(check_application_codec(codecs, &e->ops, i));
        memcpy(e->name, e->ops.name, strlen(e->ops.name) + 1);
        e->ops.name = e->name;
        codecs->count++;
        memcpy(&stride, at, sizeof stride);
        at += stride;
    }
    return PC_OK;
}

pc_status pc__codecs_new(pc__codecs **out, const pc_allocator *mem, const pc_codec_ops *application,
                         size_t count)
{
    pc__codecs *codecs;
    pc_status status;
    *out = NULL;
    if (count && !application)
        return pc__fail(PC_ERR_INVALID, "codecs: count is %zu, but the array is NULL", count);
    if (count > UINT16_MAX)
        return pc__fail(PC_ERR_LIMIT, "codecs: %zu are too many", count);
    codecs = pc__calloc(mem, 1, sizeof *codecs + (BUILT_IN + count) * sizeof *codecs->entries);
    if (!codecs)
        return PC_ERR_NOMEM;
    codecs->mem = *mem;
    codecs->entries[codecs->count++].ops = pc__codec_raw(&codecs->mem);
    codecs->entries[codecs->count++].ops = pc__codec_zstd(&codecs->mem);
    codecs->entries[codecs->count++].ops = pc__codec_i8(&codecs->mem);
    codecs->entries[codecs->count++].ops = pc__codec_i4(&codecs->mem);
    if ((status = add_application_codecs(codecs, application, count)) < 0) {
        pc__codecs_free(codecs);
        return status;
    }
    *out = codecs;
    return PC_OK;
}

void pc__codecs_free(pc__codecs *codecs)
{
    if (codecs) {
        pc_allocator mem = codecs->mem;
        pc__free(&mem, codecs);
    }
}

const pc_codec_ops *pc__codecs_find(const pc__codecs *codecs, uint32_t id)
{
    for (size_t i = 0; i < codecs->count; i++)
        if (codecs->entries[i].ops.id == id)
            return &codecs->entries[i].ops;
    return NULL;
}

pc_codec_block pc__image_block(const pc__image *image, size_t index)
{
    return (pc_codec_block){
        .struct_size = sizeof(pc_codec_block),
        .layout = image->form.layout,
        .dtype = image->form.shape.dtype,
        .kv_heads = image->form.shape.kv_heads,
        .k_dim = image->form.shape.k_dim,
        .v_dim = image->form.shape.v_dim,
        .index = (uint32_t)index,
        .tokens = image->tokens,
        .bytes = image->block_bytes[index],
    };
}
