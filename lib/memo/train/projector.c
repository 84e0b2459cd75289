/* Pools inputs and turns them into features. */
#include "memo/train/projector.h"

#include <math.h>
#include <string.h>

#include "memo/train/vector_ops.h"
#include "memo/train/projector_internal.h"
#include "base/splitmix.h"

enum {
    RUN_ROWS = 4,
    RUN_CELLS = 512 /* cells that are normed at a time, on the stack */,
    MOST_SIZE = 1 << 24 /* hidden, tokens */
};

static size_t least_of(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* 16 bands of tokens and 1024 to 4096 cells: less than a hundredth of a per cent of a prefill, and
 * weights of 0.5 to 2 MiB. */
static void fill_defaults(pc__projector_shape *shape)
{
    size_t cells = 1024;
    while (cells < 2 * shape->hidden && cells < 4096)
        cells *= 2;
    if (!shape->rows)
        shape->rows = least_of(shape->max_tokens, shape->hidden >= 2048 ? 32 : 16);
    if (!shape->columns)
        shape->columns = least_of(shape->hidden, (cells / shape->rows + 15) / 16 * 16);
    if (!shape->inner)
        shape->inner = 128;
}

pc_status pc__projector_check(const pc__projector_shape *s)
{
    if (!s->hidden || s->hidden > MOST_SIZE)
        return pc__fail(PC_ERR_INVALID, "projector: %zu hidden dimensions (1 to %d)", s->hidden,
                        MOST_SIZE);
    if (!s->min_tokens || s->min_tokens > s->max_tokens || s->max_tokens > MOST_SIZE)
        return pc__fail(PC_ERR_INVALID, "projector: bucket of %zu to %zu tokens", s->min_tokens,
                        s->max_tokens);
    if (s->columns > s->hidden)
        return pc__fail(PC_ERR_INVALID, "projector: %zu columns of %zu hidden dimensions",
                        s->columns, s->hidden);
    if (!s->rows || !s->columns || s->rows > PC__MOST_CELLS || s->columns > PC__MOST_CELLS
        || s->rows * s->columns > PC__MOST_CELLS)
        return pc__fail(PC_ERR_INVALID, "projector: %zu x %zu cells (at most %d)", s->rows,
                        s->columns, PC__MOST_CELLS);
    if (!s->inner || s->inner % 16 || s->inner > PC__MOST_INNER)
        return pc__fail(PC_ERR_INVALID, "projector: inner size %zu (a multiple of 16, at most %d)",
                        s->inner, PC__MOST_INNER);
    return PC_OK;
}

pc_status pc__projector_make(pc__projector **out, const pc_allocator *mem,
                             const pc__projector_shape *shape)
{
    pc__projector_shape full = *shape;
    pc__projector *p;
    *out = NULL;
    if (full.max_tokens && full.hidden)
        fill_defaults(&full);
    PC__TRY_RETURN(pc__projector_check(&full));
    if (!(p = pc__calloc(mem, 1, sizeof *p)))
        return PC_ERR_NOMEM;
    p->mem = *mem;
    p->shape = full;
    p->cells = full.rows * full.columns;
    p->weights = pc__first_weights(p) + full.inner * PC__FEATURE_DIM;
    if (!(p->first = pc__alloc_aligned(mem, (p->weights + 2 * p->cells) * sizeof *p->first, 64))) {
        pc__free(mem, p);
        return PC_ERR_NOMEM;
    }
    p->second = p->first + pc__first_weights(p);
    p->mean = p->first + p->weights;
    p->scale = p->mean + p->cells;
    *out = p;
    return PC_OK;
}

pc_status pc__projector_new(pc__projector **out, const pc_allocator *mem,
                            const pc__projector_shape *shape, uint64_t seed)
{
    uint64_t state = pc__splitmix_start(seed, 1);
    PC__TRY_RETURN(pc__projector_make(out, mem, shape));
    pc__projector *p = *out;
    size_t inner = p->shape.inner;
    /* sums get the deviation of the inputs (He et al. 2015, for max(0, x)) */
    float first = sqrtf(6.0f / (float)p->cells), second = sqrtf(6.0f / (float)inner);
    for (size_t i = 0; i < p->cells; i++)
        p->mean[i] = 0, p->scale[i] = 1;
    for (size_t i = 0; i < p->cells * inner; i++)
        p->first[i] = pc__splitmix_uniform(&state, first);
    memset(p->first + p->cells * inner, 0, inner * sizeof *p->first);
    for (size_t i = 0; i < inner * PC__FEATURE_DIM; i++)
        p->second[i] = pc__splitmix_uniform(&state, second);
    return PC_OK;
}

void pc__projector_free(pc__projector *projector)
{
    if (!projector)
        return;
    pc_allocator mem = projector->mem;
    pc__free(&mem, projector->first);
    pc__free(&mem, projector);
}

const pc__projector_shape *pc__projector_shape_of(const pc__projector *projector)
{
    return &projector->shape;
}

size_t pc__projector_pooled(const pc__projector *projector)
{
    return projector->cells;
}

/* Pools one band: maxima over its tokens, a block of dimensions at a time, then over the dimensions
 * that share a column. */
static void pool_band(const pc__vector_ops *loops, const pc__projector_shape *s, const float *x,
                      size_t tokens, float *cells)
{
    float band[RUN_CELLS];
    for (size_t c = 0; c < s->columns; c += RUN_CELLS) {
        size_t width = least_of(RUN_CELLS, s->columns - c);
        loops->largest(x + c, tokens, s->hidden, width, cells + c);
        for (size_t d = c + s->columns; d < s->hidden; d += s->columns) {
            size_t n = least_of(width, s->hidden - d);
            loops->largest(x + d, tokens, s->hidden, n, band);
            for (size_t i = 0; i < n; i++)
                cells[c + i] = band[i] > cells[c + i] ? band[i] : cells[c + i];
        }
    }
}

static int all_finite(const float *x, size_t count)
{
    uint32_t bad = 0, bits;
    for (size_t i = 0; i < count; i++) {
        memcpy(&bits, x + i, sizeof bits);
        bad |= (bits & 0x7fffffffu) >= 0x7f800000u;
    }
    return !bad;
}

pc_status pc__projector_pool(const pc__projector *projector, const float *x, size_t tokens,
                             float *pooled)
{
    const pc__projector_shape *s = &projector->shape;
    const pc__vector_ops *loops = pc__vector_ops_get();
    if (tokens < s->min_tokens || tokens > s->max_tokens)
        return pc__fail(PC_ERR_INVALID, "projector: %zu tokens are not in its bucket of %zu to %zu",
                        tokens, s->min_tokens, s->max_tokens);
    for (size_t r = 0; r < s->rows; r++) {
        size_t from = r * tokens / s->rows, to = ((r + 1) * tokens + s->rows - 1) / s->rows;
        pool_band(loops, s, x + from * s->hidden, to - from, pooled + r * s->columns);
    }
    if (!all_finite(pooled, projector->cells))
        return pc__fail(PC_ERR_INVALID, "projector: the input has numbers that are not finite");
    return PC_OK;
}

/* The first layer and max(0, x), to inner [rows][inner]. */
static void run_first(const pc__projector *p, const pc__vector_ops *loops, const float *pooled,
                      size_t rows, float *inner)
{
    float normed[RUN_ROWS * RUN_CELLS];
    size_t width = p->shape.inner, all = rows * width;
    memset(inner, 0, all * sizeof *inner);
    for (size_t at = 0; at < p->cells; at += RUN_CELLS) {
        size_t n = least_of(RUN_CELLS, p->cells - at);
        for (size_t r = 0; r < rows; r++)
            for (size_t i = 0; i < n; i++)
                normed[r * RUN_CELLS + i] = (pooled[r * p->cells + at + i] - p->mean[at + i])
                                            * p->scale[at + i];
        loops->linear(p->first + at * width, n, width, normed, RUN_CELLS, rows, inner);
    }
    const float *bias = p->first + p->cells * width;
    for (size_t r = 0; r < rows; r++)
        for (size_t k = 0; k < width; k++) {
            float sum = inner[r * width + k] + bias[k];
            inner[r * width + k] = sum > 0 ? sum : 0;
        }
}

void pc__projector_features(const pc__projector *projector, const float *pooled, size_t count,
                            float *features)
{
    const pc__vector_ops *loops = pc__vector_ops_get();
    float inner[RUN_ROWS * PC__MOST_INNER];
    memset(features, 0, count * PC__FEATURE_DIM * sizeof *features);
    for (size_t at = 0; at < count; at += RUN_ROWS) {
        size_t rows = least_of(RUN_ROWS, count - at);
        run_first(projector, loops, pooled + at * projector->cells, rows, inner);
        loops->linear(projector->second, projector->shape.inner, PC__FEATURE_DIM, inner,
                      projector->shape.inner, rows, features + at * PC__FEATURE_DIM);
    }
}

/* A deviation counts as at least a hundredth of the average one, so that an unusual input is far
 * away, but its feature is finite. */
static void norm_scales(pc__projector *p, const double *squares, size_t count)
{
    double average = 0;
    for (size_t c = 0; c < p->cells; c++)
        average += sqrt(squares[c] / (double)count);
    average /= (double)p->cells;
    for (size_t c = 0; c < p->cells; c++) {
        double deviation = sqrt(squares[c] / (double)count);
        double least = average > 1e-30 ? 0.01 * average : 1;
        p->scale[c] = (float)(1 / (deviation > least ? deviation : least));
    }
}

pc_status pc__projector_norm(pc__projector *projector, const float *pooled, size_t count)
{
    size_t cells = projector->cells;
    double *sums;
    if (!count)
        return pc__fail(PC_ERR_INVALID, "projector: no items to compute the norm from");
    for (size_t i = 0; i < count; i++)
        if (!all_finite(pooled + i * cells, cells))
            return pc__fail(PC_ERR_INVALID, "projector: item %zu has a number that is not finite",
                            i);
    if (!(sums = pc__calloc(&projector->mem, 2 * cells, sizeof *sums)))
        return PC_ERR_NOMEM;
    for (size_t i = 0; i < count; i++)
        for (size_t c = 0; c < cells; c++)
            sums[c] += (double)pooled[i * cells + c];
    for (size_t c = 0; c < cells; c++)
        projector->mean[c] = (float)(sums[c] / (double)count);
    for (size_t i = 0; i < count; i++)
        for (size_t c = 0; c < cells; c++) {
            double off = (double)pooled[i * cells + c] - (double)projector->mean[c];
            sums[cells + c] += off * off;
        }
    norm_scales(projector, sums + cells, count);
    pc__free(&projector->mem, sums);
    return PC_OK;
}
