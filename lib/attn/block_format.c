/* The tables of block formats, and the product of their scales. */
#include "attn/block_format.h"

#include "attn/half.h"

const uint8_t pc__block_tables[3][16] = {
    [PC__TABLE_IQ4] = {1, 24, 45, 63, 79, 93, 106, 118, 129, 141, 153, 166, 181, 197, 217, 241},
    [PC__TABLE_MXFP4] = {16, 17, 18, 19, 20, 22, 24, 28, 16, 15, 14, 13, 12, 10, 8, 4}};

float pc__block_scale(const pc__block_format *format, uint16_t d, int8_t s)
{
    float value = format->scales == PC__SCALES_BF16 ? pc__bf16_to(d) : pc__half_to(d);
    return pc__has_group_scales(format) ? value * (float)s : value;
}
