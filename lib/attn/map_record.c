/* Records attention maps of a forward pass: exp(score - LSE), a block of rows at a time. */
#include <math.h>
#include <stdatomic.h>

#include "attn/half.h"
#include "attn/kernels.h"
#include "attn/map.h"
#include "base/threads.h"
#include "base/work.h"

enum { ROWS = 32 }; /* of a block, with all heads */

typedef struct map_recording {
    const pc__attn_layer *layer;
    const pc__map_out *lanes;
    size_t count, blocks; /* blocks of all lanes */
    const float *q, *lse;
    const pc__kernels *kernels;
    uint8_t *scratch;  /* [threads][each] */
    size_t each, keys; /* keys of the longest lane, in whole pages */
    atomic_size_t next_thread, next_block;
} map_recording;

typedef struct record_block {
    const map_recording *r;
    const pc__map_out *lane;
    size_t first, rows, heads, dim;
    float *rotated; /* [heads][dim] of one row */
    float *cosine;  /* [dim] */
    float *q;       /* [head][ROWS][dim] */
    float *weights; /* [ROWS][keys] */
    float m[ROWS], slope[ROWS];
    uint32_t lo[ROWS], hi[ROWS];
} record_block;

static void load_query_row(record_block *b, size_t i)
{
    const pc__attn_layer *layer = b->r->layer;
    size_t row = b->first + i, from = (b->lane->first_row + row) * b->heads * b->dim;
    int64_t distance = b->lane->distance[row];
    float *sine = b->cosine + (layer->rope ? layer->rope->dims / 2 : 0);
    if (layer->rope)
        pc__rope_angles(layer->rope, distance, b->cosine, sine);
    pc__kernels_get()->rotate(layer->rope, b->cosine, sine, 1.0f, b->r->q + from, b->rotated,
                              b->heads, b->dim);
    for (size_t h = 0; h < b->heads; h++)
        for (size_t d = 0; d < b->dim; d++) {
            float x = b->rotated[h * b->dim + d] * layer->scale;
            b->q[(h * ROWS + i) * b->dim + d] = b->lane->kv->shape.dtype == PC_DTYPE_BF16
                                                    ? pc__bf16_to(pc__bf16_from(x))
                                                    : x;
        }
    b->lo[i] = 0;
    b->hi[i] = (uint32_t)pc__map_row_keys(&b->lane->shape, row);
    pc__attn_visible(layer, b->lane->kv, b->lane->start + distance, b->lane->start, &b->lo[i],
                     &b->hi[i]);
}

static void record_head(record_block *b, size_t head)
{
    const pc__map_out *lane = b->lane;
    const pc__kv *kv = lane->kv;
    const pc__attn_layer *layer = b->r->layer;
    size_t kv_heads = (size_t)kv->shape.kv_heads, page = pc__kv_page_bytes(&kv->shape),
           keys = pc__map_row_keys(&lane->shape, b->first + b->rows - 1); /* all that is packed */
    pc__attn_task task = {.pages = kv->layer[layer->layer] + head / (b->heads / kv_heads) * page,
                          .page_stride = kv_heads * page,
                          .v_offset = pc__kv_k_bytes(&kv->shape),
                          .k_dim = b->dim,
                          .v_dim = (size_t)kv->shape.v_dim,
                          .relative = kv->relative,
                          .rows = b->rows,
                          .q = b->q + head * ROWS * b->dim,
                          .lo = b->lo,
                          .hi = b->hi,
                          .slope = layer->slopes ? b->slope : NULL,
                          .distance = lane->distance + b->first,
                          .soft_cap = layer->soft_cap,
                          .m = b->m};
    for (size_t i = 0; i < b->rows; i++) {
        b->m[i] = b->r->lse[(lane->first_row + b->first + i) * b->heads + head];
        b->slope[i] = layer->slopes ? layer->slopes[head] : 0.0f;
    }
    pc__weights_of(b->r->kernels, kv->shape.dtype)(
        &task, kv->shape.dtype, (keys + PC__PAGE - 1) / PC__PAGE, b->weights, b->r->keys);
    for (size_t i = 0; i < b->rows; i++)
        pc__map_pack_row(&lane->shape, head, b->first + i, b->weights + i * b->r->keys, lane->map);
}

/* Finds the lane and rows of a block. */
static void find_record_block(record_block *b, size_t index)
{
    const map_recording *r = b->r;
    size_t n;
    for (b->lane = r->lanes; index >= (n = (b->lane->shape.tokens + ROWS - 1) / ROWS); b->lane++)
        index -= n;
    b->first = index * ROWS;
    b->rows = b->lane->shape.tokens - b->first < ROWS ? b->lane->shape.tokens - b->first : ROWS;
}

static void record_blocks(void *arg, size_t unused)
{
    map_recording *r = arg;
    const pc__kv_shape *shape = &r->lanes[0].kv->shape;
    uint8_t *at = r->scratch + atomic_fetch_add(&r->next_thread, 1) * r->each;
    record_block b = {.r = r, .heads = (size_t)r->layer->heads, .dim = (size_t)shape->k_dim};
    size_t index;
    (void)unused;
    b.rotated = pc__carve(&at, b.heads * b.dim * sizeof(float));
    b.cosine = pc__carve(&at, b.dim * sizeof(float));
    b.q = pc__carve(&at, b.heads * ROWS * b.dim * sizeof(float));
    b.weights = pc__carve(&at, ROWS * r->keys * sizeof(float));
    while ((index = atomic_fetch_add(&r->next_block, 1)) < r->blocks) {
        find_record_block(&b, index);
        for (size_t i = 0; i < b.rows; i++)
            load_query_row(&b, i);
        for (size_t h = 0; h < b.heads; h++)
            record_head(&b, h);
    }
}

pc_status pc__record_maps(pc_context *context, const pc__attn_layer *layer,
                          const pc__map_out *lanes, size_t count, const float *q, const float *lse)
{
    map_recording r = {.layer = layer,
                       .lanes = lanes,
                       .count = count,
                       .q = q,
                       .lse = lse,
                       .kernels = pc__kernels_get()};
    size_t heads = (size_t)layer->heads, dim, threads = context->threads;
    for (size_t i = 0; i < count; i++) {
        size_t keys = (lanes[i].shape.tokens + PC__PAGE - 1) / PC__PAGE * PC__PAGE;
        r.blocks += (lanes[i].shape.tokens + ROWS - 1) / ROWS;
        r.keys = keys > r.keys ? keys : r.keys;
    }
    if (!r.blocks)
        return PC_OK;
    dim = (size_t)lanes[0].kv->shape.k_dim;
    threads = threads < r.blocks ? threads : r.blocks;
    r.each = (heads * dim * (ROWS + 1) + dim + ROWS * r.keys + 64) * sizeof(float);
    r.each = (r.each + 63) / 64 * 64;
    r.scratch = pc__work_take(context, threads * r.each);
    if (!r.scratch)
        return PC_ERR_NOMEM;
    atomic_init(&r.next_thread, 0);
    atomic_init(&r.next_block, 0);
    pc__parallel(context, threads, record_blocks, &r);
    pc__work_give(context, r.scratch);
    return PC_OK;
}
