/* Computes the keys of a run whose maps were given, from its attention's inputs
 * (pc__complete_keys). */
#include <string.h>

#include "model/forward/forward.h"
#include "model/forward/native.h"
#include "model/load/positions.h"

typedef struct key_completion {
    const pc__native *native;
    pc__kv *run;
    const pc__rope *rope;
    pc__rope *own_rope;
    float *k; /* [tokens][kv_heads][k_dim] */
    pc__kv **runs;
    size_t *slots;
    int64_t *rope_positions;
} key_completion;

static pc_status reserve_keys(key_completion *c)
{
    const pc__native *native = c->native;
    const pc_allocator *mem = &native->context->mem;
    size_t tokens = c->run->tokens,
           width = (size_t)native->shape.kv_heads * (size_t)native->shape.k_dim;
    c->k = native->backend->allocate(native->context, tokens * width);
    c->runs = pc__calloc(mem, tokens, sizeof(*c->runs));
    c->slots = pc__calloc(mem, tokens, sizeof *c->slots);
    c->rope_positions = pc__calloc(mem, tokens, sizeof *c->rope_positions);
    if (!c->k || !c->runs || !c->slots || !c->rope_positions)
        return PC_ERR_NOMEM;
    for (size_t t = 0; t < tokens; t++) {
        c->runs[t] = c->run;
        c->slots[t] = t;
        c->rope_positions[t] = pc__kv_relative(c->run, t);
    }
    return PC_OK;
}

static pc_status layer_keys(const key_completion *c, int32_t layer, const float *input)
{
    const pc__native *native = c->native;
    size_t tokens = c->run->tokens, heads = (size_t)native->shape.kv_heads,
           dim = (size_t)native->shape.k_dim;
    float limit = native->arch.qkv_clip;
    PC__TRY_RETURN(native->backend->linear_run(native->layers[layer].k, input, tokens, c->k));
    for (size_t i = 0; limit > 0 && i < tokens * heads * dim; i++)
        c->k[i] = c->k[i] > limit ? limit : c->k[i] < -limit ? -limit : c->k[i];
    if (c->rope)
        native->backend->rotate(native->context, c->rope, c->rope_positions, tokens, heads, dim,
                                heads * dim, c->k);
    native->backend->store_kv(native->context, c->runs, c->slots, layer, tokens, c->k, heads * dim,
                              NULL, 0);
    return PC_OK;
}

pc_status pc__complete_keys(const pc_model *model, pc__kv *run, const float *inputs,
                            const uint8_t *missing)
{
    key_completion c = {.native = model->native, .run = run};
    const pc_allocator *mem = &model->context->mem;
    size_t each = run->tokens * (size_t)c.native->arch.hidden;
    pc_status status = PC_OK;
    if (!run->values_only || !run->tokens)
        return PC_OK;
    PC__TRY(reserve_keys(&c), done);
    PC__TRY(pc__native_rope(c.native, run->regime, &c.rope, &c.own_rope), done);
    for (int32_t l = 0; l < c.native->arch.layers; l++)
        if (!missing || missing[l])
            PC__TRY(layer_keys(&c, l, inputs + (size_t)l * each), done);
    run->values_only = 0;
done:
    pc__free(mem, c.runs);
    pc__free(mem, c.slots);
    pc__free(mem, c.rope_positions);
    if (c.k)
        c.native->backend->release(c.native->context, c.k);
    pc__rope_free(mem, c.own_rope);
    return status;
}
