/* PC__UNROLL(most) before a loop with a constant number of steps, at most `most`, unrolls it fully,
 * so that its arrays stay in registers. gcc and clang ignore each other's pragma. */
#ifndef PC_BASE_UNROLL_H
#define PC_BASE_UNROLL_H

#define PC__PRAGMA(text) _Pragma(#text)
#if defined(__clang__)
#define PC__UNROLL(most) PC__PRAGMA(clang loop unroll(full))
#else
#define PC__UNROLL(most) PC__PRAGMA(GCC unroll most)
#endif

#endif
