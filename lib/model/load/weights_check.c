/* Finds NaN and infinity in weights before they are used. A quantised value is finite if the scales
 * of its block are: the largest, 65504 * 63 * 127, fits fp32. */
#include <float.h>
#include <math.h>

#include "model/load/dequant.h"

/* Index of the first number that is not finite in fp32; count: none. */
static uint64_t find_f32(const uint8_t *data, uint64_t count)
{
    uint64_t i = 0;
    uint32_t bits, bad;
    while (i < count) {
        uint64_t end = count - i > 4096 ? i + 4096 : count, first = i;
        for (bad = 0; i < end; i++) {
            memcpy(&bits, data + i * 4, 4);
            bad |= (bits & 0x7f800000u) == 0x7f800000u;
        }
        for (i = bad ? first : end; i < end; i++) {
            memcpy(&bits, data + i * 4, 4);
            if ((bits & 0x7f800000u) == 0x7f800000u)
                return i;
        }
    }
    return count;
}

/* The same for 16-bit floats, `stride` bytes apart. */
static uint64_t find_16(const uint8_t *data, uint64_t count, size_t stride, unsigned exponent)
{
    for (uint64_t i = 0; i < count; i++)
        if ((pc__load_u16(data + i * stride) & exponent) == exponent)
            return i;
    return count;
}

static uint64_t find_f64(const uint8_t *data, uint64_t count)
{
    for (uint64_t i = 0; i < count; i++) {
        double value;
        memcpy(&value, data + i * 8, 8);
        if (!(fabs(value) <= (double)FLT_MAX))
            return i;
    }
    return count;
}

pc_status pc__tensor_check(const pc__tensor *tensor, const char *path)
{
    const pc__ttype_info *info = pc__ttype_info_of(tensor->type);
    uint64_t count = tensor->bytes / info->block_bytes, at = count, found;
    if (tensor->type == PC__T_F32)
        at = find_f32(tensor->data, count);
    else if (tensor->type == PC__T_F16)
        at = find_16(tensor->data, count, 2, 0x7c00);
    else if (tensor->type == PC__T_BF16)
        at = find_16(tensor->data, count, 2, 0x7f80);
    else if (tensor->type == PC__T_F64)
        at = find_f64(tensor->data, count);
    for (uint32_t s = 0; s < info->scales; s++) {
        found = find_16(tensor->data + info->scale_at[s], count, info->block_bytes, 0x7c00);
        at = found < at ? found : at;
    }
    if (at < count)
        return pc__fail(PC_ERR_FORMAT, "%s: tensor '%s' (%s): %s element %llu is NaN or infinite",
                        path, tensor->name, info->name,
                        info->scales ? "the scale of" : "the value of",
                        (unsigned long long)(at * info->block));
    return PC_OK;
}
