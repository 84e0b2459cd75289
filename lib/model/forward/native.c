/* What a native model holds: freeing it, its embedding rows and RoPE regimes, and runs of K and V:
 * new, placed, read back. */
#include "model/forward/native.h"

#include <string.h>

#include "model/load/positions.h"
#include "attn/disentangled_attention.h"
#include "attn/kv_device.h"
#include "model/forward/latent_run.h"
#include "model/model_states.h"

static void free_norm(const pc__native *native, pc__native_norm *norm)
{
    native->backend->ops->give(native->backend, norm->gain);
    native->backend->ops->give(native->backend, norm->bias);
}

static void free_linear(const pc__native *native, pc__linear *linear)
{
    if (linear)
        native->backend->ops->linear_free(linear);
}

static void free_embedding(const pc__native *native, pc__embedding *embedding)
{
    if (embedding->table)
        native->backend->ops->table_free(embedding->table);
}

static void free_mlp(const pc__native *native, pc__mlp *mlp)
{
    free_linear(native, mlp->gate);
    free_linear(native, mlp->up);
    free_linear(native, mlp->down);
}

static void free_latent(const pc__native *native, pc__native_latent *latent)
{
    free_linear(native, latent->q_a);
    free_linear(native, latent->kv_a);
    for (int32_t h = 0; h < native->arch.heads; h++) {
        free_linear(native, latent->k_up ? latent->k_up[h] : NULL);
        free_linear(native, latent->k_b ? latent->k_b[h] : NULL);
        free_linear(native, latent->v_b ? latent->v_b[h] : NULL);
    }
    pc__free(&native->context->mem, latent->k_up);
    pc__free(&native->context->mem, latent->k_b);
    pc__free(&native->context->mem, latent->v_b);
}

static void free_layer(const pc__native *native, pc__native_layer *layer)
{
    free_norm(native, &layer->norm1);
    free_norm(native, &layer->norm2);
    free_norm(native, &layer->output_norm1);
    free_norm(native, &layer->output_norm2);
    free_norm(native, &layer->q_norm);
    free_norm(native, &layer->k_norm);
    pc__free(&native->context->mem, layer->sinks);
    free_linear(native, layer->q);
    free_linear(native, layer->k);
    free_linear(native, layer->v);
    free_linear(native, layer->o);
    free_latent(native, &layer->latent);
    free_mlp(native, &layer->mlp);
    free_linear(native, layer->router);
    native->backend->ops->give(native->backend, layer->selection_bias);
    free_linear(native, layer->shared_scale);
    for (int32_t e = 0; layer->experts && e < native->arch.experts.count; e++)
        free_mlp(native, &layer->experts[e]);
    pc__free(&native->context->mem, layer->experts);
    if (layer->expert_block)
        native->backend->ops->give(native->backend, layer->expert_block);
}

static void free_encoder(const pc__native *native, pc__native_encoder *encoder)
{
    free_embedding(native, &encoder->types);
    pc__disentangled_free(encoder->relative);
    free_linear(native, encoder->conv);
    free_norm(native, &encoder->conv_norm);
    free_linear(native, encoder->pool);
    free_linear(native, encoder->classifier);
}

void pc__native_free(pc__native *native)
{
    const pc_allocator *mem;
    if (!native)
        return;
    mem = &native->context->mem;
    for (int32_t l = 0; native->layers && l < native->arch.layers; l++)
        free_layer(native, &native->layers[l]);
    pc__free(mem, native->layers);
    free_linear(native, native->project_in);
    free_linear(native, native->project_out);
    free_linear(native, native->head);
    free_norm(native, &native->embedding_norm);
    free_norm(native, &native->final_norm);
    free_encoder(native, &native->encoder);
    free_embedding(native, &native->embedding);
    free_embedding(native, &native->positions);
    pc__free(mem, native->slopes);
    pc__rope_free(mem, native->rope);
    pc__rope_free(mem, native->local_rope);
    pc__arch_clear(mem, &native->arch);
    pc__free(mem, native);
}

pc_status pc__native_rope(const pc__native *native, uint64_t regime, const pc__rotation **out,
                          pc__rotation **own)
{
    *own = NULL;
    if (native->arch.position_scheme == PC_POSITION_ROPE && !native->rope)
        PC__TRY_RETURN(pc__rope_new(own, &native->context->mem, &native->arch.rope, regime));
    *out = *own ? *own : native->rope;
    return PC_OK;
}

const pc__rotation *pc__native_layer_rope(const pc__native *native, int32_t layer,
                                          const pc__rotation *rope)
{
    if (pc__layer_in(&native->arch.unrotated, layer))
        return NULL;
    return native->local_rope && pc__layer_in(&native->arch.windowed, layer) ? native->local_rope
                                                                             : rope;
}

pc_status pc__model_run_new(const pc_model *model, size_t tokens, uint64_t rope_regime_length,
                            pc__kv **out)
{
    const pc__native *native = model->native;
    PC__TRY_RETURN(pc__kv_new_at(out, native->backend, &native->shape, tokens));
    (*out)->rope_regime = pc__model_rope_regime(model, rope_regime_length ? rope_regime_length : 1);
    return PC_OK;
}

pc_status pc__model_work(const pc_model *model, pc_status (*run)(void *), void *work, int once)
{
    return model->native ? pc__kv_mirrors_work(model->native->backend, run, work, once) : run(work);
}

static pc_status has_no_keys(void)
{
    return pc__fail(
        PC_ERR_STATE,
        "the run has values only: its attention maps were given and its keys were not computed");
}

pc_status pc__model_keep(const pc_model *model, pc__kv **kv)
{
    const pc__native *native = model->native;
    pc__kv *converted;
    if (!native)
        return PC_OK;
    if ((*kv)->values_only)
        return has_no_keys();
    if ((*kv)->shape.dtype == native->segment_dtype && !(*kv)->home)
        return PC_OK;
    PC__TRY_RETURN(pc__kv_convert(&converted, native->context, *kv, native->segment_dtype));
    pc__kv_unref(*kv);
    *kv = converted;
    return PC_OK;
}

static int same_shape(const pc__kv_shape *a, const pc__kv_shape *b, int32_t layers)
{
    return a->layers >= layers && a->kv_heads == b->kv_heads && a->k_dim == b->k_dim
           && a->v_dim == b->v_dim && a->latent == b->latent;
}

pc_status pc__native_may_place(const pc__native *native, const pc__kv *kv, int32_t layers,
                               int64_t start, uint64_t regime)
{
    if (!same_shape(&kv->shape, &native->shape, layers)
        || (kv->shape.dtype != native->shape.dtype && kv->shape.dtype != native->segment_dtype))
        return pc__fail(PC_ERR_MISMATCH,
                        "the segment has %d layers, %d K/V heads of %d (dtype %u), this model has "
                        "%d layers, %d K/V heads of %d (dtype %u)",
                        kv->shape.layers, kv->shape.kv_heads, kv->shape.k_dim, kv->shape.dtype,
                        native->shape.layers, native->shape.kv_heads, native->shape.k_dim,
                        native->shape.dtype);
    if (kv->values_only)
        return has_no_keys();
    if (kv->rope_regime != regime)
        return pc__fail(PC_ERR_MISMATCH,
                        "the segment has RoPE regime %llu, this pass has %llu: give both the same "
                        "rope_regime_length",
                        (unsigned long long)kv->rope_regime, (unsigned long long)regime);
    const char *absolute = pc__absolute_reason(&native->arch);
    if (absolute && start != kv->origin)
        return pc__fail(PC_ERR_UNSUPPORTED,
                        "%s %s: a segment computed at position %lld cannot be placed at %lld",
                        native->arch.name, absolute, (long long)kv->origin, (long long)start);
    return PC_OK;
}

/* Writes one token's [kv_heads][dim] into [kv_head][token][dim]. */
static void spread_heads(const pc__kv *kv, const float *from, size_t dim, size_t token, float *to)
{
    for (size_t h = 0; h < (size_t)kv->shape.kv_heads; h++)
        memcpy(to + (h * kv->tokens + token) * dim, from + h * dim, dim * sizeof *to);
}

/* Cached K has the attention factor of YaRN and LongRoPE already: moving K rotates it without the
 * factor. */
static void read_rotated(const pc__kv *kv, int32_t layer, int64_t start, const pc__rotation *rope,
                         float *scratch, float *k, float *v)
{
    size_t heads = (size_t)kv->shape.kv_heads, k_dim = (size_t)kv->shape.k_dim,
           v_dim = (size_t)kv->shape.v_dim;
    float *token_k = scratch, *token_v = token_k + heads * k_dim;
    float *cosine = token_v + heads * v_dim, *sine = cosine + k_dim;
    pc__rotation rotation;
    if (rope) {
        rotation = *rope;
        rotation.factor = 1.0f;
        pc__rope_angles(&rotation, start, cosine, sine);
    }
    for (size_t t = 0; t < kv->tokens; t++) {
        pc__kv_read(kv, layer, t, token_k, token_v);
        if (rope)
            pc__rope_rotate(&rotation, cosine, sine, token_k, heads, k_dim);
        if (k)
            spread_heads(kv, token_k, k_dim, t, k);
        if (v)
            spread_heads(kv, token_v, v_dim, t, v);
    }
}

pc_status pc__model_run_read(const pc_model *model, const pc__kv *kv, int32_t layer, int64_t start,
                             float *k, float *v)
{
    const pc__native *native = model->native;
    size_t heads = (size_t)native->shape.kv_heads,
           dims = (size_t)(native->shape.k_dim + native->shape.v_dim);
    const pc__rotation *rope;
    pc__rotation *own = NULL;
    pc__kv *host = NULL;
    float *scratch = NULL;
    pc_status status;
    if (layer < 0 || layer >= native->arch.layers)
        return pc__fail(PC_ERR_INVALID, "layer %d: the model has %d", layer, native->arch.layers);
    PC__TRY(pc__native_may_place(native, kv, layer + 1, k ? start : kv->origin, kv->rope_regime),
            done);
    PC__TRY(pc__native_rope(native, kv->rope_regime, &rope, &own), done);
    PC__TRY(pc__kv_to_host(&host, kv), done);
    rope = pc__native_layer_rope(native, layer, rope);
    if (native->shape.latent) {
        status = pc__latent_run_read(native, host, layer, start, rope, k, v);
        goto done;
    }
    scratch = pc__calloc(&native->context->mem, heads * dims + 2 * (size_t)native->shape.k_dim,
                         sizeof *scratch);
    if (!scratch)
        status = PC_ERR_NOMEM;
    else
        read_rotated(host, layer, start, rope, scratch, k, v);
done:
    pc__kv_unref(host);
    pc__free(&native->context->mem, scratch);
    pc__rope_free(&native->context->mem, own);
    return status;
}
