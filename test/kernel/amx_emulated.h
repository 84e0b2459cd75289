/* The kernels of AMX on any processor: compiled from their source over the software model of the
 * tile instructions, or the library's own object code, in which every tile instruction is trapped
 * and carried out by the model. */
#ifndef PC_TEST_AMX_EMULATED_H
#define PC_TEST_AMX_EMULATED_H

#include "attn/kernels.h"

/* Over the kernels of the level `below`, "avx512bf16". NULL: this processor lacks that level. */
const pc__kernels *amx_emulated(const char *below);
/* NULL: likewise, or it has AMX, which traps nothing. From the first call on, SIGILL is the
 * model's. */
const pc__kernels *amx_trapped(const char *below);

#endif
