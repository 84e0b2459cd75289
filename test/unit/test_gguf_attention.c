/* Catches: attention and residuals of GGUF files read otherwise than their architecture means them:
 * which layers have windows, chunks and RoPE, the bases of RoPE, factors of scores, queries,
 * residuals and logits, where a key or a tensor decides. */
#include "gguf_arch.h"

#include <math.h>

static void ffn_norm(gguf_bytes *g)
{
    gguf_tensor(g, "blk.0.ffn_norm.weight", 0, 0, 64, NULL, 256);
}

static void query_norm(gguf_bytes *g)
{
    gguf_tensor(g, "blk.0.attn_q_norm.weight", 1, 8, 8, NULL, 256);
}

static void flag(gguf_bytes *g, const char *name, int value)
{
    gguf_key(g, name, 7);
    put(g, value ? "\1" : "", 1);
}

static void parallel(gguf_bytes *g)
{
    flag(g, "gptneox.use_parallel_residual", 1);
}

static void sequential(gguf_bytes *g)
{
    flag(g, "gptneox.use_parallel_residual", 0);
}

/* What one layer shows, or a key says. */
static void joints(void)
{
    pc__arch a;
    if (parsed(&a, "stablelm", NULL, ffn_norm))
        CHECK(a.residual == PC__RESIDUAL_SEQUENTIAL && a.qk_norm == PC__QK_NONE);
    if (parsed(&a, "stablelm", NULL, query_norm))
        CHECK(a.residual == PC__RESIDUAL_PARALLEL && a.qk_norm == PC__QK_HEADS);
    if (parsed(&a, "gptneox", parallel, NULL))
        CHECK(a.residual == PC__RESIDUAL_PARALLEL_2);
    if (parsed(&a, "gptneox", sequential, NULL))
        CHECK(a.residual == PC__RESIDUAL_SEQUENTIAL);
    refused("gptneox", NULL, NULL, PC_ERR_FORMAT, "use_parallel_residual");
    if (parsed(&a, "command-r", NULL, query_norm))
        CHECK(a.qk_norm == PC__QK_HEADS && a.rope.interleaved && !a.permuted);
    if (parsed(&a, "command-r", NULL, NULL))
        CHECK(a.qk_norm == PC__QK_NONE);
}

static void granite_keys(gguf_bytes *g)
{
    gguf_f32(g, "granite.embedding_scale", 12);
    gguf_f32(g, "granite.residual_scale", 0.25f);
    gguf_f32(g, "granite.logit_scale", 8);
    gguf_f32(g, "granite.attention.scale", 0.125f);
}

static void granite_still(gguf_bytes *g)
{
    flag(g, "granite.rope.scaling.finetuned", 0);
}

static void cohere_keys(gguf_bytes *g)
{
    gguf_f32(g, "cohere2.logit_scale", 0.25f);
    gguf_u32(g, "cohere2.attention.sliding_window", 512);
}

static void below_zero(gguf_bytes *g)
{
    gguf_f32(g, "cohere2.logit_scale", -1);
}

static void gemma_keys(gguf_bytes *g)
{
    gguf_f32(g, "gemma2.attn_logit_softcapping", 50);
    gguf_f32(g, "gemma2.final_logit_softcapping", 30);
}

static void factors_of_logits(void)
{
    pc__arch a;
    if (parsed(&a, "granite", granite_keys, NULL))
        CHECK(a.embedding_scale == 12 && a.residual_scale == 0.25f && a.logit_scale == 0.125f
              && a.attention_scale == 0.125f && a.permuted && !a.unrotated.word[0]);
    if (parsed(&a, "granite", granite_still, NULL))
        CHECK(a.unrotated.word[0] == 3);
    if (parsed(&a, "cohere2", cohere_keys, NULL))
        CHECK(a.logit_scale == 0.25f && a.window == 512 && a.windowed.word[0] == 3
              && !a.unrotated.word[0]);
    refused("cohere2", below_zero, NULL, PC_ERR_FORMAT, "below zero");
    if (parsed(&a, "gemma2", gemma_keys, NULL))
        CHECK(a.embedding_scale == 8 && a.attention_cap == 50 && a.logit_cap == 30
              && a.gain_offset == 0 && a.window == 4096 && a.windowed.word[0] == 1 && a.output_norms
              && a.attention_scale == 0);
}

static void largest(gguf_bytes *g)
{
    gguf_u32(g, "gemma2.block_count", 46);
    gguf_u32(g, "gemma2.attention.key_length", 16);
    gguf_u32(g, "gemma2.attention.value_length", 16);
}

static void largest_without_heads(gguf_bytes *g)
{
    largest(g);
    gguf_u32(g, "gemma2.attention.head_count", 0);
}

/* The model of 46 layers divides scores by another width; it needs heads. */
static void largest_gemma(void)
{
    static gguf_bytes g;
    for (int heads = 0; heads < 2; heads++) {
        pc__gguf *gguf;
        pc__arch a;
        gguf_start(&g, 3);
        gguf_text(&g, "general.architecture", "gemma2");
        gguf_u32(&g, "gemma2.embedding_length", 64);
        gguf_u32(&g, "gemma2.feed_forward_length", 96);
        gguf_u32(&g, "gemma2.context_length", 4096);
        gguf_f32(&g, "gemma2.attention.layer_norm_rms_epsilon", 1e-5f);
        if (heads)
            gguf_u32(&g, "gemma2.attention.head_count", 8);
        heads ? largest(&g) : largest_without_heads(&g);
        gguf_tensor(&g, "token_embd.weight", 1, 100, 64, NULL, 12800);
        gguf_end(&g);
        if (!CHECK_OK(pc__gguf_open(&gguf, &pc__libc_allocator, gguf_file(&g))))
            return;
        pc_status status = pc__arch_from_gguf(&a, &pc__libc_allocator, gguf);
        CHECK_STATUS(status, heads ? PC_OK : PC_ERR_FORMAT);
        if (heads)
            CHECK(fabs((double)a.attention_scale - 1 / sqrt(8)) < 1e-7 && a.head_dim == 16);
        pc__gguf_free(gguf);
    }
}

static const char *windowed; /* the architecture of these keys */

static void window(gguf_bytes *g)
{
    key(g, windowed, "attention.sliding_window", 16);
}

static void window_each_second(gguf_bytes *g)
{
    window(g);
    key(g, windowed, "attention.sliding_window_pattern", 2);
}

static void pattern(gguf_bytes *g, uint32_t count, const char *flags)
{
    char name[96];
    window(g);
    snprintf(name, sizeof name, "%s.attention.sliding_window_pattern", windowed);
    gguf_array(g, name, 7, count);
    put(g, flags, count);
}

static void window_in_second(gguf_bytes *g)
{
    pattern(g, 2, "\0\1");
}

static void pattern_of_one(gguf_bytes *g)
{
    pattern(g, 1, "\1");
}

static void far_base(gguf_bytes *g)
{
    window(g);
    number(g, windowed, "rope.freq_base_swa", 5000);
}

static void scaled_and_far(gguf_bytes *g)
{
    far_base(g);
    gguf_text(g, "gpt-oss.rope.scaling.type", "linear");
    gguf_f32(g, "gpt-oss.rope.scaling.factor", 4);
}

static void scaled_gemma(gguf_bytes *g)
{
    window(g);
    gguf_f32(g, "gemma3.rope.freq_base", 1e6f);
    gguf_text(g, "gemma3.rope.scaling.type", "linear");
    gguf_f32(g, "gemma3.rope.scaling.factor", 8);
}

static void windows(void)
{
    pc__arch a;
    windowed = "gpt-oss";
    if (parsed(&a, windowed, window, NULL))
        CHECK(a.windowed.word[0] == 1 && a.sinks && a.gate_limit == 7 && !a.local_rope.dims);
    if (parsed(&a, windowed, window_in_second, NULL))
        CHECK(a.windowed.word[0] == 2 && a.window == 16);
    refused(windowed, pattern_of_one, NULL, PC_ERR_FORMAT, "sliding_window_pattern");
    if (parsed(&a, windowed, far_base, NULL))
        CHECK(a.local_rope.theta == 5000 && a.local_rope.dims == 8);
    refused(windowed, scaled_and_far, NULL, PC_ERR_UNSUPPORTED, "freq_base_swa': 5000");
    windowed = "llama";
    if (parsed(&a, windowed, window_each_second, NULL))
        CHECK(a.windowed.word[0] == 1);
    windowed = "gemma3";
    if (parsed(&a, windowed, scaled_gemma, query_norm))
        CHECK(a.rope.scaling == PC__ROPE_LINEAR && a.local_rope.theta == 10000
              && a.local_rope.scaling == PC__ROPE_PLAIN && a.windowed.word[0] == 3
              && a.qk_norm == PC__QK_HEAD);
    windowed = "olmo2";
    if (parsed(&a, windowed, NULL, NULL))
        CHECK(!a.window && !a.windowed.word[0] && a.no_input_norms && a.output_norms);
}

static void log_mistral(gguf_bytes *g)
{
    gguf_text(g, "mistral3.rope.scaling.type", "yarn");
    gguf_f32(g, "mistral3.rope.scaling.factor", 4);
    gguf_u32(g, "mistral3.rope.scaling.original_context_length", 1024);
    gguf_f32(g, "mistral3.rope.scaling.yarn_log_multiplier", 0.5f);
    gguf_f32(g, "mistral3.attention.temperature_scale", 0.25f);
}

static void temperature(gguf_bytes *g)
{
    gguf_f32(g, "llama.attention.temperature_scale", 0.25f);
}

static void chunks(gguf_bytes *g)
{
    gguf_u32(g, "llama4.expert_count", 128);
    gguf_u32(g, "llama4.expert_used_count", 1);
    gguf_u32(g, "llama4.expert_feed_forward_length", 24);
}

static void no_chunks(gguf_bytes *g)
{
    chunks(g);
    gguf_u32(g, "llama4.attention.sliding_window", 0);
}

static void query_scales(void)
{
    pc__arch a;
    if (parsed(&a, "mistral3", log_mistral, NULL)) {
        CHECK(a.query_scale.scale == 0.25 && a.query_scale.step == 1024
              && !a.query_scale.unrotated_only && a.query_scale.offset == 0);
        CHECK(fabs(a.rope.attention_factor - (1 + 0.1 * log(4)) / (1 + 0.05 * log(4))) < 1e-12);
    }
    refused("llama", temperature, NULL, PC_ERR_UNSUPPORTED, "temperature_scale': 0.25");
    if (parsed(&a, "llama4", chunks, NULL))
        CHECK(a.chunk == 8192 && a.chunked.word[0] == 3 && !a.window && a.qk_norm == PC__QK_NONE
              && a.query_scale.step == 8192 && a.query_scale.unrotated_only && a.experts.sigmoid
              && a.experts.scales_input && a.experts.shared == 24);
    refused("llama4", no_chunks, NULL, PC_ERR_UNSUPPORTED, "sliding_window': 0");
}

int main(void)
{
    joints();
    factors_of_logits();
    largest_gemma();
    windows();
    query_scales();
    return pc_test_end();
}
