/* Catches: an incomplete codec of an application that is accepted, loses its name with the
 * application's string, or is found under another id; blocks described otherwise than by their
 * image; a change by RAW; leaks when an allocation fails. */
#include <promptcache/cache.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "codec_cases.h"
#include "store/codec/codec.h"

/* Toy: every byte xor a key. */
static size_t toy_bound(void *user, const pc_codec_block *block)
{
    (void)user;
    return (size_t)block->bytes;
}

static pc_status toy_encode(void *user, const pc_codec_block *block, const void *data, void *out,
                            size_t capacity, size_t *size)
{
    const uint8_t *from = data;
    uint8_t *to = out;
    *size = (size_t)block->bytes;
    if (capacity < *size)
        return PC_ERR_LIMIT;
    for (size_t i = 0; i < *size; i++)
        to[i] = (uint8_t)(from[i] ^ *(uint8_t *)user);
    return PC_OK;
}

static pc_status toy_decode(void *user, const pc_codec_block *block, const void *in, size_t size,
                            void *out)
{
    size_t written;
    return size == block->bytes ? toy_encode(user, block, in, out, size, &written) : PC_ERR_FORMAT;
}

static pc_codec_ops toy(uint32_t id, uint8_t *key)
{
    return (pc_codec_ops){sizeof(pc_codec_ops), id,         0,  "toy", toy_bound,
                          toy_encode,           toy_decode, key};
}

static void built_in(void)
{
    static const struct {
        uint32_t id, lossy;
        const char *name;
    } want[] = {{PC_CODEC_RAW, 0, "raw"},
                {PC_CODEC_ZSTD, 0, "zstd"},
                {PC_CODEC_I8, 1, "i8"},
                {PC_CODEC_I4, 1, "i4"}};
    pc__codecs *codecs;
    CHECK_OK(pc__codecs_new(&codecs, &pc__libc_allocator, NULL, 0));
    for (size_t i = 0; i < 4; i++) {
        const pc_codec_ops *ops = pc__codecs_find(codecs, want[i].id);
        CHECK(ops != NULL);
        if (ops) {
            CHECK_INT(ops->id, want[i].id);
            CHECK_INT(ops->lossy, want[i].lossy);
            CHECK_STR(ops->name, want[i].name);
        }
    }
    CHECK(!pc__codecs_find(codecs, PC_CODEC_DEFAULT));
    CHECK(!pc__codecs_find(codecs, PC_CODEC_APPLICATION));
    pc__codecs_free(codecs);
    pc__codecs_free(NULL);
}

static void hosts(void)
{
    uint8_t keys[2] = {0x5a, 0xff}, data[1000], stored[1000], again[1000];
    char name[] = "my codec";
    pc_codec_ops ops[2];
    pc_codec_block block = {sizeof block, PC_LAYOUT_APPLICATION, PC_DTYPE_F16, 0, 0, 0, 0, 1,
                            sizeof data};
    pc__codecs *codecs;
    size_t size;
    ops[0] = toy(PC_CODEC_APPLICATION, &keys[0]);
    ops[1] = toy(PC_CODEC_APPLICATION + 77, &keys[1]);
    ops[1].lossy = 1;
    ops[1].name = name;
    CHECK_OK(pc__codecs_new(&codecs, &pc__libc_allocator, ops, 2));
    memset(name, 'x', sizeof name - 1);
    memset(ops, 0, sizeof ops);
    for (size_t i = 0; i < sizeof data; i++)
        data[i] = (uint8_t)i;
    for (uint32_t i = 0; i < 2; i++) {
        const pc_codec_ops *codec = pc__codecs_find(codecs, PC_CODEC_APPLICATION + 77 * i);
        CHECK(codec && codec->lossy == i && !strcmp(codec->name, i ? "my codec" : "toy"));
        if (!codec)
            continue;
        CHECK_OK(codec->encode(codec->user, &block, data, stored, sizeof stored, &size));
        CHECK_INT(stored[1], data[1] ^ keys[i]);
        CHECK_OK(codec->decode(codec->user, &block, stored, size, again));
        CHECK(!memcmp(data, again, sizeof data));
    }
    pc__codecs_free(codecs);
}

static void refused(pc_codec_ops ops, pc_status status, const char *why)
{
    pc__codecs *codecs = (pc__codecs *)1;
    CHECK_STATUS(pc__codecs_new(&codecs, &pc__libc_allocator, &ops, 1), status);
    CHECK(!codecs);
    CHECK_ERROR_HAS(why);
}

static void refusals(void)
{
    uint8_t key = 1;
    pc_codec_ops ops = toy(PC_CODEC_APPLICATION, &key), two[2] = {ops, ops};
    pc__codecs *codecs;
    ops.id = PC_CODEC_I4;
    refused(ops, PC_ERR_INVALID, "below PC_CODEC_APPLICATION");
    ops = two[0];
    ops.bound = NULL;
    refused(ops, PC_ERR_INVALID, "bound");
    ops = two[0];
    ops.encode = NULL;
    refused(ops, PC_ERR_INVALID, "encode");
    ops = two[0];
    ops.decode = NULL;
    refused(ops, PC_ERR_INVALID, "decode");
    ops = two[0];
    ops.name = "abcdefghijklmnopqrstuvwxyz012345"; /* 32 */
    refused(ops, PC_ERR_INVALID, "name");
    ops.name = "";
    refused(ops, PC_ERR_INVALID, "name");
    ops.name = NULL;
    refused(ops, PC_ERR_INVALID, "name");
    ops = two[0];
    ops.lossy = 2;
    refused(ops, PC_ERR_INVALID, "lossy");
    ops = two[0];
    ops.struct_size = 8;
    refused(ops, PC_ERR_INVALID, "struct_size");
    CHECK_STATUS(pc__codecs_new(&codecs, &pc__libc_allocator, two, 2), PC_ERR_INVALID);
    CHECK_ERROR_HAS("twice");
    CHECK_STATUS(pc__codecs_new(&codecs, &pc__libc_allocator, NULL, 2), PC_ERR_INVALID);
}

static void blocks(void)
{
    const uint64_t bytes[3] = {10, 20, 30};
    pc__image image = {.form.layout = PC_LAYOUT_PAGES,
                       .form.shape.dtype = PC_DTYPE_F16,
                       .form.shape.kv_heads = 3,
                       .form.shape.k_dim = 4,
                       .form.shape.v_dim = 5,
                       .tokens = 6,
                       .block_count = 3,
                       .block_bytes = bytes};
    pc_codec_block block = pc__image_block(&image, 1);
    CHECK_INT(block.struct_size, sizeof block);
    CHECK(block.layout == PC_LAYOUT_PAGES && block.dtype == PC_DTYPE_F16 && block.kv_heads == 3
          && block.k_dim == 4 && block.v_dim == 5);
    CHECK(block.index == 1 && block.tokens == 6 && block.bytes == 20);
}

static void raw(void)
{
    pc_codec_block block = pc_case_block(PC_DTYPE_F32, 2, 5, 7, 70);
    void *data = pc_case_noise(&block, 1), *again = malloc((size_t)block.bytes), *stored;
    pc_codec_ops codec = pc__codec_raw(&pc__libc_allocator);
    size_t size;
    stored = pc_case_encode(&codec, &block, data, &size);
    CHECK_INT(size, block.bytes);
    CHECK_OK(codec.decode(codec.user, &block, stored, size, again));
    CHECK(!memcmp(data, again, size));
    CHECK_STATUS(codec.decode(codec.user, &block, stored, size - 1, again), PC_ERR_FORMAT);
    CHECK_STATUS(codec.encode(codec.user, &block, data, stored, size - 1, &size), PC_ERR_LIMIT);
    free(data);
    free(again);
    free(stored);
}

static void fail_everywhere(void)
{
    uint8_t key = 1;
    pc_codec_ops ops = toy(PC_CODEC_APPLICATION, &key);
    for (uint64_t at = 1; at < 3; at++) {
        pc_test_memory memory = {.fail_at = at};
        pc_allocator mem = pc_test_allocator(&memory);
        pc__codecs *codecs;
        pc_status status = pc__codecs_new(&codecs, &mem, &ops, 1);
        CHECK_INT(status, memory.calls < at ? PC_OK : PC_ERR_NOMEM);
        pc__codecs_free(codecs);
        CHECK_INT(memory.live_blocks, 0);
    }
}

int main(void)
{
    built_in();
    hosts();
    refusals();
    blocks();
    raw();
    fail_everywhere();
    return pc_test_end();
}
