/* The tile registers of AMX: their shapes, and what the compiler must be told.
 *
 * A tile has up to 16 rows of up to 64 bytes. A kernel loads the shapes of all tiles at its start
 * and releases them at its end. A product multiplies a tile of rows (16 x 32 bf16 or 16 x 64 bytes)
 * by a tile of B (16 x 16 pairs of bf16 or groups of four bytes: each row holds two or four inputs
 * of 16 columns, the layout of pages and panels), and adds to a tile of 16 x 16 sums. By Intel's
 * description (Software Developer's Manual, TDPBF16PS), row r of the sums depends on row r of the
 * first tile alone, in an order that does not depend on the number of rows.
 *
 * The tile intrinsics of GCC are assembly that does not say which memory it reads: GCC 12 names the
 * first 8 bytes of a configuration, and nothing of a loaded tile. It could drop or move stores to
 * them. Hence the fences. */
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
_Static_assert(sizeof(pc__tile_config) == 64, "the processor's layout");

/* Needed after stores to memory that tiles are loaded from, and after tile stores to memory that is
 * read. */
static inline void pc__tiles_fence(void)
{
    __asm__ volatile("" ::: "memory");
}

static inline void pc__tiles_shape(pc__tile_config *config, size_t tile, size_t rows, size_t bytes)
{
    config->rows[tile] = (uint8_t)rows;
    config->bytes[tile] = rows ? (uint16_t)bytes : 0;
}

/* Loads the shapes; all tiles become zero. */
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
