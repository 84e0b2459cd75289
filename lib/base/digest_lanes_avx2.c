/* BLAKE2b in 4 lanes with AVX2. */
#if defined(__x86_64__)
#define PC__LANES 4
#include "base/digest_lanes_code.h"

const pc__lane_code pc__lane_code_avx2 = {PC__LANES, pc__compress_lanes};
#else
typedef int pc__digest_lanes_avx2_is_empty_here;
#endif
