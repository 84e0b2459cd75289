/* Catches: reading beyond the end; invalid sizes, links, lists or vectors that are accepted; an
 * accepted index that cannot be searched, changed and written. Input: a byte, then an index file
 * (bit 0: checksums stay as they are, else they are corrected, so that the reader gets further), or
 * the bytes of one index (bit 1). */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "base/little_endian.h"
#include "fuzz.h"
#include "memo/index/index_bytes.h"
#include "memo/index/index_file.h"

enum { NO_SUMS = 1, BARE = 2, K = 3 };

static void use(pc__index *index, size_t dim)
{
    static const float zeros[4096];
    float distances[K];
    int64_t ids[K], fresh = 0;
    size_t count = pc__index_count(index);
    pc__bytes bytes = {.mem = &fuzz_memory};
    pc__index *again;
    FUZZ_CHECK(pc__index_search(index, 1, zeros, K, distances, ids) == PC_OK);
    for (size_t i = 0; i < K; i++) {
        FUZZ_CHECK((ids[i] >= 0) == (i < count) && !isnan(distances[i]));
        FUZZ_CHECK(ids[i] < 0 || pc__index_has(index, ids[i]));
    }
    if (count)
        FUZZ_CHECK(pc__index_remove(index, ids[0]) == PC_OK && !pc__index_has(index, ids[0]));
    while (pc__index_has(index, fresh))
        fresh++;
    FUZZ_CHECK(pc__index_add(index, 1, zeros, &fresh) == PC_OK);
    count = pc__index_count(index);
    FUZZ_CHECK(pc__index_write(index, &bytes) == PC_OK);
    FUZZ_CHECK(pc__index_read(&again, &fuzz_memory, bytes.data, bytes.size, "again") == PC_OK);
    FUZZ_CHECK(pc__index_count(again) == count && dim <= sizeof zeros / sizeof *zeros);
    pc__index_free(again);
    pc__bytes_free(&bytes);
}

static void as_index(const uint8_t *data, size_t size)
{
    pc__index_options options;
    pc__index *index;
    size_t places = 0;
    const uint8_t *ids = pc__index_bytes_header(data, size, &options, &places);
    FUZZ_CHECK(!ids || (size_t)(ids - data) + places * (8 + 4 * options.dim) <= size);
    if (fuzz_ok(pc__index_read(&index, &fuzz_memory, data, size, "index"))) {
        FUZZ_CHECK(ids && index && pc__index_kind_of(index) == options.kind
                   && pc__index_count(index) <= places);
        use(index, options.dim);
    } else {
        FUZZ_CHECK(!index);
    }
    pc__index_free(index);
}

static void make_sums_right(uint8_t *file, size_t size)
{
    uint64_t head = PC__INDEX_FILE_HEAD;
    if (size < PC__INDEX_FILE_HEAD || pc__index_file_head_measure(file, size, &head) < 0)
        return;
    for (uint8_t *row = file + PC__INDEX_FILE_HEAD; row < file + head - PC__INDEX_FILE_SUM;
         row += PC__INDEX_FILE_ROW) {
        uint64_t at = pc__get_u64(row + 8), bytes = pc__get_u64(row + 16);
        if (at <= size && bytes <= size - at)
            pc__put_u64(row + 24, XXH3_64bits(file + at, (size_t)bytes));
    }
    pc__put_u64(file + head - PC__INDEX_FILE_SUM,
                XXH3_64bits(file, (size_t)head - PC__INDEX_FILE_SUM));
}

static void as_file(const uint8_t *file, size_t size)
{
    pc__index_file_head head;
    if (!fuzz_ok(pc__index_file_head_get(&head, &fuzz_memory, file, size))) {
        FUZZ_CHECK(!head.sections);
        return;
    }
    for (size_t i = 0; i < head.count; i++) {
        const pc__index_file_section *s = &head.sections[i];
        FUZZ_CHECK(pc__index_file_find(&head, s->tokens, s->layer) == s && s->at <= size
                   && s->size <= size - s->at);
        pc__index_options options;
        size_t places = 0;
        if (XXH3_64bits(file + s->at, (size_t)s->size) == s->sum
            && pc__index_bytes_header(file + s->at, (size_t)s->size, &options, &places))
            as_index(file + s->at, (size_t)s->size - 8 * places); /* prompt hashes follow */
    }
    pc__free(&fuzz_memory, head.sections);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    size_t blocks = fuzz_blocks();
    if (!size || size > 64 << 10)
        return 0;
    uint8_t *file = malloc(size);
    FUZZ_CHECK(file);
    memcpy(file, data + 1, size - 1);
    if (!(data[0] & (NO_SUMS | BARE)))
        make_sums_right(file, size - 1);
    if (data[0] & BARE)
        as_index(file, size - 1);
    else
        as_file(file, size - 1);
    free(file);
    fuzz_no_leak(blocks);
    return 0;
}
