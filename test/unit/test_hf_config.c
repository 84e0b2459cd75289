/* Catches: keys of config.json that are read wrongly, have the wrong default, change the result but
 * are ignored, or are not checked; differences between the two spellings of RoPE keys; leaks when
 * memory runs out. */
#include <stdlib.h>
#include <string.h>

#include "hf_configs.h"
#include "model/load/tensor_role.h"

static void llama(void)
{
    pc__arch a;
    if (parsed(&a, LLAMA ",\"rms_norm_eps\":1e-5,\"bos_token_id\":1,\"eos_token_id\":[2,3],\"pad_"
                         "token_id\":null")) {
        CHECK_STR(a.name, "llama");
        CHECK(a.layers == 4 && a.heads == 8 && a.kv_heads == 2 && a.head_dim == 8 && a.v_dim == 8
              && a.hidden == 64 && a.ffn == 96);
        CHECK(a.vocab == 320 && a.context_length == 4096 && a.embedding_dim == 64
              && a.norm == PC__NORM_RMS && a.norm_eps == 1e-5f);
        CHECK(a.residual == PC__RESIDUAL_SEQUENTIAL && a.position_scheme == PC_POSITION_ROPE
              && a.activation == PC__ACT_SILU);
        CHECK(a.gated && a.final_norm && !a.tied && a.causal && !a.bias_roles && !a.bias_by_file
              && !a.window);
        CHECK(a.rope.scaling == PC__ROPE_PLAIN && a.rope.theta == 10000 && a.rope.dims == 8
              && !a.rope.interleaved);
        CHECK(a.token_bos == 1 && a.token_eos == 2 && a.token_pad == -1 && a.token_unk == -1);
    }
    if (parsed(&a, LLAMA ",\"head_dim\":16,\"attention_bias\":true,\"tie_word_embeddings\":true,"
                         "\"rope_theta\":5e5")) {
        CHECK(a.head_dim == 16 && a.rope.dims == 16 && a.rope.theta == 5e5 && a.tied
              && a.norm_eps == 1e-6f);
        CHECK(a.bias_roles
              == (UINT64_C(1) << PC__ROLE_Q | UINT64_C(1) << PC__ROLE_K | UINT64_C(1) << PC__ROLE_V
                  | UINT64_C(1) << PC__ROLE_O));
    }
    if (parsed(&a, LLAMA ",\"hidden_act\":\"gelu_python\""))
        CHECK(a.activation == PC__ACT_GELU);
    if (parsed(&a, LLAMA ",\"hidden_act\":\"gelu_accurate\""))
        CHECK(a.activation == PC__ACT_GELU_TANH);
    refused(LLAMA ",\"partial_rotary_factor\":0.5", PC_ERR_UNSUPPORTED, "partial_rotary_factor");
    refused(LLAMA ",\"hidden_act\":\"quick_gelu\"", PC_ERR_UNSUPPORTED, "\"quick_gelu\"");
    refused(LLAMA ",\"quantization_config\":{\"bits\":4}", PC_ERR_UNSUPPORTED,
            "quantization_config");
    refused(LLAMA ",\"layer_types\":[\"full_attention\",\"full_attention\",\"full_attention\","
                  "\"sliding_attention\"]",
            PC_ERR_UNSUPPORTED, "layer_types");
    refused(LLAMA ",\"rms_norm_eps\":\"x\"", PC_ERR_FORMAT, "rms_norm_eps");
    refused(LLAMA ",\"rms_norm_eps\":-1", PC_ERR_FORMAT, "epsilon");
    refused(LLAMA ",\"tie_word_embeddings\":1", PC_ERR_FORMAT, "true or false");
    refused(LLAMA ",\"head_dim\":7", PC_ERR_UNSUPPORTED, "RoPE");
    refused(LLAMA ",\"head_dim\":1026", PC_ERR_FORMAT,
            "'head_dim' is 1026, expected the width of a head from 1 to 1024");
    refused(LLAMA ",\"vocab_size\":1", PC_ERR_FORMAT, "duplicate");
    refused(SIZES "\"model_type\":\"llama\"", PC_ERR_FORMAT,
            "'max_position_embeddings' is missing");
    refused(SIZES "\"x\":1", PC_ERR_FORMAT, "model_type");
    refused(KIN("qwen33"), PC_ERR_UNSUPPORTED, "'qwen33'");
    refused("\"model_type\":", PC_ERR_FORMAT, "config.json:1:");
}

/* A value that is shown is the file's, cut short, and nothing else. */
static void shown_values(void)
{
    char body[2048], name[300];
    memset(name, 'n', sizeof name);
    name[sizeof name - 1] = 0;
    for (size_t size = 40; size < sizeof name; size += 3) {
        snprintf(body, sizeof body, LLAMA ",\"hidden_act\":\"%.*s\"", (int)size, name);
        refused(body, PC_ERR_UNSUPPORTED, "key 'hidden_act': \"nnnnnnnn");
        const char *text = strchr(strstr(pc_error_text(), "hidden_act") + 11, '"') + 1;
        size_t n = strspn(text, "n");
        CHECK(n == size ? !strncmp(text + n, "\" is", 4)
                        : n > 50 && !strncmp(text + n, "... is", 6));
    }
    refused(LLAMA ",\"hidden_act\":{\"a\":[1,2,{\"b\":\"" /* a value of many parts */
                  "cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc\"}]}",
            PC_ERR_UNSUPPORTED, "key 'hidden_act': {\"a\":[1,2,{\"b\":\"cccccccc");
}

static void bad_sizes(void)
{
    static const char *const keys[] = {"hidden_size",         "num_hidden_layers",
                                       "num_attention_heads", "intermediate_size",
                                       "vocab_size",          "max_position_embeddings"};
    static const char *const values[] = {"0",     "-1",   "4294967296", "1.5",
                                         "\"8\"", "null", "true",       "2147483647"};
    char body[512];
    pc__arch a;
    for (size_t k = 0; k < 6; k++) {
        for (size_t v = 0; v < 8; v++) {
            size_t at = 0;
            for (size_t i = 0; i < 6; i++)
                at += (size_t)snprintf(body + at, sizeof body - at, "\"%s\":%s,", keys[i],
                                       i == k ? values[v] : "64");
            snprintf(body + at, sizeof body - at, "\"model_type\":\"llama\",\"head_dim\":8");
            if (v == 7 && k == 5) /* a large context is fine */
                CHECK_OK(parse(&a, body));
            else
                CHECK_STATUS(parse(&a, body), PC_ERR_FORMAT);
        }
    }
    refused(SIZES
            "\"model_type\":\"llama\",\"max_position_embeddings\":4,\"num_key_value_heads\":3",
            PC_ERR_FORMAT, "multiple");
}

/* The two spellings of a scaling. */
static void both(pc__arch *newer, const char *scaling)
{
    char body[2048];
    pc__arch older;
    snprintf(body, sizeof body,
             LLAMA ",\"rope_parameters\":{\"rope_theta\":5000.0,\"rope_type\":%s}", scaling);
    if (!parsed(newer, body))
        return;
    snprintf(body, sizeof body, LLAMA ",\"rope_theta\":5000.0,\"rope_scaling\":{\"type\":%s}",
             scaling);
    if (parsed(&older, body)) {
        CHECK(newer->rope.theta == 5000 && older.rope.theta == 5000);
        for (int32_t i = 0; newer->rope.short_factors && i < newer->rope.dims / 2; i++)
            CHECK(newer->rope.short_factors[i] == older.rope.short_factors[i]
                  && newer->rope.long_factors[i] == older.rope.long_factors[i]);
        pc__free(&pc__libc_allocator, older.rope.short_factors);
        pc__free(&pc__libc_allocator, older.rope.long_factors);
        older.rope.short_factors = newer->rope.short_factors;
        older.rope.long_factors = newer->rope.long_factors;
        CHECK(!memcmp(&older.rope, &newer->rope, sizeof older.rope));
    }
}

static void scalings(void)
{
    pc__arch a;
    both(&a, "\"linear\",\"factor\":4");
    CHECK(a.rope.scaling == PC__ROPE_LINEAR && a.rope.factor == 4 && a.context_length == 4 * 4096);
    both(&a,
         "\"linear\",\"factor\":4,\"original_max_position_embeddings\":1024"); /* the length is the
                                                                                  stretched one */
    CHECK(a.context_length == 4096);
    both(&a, "\"dynamic\",\"factor\":2.5");
    CHECK(a.rope.scaling == PC__ROPE_DYNAMIC && a.rope.factor == 2.5 && a.rope.max_length == 4096
          && a.context_length == 0);
    both(&a, "\"yarn\",\"factor\":4,\"original_max_position_embeddings\":1024");
    CHECK(a.rope.scaling == PC__ROPE_YARN && a.rope.factor == 4 && a.rope.original_length == 1024
          && a.rope.beta_fast == 32 && a.context_length == 4096);
    CHECK(a.rope.beta_slow == 1 && a.rope.truncate == 1 && a.rope.attention_factor == 0);
    both(&a, "\"yarn\",\"factor\":8,\"beta_fast\":16,\"beta_slow\":2,\"mscale\":0.7,\"mscale_all_"
             "dim\":0.6,\"truncate\":false,"
             "\"attention_factor\":1.25");
    CHECK(a.rope.factor == 8 && a.rope.beta_fast == 16 && a.rope.beta_slow == 2
          && a.rope.mscale == 0.7);
    CHECK(a.rope.mscale_all_dim == 0.6 && !a.rope.truncate && a.rope.attention_factor == 1.25
          && a.rope.original_length == 4096
          && a.context_length == 8 * 4096); /* as Qwen's documentation changes the file */
    both(&a, "\"yarn\",\"factor\":null,\"original_max_position_embeddings\":512");
    CHECK(a.rope.factor == 8);
    both(&a, "\"llama3\",\"factor\":8,\"low_freq_factor\":1,\"high_freq_factor\":4,\"original_max_"
             "position_embeddings\":2048");
    CHECK(a.rope.scaling == PC__ROPE_LLAMA3 && a.rope.low_freq_factor == 1
          && a.rope.high_freq_factor == 4);
    CHECK(a.rope.original_length == 2048 && a.context_length == 4096);
    both(&a, "\"su\",\"short_factor\":[1,2,3,4],\"long_factor\":[5,6,7,8],\"original_max_position_"
             "embeddings\":1024");
    CHECK(a.rope.scaling == PC__ROPE_LONG && a.rope.factor == 4 && a.rope.short_factors
          && a.rope.short_factors[3] == 4);
    CHECK(a.rope.long_factors && a.rope.long_factors[0] == 5 && a.context_length == 4096);
    pc__arch_clear(&pc__libc_allocator, &a);
    CHECK(!a.rope.long_factors && !a.layers);
}

#define SCALED(inner) LLAMA ",\"rope_scaling\":{" inner "}"
static void bad_scalings(void)
{
    refused(SCALED("\"rope_type\":\"mrope\""), PC_ERR_UNSUPPORTED, "\"mrope\"");
    refused(SCALED("\"rope_type\":7"), PC_ERR_UNSUPPORTED, "rope_type");
    refused(LLAMA ",\"rope_scaling\":[1]", PC_ERR_UNSUPPORTED, "rope_scaling");
    refused(LLAMA ",\"rope_parameters\":{\"full_attention\":{\"rope_theta\":1e4}}",
            PC_ERR_UNSUPPORTED, "full_attention");
    refused(SCALED("\"type\":\"linear\""), PC_ERR_FORMAT, "'factor'");
    refused(SCALED("\"type\":\"linear\",\"factor\":0"), PC_ERR_FORMAT, "'factor'");
    refused(SCALED("\"type\":\"dynamic\",\"factor\":\"2\""), PC_ERR_FORMAT, "'factor'");
    refused(SCALED("\"type\":\"llama3\",\"factor\":8,\"low_freq_factor\":1"), PC_ERR_FORMAT,
            "'high_freq_factor'");
    refused(SCALED("\"type\":\"llama3\",\"factor\":8,\"low_freq_factor\":4,\"high_freq_factor\":4"),
            PC_ERR_FORMAT, "high_freq");
    refused(SCALED("\"type\":\"yarn\",\"factor\":8,\"beta_fast\":-1"), PC_ERR_FORMAT, "below zero");
    refused(SCALED("\"type\":\"longrope\",\"short_factor\":[1,2,3,4],\"long_factor\":[5,6,7]"),
            PC_ERR_FORMAT, "'long_factor' has 3");
    refused(SCALED("\"type\":\"longrope\",\"short_factor\":[1,2,0,4],\"long_factor\":[5,6,7,8]"),
            PC_ERR_FORMAT, "value 2");
    refused(LLAMA ",\"rope_theta\":0.5", PC_ERR_UNSUPPORTED, "base 0.5");
    refused(LLAMA ",\"partial_rotary_factor\":1.5", PC_ERR_UNSUPPORTED, "1.5");
}

static void windows(void)
{
    pc__arch a;
    if (parsed(&a, KIN("mistral") ",\"sliding_window\":20"))
        CHECK(a.window == 20 && a.windowed.word[0] == 15);
    if (parsed(&a, KIN("mistral") ",\"sliding_window\":null"))
        CHECK(a.window == 0);
    if (parsed(&a, KIN("mistral")))
        CHECK(a.window == 4096);
    if (parsed(&a, KIN("phi3") ",\"sliding_window\":7,\"tie_word_embeddings\":false"))
        CHECK(a.window == 7 && a.norm_eps == 1e-5f);
    if (parsed(&a, KIN("qwen2") ",\"sliding_window\":9,\"use_sliding_window\":false"))
        CHECK(a.window == 0
              && a.bias_roles
                     == (UINT64_C(1) << PC__ROLE_Q | UINT64_C(1) << PC__ROLE_K
                         | UINT64_C(1) << PC__ROLE_V));
    if (parsed(&a, KIN("qwen2") ",\"sliding_window\":9,\"use_sliding_window\":true,\"max_window_"
                                "layers\":3"))
        CHECK(a.window == 9 && a.windowed.word[0] == 8);
    if (parsed(&a, KIN("qwen2") ",\"sliding_window\":9,\"use_sliding_window\":true,\"max_window_"
                                "layers\":3,\"layer_types\":"
                                "[\"full_attention\",\"sliding_attention\",\"sliding_attention\","
                                "\"sliding_attention\"]"))
        CHECK(a.window == 9 && a.windowed.word[0] == 14);
    if (parsed(&a, KIN("qwen2") ",\"sliding_window\":9,\"use_sliding_window\":true,\"layer_types\":"
                                "[\"sliding_attention\",\"full_attention\",\"sliding_attention\","
                                "\"sliding_attention\"]"))
        CHECK(a.windowed.word[0] == 13);
    refused(KIN("qwen2") ",\"layer_types\":[\"sliding_attention\",\"full_attention\","
                         "\"sliding_attention\",\"sliding_attention\"]",
            PC_ERR_UNSUPPORTED, "layer_types");
    refused(SIZES "\"model_type\":\"qwen2\",\"max_position_embeddings\":4", PC_ERR_FORMAT,
            "num_key_value_heads");
}

/* Which layers of a model have experts, as bits. */
static uint64_t layers_of(const pc__arch *a)
{
    return a->expert_layers.word[0];
}

static void mixtral(void)
{
    pc__arch a;
    if (parsed(&a, KIN("mixtral") ",\"num_local_experts\":6,\"num_experts_per_tok\":3,\"rope_"
                                  "theta\":5e5")) {
        const pc__expert_config *e = &a.experts;
        CHECK(e->count == 6 && e->used == 3 && e->width == 96 && !e->shared && !e->shared_gated);
        CHECK(e->renormalise && e->scale == 0 && layers_of(&a) == 15);
        CHECK(a.window == 0 && a.norm_eps == 1e-5f && a.rope.theta == 5e5 && a.gated
              && !a.bias_roles);
    }
    if (parsed(&a, KIN("mixtral")))
        CHECK(a.experts.count == 8 && a.experts.used == 2 && a.rope.theta == 1e6);
    if (parsed(&a, KIN("mixtral") ",\"sliding_window\":7"))
        CHECK(a.window == 7);
    refused(KIN("mixtral") ",\"num_local_experts\":1", PC_ERR_FORMAT, "2 of 1 experts");
    refused(KIN("mixtral") ",\"num_experts_per_tok\":0", PC_ERR_FORMAT, "0 of 8 experts");
    refused(KIN("mixtral") ",\"num_local_experts\":0", PC_ERR_UNSUPPORTED, "num_local_experts");
    refused(KIN("mixtral") ",\"num_local_experts\":-1", PC_ERR_FORMAT, "num_local_experts");
    refused(KIN("mixtral") ",\"num_local_experts\":2000000", PC_ERR_FORMAT,
            "'num_local_experts' is 2000000, expected a number of experts from 1 to 65536");
}

static void qwen2_moe(void)
{
    pc__arch a;
    if (parsed(&a, KIN("qwen2_moe"))) { /* the class's own sizes */
        const pc__expert_config *e = &a.experts;
        CHECK(e->count == 60 && e->used == 4 && e->width == 1408 && e->shared == 5632);
        CHECK(e->shared_gated && !e->renormalise && layers_of(&a) == 15);
        CHECK(
            a.bias_roles
            == (UINT64_C(1) << PC__ROLE_Q | UINT64_C(1) << PC__ROLE_K | UINT64_C(1) << PC__ROLE_V));
    }
    if (parsed(&a, KIN("qwen2_moe") ",\"num_experts\":5,\"num_experts_per_tok\":5,\"moe_"
                                    "intermediate_size\":16,\"shared_expert_intermediate_size\":"
                                    "24,\"norm_topk_prob\":true,\"qkv_bias\":false,\"mlp_only_"
                                    "layers\":[0,3]"))
        CHECK(a.experts.count == 5 && a.experts.used == 5 && a.experts.width == 16
              && a.experts.shared == 24 && a.experts.renormalise && !a.bias_roles
              && layers_of(&a) == 6);
    if (parsed(&a, KIN("qwen2_moe") ",\"decoder_sparse_step\":2")) {
        CHECK_INT(layers_of(&a), 2 | 8);
        CHECK(pc__mlp_width(&a, 0) == 96 && pc__mlp_width(&a, 1) == 5632);
    }
    refused(KIN("qwen2_moe") ",\"decoder_sparse_step\":0", PC_ERR_UNSUPPORTED,
            "decoder_sparse_step");
    refused(KIN("qwen2_moe") ",\"use_sliding_window\":true", PC_ERR_UNSUPPORTED,
            "use_sliding_window");
    if (parsed(&a, KIN("qwen2_moe") ",\"use_sliding_window\":true,\"sliding_window\":7,"
                                    "\"layer_types\":[\"full_attention\",\"sliding_attention\","
                                    "\"full_attention\",\"sliding_attention\"]"))
        CHECK(a.window == 7 && a.windowed.word[0] == 10);
    refused(KIN("qwen2_moe") ",\"mlp_only_layers\":[\"x\"]", PC_ERR_UNSUPPORTED, "mlp_only_layers");
    refused(KIN("qwen2_moe") ",\"mlp_only_layers\":1", PC_ERR_UNSUPPORTED, "mlp_only_layers");
    refused(KIN("qwen2_moe") ",\"shared_expert_intermediate_size\":0", PC_ERR_UNSUPPORTED,
            "shared_expert_intermediate_size");
    refused("\"model_type\":\"qwen2_moe\",\"hidden_size\":64,\"num_hidden_layers\":4000,\"num_"
            "attention_"
            "heads\":8,\"intermediate_size\":96,\"vocab_size\":320,\"max_position_embeddings\":64",
            PC_ERR_FORMAT,
            "'num_hidden_layers' is 4000, expected a number of layers from 1 to 1024");
}

static void deepseek(void)
{
#define DEEPSEEK    \
    KIN("deepseek") \
    ",\"n_routed_experts\":7,\"num_experts_per_tok\":3,\"moe_intermediate_size\":24"
    pc__arch a;
    if (parsed(&a, DEEPSEEK ",\"n_shared_experts\":2,\"first_k_dense_replace\":1,\"norm_topk_"
                            "prob\":false,\"scoring_func\":\"softmax\"")) {
        const pc__expert_config *e = &a.experts;
        CHECK(e->count == 7 && e->used == 3 && e->width == 24 && e->shared == 48);
        CHECK(!e->shared_gated && !e->renormalise && layers_of(&a) == 14 && !a.bias_roles);
        CHECK(pc__mlp_width(&a, 0) == 96 && pc__mlp_width(&a, 1) == 48);
    }
    if (parsed(&a, DEEPSEEK ",\"n_shared_experts\":null,\"moe_layer_freq\":2,\"first_k_dense_"
                            "replace\":1,\"norm_topk_prob\":true,\"attention_bias\":true"))
        CHECK(layers_of(&a) == 4 && a.experts.renormalise && !a.experts.shared
              && pc__mlp_width(&a, 2) == 0 && (a.bias_roles >> PC__ROLE_O & 1));
    if (parsed(&a, KIN("deepseek") ",\"n_routed_experts\":null"))
        CHECK(!a.experts.count && !layers_of(&a));
    if (parsed(&a, KIN("deepseek") ",\"n_routed_experts\":7,\"num_experts_per_tok\":1,\"moe_"
                                   "intermediate_size\":24,\"norm_topk_prob\":true"))
        CHECK(!a.experts.renormalise); /* a single expert has its own probability */
    if (parsed(&a, DEEPSEEK ",\"first_k_dense_replace\":9"))
        CHECK(!layers_of(&a));
    refused(DEEPSEEK ",\"scoring_func\":\"sigmoid\"", PC_ERR_UNSUPPORTED, "sigmoid");
    refused(DEEPSEEK ",\"routed_scaling_factor\":2.5", PC_ERR_UNSUPPORTED, "routed_scaling_factor");
    refused(DEEPSEEK ",\"mlp_bias\":true", PC_ERR_UNSUPPORTED, "mlp_bias");
    refused(DEEPSEEK ",\"moe_layer_freq\":0", PC_ERR_UNSUPPORTED, "moe_layer_freq");
    refused(DEEPSEEK ",\"n_shared_experts\":2000000000", PC_ERR_FORMAT, "n_shared_experts");
    refused(KIN("deepseek") ",\"n_routed_experts\":7", PC_ERR_FORMAT, "num_experts_per_tok");
}

#define ENCODER(type) SIZES "\"model_type\":\"" type "\",\"max_position_embeddings\":66"

static void bert(void)
{
    pc__arch a;
    if (parsed(&a, ENCODER("bert"))) {
        CHECK(!a.causal && a.residual == PC__RESIDUAL_POST && a.norm == PC__NORM_LAYER
              && a.activation == PC__ACT_GELU && a.embedding_norm && !a.final_norm && !a.gated);
        CHECK(a.position_scheme == PC_POSITION_LEARNED && !a.position_offset
              && a.context_length == 66 && a.encoder.types == 2 && a.kv_heads == 8);
        CHECK(a.norm_eps == 1e-12f && a.encoder.pool == PC__ACT_TANH && !a.encoder.relative);
        CHECK((a.bias_roles >> PC__ROLE_K & 1) && (a.bias_roles >> PC__ROLE_POOL & 1));
    }
    refused(ENCODER("bert") ",\"position_embedding_type\":\"relative_key\"", PC_ERR_UNSUPPORTED,
            "relative_key");
    refused(ENCODER("bert") ",\"is_decoder\":true", PC_ERR_UNSUPPORTED, "is_decoder");
    refused(ENCODER("bert") ",\"hidden_act\":\"mish\"", PC_ERR_UNSUPPORTED, "mish");
    if (parsed(&a, ENCODER("roberta") ",\"type_vocab_size\":1,\"layer_norm_eps\":1e-5"))
        CHECK(a.position_offset == 2 && a.context_length == 64 && a.encoder.types == 1
              && a.norm_eps == 1e-5f); /* after the padding token's row, which is 1 by default */
    if (parsed(&a, ENCODER("xlm-roberta") ",\"type_vocab_size\":1,\"pad_token_id\":1"))
        CHECK(a.position_offset == 2 && a.context_length == 64 && !strcmp(a.name, "xlm-roberta"));
    if (parsed(&a, ENCODER("roberta") ",\"pad_token_id\":0"))
        CHECK(a.position_offset == 1 && a.context_length == 65);
    refused(ENCODER("roberta") ",\"pad_token_id\":65", PC_ERR_UNSUPPORTED, "pad_token_id");
}

static void deberta(void)
{
#define RELATIVE ",\"relative_attention\":true,\"pos_att_type\":[\"c2p\",\"p2c\"]"
    pc__arch a;
    if (parsed(&a, ENCODER("deberta") RELATIVE ",\"position_biased_input\":false")) {
        CHECK(a.encoder.relative == 66 && a.encoder.farthest == 66 && !a.encoder.buckets
              && a.encoder.c2p && a.encoder.p2c && !a.encoder.shared && !a.encoder.types);
        CHECK(a.position_scheme == PC_POSITION_NONE && a.encoder.pool == PC__ACT_GELU);
        CHECK(a.attention_scale > 0.2041f && a.attention_scale < 0.2042f); /* 1 / sqrt(8 * 3) */
        CHECK(!(a.bias_roles >> PC__ROLE_K & 1) && (a.bias_roles >> PC__ROLE_POSITION_Q & 1)
              && !(a.bias_roles >> PC__ROLE_POSITION_K & 1));
    }
    if (parsed(&a, ENCODER("deberta-v2") ",\"norm_rel_ebd\":\"layer_norm\""))
        CHECK(!a.encoder.relative
              && a.encoder.relative_norm); /* the file has the norm all the same */
    if (parsed(&a, ENCODER("deberta") ",\"pos_att_type\":\"c2p\",\"relative_attention\":true,"
                                      "\"max_relative_positions\":20"))
        CHECK(a.encoder.relative == 20 && a.encoder.c2p && !a.encoder.p2c
              && a.position_scheme == PC_POSITION_LEARNED);
    if (parsed(&a, ENCODER("deberta-v2") RELATIVE
               ",\"position_buckets\":16,\"share_att_key\":true,"
               "\"norm_rel_ebd\":\"layer_norm\",\"conv_kernel_size\":3,"
               "\"max_relative_positions\":-1"))
        CHECK(a.encoder.relative == 16 && a.encoder.buckets == 16 && a.encoder.farthest == 66
              && a.encoder.shared && a.encoder.relative_norm && a.encoder.conv == 3
              && a.encoder.conv_activation == PC__ACT_TANH && (a.bias_roles >> PC__ROLE_K & 1));
    refused(ENCODER("deberta") ",\"pos_att_type\":\"c2p|p2p\"", PC_ERR_UNSUPPORTED, "pos_att_type");
    refused(ENCODER("deberta") ",\"pos_att_type\":[\"p2p\"]", PC_ERR_UNSUPPORTED, "pos_att_type");
    refused(ENCODER("deberta") ",\"pos_att_type\":[\"c2p\",\"c2p\"]", PC_ERR_UNSUPPORTED,
            "pos_att_type");
    refused("\"model_type\":\"deberta\",\"vocab_size\":99,\"hidden_size\":64,\"num_hidden_layers\":"
            "2,\"num_attention_heads\":4,"
            "\"intermediate_size\":128,\"max_position_embeddings\":2000000000,\"relative_"
            "attention\":true",
            PC_ERR_FORMAT, "max_position_embeddings");
    refused(ENCODER("deberta-v2") RELATIVE ",\"position_buckets\":8,\"max_relative_positions\":5",
            PC_ERR_UNSUPPORTED, "max_relative_positions");
    refused(ENCODER("deberta") ",\"talking_head\":true", PC_ERR_UNSUPPORTED, "talking_head");
    refused(ENCODER("deberta") ",\"embedding_size\":32", PC_ERR_UNSUPPORTED, "embedding_size");
    refused(ENCODER("deberta-v2") RELATIVE ",\"norm_rel_ebd\":\"rms\"", PC_ERR_UNSUPPORTED,
            "norm_rel_ebd");
    refused(ENCODER("deberta-v2") RELATIVE ",\"conv_kernel_size\":4", PC_ERR_UNSUPPORTED,
            "conv_kernel_size");
    refused(ENCODER("deberta-v2") RELATIVE ",\"conv_kernel_size\":3,\"conv_groups\":2",
            PC_ERR_UNSUPPORTED, "conv_groups");
}

static void others(void)
{
    pc__arch a;
    if (parsed(&a, SIZES "\"model_type\":\"phi\",\"max_position_embeddings\":64"))
        CHECK(a.residual == PC__RESIDUAL_PARALLEL && a.rope.dims == 4
              && a.activation == PC__ACT_GELU_TANH && !a.gated && a.kv_heads == 8
              && (a.bias_roles >> PC__ROLE_HEAD & 1));
    refused(KIN("phi") ",\"qk_layernorm\":1", PC_ERR_FORMAT, "qk_layernorm");
#define OPT                                                                                        \
    "\"model_type\":\"opt\",\"hidden_size\":64,\"num_hidden_layers\":2,\"num_attention_heads\":4," \
    "\"ffn_dim\":128,"                                                                             \
    "\"max_position_embeddings\":32,\"vocab_size\":100"
    if (parsed(&a, OPT))
        CHECK(a.position_scheme == PC_POSITION_LEARNED && a.position_offset == 2 && a.tied
              && a.final_norm && a.residual == PC__RESIDUAL_SEQUENTIAL
              && a.activation == PC__ACT_RELU && a.norm == PC__NORM_LAYER);
    if (parsed(&a, OPT
               ",\"do_layer_norm_before\":false,\"word_embed_proj_dim\":32,\"enable_bias\":false"))
        CHECK(a.residual == PC__RESIDUAL_POST && !a.final_norm && a.embedding_dim == 32
              && !(a.bias_roles >> PC__ROLE_Q & 1));
    if (parsed(&a, OPT ",\"_remove_final_layer_norm\":true"))
        CHECK(!a.final_norm);
    if (parsed(&a, OPT ",\"layer_norm_elementwise_affine\":false,\"enable_bias\":false"))
        CHECK(a.plain_norms && !a.bias_roles);
#define GPT2                                                                                       \
    "\"model_type\":\"gpt2\",\"n_embd\":64,\"n_layer\":2,\"n_head\":4,\"n_positions\":32,\"vocab_" \
    "size\":100"
    if (parsed(&a, GPT2 ",\"scale_attn_weights\":false"))
        CHECK(a.ffn == 256 && a.attention_scale == 1.0f && a.tied
              && a.activation == PC__ACT_GELU_TANH && a.position_offset == 0);
    if (parsed(&a, GPT2 ",\"n_inner\":100,\"activation_function\":\"relu\""))
        CHECK(a.ffn == 100 && a.attention_scale == 0 && a.activation == PC__ACT_RELU);
    if (parsed(&a, GPT2 ",\"scale_attn_by_inverse_layer_idx\":true"))
        CHECK(a.scale_by_layer);
    refused(GPT2 ",\"add_cross_attention\":true", PC_ERR_UNSUPPORTED, "add_cross_attention");
#define BLOOM "\"model_type\":\"bloom\",\"n_layer\":2,\"n_head\":4,\"vocab_size\":100"
    if (parsed(&a, BLOOM ",\"n_embed\":64"))
        CHECK(a.hidden == 64 && a.ffn == 256 && a.embedding_norm
              && a.position_scheme == PC_POSITION_ALIBI && !a.alibi_before_scale);
    refused(BLOOM ",\"hidden_size\":64,\"apply_residual_connection_post_layernorm\":true",
            PC_ERR_UNSUPPORTED, "post_layernorm");
    refused(BLOOM ",\"hidden_size\":66", PC_ERR_FORMAT, "not a multiple");
}

#define FALCON                                                                              \
    "\"model_type\":\"falcon\",\"hidden_size\":64,\"num_hidden_layers\":2,\"num_attention_" \
    "heads\":8,\"vocab_size\":100"
static void falcon(void)
{
    pc__arch a;
    if (parsed(&a, FALCON))
        CHECK(a.kv_heads == 1 && a.residual == PC__RESIDUAL_PARALLEL && a.tied && a.ffn == 256
              && a.activation == PC__ACT_GELU && a.position_scheme == PC_POSITION_ROPE
              && a.context_length == 2048);
    if (parsed(&a, FALCON ",\"new_decoder_architecture\":true,\"num_kv_heads\":2"))
        CHECK(a.kv_heads == 2 && a.residual == PC__RESIDUAL_PARALLEL_2);
    if (parsed(
            &a, FALCON
            ",\"new_decoder_architecture\":true,\"num_kv_heads\":2,\"num_ln_in_parallel_attn\":1"))
        CHECK(a.residual == PC__RESIDUAL_PARALLEL);
    if (parsed(&a, FALCON
               ",\"multi_query\":false,\"parallel_attn\":false,\"alibi\":true,\"bias\":true"))
        CHECK(a.kv_heads == 8 && a.residual == PC__RESIDUAL_SEQUENTIAL
              && a.position_scheme == PC_POSITION_ALIBI && a.alibi_before_scale
              && (a.bias_roles >> PC__ROLE_UP & 1));
    refused(FALCON ",\"new_decoder_architecture\":true,\"parallel_attn\":false", PC_ERR_UNSUPPORTED,
            "parallel_attn");
    refused(FALCON ",\"num_ln_in_parallel_attn\":2", PC_ERR_UNSUPPORTED, "num_ln_in_parallel_attn");
    refused(FALCON ",\"multi_query\":false,\"num_kv_heads\":4", PC_ERR_UNSUPPORTED, "num_kv_heads");
}

#define MPT                                                                                   \
    "\"model_type\":\"mpt\",\"d_model\":64,\"n_layers\":2,\"n_heads\":4,\"max_seq_len\":128," \
    "\"vocab_size\":100"
static void mpt(void)
{
    pc__arch a;
    if (parsed(&a, MPT ",\"attn_config\":{\"clip_qkv\":6,\"softmax_scale\":0.3,\"alibi_bias_max\":"
                       "16},\"expansion_ratio\":2"))
        CHECK(a.qkv_clip == 6 && a.attention_scale == 0.3f && a.alibi_max == 16 && a.ffn == 128
              && a.alibi_mpt && !a.bias_roles);
    if (parsed(&a, MPT))
        CHECK(a.alibi_max == 8 && a.qkv_clip == 0 && a.ffn == 256 && a.tied
              && a.activation == PC__ACT_GELU);
    refused(MPT ",\"attn_config\":{\"softmax_scale\":1e300}", PC_ERR_FORMAT,
            "'softmax_scale' is 1.0000000000000001e300, expected 0 or a number");
    refused(MPT ",\"attn_config\":{\"alibi\":false}", PC_ERR_UNSUPPORTED, "'alibi': false");
    refused(MPT ",\"attn_config\":{\"kv_n_heads\":2}", PC_ERR_UNSUPPORTED, "kv_n_heads");
    refused(MPT ",\"attn_config\":{\"prefix_lm\":true}", PC_ERR_UNSUPPORTED, "prefix_lm");
    refused(MPT ",\"attn_config\":{\"qk_ln\":true}", PC_ERR_UNSUPPORTED, "qk_ln");
    refused(MPT ",\"attn_config\":{\"attn_type\":\"multiquery_attention\"}", PC_ERR_UNSUPPORTED,
            "multiquery_attention");
    refused(MPT ",\"logit_scale\":\"inv_sqrt_d_model\"", PC_ERR_UNSUPPORTED, "logit_scale");
    if (parsed(&a, MPT ",\"no_bias\":false"))
        CHECK(a.bias_by_file);
    refused(MPT ",\"expansion_ratio\":-1", PC_ERR_UNSUPPORTED, "expansion_ratio");
}

static void without_memory(void)
{
    static const char text[] = "{" LLAMA ",\"rope_scaling\":{\"type\":\"longrope\",\"short_"
                               "factor\":[1,2,3,4],\"long_factor\":[5,6,7,8],"
                               "\"original_max_position_embeddings\":1024}}";
    for (uint64_t at = 1;; at++) {
        pc_test_memory memory = {.fail_at = at};
        pc_allocator mem = pc_test_allocator(&memory);
        pc__arch a;
        pc_status status = pc__arch_from_json(&a, &mem, text, strlen(text), "config.json");
        if (status == PC_OK)
            pc__arch_clear(&mem, &a);
        CHECK_INT(memory.live_blocks, 0);
        if (status == PC_OK) {
            CHECK_INT(at, 3);
            break;
        }
        CHECK_STATUS(status, PC_ERR_NOMEM);
    }
}

int main(void)
{
    pc__arch a;
    llama();
    shown_values();
    bad_sizes();
    scalings();
    bad_scalings();
    windows();
    mixtral();
    qwen2_moe();
    deepseek();
    bert();
    deberta();
    others();
    falcon();
    mpt();
    without_memory();
    CHECK_STATUS(pc__arch_from_config(&a, &pc__libc_allocator, "/nowhere/config.json"),
                 PC_ERR_NOT_FOUND);
    return pc_test_end();
}
