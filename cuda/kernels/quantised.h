/* Linear layers with quantised weights, in panels, which are the operands of tensor cores for
 * bytes: 32 output features, group of inputs after group. Each group has q, scale, minimum:
 *
 *   8 bits: q [group / 4][32][4]
 *   4 bits: q [group / 8][32][4]; low halves of the bytes: inputs 0 … group / 2 - 1, high halves:
 *           the others
 *   scale [32] fp16 or fp32 (half); minimum [32] fp32 (only with minimums)
 *
 * Other numbers of bits than 4, and values of tables, are widened to 8 bits.
 *
 * Inputs are quantised as on the CPU (pc__quantise_kernel), to 16 bits as two signed bytes; the low
 * one is 0 in groups that are not wide. Products of a group are exact in 32 bits; the groups of a
 * row are added in ascending order, each with one fused operation: every result has the bits of the
 * CPU's, however many rows are computed together.
 *
 * q - zero lies in -128 … 127, as in all block formats of model/load/quantised_rows.c.
 *
 * pc__cuda_quantise: a block of PC__CUDA_QUANTISE_THREADS threads and PC__CUDA_QUANTISE_SHARED
 * bytes of shared memory for each row, counted up to a multiple of 8. pc__cuda_quantised_few, for
 * few rows: a block of PC__CUDA_QUANTISED_THREADS threads and PC__CUDA_QUANTISED_SHARED bytes of
 * shared memory for each panel (x), PC__CUDA_QUANTISED_ROWS rows (y), and layer (z), which reads
 * the panel once. Layers of one launch have the same inputs and one format; a block beyond the
 * panels of its layer ends at once. pc__cuda_quantised_experts_few: the same, with an expert (y),
 * whose panels it reads once for so many of its rows. pc__cuda_quantised_many: a block of
 * PC__CUDA_QUANTISED_MANY_THREADS threads for each 4 panels (x), 32 rows (y), and layer (z).
 * pc__cuda_quantised_experts_many: the same, with 32 rows of one expert (y), of which there may be
 * fewer than blocks (pc__cuda_expert_tiles). pc__cuda_lookup_quantised: a block of
 * PC__CUDA_QUANTISED_LOOKUP_THREADS threads for each row that is looked up. */
#ifndef PC_CUDA_KERNELS_QUANTISED_H
#define PC_CUDA_KERNELS_QUANTISED_H

#include <stddef.h>
#include <stdint.h>

enum {
    PC__CUDA_QUANTISE_THREADS = 128,
    PC__CUDA_QUANTISE_SHARED = 64,
    PC__CUDA_QUANTISED_THREADS = 256,
    PC__CUDA_QUANTISED_LOOKUP_THREADS = 128,
    PC__CUDA_QUANTISED_MANY_THREADS = 128,
    PC__CUDA_QUANTISED_ROWS = 32,
    PC__CUDA_QUANTISED_PARTS = 4,
    PC__CUDA_QUANTISED_SHARED = 46080 /* products, scales, minimums, sums of 32 groups; results */
};

/* How the panels of a layer lie. */
typedef struct pc__cuda_panel_format {
    uint32_t bits;    /* 4 or 8; 0: not quantised */
    uint32_t group;   /* 16 or 32 */
    int32_t zero;     /* w = scale * (q - zero) - minimum */
    uint32_t minimum; /* 1: has minimums */
    uint32_t half;    /* 1: scales are fp16 */
} pc__cuda_panel_format;

enum { PC__CUDA_PANEL = 32 };

/* Bytes of one group of a panel, and where its scales and minimums begin. */
static inline size_t pc__cuda_scale_at(const pc__cuda_panel_format *format)
{
    return (size_t)format->group * format->bits / 8 * PC__CUDA_PANEL;
}

static inline size_t pc__cuda_minimum_at(const pc__cuda_panel_format *format)
{
    return pc__cuda_scale_at(format) + PC__CUDA_PANEL * (format->half ? 2u : 4u);
}

static inline size_t pc__cuda_group_bytes(const pc__cuda_panel_format *format)
{
    return pc__cuda_minimum_at(format) + (format->minimum ? PC__CUDA_PANEL * 4u : 0);
}

/* Quantised rows, in the order in which the products take them. units: blocks of 32 inputs, the
 * last one filled up with zeros. Row r is row r % 8 of tile r / 8. */
typedef struct pc__cuda_quantised_rows {
    /* [tile][unit][row * 4 + k][4]: bytes 4k … 4k + 3 of the first 16 inputs of the unit, of the
     * other 16, then the low bytes of both; at a multiple of 16 bytes */
    uint32_t *codes;
    int32_t *factors; /* [tile][group][row][2]: bits of the step; minus the sum of the codes */
} pc__cuda_quantised_rows;

typedef struct pc__cuda_quantise_task {
    const float *x; /* [rows][in] at a multiple of 16 bytes; in: a multiple of 16 */
    pc__cuda_quantised_rows to;
    uint32_t rows, in;
    uint32_t group; /* 16 or 32 */
    uint32_t bytes; /* 2: all groups are wide; 1: those that stand out */
} pc__cuda_quantise_task;

/* One of the layers of a launch. */
typedef struct pc__cuda_quantised_part {
    const uint8_t *panels; /* at a multiple of 64 bytes, panel_bytes apart */
    const float *bias;     /* [out]; NULL: none */
    float *y;              /* [rows][out] at a multiple of 16 bytes */
    uint32_t out;
    uint32_t unused;
} pc__cuda_quantised_part;

typedef struct pc__cuda_quantised_task {
    pc__cuda_quantised_part part[PC__CUDA_QUANTISED_PARTS]; /* one a block (z) */
    pc__cuda_quantised_rows x;
    uint64_t panel_bytes;
    uint32_t rows, groups;
    pc__cuda_panel_format format;
    uint32_t unused;
} pc__cuda_quantised_task;

/* The same layer of all experts, whose entries are sorted by expert (experts.h). */
typedef struct pc__cuda_quantised_experts {
    pc__cuda_quantised_task layer; /* part 0, but for panels and bias; no rows; y is [entry][out] */
    const uint64_t *panels;        /* [experts] device addresses */
    const uint64_t *bias;          /* [experts] of fp32 [out]; NULL: none */
    const uint32_t *row;           /* [entry] row of x; NULL: row `entry` */
    const uint32_t *first;         /* [experts + 1] */
    uint32_t experts;
    uint32_t unused;
} pc__cuda_quantised_experts;

/* x[r] = the weights of output row[r], with `add` x[r] += them: each operation rounded, with the
 * CPU's bits. */
typedef struct pc__cuda_quantised_lookup {
    const uint8_t *panels;
    const uint32_t *row; /* [rows] */
    float *x;            /* [rows][groups * group] */
    uint64_t panel_bytes;
    uint32_t rows, groups;
    pc__cuda_panel_format format;
    uint32_t add;
} pc__cuda_quantised_lookup;

/* Sizes of the quantised rows. */
static inline uint64_t pc__cuda_codes_bytes(uint64_t rows, uint64_t in)
{
    return (rows + 7) / 8 * ((in + 31) / 32) * 512;
}

static inline uint64_t pc__cuda_factors_bytes(uint64_t rows, uint64_t groups)
{
    return (rows + 7) / 8 * groups * 64;
}

#endif
