/* The attention part of a layer: queries, keys and values; keys turned relative to their run and
 * stored; the plan gathers; the output projection. */
#include "model/relative_part.h"

/* MPT's clip_qkv. */
static void clip(float *x, size_t count, float limit)
{
    for (size_t i = 0; i < count; i++)
        x[i] = x[i] > limit ? limit : x[i] < -limit ? -limit : x[i];
}

static pc_status project(pc__work *work, const pc__native_layer *layer)
{
    const pc__native *native = work->native;
    const pc__kv_shape *shape = &native->shape;
    const pc__linear *const all[] = {layer->q, layer->k, layer->v};
    float *const to[] = {work->q, work->k, work->v};
    pc_status status = native->backend->linear_run_all(all, 3, work->h, work->rows, to);
    if (status >= 0 && native->arch.qkv_clip > 0) {
        clip(work->q, work->rows * (size_t)native->arch.heads * (size_t)shape->k_dim,
             native->arch.qkv_clip);
        clip(work->k, work->rows * (size_t)shape->kv_heads * (size_t)shape->k_dim,
             native->arch.qkv_clip);
        clip(work->v, work->rows * (size_t)shape->kv_heads * (size_t)shape->v_dim,
             native->arch.qkv_clip);
    }
    return status;
}

static void store(pc__work *work, int32_t layer)
{
    const pc__native *native = work->native;
    const pc__kv_shape *shape = &native->shape;
    size_t heads = (size_t)shape->kv_heads, k_dim = (size_t)shape->k_dim;
    if (work->rope)
        native->backend->rotate(native->context, work->rope, work->turns, work->rows, heads, k_dim,
                                heads * k_dim, work->k);
    native->backend->store_kv(native->context, work->runs, work->slots, layer, work->rows, work->k,
                              heads * k_dim, work->v, heads * (size_t)shape->v_dim);
}

static pc__attn_layer describe(const pc__work *work, int32_t layer)
{
    const pc__arch *arch = &work->native->arch;
    pc__attn_layer out = {0};
    out.layer = layer;
    out.heads = arch->heads;
    out.window = layer >= arch->window_from ? arch->window : 0;
    out.scale = work->native->scale;
    out.soft_cap = arch->attention_cap;
    out.slopes = work->native->slopes;
    out.rope = work->rope;
    return out;
}

pc_status pc__attention_keys(pc__work *work, int32_t layer)
{
    pc_status status = project(work, &work->native->layers[layer]);
    if (status >= 0)
        status = pc__trace_keys(work, layer);
    if (status >= 0)
        store(work, layer);
    return status;
}

pc_status pc__attention_part(pc__work *work, int32_t layer)
{
    const pc__native *native = work->native;
    pc__attn_layer what = describe(work, layer);
    pc_status status;
    PC__TRY(pc__attention_keys(work, layer), done);
    if (native->encoder.relative) {
        PC__TRY(pc__relative_attend(work, layer), done);
    } else {
        PC__TRY(native->backend->attend(work->plan, &what, work->q, work->seen, work->lse), done);
        PC__TRY(pc__trace_maps(work, &what), done);
    }
    status = native->backend->linear_run(native->layers[layer].o, work->seen, work->rows, work->y);
done:
    return status;
}
