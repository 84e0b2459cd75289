/* Remembers prompts: computes them in batches, and stores their maps, pooled inputs and outputs. */
#include <math.h>

#include "base/clock.h"
#include "base/fail.h"
#include "base/options.h"
#include "memo/memo_internal.h"
#include "model/forward/prefill_batch.h"

enum { AT_ONCE = 128, MOST_BYTES = 256 << 20 /* of maps in a batch */ };
/* Added records are synced and reported at least this often. */
static const double SYNC_SECONDS = 1;

/* A prompt, with memory for its results. */
typedef struct add_item {
    const pc_input *input;
    pc__id id;
    uint32_t bucket;
    uint8_t *maps; /* of all layers, in one piece */
    void **layers;
    float *pooled;  /* [indexed layers][cells of the bucket's projector] */
    float *outputs; /* embedding, then logits, of `sizes` */
    pc__output_sizes sizes;
} add_item;

/* Prompts that are computed in one call. */
typedef struct add_batch {
    pc_memo *memo;
    add_item items[AT_ONCE];
    pc_status pooling; /* first error of pooling the layers' inputs */
    size_t count, bytes;
} add_batch;

pc_status pc__memo_work_read(pc_memo_work *out, const pc_memo_work *work)
{
    PC__TRY_RETURN(pc__options_read(out, sizeof *out, PC__V1_SIZE(pc_memo_work, hit_percentile),
                                    work, "pc_memo_work"));
    PC__TRY_RETURN(pc__check_enum("pc_memo_work", "loss", out->loss, PC_LOSS_KL));
    if (!(out->alpha >= 0) || out->alpha > 1e6 || isnan(out->limit))
        return pc__fail(PC_ERR_INVALID, "pc_memo_work: alpha is %g, limit is %g", out->alpha,
                        out->limit);
    if (!(out->hit_percentile >= 0 && out->hit_percentile <= 100) || isnan(out->hit_limit))
        return pc__fail(PC_ERR_INVALID, "pc_memo_work: hit_percentile is %g, hit_limit is %g",
                        out->hit_percentile, out->hit_limit);
    out->alpha = out->alpha == 0 ? 0.2 : out->alpha;
    out->hit_percentile = out->hit_percentile == 0 ? 95 : out->hit_percentile;
    out->hit_limit = out->hit_limit == 0 ? 4 * out->limit : out->hit_limit;
    return PC_OK;
}

static pc_status check_add(const pc_memo *memo)
{
    if (!memo)
        return pc__fail(PC_ERR_INVALID, "pc_memo_add: memo is NULL");
    if (memo->options.flags & PC_MEMO_READ_ONLY)
        return pc__fail(PC_ERR_STATE, "pc_memo_add: %s was opened read-only", memo->dir.path);
    return PC_OK;
}

static void clear_batch(add_batch *b)
{
    const pc_allocator *mem = &b->memo->mem;
    for (add_item *item = b->items; item < b->items + b->count; item++) {
        pc__free(mem, item->maps);
        pc__free(mem, item->layers);
        pc__free(mem, item->pooled);
        pc__free(mem, item->outputs);
    }
    b->count = b->bytes = 0;
}

/* A copy of the entry of a prompt; id PC__NO_NEIGHBOUR: there is none. */
static pc__memo_entry find_remembered(const pc_memo *memo, const pc__id *tokens_id)
{
    pthread_rwlock_t *guard = (pthread_rwlock_t *)(uintptr_t)&memo->guard;
    pc__memo_entry out = {.id = PC__NO_NEIGHBOUR};
    const pc__memo_entry *entry;
    pthread_rwlock_rdlock(guard);
    entry = pc__memo_entry_by_tokens(memo, tokens_id);
    if (entry)
        out = *entry;
    pthread_rwlock_unlock(guard);
    return out;
}

/* 1: not remembered yet, or without all outputs that are stored now. */
static int needs_adding(add_batch *b, const pc_input *input, const pc__id *id)
{
    pc__memo_entry entry = find_remembered(b->memo, id);
    for (size_t i = 0; i < b->count; i++)
        if (pc__id_equal(&b->items[i].id, id))
            return 0;
    return entry.id == PC__NO_NEIGHBOUR
           || !pc__memo_output_has(b->memo, &entry, pc__memo_output_sizes(b->memo, input->count));
}

static pc_status add_to_batch(add_batch *b, const pc_input *input, const pc__id *id,
                              uint32_t bucket)
{
    const pc_memo *memo = b->memo;
    const pc_allocator *mem = &memo->mem;
    add_item *item = &b->items[b->count++];
    pc__map_shape shape = pc__memo_shape(memo, input->count);
    size_t layers = (size_t)memo->head.maps.layers, bytes = (pc__map_bytes(&shape) + 63) / 64 * 64,
           outputs;
    *item = (add_item){.input = input,
                       .id = *id,
                       .bucket = bucket,
                       .sizes = pc__memo_output_sizes(memo, input->count)};
    outputs = item->sizes.embedding + item->sizes.logits;
    if (bytes && bytes < SIZE_MAX / layers)
        item->maps = pc__alloc_aligned(mem, bytes * layers, 64);
    item->layers = pc__calloc(mem, layers, sizeof(void *));
    item->pooled = pc__calloc(mem, pc__memo_indexed_layers(memo) * memo->buckets[bucket].pooled,
                              sizeof(float));
    item->outputs = pc__calloc(mem, outputs + 1, sizeof(float));
    if (!item->maps || !item->layers || !item->pooled || !item->outputs)
        return PC_ERR_NOMEM;
    for (size_t l = 0; l < layers; l++)
        item->layers[l] = item->maps + l * bytes;
    b->bytes += bytes * layers + outputs * sizeof(float);
    return PC_OK;
}

/* Pools the input of each layer as it is computed. */
static const void *pool_layer(void *user, size_t prompt, int32_t layer, const float *x)
{
    add_batch *b = user;
    const add_item *item = &b->items[prompt];
    pc_status status = pc__memo_pool_layer(
        b->memo, x, item->input->count, item->bucket,
        item->pooled + (size_t)layer * b->memo->buckets[item->bucket].pooled);
    b->pooling = b->pooling < 0 ? b->pooling : status;
    return NULL;
}

static pc_status compute_batch(add_batch *b)
{
    pc__prefill_batch_options options = {.pool = b->memo->head.output_pool,
                                         .choose = b->memo->head.layerwise ? pool_layer : NULL,
                                         .choose_user = b};
    pc__prefill_input prompts[AT_ONCE];
    pc_status status;
    b->pooling = PC_OK;
    for (size_t i = 0; i < b->count; i++) {
        const add_item *item = &b->items[i];
        prompts[i] = (pc__prefill_input){
            .input = item->input,
            .record = item->layers,
            .shape = pc__memo_shape(b->memo, item->input->count),
            .embedding = item->sizes.embedding ? item->outputs : NULL,
            .logits = item->sizes.logits ? item->outputs + item->sizes.embedding : NULL};
    }
    status = pc__prefill_batch_run(b->memo->model, prompts, b->count, &options);
    for (size_t i = 0; i < b->count && status >= 0 && !b->memo->head.layerwise; i++)
        status = pc__memo_pool(b->memo, b->items[i].input, b->items[i].bucket, b->items[i].pooled);
    return status < 0 ? status : b->pooling;
}

static void on_evicted(void *user, int64_t id)
{
    pc__memo_entry_remove(user, id);
}

/* Indexes a prompt from its stored form, as opening the memo would. */
static pc_status index_prompt(pc_memo *memo, const add_item *item, int64_t id,
                              const uint16_t *metadata)
{
    const pc__bucket_facts *bucket = &memo->buckets[item->bucket];
    size_t layers = pc__memo_indexed_layers(memo);
    float *features = pc__calloc(&memo->mem, layers, PC__FEATURE_DIM * sizeof *features);
    pc_status status;
    if (!features)
        return PC_ERR_NOMEM;
    pc__memo_pooled_get(metadata, layers * bucket->pooled, item->pooled);
    pc__projector_features(bucket->projector, item->pooled, layers, features);
    status = pc__memo_index_add(memo, item->input->count, features, id);
    pc__free(&memo->mem, features);
    return status;
}

static pc_status store_prompt(pc_memo *memo, const add_item *item)
{
    uint32_t tokens = (uint32_t)item->input->count;
    size_t base = pc__memo_metadata_base(memo, item->bucket),
           bytes = pc__memo_metadata_bytes(base, item->sizes);
    uint16_t *metadata = pc__alloc(&memo->mem, bytes + 1);
    int64_t id, before = find_remembered(memo, &item->id).id;
    pc_status status;
    if (!metadata)
        return PC_ERR_NOMEM;
    pc__memo_pooled_put(item->pooled, base / sizeof *metadata, metadata);
    pc__memo_output_put(memo, (uint8_t *)metadata, base, item->sizes, item->outputs);
    status = pc__map_store_add(memo->maps, &item->id, tokens, metadata, bytes,
                               (const void *const *)item->layers, &id, on_evicted, memo);
    if (status == PC_OK) {
        pthread_rwlock_wrlock(&memo->guard);
        status = pc__memo_entry_add(memo, id, &item->id, tokens, bytes);
        if (status >= 0 && memo->buckets[item->bucket].trained)
            status = index_prompt(memo, item, id, metadata);
        pthread_rwlock_unlock(&memo->guard);
    }
    if (status == PC_OK && before != PC__NO_NEIGHBOUR) { /* the old record lacked outputs */
        (void)pc__map_store_remove(memo->maps, before);
        pc__memo_entry_remove(memo, before);
    }
    pc__free(&memo->mem, metadata);
    return status;
}

static pc_status flush_batch(add_batch *b)
{
    pc_status status = b->count ? compute_batch(b) : PC_OK;
    for (size_t i = 0; i < b->count && status >= 0; i++)
        status = store_prompt(b->memo, &b->items[i]);
    clear_batch(b);
    return status;
}

/* Syncs what was added, and reports it. */
static pc_status sync_and_report(pc_memo *memo, const pc_memo_work *work, size_t done, size_t count)
{
    pc_status status = pc__map_store_sync(memo->maps);
    pc__callback_begin();
    if (status >= 0 && work->progress
        && work->progress(work->progress_user, "remember", done, count))
        status = pc__callback_cancelled("pc_memo_add: cancelled after %zu of %zu inputs", done,
                                        count);
    return status;
}

static pc_status add_all(pc_memo *memo, const pc_input *inputs, size_t count,
                         const pc_memo_work *work)
{
    add_batch b = {.memo = memo};
    double reported = pc__now();
    pc_status status = PC_OK;
    for (size_t i = 0; i < count && status >= 0; i++) {
        pc__id id = pc__input_digest(&inputs[i]);
        uint32_t bucket = pc__memo_bucket_of(memo, inputs[i].count);
        int last = i + 1 == count;
        if (bucket < memo->head.bucket_count && needs_adding(&b, &inputs[i], &id))
            status = add_to_batch(&b, &inputs[i], &id, bucket);
        if (status < 0 || (b.count < AT_ONCE && b.bytes < MOST_BYTES && !last))
            continue;
        status = flush_batch(&b);
        if (status >= 0 && (last || pc__now() - reported > SYNC_SECONDS)) {
            status = sync_and_report(memo, work, i + 1, count);
            reported = pc__now();
        }
    }
    clear_batch(&b);
    return status;
}

pc_status pc_memo_add(pc_memo *memo, const pc_input *inputs, size_t input_stride, size_t count,
                      const pc_memo_work *work)
{
    PC__HOLD(pc_memo, memo);
    pc_memo_work w;
    const void *dense;
    void *copy;
    pc_status status;
    PC__TRY_RETURN(check_add(memo));
    PC__TRY_RETURN(pc__check_process(memo->process, "pc_memo_add", "the memo"));
    PC__TRY_RETURN(pc__memo_work_read(&w, work));
    PC__TRY_RETURN(pc__array_in(&dense, &copy, &memo->mem,
                                PC__ARRAY("pc_memo_add", "inputs", pc_input, types), inputs,
                                input_stride, count));
    status = pc__inputs_check("pc_memo_add", dense, count);
    if (status >= 0)
        status = pc__memo_write_begin(memo);
    if (status >= 0) {
        status = add_all(memo, dense, count, &w);
        pthread_mutex_unlock(&memo->writer);
    }
    pc__free(&memo->mem, copy);
    return status < 0 ? status : PC_OK;
}

pc_status pc_memo_tidy(pc_memo *memo)
{
    PC__HOLD(pc_memo, memo);
    pc_status status;
    if (!memo)
        return pc__fail(PC_ERR_INVALID, "pc_memo_tidy: memo is NULL");
    PC__TRY_RETURN(pc__check_process(memo->process, "pc_memo_tidy", "the memo"));
    status = pc__map_store_tidy(memo->maps);
    if (status >= 0 && !pthread_mutex_trylock(&memo->writer)) { /* training saves them itself */
        status = pc__memo_index_save(memo);
        pthread_mutex_unlock(&memo->writer);
    }
    return status;
}
