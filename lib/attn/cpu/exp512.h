/* exp in 16 lanes: range reduction by ln 2 in two parts, then a polynomial of degree 6 on [-ln2/2, ln2/2]; within 2 units in the
 * last place for results that are normal numbers. */
#ifndef PC_ATTN_CPU_EXP512_H
#define PC_ATTN_CPU_EXP512_H

#include <immintrin.h>

static inline __m512 pc__exp512(__m512 x)
{
    const __m512 low = _mm512_set1_ps(-104.0f), high = _mm512_set1_ps(89.0f);
    __m512 n, r, p;
    x = _mm512_min_ps(_mm512_max_ps(x, low), high);
    n = _mm512_roundscale_ps(_mm512_mul_ps(x, _mm512_set1_ps(1.44269504088896341f)), 8);
    r = _mm512_fnmadd_ps(n, _mm512_set1_ps(0.693145751953125f), x);
    r = _mm512_fnmadd_ps(n, _mm512_set1_ps(1.42860682030941723e-6f), r);
    p = _mm512_set1_ps(1.0f / 720.0f);
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(1.0f / 120.0f));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(1.0f / 24.0f));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(1.0f / 6.0f));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(0.5f));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(1.0f));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(1.0f));
    return _mm512_scalef_ps(p, n);
}

#endif
