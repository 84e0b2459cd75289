/* Linear layers in bf16 with AVX-512 bf16 dot products; sums are fp32 and run over the inputs in
 * one order, whatever the number of rows.
 *
 * Few rows wait for memory. Weights come in one stream, which hardware prefetchers follow faster
 * than instructions can, as long as the loop does not delay them; prefetching helps a single row a
 * little, eight and more rows much. Of many rows, only the first block would wait, and memory would
 * be idle during the others. So inputs are taken in slabs that stay in the second-level cache, and
 * while all blocks multiply one slab, each prefetches its share of the next, at an even pace. (Into
 * the first-level cache: hints for the second level delay the loop. Prefetching all at once, or by
 * two blocks, is slower than none.) */
#include "attn/cpu/pairs512bf16.h"
#include "attn/cpu/panel.h"
#include "attn/cpu/prefetch.h"
#include "attn/cpu/rows_switch.h"
#include "base/unroll.h"

enum {
    ROWS = 12,       /* of a block: 24 sums, two vectors of weights, one of inputs */
    FEW = 24,        /* most rows for which slabs do not pay */
    DISTANCE = 4096, /* bytes */
    SLAB = 2048,     /* inputs: 128 KiB of weights */
    STEPS = 16       /* of two inputs, between two prefetches */
};

typedef struct slab {
    const uint16_t *w, *x;
    size_t in, ldx, rows;
    float *y;
    size_t ldy;
    __mmask16 mask[2];
    int goes_on;      /* y holds the sums of earlier slabs */
    const char *next; /* the slab to prefetch; NULL: none */
} slab;

/* Weights never change, so ThreadSanitizer need not see them read: to it, 64 bytes are 64 reads. */
INLINE __m512i weights_at(const uint16_t *w)
{
#ifdef __SANITIZE_THREAD__
    __m512i line;
    __asm__("vmovdqa64 %1, %0" : "=v"(line) : "m"(*(const __m512i *)(const void *)w));
    return line;
#else
    return _mm512_load_si512(w);
#endif
}

INLINE void multiply(const slab *s, const uint16_t *w, const uint16_t *x, size_t in, const int rows,
                     const int prefetch, __m512 (*sum)[2])
{
    for (size_t i = 0; i < in; i += 2, w += 2 * PC__PANEL) {
        __m512i w0 = weights_at(w), w1 = weights_at(w + 32);
        if (prefetch) {
            pc__prefetch_line((const char *)w + DISTANCE);
            pc__prefetch_line((const char *)w + DISTANCE + 64);
        }
        PC__UNROLL(12)
        for (int r = 0; r < rows; r++) {
            __m512i v = pair(x + (size_t)r * s->ldx + i);
            sum[r][0] = dot(sum[r][0], v, w0);
            sum[r][1] = dot(sum[r][1], v, w1);
        }
    }
}

INLINE void load_sums(const slab *s, const float *y, const int rows, __m512 (*sum)[2])
{
    PC__UNROLL(12)
    for (int r = 0; r < rows; r++)
        PC__UNROLL(2)
    for (int j = 0; j < 2; j++)
        sum[r][j] = s->goes_on ? _mm512_maskz_loadu_ps(s->mask[j], y + (size_t)r * s->ldy + 16 * j)
                               : _mm512_setzero_ps();
}

INLINE void store_sums(const slab *s, float *y, const int rows, __m512 (*sum)[2])
{
    PC__UNROLL(12)
    for (int r = 0; r < rows; r++)
        PC__UNROLL(2)
    for (int j = 0; j < 2; j++)
        _mm512_mask_storeu_ps(y + (size_t)r * s->ldy + 16 * j, s->mask[j], sum[r][j]);
}

INLINE void few_block(const slab *s, size_t row, const int rows)
{
    __m512 sum[ROWS][2];
    load_sums(s, s->y + row * s->ldy, rows, sum);
    multiply(s, s->w, s->x + row * s->ldx, s->in, rows, rows == 1 || rows > 7, sum);
    store_sums(s, s->y + row * s->ldy, rows, sum);
}

/* Prefetches `lines` of s->next before every STEPS steps. */
INLINE void many_block(const slab *s, size_t row, const int rows, const char *next, size_t lines)
{
    __m512 sum[ROWS][2];
    const uint16_t *x = s->x + row * s->ldx;
    load_sums(s, s->y + row * s->ldy, rows, sum);
    const uint16_t *w = s->w;
    size_t i = 0;
    for (; i + 2 * STEPS <= s->in; i += 2 * STEPS, w += 2 * STEPS * PC__PANEL, x += 2 * STEPS) {
        for (size_t l = 0; l < lines; l++, next += 64)
            pc__prefetch_near(next);
        multiply(s, w, x, 2 * STEPS, rows, 0, sum);
    }
    multiply(s, w, x, s->in - i, rows, 0, sum);
    store_sums(s, s->y + row * s->ldy, rows, sum);
}

static void few_rows(const slab *s)
{
    size_t blocks = (s->rows + ROWS - 1) / ROWS;
    for (size_t i = 0, row = 0, n; i < blocks; i++, row += n) {
        n = (s->rows - row) / (blocks - i); /* of equal size: a short one is slow */
#define FEW_BLOCK(n) few_block(s, row, n)
        ROWS_12(n, FEW_BLOCK)
    }
}

static void many_rows(const slab *s)
{
    size_t blocks = (s->rows + ROWS - 1) / ROWS,
           left = s->next ? 2 * STEPS : 0; /* lines per STEPS steps */
    const char *next = s->next ? s->next : (const char *)s->w;
    for (size_t i = 0, row = 0, n; i < blocks; i++, row += n) {
        size_t lines = (left + blocks - i - 1) / (blocks - i);
        n = (s->rows - row) / (blocks - i);
        /* more than two blocks of at most twelve: none has fewer than eight */
#define MANY_BLOCK(n) many_block(s, row, n, next, lines)
        ROWS_8_TO_12(n, MANY_BLOCK)
        next += lines * (s->in / 2 / STEPS) * 64;
        left -= lines;
    }
}

void pc__panel_bf16_avx512bf16(const pc__panel_task *task)
{
    slab s = {
        .w = task->panel,
        .x = task->x,
        .in = task->in,
        .ldx = task->ldx,
        .rows = task->rows,
        .y = task->y,
        .ldy = task->ldy,
        .mask = {vec_range(0, (uint32_t)task->width, 0), vec_range(0, (uint32_t)task->width, 16)}};
    size_t slabs = (task->in + SLAB - 1) / SLAB,
           each = (task->in / slabs + 2 * STEPS - 1) / (2 * STEPS) * (2 * STEPS);
    if (task->rows <= FEW) {
        few_rows(&s);
        return;
    }
    for (size_t left = task->in; left; left -= s.in) {
        s.in = left < each ? left : each;
        s.next = s.in < left ? (const char *)(s.w + s.in * PC__PANEL) : task->next;
        many_rows(&s);
        s.w += s.in * PC__PANEL;
        s.x += s.in;
        s.goes_on = 1;
    }
}
