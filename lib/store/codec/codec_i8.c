/* PC_CODEC_I8: pages of PC_DTYPE_I8 (attn/kv.h), written as PC_CODEC_ZSTD writes such pages. */
#include "attn/kv_page.h"
#include "base/fail.h"
#include "store/codec/codec_internal.h"

/* The block in int8. 0: impossible. */
static int as_i8(const pc_codec_block *block, pc__block_pages *pages, pc_codec_block *narrow)
{
    if (block->dtype == PC_DTYPE_I8 || !pc__block_pages_of(block, pages))
        return 0;
    *narrow = *block;
    narrow->dtype = PC_DTYPE_I8;
    pages->shape.dtype = PC_DTYPE_I8;
    narrow->bytes = (uint64_t)pages->pages * (uint64_t)pages->shape.kv_heads
                    * pc__kv_page_bytes(&pages->shape);
    pages->shape.dtype = block->dtype;
    return 1;
}

static size_t bound(void *user, const pc_codec_block *block)
{
    pc_codec_ops zstd = pc__codec_zstd(user);
    pc__block_pages pages;
    pc_codec_block narrow;
    return as_i8(block, &pages, &narrow) ? zstd.bound(zstd.user, &narrow) : 0;
}

/* Converts all pages between two formats. */
static pc_status convert(const pc_allocator *mem, const pc__block_pages *pages, const uint8_t *from,
                         uint32_t from_dtype, uint8_t *to, uint32_t to_dtype)
{
    pc__kv_shape in = pages->shape, out = pages->shape;
    size_t heads = (size_t)in.kv_heads, in_bytes, out_bytes;
    float *k = pc__alloc_aligned(mem, pc__page_floats(&in) * sizeof *k, 64), *v;
    if (!k)
        return PC_ERR_NOMEM;
    v = k + PC__PAGE * (size_t)in.k_dim;
    in.dtype = from_dtype;
    out.dtype = to_dtype;
    in_bytes = pc__kv_page_bytes(&in);
    out_bytes = pc__kv_page_bytes(&out);
    for (size_t i = 0; i < pages->pages * heads; i++) {
        pc__page_read(&in, from + i * in_bytes, k, v);
        pc__page_write(&out, to + i * out_bytes,
                       i / heads + 1 < pages->pages ? PC__PAGE : pages->last, k, v);
    }
    pc__free(mem, k);
    return PC_OK;
}

/* A block and its int8 pages. */
typedef struct narrowing {
    pc__block_pages pages;
    pc_codec_block narrow;
    uint8_t *codes; /* [narrow.bytes], freed by finish_i8 */
} narrowing;

static pc_status start_i8(narrowing *n, const pc_allocator *mem, const pc_codec_block *block,
                          pc_status refusal)
{
    if (!as_i8(block, &n->pages, &n->narrow))
        return pc__fail(refusal, "i8 block %u: not pages of F32, BF16 or F16", block->index);
    n->codes = pc__alloc_aligned(mem, (size_t)n->narrow.bytes, 64);
    return n->codes ? PC_OK : PC_ERR_NOMEM;
}

static pc_status finish_i8(narrowing *n, const pc_allocator *mem, pc_status status)
{
    pc__free(mem, n->codes);
    return status < 0 ? pc__fail_in(status, "i8") : PC_OK;
}

static pc_status encode(void *user, const pc_codec_block *block, const void *data, void *out,
                        size_t capacity, size_t *size)
{
    const pc_allocator *mem = user;
    pc_codec_ops zstd = pc__codec_zstd(mem);
    narrowing n;
    pc_status status;
    *size = 0;
    PC__TRY_RETURN(start_i8(&n, mem, block, PC_ERR_UNSUPPORTED));
    if ((status = convert(mem, &n.pages, data, block->dtype, n.codes, PC_DTYPE_I8)) >= 0)
        status = zstd.encode(zstd.user, &n.narrow, n.codes, out, capacity, size);
    return finish_i8(&n, mem, status);
}

static pc_status decode(void *user, const pc_codec_block *block, const void *in, size_t size,
                        void *out)
{
    const pc_allocator *mem = user;
    pc_codec_ops zstd = pc__codec_zstd(mem);
    narrowing n;
    pc_status status;
    PC__TRY_RETURN(start_i8(&n, mem, block, PC_ERR_FORMAT));
    if ((status = zstd.decode(zstd.user, &n.narrow, in, size, n.codes)) >= 0)
        status = convert(mem, &n.pages, n.codes, PC_DTYPE_I8, out, block->dtype);
    return finish_i8(&n, mem, status);
}

pc_codec_ops pc__codec_i8(const pc_allocator *mem)
{
    return (pc_codec_ops){sizeof(pc_codec_ops),  PC_CODEC_I8, 1, "i8", bound, encode, decode,
                          (void *)(uintptr_t)mem};
}
