/* XXH3 with AVX2. */
#if defined(__x86_64__)
#include "base/checksum_code.h"

const pc__checksum_code pc__checksum_avx2 = PC__CHECKSUM_CODE;
#else
typedef int pc__checksum_avx2_is_empty_here;
#endif
