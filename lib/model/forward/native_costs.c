/* Counts for pc_model_info: bytes of all weights, bytes and operations of one token. */
#include "model/forward/native.h"
#include "attn/disentangled_attention.h"

static uint64_t linear_bytes(const pc__native *native, const pc__linear *linear)
{
    return linear ? native->backend->ops->linear_bytes(linear) : 0;
}

static uint64_t embedding_bytes(const pc__native *native, const pc__embedding *embedding)
{
    return embedding->table ? native->backend->ops->table_bytes(embedding->table) : 0;
}

static uint64_t mlp_bytes(const pc__native *native, const pc__mlp *mlp)
{
    return linear_bytes(native, mlp->gate) + linear_bytes(native, mlp->up)
           + linear_bytes(native, mlp->down);
}

/* Weights that every row uses: what a head's keys and values are projected with is read twice, once
 * for queries and once for results. */
static uint64_t latent_bytes(const pc__native *native, const pc__native_latent *latent)
{
    uint64_t bytes = linear_bytes(native, latent->q_a) + linear_bytes(native, latent->kv_a);
    for (int32_t h = 0; latent->k_b && h < native->arch.heads; h++)
        bytes += linear_bytes(native, latent->k_b[h]) + linear_bytes(native, latent->v_b[h]);
    return bytes;
}

/* Weights that only expanded keys need. */
static uint64_t expansion_bytes(const pc__native *native, const pc__native_latent *latent)
{
    uint64_t bytes = 0;
    for (int32_t h = 0; latent->k_up && h < native->arch.heads; h++)
        bytes += linear_bytes(native, latent->k_up[h]);
    return bytes;
}

/* Weights that every row of a layer uses. */
static uint64_t common_bytes(const pc__native *native, const pc__native_layer *layer)
{
    return linear_bytes(native, layer->q) + linear_bytes(native, layer->k)
           + linear_bytes(native, layer->v) + linear_bytes(native, layer->o)
           + latent_bytes(native, &layer->latent) + mlp_bytes(native, &layer->mlp)
           + linear_bytes(native, layer->router) + linear_bytes(native, layer->shared_scale);
}

static uint64_t experts_bytes(const pc__native *native, const pc__native_layer *layer)
{
    uint64_t bytes = 0;
    for (int32_t e = 0; layer->experts && e < native->arch.experts.count; e++)
        bytes += mlp_bytes(native, &layer->experts[e]);
    return bytes;
}

static uint64_t head_bytes(const pc__native *native)
{
    return linear_bytes(native, native->project_out) + linear_bytes(native, native->head)
           + linear_bytes(native, native->encoder.pool)
           + linear_bytes(native, native->encoder.classifier);
}

/* Weights outside the layers that every row uses. */
static uint64_t beside_bytes(const pc__native *native)
{
    return linear_bytes(native, native->project_in) + linear_bytes(native, native->encoder.conv);
}

uint64_t pc__native_weight_bytes(const pc__native *native)
{
    uint64_t bytes = embedding_bytes(native, &native->embedding)
                     + embedding_bytes(native, &native->positions);
    bytes += embedding_bytes(native, &native->encoder.types)
             + pc__disentangled_bytes(native->encoder.relative);
    bytes += head_bytes(native) + beside_bytes(native);
    for (int32_t l = 0; l < native->arch.layers; l++)
        bytes += common_bytes(native, &native->layers[l])
                 + experts_bytes(native, &native->layers[l])
                 + expansion_bytes(native, &native->layers[l].latent);
    return bytes;
}

/* Numbers of weights: each takes one multiplication and one addition a row. */
static uint64_t mlp_weights(const pc__native *native, const pc__mlp *mlp)
{
    return (uint64_t)native->arch.hidden * mlp->width * (mlp->gate ? 3 : 2);
}

static uint64_t attention_weights(const pc__native *native)
{
    const pc__arch *arch = &native->arch;
    return (uint64_t)arch->hidden * (uint64_t)(arch->heads + arch->kv_heads)
           * (uint64_t)(native->shape.k_dim + native->shape.v_dim);
}

static uint64_t latent_weights(const pc__arch *arch)
{
    const pc__latent_config *l = &arch->latent;
    uint64_t hidden = (uint64_t)arch->hidden, heads = (uint64_t)arch->heads,
             q = heads * (uint64_t)arch->head_dim, v = heads * (uint64_t)arch->v_dim;
    return (l->q_rank ? (uint64_t)l->q_rank * (hidden + q) : hidden * q)
           + hidden * (uint64_t)(l->rank + l->rotated)
           + (uint64_t)l->rank * (heads * (uint64_t)l->plain + v) + v * hidden;
}

/* Of one row. */
static uint64_t layer_weights(const pc__native *native, const pc__native_layer *layer)
{
    const pc__arch *arch = &native->arch;
    uint64_t hidden = (uint64_t)arch->hidden;
    uint64_t weights = (arch->latent.rank ? latent_weights(arch) : attention_weights(native))
                       + mlp_weights(native, &layer->mlp);
    if (layer->router)
        weights += hidden * (uint64_t)arch->experts.count
                   + (uint64_t)arch->experts.used * mlp_weights(native, &layer->experts[0]);
    return weights + (layer->shared_scale ? hidden : 0);
}

static uint64_t output_weights(const pc__native *native)
{
    const pc__arch *arch = &native->arch;
    uint64_t hidden = (uint64_t)arch->hidden, narrow = (uint64_t)arch->embedding_dim;
    return (native->head ? narrow * (uint64_t)arch->vocab : 0)
           + (native->project_out ? hidden * narrow : 0)
           + (native->encoder.pool ? hidden * hidden : 0)
           + (native->encoder.classifier ? hidden * native->encoder.classes : 0);
}

static uint64_t beside_weights(const pc__native *native)
{
    const pc__arch *arch = &native->arch;
    uint64_t hidden = (uint64_t)arch->hidden;
    return (native->project_in ? hidden * (uint64_t)arch->embedding_dim : 0)
           + (native->encoder.conv ? hidden * hidden * (uint64_t)arch->encoder.conv : 0);
}

void pc__native_costs(const pc__native *native, pc_model_info *info)
{
    const pc__expert_config *experts = &native->arch.experts;
    uint64_t bytes = beside_bytes(native), weights = beside_weights(native), all = 0;
    for (int32_t l = 0; l < native->arch.layers; l++) {
        bytes += common_bytes(native, &native->layers[l]);
        weights += layer_weights(native, &native->layers[l]);
        all += experts_bytes(native, &native->layers[l]);
    }
    info->experts = experts->count;
    info->experts_used = experts->count ? experts->used : 0;
    info->expert_bytes = experts->count ? all / (uint64_t)experts->count : 0;
    info->token_bytes = bytes + (uint64_t)info->experts_used * info->expert_bytes;
    info->token_flops = 2 * weights;
    info->head_bytes = head_bytes(native);
    info->head_flops = 2 * output_weights(native);
}
