/* Attention over bf16 pages in AMX tiles. Pages already have the layout of a product's second
 * operand.
 *
 * Rows are taken 16 at a time. For each such block and page: tiles compute scores into memory,
 * vectors turn them into weights (like the other AVX-512 kernels), tiles compute weights times V
 * into memory, 64 columns at a time, and vectors scale the old sums and add. Vectors have more work
 * than tiles, so the scores of a block are computed before the weights of the block before it:
 * neither waits for the other. Tiles are always full except in their number of rows. The state of a
 * row that does not see the page is not touched. The rest of a head dimension is copied beside
 * zeros.
 *
 * Single rows use tiles too: tiles add in another order than vectors do, and a row's bits must not
 * depend on the number of rows. This costs a single row nothing noticeable: a page of 128 + 128
 * dimensions is 32 products of 16 cycles, about 500 cycles for 32 KiB. The vector kernel needs 512
 * products for it, and the page takes 1000 cycles or more to come from the second-level cache, 6000
 * from memory. */
#include <string.h>

#include "attn/cpu/amx_tiles.h"
#include "attn/cpu/attend.h"
#include "attn/cpu/prefetch.h"
#include "attn/cpu/weights512bf16.h"

enum {
    SIDE = PC__TILE_SIDE,
    STEP = 32,
    CHUNK = 64,
    STRETCH = 256 /* bytes prefetched at a time */
};

/* Prefetching: a few stretches after each piece of work, first of the next page of the run, then of
 * the task's prefetch_pages. */
typedef struct amx_prefetch {
    const pc__attn_task *task;
    const char *next, *later;
    size_t next_left, later_left; /* stretches */
    size_t begun;                 /* of task->prefetch_pages */
    size_t page_stretches, pace;  /* pace: stretches after each piece of work */
} amx_prefetch;

/* Tile row 0 is row `base` of the task. Tile rows before `own` belong to another block. */
typedef struct amx_block {
    _Alignas(64) float s[SIDE][PC__PAGE];
    size_t base, own;
    uint32_t sees; /* a bit for each tile row */
} amx_block;

typedef struct amx_attend_work {
    const pc__attn_task *task;
    size_t page, even, rows; /* even: k_dim with padding; rows: of a tile */
    const uint16_t *k, *v;
    amx_prefetch prefetch;
    amx_block blocks[2];
    _Alignas(64) float o[2][SIDE][CHUNK];
    float scale[SIDE];
    uint16_t p[SIDE][PC__PAGE];
    uint16_t q_tail[SIDE][STEP], k_tail[STEP / 2][2 * PC__PAGE]; /* of the last step */
    uint16_t v_tail[PC__PAGE / 2][2 * SIDE];                     /* of the last columns */
} amx_attend_work;

/* As many pages as the planner counts on (plan_attend.c): half a page per PC__BLOCK_ROWS rows, at
 * least one page. */
static size_t stretches_per_page(const amx_prefetch *a)
{
    size_t halves = (a->task->rows + PC__BLOCK_ROWS - 1) / PC__BLOCK_ROWS;
    return (halves < 2 ? 2 : halves) * a->page_stretches / 2;
}

static void start_prefetch(amx_prefetch *a, const pc__attn_task *task, size_t even)
{
    size_t bytes = pc__task_page_bytes(task, task->v_dim * PC__PAGE * sizeof(uint16_t));
    size_t blocks = (task->rows + SIDE - 1) / SIDE, rows = task->rows < SIDE ? task->rows : SIDE;
    size_t score_tiles = (even + STEP - 1) / STEP * 4,
           value_tiles = (task->v_dim + SIDE - 1) / SIDE * 2;
    size_t pieces = score_tiles + rows + value_tiles; /* of work, in a block */
    *a = (amx_prefetch){.task = task, .page_stretches = (bytes + STRETCH - 1) / STRETCH};
    a->pace = (stretches_per_page(a) + blocks * pieces - 1) / (blocks * pieces);
}

INLINE void prefetch_stretch(const char *at)
{
    pc__prefetch_line(at);
    pc__prefetch_line(at + 64);
    pc__prefetch_line(at + 128);
    pc__prefetch_line(at + 192);
}

static void prefetch_later(amx_prefetch *a, size_t count)
{
    for (; count; count--, a->later_left--, a->later += STRETCH) {
        if (!a->later_left) {
            if (a->begun == a->task->prefetch_count)
                return;
            a->later = (const char *)a->task->prefetch_pages[a->begun++];
            a->later_left = a->page_stretches;
        }
        prefetch_stretch(a->later);
    }
}

INLINE void prefetch_some(amx_prefetch *a)
{
    size_t count = a->next_left < a->pace ? a->next_left : a->pace;
    for (size_t i = 0; i < count; i++, a->next += STRETCH)
        prefetch_stretch(a->next);
    a->next_left -= count;
    if (count < a->pace && (a->later_left || a->begun < a->task->prefetch_count))
        prefetch_later(a, a->pace - count);
}

/* 32 inputs of the rows times all keys of the page. */
INLINE void score_step(amx_attend_work *w, const uint16_t *q, size_t stride, const uint16_t *k)
{
    enum { K_STRIDE = 4 * PC__PAGE };
    _tile_loadd(4, q, stride);
    _tile_loadd(6, k, K_STRIDE);
    _tile_dpbf16ps(0, 4, 6);
    prefetch_some(&w->prefetch);
    _tile_loadd(7, k + 2 * SIDE, K_STRIDE);
    _tile_dpbf16ps(1, 4, 7);
    prefetch_some(&w->prefetch);
    _tile_loadd(6, k + 4 * SIDE, K_STRIDE);
    _tile_dpbf16ps(2, 4, 6);
    prefetch_some(&w->prefetch);
    _tile_loadd(7, k + 6 * SIDE, K_STRIDE);
    _tile_dpbf16ps(3, 4, 7);
    prefetch_some(&w->prefetch);
}

static void tile_scores(amx_attend_work *w, amx_block *b)
{
    const uint16_t *q = w->task->q16 + b->base * w->even, *k = w->k;
    size_t whole = w->even / STEP, left = w->even % STEP;
    for (size_t r = 0; left && r < w->rows; r++)
        _mm512_store_si512(w->q_tail[r], _mm512_maskz_loadu_epi16((1u << left) - 1u,
                                                                  q + r * w->even + whole * STEP));
    pc__tiles_fence();
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
    for (size_t i = 0; i < whole; i++, q += STEP, k += STEP * PC__PAGE)
        score_step(w, q, w->even * sizeof *q, k);
    if (left)
        score_step(w, w->q_tail[0], sizeof w->q_tail[0], w->k_tail[0]);
    _tile_stored(0, b->s[0], sizeof b->s[0]);
    _tile_stored(1, b->s[0] + SIDE, sizeof b->s[0]);
    _tile_stored(2, b->s[0] + 2 * SIDE, sizeof b->s[0]);
    _tile_stored(3, b->s[0] + 3 * SIDE, sizeof b->s[0]);
    pc__tiles_fence();
}

static void tile_weights(amx_attend_work *w, amx_block *b)
{
    __m512 sum[2 * SIDE]; /* of the rows' weights, element by element */
    uint32_t from, to;
    memset(w->p, 0, b->own * sizeof w->p[0]);
    b->sees = 0;
    for (size_t r = b->own; r < w->rows; r++) {
        if (pc__slice(w->task, b->base + r, w->page, &from, &to)) {
            w->scale[r] = pc__weights512(w->task, b->base + r, w->page, b->s[r], w->p[r], sum + r);
            b->sees |= 1u << r;
        } else {
            memset(w->p[r], 0, sizeof w->p[r]);
            w->scale[r] = 1.0f;
            sum[r] = _mm512_setzero_ps();
        }
        prefetch_some(&w->prefetch);
    }
    for (size_t r = w->rows; r < b->own + SIDE; r++)
        sum[r] = _mm512_setzero_ps();
    pc__add_sums512(w->task->l + b->base + b->own, w->scale + b->own, sum + b->own,
                    w->rows - b->own);
    pc__tiles_fence();
}

/* 16 columns of V for tokens 0 … 31 (half 0) or 32 … 63 of the page. */
INLINE const uint16_t *value_tile(const amx_attend_work *w, size_t column, size_t half,
                                  size_t *stride)
{
    size_t v_dim = w->task->v_dim;
    if (column + SIDE > v_dim) {
        *stride = sizeof w->v_tail[0];
        return w->v_tail[half * SIDE];
    }
    *stride = 2 * v_dim * sizeof(uint16_t);
    return w->v + (half * SIDE * v_dim + column) * 2;
}

#define VALUES(sum, weight, b, half)                                           \
    if (tiles > sum) {                                                         \
        size_t stride;                                                         \
        const uint16_t *v = value_tile(w, column + sum * SIDE, half, &stride); \
        _tile_loadd(b, v, stride);                                             \
        _tile_dpbf16ps(sum, weight, b);                                        \
        prefetch_some(&w->prefetch);                                           \
    }

/* Columns [column, column + CHUNK) of weights times V, as far as V has them. Tiles 4 and 5 hold the
 * weights. */
static void multiply_chunk(amx_attend_work *w, size_t column, float (*o)[CHUNK])
{
    size_t left = w->task->v_dim - column,
           tiles = left < CHUNK ? (left + SIDE - 1) / SIDE : CHUNK / SIDE;
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
    VALUES(0, 4, 6, 0)
    VALUES(1, 4, 7, 0)
    VALUES(2, 4, 6, 0)
    VALUES(3, 4, 7, 0)
    VALUES(0, 5, 6, 1)
    VALUES(1, 5, 7, 1)
    VALUES(2, 5, 6, 1)
    VALUES(3, 5, 7, 1)
    _tile_stored(0, o[0], sizeof o[0]);
    if (tiles > 1)
        _tile_stored(1, o[0] + SIDE, sizeof o[0]);
    if (tiles > 2)
        _tile_stored(2, o[0] + 2 * SIDE, sizeof o[0]);
    if (tiles > 3)
        _tile_stored(3, o[0] + 3 * SIDE, sizeof o[0]);
    pc__tiles_fence();
}

/* acc = acc * scale + o */
static void add_chunk(const amx_attend_work *w, const amx_block *b, size_t column,
                      float (*o)[CHUNK])
{
    size_t v_dim = w->task->v_dim, left = v_dim - column, width = left < CHUNK ? left : CHUNK;
    for (size_t r = b->own; r < w->rows; r++) {
        float *acc = w->task->acc + (b->base + r) * v_dim + column;
        __m512 scale = _mm512_set1_ps(w->scale[r]);
        if (!(b->sees >> r & 1u))
            continue;
        for (size_t c = 0; c < width; c += 16) {
            __mmask16 mask = pc__range512(0, (uint32_t)width, (uint32_t)c);
            __m512 sum = _mm512_fmadd_ps(_mm512_maskz_loadu_ps(mask, acc + c), scale,
                                         _mm512_load_ps(o[r] + c));
            _mm512_mask_storeu_ps(acc + c, mask, sum);
        }
    }
}

/* A chunk is added while the next one is multiplied. */
static void tile_values(amx_attend_work *w, const amx_block *b)
{
    size_t v_dim = w->task->v_dim, column = 0, chunk = 0;
    _tile_loadd(4, w->p[0], sizeof w->p[0]);
    _tile_loadd(5, w->p[0] + STEP, sizeof w->p[0]);
    for (; column < v_dim; column += CHUNK, chunk++) {
        multiply_chunk(w, column, w->o[chunk % 2]);
        if (chunk)
            add_chunk(w, b, column - CHUNK, w->o[(chunk - 1) % 2]);
    }
    add_chunk(w, b, column - CHUNK, w->o[(chunk - 1) % 2]);
}

/* Copies the ends of K and V that do not fill a tile, padded with zeros. */
static void copy_tails(amx_attend_work *w)
{
    size_t k_left = w->even % STEP, v_dim = w->task->v_dim, v_left = v_dim % SIDE;
    memcpy(w->k_tail, w->k + w->even / STEP * STEP * PC__PAGE, k_left / 2 * sizeof w->k_tail[0]);
    for (size_t t = 0; v_left && t < PC__PAGE / 2; t++)
        _mm512_store_si512(w->v_tail[t],
                           _mm512_maskz_loadu_epi32(pc__range512(0, (uint32_t)v_left, 0),
                                                    w->v + (t * v_dim + v_dim - v_left) * 2));
}

static void open_attend_tiles(size_t rows)
{
    pc__tile_config config = {0};
    for (size_t tile = 0; tile < 6; tile++)
        pc__tiles_shape(&config, tile, rows, PC__TILE_BYTES);
    pc__tiles_shape(&config, 6, SIDE, PC__TILE_BYTES);
    pc__tiles_shape(&config, 7, SIDE, PC__TILE_BYTES);
    pc__tiles_open(&config);
}

static void finish_block(amx_attend_work *w, amx_block *b)
{
    tile_weights(w, b);
    tile_values(w, b);
}

/* The last of several blocks starts before its own rows rather than reading past the end; the rows
 * before keep their state. */
static void all_blocks(amx_attend_work *w)
{
    size_t rows = w->task->rows, current = 0;
    amx_block *before = NULL;
    for (size_t row = 0; row < rows; row += SIDE) {
        size_t own = rows - row < SIDE ? rows - row : SIDE;
        amx_block *b = &w->blocks[current];
        if (!pc__block_sees(w->task, row, own, w->page))
            continue;
        b->base = row + own - w->rows;
        b->own = w->rows - own;
        tile_scores(w, b);
        if (before)
            finish_block(w, before);
        before = b;
        current = !current;
    }
    if (before)
        finish_block(w, before);
}

void pc__attend_bf16_amx(const pc__attn_task *task, size_t first_page, size_t last_page)
{
    amx_attend_work w;
    w.task = task;
    w.even = task->k_dim + task->k_dim % 2;
    w.rows = task->rows < SIDE ? task->rows : SIDE;
    memset(w.k_tail, 0, sizeof w.k_tail);
    start_prefetch(&w.prefetch, task, w.even);
    open_attend_tiles(w.rows);
    for (w.page = first_page; w.page < last_page; w.page++) {
        const uint8_t *data = task->pages + w.page * task->page_stride;
        w.k = (const uint16_t *)(const void *)data;
        w.v = (const uint16_t *)(const void *)pc__task_values(task, data);
        w.prefetch.next = (const char *)data + task->page_stride;
        w.prefetch.next_left = w.page + 1 < last_page || task->goes_on ? w.prefetch.page_stretches
                                                                       : 0;
        copy_tails(&w);
        all_blocks(&w);
    }
    pc__tiles_close();
}
