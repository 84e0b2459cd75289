/* What loading a file and making a shape share: options, fingerprint, pc_model_info, operations. */
#include <string.h>

#include "base/options.h"
#include "model/load/load.h"
#include "model/forward/native.h"

uint32_t pc__choose_compute(const pc_context *context, uint32_t asked, uint32_t weights)
{
    const pc__backend *backend = pc__backend_of(context);
    return asked == PC_DTYPE_F32 || asked == PC_DTYPE_BF16
               ? asked
               : backend->ops->default_compute(backend, weights);
}

pc_status pc__load_options(pc_model_options *out, const pc_model_options *options)
{
    PC__TRY_RETURN(pc__options_read(out, sizeof *out, PC__V1_SIZE(pc_model_options, packed_weights),
                                    options, "pc_model_options"));
    PC__TRY_RETURN(pc__check_kv_dtype("pc_model_options", "kv", out->kv));
    PC__TRY_RETURN(pc__check_enum("pc_model_options", "compute", out->compute, PC_DTYPE_I16));
    PC__TRY_RETURN(pc__check_flags("pc_model_options", out->flags, PC_MODEL_VOCAB_ONLY));
    if (out->compute != PC_DTYPE_DEFAULT && out->compute != PC_DTYPE_F32
        && out->compute != PC_DTYPE_BF16 && out->compute != PC_DTYPE_I8
        && out->compute != PC_DTYPE_I16)
        return pc__fail(PC_ERR_UNSUPPORTED,
                        "pc_model_options: compute is %u, which is not F32, BF16, I8 or I16",
                        out->compute);
    if (out->packed_weights && !*out->packed_weights)
        return pc__fail(PC_ERR_INVALID,
                        "pc_model_options: packed_weights is empty: a path is needed");
    return PC_OK;
}

static void add_double(pc__digest *digest, double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    pc__digest_u64(digest, bits);
}

static void add_rope(pc__digest *digest, const pc__rope_config *rope)
{
    const double values[] = {rope->theta,      rope->factor,          rope->original_length,
                             rope->max_length, rope->low_freq_factor, rope->high_freq_factor,
                             rope->beta_fast,  rope->beta_slow,       rope->attention_factor,
                             rope->mscale,     rope->mscale_all_dim};
    pc__digest_u64(digest, (uint64_t)rope->scaling);
    pc__digest_u64(digest, (uint64_t)rope->dims);
    pc__digest_u64(digest, (uint64_t)rope->interleaved);
    pc__digest_u64(digest, (uint64_t)rope->truncate);
    for (size_t i = 0; i < sizeof values / sizeof *values; i++)
        add_double(digest, values[i]);
    for (int32_t i = 0; rope->short_factors && i < rope->dims / 2; i++)
        add_double(digest, rope->short_factors[i]);
    for (int32_t i = 0; rope->long_factors && i < rope->dims / 2; i++)
        add_double(digest, rope->long_factors[i]);
}

static void add_encoder(pc__digest *digest, const pc__encoder_config *encoder)
{
    /* clang-format off */
    const int32_t integers[] = {
        encoder->types, (int32_t)encoder->pool, encoder->relative, encoder->farthest,
        encoder->buckets, encoder->relative_norm, encoder->shared, encoder->c2p, encoder->p2c,
        encoder->conv, (int32_t)encoder->conv_activation};
    /* clang-format on */
    pc__digest_text(digest, "encoder");
    pc__digest_i32(digest, integers, sizeof integers / sizeof *integers);
}

static void add_layers(pc__digest *digest, const pc__layer_set *layers)
{
    for (size_t i = 0; i < PC__MAX_LAYERS / 64; i++)
        pc__digest_u64(digest, layers->word[i]);
}

static void add_experts(pc__digest *digest, const pc__arch *arch)
{
    const pc__expert_config *experts = &arch->experts;
    /* clang-format off */
    const int32_t integers[] = {
        experts->count, experts->used, experts->width, experts->shared, experts->shared_gated,
        experts->renormalise};
    /* clang-format on */
    const int32_t groups[] = {experts->groups, experts->groups_used, experts->group_best};
    pc__digest_text(digest, "experts");
    pc__digest_i32(digest, integers, sizeof integers / sizeof *integers);
    add_double(digest, (double)experts->scale);
    add_layers(digest, &arch->expert_layers);
    if (experts->groups)
        pc__digest_i32(digest, groups, sizeof groups / sizeof *groups);
}

/* What layers differ in, and what attention has beside them. */
static void add_attention(pc__digest *digest, const pc__arch *arch)
{
    const pc__latent_config *latent = &arch->latent;
    /* clang-format off */
    const int32_t integers[] = {
        arch->window, arch->chunk, arch->sinks, (int32_t)arch->qk_norm, latent->rank,
        latent->q_rank, latent->plain, latent->rotated, arch->query_scale.offset,
        arch->query_scale.unrotated_only};
    /* clang-format on */
    pc__digest_text(digest, "attention");
    pc__digest_i32(digest, integers, sizeof integers / sizeof *integers);
    add_double(digest, (double)latent->norm_eps);
    add_double(digest, arch->query_scale.scale);
    add_double(digest, arch->query_scale.step);
    add_layers(digest, &arch->windowed);
    add_layers(digest, &arch->chunked);
    add_layers(digest, &arch->unrotated);
    if (arch->local_rope.dims)
        add_rope(digest, &arch->local_rope);
    if (arch->scale_by_layer)
        pc__digest_text(digest, "scores by layer");
    if (arch->qk_eps > 0)
        add_double(digest, (double)arch->qk_eps);
    if (arch->plain_norms)
        pc__digest_text(digest, "plain norms");
}

pc__id pc__model_fingerprint(const pc__arch *arch, pc__id weights)
{
    /* clang-format off */
    const int32_t integers[] = {
        arch->layers, arch->heads, arch->kv_heads, arch->head_dim, arch->v_dim, arch->hidden,
        arch->ffn, arch->vocab, (int32_t)arch->norm, (int32_t)arch->residual,
        (int32_t)arch->position_scheme, arch->position_offset, arch->alibi_before_scale,
        arch->alibi_mpt, (int32_t)arch->activation, arch->gated, arch->no_input_norms,
        arch->output_norms, arch->embedding_norm, arch->embedding_dim, arch->causal};
    /* clang-format on */
    const float floats[] = {arch->norm_eps,        arch->gain_offset,   arch->alibi_max,
                            arch->attention_scale, arch->attention_cap, arch->embedding_scale,
                            arch->residual_scale,  arch->qkv_clip,      arch->gate_alpha,
                            arch->gate_limit};
    pc__digest digest;
    pc__digest_start(&digest, "model/2");
    pc__digest_bytes(&digest, weights.bytes, sizeof weights.bytes);
    pc__digest_text(&digest, arch->name);
    pc__digest_i32(&digest, integers, sizeof integers / sizeof *integers);
    for (size_t i = 0; i < sizeof floats / sizeof *floats; i++)
        add_double(&digest, (double)floats[i]);
    add_attention(&digest, arch);
    if (arch->position_scheme == PC_POSITION_ROPE)
        add_rope(&digest, &arch->rope);
    if (arch->experts.count)
        add_experts(&digest, arch);
    if (!arch->causal)
        add_encoder(&digest, &arch->encoder);
    return pc__digest_end(&digest);
}

static void arch_info(pc_model_info *info, const pc__arch *arch)
{
    memcpy(info->architecture, arch->name, sizeof info->architecture);
    info->architecture[sizeof info->architecture - 1] = 0;
    info->layers = arch->layers;
    info->heads = arch->heads;
    info->kv_heads = arch->kv_heads;
    info->head_dim = arch->head_dim;
    info->hidden = arch->hidden;
    info->vocab = arch->vocab;
    info->context_length = arch->context_length;
    info->position_scheme = arch->position_scheme;
    info->relocatable = !pc__fixed_reason(arch);
    info->token_bos = arch->token_bos;
    info->token_eos = arch->token_eos;
    info->token_unk = arch->token_unk;
    info->token_pad = arch->token_pad;
}

/* The tokenizer's ids override those of the config, which often repeats defaults. */
static void token_info(pc_model_info *info, const pc__tokenizer *tokenizer)
{
    pc__special_ids special = pc__tokenizer_ids(tokenizer);
    int32_t ids[4] = {special.bos, special.eos, special.unk, special.pad};
    int32_t *to[4] = {&info->token_bos, &info->token_eos, &info->token_unk, &info->token_pad};
    for (int i = 0; i < 4; i++)
        if (ids[i] >= 0)
            *to[i] = ids[i];
    if (!info->vocab)
        info->vocab = (int32_t)pc__tokenizer_count(tokenizer);
}

uint64_t pc__native_kv_bytes(const pc__native *native, uint32_t dtype)
{
    pc__kv_shape shape = native->shape;
    uint64_t heads = (uint64_t)shape.layers * (uint64_t)shape.kv_heads;
    shape.dtype = dtype;
    if (dtype == PC_DTYPE_I8)
        return (heads * pc__kv_page_bytes(&shape) + PC__PAGE - 1) / PC__PAGE;
    return heads * (uint64_t)(shape.k_dim + (shape.latent ? 0 : shape.v_dim))
           * (dtype == PC_DTYPE_F32 ? 4 : 2);
}

void pc__native_info(pc_model_info *info, const pc__native *native)
{
    info->compute = native->compute;
    info->bidirectional = !native->arch.causal;
    info->classes = (uint32_t)native->encoder.classes;
    info->weight_bytes = pc__native_weight_bytes(native);
    pc__native_costs(native, info);
    info->kv_bytes_per_token = pc__native_kv_bytes(native, native->segment_dtype);
}

pc_status pc__model_finish(pc_model *model, const pc__arch *arch, const pc__id *fingerprint,
                           const char *chat_template)
{
    const pc_allocator *mem = &model->context->mem;
    pc_model_info *info = &model->info;
    info->struct_size = sizeof *info;
    info->token_bos = info->token_eos = info->token_unk = info->token_pad = -1;
    memcpy(info->fingerprint, fingerprint->bytes, sizeof info->fingerprint);
    if (arch)
        arch_info(info, arch);
    if (model->tokenizer) {
        token_info(info, model->tokenizer);
        model->tokenizer_id = pc__tokenizer_digest(model->tokenizer);
    }
    model->user = model;
    model->can_compute = model->native != NULL;
    model->ops.struct_size = sizeof model->ops;
    model->ops.describe = pc__native_ops.describe;
    if (model->native) {
        pc__native_info(info, model->native);
        model->ops = pc__native_ops;
    }
    if (chat_template)
        return pc__chat_find(&model->chat, mem, model->tokenizer, NULL, chat_template);
    return pc__chat_detect(&model->chat, mem, model->tokenizer);
}
