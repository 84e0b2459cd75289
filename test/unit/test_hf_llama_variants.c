/* Catches: keys of the newer architectures that are read wrongly, have the wrong default or are not
 * checked; layers that get the wrong window, chunks or RoPE; a model with images whose text part is
 * not found. The golden models catch what the keys mean. */
#include "hf_configs.h"
#include "model/load/tensor_role.h"

#define YARN "{\"rope_type\":\"yarn\",\"factor\":4,\"original_max_position_embeddings\":512}"

#define GEMMA(type) \
    SIZES "\"model_type\":\"" type "\",\"max_position_embeddings\":4096,\"head_dim\":8"

static void qwen3(void)
{
    pc__arch a;
    if (parsed(&a, KIN("qwen3")))
        CHECK(a.head_dim == 128 && a.qk_norm == PC__QK_HEAD && !a.bias_roles && !a.window);
    if (parsed(&a, KIN("qwen3_moe") ",\"num_local_experts\":6,\"num_experts_per_tok\":3,\"moe_"
                                    "intermediate_size\":12"))
        CHECK(a.experts.count == 6 && a.experts.used == 3 && a.experts.width == 12);
    if (parsed(&a, KIN("qwen3_moe") ",\"use_sliding_window\":true,\"sliding_window\":7"))
        CHECK(a.window == 7 && a.windowed.word[0] == 15);
    refused(KIN("qwen3_moe") ",\"use_sliding_window\":true,\"max_window_layers\":2",
            PC_ERR_UNSUPPORTED, "max_window_layers");
}

static void gemma(void)
{
    pc__arch a;
    if (parsed(&a, GEMMA("gemma") ",\"hidden_act\":\"gelu\""))
        CHECK(a.activation == PC__ACT_GELU_TANH && a.tied && a.gain_offset == 1
              && a.embedding_scale == 8 && !a.output_norms);
    if (parsed(&a, GEMMA("gemma2")))
        CHECK(a.attention_cap == 50 && a.logit_cap == 30 && a.attention_scale == 0.0625f
              && a.window == 4096 && a.windowed.word[0] == 5 && a.output_norms);
    if (parsed(&a, GEMMA("gemma2") ",\"attn_logit_softcapping\":null,\"sliding_window\":null"))
        CHECK(!(a.attention_cap > 0) && !a.window && !a.windowed.word[0]);
    refused(GEMMA("gemma2") ",\"query_pre_attn_scalar\":0", PC_ERR_UNSUPPORTED,
            "query_pre_attn_scalar");
    if (parsed(&a, GEMMA("gemma3_text") ",\"sliding_window_pattern\":3,\"rope_scaling\":"
                                        "{\"rope_type\":\"linear\",\"factor\":8}"))
        CHECK(a.windowed.word[0] == 11 && a.rope.theta == 1e6 && a.local_rope.theta == 1e4
              && a.rope.scaling == PC__ROPE_LINEAR && a.local_rope.scaling == PC__ROPE_PLAIN);
    refused(GEMMA("gemma3_text") ",\"sliding_window_pattern\":0", PC_ERR_UNSUPPORTED,
            "sliding_window_pattern");
    refused(GEMMA("gemma3_text") ",\"attn_logit_softcapping\":20", PC_ERR_UNSUPPORTED,
            "attn_logit_softcapping");
    refused(GEMMA("gemma3_text") ",\"use_bidirectional_attention\":true", PC_ERR_UNSUPPORTED,
            "use_bidirectional_attention");
}

/* The text part of a model with images; keys of the first such model are left out of files. */
static void images(void)
{
    pc__arch a;
    if (parsed(&a, "\"model_type\":\"gemma3\",\"eos_token_id\":[1,106],\"vision_config\":{},"
                   "\"text_config\":{\"hidden_size\":2560,\"num_hidden_layers\":34,"
                   "\"intermediate_size\":10240,\"model_type\":\"gemma3_text\"}")) {
        CHECK(!strcmp(a.name, "gemma3_text") && a.heads == 8 && a.kv_heads == 4
              && a.head_dim == 256);
        CHECK(a.layers == 34 && a.vocab == 262208 && a.token_eos == 1);
    }
    if (parsed(&a, "\"model_type\":\"llama4\",\"tie_word_embeddings\":false,\"text_config\":{}"))
        CHECK(a.layers == 48 && a.heads == 40 && a.kv_heads == 8 && a.ffn == 16384
              && a.experts.width == 8192 && !a.tied_by_file);
    if (parsed(&a, "\"model_type\":\"mistral3\",\"text_config\":{\"hidden_size\":5120}"))
        CHECK(a.hidden == 5120 && a.kv_heads == 8 && a.tied_by_file && !a.tied);
    refused("\"model_type\":\"gemma3\",\"text_config\":{\"model_type\":\"mamba\"}",
            PC_ERR_UNSUPPORTED, "mamba");
    refused("\"model_type\":\"gemma3\",\"text_config\":{\"model_type\":7}", PC_ERR_FORMAT,
            "text_config");
}

static void unrotated(void)
{
    pc__arch a;
    if (parsed(&a, KIN("smollm3")))
        CHECK(a.unrotated.word[0] == 8 && a.rope.theta == 2e6);
    if (parsed(&a, KIN("smollm3") ",\"no_rope_layers\":[0,1,1,0]"))
        CHECK(a.unrotated.word[0] == 9);
    if (parsed(&a, KIN("smollm3") ",\"use_sliding_window\":true,\"sliding_window\":7,"
                                  "\"no_rope_layers\":[0,1,1,0]"))
        CHECK(a.window == 7 && a.windowed.word[0] == 9 && a.tied);
    if (parsed(&a, KIN("smollm3") ",\"use_sliding_window\":true"))
        CHECK(!a.window && !a.windowed.word[0]);
    refused(KIN("smollm3") ",\"no_rope_layers\":[0,1]", PC_ERR_UNSUPPORTED, "no_rope_layers");
    refused(KIN("smollm3") ",\"no_rope_layer_interval\":0", PC_ERR_UNSUPPORTED,
            "no_rope_layer_interval");
    if (parsed(&a, KIN("cohere2")))
        CHECK(a.windowed.word[0] == 7 && a.unrotated.word[0] == 8 && a.rope.interleaved
              && a.logit_scale == 0.0625f && a.tied);
    refused(KIN("cohere") ",\"logit_scale\":0", PC_ERR_UNSUPPORTED, "logit_scale");
}

static void llama4(void)
{
    pc__arch a;
    if (parsed(&a, KIN("llama4_text") ",\"intermediate_size_mlp\":192")) {
        const pc__expert_config *e = &a.experts;
        CHECK(a.head_dim == 128 && a.ffn == 192 && a.chunk == 8192 && a.chunked.word[0] == 7);
        CHECK(a.unrotated.word[0] == 8 && a.qk_norm == PC__QK_PLAIN && a.query_scale.step == 8192
              && a.query_scale.unrotated_only);
        CHECK(e->count == 16 && e->used == 1 && e->width == 96 && e->shared == 96 && e->sigmoid
              && e->scales_input && a.expert_layers.word[0] == 15);
        CHECK(pc__fixed_reason(&a));
    }
    if (parsed(&a, KIN("llama4_text") ",\"intermediate_size_mlp\":192,"
                                      "\"interleave_moe_layer_step\":2,"
                                      "\"attn_temperature_tuning\":false"))
        CHECK(a.expert_layers.word[0] == 10 && a.query_scale.scale == 0);
    refused(KIN("llama4_text"), PC_ERR_FORMAT, "intermediate_size_mlp");
#define TURNED KIN("llama4_text") ",\"intermediate_size_mlp\":192,\"rope_parameters\":" YARN
    if (parsed(&a, TURNED)) /* the norm behind RoPE takes its factor away */
        CHECK(a.rope.scaling == PC__ROPE_YARN && a.rope.attention_factor == 1 && a.qk_eps > 0.77e-5f
              && a.qk_eps < 0.772e-5f); /* 1e-5 / (0.1 ln 4 + 1)^2 */
    if (parsed(&a, TURNED ",\"use_qk_norm\":false"))
        CHECK(a.rope.attention_factor == 0 && a.qk_eps == 0);
}

static void gpt_oss(void)
{
    pc__arch a;
    if (parsed(&a, KIN("gpt_oss")))
        CHECK(a.sinks && a.head_dim == 64 && a.window == 128 && a.windowed.word[0] == 5
              && a.activation == PC__ACT_CLAMPED && a.gate_limit == 7 && a.experts.biased
              && a.experts.renormalise && a.experts.count == 128);
    refused(KIN("gpt_oss") ",\"swiglu_limit\":0", PC_ERR_UNSUPPORTED, "swiglu_limit");
    if (parsed(&a, KIN("gpt_oss"))) /* YaRN is the default */
        CHECK(a.rope.scaling == PC__ROPE_YARN && a.rope.factor == 32 && !a.rope.truncate
              && a.rope.original_length == 4096 && a.rope.theta == 150000
              && (a.bias_roles >> PC__ROLE_Q & 1));
    if (parsed(&a, KIN("gpt_oss") ",\"rope_parameters\":null,\"rope_theta\":5e3,"
                                  "\"attention_bias\":false"))
        CHECK(a.rope.scaling == PC__ROPE_YARN && a.rope.theta == 5e3
              && !(a.bias_roles >> PC__ROLE_Q & 1) && (a.bias_roles >> PC__ROLE_ROUTER & 1));
    if (parsed(&a, KIN("gpt_oss") ",\"rope_scaling\":{\"rope_type\":\"linear\",\"factor\":2}"))
        CHECK(a.rope.scaling == PC__ROPE_LINEAR);
}

static void others(void)
{
    pc__arch a;
    if (parsed(&a, KIN("olmo2")))
        CHECK(a.qk_norm == PC__QK_WHOLE && a.no_input_norms && a.output_norms);
    if (parsed(&a, KIN("granite") ",\"logits_scaling\":8,\"residual_multiplier\":0.5"))
        CHECK(a.logit_scale == 0.125f && a.residual_scale == 0.5f && a.attention_scale == 1);
    refused(KIN("granite") ",\"logits_scaling\":0", PC_ERR_UNSUPPORTED, "logits_scaling");
    if (parsed(&a, KIN("glm4") ",\"attention_bias\":true"))
        CHECK(a.output_norms && a.rope.interleaved && a.rope.dims == 64 && a.head_dim == 128);
    if (parsed(&a, KIN("nemotron")))
        CHECK(a.activation == PC__ACT_RELU_SQUARED && a.gain_offset == 1 && !a.gated);
    if (parsed(&a, KIN("gpt_neox") ",\"rotary_pct\":0.5,\"rotary_emb_base\":20000"))
        CHECK(a.rope.dims == 4 && a.rope.theta == 20000 && a.residual == PC__RESIDUAL_PARALLEL_2);
    if (parsed(&a, KIN("stablelm") ",\"use_parallel_residual\":true,\"qk_layernorm\":true"))
        CHECK(a.qk_norm == PC__QK_HEADS && a.residual == PC__RESIDUAL_PARALLEL);
    if (parsed(&a, KIN("glm")))
        CHECK(a.norm_eps == 1.5625e-7f && (a.bias_roles >> PC__ROLE_Q & 1)
              && !(a.bias_roles >> PC__ROLE_O & 1));
    if (parsed(&a, KIN("cohere")))
        CHECK(a.rope.theta == 5e5);
    if (parsed(&a, KIN("ministral3")))
        CHECK(a.rope.scaling == PC__ROPE_YARN && a.rope.factor == 16 && a.rope.theta == 1e6
              && a.query_scale.scale == 0.1 && a.query_scale.step == 16384);
    if (parsed(&a, KIN("ministral3") ",\"rope_scaling\":{\"rope_type\":\"yarn\",\"factor\":4,"
                                     "\"original_max_position_embeddings\":512,"
                                     "\"llama_4_scaling_beta\":0.5}"))
        CHECK(a.query_scale.scale == 0.5 && a.query_scale.step == 512);
    if (parsed(&a, KIN("ministral3") ",\"rope_parameters\":{\"rope_type\":\"yarn\",\"factor\":4,"
                                     "\"original_max_position_embeddings\":512,"
                                     "\"llama_4_scaling_beta\":0.1}"))
        CHECK(a.query_scale.scale == 0.1 && a.query_scale.step == 512
              && !a.query_scale.unrotated_only && pc__fixed_reason(&a));
}

#define LATENT                                                                               \
    ",\"kv_lora_rank\":32,\"qk_nope_head_dim\":16,\"qk_rope_head_dim\":8,\"v_head_dim\":16," \
    "\"n_routed_experts\":8,\"num_experts_per_tok\":3,\"moe_intermediate_size\":24"

static void deepseek(void)
{
    pc__arch a;
    if (parsed(&a, KIN("deepseek_v3") LATENT ",\"n_group\":4,\"topk_group\":2,"
                                             "\"num_nextn_predict_layers\":1"))
        CHECK(a.latent.rank == 32 && a.head_dim == 24 && a.v_dim == 16 && a.layers_after == 1
              && a.experts.groups == 4 && a.experts.group_best == 2 && a.experts.selection_bias);
    refused(KIN("deepseek_v3") LATENT ",\"n_group\":3,\"topk_group\":1", PC_ERR_UNSUPPORTED,
            "n_group");
    refused(KIN("deepseek_v3") LATENT ",\"scoring_func\":\"softmax\"", PC_ERR_UNSUPPORTED,
            "scoring_func");
    if (parsed(&a, KIN("deepseek_v2") LATENT ",\"topk_method\":\"greedy\""))
        CHECK(!a.experts.groups && !a.experts.sigmoid && a.rope.interleaved && a.rope.dims == 8);
}

int main(void)
{
    qwen3();
    gemma();
    images();
    unrotated();
    llama4();
    gpt_oss();
    deepseek();
    others();
    return pc_test_end();
}
