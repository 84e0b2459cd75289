/* Disentangled attention, head by head: distance terms by matrix products, then the map of each
 * lane, then map x values. Owns the K and Q projections of the distance embedding
 * (pc__disentangled). */
#include "model/forward/disentangled_attention.h"

#include <math.h>
#include <string.h>

#include "attn/kernels.h"
#include "attn/map.h"
#include "base/threads.h"
#include "model/forward/forward_maps.h"

/* Each term of a head is a linear layer: [2 * relative] outputs of a query or key. */
struct pc__disentangled {
    size_t rows, heads;
    int64_t farthest;
    int32_t *row;         /* [2 * farthest + 1] table row of each distance, from -farthest on */
    pc__linear **keys;    /* [layer][head]; NULL: the model has no such term */
    pc__linear **queries; /* likewise */
};

int32_t pc__disentangled_row(const pc__encoder_config *config, int64_t distance)
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

pc_status pc__disentangled_new(pc__disentangled **out, const pc__native *native)
{
    const pc_allocator *mem = &native->context->mem;
    const pc__arch *arch = &native->arch;
    size_t linear_count = (size_t)arch->layers * (size_t)arch->heads;
    pc__disentangled *r = *out = pc__calloc(mem, 1, sizeof *r);
    if (!r)
        return PC_ERR_NOMEM;
    r->rows = 2 * (size_t)arch->encoder.relative;
    r->heads = (size_t)arch->heads;
    r->farthest = arch->encoder.farthest;
    r->row = pc__calloc(mem, 2 * (size_t)r->farthest + 1, sizeof *r->row);
    r->keys = pc__calloc(mem, linear_count, sizeof(*r->keys));
    r->queries = pc__calloc(mem, linear_count, sizeof(*r->queries));
    if (!r->row || !r->keys || !r->queries)
        return PC_ERR_NOMEM; /* the caller frees r */
    for (int64_t d = -r->farthest; d <= r->farthest; d++)
        r->row[d + r->farthest] = pc__disentangled_row(&arch->encoder, d);
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

static pc_status set_term(const pc__disentangled *r, const pc__native *native, const float *rows,
                          pc__linear **to)
{
    size_t dim = (size_t)native->arch.head_dim;
    for (size_t h = 0; rows && h < r->heads; h++) {
        head_columns columns = {rows + h * dim, r->heads * dim, dim};
        pc__weight_source source = {.user = &columns, .rows = head_rows};
        PC__TRY_RETURN(native->backend->linear_new(&to[h], native->context, r->rows, dim,
                                                   PC_DTYPE_F32, &source, NULL));
    }
    return PC_OK;
}

pc_status pc__disentangled_set(pc__disentangled *r, const pc__native *native, int32_t layer,
                               const float *keys, const float *queries)
{
    PC__TRY_RETURN(set_term(r, native, keys, r->keys + (size_t)layer * r->heads));
    return set_term(r, native, queries, r->queries + (size_t)layer * r->heads);
}

static size_t linear_count(const pc__native *native, const pc__disentangled *r)
{
    return (size_t)native->arch.layers * r->heads;
}

void pc__disentangled_free(const pc__native *native, pc__disentangled *r)
{
    const pc_allocator *mem = &native->context->mem;
    if (!r)
        return;
    for (size_t i = 0; i < linear_count(native, r); i++) {
        if (r->keys && r->keys[i])
            native->backend->linear_free(r->keys[i]);
        if (r->queries && r->queries[i])
            native->backend->linear_free(r->queries[i]);
    }
    pc__free(mem, r->row);
    pc__free(mem, r->keys);
    pc__free(mem, r->queries);
    pc__free(mem, r);
}

uint64_t pc__disentangled_bytes(const pc__native *native, const pc__disentangled *r)
{
    uint64_t bytes = 0;
    for (size_t i = 0; r && i < linear_count(native, r); i++) {
        bytes += r->keys[i] ? native->backend->linear_bytes(r->keys[i]) : 0;
        bytes += r->queries[i] ? native->backend->linear_bytes(r->queries[i]) : 0;
    }
    return bytes;
}

/* One head of a block. q, k: [row][dim]. by_key [row][rows] = q.K, by_query [row][rows] = k.Q. Of
 * the current lane: transposed keys [dim][tokens], values [tokens up to a page][dim]. Values are
 * used as computed, not as pages round them: the map is fp32, and pc__map_apply does not read int8
 * pages. */
typedef struct head_work {
    const pc__forward_work *work;
    const pc__disentangled *relative;
    size_t index, dim;
    float *q, *k, *by_key, *by_query, *transposed, *values;
    size_t first, tokens; /* of the current lane, in the block */
    float *map;           /* [tokens][tokens] of the current lane and head */
} head_work;

enum { ROWS = 24 }; /* rows of a map in one piece of work */

static void copy_head(const head_work *t, const float *from, float *to)
{
    size_t stride = t->relative->heads * t->dim;
    for (size_t r = 0; r < t->work->rows; r++)
        memcpy(to + r * t->dim, from + r * stride + t->index * t->dim, t->dim * sizeof *to);
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
    const float *from = t->work->v + t->first * stride + t->index * t->dim;
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
    const pc__token_row *rows = t->work->pass->rows + t->work->first + t->first;
    const pc__encoder_config *config = &t->work->native->arch.encoder;
    const float *by_key = config->c2p ? t->by_key + (t->first + i) * r->rows : NULL,
                *by_query = config->p2c ? t->by_query + t->first * r->rows : NULL;
    for (size_t j = 0; j < t->tokens; j++) {
        int64_t d = rows[i].position - rows[j].position;
        d = d < -r->farthest ? -r->farthest : d > r->farthest ? r->farthest : d;
        size_t at = (size_t)r->row[d + r->farthest];
        score[j] += (by_key ? by_key[at] : 0.0f) + (by_query ? by_query[j * r->rows + at] : 0.0f);
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
        softmax(score, t->tokens, t->work->native->scale);
    }
    pc__map_apply_plain(t->map, t->tokens, first, end - first, t->values, t->dim,
                        t->work->attended + (t->first + first) * stride + t->index * t->dim,
                        stride);
}

/* Allocates the scratch of a pass at its first use, for the rows of the largest block. */
static pc_status reserve_scratch(pc__forward_work *work, head_work *t)
{
    size_t rows = work->capacity, dim = t->dim, count = t->relative->rows, used = 0;
    const size_t sizes[] = {rows * dim,   rows * dim,   rows * dim, (rows + PC__PAGE) * dim,
                            rows * count, rows * count, rows * rows};
    float **const to[] = {&t->q,      &t->k,        &t->transposed, &t->values,
                          &t->by_key, &t->by_query, &t->map};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        used += (sizes[i] + 15) & ~(size_t)15;
    if (!work->distances)
        work->distances = work->native->backend->allocate(work->native->context, used);
    if (!work->distances)
        return PC_ERR_NOMEM;
    used = 0;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        *to[i] = work->distances + used;
        used += (sizes[i] + 15) & ~(size_t)15;
    }
    return PC_OK;
}

/* Makes lane number `lane` of the block the current one. 0: there is no such lane. */
static int select_lane(head_work *t, size_t lane)
{
    size_t first, count;
    if (t->work->first_lane + lane >= pc__lane_count(t->work->pass))
        return 0;
    pc__lane_rows(t->work->pass, t->work->first_lane + lane, &first, &count);
    t->first = first - t->work->first;
    t->tokens = count;
    return t->first < t->work->rows;
}

/* The distance terms of consecutive rows. */
static pc_status run_terms(head_work *t, int32_t layer, size_t first, size_t rows)
{
    const pc__native *native = t->work->native;
    const pc__disentangled *r = t->relative;
    size_t at = (size_t)layer * r->heads + t->index;
    if (rows && r->keys[at])
        PC__TRY_RETURN(native->backend->linear_run(r->keys[at], t->q + first * t->dim, rows,
                                                   t->by_key + first * r->rows));
    if (rows && r->queries[at])
        return native->backend->linear_run(r->queries[at], t->k + first * t->dim, rows,
                                           t->by_query + first * r->rows);
    return PC_OK;
}

/* Skips lanes whose maps are given: they have neither queries nor keys. */
static pc_status run_head(head_work *t, int32_t layer)
{
    size_t first = 0, rows = 0;
    copy_head(t, t->work->q, t->q);
    copy_head(t, t->work->k, t->k);
    for (size_t lane = 0; select_lane(t, lane); lane++) {
        if (pc__forward_maps_given(t->work, t->work->first_lane + lane)) {
            PC__TRY_RETURN(run_terms(t, layer, first, rows));
            rows = 0;
            continue;
        }
        first = rows ? first : t->first;
        rows += t->tokens;
    }
    return run_terms(t, layer, first, rows);
}

/* maps [lane][head][row][key]: keeps the maps of all lanes. NULL: each lane overwrites the last. */
static void run_lanes(head_work *t, float *maps)
{
    float *scratch = t->map;
    for (size_t lane = 0; select_lane(t, lane); lane++) {
        size_t one = t->tokens * t->tokens;
        if (maps)
            t->map = maps + t->index * one;
        if (!pc__forward_maps_given(t->work, t->work->first_lane + lane)) {
            transpose_keys(t);
            copy_values(t);
            pc__parallel(t->work->native->context, (t->tokens + ROWS - 1) / ROWS, map_rows, t);
        }
        if (maps)
            maps += t->relative->heads * one;
    }
    t->map = scratch;
}

/* Whether the maps of this layer are traced or recorded. */
static int maps_wanted(head_work *t, int32_t layer)
{
    const pc__lane_maps *maps = t->work->pass->maps;
    int wanted = t->work->pass->trace != NULL;
    for (size_t lane = 0; maps && !wanted && select_lane(t, lane); lane++) {
        void *const *record = maps[t->work->first_lane + lane].record;
        wanted = record && record[layer];
    }
    return wanted;
}

static pc_status trace_space(head_work *t, float **maps)
{
    const pc_allocator *mem = &t->work->native->context->mem;
    size_t keys = 0;
    for (size_t lane = 0; select_lane(t, lane); lane++)
        keys += t->tokens * t->tokens;
    *maps = pc__calloc(mem, keys, t->relative->heads * sizeof **maps);
    return *maps ? PC_OK : PC_ERR_NOMEM;
}

static void show_maps(head_work *t, int32_t layer, const float *maps)
{
    for (size_t lane = 0; select_lane(t, lane); lane++) {
        size_t number = t->work->first_lane + lane;
        if (t->work->pass->trace && !pc__forward_maps_given(t->work, number))
            pc__trace_map(t->work, layer, number, t->tokens, maps);
        pc__forward_maps_record(t->work, number, layer, maps);
        maps += t->relative->heads * t->tokens * t->tokens;
    }
}

pc_status pc__disentangled_attend(pc__forward_work *work, int32_t layer)
{
    const pc__native *native = work->native;
    head_work t = {
        .work = work, .relative = native->encoder.relative, .dim = (size_t)native->arch.head_dim};
    float *maps = NULL;
    pc_status status;
    PC__TRY(reserve_scratch(work, &t), done);
    if (maps_wanted(&t, layer))
        PC__TRY(trace_space(&t, &maps), done);
    for (t.index = 0; t.index < t.relative->heads; t.index++) {
        PC__TRY(run_head(&t, layer), done);
        run_lanes(&t, maps);
    }
    if (maps)
        show_maps(&t, layer, maps);
done:
    pc__free(&native->context->mem, maps);
    return status;
}
