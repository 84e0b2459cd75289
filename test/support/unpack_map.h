/* Reads packed attention maps back, by the layout that attn/map.h describes. */
#ifndef PC_TEST_UNPACK_MAP_H
#define PC_TEST_UNPACK_MAP_H

#include <string.h>

#include "attn/half.h"
#include "attn/map.h"

/* dense: fp32 [head][row][tokens]; zeros beyond a causal row */
static inline void unpack_map(const pc__map_shape *shape, const void *map, float *dense)
{
    size_t rows = (size_t)shape->heads * shape->tokens,
           each = pc__map_row_at(shape, shape->tokens), /* of a head */
        scales = ((size_t)shape->heads * each + 3) / 4 * 4;
    memset(dense, 0, rows * shape->tokens * sizeof *dense);
    for (size_t r = 0; r < rows; r++, dense += shape->tokens) {
        size_t row = r % shape->tokens, at = r / shape->tokens * each + pc__map_row_at(shape, row);
        float scale = 0.0f;
        if (shape->format == PC_MAP_U8)
            memcpy(&scale, (const uint8_t *)map + scales + r * sizeof scale, sizeof scale);
        for (size_t i = 0; i < pc__map_row_keys(shape, row); i++)
            dense[i] = shape->format == PC_MAP_F32 ? ((const float *)map)[at + i]
                       : shape->format == PC_MAP_F16
                           ? pc__half_to(((const uint16_t *)map)[at + i])
                           : scale * (float)((const uint8_t *)map)[at + i];
    }
}

#endif
