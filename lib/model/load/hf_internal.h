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
/* A size from 1 to 2^31 - 1. */
pc_status pc__config_size(const pc__config *config, const char *key, int32_t *out);
/* An integer >= 0. *out stays if the key is missing, here and below. */
pc_status pc__config_maybe(const pc__config *config, const char *key, int32_t *out);
pc_status pc__config_flag(const pc__config *config, const char *key, int32_t *out);
pc_status pc__config_number(const pc__config *config, const char *key, double *out); /* finite */
/* PC_ERR_UNSUPPORTED: the flag exists and is not `want`; the key exists at all. */
pc_status pc__config_only(const pc__config *config, const char *key, int want);
pc_status pc__config_none(const pc__config *config, const char *key);
/* PC_ERR_UNSUPPORTED that shows the key's value. */
pc_status pc__config_refuse(const pc__config *config, const char *key);

/* Bits of arch->bias_roles. */
#define PC__BIT(role) (1u << PC__ROLE_##role)
enum {
    PC__BIAS_QKV = PC__BIT(Q) | PC__BIT(K) | PC__BIT(V),
    PC__BIAS_NORMS = PC__BIT(NORM1) | PC__BIT(NORM2) | PC__BIT(FINAL_NORM)
                     | PC__BIT(EMBEDDING_NORM),
    PC__BIAS_MLP = PC__BIT(GATE) | PC__BIT(UP) | PC__BIT(DOWN),
    PC__BIAS_LINEAR = PC__BIAS_QKV | PC__BIT(O) | PC__BIT(UP) | PC__BIT(DOWN)
};

/* The activation that the key names; `fallback` if it is missing. */
pc_status pc__config_activation(const pc__config *config, const char *key, pc__activation fallback,
                                pc__activation *out);
pc_status pc__config_eps(const pc__config *config, const char *key, double fallback,
                         pc__arch *arch);
/* Reads head_dim; hidden / heads if it is missing. */
pc_status pc__config_head_dim(const pc__config *config, pc__arch *arch);
/* Width, layers, heads and head_dim under their usual keys, and under these keys (NULL: not there)
 * the width of the MLP and the context length. */
pc_status pc__config_sizes(const pc__config *config, const char *mlp, const char *context,
                           pc__arch *arch);

/* Fills arch->rope. head_dim and context_length must be set; context_length becomes the one that
 * the scaling is for. `partial`: the architecture's rotated share of a head. */
pc_status pc__read_rope(const pc__config *config, double partial, pc__arch *arch);

/* Reads the keys of Llama and models like it. `eps` and `partial` (rotated share of a head) are
 * defaults. */
pc_status pc__read_llama_like(const pc__config *config, double eps, double partial, pc__arch *arch);
/* layer_types, if given, must agree with window and window_from. */
pc_status pc__check_layer_types(const pc__config *config, const pc__arch *arch);

/* Fills what an architecture has. Name, vocabulary, token ids and causal are set already; v_dim and
 * embedding_dim have defaults. */
typedef pc_status pc__config_reader(const pc__config *config, pc__arch *arch);
pc__config_reader pc__read_llama, pc__read_mistral, pc__read_qwen2, pc__read_phi, pc__read_phi3;
pc__config_reader pc__read_opt, pc__read_gpt2, pc__read_falcon, pc__read_bloom, pc__read_mpt;
pc__config_reader pc__read_mixtral, pc__read_qwen2_moe, pc__read_deepseek;
pc__config_reader pc__read_bert, pc__read_roberta, pc__read_deberta, pc__read_deberta_v2;

#endif
