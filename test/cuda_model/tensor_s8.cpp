// The tensor cores' products of signed bytes (PTX ISA, "Matrix Fragments for mma.m16n8k16" and
// "mma.m16n8k32" with .s8). A register holds 4 neighbours in k of a row of A or a column of B; the
// registers for k from 16 on come after those of the first 16.
#include "machine.h"
#include "report.h"

namespace gpu_model {

struct mma_s8_call {
    int32_t *d;
    const uint32_t *a, *b;
    int words; // of B in a lane
};

static int32_t byte_of(uint32_t word, int i)
{
    return (int8_t)(uint8_t)(word >> 8 * i);
}

static int32_t product_of(const mma_s8_call *row, const mma_s8_call *column, int half)
{
    int32_t sum = 0;
    for (int word = 0; word < row->words; word++)
        for (int i = 0; i < 4; i++)
            sum += byte_of(row->a[word * 2 + half], i) * byte_of(column->b[word], i);
    return sum;
}

static void run_mma_s8(meeting &all)
{
    if (all.mask != ~0u) {
        report(DIVERGED, all.pc, "a product needs the whole warp; lanes %08x are there", all.mask);
        return;
    }
    for (int row = 0; row < 16; row++)
        for (int column = 0; column < 8; column++) {
            const mma_s8_call *to = (const mma_s8_call *)all.arguments[row % 8 * 4 + column / 2];
            for (int k = 0; k < 4; k++) // the lanes that hold the row and the column
                to->d[row / 8 * 2 + column % 2] += product_of(
                    (const mma_s8_call *)all.arguments[row % 8 * 4 + k],
                    (const mma_s8_call *)all.arguments[column * 4 + k], row / 8);
        }
}

void mma_s8(int32_t *d, const uint32_t *a, const uint32_t *b, int words)
{
    mma_s8_call call = {d, a, b, words};
    meet("a product", run_mma_s8, ~0u, &call, __builtin_return_address(0));
}

} // namespace gpu_model
