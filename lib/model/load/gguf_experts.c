/* Experts of a GGUF file: number, width, layers, and how their weights are normalised. */
#include <stdio.h>
#include <string.h>

#include "model/load/gguf_internal.h"

/* How the weights of the chosen experts are scaled. */
static pc_status read_expert_weights(const pc__meta *s, pc__expert_config *experts)
{
    char key[PC__META_KEY];
    uint64_t renormalise = (uint64_t)experts->renormalise;
    double gating = 1, scale = 0;
    int32_t groups;
    PC__TRY_RETURN(pc__meta_number(s, "expert_gating_func", &gating));
    PC__TRY_RETURN(pc__meta_size(s, "expert_group_count", 0, &groups));
    if (gating != 1 || groups > 1)
        return pc__fail(
            PC_ERR_UNSUPPORTED, "%s: key '%s': %g is not implemented", s->path,
            pc__meta_key(s, groups > 1 ? "expert_group_count" : "expert_gating_func", key),
            groups > 1 ? (double)groups : gating);
    if (pc__gguf_u64(s->gguf, pc__meta_key(s, "expert_weights_norm", key), &renormalise)
        && experts->renormalise && !renormalise)
        return pc__fail(PC_ERR_UNSUPPORTED, "%s: key '%s': false is not implemented for '%s'",
                        s->path, key, s->architecture);
    experts->renormalise = renormalise != 0;
    PC__TRY_RETURN(pc__meta_number(s, "expert_weights_scale", &scale));
    experts->scale = scale == 1 ? 0 : (float)scale;
    return PC_OK;
}

static pc_status read_expert_sizes(const pc__meta *s, pc__arch *arch)
{
    pc__expert_config *experts = &arch->experts;
    int qwen = !strcmp(s->architecture, "qwen2moe"), llama = !strcmp(s->architecture, "llama");
    int32_t shared;
    PC__TRY_RETURN(pc__meta_size(s, "expert_used_count", 1, &experts->used));
    PC__TRY_RETURN(
        pc__meta_size(s, "expert_feed_forward_length", !llama && !qwen, &experts->width));
    if (!experts->width)
        experts->width = llama || experts->used < 1 ? arch->ffn : arch->ffn / experts->used;
    PC__TRY_RETURN(pc__meta_size(s, "expert_shared_feed_forward_length", 0, &experts->shared));
    PC__TRY_RETURN(pc__meta_size(s, "expert_shared_count", 0, &shared));
    if (llama && (shared || experts->shared))
        return pc__fail(PC_ERR_UNSUPPORTED, "%s: a shared expert is not implemented for 'llama'",
                        s->path);
    if (qwen && !experts->shared)
        experts->shared = arch->ffn;
    else if (!qwen && (int64_t)shared * experts->width <= INT32_MAX)
        experts->shared = shared * experts->width;
    experts->shared_gated = qwen;
    experts->renormalise = llama;
    return PC_OK;
}

/* Layers with a router have experts; a key, if present, must agree. */
static pc_status read_expert_layers(const pc__meta *s, pc__arch *arch)
{
    char key[PC__META_KEY];
    uint64_t dense;
    int is_given = pc__gguf_u64(s->gguf, pc__meta_key(s, "leading_dense_block_count", key), &dense);
    for (int32_t l = 0; l < arch->layers && l < PC__MAX_LAYERS; l++) {
        char name[64];
        snprintf(name, sizeof name, "blk.%d.ffn_gate_inp.weight", l);
        int has = pc__weights_find(s->weights, name) != NULL;
        if (is_given && has != ((uint64_t)l >= dense))
            return pc__fail(PC_ERR_FORMAT, "%s: key '%s' is %llu, but there is %s tensor '%s'",
                            s->path, key, (unsigned long long)dense, has ? "a" : "no", name);
        if (has)
            pc__set_experts(arch, l);
    }
    return PC_OK;
}

pc_status pc__gguf_experts(const pc__meta *s, const char *name, pc__arch *arch)
{
    char key[PC__META_KEY];
    PC__TRY_RETURN(pc__meta_size(s, "expert_count", 0, &arch->experts.count));
    if (!arch->experts.count)
        return PC_OK;
    if (!name)
        return pc__fail(PC_ERR_UNSUPPORTED, "%s: key '%s': %d is not implemented", s->path,
                        pc__meta_key(s, "expert_count", key), arch->experts.count);
    strcpy(arch->name, name);
    PC__TRY_RETURN(read_expert_sizes(s, arch));
    PC__TRY_RETURN(read_expert_weights(s, &arch->experts));
    return read_expert_layers(s, arch);
}
