/* The head of a bucket's index file as bytes. */
#include "memo/index/index_file.h"

#include <string.h>
#include <xxhash.h>

#include "base/fail.h"
#include "base/little_endian.h"

enum { VERSION = 1 };
static const uint8_t magic[8] = {'P', 'C', 'M', 'E', 'M', 'I', 'D', 'X'};

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
    pc__put_u32(out + 12, (uint32_t)head->count);
    pc__put_u64(out + 16, head->bytes);
    pc__put_u64(out + 24, head->projector);
    for (size_t i = 0; i < head->count; i++) {
        const pc__index_file_section *s = &head->sections[i];
        uint8_t *row = out + PC__INDEX_FILE_HEAD + i * PC__INDEX_FILE_ROW;
        pc__put_u32(row, s->tokens);
        pc__put_u32(row + 4, s->layer);
        pc__put_u64(row + 8, s->at);
        pc__put_u64(row + 16, s->size);
        pc__put_u64(row + 24, s->sum);
    }
    pc__put_u64(out + size, XXH3_64bits(out, size));
}

pc_status pc__index_file_head_measure(const uint8_t *data, uint64_t bytes, uint64_t *size)
{
    if (bytes < PC__INDEX_FILE_HEAD + PC__INDEX_FILE_SUM || memcmp(data, magic, sizeof magic))
        return pc__fail(PC_ERR_FORMAT, "not an index file");
    uint32_t version = pc__get_u32(data + 8), count = pc__get_u32(data + 12);
    if (version != VERSION)
        return pc__fail(PC_ERR_UNSUPPORTED, "version %u; this library reads %d", version, VERSION);
    if (count > PC__INDEX_FILE_MOST || pc__index_file_head_size(count) > bytes
        || pc__get_u64(data + 16) != bytes)
        return pc__fail(PC_ERR_FORMAT, "%u indexes in %llu bytes, of which %llu are there", count,
                        (unsigned long long)pc__get_u64(data + 16), (unsigned long long)bytes);
    *size = pc__index_file_head_size(count);
    return PC_OK;
}

static int section_is_before(const pc__index_file_section *s, uint32_t tokens, uint32_t layer)
{
    return s->tokens < tokens || (s->tokens == tokens && s->layer < layer);
}

static pc_status get_sections(pc__index_file_head *head, const uint8_t *data)
{
    uint64_t end = pc__index_file_head_size(head->count);
    for (size_t i = 0; i < head->count; i++) {
        const uint8_t *row = data + PC__INDEX_FILE_HEAD + i * PC__INDEX_FILE_ROW;
        pc__index_file_section s = {pc__get_u32(row), pc__get_u32(row + 4), pc__get_u64(row + 8),
                                    pc__get_u64(row + 16), pc__get_u64(row + 24)};
        if (i && !section_is_before(&head->sections[i - 1], s.tokens, s.layer))
            return pc__fail(PC_ERR_FORMAT, "index %zu: tokens and layer do not ascend", i);
        if (s.at != end || s.size > head->bytes - end)
            return pc__fail(PC_ERR_FORMAT,
                            "index %zu: offset %llu with %llu bytes leaves a gap or overlaps", i,
                            (unsigned long long)s.at, (unsigned long long)s.size);
        end += s.size;
        head->sections[i] = s;
    }
    return end == head->bytes ? PC_OK
                              : pc__fail(PC_ERR_FORMAT, "%llu bytes behind the last index",
                                         (unsigned long long)(head->bytes - end));
}

pc_status pc__index_file_head_get(pc__index_file_head *out, const pc_allocator *mem,
                                  const uint8_t *data, uint64_t bytes)
{
    uint64_t size;
    pc_status status = pc__index_file_head_measure(data, bytes, &size);
    *out = (pc__index_file_head){0};
    if (status < 0)
        return status;
    if (pc__get_u64(data + size - PC__INDEX_FILE_SUM)
        != XXH3_64bits(data, (size_t)size - PC__INDEX_FILE_SUM))
        return pc__fail(PC_ERR_FORMAT, "the checksum of its head is wrong");
    pc__index_file_head head = {
        .projector = pc__get_u64(data + 24), .bytes = bytes, .count = pc__get_u32(data + 12)};
    for (size_t i = 32; i < PC__INDEX_FILE_HEAD; i++)
        if (data[i])
            return pc__fail(PC_ERR_FORMAT, "offset %zu: not 0", i);
    head.sections = pc__calloc(mem, head.count + 1, sizeof *head.sections);
    if (!head.sections)
        return PC_ERR_NOMEM;
    status = get_sections(&head, data);
    if (status < 0)
        pc__free(mem, head.sections);
    else
        *out = head;
    return status;
}

const pc__index_file_section *pc__index_file_find(const pc__index_file_head *head, uint32_t tokens,
                                                  uint32_t layer)
{
    size_t lo = 0, hi = head->count;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        if (section_is_before(&head->sections[mid], tokens, layer))
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo < head->count && head->sections[lo].tokens == tokens
                   && head->sections[lo].layer == layer
               ? &head->sections[lo]
               : NULL;
}
