/* Experts of a GGUF file: number, width, layers, and how their weights are normalised. */
#include <stdio.h>
#include <string.h>

#include "model/load/gguf_internal.h"

/* expert_gating_func of the format. */
enum { GATING_SOFTMAX = 1, GATING_SIGMOID = 2, GATING_SOFTMAX_OF_CHOSEN = 3 };

static pc_status refuse_number(const pc__meta *s, const char *name, double value)
{
    char key[PC__META_KEY];
    return pc__fail(PC_ERR_UNSUPPORTED, "%s: key '%s': %g is not implemented for '%s'", s->path,
                    pc__meta_key(s, name, key), value, s->architecture);
}

/* What scores are made of logits. A softmax of the chosen logits is that of all, divided by the sum
 * of the chosen ones. */
static pc_status read_gating(const pc__meta *s, const pc__gguf_family *f,
                             pc__expert_config *experts)
{
    int is_sigmoid = f->router == PC__GGUF_SIGMOID_INPUT;
    double gating = is_sigmoid ? GATING_SIGMOID : GATING_SOFTMAX;
    PC__TRY_RETURN(pc__meta_number(s, "expert_gating_func", &gating));
    experts->renormalise = f->router == PC__GGUF_RENORMALISED;
    experts->scales_input = is_sigmoid;
    experts->sigmoid = gating == GATING_SIGMOID;
    if (gating == GATING_SOFTMAX_OF_CHOSEN)
        experts->renormalise = 1;
    else if (gating != GATING_SIGMOID && gating != GATING_SOFTMAX)
        return refuse_number(s, "expert_gating_func", gating);
    if (is_sigmoid != experts->sigmoid && !(f->keys & PC__GGUF_LATENT))
        return refuse_number(s, "expert_gating_func", gating);
    return PC_OK;
}

/* Groups count by their best expert, or, of sigmoids, by their two best (DeepSeek V3). */
static pc_status read_groups(const pc__meta *s, const pc__gguf_family *f,
                             pc__expert_config *experts)
{
    PC__TRY_RETURN(pc__meta_size(s, "expert_group_count", PC__COUNT_EXPERTS, 0, &experts->groups));
    PC__TRY_RETURN(
        pc__meta_size(s, "expert_group_used_count", PC__COUNT_EXPERTS, 0, &experts->groups_used));
    if (experts->groups > 1 && !(f->keys & PC__GGUF_LATENT))
        return refuse_number(s, "expert_group_count", experts->groups);
    if (experts->groups > 1
        && (experts->groups_used < 1 || experts->groups_used > experts->groups
            || experts->count % experts->groups))
        return pc__fail(PC_ERR_FORMAT, "%s: %d of %d groups of %d experts are not possible",
                        s->path, experts->groups_used, experts->groups, experts->count);
    if (experts->groups < 2 || experts->groups_used == experts->groups)
        experts->groups = experts->groups_used = 0;
    experts->group_best = experts->groups ? 1 + experts->sigmoid : 0;
    return PC_OK;
}

/* How the weights of the chosen experts are scaled. */
static pc_status read_expert_weights(const pc__meta *s, pc__expert_config *experts)
{
    char key[PC__META_KEY];
    uint64_t renormalise = (uint64_t)experts->renormalise;
    double scale = 0;
    if (pc__gguf_u64(s->gguf, pc__meta_key(s, "expert_weights_norm", key), &renormalise)
        && experts->renormalise && !renormalise)
        return pc__fail(PC_ERR_UNSUPPORTED, "%s: key '%s': false is not implemented for '%s'",
                        s->path, key, s->architecture);
    experts->renormalise = renormalise != 0;
    PC__TRY_RETURN(pc__meta_number(s, "expert_weights_scale", &scale));
    experts->scale = scale == 1 ? 0 : (float)scale;
    return PC_OK;
}

/* Width of experts and of the shared one. The first key counts, then what families leave out. */
static pc_status read_expert_sizes(const pc__meta *s, pc__arch *arch)
{
    pc__expert_config *experts = &arch->experts;
    int qwen = !strcmp(s->architecture, "qwen2moe"), llama4 = !strcmp(s->architecture, "llama4");
    int dense = !strcmp(s->architecture, "llama") || !strcmp(s->architecture, "granitemoe");
    int by_used = qwen || !strcmp(s->architecture, "qwen3moe");
    int32_t shared;
    PC__TRY_RETURN(pc__meta_size(s, "expert_used_count", PC__COUNT_EXPERTS, 1, &experts->used));
    PC__TRY_RETURN(pc__meta_size(s, "expert_feed_forward_length", PC__COUNT_WIDTH,
                                 !dense && !by_used, &experts->width));
    if (!experts->width)
        experts->width = dense ? arch->ffn : arch->ffn / experts->used;
    PC__TRY_RETURN(pc__meta_size(s, "expert_shared_feed_forward_length", PC__COUNT_WIDTH, 0,
                                 &experts->shared));
    PC__TRY_RETURN(pc__meta_size(s, "expert_shared_count", PC__COUNT_FEW, 0, &shared));
    if (!strcmp(s->architecture, "llama") && (shared || experts->shared))
        return pc__fail(PC_ERR_UNSUPPORTED, "%s: a shared expert is not implemented for 'llama'",
                        s->path);
    if (qwen && !experts->shared)
        experts->shared = arch->ffn;
    else if (llama4)
        experts->shared = experts->width;
    else if (!experts->shared && shared) {
        PC__TRY_RETURN(pc__count_check(PC__COUNT_WIDTH, (int64_t)shared * experts->width, s->path,
                                       "the shared expert"));
        experts->shared = shared * experts->width;
    }
    experts->shared_gated = qwen;
    return PC_OK;
}

/* Layers with a router have experts; a key, if present, must agree. */
static pc_status read_expert_layers(const pc__meta *s, pc__arch *arch)
{
    char key[PC__META_KEY];
    uint64_t dense;
    int is_given = pc__gguf_u64(s->gguf, pc__meta_key(s, "leading_dense_block_count", key), &dense);
    for (int32_t l = 0; l < arch->layers; l++) {
        char name[64];
        snprintf(name, sizeof name, "blk.%d.ffn_gate_inp.weight", l);
        int has = pc__weights_find(s->weights, name) != NULL;
        if (is_given && has != ((uint64_t)l >= dense))
            return pc__fail(PC_ERR_FORMAT, "%s: key '%s' is %llu, but there is %s tensor '%s'",
                            s->path, key, (unsigned long long)dense, has ? "a" : "no", name);
        if (has)
            pc__layer_add(&arch->expert_layers, l);
    }
    return PC_OK;
}

/* The bias of the choice and those of experts' matrices: the file decides. */
static void find_expert_biases(const pc__meta *s, pc__arch *arch)
{
    for (int32_t l = 0; l < arch->layers; l++) {
        char name[64];
        if (!pc__layer_in(&arch->expert_layers, l))
            continue;
        snprintf(name, sizeof name, "blk.%d.exp_probs_b.bias", l);
        arch->experts.selection_bias |= pc__weights_find(s->weights, name) != NULL;
        snprintf(name, sizeof name, "blk.%d.ffn_up_exps.bias", l);
        arch->experts.biased |= pc__weights_find(s->weights, name) != NULL;
    }
}

pc_status pc__gguf_experts(const pc__meta *s, const pc__gguf_family *f, pc__arch *arch)
{
    char key[PC__META_KEY];
    PC__TRY_RETURN(pc__meta_size(s, "expert_count", PC__COUNT_EXPERTS, 0, &arch->experts.count));
    if (!arch->experts.count)
        return PC_OK;
    if (!f->router)
        return pc__fail(PC_ERR_UNSUPPORTED, "%s: key '%s': %d is not implemented", s->path,
                        pc__meta_key(s, "expert_count", key), arch->experts.count);
    if (f->experts)
        strcpy(arch->name, f->experts);
    PC__TRY_RETURN(read_expert_sizes(s, arch));
    PC__TRY_RETURN(read_gating(s, f, &arch->experts));
    PC__TRY_RETURN(read_groups(s, f, &arch->experts));
    PC__TRY_RETURN(read_expert_weights(s, &arch->experts));
    PC__TRY_RETURN(read_expert_layers(s, arch));
    find_expert_biases(s, arch);
    return PC_OK;
}
