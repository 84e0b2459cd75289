/* Catches: integers, scales and minimums that are not bit-equal to dequantised values; rows from
 * the wrong place; reads past a tensor, writes past the rows; a type taken for one of another form.
 */
#include <stdlib.h>
#include <string.h>

#include "guarded.h"
#include "model/load/quantised_rows.h"
#include "testing.h"

enum { COLS = 512, ROWS = 3 };

/* Scales of MXFP4: any power of two that is allowed. */
static uint8_t power(size_t block)
{
    return (uint8_t)(block % 253);
}

/* Any bits, but no scale that is infinite or NaN. */
static pc__tensor random_tensor(pc__ttype type, pc_test_rng *rng, guarded *data, guarded *scales)
{
    const pc__ttype_info *info = &pc__ttypes[type];
    size_t blocks = ROWS * COLS / info->block, each = info->block_bytes;
    pc__tensor tensor = {
        .name = "t", .type = type, .rank = 2, .shape = {ROWS, COLS}, .bytes = blocks * each};
    *data = guarded_new(tensor.bytes);
    *scales = guarded_new(type == PC__T_MXFP4_APART ? blocks : 0);
    for (size_t i = 0; i < tensor.bytes; i++)
        data->data[i] = (uint8_t)pc_test_bits(rng);
    for (size_t b = 0; b < blocks; b++) {
        for (uint32_t s = 0; s < info->scales; s++)
            data->data[b * each + info->scale_at[s] + 1] &= 0xbf;
        if (type == PC__T_MXFP4)
            data->data[b * each] = power(b);
        if (type == PC__T_MXFP4_APART)
            scales->data[b] = power(b);
    }
    tensor.data = data->data;
    tensor.scales = scales->bytes ? scales->data : NULL;
    return tensor;
}

/* All but the first row, in memory of exactly their size: an array at a time ends at its guard. */
static void compare(pc__ttype type, pc_test_rng *rng)
{
    enum { COUNT = (ROWS - 1) * COLS };
    static float want[COUNT];
    const pc__block_format format = pc__ttype_quantised(type);
    const size_t blocks = COUNT / format.block * sizeof(uint16_t),
                 groups = pc__has_group_scales(&format) ? COUNT / format.group : 0;
    guarded data, scales, q = guarded_new(COUNT), d = guarded_new(blocks),
                          dmin = guarded_new(format.minimum ? blocks : 0),
                          scale = guarded_new(groups),
                          minimum = guarded_new(format.minimum ? groups : 0);
    pc__tensor tensor = random_tensor(type, rng, &data, &scales);
    const pc__block_rows rows = {q.data, (uint16_t *)(void *)d.data, (uint16_t *)(void *)dmin.data,
                                 (int8_t *)scale.data, (int8_t *)minimum.data};
    size_t wrong = 0;
    pc__tensor_floats(&tensor, COLS, COUNT, want);
    pc__tensor_quantised_rows(&tensor, COLS, COUNT, &rows);
    for (size_t i = 0; i < COUNT; i++) {
        size_t b = i / format.block, g = i / format.group;
        float value = pc__block_scale(&format, rows.d[b], groups ? rows.scale[g] : 1)
                      * (float)pc__block_value(&format, rows.q[i]);
        if (format.minimum)
            value -= pc__block_scale(&format, rows.dmin[b], groups ? rows.minimum[g] : 1);
        wrong += memcmp(&value, &want[i], sizeof value) != 0;
        wrong += rows.q[i] >> format.bits != 0;
    }
    if (!CHECK_INT(wrong, 0))
        fprintf(stderr, "    type %s\n", pc__ttypes[type].name);
    guarded *all[] = {&data, &scales, &q, &d, &dmin, &scale, &minimum};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        CHECK(guarded_intact(all[i]));
        guarded_free(all[i]);
    }
}

int main(void)
{
    static const pc__ttype on[] = {PC__T_Q8_0,  PC__T_Q4_0,       PC__T_Q4_1,   PC__T_Q5_0,
                                   PC__T_Q5_1,  PC__T_Q2_K,       PC__T_Q3_K,   PC__T_Q4_K,
                                   PC__T_Q5_K,  PC__T_Q6_K,       PC__T_IQ4_NL, PC__T_IQ4_XS,
                                   PC__T_MXFP4, PC__T_MXFP4_APART};
    static const pc__ttype off[] = {PC__T_F32, PC__T_BF16, PC__T_F16, PC__T_I8};
    pc_test_rng rng = {3};
    for (int round = 0; round < 20; round++)
        for (size_t i = 0; i < sizeof on / sizeof *on; i++)
            compare(on[i], &rng);
    for (size_t i = 0; i < sizeof off / sizeof *off; i++)
        CHECK_INT(pc__ttype_quantised(off[i]).bits, 0);
    return pc_test_end();
}
