/* Catches: unchecked safetensors headers or indexes (length, offsets, shapes, dtypes, gaps,
 * overlaps, duplicates, files outside the folder), truncated files, leaks when memory runs out. */
#include "base/mem.h"
#include "model/load/safetensors.h"
#include "model/load/weights.h"
#include "testing.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char *path_of(const char *name)
{
    static char ring[4][300];
    static unsigned next;
    char *path = ring[next++ % 4];
    snprintf(path, 300, "%s/%s", pc_test_folder(), name);
    return path;
}

/* A file of a header and `size` bytes of data (0, 1, 2 …). */
static size_t compose(const char *header, size_t size, uint8_t *out)
{
    uint64_t length = strlen(header);
    memcpy(out, &length, 8);
    memcpy(out + 8, header, length);
    for (size_t i = 0; i < size; i++)
        out[8 + length + i] = (uint8_t)i;
    return 8 + length + size;
}

static void write_file(const char *name, const char *header, size_t size)
{
    static uint8_t data[8192];
    size_t n = compose(header, size, data);
    remove(path_of(name));
    pc_test_write(path_of(name), data, n);
}

static const char good[] =
    "{\"__metadata__\":{\"format\":\"pt\"},"
    "\"b\":{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[4,28]},"
    "\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]},"
    "\"one\":{\"dtype\":\"BF16\",\"shape\":[],\"data_offsets\":[28,30]},"
    "\"none\":{\"dtype\":\"F16\",\"shape\":[0,5],\"data_offsets\":[28,28]}}   ";

static void reads(void)
{
    pc__weights *w;
    float values[6];
    write_file("x.safetensors", good, 30);
    if (!CHECK_OK(pc__safetensors_open(&w, &pc__libc_allocator, path_of("x.safetensors"))))
        return;
    CHECK_INT(pc__weights_count(w), 4);
    CHECK_STR(pc__weights_at(w, 0)->name, "a");
    const pc__tensor *a = pc__weights_find(w, "a"), *b = pc__weights_find(w, "b"),
                     *one = pc__weights_find(w, "one");
    CHECK(b && b->rank == 2 && b->shape[0] == 2 && b->shape[1] == 3 && b->bytes == 24
          && b->data[0] == 4);
    CHECK(one && one->rank == 0 && one->bytes == 2 && one->data[0] == 28);
    CHECK(a != NULL);
    pc__tensor_floats(a, 1, 3, values);
    CHECK(values[0] == 1 && values[2] == 3);
    CHECK(!pc__weights_find(w, "__metadata__") && !pc__weights_find(w, "c"));
    pc__weights_free(w);
}

static pc_status open_one(void)
{
    pc__weights *w;
    pc_status status = pc__safetensors_open(&w, &pc__libc_allocator, path_of("x.safetensors"));
    CHECK((status < 0) == (w == NULL));
    for (size_t i = 0; w && i < pc__weights_count(w); i++)
        pc__tensor_check(pc__weights_at(w, i), "touched");
    pc__weights_free(w);
    return status;
}

/* Codes and scales of MXFP4 in two tensors are one tensor; codes of neighbours share a byte. */
static void joined(void)
{
    static const char pair[] =
        "{\"x_blocks\":{\"dtype\":\"U8\",\"shape\":[2,1,2,16],\"data_offsets\":[0,64]},"
        "\"x_scales\":{\"dtype\":\"U8\",\"shape\":[2,1,2],\"data_offsets\":[64,68]},"
        "\"y_blocks\":{\"dtype\":\"U8\",\"shape\":[1,2,16],\"data_offsets\":[68,100]},"
        "\"y_scales\":{\"dtype\":\"U8\",\"shape\":[1,3],\"data_offsets\":[100,103]}}";
    static const float levels[16] = {0, 0.5f,  1,  1.5f,  2,  3,  4,  6,
                                     0, -0.5f, -1, -1.5f, -2, -3, -4, -6};
    pc__weights *w;
    float values[128];
    write_file("x.safetensors", pair, 103);
    if (!CHECK_OK(pc__safetensors_open(&w, &pc__libc_allocator, path_of("x.safetensors"))))
        return;
    const pc__tensor *x = pc__weights_find(w, "x_blocks"), *y = pc__weights_find(w, "y_blocks");
    CHECK_INT(pc__weights_count(w), 3);
    CHECK(!pc__weights_find(w, "x_scales") && pc__weights_find(w, "y_scales"));
    CHECK(y && y->type == PC__T_U8 && y->rank == 3);
    if (CHECK(x && x->type == PC__T_MXFP4_APART && x->rank == 3 && x->shape[0] == 2
              && x->shape[2] == 64)) {
        pc__tensor_floats(x, 0, 128, values);
        for (int i = 0; i < 128; i++) /* byte k of the file is k; scale 127 would be 1 */
            CHECK(values[i] == levels[i / 2 >> (i % 2 * 4) & 15] * ldexpf(1, 64 + i / 32 - 127));
        CHECK_OK(pc__tensor_check(x, "x.safetensors"));
    }
    pc__weights_free(w);
}

static void refused(const char *header, size_t size, pc_status want, const char *text)
{
    write_file("x.safetensors", header, size);
    CHECK_STATUS(open_one(), want);
    CHECK_ERROR_HAS(text);
    CHECK_ERROR_HAS("x.safetensors");
}

#define ONE(name, dtype, shape, offsets) \
    "\"" name "\":{\"dtype\":\"" dtype "\",\"shape\":" shape ",\"data_offsets\":" offsets "}"

static void bad_headers(void)
{
    refused("{" ONE("t", "F32", "[2]", "[0,8]"), 8, PC_ERR_FORMAT, "byte");
    refused("[]", 0, PC_ERR_FORMAT, "not an object");
    refused("{" ONE("t", "F32", "[2]", "[0,8]") "," ONE("t", "F32", "[2]", "[8,16]") "}", 16,
            PC_ERR_FORMAT, "duplicate");
    refused("{" ONE("t", "F8_E4M3", "[2]", "[0,2]") "}", 2, PC_ERR_UNSUPPORTED, "F8_E4M3");
    refused("{\"t\":{\"shape\":[2],\"data_offsets\":[0,8]}}", 8, PC_ERR_FORMAT,
            "'t': dtype is missing");
    refused("{\"t\":5}", 8, PC_ERR_FORMAT, "'t'");
    refused("{" ONE("t", "F32", "[-2]", "[0,8]") "}", 8, PC_ERR_FORMAT, "shape");
    refused("{" ONE("t", "F32", "\"2\"", "[0,8]") "}", 8, PC_ERR_FORMAT, "shape");
    refused("{" ONE("t", "F32", "[1.5]", "[0,8]") "}", 8, PC_ERR_FORMAT, "shape");
    refused("{" ONE("t", "F32", "[1,1,1,1,2]", "[0,8]") "}", 8, PC_ERR_UNSUPPORTED, "dimensions");
    refused("{" ONE("t", "F32", "[4294967296,4294967296]", "[0,8]") "}", 8, PC_ERR_FORMAT, "'t'");
    refused("{" ONE("t", "F32", "[4611686018427387904]", "[0,0]") "}", 0, PC_ERR_FORMAT, "'t'");
    refused("{" ONE("t", "F32", "[2]", "[8,0]") "}", 8, PC_ERR_FORMAT, "data_offsets");
    refused("{" ONE("t", "F32", "[2]", "[0]") "}", 8, PC_ERR_FORMAT, "data_offsets");
    refused("{" ONE("t", "F32", "[3]", "[0,8]") "}", 8, PC_ERR_FORMAT, "do not fit");
    refused("{" ONE("t", "F32", "[2]", "[8,16]") "}", 8, PC_ERR_FORMAT, "beyond the end");
    refused("{" ONE("t", "F32", "[2]", "[0,8]") "}", 9, PC_ERR_FORMAT, "9 bytes of data");
    refused("{" ONE("t", "F32", "[2]", "[8,16]") "}", 16, PC_ERR_FORMAT, "gap");
    refused("{" ONE("t", "F32", "[2]", "[0,8]") "," ONE("u", "F32", "[2]", "[4,12]") "}", 12,
            PC_ERR_FORMAT, "overlap");
}

static void cut_off(void)
{
    static uint8_t data[1024];
    size_t n = compose(good, 30, data);
    uint64_t huge[] = {UINT64_MAX, UINT64_C(1) << 63, n, 101u << 20};
    for (size_t cut = 0; cut < n; cut++) {
        remove(path_of("x.safetensors"));
        pc_test_write(path_of("x.safetensors"), data, cut);
        CHECK_STATUS(open_one(), PC_ERR_FORMAT);
    }
    for (size_t i = 0; i < 4; i++) {
        memcpy(data, &huge[i], 8);
        pc_test_write(path_of("x.safetensors"), data, n);
        CHECK_STATUS(open_one(), PC_ERR_FORMAT);
        CHECK_ERROR_HAS("byte 0");
    }
    /* single flipped bits: refused or harmless */
    compose(good, 30, data);
    for (size_t at = 0; at < n - 30; at++) {
        data[at] ^= 1;
        remove(path_of("x.safetensors"));
        pc_test_write(path_of("x.safetensors"), data, n);
        open_one();
        data[at] ^= 1;
    }
}

static pc_status open_folder(void)
{
    pc__weights *w;
    pc_status status = pc__safetensors_open_folder(&w, &pc__libc_allocator, pc_test_folder());
    CHECK((status < 0) == (w == NULL));
    if (w)
        CHECK(pc__weights_find(w, "t") && pc__weights_find(w, "u") && pc__weights_count(w) == 2);
    pc__weights_free(w);
    return status;
}

static void index_says(const char *map)
{
    char text[512];
    snprintf(text, sizeof text, "{\"metadata\":{\"total_size\":16},\"weight_map\":%s}", map);
    pc_test_write(path_of("model.safetensors.index.json"), text, strlen(text));
}

static void shards(void)
{
    remove(path_of("x.safetensors"));
    CHECK_STATUS(open_folder(), PC_ERR_NOT_FOUND);
    write_file("one.safetensors", "{" ONE("t", "F32", "[2]", "[0,8]") "}", 8);
    write_file("two.safetensors", "{" ONE("u", "F32", "[2]", "[0,8]") "}", 8);
    index_says("{\"t\":\"one.safetensors\",\"u\":\"two.safetensors\"}");
    CHECK_OK(open_folder());
    index_says("{\"t\":\"one.safetensors\",\"u\":\"one.safetensors\"}");
    CHECK_STATUS(open_folder(), PC_ERR_FORMAT);
    CHECK_ERROR_HAS("'u' is not in one.safetensors");
    index_says("{\"t\":\"two.safetensors\",\"u\":\"one.safetensors\"}");
    CHECK_STATUS(open_folder(), PC_ERR_FORMAT);
    index_says("{\"t\":\"one.safetensors\",\"u\":\"three.safetensors\"}");
    CHECK_STATUS(open_folder(), PC_ERR_NOT_FOUND);
    CHECK_ERROR_HAS("three.safetensors");
    index_says("{\"t\":\"../one.safetensors\"}");
    CHECK_STATUS(open_folder(), PC_ERR_FORMAT);
    CHECK_ERROR_HAS("not in a file of this folder");
    index_says("{\"t\":1}");
    CHECK_STATUS(open_folder(), PC_ERR_FORMAT);
    index_says("{}");
    CHECK_STATUS(open_folder(), PC_ERR_FORMAT);
    index_says("{\"t\":\"one.safetensors\",\"t\":\"one.safetensors\"}");
    CHECK_STATUS(open_folder(), PC_ERR_FORMAT);
    CHECK_ERROR_HAS("duplicate");
    write_file("two.safetensors",
               "{" ONE("t", "F32", "[2]", "[0,8]") "," ONE("u", "F32", "[2]", "[8,16]") "}", 16);
    index_says("{\"t\":\"one.safetensors\",\"u\":\"two.safetensors\"}");
    CHECK_STATUS(open_folder(), PC_ERR_FORMAT);
    CHECK_ERROR_HAS("'t' appears twice");
    write_file("model.safetensors",
               "{" ONE("t", "F32", "[2]", "[0,8]") "," ONE("u", "F32", "[2]", "[8,16]") "}", 16);
    CHECK_OK(open_folder()); /* a single file goes before an index */
    remove(path_of("model.safetensors"));
}

static void without_memory(void)
{
    write_file("two.safetensors", "{" ONE("u", "F32", "[2]", "[0,8]") "}", 8);
    for (uint64_t at = 1;; at++) {
        pc_test_memory memory = {.fail_at = at};
        pc_allocator mem = pc_test_allocator(&memory);
        pc__weights *w;
        pc_status status = pc__safetensors_open_folder(&w, &mem, pc_test_folder());
        pc__weights_free(w);
        CHECK_INT(memory.live_blocks, 0);
        if (status == PC_OK) {
            CHECK(at > 8);
            break;
        }
        CHECK_STATUS(status, PC_ERR_NOMEM);
    }
}

int main(void)
{
    reads();
    joined();
    bad_headers();
    cut_off();
    shards();
    without_memory();
    return pc_test_end();
}
