/* Block formats of quantised weights. The integer q of a weight stands for a value: q itself, or
 * entry q of a table. Of `group` inputs of a row with scale s and minimum m, in a block with d and
 * dmin:
 *
 *   w = d * s * (value - zero) - dmin * m
 *
 * d * s and dmin * m are exact in fp32. Kernels compute with the integers; nothing is expanded. */
#ifndef PC_ATTN_BLOCK_FORMAT_H
#define PC_ATTN_BLOCK_FORMAT_H

#include <stddef.h>
#include <stdint.h>

typedef enum pc__block_scales {
    PC__SCALES_F16,    /* d (and dmin) in fp16; s and m are 1 */
    PC__SCALES_BF16,   /* the same in bf16 */
    PC__SCALES_BYTES,  /* d and dmin in fp16; s and m are signed bytes */
    PC__SCALES_NIBBLES /* the same; s and m are in 0 … 15 */
} pc__block_scales;

typedef enum pc__block_table {
    PC__TABLE_NONE, /* value = q */
    PC__TABLE_IQ4,  /* the levels of IQ4_NL and IQ4_XS, plus 128 */
    PC__TABLE_MXFP4 /* the values of 4-bit floats (E2M1), doubled, plus 16 */
} pc__block_table;
extern const uint8_t pc__block_tables[3][16]; /* the first one is not used */

typedef struct pc__block_format {
    uint32_t bits;    /* 2 … 6 or 8: q is in 0 … 2^bits - 1; 0: not quantised */
    uint32_t group;   /* 16 or 32 */
    uint32_t block;   /* 32 or 256; divides the number of inputs */
    int32_t zero;     /* a power of two, or, with minimums, 0; |value - zero| <= 128 */
    uint32_t minimum; /* 1: has minimums */
    uint32_t scales;  /* pc__block_scales; s and m only in blocks of 256 */
    uint32_t table;   /* pc__block_table, with 4 bits */
} pc__block_format;

static inline int pc__has_group_scales(const pc__block_format *format)
{
    return format->scales == PC__SCALES_BYTES || format->scales == PC__SCALES_NIBBLES;
}

/* Rows of a matrix in such a format. */
typedef struct pc__block_rows {
    uint8_t *q;              /* [rows][in] */
    uint16_t *d, *dmin;      /* [rows][in / block]; dmin only with minimums */
    int8_t *scale, *minimum; /* [rows][in / group] s and m, only if the groups have them */
} pc__block_rows;

/* From row `row` on. */
static inline pc__block_rows pc__block_rows_at(const pc__block_rows *rows,
                                               const pc__block_format *format, size_t in,
                                               size_t row)
{
    size_t blocks = row * (in / format->block), groups = row * (in / format->group);
    return (pc__block_rows){rows->q + row * in, rows->d + blocks, rows->dmin + blocks,
                            rows->scale + groups, rows->minimum + groups};
}

/* Bytes of memory for so many rows, and their places in it; `memory` is aligned to 2. */
static inline size_t pc__block_rows_bytes(const pc__block_format *format, size_t in, size_t rows)
{
    return rows * (in / format->block * 4 + in / format->group * 2 + in);
}

static inline pc__block_rows pc__block_rows_in(void *memory, const pc__block_format *format,
                                               size_t in, size_t rows)
{
    size_t blocks = rows * (in / format->block), groups = rows * (in / format->group);
    uint16_t *d = memory;
    int8_t *scale = (int8_t *)(d + 2 * blocks);
    return (pc__block_rows){(uint8_t *)(scale + 2 * groups), d, d + blocks, scale, scale + groups};
}

/* The value of q, less `zero`. */
static inline int32_t pc__block_value(const pc__block_format *format, uint8_t q)
{
    return (format->table ? pc__block_tables[format->table][q] : q) - format->zero;
}

/* d * s and dmin * m, from d or dmin and from s or m. */
float pc__block_scale(const pc__block_format *format, uint16_t d, int8_t s);

/* Writes rows [first, first + count) of a matrix. */
typedef void (*pc__quantised_rows_fn)(void *user, size_t first, size_t count,
                                      const pc__block_rows *to);

#endif
