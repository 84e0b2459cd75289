/* The loops of vector_ops.h for one width of vectors, in the compiler's vector types. The including
 * file defines VEC_BYTES, LOOPS (the table's name), LOOPS_NAME, ROWS (rows of a tile of `linear`:
 * as many as accumulators fit into registers), HALF_LANES and BYTE_LANES (the 16 halves or bytes at
 * `at` as lanes). */
#include <string.h>

#include "base/unroll.h"

typedef float vec __attribute__((vector_size(VEC_BYTES)));
typedef int32_t ivec __attribute__((vector_size(VEC_BYTES)));
typedef float vec_at __attribute__((vector_size(VEC_BYTES), aligned(4), may_alias)); /* unaligned */
typedef int32_t ivec_at __attribute__((vector_size(VEC_BYTES), aligned(4), may_alias));
enum {
    WIDE = VEC_BYTES / 4,
    LANES = 16,
    PARTS = LANES / WIDE,
    TILE = 4 /* vectors */,
    FLUSH = 2048 /* elements summed in fp32 before fp64 */
};
typedef struct lanes {
    vec part[PARTS];
} lanes;

#define EACH static inline __attribute__((always_inline))

EACH vec load(const float *at)
{
    return *(const vec_at *)at;
}

EACH void tile(const float *w, size_t ins, size_t outs, const float *x, size_t ldx, float *y,
               const int rows, const int vecs)
{
    vec sum[ROWS][TILE];
    PC__UNROLL(4)
    for (int r = 0; r < rows; r++)
        PC__UNROLL(4)
    for (int v = 0; v < vecs; v++)
        sum[r][v] = load(y + (size_t)r * outs + (size_t)v * WIDE);
    for (size_t i = 0; i < ins; i++)
        PC__UNROLL(4)
    for (int v = 0; v < vecs; v++) {
        vec weight = load(w + i * outs + (size_t)v * WIDE);
        PC__UNROLL(4)
        for (int r = 0; r < rows; r++)
            sum[r][v] += x[(size_t)r * ldx + i] * weight;
    }
    PC__UNROLL(4)
    for (int r = 0; r < rows; r++)
        PC__UNROLL(4)
    for (int v = 0; v < vecs; v++)
        *(vec_at *)(y + (size_t)r * outs + (size_t)v * WIDE) = sum[r][v];
}

static void linear(const float *w, size_t ins, size_t outs, const float *x, size_t ldx, size_t rows,
                   float *y)
{
    size_t o = 0;
    for (; o + TILE * WIDE <= outs; o += TILE * WIDE) {
        size_t r = 0;
        for (; r + ROWS <= rows; r += ROWS)
            tile(w + o, ins, outs, x + r * ldx, ldx, y + r * outs + o, ROWS, TILE);
        for (; r < rows; r++)
            tile(w + o, ins, outs, x + r * ldx, ldx, y + r * outs + o, 1, TILE);
    }
    for (; o < outs; o += WIDE)
        for (size_t r = 0; r < rows; r++)
            tile(w + o, ins, outs, x + r * ldx, ldx, y + r * outs + o, 1, 1);
}

static void largest(const float *x, size_t rows, size_t stride, size_t columns, float *most)
{
    size_t c = 0;
    for (; c + WIDE <= columns; c += WIDE) {
        vec m = load(x + c);
        for (size_t r = 1; r < rows; r++) {
            vec next = load(x + r * stride + c);
            ivec more = next > m;
            m = (vec)(((ivec)next & more) | ((ivec)m & ~more));
        }
        *(vec_at *)(most + c) = m;
    }
    for (; c < columns; c++) {
        float m = x[c];
        for (size_t r = 1; r < rows; r++)
            m = x[r * stride + c] > m ? x[r * stride + c] : m;
        most[c] = m;
    }
}

/* Adds up 16 lanes: those 8 apart, then 4, 2, 1. */
EACH float joined(const lanes *l)
{
    float f[LANES];
    memcpy(f, l, sizeof f);
    for (int half = LANES / 2; half; half /= 2)
        for (int i = 0; i < half; i++)
            f[i] += f[i + half];
    return f[0];
}

EACH void add_distance(lanes *sum, const lanes *a, const lanes *b, const int squared)
{
    PC__UNROLL(4)
    for (int p = 0; p < PARTS; p++) {
        vec d = a->part[p] - b->part[p];
        sum->part[p] += squared ? d * d : (vec)((ivec)d & 0x7fffffff);
    }
}

EACH lanes float_lanes(const float *at)
{
    lanes l;
    PC__UNROLL(4)
    for (int p = 0; p < PARTS; p++)
        l.part[p] = load(at + p * WIDE);
    return l;
}

EACH lanes half_lanes(const uint16_t *at)
{
    HALF_LANES;
}

static float square_distance(const float *a, const float *b, size_t n)
{
    lanes sum = {0};
    for (size_t i = 0; i < n; i += LANES) {
        lanes x = float_lanes(a + i), y = float_lanes(b + i);
        add_distance(&sum, &x, &y, 1);
    }
    return joined(&sum);
}

EACH lanes bare_bytes(const uint8_t *at)
{
    BYTE_LANES;
}

EACH lanes byte_lanes(const uint8_t *at, float scale)
{
    lanes l = bare_bytes(at);
    PC__UNROLL(4)
    for (int p = 0; p < PARTS; p++)
        l.part[p] *= scale;
    return l;
}

/* For all formats: whole groups of 16, then one that is filled up with zeros. */
#define SUM_DISTANCES(type, lanes_a, lanes_b, squared)  \
    double total = 0;                                   \
    while (n) {                                         \
        size_t now = n < FLUSH ? n : FLUSH, i = 0;      \
        lanes sum = {0}, x, y;                          \
        for (; i + LANES <= now; i += LANES) {          \
            const type *at_a = a + i, *at_b = b + i;    \
            x = lanes_a, y = lanes_b;                   \
            add_distance(&sum, &x, &y, squared);        \
        }                                               \
        if (i < now) {                                  \
            type at_a[LANES] = {0}, at_b[LANES] = {0};  \
            memcpy(at_a, a + i, (now - i) * sizeof *a); \
            memcpy(at_b, b + i, (now - i) * sizeof *b); \
            x = lanes_a, y = lanes_b;                   \
            add_distance(&sum, &x, &y, squared);        \
        }                                               \
        total += (double)joined(&sum);                  \
        a += now, b += now, n -= now;                   \
    }                                                   \
    return total

EACH double f32_distances(const float *a, const float *b, size_t n, const int squared)
{
    SUM_DISTANCES(float, float_lanes(at_a), float_lanes(at_b), squared);
}
EACH double f16_distances(const uint16_t *a, const uint16_t *b, size_t n, const int squared)
{
    SUM_DISTANCES(uint16_t, half_lanes(at_a), half_lanes(at_b), squared);
}
EACH double u8_distances(const uint8_t *a, float a_scale, const uint8_t *b, float b_scale, size_t n,
                         const int squared)
{
    SUM_DISTANCES(uint8_t, byte_lanes(at_a, a_scale), byte_lanes(at_b, b_scale), squared);
}

/* Adds the first `count` of 16 lanes only. */
EACH void add_some_distance(lanes *sum, const lanes *a, const lanes *b, size_t count,
                            const int squared)
{
    static const int32_t some[2 * LANES] = {-1, -1, -1, -1, -1, -1, -1, -1,
                                            -1, -1, -1, -1, -1, -1, -1, -1};
    const int32_t *mask = some + LANES - count;
    PC__UNROLL(4)
    for (int p = 0; p < PARTS; p++) {
        vec d = a->part[p] - b->part[p];
        ivec keep = *(const ivec_at *)(mask + p * WIDE),
             bits = squared ? (ivec)(d * d) : (ivec)d & 0x7fffffff;
        sum->part[p] += (vec)(bits & keep);
    }
}

EACH double u8_rows(const uint8_t *a, const float *a_scale, const uint8_t *b, const float *b_scale,
                    size_t rows, size_t keys, size_t grow, const int squared)
{
    lanes sum = {0}, x, y;
    double total = 0;
    size_t since = 0;
    for (size_t r = 0; r < rows; r++, keys += grow) {
        size_t i = 0;
        for (; i + LANES <= keys; i += LANES) {
            x = byte_lanes(a + i, a_scale[r]), y = byte_lanes(b + i, b_scale[r]);
            add_distance(&sum, &x, &y, squared);
        }
        if (i < keys) {
            x = byte_lanes(a + i, a_scale[r]), y = byte_lanes(b + i, b_scale[r]);
            add_some_distance(&sum, &x, &y, keys - i, squared);
        }
        a += keys, b += keys;
        if ((since += keys) >= FLUSH) {
            total += (double)joined(&sum);
            sum = (lanes){0}, since = 0;
        }
    }
    return total + (double)joined(&sum);
}

static double distance_u8_rows(const uint8_t *a, const float *a_scale, const uint8_t *b,
                               const float *b_scale, size_t rows, size_t keys, size_t grow,
                               int squared)
{
    return squared ? u8_rows(a, a_scale, b, b_scale, rows, keys, grow, 1)
                   : u8_rows(a, a_scale, b, b_scale, rows, keys, grow, 0);
}

static double distance_f32(const float *a, const float *b, size_t n, int squared)
{
    return squared ? f32_distances(a, b, n, 1) : f32_distances(a, b, n, 0);
}

static double distance_f16(const uint16_t *a, const uint16_t *b, size_t n, int squared)
{
    return squared ? f16_distances(a, b, n, 1) : f16_distances(a, b, n, 0);
}

static double distance_u8(const uint8_t *a, float a_scale, const uint8_t *b, float b_scale,
                          size_t n, int squared)
{
    return squared ? u8_distances(a, a_scale, b, b_scale, n, 1)
                   : u8_distances(a, a_scale, b, b_scale, n, 0);
}

const pc__vector_ops LOOPS = {LOOPS_NAME,   linear,       largest,     square_distance,
                              distance_f32, distance_f16, distance_u8, distance_u8_rows};
