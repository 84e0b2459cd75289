/* Products of a tile of rows and a slice of PC__SLICE output features, as oneDNN primitives.
 *
 * A row's result must depend on that row alone. oneDNN does not promise that: the order of its sums
 * can differ with the number of rows of a call and with the row's place in it (its AVX2 code does).
 * Therefore only fixed numbers of rows are used, and for every layer a trial on random numbers of
 * its own shape checks that all places of all tile sizes give the same bits: the order of a sum
 * does not depend on the numbers, so different orders show. Tile sizes that differ are not used. If
 * places of the largest tile differ, the product is tried transposed (y^T = W x^T: a row becomes a
 * column), and otherwise refused.
 *
 * Primitives are immutable: several threads may run one, each with its own pc__tile_exec. */
#ifndef PC_ATTN_CPU_TILES_ONEDNN_H
#define PC_ATTN_CPU_TILES_ONEDNN_H

#include <oneapi/dnnl/dnnl.h>

#include "base/mem.h"

enum {
    PC__SLICE = 64,       /* output features of a product */
    PC__INPUTS_STEP = 32, /* inputs are padded with zeros to a multiple: AMX's depth in bf16 */
    PC__TILE_SIZES = 6
};

typedef struct pc__tiles {
    dnnl_engine_t engine;
    int transposed;
    size_t inputs, element;    /* padded; bytes of an element */
    dnnl_memory_desc_t plain;  /* of a slice of weights: [PC__SLICE][inputs] */
    dnnl_memory_desc_t packed; /* of the same in oneDNN's format */
    dnnl_primitive_t reorder;
    size_t count;
    size_t rows[PC__TILE_SIZES]; /* ascending */
    dnnl_primitive_t product[PC__TILE_SIZES];
    size_t scratch_bytes; /* the largest of all these primitives */
} pc__tiles;

/* Zero-initialise. After a failed `make`, `drop` frees what was made. PC_ERR_UNSUPPORTED: oneDNN
 * has no code (or only reference code) for this here, or none that keeps rows independent. */
pc_status pc__tiles_make(pc__tiles *tiles, const pc_allocator *mem, uint32_t compute,
                         size_t inputs);
void pc__tiles_drop(pc__tiles *tiles);

/* What one thread needs to run one tile size. Zero-initialise. y: [rows][PC__SLICE], transposed
 * [PC__SLICE][rows]. */
typedef struct pc__tile_exec {
    const pc__tiles *tiles;
    size_t tile; /* index of its size */
    dnnl_stream_t stream;
    dnnl_memory_t x, y, scratch;
} pc__tile_exec;

dnnl_status_t pc__tile_exec_open(pc__tile_exec *exec, const pc__tiles *tiles, size_t tile, float *y,
                                 void *scratch);
void pc__tile_exec_close(pc__tile_exec *exec);
/* x [rows][inputs] */
dnnl_status_t pc__tile_exec_multiply(const pc__tile_exec *exec, const void *x,
                                     dnnl_memory_t weights);

/* Reorders plain (as tiles->plain) into packed. */
dnnl_status_t pc__tiles_reorder(const pc__tiles *tiles, void *plain, dnnl_memory_t packed,
                                void *scratch);

/* oneDNN's build for OpenMP uses as many threads as the calling thread is set to; we want one.
 * `enter` sets that and returns the old number for `leave`. All calls of oneDNN that make or run a
 * primitive are made between the two. */
int pc__onednn_enter(void);
void pc__onednn_leave(int before);
pc_status pc__onednn_fail(dnnl_status_t failure, const char *doing);

#endif
