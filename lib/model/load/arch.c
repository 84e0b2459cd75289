/* pc__arch: layers with experts, widths, and the checks that all readers share. */
#include "model/load/arch.h"

#include <math.h>
#include <string.h>

#include "model/load/tensor_role.h"

void pc__arch_clear(const pc_allocator *mem, pc__arch *arch)
{
    pc__free(mem, arch->rope.short_factors);
    pc__free(mem, arch->rope.long_factors);
    memset(arch, 0, sizeof *arch);
}

int pc__has_experts(const pc__arch *arch, int32_t layer)
{
    return arch->experts.count && pc__layer_in(&arch->expert_layers, layer);
}

int pc__head_has_bias(const pc__arch *arch)
{
    return (int)(arch->bias_roles >> PC__ROLE_HEAD & 1);
}

void pc__window_from(pc__arch *arch, int32_t first)
{
    for (int32_t l = first; arch->window && l < arch->layers && l < PC__MAX_LAYERS; l++)
        pc__layer_add(&arch->windowed, l);
}

const char *pc__absolute_reason(const pc__arch *arch)
{
    if (arch->position_scheme == PC_POSITION_LEARNED)
        return "has learned positions: the states of a token depend on where it stands";
    if (arch->chunk)
        return "attends within chunks of positions: the states depend on where a chunk begins";
    if (arch->query_scale.scale != 0)
        return "scales its queries by their positions: the states depend on where a token stands";
    return NULL;
}

const char *pc__fixed_reason(const pc__arch *arch)
{
    return arch->causal ? pc__absolute_reason(arch)
                        : "is an encoder: every token sees the whole text";
}

int32_t pc__mlp_width(const pc__arch *arch, int32_t layer)
{
    return pc__has_experts(arch, layer) ? arch->experts.shared : arch->ffn;
}

/* Above any model; the product of two does not overflow. */
enum { MAX_WIDTH = 1 << 24, MAX_EXPERTS = 1 << 16 };

static pc_status check_arch_sizes(const pc__arch *arch, const char *where)
{
    const struct {
        const char *name;
        int64_t value, most;
    } sizes[] = {{"layers", arch->layers, PC__MAX_LAYERS},
                 {"heads", arch->heads, MAX_WIDTH},
                 {"K/V heads", arch->kv_heads, MAX_WIDTH},
                 {"head_dim", arch->head_dim, PC__MAX_HEAD},
                 {"width", arch->hidden, MAX_WIDTH},
                 {"MLP width", arch->ffn, MAX_WIDTH},
                 {"vocabulary", arch->vocab, INT32_MAX},
                 {"embedding width", arch->embedding_dim, MAX_WIDTH},
                 {"query width", (int64_t)arch->heads * arch->head_dim, MAX_WIDTH}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        if (sizes[i].value < 1 || sizes[i].value > sizes[i].most)
            return pc__fail(PC_ERR_FORMAT, "%s: %s: %lld is outside 1 to %lld", where,
                            sizes[i].name, (long long)sizes[i].value, (long long)sizes[i].most);
    if (arch->heads % arch->kv_heads)
        return pc__fail(PC_ERR_FORMAT, "%s: %d heads are not a multiple of %d K/V heads", where,
                        arch->heads, arch->kv_heads);
    return PC_OK;
}

static pc_status check_groups(const pc__expert_config *experts, const char *where)
{
    if (experts->groups >= 0
        && (!experts->groups
            || (experts->count % experts->groups == 0 && experts->groups_used >= 1
                && experts->groups_used <= experts->groups && experts->group_best >= 1
                && experts->used <= experts->groups_used * (experts->count / experts->groups))))
        return PC_OK;
    return pc__fail(PC_ERR_FORMAT, "%s: %d of %d experts cannot be chosen from %d of %d groups",
                    where, experts->used, experts->count, experts->groups_used, experts->groups);
}

static pc_status check_experts(const pc__arch *arch, const char *where)
{
    const pc__expert_config *experts = &arch->experts;
    if (experts->count < 0 || experts->count > MAX_EXPERTS)
        return pc__fail(PC_ERR_FORMAT, "%s: %d experts are outside 0 to %d", where, experts->count,
                        MAX_EXPERTS);
    if (!experts->count)
        return PC_OK;
    if (experts->used < 1 || experts->used > experts->count)
        return pc__fail(PC_ERR_FORMAT, "%s: %d of %d experts are used", where, experts->used,
                        experts->count);
    if (experts->width < 1 || experts->width > MAX_WIDTH || experts->shared < 0
        || experts->shared > MAX_WIDTH)
        return pc__fail(PC_ERR_FORMAT,
                        "%s: experts of width %d and a shared one of width %d are not possible",
                        where, experts->width, experts->shared);
    PC__TRY_RETURN(check_groups(experts, where));
    if (!(experts->scale >= 0) || experts->scale > 1e6f)
        return pc__fail(PC_ERR_FORMAT, "%s: the experts' weights have the factor %g", where,
                        (double)experts->scale);
    return PC_OK;
}

/* A number that is finite in fp64 may be infinite in fp32. */
static pc_status check_finite_numbers(const pc__arch *arch, const char *where)
{
    const struct {
        const char *name;
        float value;
    } numbers[] = {{"the largest ALiBi exponent", arch->alibi_max},
                   {"the scale of attention", arch->attention_scale},
                   {"the cap of attention", arch->attention_cap},
                   {"the cap of logits", arch->logit_cap},
                   {"the scale of embeddings", arch->embedding_scale},
                   {"the scale of logits", arch->logit_scale},
                   {"the scale of residuals", arch->residual_scale},
                   {"the clip of queries, keys and values", arch->qkv_clip},
                   {"the factor of the clamped gate", arch->gate_alpha},
                   {"the limit of the clamped gate", arch->gate_limit},
                   {"the scale of queries", (float)arch->query_scale.scale},
                   {"the step of the scale of queries", (float)arch->query_scale.step}};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (!isfinite(numbers[i].value))
            return pc__fail(PC_ERR_FORMAT, "%s: %s is %g", where, numbers[i].name,
                            (double)numbers[i].value);
    return PC_OK;
}

static pc_status check_latent(const pc__arch *arch, const char *where)
{
    const pc__latent_config *l = &arch->latent;
    const struct {
        const char *name;
        int64_t value, least, most;
    } sizes[] = {{"the rank of queries", l->q_rank, 0, MAX_WIDTH},
                 {"the plain part of a head", l->plain, 1, PC__MAX_HEAD},
                 {"the rotated part of a head", l->rotated, 2, PC__MAX_HEAD},
                 {"latent and rotated part", (int64_t)l->rank + l->rotated, 1, PC__MAX_HEAD},
                 {"the value of a head", arch->v_dim, 1, PC__MAX_HEAD}};
    for (size_t i = 0; l->rank && i < sizeof sizes / sizeof *sizes; i++)
        if (sizes[i].value < sizes[i].least || sizes[i].value > sizes[i].most)
            return pc__fail(PC_ERR_FORMAT, "%s: latent attention: %s: %lld is outside %lld to %lld",
                            where, sizes[i].name, (long long)sizes[i].value,
                            (long long)sizes[i].least, (long long)sizes[i].most);
    return PC_OK;
}

pc_status pc__arch_check(const pc__arch *arch, const char *where)
{
    PC__TRY_RETURN(check_latent(arch, where));
    PC__TRY_RETURN(check_arch_sizes(arch, where));
    PC__TRY_RETURN(check_finite_numbers(arch, where));
    PC__TRY_RETURN(check_experts(arch, where));
    if (!(arch->norm_eps >= 0) || arch->norm_eps > 1)
        return pc__fail(PC_ERR_FORMAT, "%s: the norms' epsilon is %g", where,
                        (double)arch->norm_eps);
    if (arch->position_scheme == PC_POSITION_ROPE
        && (arch->rope.dims < 2 || arch->rope.dims % 2 || arch->rope.dims > arch->head_dim
            || !(arch->rope.theta > 1)))
        return pc__fail(PC_ERR_FORMAT,
                        "%s: RoPE with base %g on %d of %d dimensions is not possible", where,
                        arch->rope.theta, arch->rope.dims, arch->head_dim);
    if (arch->window < 0 || arch->chunk < 0)
        return pc__fail(PC_ERR_FORMAT, "%s: a window of %d or chunks of %d are below zero", where,
                        arch->window, arch->chunk);
    if (arch->query_scale.scale != 0 && !(arch->query_scale.step > 0))
        return pc__fail(PC_ERR_FORMAT, "%s: the step of the scale of queries is %g", where,
                        arch->query_scale.step);
    if (arch->position_scheme == PC_POSITION_LEARNED && arch->context_length < 1)
        return pc__fail(PC_ERR_FORMAT, "%s: learned positions need a context length", where);
    return PC_OK;
}
