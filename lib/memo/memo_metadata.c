/* What a record has beside its maps: the pooled input, stored as fp16, and outputs. */
#include <stdio.h>
#include <string.h>

#include "attn/half.h"
#include "attn/kernels.h"
#include "base/checksum.h"
#include "base/little_endian.h"
#include "memo/index/index_bytes.h"
#include "memo/memo_internal.h"
#include "model/forward/forward.h"
#include "model/forward/prefill_batch.h"
#include "model/model_states.h"

enum {
    OUTPUTS_ALIGN = 8,
    OUTPUTS_HEAD = 32,
    AT_POOL = 0,
    AT_EMBEDDING = 4,
    AT_LOGITS = 8,
    AT_COMPUTE = 12,
    AT_ORIGIN = 16
};

pc__id pc__input_digest(const pc_input *input)
{
    pc__digest digest;
    pc__digest_start(&digest, "memo/1");
    pc__digest_i32(&digest, input->tokens, input->count);
    pc__digest_u64(&digest, input->types != NULL);
    if (input->types)
        pc__digest_i32(&digest, input->types, input->count);
    return pc__digest_end(&digest);
}

pc_status pc__memo_pool_layer(pc_memo *memo, const float *x, size_t tokens, uint32_t bucket,
                              float *pooled)
{
    pc_status status;
    pthread_rwlock_rdlock(&memo->guard);
    status = pc__projector_pool(memo->buckets[bucket].projector, x, tokens, pooled);
    pthread_rwlock_unlock(&memo->guard);
    return status;
}

pc_status pc__memo_pool(pc_memo *memo, const pc_input *input, uint32_t bucket, float *pooled)
{
    /* At most as long as the bucket allows. */
    float *x = pc__alloc(&memo->mem, input->count * memo->head.hidden * sizeof *x);
    pc_status status = x ? pc__first_input(memo->model, input, x) : PC_ERR_NOMEM;
    if (status >= 0)
        status = pc__memo_pool_layer(memo, x, input->count, bucket, pooled);
    pc__free(&memo->mem, x);
    return status;
}

void pc__memo_pooled_put(const float *pooled, size_t count, uint16_t *metadata)
{
    for (size_t i = 0; i < count; i++)
        metadata[i] = pc__half_from(pooled[i]);
}

void pc__memo_pooled_get(const uint16_t *metadata, size_t count, float *pooled)
{
    for (size_t i = 0; i < count; i++)
        pooled[i] = pc__half_to(metadata[i]);
}

/* ------------------------------------------------------------------ outputs */

/* Digest of all that outputs depend on, beside the model's fingerprint. */
static uint64_t compute_digest(const pc_model *model)
{
    char text[PC__KERNELS_CLASS + 32];
    int size = snprintf(text, sizeof text, "%s %u %u", pc__kernels_class(),
                        (unsigned)model->info.compute, (unsigned)pc__model_run_shape(model).dtype);
    return pc__checksum64(text, (size_t)size);
}

static size_t outputs_at(size_t base)
{
    return (base + OUTPUTS_ALIGN - 1) / OUTPUTS_ALIGN * OUTPUTS_ALIGN;
}

size_t pc__memo_metadata_base(const pc_memo *memo, uint32_t bucket)
{
    return pc__memo_indexed_layers(memo) * memo->buckets[bucket].pooled * sizeof(uint16_t);
}

size_t pc__memo_metadata_bytes(size_t base, pc__output_sizes sizes)
{
    return sizes.embedding || sizes.logits
               ? outputs_at(base) + OUTPUTS_HEAD + 4 * (sizes.embedding + sizes.logits)
               : base;
}

int pc__memo_metadata_fits(const pc_memo *memo, size_t base, size_t bytes)
{
    size_t hidden = memo->head.hidden, logits = pc__prefill_batch_logits(memo->model);
    return bytes == base || bytes == pc__memo_metadata_bytes(base, (pc__output_sizes){hidden, 0})
           || bytes == pc__memo_metadata_bytes(base, (pc__output_sizes){0, logits})
           || bytes == pc__memo_metadata_bytes(base, (pc__output_sizes){hidden, logits});
}

/* By default, logits are stored only where they are not larger than the maps, so that a record at
 * most doubles. */
pc__output_sizes pc__memo_output_sizes(const pc_memo *memo, size_t tokens)
{
    uint32_t kinds = memo->head.outputs;
    size_t logits = pc__prefill_batch_logits(memo->model);
    pc__map_shape shape = pc__memo_shape(memo, tokens);
    if (kinds == PC_OUTPUT_DEFAULT)
        kinds = PC_OUTPUT_EMBEDDINGS
                | (4 * logits <= (size_t)memo->head.maps.layers * pc__map_bytes(&shape)
                       ? PC_OUTPUT_LOGITS
                       : 0u);
    return (pc__output_sizes){kinds & PC_OUTPUT_EMBEDDINGS ? memo->head.hidden : 0,
                              kinds & PC_OUTPUT_LOGITS ? logits : 0};
}

void pc__memo_output_put(const pc_memo *memo, uint8_t *metadata, size_t base,
                         pc__output_sizes sizes, const float *values)
{
    uint8_t *part = metadata + outputs_at(base);
    if (!sizes.embedding && !sizes.logits)
        return;
    memset(metadata + base, 0, outputs_at(base) - base + OUTPUTS_HEAD);
    pc__put_u32(part + AT_POOL,
                sizes.embedding ? pc__model_pool(memo->model, memo->head.output_pool) : 0);
    pc__put_u32(part + AT_EMBEDDING, (uint32_t)sizes.embedding);
    pc__put_u32(part + AT_LOGITS, (uint32_t)sizes.logits);
    pc__put_u32(part + AT_COMPUTE, memo->model->info.compute);
    pc__put_u64(part + AT_ORIGIN, compute_digest(memo->model));
    pc__index_set_words(part + OUTPUTS_HEAD, values, sizes.embedding + sizes.logits);
}

/* Outputs of a record; none if they were computed with other formats or kernels. */
typedef struct stored_outputs {
    uint32_t pool;
    pc__output_sizes sizes;
    const uint8_t *values;
} stored_outputs;

static stored_outputs parse_outputs(const pc_memo *memo, const uint8_t *metadata, size_t base,
                                    size_t bytes)
{
    const uint8_t *part = metadata + outputs_at(base);
    stored_outputs f;
    if (bytes < outputs_at(base) + OUTPUTS_HEAD
        || pc__get_u64(part + AT_ORIGIN) != compute_digest(memo->model))
        return (stored_outputs){0};
    f = (stored_outputs){pc__get_u32(part + AT_POOL),
                         {pc__get_u32(part + AT_EMBEDDING), pc__get_u32(part + AT_LOGITS)},
                         part + OUTPUTS_HEAD};
    if ((f.sizes.embedding && f.sizes.embedding != memo->head.hidden)
        || (f.sizes.logits && f.sizes.logits != pc__prefill_batch_logits(memo->model))
        || bytes != pc__memo_metadata_bytes(base, f.sizes))
        return (stored_outputs){0};
    return f;
}

int pc__memo_output_has(pc_memo *memo, const pc__memo_entry *entry, pc__output_sizes sizes)
{
    size_t base = pc__memo_metadata_base(memo, pc__memo_bucket_of(memo, entry->tokens)), bytes = 0;
    uint8_t *metadata = NULL;
    stored_outputs f = {0};
    int has;
    if (!sizes.embedding && !sizes.logits)
        return 1;
    if (!entry->has_outputs)
        return 0;
    if (pc__map_store_metadata_copy(memo->maps, entry->id, 0, &metadata, &bytes) == PC_OK)
        f = parse_outputs(memo, metadata, base, bytes);
    has = f.sizes.embedding >= sizes.embedding && f.sizes.logits >= sizes.logits
          && (!sizes.embedding || f.pool == pc__model_pool(memo->model, memo->head.output_pool));
    pc__free(&memo->mem, metadata);
    return has;
}

pc_status pc__memo_output(pc_memo *memo, int64_t id, uint32_t pool, float *embedding, float *logits)
{
    const pc__memo_entry *entry;
    size_t base = 0, bytes = 0;
    uint8_t *metadata = NULL;
    stored_outputs f;
    int has_some;
    pc_status status;
    pthread_rwlock_rdlock(&memo->guard);
    entry = pc__memo_entry_find(memo, id);
    has_some = entry && entry->tokens && entry->has_outputs;
    if (has_some)
        base = pc__memo_metadata_base(memo, pc__memo_bucket_of(memo, entry->tokens));
    pthread_rwlock_unlock(&memo->guard);
    if (!has_some)
        return PC_MISS;
    status = pc__map_store_metadata_copy(memo->maps, id, 1, &metadata, &bytes);
    if (status == PC_ERR_FORMAT)
        pc__memo_entry_remove(memo, id);
    if (status != PC_OK)
        return status;
    f = parse_outputs(memo, metadata, base, bytes);
    if ((embedding && (!f.sizes.embedding || f.pool != pool)) || (logits && !f.sizes.logits))
        status = PC_MISS;
    if (status == PC_OK && embedding)
        pc__index_get_words(embedding, f.values, f.sizes.embedding);
    if (status == PC_OK && logits)
        pc__index_get_words(logits, f.values + 4 * f.sizes.embedding, f.sizes.logits);
    pc__free(&memo->mem, metadata);
    return status;
}
