/* What the readers of config.json share (hf_config.c), and the readers, one an architecture
 * (hf_llama.c, hf_classic.c, hf_experts.c, hf_encoder.c). */
#ifndef PC_MODEL_HF_INTERNAL_H
#define PC_MODEL_HF_INTERNAL_H

#include <jansson.h>

#include "model/load/arch.h"
#include "model/load/tensor_role.h"

/* Keys of a configuration. Null counts as missing. Error texts name file, key and value. */
typedef struct pc__config {
    const char *where; /* in error texts */
    const char *model; /* model_type */
    json_t *object;
    const pc_allocator *mem;
} pc__config;

/* The value; NULL: missing or null. */
json_t *pc__config_find(const pc__config *config, const char *key);
pc_status pc__config_size(const pc__config *config, const char *key, pc__count kind, int32_t *out);
/* The same or 0. *out stays if the key is missing, here and below. */
pc_status pc__config_maybe(const pc__config *config, const char *key, pc__count kind, int32_t *out);
/* Null is false, as it is in Python. */
pc_status pc__config_flag(const pc__config *config, const char *key, int32_t *out);
/* pc__factor_has holds. */
pc_status pc__config_number(const pc__config *config, const char *key, double *out);
/* PC_ERR_UNSUPPORTED: the flag, or the text, exists and is not `want`; the key exists at all. */
pc_status pc__config_only(const pc__config *config, const char *key, int want);
pc_status pc__config_only_text(const pc__config *config, const char *key, const char *want);
pc_status pc__config_none(const pc__config *config, const char *key);
/* PC_ERR_UNSUPPORTED that shows the key's value. */
pc_status pc__config_refuse(const pc__config *config, const char *key);

/* Bits of arch->bias_roles. */
#define PC__BIT(role) (UINT64_C(1) << PC__ROLE_##role)
#define PC__BIAS_QKV (PC__BIT(Q) | PC__BIT(K) | PC__BIT(V))
#define PC__BIAS_NORMS \
    (PC__BIT(NORM1) | PC__BIT(NORM2) | PC__BIT(FINAL_NORM) | PC__BIT(EMBEDDING_NORM))
#define PC__BIAS_MLP (PC__BIT(GATE) | PC__BIT(UP) | PC__BIT(DOWN))
#define PC__BIAS_LINEAR (PC__BIAS_QKV | PC__BIT(O) | PC__BIT(UP) | PC__BIT(DOWN))

/* The activation that the key names; `fallback` if it is missing. */
pc_status pc__config_activation(const pc__config *config, const char *key, pc__activation fallback,
                                pc__activation *out);
pc_status pc__config_eps(const pc__config *config, const char *key, double fallback,
                         pc__arch *arch);
/* Reads head_dim. If it is missing: what arch->head_dim was set to before, else hidden / heads. */
pc_status pc__config_head_dim(const pc__config *config, pc__arch *arch);
/* Width, layers, heads and head_dim under their usual keys, and under these keys (NULL: not there)
 * the width of the MLP and the context length. */
pc_status pc__config_sizes(const pc__config *config, const char *mlp, const char *context,
                           pc__arch *arch);

/* Fills arch->rope. head_dim and context_length must be set; context_length becomes the one that
 * the scaling is for. A theta that is set already is the default, else 10000. `partial`: the
 * architecture's rotated share of a head. */
pc_status pc__read_rope(const pc__config *config, double partial, pc__arch *arch);
/* Sets the rope_parameters of an architecture whose default is a scaling, if the configuration
 * names none. `parameters`: {"rope_parameters": ...}. */
pc_status pc__config_usual_rope(const pc__config *config, const char *parameters);
/* The object with the keys of scaling, rope_parameters or rope_scaling; NULL if there is none. */
json_t *pc__config_rope_object(const pc__config *config);
/* The same for models whose layers with a window have a RoPE of their own, arch->local_rope, whose
 * base is `local_theta` unless the configuration says otherwise. */
pc_status pc__read_two_ropes(const pc__config *config, double local_theta, pc__arch *arch);

/* Reads the keys of Llama and models like it. `eps` and `partial` (rotated share of a head) are
 * defaults. _body: all but RoPE. */
pc_status pc__read_llama_like(const pc__config *config, double eps, double partial, pc__arch *arch);
pc_status pc__read_llama_body(const pc__config *config, double eps, pc__arch *arch);
/* Refuses a configuration without the key. */
pc_status pc__config_needs(const pc__config *config, const char *key);
/* Biases of Q, K and V, and of the attention's output, if attention_bias is true. */
pc_status pc__read_attention_bias(const pc__config *config, pc__arch *arch);
/* A window in all layers but every `pattern`-th, unless layer_types says otherwise. */
pc_status pc__read_alternating_windows(const pc__config *config, int32_t window, int32_t pattern,
                                       pc__arch *arch);
/* no_rope_layers [layers], 0: a layer without positions; else every no_rope_layer_interval-th. */
pc_status pc__read_unrotated(const pc__config *config, pc__arch *arch);
/* mlp_only_layers: 1 if the list has the layer. _check: the key is a list of integers, or
 * missing. */
int pc__config_lists(const pc__config *config, const char *key, int32_t layer);
pc_status pc__config_check_list(const pc__config *config, const char *key);
/* Reads layer_types, if given, into `windowed` and `chunked`. window and chunk must be set. */
pc_status pc__read_layer_types(const pc__config *config, pc__arch *arch);
/* The width of the window: `usual` if the key is absent, none if it is null. */
pc_status pc__read_window(const pc__config *config, int32_t usual, pc__arch *arch);
/* Windows of Qwen: off by default; layer_types overrides max_window_layers. */
pc_status pc__read_qwen_windows(const pc__config *config, pc__arch *arch);
/* layer_types, if given, must agree with these sets. */
pc_status pc__check_layer_types(const pc__config *config, const pc__arch *arch);

/* Fills what an architecture has. Name, vocabulary, token ids and causal are set already; v_dim and
 * embedding_dim have defaults. */
typedef pc_status pc__config_reader(const pc__config *config, pc__arch *arch);
pc__config_reader pc__read_llama, pc__read_mistral, pc__read_qwen2, pc__read_phi3;
pc__config_reader pc__read_qwen3, pc__read_olmo2, pc__read_granite, pc__read_smollm3;
pc__config_reader pc__read_ministral, pc__read_ministral3, pc__read_glm, pc__read_glm4;
pc__config_reader pc__read_gemma, pc__read_gemma2, pc__read_gemma3;
pc__config_reader pc__read_phi, pc__read_starcoder2, pc__read_stablelm, pc__read_nemotron;
pc__config_reader pc__read_cohere, pc__read_cohere2, pc__read_gpt_neox;
pc__config_reader pc__read_opt, pc__read_gpt2, pc__read_falcon, pc__read_bloom, pc__read_mpt;
pc__config_reader pc__read_mixtral, pc__read_qwen2_moe, pc__read_qwen3_moe, pc__read_deepseek;
pc__config_reader pc__read_deepseek_v2, pc__read_deepseek_v3;
pc__config_reader pc__read_llama4, pc__read_gpt_oss;
pc__config_reader pc__read_bert, pc__read_roberta, pc__read_deberta, pc__read_deberta_v2;

#endif
