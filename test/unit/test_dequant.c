/* Catches: a wrong bit, sign, order or rounding in any tensor type (bit-equal to the gguf Python
 * package for the same blocks), wrong slices of a tensor, NaN and infinity that are not found or
 * have the wrong index. */
#include "base/mem.h"
#include "model/load/weights.h"
#include "testing.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCKS = 64 };

/* Blocks of splitmix64's bytes with this seed, the sign-and-exponent byte of each scale and-ed with
 * 0xbf (MXFP4: each scale modulo 253). Values at 0, 1, b/2, b - 1, b + 17, 5b + b/3 (b: block), and
 * FNV-1a over the bytes of all 64 blocks' values. */
static const struct {
    pc__ttype type;
    uint64_t seed;
    uint32_t bits[6];
    uint64_t all;
} golden[] = {
    {PC__T_Q8_0,
     100,
     {0xc19df800, 0x409df800, 0x41723800, 0xc190ce00, 0xbef9a000, 0x425ef000},
     UINT64_C(0xfd23ff20110fa6cd)},
    {PC__T_Q4_0,
     101,
     {0x3be2e000, 0xbc0dcc00, 0x3b62e000, 0xbbaa2800, 0x3efd0000, 0x80000000},
     UINT64_C(0xdc7108a5276b9e2b)},
    {PC__T_Q4_1,
     102,
     {0x3e06cb00, 0x3e0bb940, 0x3e05e580, 0x3e089600, 0x3f86a716, 0xbd46e000},
     UINT64_C(0x692f8b4545281e98)},
    {PC__T_Q5_0,
     103,
     {0x3fa8c000, 0x3f834000, 0xc0034000, 0x400ca000, 0xc0931200, 0x40270000},
     UINT64_C(0x9a7282fd47b352f4)},
    {PC__T_Q5_1,
     104,
     {0x3f917400, 0x3f9f2000, 0x3fd5d000, 0x401ac200, 0x40ddba1b, 0xc20877ca},
     UINT64_C(0x9faa40aceefdfd9e)},
    {PC__T_IQ4_NL,
     105,
     {0xbe326000, 0xc010ee00, 0xc010ee00, 0xc010ee00, 0xc07a4000, 0xc2b9ea00},
     UINT64_C(0xf53dc5f6f72839d5)},
    {PC__T_Q2_K,
     106,
     {0x3f5e9d26, 0x3f5e9d26, 0x3f5ed74e, 0x3fa70809, 0xbf8c4c00, 0xc15e26e0},
     UINT64_C(0xd795a7f964fed78e)},
    {PC__T_Q3_K,
     107,
     {0xc19d0800, 0xc11d0800, 0x407b4000, 0x41a78000, 0x3d970700, 0xc0322c00},
     UINT64_C(0x4180f33b8d6a721b)},
    {PC__T_Q4_K,
     108,
     {0xc0e99e07, 0xc0546c0e, 0xbf699400, 0xc08766c2, 0x3bd63000, 0x3ba39200},
     UINT64_C(0x2525f53bebc805ae)},
    {PC__T_Q5_K,
     109,
     {0x423766ac, 0x42377719, 0x4232df10, 0x414c3669, 0xc302e6e7, 0x00000000},
     UINT64_C(0xb32ec624dd85d7b7)},
    {PC__T_Q6_K,
     110,
     {0xbd2aa140, 0xbd23ce00, 0x3b5a6800, 0x3d75b500, 0xbea98800, 0x42bf2298},
     UINT64_C(0x2341c6e33f03200e)},
    {PC__T_IQ4_XS,
     111,
     {0x3ddb9798, 0x3ca57d60, 0x3ba44200, 0xbc878340, 0x4483e4ee, 0xc3e34240},
     UINT64_C(0xa1925265e672a263)},
    {PC__T_MXFP4,
     112,
     {0x9e000000, 0x9d400000, 0x1d000000, 0x9e000000, 0x00000000, 0x93400000},
     UINT64_C(0x772c2082b7422ee6)},
};

static uint64_t fnv(const void *data, size_t size)
{
    const uint8_t *bytes = data;
    uint64_t h = UINT64_C(0xcbf29ce484222325);
    for (size_t i = 0; i < size; i++)
        h = (h ^ bytes[i]) * UINT64_C(0x100000001b3);
    return h;
}

static const uint8_t *scales_of(pc__ttype type, size_t *count)
{
    static const uint8_t first[] = {0}, two[] = {0, 2}, q2[] = {80, 82}, q3[] = {108}, q6[] = {208};
    *count = 1;
    switch (type) {
    case PC__T_Q4_1:
    case PC__T_Q5_1:
    case PC__T_Q4_K:
    case PC__T_Q5_K:
        *count = 2;
        return two;
    case PC__T_Q2_K:
        *count = 2;
        return q2;
    case PC__T_Q3_K:
        return q3;
    case PC__T_Q6_K:
        return q6;
    default:
        return first;
    }
}

static pc__tensor blocks(pc__ttype type, uint64_t seed, uint8_t *data)
{
    size_t block = pc__ttypes[type].block, bytes = pc__ttypes[type].block_bytes, count;
    const uint8_t *scales = scales_of(type, &count);
    pc_test_rng rng = {seed};
    for (size_t i = 0; i < BLOCKS * bytes; i += 8) {
        uint64_t bits = pc_test_bits(&rng);
        memcpy(data + i, &bits, BLOCKS * bytes - i < 8 ? BLOCKS * bytes - i : 8);
    }
    for (size_t b = 0; b < BLOCKS; b++)
        for (size_t s = 0; s < count; s++)
            if (type == PC__T_MXFP4)
                data[b * bytes] %= 253;
            else
                data[b * bytes + scales[s] + 1] &= 0xbf;
    return (pc__tensor){.name = "t",
                        .type = type,
                        .rank = 2,
                        .shape = {BLOCKS / 2, 2 * block},
                        .data = data,
                        .bytes = BLOCKS * bytes};
}

static void quantised(void)
{
    static uint8_t data[BLOCKS * 256];
    static float values[BLOCKS * 256], part[512];
    for (size_t g = 0; g < sizeof golden / sizeof *golden; g++) {
        size_t b = pc__ttypes[golden[g].type].block;
        size_t places[6] = {0, 1, b / 2, b - 1, b + 17, 5 * b + b / 3};
        pc__tensor tensor = blocks(golden[g].type, golden[g].seed, data);
        memset(values, 0xa5, sizeof values);
        pc__tensor_floats(&tensor, 0, BLOCKS * b, values);
        for (size_t i = 0; i < 6; i++) {
            uint32_t bits;
            memcpy(&bits, &values[places[i]], 4);
            CHECK_INT(bits, golden[g].bits[i]);
        }
        if (!CHECK(fnv(values, BLOCKS * b * 4) == golden[g].all))
            fprintf(stderr, "    type %s\n", pc__ttypes[golden[g].type].name);
        pc__tensor_floats(&tensor, 7 * b, 2 * b, part);
        CHECK(!memcmp(part, values + 7 * b, 2 * b * 4));
        CHECK_OK(pc__tensor_check(&tensor, "file"));
    }
}

/* NaN or infinity in any scale of any block is found and its first value named. */
static void bad_scales(void)
{
    static uint8_t data[BLOCKS * 256];
    char index[32];
    for (size_t g = 0; g < sizeof golden / sizeof *golden; g++) {
        size_t count, bytes = pc__ttypes[golden[g].type].block_bytes, bad = 3 + g;
        const uint8_t *scales = scales_of(golden[g].type, &count);
        for (size_t s = 0; s < count; s++) {
            pc__tensor tensor = blocks(golden[g].type, golden[g].seed, data);
            if (golden[g].type == PC__T_MXFP4) {
                data[bad * bytes] = 253; /* times 6 it is infinite */
            } else {
                data[bad * bytes + scales[s] + 1] = s ? 0xfc : 0x7e;
                data[bad * bytes + scales[s]] = 0;
            }
            CHECK_STATUS(pc__tensor_check(&tensor, "some.gguf"), PC_ERR_FORMAT);
            snprintf(index, sizeof index, "element %zu ", bad * pc__ttypes[golden[g].type].block);
            CHECK_ERROR_HAS(index);
            CHECK_ERROR_HAS("some.gguf: tensor 't'");
        }
    }
}

/* Every fp16 value, against ldexp. */
static void halves(void)
{
    static uint16_t half[65536];
    static float values[65536];
    pc__tensor tensor = {.name = "h",
                         .type = PC__T_F16,
                         .rank = 1,
                         .shape = {65536},
                         .data = (const uint8_t *)half,
                         .bytes = 131072};
    size_t wrong = 0;
    for (uint32_t i = 0; i < 65536; i++)
        half[i] = (uint16_t)i;
    pc__tensor_floats(&tensor, 0, 65536, values);
    for (int i = 0; i < 65536; i++) {
        int exponent = i >> 10 & 31, fraction = i & 1023;
        double want = exponent ? ldexp(1024 + fraction, exponent - 25) : ldexp(fraction, -24);
        want = i & 0x8000 ? -want : want;
        if (exponent == 31)
            wrong += (fraction ? isnan(values[i])
                               : isinf(values[i]) && (values[i] < 0) == (i > 0x7fff))
                         ? 0
                         : 1;
        else
            wrong += (double)values[i] == want && (signbit(values[i]) != 0) == (i > 0x7fff) ? 0 : 1;
    }
    CHECK_INT(wrong, 0);
}

static void plain(pc__ttype type, const void *data, size_t width, const float want[3])
{
    float values[3] = {9, 9, 9};
    pc__tensor tensor = {
        .name = "p", .type = type, .rank = 1, .shape = {3}, .data = data, .bytes = 3 * width};
    pc__tensor_floats(&tensor, 0, 3, values);
    CHECK(!memcmp(values, want, sizeof values));
    pc__tensor_floats(&tensor, 2, 1, values);
    CHECK(values[0] == want[2]);
    CHECK_INT(pc__ttypes[type].block_bytes, width);
    CHECK_OK(pc__tensor_check(&tensor, "file"));
}

static void plain_types(void)
{
    plain(PC__T_F32, (const float[]){1.5f, -0.0f, 3e38f}, 4, (const float[]){1.5f, -0.0f, 3e38f});
    plain(PC__T_F64, (const double[]){1.5, 1.0 / 3.0, -1e-3}, 8,
          (const float[]){1.5f, (float)(1.0 / 3.0), -1e-3f});
    plain(PC__T_BF16, (const uint16_t[]){0x3fc0, 0xbf80, 0x0001}, 2,
          (const float[]){1.5f, -1.0f, 0x1p-133f});
    plain(PC__T_I8, (const int8_t[]){-128, 0, 127}, 1, (const float[]){-128, 0, 127});
    plain(PC__T_U8, (const uint8_t[]){0, 128, 255}, 1, (const float[]){0, 128, 255});
    plain(PC__T_I16, (const int16_t[]){-32768, 1, 32767}, 2, (const float[]){-32768, 1, 32767});
    plain(PC__T_I32, (const int32_t[]){-5, 1, 16777216}, 4, (const float[]){-5, 1, 16777216});
    plain(PC__T_I64, (const int64_t[]){-5, 1, INT64_C(1) << 40}, 8,
          (const float[]){-5, 1, 0x1p40f});
}

/* The first number that is not finite, however far in. */
static void bad_values(void)
{
    static float f32[10000];
    uint16_t f16[9] = {0}, bf16[9] = {0};
    double f64[9] = {0};
    pc__tensor tensors[4] = {{.name = "f32",
                              .type = PC__T_F32,
                              .rank = 1,
                              .shape = {10000},
                              .data = (const uint8_t *)f32,
                              .bytes = sizeof f32},
                             {.name = "f16",
                              .type = PC__T_F16,
                              .rank = 1,
                              .shape = {9},
                              .data = (const uint8_t *)f16,
                              .bytes = sizeof f16},
                             {.name = "bf16",
                              .type = PC__T_BF16,
                              .rank = 1,
                              .shape = {9},
                              .data = (const uint8_t *)bf16,
                              .bytes = sizeof bf16},
                             {.name = "f64",
                              .type = PC__T_F64,
                              .rank = 1,
                              .shape = {9},
                              .data = (const uint8_t *)f64,
                              .bytes = sizeof f64}};
    static const char *const where[4] = {"element 9001 ", "element 5 ", "element 6 ", "element 7 "};
    for (int i = 0; i < 4; i++)
        CHECK_OK(pc__tensor_check(&tensors[i], "file"));
    f32[9001] = -INFINITY;
    f32[9500] = NAN;
    f16[5] = 0xfc00;
    bf16[6] = 0x7fc1;
    f64[7] = 1e39; /* does not fit fp32 */
    for (int i = 0; i < 4; i++) {
        CHECK_STATUS(pc__tensor_check(&tensors[i], "file"), PC_ERR_FORMAT);
        CHECK_ERROR_HAS(where[i]);
        CHECK_ERROR_HAS(tensors[i].name);
    }
}

int main(void)
{
    quantised();
    bad_scales();
    halves();
    plain_types();
    bad_values();
    return pc_test_end();
}
