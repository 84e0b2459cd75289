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
    for (int32_t l = first; arch->window && l < arch->layers; l++)
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

/* Readers have checked what they read; these are the numbers that may come of others. */
static pc_status check_arch_sizes(const pc__arch *arch, const char *where)
{
    const struct {
        const char *name;
        pc__count kind;
        int64_t value;
    } sizes[] = {{"layers", PC__COUNT_LAYERS, arch->layers},
                 {"heads", PC__COUNT_HEADS, arch->heads},
                 {"K/V heads", PC__COUNT_HEADS, arch->kv_heads},
                 {"head_dim", PC__COUNT_HEAD_DIM, arch->head_dim},
                 {"width", PC__COUNT_WIDTH, arch->hidden},
                 {"MLP width", PC__COUNT_WIDTH, arch->ffn},
                 {"vocabulary", PC__COUNT_VOCABULARY, arch->vocab},
                 {"embedding width", PC__COUNT_WIDTH, arch->embedding_dim},
                 {"query width", PC__COUNT_WIDTH, (int64_t)arch->heads * arch->head_dim}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        PC__TRY_RETURN(pc__count_check(sizes[i].kind, sizes[i].value, where, sizes[i].name));
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
    if (!experts->count)
        return PC_OK;
    if (experts->used < 1 || experts->used > experts->count)
        return pc__fail(PC_ERR_FORMAT, "%s: %d of %d experts are used", where, experts->used,
                        experts->count);
    PC__TRY_RETURN(pc__count_check(PC__COUNT_WIDTH, experts->width, where, "the experts' width"));
    PC__TRY_RETURN(check_groups(experts, where));
    if (!(experts->scale >= 0) || experts->scale > 1e6f)
        return pc__fail(PC_ERR_FORMAT, "%s: the experts' weights have the factor %g", where,
                        (double)experts->scale);
    return PC_OK;
}

static pc_status check_latent(const pc__arch *arch, const char *where)
{
    const pc__latent_config *l = &arch->latent;
    const struct {
        const char *name;
        int64_t value;
    } sizes[] = {{"the plain part of a head", l->plain},
                 {"latent and rotated part", (int64_t)l->rank + l->rotated},
                 {"the value of a head", arch->v_dim}};
    for (size_t i = 0; l->rank && i < sizeof sizes / sizeof *sizes; i++)
        PC__TRY_RETURN(pc__count_check(PC__COUNT_HEAD_DIM, sizes[i].value, where, sizes[i].name));
    return PC_OK;
}

pc_status pc__arch_check(const pc__arch *arch, const char *where)
{
    PC__TRY_RETURN(check_latent(arch, where));
    PC__TRY_RETURN(check_arch_sizes(arch, where));
    if (!isfinite(arch->attention_scale)) /* a product of several factors */
        return pc__fail(PC_ERR_FORMAT, "%s: the scale of attention is %g", where,
                        (double)arch->attention_scale);
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
    if (arch->query_scale.scale != 0 && !(arch->query_scale.step > 0))
        return pc__fail(PC_ERR_FORMAT, "%s: the step of the scale of queries is %g", where,
                        arch->query_scale.step);
    if (arch->position_scheme == PC_POSITION_LEARNED && arch->context_length < 1)
        return pc__fail(PC_ERR_FORMAT, "%s: learned positions need a context length", where);
    return PC_OK;
}
