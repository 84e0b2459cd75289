/* Attention over bf16 K and V with AVX-512 bf16 dot products; sums are fp32. */
#include "attn/cpu/pairs512bf16.h"
#include "attn/cpu/prefetch.h"
#include "attn/cpu/weights512bf16.h"
#include "attn/cpu/rows_switch.h"
#include "base/unroll.h"

enum { ROWS = PC__BLOCK_ROWS, GROUP = 2 * ROWS, SUMS = (GROUP + 15) / 16 * 16 };

/* What a block prefetches. by: bytes from this page to the prefetched one (0: none); first, second:
 * which halves of each 256 bytes. */
typedef struct half_prefetch {
    ptrdiff_t by;
    int first, second;
} half_prefetch;

/* Half of 256 bytes of rows of a pool, or, for a single block of rows, all of them. */
typedef struct rows_prefetch {
    int only;
    pc__rows_cursor cursor;
} rows_prefetch;

INLINE rows_prefetch start_rows(const pc__attn_task *task, const int has_rows, size_t steps)
{
    int only = task->rows <= ROWS;
    return (rows_prefetch){only, pc__rows_loop(has_rows ? task->prefetch_rows : NULL,
                                               steps * (only ? 4 : 2), task->q16)};
}

INLINE void prefetch_halves(const uint16_t *line, half_prefetch a, const int has_rows,
                            rows_prefetch *rows)
{
    const char *at = (const char *)line + a.by;
    if (has_rows) {
        pc__rows_step(&rows->cursor, 2);
        if (rows->only)
            pc__rows_step(&rows->cursor, 2);
        return;
    }
    if (!a.by)
        return;
    if (a.first) {
        pc__prefetch_line(at);
        pc__prefetch_line(at + 64);
    }
    if (a.second) {
        pc__prefetch_line(at + 128);
        pc__prefetch_line(at + 192);
    }
}

INLINE void scores(const pc__attn_task *task, const uint16_t *k, size_t row, const int rows,
                   half_prefetch a, const int has_rows, float (*s)[PC__PAGE])
{
    __m512 sum[ROWS][4];
    size_t dim = task->k_dim + task->k_dim % 2;
    const uint16_t *q = task->q16 + row * dim;
    rows_prefetch pool_rows = start_rows(task, has_rows, dim / 2);
    PC__UNROLL(8)
    for (int r = 0; r < rows; r++)
        PC__UNROLL(4)
    for (int j = 0; j < 4; j++)
        sum[r][j] = _mm512_setzero_ps();
    for (size_t d = 0; d < dim; d += 2, k += 2 * PC__PAGE) {
        __m512i k0 = _mm512_load_si512(k), k1 = _mm512_load_si512(k + 32),
                k2 = _mm512_load_si512(k + 64), k3 = _mm512_load_si512(k + 96);
        prefetch_halves(k, a, has_rows, &pool_rows);
        PC__UNROLL(8)
        for (int r = 0; r < rows; r++) {
            __m512i x = pair(q + (size_t)r * dim + d);
            sum[r][0] = dot(sum[r][0], x, k0);
            sum[r][1] = dot(sum[r][1], x, k1);
            sum[r][2] = dot(sum[r][2], x, k2);
            sum[r][3] = dot(sum[r][3], x, k3);
        }
    }
    PC__UNROLL(8)
    for (int r = 0; r < rows; r++)
        PC__UNROLL(4)
    for (int j = 0; j < 4; j++)
        _mm512_storeu_ps(s[r] + 16 * j, sum[r][j]);
}

INLINE void values(const pc__attn_task *task, const uint16_t *v, size_t row, const int rows,
                   const int vectors, __mmask16 last, size_t column, half_prefetch a,
                   const int has_rows, uint16_t (*p)[PC__PAGE])
{
    __m512 sum[ROWS][4];
    float *acc = task->acc + row * task->v_dim + column;
    rows_prefetch pool_rows = start_rows(task, has_rows, PC__PAGE / 2);
    PC__UNROLL(8)
    for (int r = 0; r < rows; r++)
        PC__UNROLL(4)
    for (int j = 0; j < vectors; j++)
        sum[r][j] = _mm512_maskz_loadu_ps(j + 1 < vectors ? 0xffff : last,
                                          acc + (size_t)r * task->v_dim + 16 * j);
    for (size_t t = 0; t < PC__PAGE; t += 2) {
        const uint16_t *line = v + t * task->v_dim + 2 * column;
        prefetch_halves(line, a, has_rows, &pool_rows);
        PC__UNROLL(4)
        for (int j = 0; j < vectors; j++) {
            __m512i x = _mm512_maskz_loadu_epi32(j + 1 < vectors ? 0xffff : last, line + 32 * j);
            PC__UNROLL(8)
            for (int r = 0; r < rows; r++)
                sum[r][j] = dot(sum[r][j], pair(p[r] + t), x);
        }
    }
    PC__UNROLL(8)
    for (int r = 0; r < rows; r++)
        PC__UNROLL(4)
    for (int j = 0; j < vectors; j++)
        _mm512_mask_storeu_ps(acc + (size_t)r * task->v_dim + 16 * j,
                              j + 1 < vectors ? 0xffff : last, sum[r][j]);
}

/* A page for up to GROUP rows: K for all of them while it is in the first-level cache, then the
 * weights, then V. With heads of 64, K and V both stay there, beside the scores, weights and sums;
 * more rows would leave no room. */
typedef struct bf16_group {
    const pc__attn_task *task;
    const uint16_t *k, *v;
    size_t page, row, rows;
    /* all rows see all of the pages [whole, part), and scores are plain products */
    size_t whole, part;
    size_t halves;    /* half pages of task->prefetch_pages that were prefetched */
    __m512 sum[SUMS]; /* of the page's weights, element by element */
    float s[GROUP][PC__PAGE], scale[GROUP];
    uint16_t p[GROUP][PC__PAGE];
} bf16_group;

INLINE void block_scores(bf16_group *g, size_t at, const int rows, half_prefetch a)
{
    if (!a.by && pc__rows_left(g->task->prefetch_rows))
        scores(g->task, g->k, g->row + at, rows, a, 1, g->s + at);
    else
        scores(g->task, g->k, g->row + at, rows, a, 0, g->s + at);
}

INLINE void block_values(bf16_group *g, size_t at, const int rows, half_prefetch a)
{
    size_t column = 0;
    if (g->task->values) /* they stay in the cache: the scores have prefetched the next page */
        a = (half_prefetch){0, 0, 0};
    for (; column + 64 <= g->task->v_dim; column += 64)
        if (!a.by && pc__rows_left(g->task->prefetch_rows))
            values(g->task, g->v, g->row + at, rows, 4, 0xffff, column, a, 1, g->p + at);
        else
            values(g->task, g->v, g->row + at, rows, 4, 0xffff, column, a, 0, g->p + at);
    for (; column < g->task->v_dim; column += 16) {
        size_t left = g->task->v_dim - column;
        values(g->task, g->v, g->row + at, rows, 1,
               pc__range512(0, left < 16 ? (uint32_t)left : 16, 0), column, a, 0, g->p + at);
    }
}

/* What block `block` of a page's rows prefetches: half a page at a time, to keep pace with the
 * work. First the next page of the run, then the task's prefetch_pages. A single block prefetches a
 * whole page. */
static half_prefetch prefetch_by(bf16_group *g, size_t block, int last_page)
{
    const uint8_t *data = (const uint8_t *)g->k;
    int only = g->task->rows <= ROWS, half = (int)(g->halves % 2);
    if (!last_page && block < 2)
        return (half_prefetch){(ptrdiff_t)g->task->page_stride, only || !block, only || block};
    if (g->halves / 2 >= g->task->prefetch_count)
        return (half_prefetch){0, 0, 0};
    half_prefetch a = {g->task->prefetch_pages[g->halves / 2] - data, only || !half, only || half};
    g->halves += only ? 2 : 1;
    return a;
}

/* Scales the row's sums when its maximum changes. */
static void scale_values(const pc__attn_task *task, size_t row, float by)
{
    float *acc = task->acc + row * task->v_dim;
    for (size_t c = 0; c < task->v_dim; c += 16) {
        __mmask16 mask = pc__range512(0, (uint32_t)task->v_dim, (uint32_t)c);
        _mm512_mask_storeu_ps(
            acc + c, mask, _mm512_mul_ps(_mm512_maskz_loadu_ps(mask, acc + c), _mm512_set1_ps(by)));
    }
}

static void weights(bf16_group *g, const int *sees, int whole)
{
    if (whole)
        for (size_t r = 0; r < g->rows; r++)
            g->scale[r] = pc__whole_page512(g->task, g->row + r, g->s[r], g->p[r], &g->sum[r]);
    for (size_t r = 0; !whole && r < g->rows; r++) {
        g->scale[r] = 1.0f;
        g->sum[r] = _mm512_setzero_ps();
        if (sees[r / ROWS])
            g->scale[r] = pc__weights512(g->task, g->row + r, g->page, g->s[r], g->p[r],
                                         &g->sum[r]);
    }
    for (size_t r = g->rows; r % 16; r++)
        g->sum[r] = _mm512_setzero_ps();
    pc__add_sums512(g->task->l + g->row, g->scale, g->sum, g->rows);
    for (size_t r = 0; r < g->rows; r++)
        if (g->scale[r] != 1.0f) /* rare after the first pages */
            scale_values(g->task, g->row + r, g->scale[r]);
}

/* Skips blocks of rows that see nothing of the page, as in a causal prefill. */
static void group_page(bf16_group *g, int last_page)
{
    int sees[GROUP / ROWS], whole = g->page >= g->whole && g->page < g->part;
    half_prefetch a[GROUP / ROWS];
    for (size_t at = 0; at < g->rows; at += ROWS) {
        size_t n = g->rows - at < ROWS ? g->rows - at : ROWS, block = at / ROWS;
        sees[block] = whole || pc__block_sees(g->task, g->row + at, n, g->page);
        if (!sees[block])
            continue;
        a[block] = prefetch_by(g, (g->row + at) / ROWS, last_page);
#define SCORES(n) block_scores(g, at, n, a[block])
        ROWS_6(g->rows - at, SCORES)
    }
    weights(g, sees, whole);
    for (size_t at = 0; at < g->rows; at += ROWS)
        if (sees[at / ROWS])
#define VALUES(n) block_values(g, at, n, a[at / ROWS])
            ROWS_6(g->rows - at, VALUES)
}

static void find_whole_pages(bf16_group *g)
{
    const pc__attn_task *task = g->task;
    __m512i lo = _mm512_setzero_si512(), hi = _mm512_set1_epi32(-1);
    for (size_t r = 0; r < task->rows; r += 16) {
        __mmask16 mask = pc__range512(0, (uint32_t)task->rows, (uint32_t)r);
        lo = _mm512_mask_max_epu32(lo, mask, lo, _mm512_maskz_loadu_epi32(mask, task->lo + r));
        hi = _mm512_mask_min_epu32(hi, mask, hi, _mm512_maskz_loadu_epi32(mask, task->hi + r));
    }
    g->whole = ((size_t)_mm512_reduce_max_epu32(lo) + PC__PAGE - 1) / PC__PAGE;
    g->part = task->slope || task->soft_cap != 0.0f ? 0 : _mm512_reduce_min_epu32(hi) / PC__PAGE;
}

void pc__attend_bf16_avx512bf16(const pc__attn_task *task, size_t first_page, size_t last_page)
{
    bf16_group g; /* too large to clear for a single row */
    g.task = task;
    g.halves = 0;
    find_whole_pages(&g);
    for (g.page = first_page; g.page < last_page; g.page++) {
        const uint8_t *data = task->pages + g.page * task->page_stride;
        g.k = (const uint16_t *)(const void *)data;
        g.v = (const uint16_t *)(const void *)pc__task_values(task, data);
        for (g.row = 0; g.row < task->rows; g.row += GROUP) {
            g.rows = task->rows - g.row < GROUP ? task->rows - g.row : GROUP;
            group_page(&g, g.page + 1 == last_page && !task->goes_on);
        }
    }
}
