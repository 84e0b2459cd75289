/* The head of a bucket's index file as bytes. */
#include "memo/index/index_file.h"

#include <stdlib.h>
#include <string.h>

#include "base/checksum.h"
#include "base/fail.h"
#include "base/fields.h"
#include "base/little_endian.h"

enum { VERSION = 1 };
static const uint8_t magic[8] = {'P', 'C', 'M', 'E', 'M', 'I', 'D', 'X'};

#define HEAD(at, member) PC__FIELD(pc__index_file_head, at, member)
static const pc__field head_fields[] = {HEAD(12, count), HEAD(16, bytes), HEAD(24, projector)};
#define ROW(at, member) PC__FIELD(pc__index_file_section, at, member)
static const pc__field row_fields[] = {ROW(0, tokens), ROW(4, layer), ROW(8, at), ROW(16, size),
                                       ROW(24, sum)};

uint64_t pc__index_file_head_size(size_t count)
{
    return PC__INDEX_FILE_HEAD + (uint64_t)count * PC__INDEX_FILE_ROW + PC__INDEX_FILE_SUM;
}

void pc__index_file_head_put(const pc__index_file_head *head, uint8_t *out)
{
    size_t size = (size_t)pc__index_file_head_size(head->count) - PC__INDEX_FILE_SUM;
    memset(out, 0, size);
    memcpy(out, magic, sizeof magic);
    pc__put_u32(out + 8, VERSION);
    pc__fields_put(out, head, PC__FIELDS(head_fields));
    for (size_t i = 0; i < head->count; i++)
        pc__fields_put(out + PC__INDEX_FILE_HEAD + i * PC__INDEX_FILE_ROW, &head->sections[i],
                       PC__FIELDS(row_fields));
    pc__put_u64(out + size, pc__checksum64(out, size));
}

pc_status pc__index_file_head_measure(const uint8_t *data, uint64_t bytes, uint64_t *size)
{
    pc__index_file_head head;
    if (bytes < PC__INDEX_FILE_HEAD + PC__INDEX_FILE_SUM || memcmp(data, magic, sizeof magic))
        return pc__fail(PC_ERR_FORMAT, "not an index file");
    if (pc__get_u32(data + 8) != VERSION)
        return pc__fail(PC_ERR_UNSUPPORTED, "version %u; this library reads %d",
                        pc__get_u32(data + 8), VERSION);
    pc__fields_get(&head, data, PC__FIELDS(head_fields));
    *size = pc__index_file_head_size(head.count);
    if (head.count > PC__INDEX_FILE_MOST || *size > bytes || head.bytes != bytes)
        return pc__fail(PC_ERR_FORMAT, "%u indexes in %llu bytes, of which %llu are there",
                        head.count, (unsigned long long)head.bytes, (unsigned long long)bytes);
    return PC_OK;
}

static int by_tokens(const void *a, const void *b)
{
    const pc__index_file_section *x = a, *y = b;
    return x->tokens != y->tokens ? (x->tokens > y->tokens) - (x->tokens < y->tokens)
                                  : (x->layer > y->layer) - (x->layer < y->layer);
}

static pc_status get_sections(pc__index_file_head *head, const uint8_t *data)
{
    uint64_t end = pc__index_file_head_size(head->count);
    for (size_t i = 0; i < head->count; i++) {
        pc__index_file_section *s = &head->sections[i];
        pc__fields_get(s, data + PC__INDEX_FILE_HEAD + i * PC__INDEX_FILE_ROW,
                       PC__FIELDS(row_fields));
        if (i && by_tokens(s - 1, s) >= 0)
            return pc__fail(PC_ERR_FORMAT, "index %zu: tokens and layer do not ascend", i);
        if (s->at != end || s->size > head->bytes - end)
            return pc__fail(PC_ERR_FORMAT,
                            "index %zu: offset %llu with %llu bytes leaves a gap or overlaps", i,
                            (unsigned long long)s->at, (unsigned long long)s->size);
        end += s->size;
    }
    return end == head->bytes ? PC_OK
                              : pc__fail(PC_ERR_FORMAT, "%llu bytes behind the last index",
                                         (unsigned long long)(head->bytes - end));
}

pc_status pc__index_file_head_get(pc__index_file_head *out, const pc_allocator *mem,
                                  const uint8_t *data, uint64_t bytes)
{
    uint64_t size;
    pc_status status;
    *out = (pc__index_file_head){0};
    PC__TRY_RETURN(pc__index_file_head_measure(data, bytes, &size));
    if (pc__get_u64(data + size - PC__INDEX_FILE_SUM)
        != pc__checksum64(data, (size_t)size - PC__INDEX_FILE_SUM))
        return pc__fail(PC_ERR_FORMAT, "the checksum of its head is wrong");
    for (size_t i = 32; i < PC__INDEX_FILE_HEAD; i++)
        if (data[i])
            return pc__fail(PC_ERR_FORMAT, "offset %zu: not 0", i);
    pc__fields_get(out, data, PC__FIELDS(head_fields));
    out->sections = pc__calloc(mem, out->count + (size_t)1, sizeof *out->sections);
    status = out->sections ? get_sections(out, data) : PC_ERR_NOMEM;
    if (status < 0) {
        pc__free(mem, out->sections);
        *out = (pc__index_file_head){0};
    }
    return status;
}

const pc__index_file_section *pc__index_file_find(const pc__index_file_head *head, uint32_t tokens,
                                                  uint32_t layer)
{
    pc__index_file_section wanted = {.tokens = tokens, .layer = layer};
    return bsearch(&wanted, head->sections, head->count, sizeof wanted, by_tokens);
}
