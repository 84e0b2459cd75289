/* The head of a saved sequence as bytes. Catches: a field that is lost or moved on the way; bytes
 * that differ from doc/format.md; bytes that are cut short, too long or changed and are read beyond
 * their end, allocate what only they claim, or give indices beyond what is there; leaks when memory
 * runs out. */
#include "serve/sequence_head.h"

#include <stdlib.h>
#include <string.h>

#include "base/little_endian.h"
#include "testing.h"

enum { RUN_TOKENS = 70, PAGES = 1 };

static int32_t tokens[3] = {5, 6, 7}, own[2] = {8, 9}, history[4] = {1, ~2, 3, ~4};
static int32_t ids[RUN_TOKENS];
static int64_t gaps[RUN_TOKENS];
static pc__id keys[3];

static pc__saved_run runs[2];
static pc__saved_span spans[2];

static pc__saved_head example(void)
{
    pc__saved_head h = {.version = PC__SAVED_VERSION,
                        .counter = 12,
                        .chunk_pages = PAGES,
                        .next_position = 400,
                        .own_last = UINT64_MAX,
                        .regime = 1,
                        .visibility = PC_VISIBLE_BY_POSITION,
                        .exactness = PC_EXACT,
                        .finish = PC_FINISH_LENGTH,
                        .pending = 1,
                        .turn = 2,
                        .seed = 77,
                        .random = {1, 2, 3, UINT64_MAX},
                        .token_count = 3,
                        .own_count = 2,
                        .history_count = 4,
                        .run_count = 2,
                        .span_count = 2,
                        .tokens = tokens,
                        .own = own,
                        .history = history,
                        .runs = runs,
                        .spans = spans};
    for (int i = 0; i < RUN_TOKENS; i++) {
        ids[i] = i * 3;
        gaps[i] = i < 10 ? i : i + 5;
    }
    for (int i = 0; i < 3; i++)
        memset(keys[i].bytes, 0x11 * (i + 1), sizeof keys[i].bytes);
    runs[0] = (pc__saved_run){.flags = PC__RUN_SHARED | PC__RUN_HAS_VISIBILITY,
                              .dtype = PC_DTYPE_F32,
                              .regime = 1,
                              .origin = 3,
                              .visibility = {{9}},
                              .tokens = 9,
                              .ids = ids,
                              .keys = keys};
    runs[1] = (pc__saved_run){.dtype = PC_DTYPE_BF16,
                              .origin = 9,
                              .tokens = RUN_TOKENS,
                              .ids = ids,
                              .relative = gaps,
                              .keys = keys + 1};
    spans[0] = (pc__saved_span){.run = 0, .lo = 1, .hi = 9, .start = 0};
    spans[1] = (pc__saved_span){
        .run = 1, .lo = 0, .hi = RUN_TOKENS, .own = 1, .grows = 1, .start = 9};
    return h;
}

static void there_and_back(const pc__bytes *bytes)
{
    pc__saved_head want = example(), have;
    size_t numbers = offsetof(pc__saved_head, tokens);
    const uint8_t *data = (const uint8_t *)bytes->data;
    if (!CHECK_OK(pc__saved_head_read(&have, &pc__libc_allocator, data, bytes->size)))
        return;
    CHECK(!memcmp(&have, &want, numbers));
    CHECK(!memcmp(have.tokens, tokens, sizeof tokens) && !memcmp(have.own, own, sizeof own)
          && !memcmp(have.history, history, sizeof history));
    for (size_t r = 0; r < 2; r++) {
        const pc__saved_run *a = &have.runs[r], *b = &runs[r];
        CHECK_INT(a->flags, b->flags);
        CHECK_INT(a->dtype, b->dtype);
        CHECK_INT(a->regime, b->regime);
        CHECK_INT(a->origin, b->origin);
        CHECK_INT(a->tokens, b->tokens);
        CHECK(!memcmp(a->ids, b->ids, b->tokens * sizeof *ids));
        CHECK(!memcmp(&a->visibility, &b->visibility, sizeof a->visibility));
        CHECK((a->relative != NULL) == (b->relative != NULL));
        CHECK(!b->relative || !memcmp(a->relative, gaps, sizeof gaps));
        CHECK_INT(pc__saved_keys(&have, a), r ? 2 : 1);
        CHECK(!memcmp(a->keys, b->keys, (r + 1) * sizeof *keys));
        CHECK(!memcmp(&have.spans[r], &spans[r], sizeof *spans));
    }
    pc__saved_head_free(&have, &pc__libc_allocator);
    /* as doc/format.md has them */
    CHECK_INT(pc__get_u64(data), 1);
    CHECK_INT(pc__get_u64(data + 8), 12);
    CHECK_INT(pc__get_u64(data + 24), 400);
    CHECK_INT(pc__get_u32(data + numbers), 5);
    CHECK_INT((int32_t)pc__get_u32(data + numbers + 4 * 6), ~2);
}

/* What is used as an index is within what is there. */
static void is_safe(const pc__saved_head *h)
{
    for (size_t i = 0; i < h->span_count; i++) {
        CHECK(h->spans[i].run < h->run_count);
        CHECK(h->spans[i].lo < h->spans[i].hi && h->spans[i].hi <= h->runs[h->spans[i].run].tokens);
    }
    CHECK(h->pending <= h->token_count && h->turn <= h->token_count);
    for (size_t r = 0; r < h->run_count; r++)
        CHECK(h->runs[r].tokens && h->runs[r].ids && h->runs[r].keys);
}

static void read_changed(const uint8_t *data, size_t size)
{
    uint8_t *exact = malloc(size ? size : 1); /* so that reading beyond it is seen */
    pc_test_memory memory = {0};
    pc_allocator mem = pc_test_allocator(&memory);
    pc__saved_head h;
    pc_status status;
    memcpy(exact, data, size);
    status = pc__saved_head_read(&h, &mem, exact, size);
    if (status >= 0)
        is_safe(&h);
    else
        CHECK(status == PC_ERR_FORMAT || status == PC_ERR_UNSUPPORTED);
    CHECK(memory.live_bytes < 64 * (int64_t)size + 4096);
    pc__saved_head_free(&h, &mem);
    CHECK_INT(memory.live_blocks, 0);
    free(exact);
}

static void changed(const pc__bytes *bytes)
{
    static const uint8_t values[] = {0, 1, 0x7f, 0x80, 0xff};
    uint8_t *copy = malloc(bytes->size + 8);
    for (size_t n = 0; n < bytes->size; n++)
        read_changed((const uint8_t *)bytes->data, n);
    memcpy(copy, bytes->data, bytes->size);
    memset(copy + bytes->size, 0, 8);
    read_changed(copy, bytes->size + 8);
    for (size_t at = 0; at < bytes->size; at++)
        for (size_t v = 0; v < sizeof values; v++) {
            uint8_t was = copy[at];
            copy[at] = values[v];
            read_changed(copy, bytes->size);
            copy[at] = was;
        }
    free(copy);
}

static void out_of_memory(const pc__bytes *bytes)
{
    for (uint64_t at = 1;; at++) {
        pc_test_memory memory = {.fail_at = at};
        pc_allocator mem = pc_test_allocator(&memory);
        pc__bytes out = {.mem = &mem};
        pc__saved_head h = example(), have = {.version = 0};
        pc_status status = pc__saved_head_write(&h, &out);
        if (status >= 0)
            status = pc__saved_head_read(&have, &mem, bytes->data, bytes->size);
        CHECK_STATUS(status, memory.calls < at ? PC_OK : PC_ERR_NOMEM);
        pc__saved_head_free(&have, &mem);
        pc__bytes_free(&out);
        CHECK_INT(memory.live_blocks, 0);
        if (status >= 0)
            break;
    }
}

int main(void)
{
    pc__bytes bytes = {.mem = &pc__libc_allocator};
    pc__saved_head h = example();
    CHECK_OK(pc__saved_head_write(&h, &bytes));
    there_and_back(&bytes);
    changed(&bytes);
    out_of_memory(&bytes);
    pc__bytes_free(&bytes);
    return pc_test_end();
}
