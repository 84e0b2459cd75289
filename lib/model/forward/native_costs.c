/* Counts for pc_model_info: bytes of all weights, bytes and operations of one token. */
#include "model/forward/native.h"
#include "model/forward/disentangled_attention.h"

static uint64_t linear_bytes(const pc__native *native, const pc__linear *linear)
{
    return linear ? native->backend->linear_bytes(linear) : 0;
}

static uint64_t embedding_bytes(const pc__embedding_table *table)
{
    return (uint64_t)table->rows * table->dim * (table->dtype == PC_DTYPE_BF16 ? 2 : 4);
}

static uint64_t mlp_bytes(const pc__native *native, const pc__native_mlp *mlp)
{
    return linear_bytes(native, mlp->gate) + linear_bytes(native, mlp->up)
           + linear_bytes(native, mlp->down);
}

/* Weights that every row of a layer uses. */
static uint64_t common_bytes(const pc__native *native, const pc__native_layer *layer)
{
    return linear_bytes(native, layer->q) + linear_bytes(native, layer->k)
           + linear_bytes(native, layer->v) + linear_bytes(native, layer->o)
           + mlp_bytes(native, &layer->mlp) + linear_bytes(native, layer->router)
           + linear_bytes(native, layer->shared_scale);
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
    uint64_t bytes = embedding_bytes(&native->embedding) + embedding_bytes(&native->positions);
    bytes += embedding_bytes(&native->encoder.types)
             + pc__disentangled_bytes(native, native->encoder.relative);
    bytes += head_bytes(native) + beside_bytes(native);
    for (int32_t l = 0; l < native->arch.layers; l++)
        bytes += common_bytes(native, &native->layers[l])
                 + experts_bytes(native, &native->layers[l]);
    return bytes;
}

/* Weights of a matrix: each takes one multiplication and one addition a row. */
static uint64_t weights_of(size_t in, size_t out)
{
    return (uint64_t)in * out;
}

static uint64_t mlp_weights(const pc__native *native, const pc__native_mlp *mlp)
{
    return weights_of((size_t)native->arch.hidden, mlp->width) * (mlp->gate ? 3 : 2);
}

/* Weights that one row uses. */
static uint64_t layer_weights(const pc__native *native, const pc__native_layer *layer)
{
    const pc__arch *arch = &native->arch;
    size_t hidden = (size_t)arch->hidden, heads = (size_t)arch->heads;
    size_t k_dim = (size_t)native->shape.k_dim, v_dim = (size_t)native->shape.v_dim;
    uint64_t weights = weights_of(hidden, (heads + (size_t)arch->kv_heads) * k_dim)
                       + weights_of(hidden, (heads + (size_t)arch->kv_heads) * v_dim)
                       + mlp_weights(native, &layer->mlp);
    if (layer->router)
        weights += weights_of(hidden, (size_t)arch->experts.count)
                   + (uint64_t)arch->experts.used * mlp_weights(native, &layer->experts[0]);
    return weights + (layer->shared_scale ? hidden : 0);
}

static uint64_t output_weights(const pc__native *native)
{
    const pc__arch *arch = &native->arch;
    size_t hidden = (size_t)arch->hidden, narrow = (size_t)arch->embedding_dim;
    uint64_t weights = 0;
    if (native->head)
        weights += weights_of(narrow, (size_t)arch->vocab);
    if (native->project_out)
        weights += weights_of(hidden, narrow);
    if (native->encoder.pool)
        weights += weights_of(hidden, hidden);
    return weights + (native->encoder.classifier ? weights_of(hidden, native->encoder.classes) : 0);
}

static uint64_t beside_weights(const pc__native *native)
{
    size_t hidden = (size_t)native->arch.hidden;
    uint64_t weights = native->project_in ? weights_of((size_t)native->arch.embedding_dim, hidden)
                                          : 0;
    return weights
           + (native->encoder.conv
                  ? weights_of(hidden, hidden) * (uint64_t)native->arch.encoder.conv
                  : 0);
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
