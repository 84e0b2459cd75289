/* Catches: integers, scales and minimums that are not bit-equal to dequantised values; rows from
 * the wrong place; a type taken for one of another form. */
#include <stdlib.h>
#include <string.h>

#include "model/load/quantised_rows.h"
#include "testing.h"

enum { COLS = 512, ROWS = 3 };

static pc__tensor random_tensor(pc__ttype type, pc_test_rng *rng, uint8_t **data)
{
    size_t blocks = ROWS * COLS / pc__ttypes[type].block, bytes = pc__ttypes[type].block_bytes;
    pc__tensor tensor = {
        .name = "t", .type = type, .rank = 2, .shape = {ROWS, COLS}, .bytes = blocks * bytes};
    *data = malloc(blocks * bytes);
    for (size_t i = 0; i < blocks * bytes; i++)
        (*data)[i] = (uint8_t)pc_test_bits(rng);
    for (size_t b = 0; b < blocks;
         b++) /* any fp16 but infinities and NaN, at all places where a scale may be */
        for (size_t i = 1; i < bytes; i += 2) {
            (*data)[b * bytes + i] &= 0xbf;
            (*data)[b * bytes + i - 1] &= 0xbf;
        }
    tensor.data = *data;
    return tensor;
}

/* MXFP4: every power of two that is allowed. */
static void allow_scales(pc__ttype type, uint8_t *data, size_t blocks)
{
    for (size_t b = 0; type == PC__T_MXFP4 && b < blocks; b++)
        data[b * 17] = (uint8_t)(b % 253);
}

static void compare(pc__ttype type, pc_test_rng *rng)
{
    static float want[ROWS * COLS];
    static uint16_t memory[2 * ROWS * COLS];
    pc__block_format format = pc__ttype_quantised(type);
    pc__block_rows rows = pc__block_rows_in(memory, &format, COLS, ROWS - 1);
    uint8_t *data;
    pc__tensor tensor = random_tensor(type, rng, &data);
    size_t wrong = 0;
    allow_scales(type, data, ROWS * COLS / pc__ttypes[type].block);
    pc__tensor_floats(&tensor, COLS, (ROWS - 1) * COLS, want);
    pc__tensor_quantised_rows(&tensor, COLS, (ROWS - 1) * COLS, &rows);
    for (size_t i = 0; i < (ROWS - 1) * COLS; i++) {
        size_t b = i / format.block, g = i / format.group;
        float value = pc__block_scale(&format, rows.d[b], rows.scale[g])
                      * (float)pc__block_value(&format, rows.q[i]);
        if (format.minimum)
            value -= pc__block_scale(&format, rows.dmin[b], rows.minimum[g]);
        wrong += memcmp(&value, &want[i], sizeof value) != 0;
        wrong += rows.q[i] >> format.bits != 0;
    }
    if (!CHECK_INT(wrong, 0))
        fprintf(stderr, "    type %s\n", pc__ttypes[type].name);
    free(data);
}

int main(void)
{
    static const pc__ttype on[] = {PC__T_Q8_0,   PC__T_Q4_0,   PC__T_Q4_1, PC__T_Q5_0, PC__T_Q5_1,
                                   PC__T_Q2_K,   PC__T_Q3_K,   PC__T_Q4_K, PC__T_Q5_K, PC__T_Q6_K,
                                   PC__T_IQ4_NL, PC__T_IQ4_XS, PC__T_MXFP4};
    static const pc__ttype off[] = {PC__T_F32, PC__T_BF16, PC__T_F16, PC__T_I8};
    pc_test_rng rng = {3};
    for (int round = 0; round < 20; round++)
        for (size_t i = 0; i < sizeof on / sizeof *on; i++)
            compare(on[i], &rng);
    for (size_t i = 0; i < sizeof off / sizeof *off; i++)
        CHECK_INT(pc__ttype_quantised(off[i]).bits, 0);
    return pc_test_end();
}
