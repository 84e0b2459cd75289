/* BLAKE2b in 8 lanes with AVX-512. */
#if defined(__x86_64__)
#define PC__LANES 8
#include "base/digest_lanes_code.h"

const pc__lane_code pc__lane_code_avx512 = {PC__LANES, pc__compress_lanes};
#else
typedef int pc__digest_lanes_avx512_is_empty_here;
#endif
