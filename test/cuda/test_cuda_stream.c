/* Catches: work that runs out of the order of its stream; a table that is read after its owner has
 * changed it; a ring of tables whose first is overwritten before the device has read it; memory of
 * the CPU that a copy writes early, in the wrong order, or after the caller has stopped waiting for
 * it; an error that is lost, replaced by a later one, or kept after it was reported; a wait that
 * failed and was none; memory of a stream that is handed to another one while it is in use; a kept
 * list that is another one, is uploaded twice, or stays after `finish`. */
#include <stdlib.h>
#include <string.h>

#include "cuda_testing.h"

enum { NUMBERS = 4096, BYTES = NUMBERS * 4 };

static void *take(pc__cuda_pool *pool, size_t bytes)
{
    void *memory = NULL;
    CHECK_OK(pc__cuda_pool_take(pool, bytes, &memory));
    return memory;
}

static void fill(uint32_t *numbers, uint32_t first)
{
    for (uint32_t i = 0; i < NUMBERS; i++)
        numbers[i] = first + i;
}

static int holds(const uint32_t *numbers, uint32_t first)
{
    for (uint32_t i = 0; i < NUMBERS; i++)
        if (numbers[i] != first + i)
            return 0;
    return 1;
}

/* Each step undoes or needs the one before. */
static void one_stream(void)
{
    static uint32_t in[NUMBERS], out[NUMBERS], zeroed[NUMBERS];
    pc_cuda_place p;
    CHECK_OK(pc_cuda_open(&p, NULL, 0));
    void *a = take(p.pool, BYTES), *b = take(p.pool, BYTES);
    fill(in, 7);
    memset(zeroed, 1, sizeof zeroed);
    for (int round = 0; round < 20; round++) {
        pc__cuda_copy(p.stream, a, in, BYTES);
        pc__cuda_copy(p.stream, b, a, BYTES);
        pc__cuda_zero(p.stream, a, BYTES);
        pc__cuda_copy(p.stream, out, b, BYTES);
        pc__cuda_copy(p.stream, zeroed, a, BYTES);
        pc__cuda_zero(p.stream, b, BYTES);
    }
    pc__cuda_copy(p.stream, a, in, 0);
    CHECK_OK(pc__cuda_finish(p.stream));
    CHECK(holds(out, 7));
    CHECK(!zeroed[0] && !memcmp(zeroed, zeroed + 1, sizeof zeroed - 4));
    pc__cuda_pool_give(p.pool, a);
    pc__cuda_pool_give(p.pool, b);
    pc_cuda_close(&p);
}

/* The fake device does let two streams meet that do not wait: else tests of visits say nothing. */
static void unordered_streams_meet(void)
{
    static uint32_t in[NUMBERS], out[NUMBERS];
    int early = 0;
    for (uint64_t seed = 1; seed <= 40 && !early; seed++) {
        pc_fake_options options = PC_FAKE_OPTIONS;
        pc_cuda_place p;
        pc__cuda_stream *other = NULL;
        options.seed = seed;
        CHECK_OK(pc_cuda_open(&p, &options, 0));
        CHECK_OK(pc__cuda_stream_new(&other, p.pool));
        void *shared = take(p.pool, BYTES);
        fill(in, 5);
        pc_fake_hold(1);
        pc__cuda_copy(p.stream, shared, in, BYTES);
        pc__cuda_copy(other, out, shared, BYTES);
        pc_fake_hold(0);
        CHECK_OK(pc__cuda_finish(p.stream));
        CHECK_OK(pc__cuda_finish(other));
        early = !holds(out, 5);
        pc__cuda_pool_give(p.pool, shared);
        pc__cuda_stream_free(other);
        pc_cuda_close(&p);
    }
    CHECK(early);
}

/* ------------------------------------------------------------------ staging */

/* The table is overwritten after each upload, and there are several rounds of the ring in flight.
 */
static void tables_may_change(size_t bytes, int tables)
{
    pc_cuda_place p;
    uint8_t *table = malloc(bytes), *back = malloc(bytes * (size_t)tables);
    int right = 0;
    CHECK_OK(pc_cuda_open(&p, NULL, 0));
    uint8_t *device = take(p.pool, bytes * (size_t)tables);
    for (int i = 0; i < tables; i++) {
        memset(table, i + 1, bytes);
        pc__cuda_upload(p.stream, device + bytes * (size_t)i, table, bytes);
    }
    memset(table, 0, bytes);
    pc__cuda_copy(p.stream, back, device, bytes * (size_t)tables);
    CHECK_OK(pc__cuda_finish(p.stream));
    for (int i = 0; i < tables; i++) {
        const uint8_t *got = back + bytes * (size_t)i;
        right += got[0] == (uint8_t)(i + 1) && !memcmp(got, got + 1, bytes - 1);
    }
    CHECK_INT(right, tables);
    pc__cuda_pool_give(p.pool, device);
    pc_cuda_close(&p);
    free(table);
    free(back);
}

/* Each number goes to the device, on to the next one's place, and back, with other copies of all
 * lengths between; several rounds of the ring are in flight. */
static void copies_both_ways(size_t bytes, int copies)
{
    pc_cuda_place p;
    uint8_t *in = malloc(bytes), *back = malloc(bytes * (size_t)copies), little[7] = {0};
    int right = 0;
    CHECK_OK(pc_cuda_open(&p, NULL, 0));
    uint8_t *device = take(p.pool, 2 * bytes);
    memset(back, 0xaa, bytes * (size_t)copies);
    for (int i = 0; i < copies; i++) {
        memset(in, i + 1, bytes);
        pc__cuda_copy(p.stream, device, in, bytes);
        memset(in, 0xff, bytes);
        pc__cuda_copy(p.stream, device + bytes, device, bytes);
        pc__cuda_zero(p.stream, device, bytes);
        pc__cuda_copy(p.stream, back + bytes * (size_t)i, device + bytes, bytes);
        pc__cuda_copy(p.stream, little, device, bytes < sizeof little ? bytes : sizeof little);
    }
    CHECK_OK(pc__cuda_finish(p.stream));
    for (int i = 0; i < copies; i++) {
        const uint8_t *got = back + bytes * (size_t)i;
        right += got[0] == (uint8_t)(i + 1) && !memcmp(got, got + 1, bytes - 1);
    }
    CHECK_INT(right, copies);
    pc__cuda_pool_give(p.pool, device);
    pc_cuda_close(&p);
    free(in);
    free(back);
}

/* Memory of the CPU that one copy writes and the next one reads; the last of two that write to one
 * place. */
static void copies_by_the_host(void)
{
    static uint32_t in[NUMBERS], between[NUMBERS], out[NUMBERS];
    pc_cuda_place p;
    CHECK_OK(pc_cuda_open(&p, NULL, 0));
    void *a = take(p.pool, BYTES), *b = take(p.pool, BYTES);
    for (uint32_t i = 0; i < 5; i++) {
        fill(in, i);
        pc__cuda_copy(p.stream, a, in, BYTES);
        pc__cuda_copy(p.stream, between, a, BYTES);
        pc__cuda_copy(p.stream, (char *)b + 4, between + 1, BYTES - 4);
        pc__cuda_copy(p.stream, b, between, 4);
        pc__cuda_copy(p.stream, out, b, BYTES);
    }
    CHECK_OK(pc__cuda_finish(p.stream));
    CHECK(holds(out, 4));
    pc__cuda_pool_give(p.pool, a);
    pc__cuda_pool_give(p.pool, b);
    pc_cuda_close(&p);
}

/* Two copies to one place, in two stages: the last one stays. */
static void last_copy_stays(void)
{
    enum { LARGE = PC__CUDA_STAGE_BYTES * 2 / 3 };
    static uint8_t out[LARGE];
    pc_cuda_place p;
    CHECK_OK(pc_cuda_open(&p, NULL, 0));
    uint8_t *a = take(p.pool, LARGE);
    for (int last = 0; last < PC__CUDA_STAGES; last++) { /* begins in another stage each time */
        memset(out, 1, LARGE);
        pc__cuda_copy(p.stream, a, out, LARGE);
        pc__cuda_copy(p.stream, out, a, LARGE);
        pc__cuda_zero(p.stream, a, LARGE);
        pc__cuda_copy(p.stream, out, a, LARGE);
        CHECK_OK(pc__cuda_finish(p.stream));
        CHECK(!out[0] && !memcmp(out, out + 1, LARGE - 1));
    }
    pc__cuda_pool_give(p.pool, a);
    pc_cuda_close(&p);
}

/* After a `finish` that did not wait, memory of the caller may be gone. */
static void nothing_is_written_later(void)
{
    static uint32_t out[NUMBERS];
    pc_cuda_place p;
    if (pc_cuda_real())
        return;
    for (int lost = 0; lost < 2; lost++) {
        CHECK_OK(pc_cuda_open(&p, NULL, 0));
        void *a = take(p.pool, BYTES);
        pc__cuda_zero(p.stream, a, BYTES);
        CHECK_OK(pc__cuda_finish(p.stream));
        if (lost)
            pc_fake_fail_work(2, cudaErrorIllegalAddress);
        pc__cuda_copy(p.stream, out, a, BYTES);
        pc__cuda_zero(p.stream, a, BYTES);
        if (lost)
            CHECK_STATUS(pc__cuda_finish(p.stream), PC_ERR_DEAD);
        fill(out, 9);
        pc__cuda_stream_free(p.stream);
        p.stream = NULL;
        CHECK(holds(out, 9));
        pc__cuda_pool_give(p.pool, a);
        pc_cuda_close(&p);
    }
}

/* Copies do not wait while there is room: nothing runs, and they return. */
static void copies_do_not_wait(void)
{
    static uint8_t table[1000];
    pc_cuda_place p;
    if (pc_cuda_real())
        return;
    CHECK_OK(pc_cuda_open(&p, NULL, 0));
    uint8_t *device = take(p.pool, sizeof table);
    pc__cuda_zero(p.stream, device, sizeof table);
    CHECK_OK(pc__cuda_finish(p.stream));
    uint64_t operations = pc_fake_operations();
    pc_fake_hold(1);
    for (int i = 0; i < 3 * PC__CUDA_STAGE_BYTES / 2048; i++) {
        pc__cuda_upload(p.stream, device, table, 500);
        pc__cuda_copy(p.stream, table + 500, device, 450);
    }
    CHECK_INT(pc_fake_operations(), operations);
    pc_fake_hold(0);
    CHECK_OK(pc__cuda_finish(p.stream));
    pc__cuda_pool_give(p.pool, device);
    pc_cuda_close(&p);
}

/* ------------------------------------------------------------------- errors */

static void first_error_stays(void)
{
    pc_cuda_place p;
    if (pc_cuda_real())
        return;
    CHECK_OK(pc_cuda_open(&p, NULL, 0));
    uint8_t *a = take(p.pool, 64);
    pc_fake_fail_named("cudaMemsetAsync", 1, cudaErrorInvalidValue);
    pc__cuda_zero(p.stream, a, 64);
    uint64_t calls = pc_fake_calls();
    pc__cuda_zero(p.stream, a, 64);
    pc__cuda_copy(p.stream, a, a + 32, 32);
    pc__cuda_upload(p.stream, a, "12345678", 8);
    CHECK_INT(pc_fake_calls(), calls); /* nothing was queued after it */
    pc_error_set("another error of this thread");
    CHECK_STATUS(pc__cuda_finish(p.stream), PC_ERR_INTERNAL);
    CHECK_STR(pc_error_text(),
              "CUDA device 0 (fake device): cudaMemsetAsync: cudaErrorInvalidValue "
              "(1), an error of the fake device");
    CHECK_OK(pc__cuda_finish(p.stream)); /* it is reported once */
    pc__cuda_zero(p.stream, a, 64);
    CHECK_OK(pc__cuda_finish(p.stream));
    pc__cuda_pool_give(p.pool, a);
    pc_cuda_close(&p);
}

/* An error of the device shows only when it is waited for; the context is lost with it. */
static void late_errors(void)
{
    pc_cuda_place p;
    if (pc_cuda_real())
        return;
    CHECK_OK(pc_cuda_open(&p, NULL, 0));
    uint8_t *a = take(p.pool, 64);
    pc__cuda_zero(p.stream, a + 60, 8); /* over the end of the memory */
    CHECK_STATUS(pc__cuda_finish(p.stream), PC_ERR_DEAD);
    CHECK_ERROR_HAS("cudaErrorIllegalAddress");
    pc__cuda_pool_give(p.pool, a);
    pc_cuda_close(&p);

    CHECK_OK(pc_cuda_open(&p, NULL, 0));
    a = take(p.pool, 64);
    pc_fake_fail_work(2, cudaErrorIllegalAddress);
    for (int i = 0; i < 4; i++)
        pc__cuda_zero(p.stream, a, 64);
    CHECK_STATUS(pc__cuda_finish(p.stream), PC_ERR_DEAD);
    CHECK_ERROR_HAS("cudaErrorIllegalAddress");
    CHECK_STATUS(pc__cuda_finish(p.stream), PC_ERR_DEAD); /* for good */
    pc__cuda_pool_give(p.pool, a);
    pc_cuda_close(&p);
}

/* Memory of queued work is given back after `finish`, also after one that failed. */
static void work_is_done_after_a_failed_finish(void)
{
    static uint32_t in[NUMBERS], out[NUMBERS];
    pc_cuda_place p;
    if (pc_cuda_real())
        return;
    CHECK_OK(pc_cuda_open(&p, NULL, 0));
    void *a = take(p.pool, BYTES);
    fill(in, 5);
    for (int i = 0; i < 50; i++) {
        memset(out, 0, sizeof out);
        pc__cuda_copy(p.stream, a, in, BYTES);
        pc__cuda_copy(p.stream, out, a, BYTES);
        pc_fake_fail_named("cudaStreamSynchronize", 1, cudaErrorInvalidValue);
        CHECK_STATUS(pc__cuda_finish(p.stream), PC_ERR_INTERNAL);
        CHECK_ERROR_HAS("cudaStreamSynchronize");
        CHECK(holds(out, 5));
    }
    pc__cuda_pool_give(p.pool, a);
    pc_cuda_close(&p);
}

/* ------------------------------------------------------------------ scratch */

static void scratch(void)
{
    static uint32_t in[2][NUMBERS], out[2][NUMBERS];
    pc_cuda_place p;
    void *a, *b, *c;
    CHECK_OK(pc_cuda_open(&p, NULL, 0));
    fill(in[0], 1);
    fill(in[1], 2);
    for (int i = 0; i < 2; i++) {
        CHECK_OK(pc__cuda_scratch_take(p.stream, BYTES, &a));
        pc__cuda_copy(p.stream, a, in[i], BYTES);
        pc__cuda_copy(p.stream, out[i], a, BYTES);
        pc__cuda_scratch_give(p.stream, a); /* the work before has not run */
    }
    CHECK_OK(pc__cuda_scratch_take(p.stream, BYTES - 100, &b));
    CHECK(b == a); /* the same memory again */
    CHECK_OK(pc__cuda_scratch_take(p.stream, 16, &c));
    CHECK(c != a);
    CHECK_OK(pc__cuda_finish(p.stream));
    CHECK(holds(out[0], 1) && holds(out[1], 2));
    pc__cuda_scratch_give(p.stream, NULL);
    pc__cuda_scratch_give(p.stream, b);
    pc__cuda_scratch_give(p.stream, c);
    pc_cuda_close(&p);
}

/* Idle memory of a stream is not kept from a larger request. */
static void scratch_makes_room(void)
{
    pc_cuda_place p;
    void *a;
    CHECK_OK(pc_cuda_open(&p, NULL, 40 << 20));
    CHECK_OK(pc__cuda_scratch_take(p.stream, 20 << 20, &a));
    pc__cuda_zero(p.stream, a, 20 << 20);
    pc__cuda_scratch_give(p.stream, a);
    CHECK_OK(pc__cuda_scratch_take(p.stream, 38 << 20, &a));
    pc__cuda_scratch_give(p.stream, a);
    CHECK_STATUS(pc__cuda_scratch_take(p.stream, 41 << 20, &a), PC_ERR_NOMEM);
    CHECK(a == NULL);
    CHECK_OK(pc__cuda_finish(p.stream));
    pc_cuda_close(&p);
}

/* ------------------------------------------------------------------ kept lists */

enum { LIST = 5 }; /* numbers of a list */

/* 1: the list was uploaded now. */
static int asks_for(pc_cuda_place *p, uint32_t first, const void **at)
{
    uint32_t list[LIST];
    uint64_t before = pc_cuda_real() ? 0 : pc_fake_copies(cudaMemcpyHostToDevice, NULL);
    for (uint32_t i = 0; i < LIST; i++)
        list[i] = first + i;
    *at = pc__cuda_kept_list(p->stream, list, sizeof list);
    memset(list, 0xff, sizeof list); /* as its owner may */
    CHECK(*at != NULL);
    return pc_cuda_real() ? 0 : (int)(pc_fake_copies(cudaMemcpyHostToDevice, NULL) - before);
}

static void lists_are_kept(void)
{
    pc_cuda_place p;
    uint32_t got[PC__CUDA_KEPT_LISTS][LIST];
    const void *at[PC__CUDA_KEPT_LISTS], *again;
    int uploads = 0, fake = !pc_cuda_real();
    CHECK_OK(pc_cuda_open(&p, NULL, 0));
    for (int round = 0; round < 3; round++)
        for (uint32_t i = 0; i < PC__CUDA_KEPT_LISTS; i++) {
            uploads += asks_for(&p, i * 7, &again);
            CHECK(!round || again == at[i]);
            at[i] = again;
        }
    CHECK_INT(uploads, fake ? PC__CUDA_KEPT_LISTS : 0);
    CHECK_INT(asks_for(&p, 0, &again), 0); /* so that the list of 7 is the oldest */
    CHECK_INT(asks_for(&p, 1000, &again), fake);
    CHECK_INT(asks_for(&p, 0, &again), 0);
    CHECK_INT(asks_for(&p, 7, &again), fake);
    for (uint32_t i = 0; i < PC__CUDA_KEPT_LISTS; i++) {
        asks_for(&p, i * 7, &at[i]);
        pc__cuda_copy(p.stream, got[i], at[i], sizeof got[i]);
    }
    CHECK_OK(pc__cuda_finish(p.stream));
    for (uint32_t i = 0; i < PC__CUDA_KEPT_LISTS; i++)
        CHECK(got[i][0] == i * 7 && got[i][LIST - 1] == i * 7 + LIST - 1);
    CHECK_INT(asks_for(&p, 0, &again), fake); /* nothing stays */
    pc_cuda_close(&p);                        /* gives back what is kept */
}

/* Lists that begin alike, keys with the same bytes in other parts, and other kinds of keys. */
static void keys_differ(void)
{
    static const uint32_t numbers[] = {1, 2, 3, 4, 9};
    const pc__cuda_key keys[] = {
        {PC__CUDA_KEY_LIST, {{numbers, 12}}},
        {PC__CUDA_KEY_LIST, {{numbers, 16}}},
        {PC__CUDA_KEY_LIST, {{numbers + 1, 12}}},
        {PC__CUDA_KEY_ANGLES, {{numbers, 12}}},
        {PC__CUDA_KEY_ANGLES, {{numbers, 8}, {numbers + 2, 4}, {numbers + 4, 4}}},
        {PC__CUDA_KEY_ANGLES, {{numbers, 8}, {numbers + 2, 4}, {numbers + 3, 4}}},
    };
    enum { KEYS = sizeof keys / sizeof *keys };
    const void *at[KEYS];
    pc_cuda_place p;
    CHECK_OK(pc_cuda_open(&p, NULL, 0));
    for (size_t i = 0; i < KEYS; i++) {
        CHECK(!pc__cuda_kept_find(p.stream, &keys[i]));
        at[i] = pc__cuda_kept_add(p.stream, &keys[i], numbers, 4);
    }
    for (size_t i = 0; i < KEYS; i++)
        for (size_t k = 0; k <= i; k++)
            CHECK((pc__cuda_kept_find(p.stream, &keys[i]) == at[k]) == (i == k));
    CHECK_OK(pc__cuda_finish(p.stream));
    pc_cuda_close(&p);
}

static void lists_without_memory(void)
{
    static const uint32_t list[LIST] = {1};
    pc_cuda_place p;
    uint64_t failed = 0;
    for (pc_status status = PC_ERR_NOMEM; status == PC_ERR_NOMEM; failed++) {
        CHECK_OK(pc_cuda_open(&p, NULL, 0));
        p.memory.fail_at = p.memory.calls + 1 + failed;
        const void *at = pc__cuda_kept_list(p.stream, list, sizeof list);
        p.memory.fail_at = 0;
        CHECK(at || !pc__cuda_kept_list(p.stream, list, sizeof list)); /* the error stays */
        status = pc__cuda_finish(p.stream);
        CHECK((at != NULL) == (status == PC_OK));
        pc_cuda_close(&p);
    }
    CHECK(failed > 2);
}

int main(void)
{
    one_stream();
    if (!pc_cuda_real())
        unordered_streams_meet();
    tables_may_change(1000, 50);
    tables_may_change(100000, 24);
    tables_may_change(PC__CUDA_STAGE_BYTES, 9);
    tables_may_change(3 * PC__CUDA_STAGE_BYTES + 12345, 3);
    copies_both_ways(5, 100);
    copies_both_ways(1000, 50);
    copies_both_ways(100000, 24);
    copies_both_ways(PC__CUDA_STAGE_BYTES, 9);
    copies_both_ways(3 * PC__CUDA_STAGE_BYTES + 12345, 3);
    copies_by_the_host();
    last_copy_stays();
    nothing_is_written_later();
    copies_do_not_wait();
    first_error_stays();
    late_errors();
    work_is_done_after_a_failed_finish();
    scratch();
    scratch_makes_room();
    lists_are_kept();
    keys_differ();
    lists_without_memory();
    return pc_test_end();
}
