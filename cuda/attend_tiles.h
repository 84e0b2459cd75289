/* The tiles of a plan's calls in the order in which blocks claim them (kernels/attend.h): tiles
 * that wait for arithmetic spread evenly among those that wait for memory, so that each
 * multiprocessor has both at any time. */
#ifndef PC_CUDA_ATTEND_TILES_H
#define PC_CUDA_ATTEND_TILES_H

#include <stddef.h>

#include "cuda/kernels/attend.h"

/* Writes the tiles of all calls of one format; `group`: query heads of a K/V head. Returns their
 * number. tiles NULL: only that. */
size_t pc__cuda_make_tiles(const pc__cuda_call *calls, size_t call_count, uint32_t group,
                           uint32_t format, uint32_t v_dim, pc__cuda_tile *tiles);

#endif
