/* A small native model with random weights, for tests of the code around a model. */
#ifndef PC_RANDOM_MODEL_H
#define PC_RANDOM_MODEL_H

#include <string.h>

#include "model/forward/native_ops.h"
#include "model/load/random_weights.h"

enum { RANDOM_LAYERS = 3, RANDOM_VOCAB = 97 };

typedef struct random_model {
    uint32_t scheme; /* PC_POSITION_… */
    uint32_t compute, kv;
    int32_t head_dim, context_length;
} random_model;

/* Of any shape. */
static inline pc_status random_model_of(pc_model **out, pc_context *context, const pc__arch *arch,
                                        uint32_t compute, uint32_t kv)
{
    pc__arch bound = *arch;
    pc__random_weights weights;
    pc__weight_provider provider;
    pc__bind_options options = {.compute = compute, .kv = kv};
    pc_status status = pc__model_new(out, context);
    if (status < 0)
        return status;
    pc__random_weights_provider(&weights, arch, 42, &provider);
    status = pc__native_bind(&(*out)->native, context, &bound, &provider, &options);
    if (status < 0) {
        pc__model_unref(*out);
        *out = NULL;
        return status;
    }
    (*out)->ops = pc__native_ops;
    (*out)->user = *out;
    (*out)->info.layers = arch->layers;
    (*out)->info.heads = arch->heads;
    (*out)->info.hidden = arch->hidden;
    (*out)->info.vocab = arch->vocab;
    (*out)->info.bidirectional = !arch->causal;
    (*out)->info.position_scheme = arch->position_scheme;
    (*out)->info.relocatable = arch->position_scheme != PC_POSITION_LEARNED;
    strcpy((*out)->info.architecture, "test");
    memset((*out)->info.fingerprint, 0x5a, 32);
    return PC_OK;
}

/* A decoder with RoPE and few heads. */
static inline pc__arch random_arch(int32_t layers, int32_t head_dim)
{
    return (pc__arch){.name = "test",
                      .layers = layers,
                      .heads = 4,
                      .kv_heads = 2,
                      .head_dim = head_dim,
                      .v_dim = head_dim,
                      .hidden = 4 * head_dim,
                      .ffn = 96,
                      .vocab = RANDOM_VOCAB,
                      .context_length = 4096,
                      .norm = PC__NORM_RMS,
                      .norm_eps = 1e-6f,
                      .position_scheme = PC_POSITION_ROPE,
                      .activation = PC__ACT_SILU,
                      .gated = 1,
                      .final_norm = 1,
                      .embedding_dim = 4 * head_dim,
                      .causal = 1,
                      .rope = {.theta = 10000, .dims = head_dim}};
}

static inline pc_status random_model_new(pc_model **out, pc_context *context, const random_model *m)
{
    pc__arch arch = random_arch(RANDOM_LAYERS, m->head_dim);
    arch.context_length = m->context_length;
    arch.position_scheme = m->scheme;
    return random_model_of(out, context, &arch, m->compute, m->kv);
}

#endif
