/* The attention sublayer: projects queries, keys and values, rotates keys relative to their run and
 * stores them, attends by the plan, projects the result. Also computes the keys of runs whose maps
 * were given, afterwards. */
#include <string.h>

#include "model/forward/forward_maps.h"
#include "model/forward/disentangled_attention.h"

/* MPT's clip_qkv */
static void clip_values(float *x, size_t count, float limit)
{
    for (size_t i = 0; i < count; i++)
        x[i] = x[i] > limit ? limit : x[i] < -limit ? -limit : x[i];
}

pc_status pc__attention_project(pc__forward_work *work, int32_t layer, size_t first, size_t rows,
                                int values_only)
{
    const pc__native *native = work->native;
    const pc__native_layer *weights = &native->layers[layer];
    size_t q = (size_t)native->arch.heads * (size_t)native->shape.k_dim,
           k = (size_t)native->shape.kv_heads * (size_t)native->shape.k_dim,
           v = (size_t)native->shape.kv_heads * (size_t)native->shape.v_dim;
    const pc__linear *const all[] = {weights->v, weights->q, weights->k};
    float *const to[] = {work->v + first * v, work->q + first * q, work->k + first * k};
    const size_t width[] = {v, q, k};
    size_t count = values_only ? 1 : 3;
    PC__TRY_RETURN(native->backend->linear_run_all(
        all, count, work->h + first * (size_t)native->arch.hidden, rows, to));
    for (size_t i = 0; i < count && native->arch.qkv_clip > 0; i++)
        clip_values(to[i], rows * width[i], native->arch.qkv_clip);
    return PC_OK;
}

/* Rotates keys; writes keys and values into the runs. k, v: of row `first`, or NULL. */
static void store_rows(const pc__forward_work *work, int32_t layer, size_t first, size_t rows,
                       float *k, const float *v)
{
    const pc__native *native = work->native;
    const pc__kv_shape *shape = &native->shape;
    size_t heads = (size_t)shape->kv_heads, k_dim = (size_t)shape->k_dim;
    if (work->rope && k)
        native->backend->rotate(native->context, work->rope, work->rope_positions + first, rows,
                                heads, k_dim, heads * k_dim, k);
    native->backend->store_kv(native->context, work->runs + first, work->slots + first, layer, rows,
                              k, heads * k_dim, v, heads * (size_t)shape->v_dim);
}

void pc__attention_store(pc__forward_work *work, int32_t layer, size_t first, size_t rows,
                         int values_only)
{
    const pc__kv_shape *shape = &work->native->shape;
    size_t at = first * (size_t)shape->kv_heads;
    store_rows(work, layer, first, rows, values_only ? NULL : work->k + at * (size_t)shape->k_dim,
               work->v + at * (size_t)shape->v_dim);
}

static pc__attn_layer describe_layer(const pc__forward_work *work, int32_t layer)
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

pc_status pc__attention_keys(pc__forward_work *work, int32_t layer)
{
    PC__TRY_RETURN(pc__attention_project(work, layer, 0, work->rows, 0));
    PC__TRY_RETURN(pc__trace_keys(work, layer));
    pc__attention_store(work, layer, 0, work->rows, 0);
    return PC_OK;
}

/* Computes `attended` as the pass and the model ask for. */
static pc_status attend_layer(pc__forward_work *work, const pc__attn_layer *what)
{
    if (work->pass->maps)
        return pc__forward_maps_attend(work, what);
    PC__TRY_RETURN(pc__attention_keys(work, what->layer));
    if (work->pass->skips_attention) {
        memset(work->attended, 0,
               work->rows * (size_t)what->heads * (size_t)work->native->shape.v_dim
                   * sizeof *work->attended);
        return PC_OK;
    }
    if (work->native->encoder.relative)
        return pc__disentangled_attend(work, what->layer);
    PC__TRY_RETURN(
        work->native->backend->attend(work->plan, what, work->q, work->attended, work->lse));
    return pc__trace_maps(work, what);
}

pc_status pc__attention_sublayer(pc__forward_work *work, int32_t layer)
{
    const pc__native *native = work->native;
    pc__attn_layer what = describe_layer(work, layer);
    PC__TRY_RETURN(attend_layer(work, &what));
    return native->backend->linear_run(native->layers[layer].o, work->attended, work->rows,
                                       work->y);
}

static pc_status complete_layer(pc__forward_work *work, int32_t layer, const float *input)
{
    const pc__native *native = work->native;
    size_t width = (size_t)native->shape.kv_heads * (size_t)native->shape.k_dim;
    PC__TRY_RETURN(
        native->backend->linear_run(native->layers[layer].k, input, work->rows, work->k));
    if (native->arch.qkv_clip > 0)
        clip_values(work->k, work->rows * width, native->arch.qkv_clip);
    store_rows(work, layer, 0, work->rows, work->k, NULL);
    return PC_OK;
}

pc_status pc__complete_keys(const pc_model *model, pc__kv *run, const float *inputs,
                            const uint8_t *missing)
{
    const pc__native *native = model->native;
    pc__forward_work work = {.native = native, .rows = run->tokens, .capacity = run->tokens};
    size_t each = run->tokens * (size_t)native->arch.hidden;
    pc_status status;
    if (!run->values_only || !run->tokens)
        return PC_OK;
    PC__TRY(pc__reserve_work(&work, run->tokens * (size_t)native->shape.kv_heads
                                        * (size_t)native->shape.k_dim),
            done);
    work.k = work.slab;
    for (size_t t = 0; t < run->tokens; t++) {
        work.runs[t] = run;
        work.slots[t] = t;
        work.rope_positions[t] = pc__kv_relative(run, t);
    }
    PC__TRY(pc__native_rope(native, run->rope_regime, &work.rope, &work.own_rope), done);
    for (int32_t l = 0; l < native->arch.layers; l++)
        if (!missing || missing[l])
            PC__TRY(complete_layer(&work, l, inputs + (size_t)l * each), done);
    run->values_only = 0;
done:
    pc__release_work(&work);
    return status;
}
