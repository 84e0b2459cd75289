/* Catches: unchecked GGUF fields (every length, count, type, rank, offset), truncated files, wrong
 * values of any metadata type, reversed shapes or offsets, duplicates, leaks when memory runs out.
 */
#include "base/mem.h"
#include "gguf_bytes.h"
#include "model/load/gguf.h"

static void every_type(gguf_bytes *g)
{
    const int8_t minus = -5;
    const int16_t minus2 = -300;
    const int64_t minus8 = INT64_C(-5000000000);
    const uint64_t large = UINT64_MAX;
    const double half = 0.5;
    gguf_key(g, "u8", 0);
    put(g, "\xfe", 1);
    gguf_key(g, "i8", 1);
    put(g, &minus, 1);
    gguf_key(g, "u16", 2);
    put(g, "\xff\xff", 2);
    gguf_key(g, "i16", 3);
    put(g, &minus2, 2);
    gguf_u32(g, "u32", 4000000000u);
    gguf_key(g, "i32", 5);
    put_u32(g, (uint32_t)-7);
    gguf_f32(g, "f32", 1.5f);
    gguf_key(g, "yes", 7);
    put(g, "\1", 1);
    gguf_text(g, "text", "h\xc3\xa9llo");
    gguf_key(g, "u64", 10);
    put(g, &large, 8);
    gguf_key(g, "i64", 11);
    put(g, &minus8, 8);
    gguf_key(g, "f64", 12);
    put(g, &half, 8);
    gguf_array(g, "list", 3, 3);
    put(g, "\1\0\2\0\xff\xff", 6);
    gguf_array(g, "texts", 8, 2);
    put_text(g, "a");
    put_text(g, "");
    gguf_array(g, "empty", 4, 0);
}

static void model(gguf_bytes *g, uint32_t version)
{
    float values[6] = {1, 2, 3, 4, 5, 6};
    uint8_t block[34 * 2] = {0};
    gguf_start(g, version);
    every_type(g);
    gguf_tensor(g, "b.matrix", 0, 2, 3, values, sizeof values);
    gguf_tensor(g, "a.vector", 0, 0, 2, values + 4, 8);
    block[1] = 0x3c; /* 1.0 */
    block[2] = 200;
    gguf_tensor(g, "c.q8", 8, 2, 32, block, sizeof block);
    gguf_end(g);
}

static void check_numbers(const pc__gguf *g)
{
    uint64_t u = 77;
    int64_t i = 77;
    double f = 77;
    const char *text = NULL;
    CHECK(pc__gguf_u64(g, "u8", &u) && u == 254);
    CHECK(pc__gguf_i64(g, "i8", &i) && i == -5);
    CHECK(pc__gguf_u64(g, "u16", &u) && u == 65535);
    CHECK(pc__gguf_i64(g, "i16", &i) && i == -300);
    CHECK(pc__gguf_f64(g, "i16", &f) && f == -300);
    CHECK(pc__gguf_u64(g, "u32", &u) && u == 4000000000u);
    CHECK(pc__gguf_i64(g, "i32", &i) && i == -7);
    CHECK(!pc__gguf_u64(g, "i32", &u) && u == 4000000000u);
    CHECK(pc__gguf_f64(g, "f32", &f) && f == 1.5);
    CHECK(!pc__gguf_u64(g, "f32", &u));
    CHECK(pc__gguf_u64(g, "yes", &u) && u == 1);
    CHECK(pc__gguf_u64(g, "u64", &u) && u == UINT64_MAX);
    CHECK(!pc__gguf_i64(g, "u64", &i) && i == -7);
    CHECK(pc__gguf_f64(g, "u64", &f) && f == 18446744073709551616.0);
    CHECK(pc__gguf_i64(g, "i64", &i) && i == INT64_C(-5000000000));
    CHECK(pc__gguf_f64(g, "f64", &f) && f == 0.5);
    CHECK(pc__gguf_string(g, "text", &text));
    CHECK_STR(text, "h\xc3\xa9llo");
    CHECK(!pc__gguf_string(g, "u8", &text) && !pc__gguf_string(g, "texts", &text)
          && !pc__gguf_u64(g, "nowhere", &u));
    CHECK_INT(pc__gguf_array(g, "list"), 3);
    CHECK(pc__gguf_array_i64(g, "list", 2, &i) && i == -1);
    CHECK(pc__gguf_array_f64(g, "list", 1, &f) && f == 2);
    CHECK(!pc__gguf_array_i64(g, "list", 3, &i) && !pc__gguf_u64(g, "list", &u)
          && !pc__gguf_array_i64(g, "u8", 0, &i));
    CHECK_INT(pc__gguf_array(g, "texts"), 2);
    CHECK_INT(pc__gguf_array(g, "empty"), 0);
}

static void check_tensors(pc__gguf *g)
{
    const pc__weights *w = pc__gguf_weights(g);
    const pc__tensor *matrix = pc__weights_find(w, "b.matrix"), *q8 = pc__weights_find(w, "c.q8");
    float values[64];
    CHECK_INT(pc__weights_count(w), 3);
    CHECK_STR(pc__weights_at(w, 0)->name, "a.vector");
    CHECK(!pc__weights_at(w, 3) && !pc__weights_find(w, "b.matri"));
    CHECK(matrix && matrix->rank == 2 && matrix->shape[0] == 2 && matrix->shape[1] == 3
          && matrix->bytes == 24);
    pc__tensor_floats(matrix, 3, 3, values);
    CHECK(values[0] == 4 && values[2] == 6);
    CHECK(q8 && q8->type == PC__T_Q8_0 && q8->bytes == 68);
    pc__tensor_floats(q8, 0, 64, values);
    CHECK(values[0] == -56 && values[1] == 0 && values[63] == 0);
}

static void reads(uint32_t version)
{
    static gguf_bytes g;
    pc__gguf *gguf;
    model(&g, version);
    if (!CHECK_OK(pc__gguf_open(&gguf, &pc__libc_allocator, gguf_file(&g))))
        return;
    check_numbers(gguf);
    check_tensors(gguf);
    pc__gguf_free(gguf);
}

/* Opens the file and, on success, reads every byte that the reader gives. */
static pc_status touch(const gguf_bytes *g)
{
    pc__gguf *gguf;
    pc_status status = pc__gguf_open(&gguf, &pc__libc_allocator, gguf_file(g));
    CHECK((status < 0) == (gguf == NULL));
    for (size_t i = 0; gguf && i < pc__weights_count(pc__gguf_weights(gguf)); i++)
        pc__tensor_check(pc__weights_at(pc__gguf_weights(gguf), i), "touched");
    pc__gguf_free(gguf);
    return status;
}

static void cut_off(void)
{
    static gguf_bytes g;
    size_t whole, last;
    model(&g, 3);
    whole = g.size;
    last = whole - 32 * 3 + 68; /* no padding is needed after the last tensor */
    for (g.size = 0; g.size < whole; g.size++) {
        pc_status status = touch(&g);
        if (g.size < last)
            CHECK_STATUS(status, PC_ERR_FORMAT);
    }
}

/* Every field at its largest value and with single bits flipped: refused or harmless. */
static void blown_up(void)
{
    static gguf_bytes g, copy;
    size_t refused = 0;
    model(&g, 3);
    for (size_t at = 0; at < g.size - 32 * 5; at++) {
        static const uint8_t patterns[5][8] = {{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff},
                                               {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f},
                                               {0, 0, 0, 0, 0, 0, 0, 0x80},
                                               {0, 0, 0, 0, 1, 0, 0, 0},
                                               {0}};
        for (size_t p = 0; p < 5; p++) {
            memcpy(&copy, &g, sizeof g);
            memcpy(copy.data + at, patterns[p], p % 2 ? 8 : 4);
            refused += touch(&copy) < 0;
        }
        memcpy(&copy, &g, sizeof g);
        copy.data[at] ^= 0x80;
        refused += touch(&copy) < 0;
    }
    CHECK(refused > g.size); /* most of them */
}

static void refused(const gguf_bytes *g, pc_status want, const char *text)
{
    CHECK_STATUS(touch(g), want);
    CHECK_ERROR_HAS(text);
    CHECK_ERROR_HAS("model.gguf");
}

static void named_errors(void)
{
    static gguf_bytes g;
    float two[2] = {1, 2};
    gguf_start(&g, 3);
    gguf_u32(&g, "same", 1);
    gguf_u32(&g, "same", 1);
    gguf_end(&g);
    refused(&g, PC_ERR_FORMAT, "'same'");
    gguf_start(&g, 3);
    gguf_tensor(&g, "twin", 0, 0, 2, two, 8);
    gguf_tensor(&g, "twin", 0, 0, 2, two, 8);
    gguf_end(&g);
    refused(&g, PC_ERR_FORMAT, "'twin'");
    gguf_start(&g, 1);
    gguf_end(&g);
    refused(&g, PC_ERR_UNSUPPORTED, "version 1");
    gguf_start(&g, UINT32_C(0x03000000));
    gguf_end(&g);
    refused(&g, PC_ERR_UNSUPPORTED, "big-endian");
    gguf_start(&g, 3);
    gguf_u32(&g, "split.count", 2);
    gguf_end(&g);
    refused(&g, PC_ERR_UNSUPPORTED, "split");
    gguf_start(&g, 3);
    gguf_u32(&g, "general.alignment", 24);
    gguf_end(&g);
    refused(&g, PC_ERR_FORMAT, "general.alignment");
    gguf_start(&g, 3);
    gguf_key(&g, "nested", 9);
    put_u32(&g, 9);
    put_u64(&g, 0);
    gguf_end(&g);
    refused(&g, PC_ERR_UNSUPPORTED, "'nested'");
    gguf_start(&g, 3);
    gguf_tensor(&g, "tiny", 19, 0, 256, NULL, 8);
    gguf_end(&g);
    refused(&g, PC_ERR_UNSUPPORTED, "IQ1_S");
    gguf_start(&g, 3);
    gguf_tensor(&g, "odd", 8, 2, 33, NULL, 80);
    gguf_end(&g);
    refused(&g, PC_ERR_FORMAT, "'odd'");
    gguf_start(&g, 3);
    gguf_tensor(&g, "far", 0, 0, 2, two, 8);
    g.tensors++; /* more tensors than the file has */
    gguf_end(&g);
    CHECK_STATUS(touch(&g), PC_ERR_FORMAT);
    CHECK_STATUS(pc__gguf_open(&(pc__gguf *){NULL}, &pc__libc_allocator, "/nowhere/model.gguf"),
                 PC_ERR_NOT_FOUND);
}

/* offsets: beyond the end, into another tensor, not aligned */
static void bad_offsets(void)
{
    static const uint64_t offsets[] = {1 << 20, 0, 33, UINT64_MAX - 31};
    static const char *const words[] = {"beyond the end", "inside another", "not aligned",
                                        "beyond the end"};
    static gguf_bytes g;
    float some[16] = {0};
    for (size_t i = 0; i < 4; i++) {
        gguf_start(&g, 3);
        gguf_tensor(&g, "first", 0, 0, 8, some, 32);
        gguf_tensor(&g, "second", 0, 0, 8, some, 32);
        memcpy(g.data + g.size - 8, &offsets[i], 8);
        gguf_end(&g);
        refused(&g, PC_ERR_FORMAT, words[i]);
        CHECK_ERROR_HAS("'second'");
    }
}

static void other_alignment(void)
{
    static gguf_bytes g;
    float two[2] = {7, 8};
    pc__gguf *gguf;
    float value;
    gguf_start(&g, 3);
    gguf_u32(&g, "general.alignment", 128);
    gguf_tensor(&g, "one", 0, 0, 2, NULL, 0);
    g.offset = 0;
    while (g.size % 128)
        put(&g, "", 1);
    put(&g, two, 8);
    memcpy(g.data + 8, &g.tensors, 8);
    memcpy(g.data + 16, &g.keys, 8);
    if (!CHECK_OK(pc__gguf_open(&gguf, &pc__libc_allocator, gguf_file(&g))))
        return;
    pc__tensor_floats(pc__weights_find(pc__gguf_weights(gguf), "one"), 1, 1, &value);
    CHECK(value == 8);
    pc__gguf_free(gguf);
}

static void without_memory(void)
{
    static gguf_bytes g;
    const char *path;
    model(&g, 3);
    path = gguf_file(&g);
    for (uint64_t at = 1;; at++) {
        pc_test_memory memory = {.fail_at = at};
        pc_allocator mem = pc_test_allocator(&memory);
        pc__gguf *gguf;
        pc_status status = pc__gguf_open(&gguf, &mem, path);
        pc__gguf_free(gguf);
        CHECK_INT(memory.live_blocks, 0);
        if (status == PC_OK) {
            CHECK(at > 25);
            break;
        }
        CHECK_STATUS(status, PC_ERR_NOMEM);
    }
}

int main(void)
{
    reads(2);
    reads(3);
    cut_off();
    blown_up();
    named_errors();
    bad_offsets();
    other_alignment();
    without_memory();
    return pc_test_end();
}
