/* Disentangled attention, head by head: distance terms by matrix products, then the map of each
 * lane, then map x values. Owns the K and Q projections of the distance embedding
 * (pc__disentangled). */
#include "attn/disentangled_attention.h"

#include <math.h>
#include <string.h>

#include "attn/kernels.h"
#include "base/threads.h"

/* Each term of a head is a linear layer: [2 * relative] outputs of a query or key. */
struct pc__disentangled {
    pc__backend *backend;
    size_t rows, layers, heads, dim;
    int64_t farthest;
    int32_t *row;         /* [2 * farthest + 1] table row of each distance, from -farthest on */
    pc__linear **keys;    /* [layer][head]; NULL: the model has no such term */
    pc__linear **queries; /* likewise */
};

int32_t pc__disentangled_row(const pc__relative_config *config, int64_t distance)
{
    int32_t span = config->relative, half = config->buckets / 2, at;
    int64_t size = distance < 0 ? -distance : distance;
    if (size > config->farthest)
        size = config->farthest;
    at = (int32_t)size;
    if (half && size > half) {
        float ratio = logf((float)size / (float)half)
                      / logf((float)(config->farthest - 1) / (float)half);
        float bucket = ceilf(ratio * (float)(half - 1)) + (float)half;
        at = bucket < (float)span ? (int32_t)bucket : span;
    }
    at = distance < 0 ? span - at : span + at;
    return at < 0 ? 0 : at > 2 * span - 1 ? 2 * span - 1 : at;
}

pc_status pc__disentangled_new(pc__disentangled **out, pc__backend *backend,
                               const pc__relative_config *config)
{
    const pc_allocator *mem = &backend->context->mem;
    size_t linear_count = (size_t)config->layers * (size_t)config->heads;
    pc__disentangled *r = *out = pc__calloc(mem, 1, sizeof *r);
    if (!r)
        return PC_ERR_NOMEM;
    r->backend = backend;
    r->rows = 2 * (size_t)config->relative;
    r->layers = (size_t)config->layers;
    r->heads = (size_t)config->heads;
    r->dim = (size_t)config->head_dim;
    r->farthest = config->farthest;
    r->row = pc__calloc(mem, 2 * (size_t)r->farthest + 1, sizeof *r->row);
    r->keys = pc__calloc(mem, linear_count, sizeof(*r->keys));
    r->queries = pc__calloc(mem, linear_count, sizeof(*r->queries));
    if (!r->row || !r->keys || !r->queries)
        return PC_ERR_NOMEM; /* the caller frees r */
    for (int64_t d = -r->farthest; d <= r->farthest; d++)
        r->row[d + r->farthest] = pc__disentangled_row(config, d);
    return PC_OK;
}

/* One head's columns of [rows][heads * dim]. */
typedef struct head_columns {
    const float *all;
    size_t stride, dim;
} head_columns;

static void head_rows(void *user, size_t first, size_t count, float *out)
{
    const head_columns *c = user;
    for (size_t r = 0; r < count; r++)
        memcpy(out + r * c->dim, c->all + (first + r) * c->stride, c->dim * sizeof *out);
}

static pc_status set_term(const pc__disentangled *r, const float *rows, pc__linear **to)
{
    for (size_t h = 0; rows && h < r->heads; h++) {
        head_columns columns = {rows + h * r->dim, r->heads * r->dim, r->dim};
        pc__weight_source source = {.user = &columns, .rows = head_rows};
        PC__TRY_RETURN(r->backend->ops->linear_new(&to[h], r->backend, r->rows, r->dim,
                                                   PC_DTYPE_F32, &source, NULL));
    }
    return PC_OK;
}

pc_status pc__disentangled_set(pc__disentangled *r, int32_t layer, const float *keys,
                               const float *queries)
{
    PC__TRY_RETURN(set_term(r, keys, r->keys + (size_t)layer * r->heads));
    return set_term(r, queries, r->queries + (size_t)layer * r->heads);
}

void pc__disentangled_free(pc__disentangled *r)
{
    if (!r)
        return;
    const pc_allocator *mem = &r->backend->context->mem;
    for (size_t i = 0; i < r->layers * r->heads; i++) {
        if (r->keys && r->keys[i])
            r->backend->ops->linear_free(r->keys[i]);
        if (r->queries && r->queries[i])
            r->backend->ops->linear_free(r->queries[i]);
    }
    pc__free(mem, r->row);
    pc__free(mem, r->keys);
    pc__free(mem, r->queries);
    pc__free(mem, r);
}

uint64_t pc__disentangled_bytes(const pc__disentangled *r)
{
    uint64_t bytes = 0;
    for (size_t i = 0; r && i < r->layers * r->heads; i++) {
        bytes += r->keys[i] ? r->backend->ops->linear_bytes(r->keys[i]) : 0;
        bytes += r->queries[i] ? r->backend->ops->linear_bytes(r->queries[i]) : 0;
    }
    return bytes;
}

/* One head of the rows. q, k: [row][dim]. by_key [row][rows] = q.K, by_query [row][rows] = k.Q. Of
 * the current lane: transposed keys [dim][tokens], values [tokens up to a page][dim]. Values are
 * used as computed, not as pages round them: the map is fp32, and pc__map_apply does not read int8
 * pages. */
typedef struct head_work {
    pc__stream *stream;
    const pc__disentangled_rows *rows;
    const pc__disentangled *relative;
    size_t index, dim;
    float *q, *k, *by_key, *by_query, *transposed, *values;
    size_t first, tokens; /* of the current lane */
    float *map;           /* [tokens][tokens] of the current lane and head */
} head_work;

enum { ROWS = 24 }; /* rows of a map in one piece of work */

static void copy_head(const head_work *t, const pc__floats *all, float *to)
{
    size_t stride = t->relative->heads * t->dim;
    const float *from = (const float *)all + t->index * t->dim;
    for (size_t r = 0; r < t->rows->count; r++)
        memcpy(to + r * t->dim, from + r * stride, t->dim * sizeof *to);
}

static void transpose_keys(const head_work *t)
{
    for (size_t j = 0; j < t->tokens; j++)
        for (size_t c = 0; c < t->dim; c++)
            t->transposed[c * t->tokens + j] = t->k[(t->first + j) * t->dim + c];
}

static void copy_values(const head_work *t)
{
    size_t stride = t->relative->heads * t->dim, pages = (t->tokens + PC__PAGE - 1) / PC__PAGE;
    const float *from = (const float *)t->rows->v + t->first * stride + t->index * t->dim;
    for (size_t j = 0; j < t->tokens; j++)
        memcpy(t->values + j * t->dim, from + j * stride, t->dim * sizeof *from);
    memset(t->values + t->tokens * t->dim, 0,
           (pages * PC__PAGE - t->tokens) * t->dim * sizeof *from);
}

static void content_scores(const head_work *t, const float *q, float *score)
{
    memset(score, 0, t->tokens * sizeof *score);
    pc__kernels_get()->add_rows(q, t->transposed, t->tokens, t->dim, score, t->tokens);
}

static void add_distance_scores(const head_work *t, size_t i, float *score)
{
    const pc__disentangled *r = t->relative;
    const int64_t *positions = t->rows->positions + t->first;
    size_t at = (size_t)t->rows->layer * r->heads + t->index;
    const float *by_key = r->keys[at] ? t->by_key + (t->first + i) * r->rows : NULL,
                *by_query = r->queries[at] ? t->by_query + t->first * r->rows : NULL;
    for (size_t j = 0; j < t->tokens; j++) {
        int64_t d = positions[i] - positions[j];
        d = d < -r->farthest ? -r->farthest : d > r->farthest ? r->farthest : d;
        size_t row = (size_t)r->row[d + r->farthest];
        score[j] += (by_key ? by_key[row] : 0.0f) + (by_query ? by_query[j * r->rows + row] : 0.0f);
    }
}

static void softmax(float *score, size_t count, float scale)
{
    float top = score[0], sum = 0.0f;
    for (size_t j = 1; j < count; j++)
        top = score[j] > top ? score[j] : top;
    for (size_t j = 0; j < count; j++) {
        score[j] = expf((score[j] - top) * scale);
        sum += score[j];
    }
    for (size_t j = 0; j < count; j++)
        score[j] /= sum;
}

static void map_rows(void *arg, size_t index)
{
    const head_work *t = arg;
    size_t first = index * ROWS, end = first + ROWS < t->tokens ? first + ROWS : t->tokens,
           stride = t->relative->heads * t->dim;
    for (size_t i = first; i < end; i++) {
        float *score = t->map + i * t->tokens;
        content_scores(t, t->q + (t->first + i) * t->dim, score);
        add_distance_scores(t, i, score);
        softmax(score, t->tokens, t->rows->scale);
    }
    pc__map_apply_plain(t->map, t->tokens, first, end - first, t->values, t->dim,
                        (float *)t->rows->out + (t->first + first) * stride + t->index * t->dim,
                        stride);
}

static size_t most_tokens(const pc__disentangled_rows *rows)
{
    size_t most = 0;
    for (size_t i = 0; i < rows->lane_count; i++)
        most = rows->lanes[i].count > most ? rows->lanes[i].count : most;
    return most;
}

/* *memory is one block for all that a head needs. */
static pc_status take_scratch(head_work *t, void **memory)
{
    size_t rows = t->rows->count, dim = t->dim, count = t->relative->rows, bytes = 0,
           tokens = most_tokens(t->rows);
    const size_t sizes[] = {rows * dim,   rows * dim,   tokens * dim,   (tokens + PC__PAGE) * dim,
                            rows * count, rows * count, tokens * tokens};
    float **const to[] = {&t->q,      &t->k,        &t->transposed, &t->values,
                          &t->by_key, &t->by_query, &t->map};
    uint8_t *at;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        bytes += (sizes[i] * sizeof(float) + 63) / 64 * 64;
    *memory = at = t->stream->ops->take(t->stream->backend, bytes);
    for (size_t i = 0; at && i < sizeof sizes / sizeof *sizes; i++)
        *to[i] = pc__carve(&at, sizes[i] * sizeof(float));
    return *memory ? PC_OK : PC_ERR_NOMEM;
}

static int left_out(const head_work *t, size_t lane)
{
    return t->rows->left_out && t->rows->left_out[lane];
}

static void select_lane(head_work *t, size_t lane)
{
    t->first = t->rows->lanes[lane].first;
    t->tokens = t->rows->lanes[lane].count;
}

/* Distance terms of consecutive rows. */
static pc_status run_term(const head_work *t, const pc__linear *linear, const float *from,
                          size_t first, size_t rows, float *to)
{
    if (!linear || !rows)
        return PC_OK;
    return pc__stream_linear(t->stream, linear, (const pc__floats *)(from + first * t->dim), rows,
                             (pc__floats *)(to + first * t->relative->rows));
}

static pc_status run_terms(const head_work *t, size_t first, size_t rows)
{
    const pc__disentangled *r = t->relative;
    size_t at = (size_t)t->rows->layer * r->heads + t->index;
    PC__TRY_RETURN(run_term(t, r->keys[at], t->q, first, rows, t->by_key));
    return run_term(t, r->queries[at], t->k, first, rows, t->by_query);
}

/* Lanes that are left out have neither queries nor keys. */
static pc_status run_head(head_work *t)
{
    size_t first = 0, rows = 0;
    copy_head(t, t->rows->q, t->q);
    copy_head(t, t->rows->k, t->k);
    for (size_t lane = 0; lane < t->rows->lane_count; lane++) {
        select_lane(t, lane);
        if (left_out(t, lane)) {
            PC__TRY_RETURN(run_terms(t, first, rows));
            rows = 0;
            continue;
        }
        first = rows ? first : t->first;
        rows += t->tokens;
    }
    return run_terms(t, first, rows);
}

/* With rows->maps, keeps the maps of all lanes; else each lane overwrites the last. */
static void run_lanes(head_work *t)
{
    float *maps = t->rows->maps, *scratch = t->map;
    for (size_t lane = 0; lane < t->rows->lane_count; lane++) {
        select_lane(t, lane);
        size_t one = t->tokens * t->tokens;
        if (maps)
            t->map = maps + t->index * one;
        if (!left_out(t, lane)) {
            transpose_keys(t);
            copy_values(t);
            pc__parallel(t->stream->context, (t->tokens + ROWS - 1) / ROWS, map_rows, t);
        }
        if (maps)
            maps += t->relative->heads * one;
    }
    t->map = scratch;
}

pc_status pc__disentangled_attend(pc__stream *stream, const pc__disentangled *relative,
                                  const pc__disentangled_rows *rows)
{
    head_work t = {.stream = stream, .rows = rows, .relative = relative, .dim = relative->dim};
    void *memory;
    pc_status status;
    PC__TRY(take_scratch(&t, &memory), done);
    for (t.index = 0; t.index < relative->heads; t.index++) {
        PC__TRY(run_head(&t), done);
        run_lanes(&t);
    }
done:
    stream->ops->give(stream->backend, memory);
    return status;
}
