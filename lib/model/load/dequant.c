/* The table of tensor types, and the plain ones as fp32. */
#include "model/load/dequant.h"

#include "attn/bf16.h"

static void from_f32(const uint8_t *in, size_t count, float *out)
{
    memcpy(out, in, count * sizeof *out);
}

/* Blocks of a fixed size: compilers vectorise them. */
static void from_f16(const uint8_t *in, size_t count, float *out)
{
    enum { WIDE = 32 };
    size_t i = 0;
    for (; i + WIDE <= count; i += WIDE) {
        uint16_t halves[WIDE];
        float values[WIDE];
        memcpy(halves, in + 2 * i, sizeof halves);
        for (int j = 0; j < WIDE; j++)
            values[j] = pc__half_to(halves[j]);
        memcpy(out + i, values, sizeof values);
    }
    for (; i < count; i++)
        out[i] = pc__load_half(in + 2 * i);
}

static void from_bf16(const uint8_t *in, size_t count, float *out)
{
    for (size_t i = 0; i < count; i++)
        out[i] = pc__bf16_to(pc__load_u16(in + 2 * i));
}

/* A plain number type: each value is rounded to fp32 once. */
#define FROM(name, type)                                                 \
    static void from_##name(const uint8_t *in, size_t count, float *out) \
    {                                                                    \
        for (size_t i = 0; i < count; i++) {                             \
            type value;                                                  \
            memcpy(&value, in + i * sizeof value, sizeof value);         \
            out[i] = (float)value;                                       \
        }                                                                \
    }
FROM(f64, double)
FROM(i8, int8_t)
FROM(i16, int16_t)
FROM(i32, int32_t)
FROM(i64, int64_t)
FROM(u8, uint8_t)

static const pc__ttype_info types[] = {
    [PC__T_F32] = {"F32", 1, 4, from_f32, 0, {0}},
    [PC__T_F16] = {"F16", 1, 2, from_f16, 0, {0}},
    [PC__T_BF16] = {"BF16", 1, 2, from_bf16, 0, {0}},
    [PC__T_F64] = {"F64", 1, 8, from_f64, 0, {0}},
    [PC__T_I8] = {"I8", 1, 1, from_i8, 0, {0}},
    [PC__T_I16] = {"I16", 1, 2, from_i16, 0, {0}},
    [PC__T_I32] = {"I32", 1, 4, from_i32, 0, {0}},
    [PC__T_I64] = {"I64", 1, 8, from_i64, 0, {0}},
    [PC__T_U8] = {"U8", 1, 1, from_u8, 0, {0}},
    [PC__T_Q8_0] = {"Q8_0", 32, 34, pc__dequant_q8_0, 1, {0}},
    [PC__T_Q4_0] = {"Q4_0", 32, 18, pc__dequant_q4_0, 1, {0}},
    [PC__T_Q4_1] = {"Q4_1", 32, 20, pc__dequant_q4_1, 2, {0, 2}},
    [PC__T_Q5_0] = {"Q5_0", 32, 22, pc__dequant_q5_0, 1, {0}},
    [PC__T_Q5_1] = {"Q5_1", 32, 24, pc__dequant_q5_1, 2, {0, 2}},
    [PC__T_Q2_K] = {"Q2_K", 256, 84, pc__dequant_q2_k, 2, {80, 82}},
    [PC__T_Q3_K] = {"Q3_K", 256, 110, pc__dequant_q3_k, 1, {108}},
    [PC__T_Q4_K] = {"Q4_K", 256, 144, pc__dequant_q4_k, 2, {0, 2}},
    [PC__T_Q5_K] = {"Q5_K", 256, 176, pc__dequant_q5_k, 2, {0, 2}},
    [PC__T_Q6_K] = {"Q6_K", 256, 210, pc__dequant_q6_k, 1, {208}},
    [PC__T_IQ4_NL] = {"IQ4_NL", 32, 18, pc__dequant_iq4_nl, 1, {0}},
    [PC__T_IQ4_XS] = {"IQ4_XS", 256, 136, pc__dequant_iq4_xs, 1, {0}},
};

const pc__ttype_info *pc__ttype_info_of(pc__ttype type)
{
    return &types[type];
}

size_t pc__ttype_block(pc__ttype type)
{
    return types[type].block;
}

size_t pc__ttype_block_bytes(pc__ttype type)
{
    return types[type].block_bytes;
}

const char *pc__ttype_name(pc__ttype type)
{
    return types[type].name;
}

void pc__tensor_floats(const pc__tensor *tensor, uint64_t first, uint64_t count, float *out)
{
    const pc__ttype_info *info = &types[tensor->type];
    if (count)
        info->dequant(tensor->data + first / info->block * info->block_bytes,
                      (size_t)(count / info->block), out);
}
