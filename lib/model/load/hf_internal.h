/* What the readers of config.json share (hf_config.c), and the readers, one an architecture
 * (hf_llama.c, hf_classic.c, hf_experts.c, hf_encoder.c). */
#ifndef PC_MODEL_HF_INTERNAL_H
#define PC_MODEL_HF_INTERNAL_H

#include "model/load/arch.h"
#include "model/load/json_config.h"
#include "model/load/tensor_role.h"

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

/* Reads the keys of Llama and models like it. `eps` and `partial` (rotated share of a head) are
 * defaults. */
pc_status pc__read_llama_like(const pc__config *config, const pc_allocator *mem, double eps,
                              double partial, pc__arch *arch);
/* layer_types, if given, must agree with window and window_from. */
pc_status pc__check_layer_types(const pc__config *config, const pc__arch *arch);

/* Each fills what its architecture has. Name, vocabulary, token ids and causal are set already;
 * v_dim and embedding_dim have defaults. */
pc_status pc__read_llama(const pc__config *config, const pc_allocator *mem, pc__arch *arch);
pc_status pc__read_mistral(const pc__config *config, const pc_allocator *mem, pc__arch *arch);
pc_status pc__read_qwen2(const pc__config *config, const pc_allocator *mem, pc__arch *arch);
pc_status pc__read_phi(const pc__config *config, const pc_allocator *mem, pc__arch *arch);
pc_status pc__read_phi3(const pc__config *config, const pc_allocator *mem, pc__arch *arch);
pc_status pc__read_opt(const pc__config *config, const pc_allocator *mem, pc__arch *arch);
pc_status pc__read_gpt2(const pc__config *config, const pc_allocator *mem, pc__arch *arch);
pc_status pc__read_falcon(const pc__config *config, const pc_allocator *mem, pc__arch *arch);
pc_status pc__read_bloom(const pc__config *config, const pc_allocator *mem, pc__arch *arch);
/* Encoders (hf_encoder.c). */
pc_status pc__read_bert(const pc__config *config, const pc_allocator *mem, pc__arch *arch);
pc_status pc__read_roberta(const pc__config *config, const pc_allocator *mem, pc__arch *arch);
pc_status pc__read_deberta(const pc__config *config, const pc_allocator *mem, pc__arch *arch);
pc_status pc__read_deberta_v2(const pc__config *config, const pc_allocator *mem, pc__arch *arch);
pc_status pc__read_mpt(const pc__config *config, const pc_allocator *mem, pc__arch *arch);
pc_status pc__read_mixtral(const pc__config *config, const pc_allocator *mem, pc__arch *arch);
pc_status pc__read_qwen2_moe(const pc__config *config, const pc_allocator *mem, pc__arch *arch);
pc_status pc__read_deepseek(const pc__config *config, const pc_allocator *mem, pc__arch *arch);

#endif
