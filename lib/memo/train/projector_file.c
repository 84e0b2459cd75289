/* Writes and reads projector files. Everything that is read is checked. */
#include <math.h>
#include <string.h>

#include "base/checksum.h"
#include "base/little_endian.h"
#include "memo/index/index_bytes.h"
#include "memo/train/projector_internal.h"

enum {
    VERSION = 1,
    AT_VERSION = 8,
    AT_KIND = 12,
    AT_SIZE = 16,
    AT_SHAPE = 24,
    HEAD = PC__PROJECTOR_HEAD,
    SUM = PC__PROJECTOR_SUM
};
static const uint8_t MAGIC[8] = {0x89, 'P', 'C', 'P', 0x0d, 0x0a, 0x1a, 0x0a};

uint64_t pc__projector_file_size(const pc__projector_shape *shape, size_t extra, size_t copies)
{
    uint64_t cells = (uint64_t)shape->rows * shape->columns, inner = shape->inner;
    uint64_t weights = (cells + 1) * inner + inner * PC__FEATURE_DIM;
    return HEAD + (uint64_t)extra + 4 * (2 * cells + copies * weights) + SUM;
}

pc_status pc__projector_file_head(pc__bytes *out, const pc__projector_shape *shape, uint32_t kind,
                                  uint64_t size)
{
    uint8_t head[HEAD] = {0};
    size_t sizes[] = {shape->hidden,  shape->min_tokens, shape->max_tokens, shape->rows,
                      shape->columns, shape->inner,      PC__FEATURE_DIM};
    memcpy(head, MAGIC, sizeof MAGIC);
    pc__put_u32(head + AT_VERSION, VERSION);
    pc__put_u32(head + AT_KIND, kind);
    pc__put_u64(head + AT_SIZE, size);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        pc__put_u32(head + AT_SHAPE + 4 * i, (uint32_t)sizes[i]);
    return pc__bytes_add(out, head, sizeof head);
}

pc_status pc__projector_file_end(pc__bytes *out)
{
    uint8_t sum[SUM];
    pc__put_u64(sum, pc__checksum64(out->data, out->size));
    return pc__bytes_add(out, sum, sizeof sum);
}

static pc_status read_projector_shape(const uint8_t *data, size_t size, size_t extra, size_t copies,
                                      pc__projector_shape *shape)
{
    const uint8_t *at = data + AT_SHAPE;
    *shape = (pc__projector_shape){pc__get_u32(at),      pc__get_u32(at + 4),
                                   pc__get_u32(at + 8),  pc__get_u32(at + 12),
                                   pc__get_u32(at + 16), pc__get_u32(at + 20)};
    if (!shape->rows || !shape->columns || !shape->inner)
        return pc__fail(PC_ERR_FORMAT, "%zu x %zu cells and inner size %zu", shape->rows,
                        shape->columns, shape->inner);
    if (pc__projector_check(shape) < 0)
        return pc__fail_in(PC_ERR_FORMAT, "its shape is not valid");
    if (pc__get_u32(at + 24) != PC__FEATURE_DIM)
        return pc__fail(PC_ERR_FORMAT, "features of %u numbers, not %d", pc__get_u32(at + 24),
                        PC__FEATURE_DIM);
    if (pc__get_u32(at + 28))
        return pc__fail(PC_ERR_FORMAT, "offset %d: %u, not 0", AT_SHAPE + 28, pc__get_u32(at + 28));
    if (pc__projector_file_size(shape, extra, copies) != size)
        return pc__fail(PC_ERR_FORMAT, "%zu bytes do not hold %zu x %zu cells with inner size %zu",
                        size, shape->rows, shape->columns, shape->inner);
    return PC_OK;
}

pc_status pc__projector_file_check(const uint8_t *data, size_t size, uint32_t kind, size_t extra,
                                   size_t copies, pc__projector_shape *shape)
{
    if (size < HEAD + SUM)
        return pc__fail(PC_ERR_FORMAT, "%zu bytes are too few for a projector file", size);
    if (memcmp(data, MAGIC, sizeof MAGIC))
        return pc__fail(PC_ERR_FORMAT, "offset 0: not a projector file");
    if (pc__get_u32(data + AT_VERSION) != VERSION)
        return pc__fail(PC_ERR_UNSUPPORTED, "offset %d: version %u, this library reads %d",
                        AT_VERSION, pc__get_u32(data + AT_VERSION), VERSION);
    if (pc__get_u64(data + AT_SIZE) != size)
        return pc__fail(PC_ERR_FORMAT, "offset %d: its head says %llu bytes, the file has %zu",
                        AT_SIZE, (unsigned long long)pc__get_u64(data + AT_SIZE), size);
    if (pc__get_u64(data + size - SUM) != pc__checksum64(data, size - SUM))
        return pc__fail(PC_ERR_FORMAT, "offset %zu: the checksum is wrong", size - SUM);
    if (pc__get_u32(data + AT_KIND) != kind)
        return pc__fail(PC_ERR_FORMAT, "offset %d: kind %u, not %u", AT_KIND,
                        pc__get_u32(data + AT_KIND), kind);
    return read_projector_shape(data, size, extra, copies, shape);
}

pc_status pc__projector_file_read_floats(const uint8_t *data, size_t *at, float *values,
                                         size_t count, const char *what, int above_zero)
{
    for (size_t i = 0; i < count; i++, *at += 4) {
        uint32_t bits = pc__get_u32(data + *at);
        memcpy(values + i, &bits, sizeof bits);
        if (!isfinite(values[i]) || (above_zero && !(values[i] > 0)))
            return pc__fail(PC_ERR_FORMAT, "offset %zu: %s %zu is %g", *at, what, i,
                            (double)values[i]);
    }
    return PC_OK;
}

pc_status pc__projector_write(const pc__projector *projector, pc__bytes *out)
{
    out->size = 0;
    PC__TRY_RETURN(pc__projector_file_head(out, &projector->shape, PC__FILE_PROJECTOR,
                                           pc__projector_file_size(&projector->shape, 0, 1)));
    PC__TRY_RETURN(pc__index_put_words(out, projector->mean, 2 * projector->cells)); /* and scale */
    PC__TRY_RETURN(pc__index_put_words(out, projector->first, projector->weights));
    return pc__projector_file_end(out);
}

pc_status pc__projector_read(pc__projector **out, const pc_allocator *mem, const void *data,
                             size_t size, const char *where)
{
    pc__projector_shape shape;
    pc__projector *p = NULL;
    size_t at = HEAD;
    pc_status status;
    *out = NULL;
    PC__TRY(pc__projector_file_check(data, size, PC__FILE_PROJECTOR, 0, 1, &shape), fail);
    PC__TRY(pc__projector_make(&p, mem, &shape), fail);
    PC__TRY(pc__projector_file_read_floats(data, &at, p->mean, p->cells, "mean", 0), fail);
    PC__TRY(pc__projector_file_read_floats(data, &at, p->scale, p->cells, "scale", 1), fail);
    PC__TRY(pc__projector_file_read_floats(data, &at, p->first, p->weights, "weight", 0), fail);
    *out = p;
    return PC_OK;
fail:
    pc__projector_free(p);
    return pc__fail_in(status, "%s: projector", where);
}
