/* One record of the COMPRESSED tier and its pieces (compressed.h). */
#include "store/compressed/compressed.h"

#include <math.h>
#include <string.h>

#include "base/clock.h"
#include "base/fail.h"
#include "base/mem.h"

/* Most bytes that an allocator adds to a block; bytes of a record in tables, heaps and sibling
 * sets. */
enum { AROUND_BLOCK = 64, AROUND_RECORD = 384 };

uint64_t pc__compressed_record_own_bytes(size_t blocks)
{
    return sizeof(pc__compressed_record) + (blocks + 1) * sizeof(pc__compressed_piece)
           + AROUND_BLOCK + AROUND_RECORD;
}

uint64_t pc__compressed_piece_bytes(size_t size)
{
    return (uint64_t)size + AROUND_BLOCK;
}

/* Seconds until the record expires; the date has whole seconds only. */
static double seconds_left(const pc__image *image)
{
    double left = image->expires ? (double)(image->expires - pc__now_date()) : (double)INFINITY;
    return image->ttl > 0 && image->ttl < left + 1 ? image->ttl : left;
}

pc_status pc__compressed_record_new(pc__compressed_record **out, const pc_allocator *mem,
                                    const pc__image *image)
{
    size_t count = image->block_count + 1;
    pc__compressed_record *r = pc__calloc(mem, 1, sizeof *r + count * sizeof r->pieces[0]);
    double left = seconds_left(image);
    *out = r;
    if (!r)
        return PC_ERR_NOMEM;
    r->item.key = image->key;
    r->item.parent = image->parent;
    r->item.has_parent = image->has_parent;
    r->item.priority = image->priority;
    r->item.cost = image->cost;
    r->item.bytes = pc__compressed_record_own_bytes(image->block_count);
    r->item.content = image->content;
    r->item.has_content = image->has_content;
    r->salt = image->salt;
    r->tokens = image->tokens > UINT32_MAX ? UINT32_MAX : (uint32_t)image->tokens;
    r->ttl = image->ttl;
    r->expires = isinf(left) ? 0 : pc__now() + left;
    r->count = count;
    return PC_OK;
}

pc_status pc__compressed_record_set(pc__compressed_record *r, const pc_allocator *mem, size_t piece,
                                    uint64_t offset, const void *data, size_t size)
{
    pc__compressed_piece *p = &r->pieces[piece];
    if (piece >= r->count || p->data)
        return pc__fail(PC_ERR_INTERNAL, "COMPRESSED: piece %zu of %zu was not expected", piece,
                        r->count);
    p->data = pc__alloc_aligned(mem, size, 64);
    if (!p->data)
        return PC_ERR_NOMEM;
    if (size)
        memcpy(p->data, data, size);
    p->offset = offset;
    p->size = size;
    r->item.bytes += pc__compressed_piece_bytes(size);
    r->bytes = offset + size > r->bytes ? offset + size : r->bytes;
    return PC_OK;
}

void pc__compressed_record_free(pc__compressed_record *r, const pc_allocator *mem)
{
    if (!r)
        return;
    for (size_t i = 0; i < r->count; i++)
        pc__free_to_system(mem, r->pieces[i].data);
    pc__free(mem, r);
}

const void *pc__compressed_record_bytes(const pc__compressed_record *r, size_t piece,
                                        uint64_t offset, uint64_t at, size_t size,
                                        pc_status *status)
{
    const pc__compressed_piece *p = piece < r->count && r->pieces[piece].data ? &r->pieces[piece]
                                                                              : NULL;
    *status = PC_OK;
    if (!p)
        *status = pc__fail(PC_ERR_NOT_FOUND, "COMPRESSED: there is no piece %zu", piece);
    else if (p->offset != offset || at > p->size || size > p->size - at)
        *status = pc__fail(PC_ERR_FORMAT,
                           "COMPRESSED: piece %zu is cut short: bytes %llu to %llu of %zu", piece,
                           (unsigned long long)at, (unsigned long long)(at + size), p->size);
    return *status == PC_OK ? (const uint8_t *)p->data + at : NULL;
}
