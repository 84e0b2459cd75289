/* The tile registers of AMX: what shapes they have, and what the compiler must be told about them.
 *
 * A tile is up to 16 rows of up to 64 bytes. Which number has which shape is loaded at the start of
 * a kernel and given back at its end; a product multiplies a tile of rows (16 x 32 bf16 or 16 x 64
 * bytes) with a tile of B (16 x 16 pairs of bf16, 16 x 16 groups of four bytes: one row for two or
 * four inputs of 16 columns, as pages and panels lie in memory) and adds to a tile of 16 x 16 sums.
 * By Intel's description of it (Software Developer's Manual, TDPBF16PS) row r of the sums is made
 * from row r of the first tile alone, in an order that does not depend on how many rows there are.
 *
 * The tile intrinsics of GCC are assembly that does not say which memory it reads: GCC 12 names the
 * first 8 bytes of a configuration, and none of a tile that is loaded. Stores to them could be
 * dropped or moved behind. Hence the fences. */
#ifndef PC_ATTN_CPU_AMX_TILES_H
#define PC_ATTN_CPU_AMX_TILES_H

#include <immintrin.h>
#include <stddef.h>
#include <stdint.h>

enum { PC__TILE_SIDE = 16, PC__TILE_BYTES = 64 }; /* rows (and columns of sums); bytes of a row */

typedef struct pc__tile_config {
    uint8_t palette, start_row, reserved[14];
    uint16_t bytes[16]; /* of a row */
    uint8_t rows[16];
} pc__tile_config;
_Static_assert(sizeof(pc__tile_config) == 64, "the layout that the processor reads");

/* Before tiles are loaded from memory that was written, and before memory is read that tiles were
 * stored to. */
static inline void pc__tiles_fence(void)
{
    __asm__ volatile("" ::: "memory");
}

static inline void pc__tiles_shape(pc__tile_config *config, size_t tile, size_t rows, size_t bytes)
{
    config->rows[tile] = (uint8_t)rows;
    config->bytes[tile] = rows ? (uint16_t)bytes : 0;
}

/* All tiles become zero. */
static inline void pc__tiles_open(pc__tile_config *config)
{
    config->palette = 1;
    __asm__ volatile("" : : "r"(config) : "memory");
    _tile_loadconfig(config);
}

static inline void pc__tiles_close(void)
{
    _tile_release();
}

#endif
