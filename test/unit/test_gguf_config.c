/* Catches: GGUF metadata that is read wrongly, changes the result but is ignored, or is not
 * checked, for every architecture and RoPE scaling; leaks when memory runs out. */
#include "gguf_arch.h"

#include <math.h>

static void some_keys(gguf_bytes *g)
{
    gguf_u32(g, "llama.attention.head_count_kv", 2);
    gguf_f32(g, "llama.rope.freq_base", 500000.0f);
    gguf_u32(g, "llama.rope.dimension_count", 4);
    gguf_u32(g, "llama.attention.sliding_window", 20);
    gguf_u32(g, "tokenizer.ggml.bos_token_id", 1);
    gguf_u32(g, "tokenizer.ggml.eos_token_id", 1000);
}

static void output(gguf_bytes *g)
{
    gguf_tensor(g, "output.weight", 1, 100, 64, NULL, 12800);
}

static void llama(void)
{
    pc__arch a;
    if (parsed(&a, "llama", some_keys, output)) {
        CHECK_STR(a.name, "llama");
        CHECK(a.layers == 2 && a.heads == 8 && a.kv_heads == 2 && a.head_dim == 8 && a.v_dim == 8
              && a.hidden == 64 && a.ffn == 96);
        CHECK(a.vocab == 100 && a.context_length == 4096 && a.norm == PC__NORM_RMS
              && a.norm_eps == 1e-5f && a.gated && !a.tied);
        CHECK(a.rope.theta == 500000 && a.rope.dims == 4 && a.rope.interleaved
              && a.rope.scaling == PC__ROPE_PLAIN);
        CHECK(a.window == 20 && a.token_bos == 1 && a.token_eos == -1 && a.token_unk == -1
              && a.bias_by_file && a.causal);
    }
    if (parsed(&a, "llama", NULL, NULL))
        CHECK(a.tied && a.kv_heads == 8 && a.rope.theta == 10000 && a.rope.dims == 8
              && a.window == 0);
}

static void norm_2(gguf_bytes *g)
{
    gguf_tensor(g, "blk.0.attn_norm_2.weight", 0, 0, 64, NULL, 256);
}

static void mpt_keys(gguf_bytes *g)
{
    gguf_f32(g, "mpt.attention.max_alibi_bias", 16);
    gguf_f32(g, "mpt.attention.clamp_kqv", 6);
}

static void others(void)
{
    pc__arch a;
    if (parsed(&a, "qwen2", NULL, NULL))
        CHECK(!a.rope.interleaved && a.norm == PC__NORM_RMS);
    if (parsed(&a, "phi2", NULL, NULL))
        CHECK(a.residual == PC__RESIDUAL_PARALLEL && a.norm == PC__NORM_LAYER && a.norm_eps == 2e-5f
              && !a.gated);
    if (parsed(&a, "falcon", NULL, NULL))
        CHECK(a.residual == PC__RESIDUAL_PARALLEL && a.activation == PC__ACT_GELU);
    if (parsed(&a, "falcon", NULL, norm_2))
        CHECK(a.residual == PC__RESIDUAL_PARALLEL_2);
    if (parsed(&a, "mpt", mpt_keys, NULL))
        CHECK(a.position_scheme == PC_POSITION_ALIBI && a.alibi_max == 16 && a.qkv_clip == 6
              && a.alibi_mpt && !a.embedding_norm);
    if (parsed(&a, "bloom", NULL, NULL))
        CHECK(a.embedding_norm && a.alibi_max == 8 && !a.alibi_mpt
              && a.activation == PC__ACT_GELU_TANH);
    if (parsed(&a, "gpt2", NULL, NULL))
        CHECK(a.position_scheme == PC_POSITION_LEARNED && a.position_offset == 0);
    refused("mamba", NULL, NULL, PC_ERR_UNSUPPORTED, "'mamba'");
}

static void linear(gguf_bytes *g)
{
    gguf_text(g, "llama.rope.scaling.type", "linear");
    gguf_f32(g, "llama.rope.scaling.factor", 4);
}

static void old_linear(gguf_bytes *g)
{
    gguf_f32(g, "llama.rope.scale_linear", 2);
}

static void no_scaling(gguf_bytes *g)
{
    gguf_text(g, "llama.rope.scaling.type", "none");
    gguf_f32(g, "llama.rope.scaling.factor", 4);
}

static void yarn(gguf_bytes *g)
{
    gguf_text(g, "llama.rope.scaling.type", "yarn");
    gguf_f32(g, "llama.rope.scaling.factor", 4);
    gguf_u32(g, "llama.rope.scaling.original_context_length", 1024);
    gguf_f32(g, "llama.rope.scaling.attn_factor", 2);
}

static void log_yarn(gguf_bytes *g)
{
    yarn(g);
    gguf_f32(g, "llama.rope.scaling.yarn_log_multiplier", 0.1f);
}

static void given_yarn(gguf_bytes *g)
{
    yarn(g);
    gguf_f32(g, "llama.rope.scaling.yarn_attn_factor", 1.5f);
}

static void odd_scaling(gguf_bytes *g)
{
    gguf_text(g, "llama.rope.scaling.type", "odd");
}

static void factors(gguf_bytes *g)
{
    static const float f[4] = {1, 2, 4, 8};
    gguf_tensor(g, "rope_freqs.weight", 0, 0, 4, f, sizeof f);
}

static void bad_factors(gguf_bytes *g)
{
    static const float f[4] = {1, 2, 0, 8};
    gguf_tensor(g, "rope_freqs.weight", 0, 0, 4, f, sizeof f);
}

static void few_factors(gguf_bytes *g)
{
    gguf_tensor(g, "rope_freqs.weight", 0, 0, 3, NULL, 12);
}

static void long_keys(gguf_bytes *g)
{
    gguf_u32(g, "phi3.rope.scaling.original_context_length", 1024);
    gguf_f32(g, "phi3.rope.scaling.attn_factor", 1.5f);
}

static void long_factors(gguf_bytes *g)
{
    static const float low[4] = {1, 1, 1, 2}, high[4] = {3, 4, 5, 6};
    gguf_tensor(g, "rope_factors_long.weight", 0, 0, 4, high, sizeof high);
    gguf_tensor(g, "rope_factors_short.weight", 0, 0, 4, low, sizeof low);
}

static void half_long(gguf_bytes *g)
{
    gguf_tensor(g, "rope_factors_long.weight", 0, 0, 4, NULL, 16);
}

static void scalings(void)
{
    pc__arch a;
    if (parsed(&a, "llama", linear, NULL))
        CHECK(a.rope.scaling == PC__ROPE_LINEAR && a.rope.factor == 4 && a.context_length == 16384);
    if (parsed(&a, "llama", old_linear, NULL))
        CHECK(a.rope.scaling == PC__ROPE_LINEAR && a.rope.factor == 2 && a.context_length == 8192);
    if (parsed(&a, "llama", no_scaling, NULL))
        CHECK(a.rope.scaling == PC__ROPE_PLAIN);
    if (parsed(&a, "llama", yarn, NULL)) {
        CHECK(a.rope.scaling == PC__ROPE_YARN && a.rope.original_length == 1024
              && a.rope.beta_fast == 32 && a.rope.truncate && a.context_length == 4096);
        CHECK(fabs(a.rope.attention_factor - 2 * (1 + 0.1 * log(4))) < 1e-12);
    }
    if (parsed(&a, "llama", given_yarn, NULL))
        CHECK(a.rope.attention_factor == 3);
    if (parsed(&a, "llama", NULL, factors)) {
        CHECK(a.rope.scaling == PC__ROPE_FACTORS && a.rope.short_factors
              && a.rope.short_factors[3] == 8 && !a.rope.long_factors);
        pc__arch_clear(&pc__libc_allocator, &a);
    }
    if (parsed(&a, "phi3", long_keys, long_factors)) {
        CHECK(a.rope.scaling == PC__ROPE_LONG && a.rope.short_factors[3] == 2
              && a.rope.long_factors[0] == 3);
        CHECK(a.rope.attention_factor == 1.5 && a.rope.original_length == 1024);
        pc__arch_clear(&pc__libc_allocator, &a);
    }
    refused("llama", log_yarn, NULL, PC_ERR_UNSUPPORTED, "yarn_log_multiplier");
    refused("llama", odd_scaling, NULL, PC_ERR_UNSUPPORTED, "'odd'");
    refused("llama", linear, factors, PC_ERR_UNSUPPORTED, "incomplete");
    refused("llama", NULL, bad_factors, PC_ERR_FORMAT, "factor 2");
    refused("llama", NULL, few_factors, PC_ERR_FORMAT, "rope_freqs.weight");
    refused("phi3", long_keys, half_long, PC_ERR_UNSUPPORTED, "incomplete");
}

static void experts(gguf_bytes *g)
{
    gguf_u32(g, "llama.expert_count", 8);
}

static void router(gguf_bytes *g, int layer)
{
    char name[64];
    snprintf(name, sizeof name, "blk.%d.ffn_gate_inp.weight", layer);
    gguf_tensor(g, name, 0, 5, 64, NULL, 4 * 5 * 64);
}

static void both_routers(gguf_bytes *g)
{
    gguf_tensor(g, "blk.1.exp_probs_b.bias", 0, 0, 5, NULL, 20);
    router(g, 0);
    router(g, 1);
}

static void second_router(gguf_bytes *g)
{
    router(g, 1);
}

static void latent(gguf_bytes *g)
{
    gguf_u32(g, "deepseek2.attention.kv_lora_rank", 32);
    gguf_u32(g, "deepseek2.attention.q_lora_rank", 24);
    gguf_u32(g, "deepseek2.rope.dimension_count", 8);
    gguf_u32(g, "deepseek2.attention.head_count_kv", 1);
    gguf_u32(g, "deepseek2.attention.key_length", 40);
    gguf_u32(g, "deepseek2.attention.value_length", 32);
    gguf_text(g, "deepseek2.rope.scaling.type", "yarn");
    gguf_f32(g, "deepseek2.rope.scaling.factor", 40);
    gguf_f32(g, "deepseek2.rope.scaling.yarn_log_multiplier", 0.1f);
}

static void split_latent(gguf_bytes *g)
{
    latent(g);
    gguf_u32(g, "deepseek2.attention.key_length_mla", 24);
    gguf_u32(g, "deepseek2.attention.value_length_mla", 12);
}

static void warm_latent(gguf_bytes *g)
{
    split_latent(g);
    gguf_f32(g, "deepseek2.attention.temperature_scale", 0.25f);
}

static void half_split(gguf_bytes *g)
{
    latent(g);
    gguf_u32(g, "deepseek2.attention.key_length_mla", 24);
}

static void latents(void)
{
    pc__arch a;
    double scale = 1 + (double)0.1f * log(40);
    if (parsed(&a, "deepseek2", split_latent, NULL)) {
        CHECK(a.latent.rank == 32 && a.latent.q_rank == 24 && a.latent.rotated == 8
              && a.latent.plain == 16 && a.head_dim == 24 && a.v_dim == 12 && a.kv_heads == 8
              && a.latent.norm_eps == 1e-5f && a.rope.attention_factor == 1);
        CHECK(fabs((double)a.attention_scale - scale * scale / sqrt(24)) < 1e-6);
    }
    if (parsed(&a, "deepseek2", latent, NULL))
        CHECK(a.latent.plain == 32 && a.v_dim == 32);
    refused("deepseek2", warm_latent, NULL, PC_ERR_UNSUPPORTED, "temperature_scale': 0.25");
    refused("deepseek2", half_split, NULL, PC_ERR_FORMAT, "key_length_mla' 24");
    refused("deepseek2", NULL, NULL, PC_ERR_FORMAT, "kv_lora_rank");
}

static const char *moe; /* the architecture of these keys */

static void counts(gguf_bytes *g)
{
    key(g, moe, "expert_count", 5);
    key(g, moe, "expert_used_count", 2);
}

static void sizes(gguf_bytes *g)
{
    counts(g);
    key(g, moe, "expert_feed_forward_length", 24);
    key(g, moe, "expert_shared_feed_forward_length", 40);
    key(g, moe, "expert_gating_func", 1);
}

static void deep(gguf_bytes *g)
{
    counts(g);
    key(g, moe, "expert_feed_forward_length", 24);
    key(g, moe, "expert_shared_count", 2);
    key(g, moe, "leading_dense_block_count", 1);
    number(g, moe, "expert_weights_scale", 2.5f);
    gguf_key(g, "deepseek.expert_weights_norm", 7);
    put(g, "\1", 1);
}

static void sigmoid(gguf_bytes *g)
{
    counts(g);
    key(g, moe, "expert_gating_func", 2);
}

static void groups(gguf_bytes *g)
{
    sizes(g);
    key(g, moe, "expert_group_count", 4);
}

static void as_they_are(gguf_bytes *g)
{
    counts(g);
    gguf_key(g, "llama.expert_weights_norm", 7);
    put(g, "", 1);
}

static void with_shared(gguf_bytes *g)
{
    counts(g);
    key(g, moe, "expert_shared_count", 1);
}

static void shared_width(gguf_bytes *g)
{
    counts(g);
    key(g, moe, "expert_shared_feed_forward_length", 40);
}

static void grouped(gguf_bytes *g)
{
    split_latent(g);
    sigmoid(g);
    key(g, moe, "expert_feed_forward_length", 24);
    key(g, moe, "expert_group_count", 5);
    key(g, moe, "expert_group_used_count", 2);
}

static void odd_groups(gguf_bytes *g)
{
    split_latent(g);
    sigmoid(g);
    key(g, moe, "expert_feed_forward_length", 24);
    key(g, moe, "expert_group_count", 2);
    key(g, moe, "expert_group_used_count", 1);
}

static void with_experts(void)
{
    pc__arch a;
    moe = "llama";
    if (parsed(&a, moe, counts, both_routers)) {
        const pc__expert_config *e = &a.experts;
        CHECK_STR(a.name, "mixtral");
        CHECK(e->count == 5 && e->used == 2 && e->width == 96 && !e->shared && e->renormalise);
        CHECK(a.expert_layers.word[0] == 3 && e->scale == 0 && a.rope.interleaved);
    }
    refused(moe, sigmoid, both_routers, PC_ERR_UNSUPPORTED, "expert_gating_func': 2");
    refused(moe, groups, both_routers, PC_ERR_UNSUPPORTED, "shared expert");
    refused(moe, as_they_are, both_routers, PC_ERR_UNSUPPORTED, "expert_weights_norm");
    refused(moe, with_shared, both_routers, PC_ERR_UNSUPPORTED, "shared expert");
    moe = "qwen2moe";
    if (parsed(&a, moe, sizes, both_routers)) {
        const pc__expert_config *e = &a.experts;
        CHECK_STR(a.name, "qwen2moe");
        CHECK(e->width == 24 && e->shared == 40 && e->shared_gated && !e->renormalise);
        CHECK(!a.rope.interleaved);
    }
    if (parsed(&a, moe, counts, both_routers))
        CHECK(a.experts.width == 48 && a.experts.shared == 96);
    refused(moe, groups, both_routers, PC_ERR_UNSUPPORTED, "expert_group_count': 4");
    moe = "deepseek";
    if (parsed(&a, moe, deep, second_router)) {
        const pc__expert_config *e = &a.experts;
        CHECK_STR(a.name, "deepseek");
        CHECK(e->width == 24 && e->shared == 48 && !e->shared_gated && e->renormalise);
        CHECK(a.expert_layers.word[0] == 2 && e->scale == 2.5f && a.rope.interleaved);
    }
    refused(moe, deep, both_routers, PC_ERR_FORMAT, "blk.0.ffn_gate_inp.weight");
    refused(moe, deep, NULL, PC_ERR_FORMAT, "there is no tensor 'blk.1.ffn_gate_inp.weight'");
    refused(moe, counts, both_routers, PC_ERR_FORMAT, "expert_feed_forward_length");
    moe = "qwen3moe";
    if (parsed(&a, moe, counts, both_routers))
        CHECK(a.experts.renormalise && a.experts.width == 48 && !a.experts.shared);
    moe = "granitemoe";
    if (parsed(&a, moe, shared_width, both_routers))
        CHECK(a.experts.renormalise && a.experts.width == 96 && a.experts.shared == 40
              && !a.experts.shared_gated && a.permuted);
    moe = "deepseek2";
    if (parsed(&a, moe, grouped, both_routers))
        CHECK(a.experts.sigmoid && a.experts.groups == 5 && a.experts.groups_used == 2
              && a.experts.group_best == 2 && a.experts.selection_bias);
    refused(moe, odd_groups, both_routers, PC_ERR_FORMAT, "1 of 2 groups of 5");
    moe = "phi3";
    refused(moe, counts, NULL, PC_ERR_UNSUPPORTED, "expert_count': 5");
}

static void capped(gguf_bytes *g)
{
    gguf_f32(g, "llama.attn_logit_softcapping", 50);
}

static void per_layer(gguf_bytes *g)
{
    gguf_array(g, "llama.attention.head_count_kv", 4, 2);
    put_u32(g, 2);
    put_u32(g, 4);
}

static void same_per_layer(gguf_bytes *g)
{
    gguf_array(g, "llama.attention.head_count_kv", 4, 2);
    put_u32(g, 4);
    put_u32(g, 4);
}

static void narrow_values(gguf_bytes *g)
{
    gguf_u32(g, "llama.attention.key_length", 16);
    gguf_u32(g, "llama.attention.value_length", 8);
}

static void odd_heads(gguf_bytes *g)
{
    gguf_u32(g, "llama.attention.head_count_kv", 3);
}

static void odd_turn(gguf_bytes *g)
{
    gguf_u32(g, "llama.rope.dimension_count", 10);
}

static void refusals(void)
{
    static gguf_bytes g;
    pc__gguf *gguf;
    pc__arch a;
    refused("llama", experts, NULL, PC_ERR_FORMAT, "expert_used_count");
    refused("llama", capped, NULL, PC_ERR_UNSUPPORTED, "softcapping");
    refused("llama", per_layer, NULL, PC_ERR_UNSUPPORTED, "different sizes");
    refused("llama", narrow_values, NULL, PC_ERR_UNSUPPORTED, "16 and values of 8");
    refused("llama", odd_heads, NULL, PC_ERR_FORMAT, "multiple");
    refused("llama", odd_turn, NULL, PC_ERR_FORMAT, "10 of 8");
    if (parsed(&a, "llama", same_per_layer, NULL))
        CHECK(a.kv_heads == 4);
    gguf_start(&g, 3);
    gguf_text(&g, "general.architecture", "llama");
    gguf_end(&g);
    if (CHECK_OK(pc__gguf_open(&gguf, &pc__libc_allocator, gguf_file(&g))))
        CHECK_STATUS(pc__arch_from_gguf(&a, &pc__libc_allocator, gguf),
                     PC_ERR_NOT_FOUND); /* a vocabulary only */
    pc__gguf_free(gguf);
    gguf_start(&g, 3);
    gguf_text(&g, "general.architecture", "llama");
    gguf_tensor(&g, "token_embd.weight", 1, 100, 64, NULL, 12800);
    gguf_end(&g);
    if (CHECK_OK(pc__gguf_open(&gguf, &pc__libc_allocator, gguf_file(&g))))
        CHECK_STATUS(pc__arch_from_gguf(&a, &pc__libc_allocator, gguf), PC_ERR_FORMAT);
    CHECK_ERROR_HAS("llama.block_count");
    pc__gguf_free(gguf);
}

static void without_memory(void)
{
    for (uint64_t at = 1;; at++) {
        pc_test_memory memory = {.fail_at = at};
        pc_allocator mem = pc_test_allocator(&memory);
        pc__arch a = {0};
        pc_status status = parse(&a, &mem, "phi3", long_keys, long_factors);
        pc__arch_clear(&mem, &a);
        CHECK_INT(memory.live_blocks, 0);
        if (status == PC_OK)
            break;
        CHECK_STATUS(status, PC_ERR_NOMEM);
    }
}

/* The real files: same sizes in all of them. */
static void golden(void)
{
    static const char *const names[] = {"f32", "q4_k_m", "iq4_xs"};
    char name[64];
    for (size_t i = 0; i < 3; i++) {
        pc__gguf *gguf;
        pc__arch a;
        snprintf(name, sizeof name, "golden/gguf/llama-%s.gguf", names[i]);
        const char *path = pc_test_data(name);
        if (!path || !CHECK_OK(pc__gguf_open(&gguf, &pc__libc_allocator, path)))
            return;
        if (CHECK_OK(pc__arch_from_gguf(&a, &pc__libc_allocator, gguf)))
            CHECK(a.layers == 2 && a.hidden == 256 && a.heads == 8 && a.kv_heads == 4
                  && a.vocab == 512 && a.rope.dims == 32);
        pc__gguf_free(gguf);
    }
}

int main(void)
{
    llama();
    others();
    scalings();
    latents();
    refusals();
    with_experts();
    without_memory();
    golden();
    return pc_test_end();
}
