/* RoPE (attn/rope.h): to = from * scale, rotated by the angles of its row. The tables of cos and
 * sin come from the host, which computes them in double (pc__rope_angles). Every operation is
 * rounded to fp32, in the CPU's order: the same bits. Kernel: pc__cuda_rotate, a thread block of
 * PC__CUDA_ROTATE_THREADS threads for each row.
 *
 * Writes rows of K and V into pages (attn/kv.h), with the CPU's rounding: the same bytes. K can be
 * rotated on the way, which saves a pass over it.
 *
 * Work comes in pieces: consecutive rows that are consecutive tokens of one page. While a sequence
 * grows by one token a piece is one row, and its writes are as narrow as the layout makes them; in
 * a prefill a piece is up to a whole page, and all its writes fill sectors of 32 bytes.
 *
 * Kernels: pc__cuda_kv_write_f32, _bf16, _f16: a thread block of PC__CUDA_KV_THREADS threads for
 * each piece (x) and K/V head (y). Pages of int8 come from the host, which converts runs when they
 * are finished. */
#ifndef PC_CUDA_KERNELS_KV_WRITE_H
#define PC_CUDA_KERNELS_KV_WRITE_H

#include <stdint.h>

enum {
    PC__CUDA_ROTATE_THREADS = 128,
    PC__CUDA_KV_THREADS = 128,
    PC__CUDA_KV_PAGE = 64 /* tokens, as PC__PAGE */
};

typedef struct pc__cuda_angles {
    const float *cosine, *sine; /* [rows][dims / 2] */
    uint32_t dims;              /* the first `dims` of a head rotate, even; 0: none */
    uint32_t interleaved;       /* pairs are (2i, 2i + 1), else (i, i + dims / 2) */
} pc__cuda_angles;

typedef struct pc__cuda_rotate_task {
    const float *from; /* [rows][heads][dim], from_stride floats between rows */
    float *to;         /* likewise; may be `from` with the same stride */
    uint64_t from_stride, to_stride;
    pc__cuda_angles angles;
    uint32_t rows, heads, dim;
    float scale;
} pc__cuda_rotate_task;

/* How a page of one head lies in memory; all counts of bytes. */
typedef struct pc__cuda_page_shape {
    uint32_t k_dim, v_dim;
    uint32_t v_offset;   /* of the V block: pc__kv_k_bytes */
    uint32_t page_bytes; /* of one head: pc__kv_page_bytes */
    uint32_t kv_heads;
    uint32_t unused;
} pc__cuda_page_shape;

typedef struct pc__cuda_kv_piece {
    uint64_t page;         /* device address in layer 0, of head 0 */
    uint64_t layer_stride; /* bytes */
    uint32_t row;          /* first row of k and v */
    uint32_t slot;         /* its token in the page */
    uint32_t count;        /* rows; slot + count <= 64 */
    uint32_t unused;
} pc__cuda_kv_piece;

typedef struct pc__cuda_kv_write {
    const pc__cuda_kv_piece *pieces;
    const float *k, *v; /* [row][kv_head][k_dim], v likewise; NULL: the page keeps its own */
    uint64_t k_stride, v_stride; /* floats between rows */
    pc__cuda_angles angles;      /* of all rows of k; dims 0: not rotated */
    pc__cuda_page_shape shape;
    uint32_t count; /* pieces */
    uint32_t layer;
} pc__cuda_kv_write;

#endif
