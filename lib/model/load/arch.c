/* pc__arch: layers with experts, widths, and the checks that all readers share. */
#include "model/load/arch.h"

#include <math.h>
#include <string.h>

void pc__arch_clear(const pc_allocator *mem, pc__arch *arch)
{
    pc__free(mem, arch->rope.short_factors);
    pc__free(mem, arch->rope.long_factors);
    memset(arch, 0, sizeof *arch);
}

int pc__has_experts(const pc__arch *arch, int32_t layer)
{
    return arch->experts.count && arch->expert_layers[layer / 64] >> (layer % 64) & 1;
}

void pc__set_experts(pc__arch *arch, int32_t layer)
{
    arch->expert_layers[layer / 64] |= UINT64_C(1) << (layer % 64);
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
                   {"the clip of queries, keys and values", arch->qkv_clip}};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (!isfinite(numbers[i].value))
            return pc__fail(PC_ERR_FORMAT, "%s: %s is %g", where, numbers[i].name,
                            (double)numbers[i].value);
    return PC_OK;
}

pc_status pc__arch_check(const pc__arch *arch, const char *where)
{
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
    if (arch->position_scheme == PC_POSITION_LEARNED && arch->context_length < 1)
        return pc__fail(PC_ERR_FORMAT, "%s: learned positions need a context length", where);
    return PC_OK;
}
