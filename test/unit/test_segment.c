/* Catches a payload that is released too early, never, or twice, and an owner that is dropped before its payload. */
#include "store/segment.h"

#include <string.h>

#include "testing.h"

static int released, dropped;

static void release(void *owner, void *payload)
{
    CHECK(owner == &dropped && payload == &released);
    CHECK_INT(dropped, 0);
    released++;
}

static void drop(void *owner)
{
    CHECK(owner == &dropped);
    CHECK_INT(released, 1);
    dropped++;
}

static const pc__payload_ops ops = {.release = release, .drop_owner = drop};

static void life(void)
{
    pc_test_memory memory = {0};
    pc_allocator mem = pc_test_allocator(&memory);
    int32_t ids[3] = {7, 8, 9};
    const int32_t *tokens = NULL;
    pc_segment *segment = NULL;
    if (!CHECK_OK(pc__segment_new(&segment, &mem, &ops, &released, &dropped, 100, ids, 3)))
        return;
    ids[0] = 1; /* copied */
    CHECK_INT(pc_segment_tokens(segment, &tokens), 3);
    CHECK(tokens && tokens[0] == 7 && tokens[2] == 9);
    CHECK(pc__segment_is_single(segment));
    CHECK(pc__segment_ref(segment) == segment);
    CHECK(!pc__segment_is_single(segment));
    pc__segment_unref(segment);
    CHECK_INT(released, 0);
    pc_segment_free(segment);
    CHECK_INT(released, 1);
    CHECK_INT(dropped, 1);
    CHECK_INT(memory.live_blocks, 0);
}

static void without_memory(void)
{
    int32_t ids[3] = {7, 8, 9};
    released = dropped = 0;
    for (uint64_t at = 1; at <= 2; at++) {
        pc_test_memory memory = {.fail_at = at};
        pc_allocator mem = pc_test_allocator(&memory);
        pc_segment *segment = (pc_segment *)ids;
        CHECK_STATUS(pc__segment_new(&segment, &mem, &ops, &released, &dropped, 100, ids, 3), PC_ERR_NOMEM);
        CHECK(segment == NULL);
        CHECK_INT(memory.live_blocks, 0);
    }
    CHECK_INT(released + dropped, 0); /* still the caller's */
}

int main(void)
{
    life();
    without_memory();
    pc_segment_free(NULL);
    CHECK_INT(pc_segment_tokens(NULL, NULL), 0);
    return pc_test_end();
}
