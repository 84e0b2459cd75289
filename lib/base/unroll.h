/* A loop whose steps are known when it is compiled is written out, so that what it keeps in an
 * array stays in registers: PC__UNROLL(most) before the loop, where `most` is no less than its
 * steps. gcc and clang each ignore the other's pragma, clang in silence. */
#ifndef PC_BASE_UNROLL_H
#define PC_BASE_UNROLL_H

#define PC__PRAGMA(text) _Pragma(#text)
#if defined(__clang__)
#define PC__UNROLL(most) PC__PRAGMA(clang loop unroll(full))
#else
#define PC__UNROLL(most) PC__PRAGMA(GCC unroll most)
#endif

#endif
