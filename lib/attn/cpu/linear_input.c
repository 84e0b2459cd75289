/* Converts the inputs of linear layers to the dtype of the layer, with padding. */
#include <string.h>

#include "attn/cpu/linear_internal.h"
#include "attn/kernels.h"
#include "base/threads.h"

enum { ROWS_AT_ONCE = 16 };

typedef struct row_conversion {
    const pc__linear *linear;
    const pc__linear_input *from;
    size_t first, rows, padded_rows, padded;
    uint8_t *to;
    void (*to_bf16)(const float *x, size_t count, uint16_t *out);
} row_conversion;

static void convert_rows(void *arg, size_t index)
{
    const row_conversion *n = arg;
    size_t in = n->linear->in, element = pc__linear_element(n->linear);
    size_t end = (index + 1) * ROWS_AT_ONCE < n->padded_rows ? (index + 1) * ROWS_AT_ONCE
                                                             : n->padded_rows;
    for (size_t r = index * ROWS_AT_ONCE; r < end; r++) {
        const float *x = n->from->x;
        uint8_t *line = n->to + r * n->padded * element;
        size_t filled = r < n->rows ? in : 0;
        if (filled)
            x += (n->from->row ? n->from->row[n->first + r] : n->first + r) * in;
        if (filled && n->linear->compute == PC_DTYPE_F32)
            memcpy(line, x, in * element);
        else if (filled)
            n->to_bf16(x, in, (uint16_t *)(void *)line);
        memset(line + filled * element, 0, (n->padded - filled) * element);
    }
}

void pc__linear_round(const pc__linear *linear, const pc__linear_input *from, size_t first,
                      size_t rows, size_t padded_rows, size_t padded, void *to)
{
    row_conversion n = {linear,      from,   first, rows,
                        padded_rows, padded, to,    pc__kernels_get()->to_bf16};
    pc__parallel(linear->context, (padded_rows + ROWS_AT_ONCE - 1) / ROWS_AT_ONCE, convert_rows,
                 &n);
}
