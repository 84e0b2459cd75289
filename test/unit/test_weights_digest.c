/* Catches: changed weights (a bit, a name, a type, a shape) with the same digest; a digest that
 * depends on kind of file, order, threads or level; numbers that are not finite and not found;
 * leaks when memory runs out. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/load/weights_internal.h"
#include "counted_context.h"
#include "testing.h"

static float one[64], two[64];

/* Two tensors, added in either order. */
static pc__weights *table(const pc_allocator *mem, int turned)
{
    pc__tensor tensors[2] = {{.type = PC__T_F32,
                              .rank = 2,
                              .shape = {8, 8},
                              .data = (const uint8_t *)one,
                              .bytes = sizeof one},
                             {.type = PC__T_F32,
                              .rank = 1,
                              .shape = {64},
                              .data = (const uint8_t *)two,
                              .bytes = sizeof two}};
    pc__weights *w = NULL;
    CHECK_OK(pc__weights_new(&w, mem, turned ? "b.gguf" : "a.safetensors"));
    for (int i = 0; i < 2; i++) {
        int which = turned ? 1 - i : i;
        CHECK_OK(pc__weights_add(w, &tensors[which], which ? "second" : "first", which ? 6 : 5));
    }
    CHECK_OK(pc__weights_seal(w));
    return w;
}

static pc__id digest(pc_context *context, const pc__weights *w)
{
    pc__id id;
    CHECK_OK(pc__weights_digest(w, context, NULL, &id));
    return id;
}

/* Whether changing a bit of *byte changes the digest. */
static int matters(pc_context *context, const pc__weights *w, void *byte)
{
    pc__id before = digest(context, w), after;
    uint8_t *at = byte;
    *at ^= 1;
    after = digest(context, w);
    *at ^= 1;
    return !pc__id_equal(&before, &after);
}

static void changes(pc_context *context)
{
    pc__weights *w = table(&pc__libc_allocator, 0), *turned = table(&pc__libc_allocator, 1);
    pc__id a = digest(context, w), b = digest(context, turned);
    CHECK(pc__id_equal(&a, &b));
    CHECK(matters(context, w, (uint8_t *)one + 100));
    CHECK(matters(context, w, (uint8_t *)two + 255));
    CHECK(matters(context, w, (char *)(uintptr_t)w->tensors[0].name));
    CHECK(matters(context, w, &w->tensors[0].shape[0]));
    CHECK(matters(context, w, &w->tensors[1].shape[0]));
    w->tensors[1].type = PC__T_I32;
    a = digest(context, w);
    CHECK(!pc__id_equal(&a, &b));
    pc__weights_free(w);
    pc__weights_free(turned);
}

/* Several pieces, one of which ends at a tensor's end. */
static void pieces(pc_context *context)
{
    enum { PIECE = 32 << 20 };
    static uint8_t large[2 * PIECE + 5];
    pc__tensor tensor = {.type = PC__T_U8, .rank = 1, .shape = {0}, .data = large};
    pc__weights *w = NULL;
    pc__id ids[3];
    static const size_t sizes[3] = {PIECE, 2 * PIECE, sizeof large};
    for (int i = 0; i < 3; i++) {
        tensor.shape[0] = tensor.bytes = sizes[i];
        CHECK_OK(pc__weights_new(&w, &pc__libc_allocator, "large"));
        CHECK_OK(pc__weights_add(w, &tensor, "t", 1));
        ids[i] = digest(context, w);
        CHECK(matters(context, w, large + sizes[i] - 1));
        pc__weights_free(w);
    }
    CHECK(!pc__id_equal(&ids[0], &ids[1]) && !pc__id_equal(&ids[1], &ids[2]));
}

/* Many tensors of several sizes, which CPUs with vectors digest in lanes: at any level, and with
 * the same errors. */
static void many(pc_context *context)
{
    enum { COUNT = 200 };
    static float values[COUNT * 300];
    pc__weights *w = NULL;
    pc__id plain, lanes;
    char name[8];
    for (size_t i = 0; i < sizeof values / sizeof *values; i++)
        values[i] = (float)i;
    CHECK_OK(pc__weights_new(&w, &pc__libc_allocator, "many"));
    for (size_t i = 0; i < COUNT; i++) {
        uint64_t count = 100 + i;
        pc__tensor tensor = {.type = PC__T_F32, .rank = 1, .shape = {count}, .bytes = 4 * count};
        tensor.data = (const uint8_t *)(values + 300 * i);
        snprintf(name, sizeof name, "t%03zu", i);
        CHECK_OK(pc__weights_add(w, &tensor, name, 4));
    }
    CHECK_OK(pc__weights_seal(w));
    setenv("PC_CPU_MASK", "c", 1);
    plain = digest(context, w);
    unsetenv("PC_CPU_MASK");
    lanes = digest(context, w);
    CHECK(pc__id_equal(&plain, &lanes));
    CHECK(matters(context, w, values + 300 * 170 + 269));
    values[300 * 170 + 269] = INFINITY;
    CHECK_STATUS(pc__weights_digest(w, context, NULL, &lanes), PC_ERR_FORMAT);
    CHECK_ERROR_HAS("tensor 't170'");
    CHECK_ERROR_HAS("element 269 ");
    pc__weights_free(w);
}

static void not_finite(pc_context *context)
{
    static const pc__id zero;
    pc__weights *w = table(&pc__libc_allocator, 0);
    pc__id id;
    two[9] = NAN;
    CHECK_STATUS(pc__weights_digest(w, context, NULL, &id), PC_ERR_FORMAT);
    CHECK_ERROR_HAS("a.safetensors: tensor 'second'");
    CHECK_ERROR_HAS("element 9 ");
    CHECK(pc__id_equal(&id, &zero));
    two[9] = -9;
    pc__weights_free(w);
}

static void without_memory(void)
{
    pc_test_memory memory = {0};
    pc_context *context = pc_test_counted_context(&memory, 1);
    pc__weights *w = table(&pc__libc_allocator, 0);
    pc__id id;
    if (!context)
        return;
    int64_t before = memory.live_blocks;
    for (uint64_t at = 1; at <= 2; at++) {
        memory.fail_at = memory.calls + at;
        CHECK_STATUS(pc__weights_digest(w, context, NULL, &id), PC_ERR_NOMEM);
        CHECK_INT(memory.live_blocks, before);
    }
    CHECK_OK(pc__weights_digest(w, context, NULL, &id));
    CHECK_INT(memory.live_blocks, before);
    pc_context_free(context);
    CHECK_INT(memory.live_blocks, 0);
    pc__weights_free(w);
}

int main(void)
{
    static const uint32_t threads[2] = {1, 4};
    pc__id ids[2];
    for (int i = 0; i < 64; i++) {
        one[i] = (float)i;
        two[i] = (float)-i;
    }
    for (int i = 0; i < 2; i++) {
        pc_context_options options = PC_CONTEXT_OPTIONS_INIT;
        pc_context *context;
        pc__weights *w = table(&pc__libc_allocator, 0);
        options.threads = threads[i];
        if (!CHECK_OK(pc_context_new(&context, &options)))
            return pc_test_end();
        ids[i] = digest(context, w);
        if (i)
            pieces(context);
        changes(context);
        many(context);
        not_finite(context);
        pc__weights_free(w);
        pc_context_free(context);
    }
    CHECK(pc__id_equal(&ids[0], &ids[1]));
    without_memory();
    return pc_test_end();
}
