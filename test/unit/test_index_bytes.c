/* Catches: an index that finds other neighbours after writing and reading, or can no longer be
 * changed; damaged bytes that crash, hang or are read beyond their end (with sanitizers); memory
 * that leaks when an allocation fails. */
#include "memo/index/index_bytes.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "memo/index/index.h"
#include "testing.h"

enum { DIM = 24, VECTORS = 900, QUERIES = 20, K = 5 };

static float *make(size_t count, uint64_t seed)
{
    pc_test_rng rng = {seed};
    float *x = malloc(count * DIM * sizeof *x);
    for (size_t i = 0; i < count * DIM; i++)
        x[i] = pc_test_normal(&rng);
    return x;
}

static pc__index_options options_of(pc__index_kind kind)
{
    return (pc__index_options){
        .kind = kind, .dim = DIM, .hnsw_links = 8, .hnsw_build = 30, .hnsw_search = 20, .seed = 5};
}

static pc__index *filled(pc__index_kind kind, const float *x, size_t count)
{
    pc__index_options options = options_of(kind);
    pc__index *index;
    int64_t *ids = malloc(count * sizeof *ids);
    CHECK_OK(pc__index_new(&index, &pc__libc_allocator, &options));
    for (size_t i = 0; i < count; i++)
        ids[i] = (int64_t)(i * 7 % count);
    CHECK_OK(pc__index_add(index, count, x, ids));
    for (int64_t id = 0; id < (int64_t)count / 5; id++)
        CHECK_OK(pc__index_remove(index, id * 3));
    free(ids);
    return index;
}

/* Both find the same, bit for bit. */
static void same(const pc__index *a, const pc__index *b, const float *q)
{
    float distances[2][QUERIES * K];
    int64_t ids[2][QUERIES * K];
    CHECK_INT(pc__index_count(a), pc__index_count(b));
    CHECK_OK(pc__index_search(a, QUERIES, q, K, distances[0], ids[0]));
    CHECK_OK(pc__index_search(b, QUERIES, q, K, distances[1], ids[1]));
    CHECK(!memcmp(distances[0], distances[1], sizeof distances[0])
          && !memcmp(ids[0], ids[1], sizeof ids[0]));
}

static void there_and_back(pc__index_kind kind)
{
    float *x = make(VECTORS, 1), *q = make(QUERIES, 2), distance;
    int64_t fresh = 5000, found;
    pc__index *index = filled(kind, x, VECTORS), *again;
    pc__bytes bytes = {.mem = &pc__libc_allocator}, twice = bytes;
    CHECK_OK(pc__index_write(index, &bytes));
    CHECK_OK(pc__index_read(&again, &pc__libc_allocator, bytes.data, bytes.size, "here"));
    same(index, again, q);
    CHECK_OK(pc__index_write(again, &twice));
    CHECK(bytes.size == twice.size && !memcmp(bytes.data, twice.data, bytes.size));
    CHECK_STATUS(pc__index_add(again, 1, x, &(int64_t){1}),
                 PC_ERR_INVALID); /* it is in the index */
    CHECK_OK(pc__index_add(again, 1, q, &fresh));
    CHECK_OK(pc__index_search(again, 1, q, 1, &distance, &found));
    CHECK(found == fresh && distance == 0.0f);
    CHECK_OK(pc__index_remove(again, fresh));
    same(index, again, q);
    pc__index_free(index);
    pc__index_free(again);
    pc__bytes_free(&bytes);
    pc__bytes_free(&twice);
    free(x);
    free(q);
}

/* Bytes are refused with a reason, or the index can be searched. */
static void damaged(pc__index_kind kind)
{
    float *x = make(VECTORS, 3), *q = make(QUERIES, 4), distances[QUERIES * K];
    int64_t ids[QUERIES * K];
    pc_test_rng rng = {kind + 10u};
    pc__index *index = filled(kind, x, kind == PC__INDEX_FAISS_HNSW ? VECTORS : 100), *again;
    pc__bytes bytes = {.mem = &pc__libc_allocator};
    size_t refused = 0;
    CHECK_OK(pc__index_write(index, &bytes));
    for (size_t i = 0; i < 300; i++) {
        size_t size = i % 3 ? bytes.size : pc_test_bits(&rng) % bytes.size,
               at = pc_test_bits(&rng)
                    % (i % 2     ? bytes.size
                       : i < 100 ? 64
                                 : bytes.size / 3);
        at = i % 5 == 4 ? bytes.size - 1 - at % (bytes.size / 3) : at;
        char *copy = malloc(size + !size), bit = (char)(1 << pc_test_bits(&rng) % 8);
        memcpy(copy, bytes.data, size);
        if (i % 3 && at < size)
            copy[at] = (char)(copy[at] ^ bit);
        pc_status status = pc__index_read(&again, &pc__libc_allocator, copy, size, "there");
        refused += status < 0;
        CHECK(status >= 0 ? again != NULL : !again);
        if (status < 0) {
            CHECK(status == PC_ERR_FORMAT
                  || (status == PC_ERR_UNSUPPORTED && !pc__index_has_faiss()));
            CHECK_ERROR_HAS("there: ");
        } else {
            CHECK_OK(pc__index_search(again, QUERIES, q, K, distances, ids));
        }
        pc__index_free(again);
        free(copy);
    }
    CHECK(refused >= 100);
    pc__index_free(index);
    pc__bytes_free(&bytes);
    free(x);
    free(q);
}

static void no_memory(pc__index_kind kind)
{
    float *x = make(60, 6);
    pc__index *index = filled(kind, x, 60), *again;
    pc__bytes good = {.mem = &pc__libc_allocator};
    int failed = 1;
    CHECK_OK(pc__index_write(index, &good));
    for (uint64_t at = 1; failed; at++) {
        pc_test_memory memory = {.fail_at = at};
        pc_allocator mem = pc_test_allocator(&memory);
        pc__bytes bytes = {.mem = &mem};
        pc_status status = pc__index_read(&again, &mem, good.data, good.size, "here");
        failed = status < 0;
        if (!failed)
            failed = pc__index_write(again, &bytes) < 0;
        CHECK(status >= 0 ? again != NULL : !again && status == PC_ERR_NOMEM);
        CHECK(failed ? !bytes.size : bytes.size == good.size);
        pc__index_free(again);
        pc__bytes_free(&bytes);
        CHECK_INT(memory.live_blocks, 0);
    }
    pc__index_free(index);
    pc__bytes_free(&good);
    free(x);
}

int main(void)
{
    for (pc__index_kind kind = PC__INDEX_SCAN;
         kind <= (pc__index_has_faiss() ? PC__INDEX_FAISS_IVF : PC__INDEX_SCAN); kind++) {
        there_and_back(kind);
        damaged(kind);
        no_memory(kind);
    }
    return pc_test_end();
}
