/* A software model of the tile instructions, by the operation sections of Intel's Software
 * Developer's Manual (volume 2: LDTILECFG, TILELOADD, TILESTORED, TILEZERO, TDPBF16PS, TDPBSSD and
 * its kin). What the processor would refuse (#UD, #GP) ends the test with a message.
 *
 * With AMX_INTRINSICS defined before it is included, it takes the place of the compiler's tile
 * intrinsics in the code that follows. */
#ifndef PC_TEST_AMX_EMULATION_H
#define PC_TEST_AMX_EMULATION_H

#include <stddef.h>
#include <stdint.h>

typedef struct amx_tile {
    size_t rows, bytes; /* as configured; both 0: not */
    union {
        uint8_t byte[16][64];
        uint16_t bf16[16][32];
        int32_t whole[16][16];
        float real[16][16];
    } at;
} amx_tile;

/* A processor of every thread. */
typedef struct amx_machine {
    amx_tile tile[8];
    int open; /* between LDTILECFG and TILERELEASE */
    uint64_t configurations, loads, stores, zeros, bf16_products, releases;
} amx_machine;
extern _Thread_local amx_machine amx;

void amx_load_config(const void *config);
void amx_release(void);
void amx_zero(int tile);
void amx_load(int tile, const void *base, ptrdiff_t stride);
void amx_store(int tile, void *base, ptrdiff_t stride);
void amx_multiply_bf16(int sum, int a, int b);

#if defined(AMX_INTRINSICS)
#include <immintrin.h>
#undef _tile_loadd
#undef _tile_stored
#undef _tile_zero
#undef _tile_dpbf16ps
#define _tile_loadconfig(config) amx_load_config(config)
#define _tile_release() amx_release()
#define _tile_zero(tile) amx_zero(tile)
#define _tile_loadd(tile, base, stride) amx_load((tile), (base), (ptrdiff_t)(stride))
#define _tile_stored(tile, base, stride) amx_store((tile), (base), (ptrdiff_t)(stride))
#define _tile_dpbf16ps(sum, a, b) amx_multiply_bf16(sum, a, b)
#endif

#endif
