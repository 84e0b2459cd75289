/* The digest of a prompt, and its pooled input, which is stored as fp16. */
#include "attn/half.h"
#include "base/fail.h"
#include "memo/memo_internal.h"
#include "model/forward/forward.h"

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
