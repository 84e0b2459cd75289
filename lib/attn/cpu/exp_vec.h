/* exp of each element of a vector (include vec256.h or vec512.h before): range reduction by ln 2 in
 * two parts, then a polynomial of degree 6 on [-ln2/2, ln2/2]. Normal results are within 2 units in
 * the last place. */
#ifndef PC_ATTN_CPU_EXP_VEC_H
#define PC_ATTN_CPU_EXP_VEC_H

INLINE vec vec_exp(vec x)
{
    vec n, r, p;
    x = vec_min(vec_set(89.0f), vec_max(vec_set(-104.0f), x));
    n = vec_whole(vec_mul(x, vec_set(1.44269504088896341f)));
    r = vec_fnma(n, vec_set(0.693145751953125f), x);
    r = vec_fnma(n, vec_set(1.42860682030941723e-6f), r);
    p = vec_set(1.0f / 720.0f);
    p = vec_fma(p, r, vec_set(1.0f / 120.0f));
    p = vec_fma(p, r, vec_set(1.0f / 24.0f));
    p = vec_fma(p, r, vec_set(1.0f / 6.0f));
    p = vec_fma(p, r, vec_set(0.5f));
    p = vec_fma(p, r, vec_set(1.0f));
    p = vec_fma(p, r, vec_set(1.0f));
    return vec_scale(p, n);
}

#endif
