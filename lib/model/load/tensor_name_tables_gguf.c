/* Tables of tensor names of GGUF files, one an architecture: what the usual converter calls the
 * roles. */
#include "model/load/tensor_name_rows.h"

/* clang-format off */
#define GGUF_ENDS \
    PLAIN("token_embd", EMBEDDING), PLAIN("output_norm", FINAL_NORM), PLAIN("output", HEAD)
#define GGUF_FUSED \
    STACKED("blk.%d.attn_qkv", Q), STACKED("blk.%d.attn_qkv", K), STACKED("blk.%d.attn_qkv", V)
/* Newer files may have any architecture's queries, keys and values in one matrix. */
#define GGUF_QKV \
    PLAIN("blk.%d.attn_q", Q), PLAIN("blk.%d.attn_k", K), PLAIN("blk.%d.attn_v", V), GGUF_FUSED, \
    PLAIN("blk.%d.attn_q_norm", Q_NORM), PLAIN("blk.%d.attn_k_norm", K_NORM)
#define GGUF_BLOCK PLAIN("blk.%d.attn_output", O), PLAIN("blk.%d.ffn_down", DOWN)
#define GGUF_NORMS PLAIN("blk.%d.attn_norm", NORM1), PLAIN("blk.%d.ffn_norm", NORM2)
#define GGUF_OUTPUT_NORMS \
    PLAIN("blk.%d.post_attention_norm", OUTPUT_NORM1), PLAIN("blk.%d.post_ffw_norm", OUTPUT_NORM2)
#define GGUF_APART PLAIN("blk.%d.ffn_gate", GATE), PLAIN("blk.%d.ffn_up", UP)
#define GGUF_GATE_UP HALVES("blk.%d.ffn_up", GATE), HALVES("blk.%d.ffn_up", UP)
#define GGUF_EXPERTS \
    PLAIN("blk.%d.ffn_gate_inp", ROUTER), PLAIN("blk.%d.exp_probs_b", SELECTION_BIAS), \
    PLAIN("blk.%d.ffn_gate_exps", EXPERT_GATE), PLAIN("blk.%d.ffn_up_exps", EXPERT_UP), \
    HALVES("blk.%d.ffn_gate_up_exps", EXPERT_GATE), HALVES("blk.%d.ffn_gate_up_exps", EXPERT_UP), \
    PLAIN("blk.%d.ffn_down_exps", EXPERT_DOWN)

static const pc__tensor_name_row gguf_common[] = {
    GGUF_ENDS, PLAIN("position_embd", POSITIONS), PLAIN("token_embd_norm", EMBEDDING_NORM),
    GGUF_NORMS, GGUF_OUTPUT_NORMS, GGUF_QKV, GGUF_APART, GGUF_BLOCK, END};
/* Files of Mixtral before 2024 have numbered experts. */
#define GGUF_SHARED \
    PLAIN("blk.%d.ffn_gate_shexp", GATE), PLAIN("blk.%d.ffn_up_shexp", UP), \
    PLAIN("blk.%d.ffn_down_shexp", DOWN), PLAIN("blk.%d.ffn_gate_inp_shexp", SHARED_SCALE)
static const pc__tensor_name_row gguf_experts[] = {
    GGUF_ENDS, GGUF_NORMS, GGUF_QKV, GGUF_APART, GGUF_BLOCK, GGUF_EXPERTS, GGUF_SHARED,
    NUMBERED("blk.%d.ffn_gate.%d", EXPERT_GATE), NUMBERED("blk.%d.ffn_up.%d", EXPERT_UP),
    NUMBERED("blk.%d.ffn_down.%d", EXPERT_DOWN), END};
/* The projection from latents is one matrix in files before May 2025. Later that of keys is
 * transposed, head by head. */
static const pc__tensor_name_row gguf_latent[] = {
    GGUF_ENDS, GGUF_NORMS, PLAIN("blk.%d.attn_q_b", Q), PLAIN("blk.%d.attn_q", Q),
    PLAIN("blk.%d.attn_q_a", Q_A), PLAIN("blk.%d.attn_q_a_norm", Q_NORM),
    PLAIN("blk.%d.attn_kv_a_mqa", KV_A), PLAIN("blk.%d.attn_kv_a_norm", K_NORM),
    PLAIN("blk.%d.attn_kv_b", KV_B), TRANSPOSED("blk.%d.attn_k_b", K_B, PC__LAYOUT_PLAIN),
    PLAIN("blk.%d.attn_v_b", V_B), GGUF_APART, GGUF_BLOCK, GGUF_EXPERTS, GGUF_SHARED, END};
/* What is a norm of attention's result elsewhere is that of the MLP's input here. */
static const pc__tensor_name_row gguf_gpt_oss[] = {
    GGUF_ENDS, PLAIN("blk.%d.attn_norm", NORM1), PLAIN("blk.%d.post_attention_norm", NORM2),
    GGUF_QKV, PLAIN("blk.%d.attn_sinks", SINKS), PLAIN("blk.%d.attn_output", O), GGUF_EXPERTS,
    END};
/* If there are two norms, the second is the attention's. */
static const pc__tensor_name_row gguf_falcon[] = {
    GGUF_ENDS, PLAIN("blk.%d.attn_norm_2", NORM1), PLAIN("blk.%d.attn_norm", NORM1),
    PLAIN("blk.%d.attn_norm", NORM2), GGUF_FUSED, PLAIN("blk.%d.ffn_up", UP), GGUF_BLOCK, END};
static const pc__tensor_name_row gguf_gate_up[] = {
    GGUF_ENDS, GGUF_NORMS, GGUF_OUTPUT_NORMS, GGUF_QKV, GGUF_GATE_UP, GGUF_BLOCK, END};

/* rope_freqs and rope_factors_* belong to the configuration */
#define FACTORS "rope_freqs.weight", ".attn_rot_embd.weight", "rope_factors_long.weight", \
    "rope_factors_short.weight"
const pc__tensor_name_family pc__gguf_name_families[] = {
    {{"llama", "mistral3", "smollm3", "granite", "qwen2", "qwen3", "phi2"}, PC__NAMING_GGUF, {""},
     {FACTORS}, gguf_common},
    {{"gemma", "gemma2", "gemma3", "olmo2", "command-r", "cohere2", "stablelm"}, PC__NAMING_GGUF,
     {""}, {FACTORS}, gguf_common},
    {{"starcoder2", "nemotron", "gptneox"}, PC__NAMING_GGUF, {""}, {FACTORS}, gguf_common},
    {{"mixtral", "qwen2moe", "qwen3moe", "deepseek", "llama4", "granitemoe"}, PC__NAMING_GGUF, {""},
     {FACTORS}, gguf_experts},
    {{"deepseek2"}, PC__NAMING_GGUF, {""}, {FACTORS}, gguf_latent},
    {{"gpt-oss"}, PC__NAMING_GGUF, {""}, {FACTORS}, gguf_gpt_oss},
    {{"mpt", "bloom", "gpt2"}, PC__NAMING_GGUF, {""}, {NULL}, gguf_common},
    {{"falcon"}, PC__NAMING_GGUF, {""}, {NULL}, gguf_falcon},
    {{"phi3", "glm4"}, PC__NAMING_GGUF, {""}, {FACTORS}, gguf_gate_up},
    {{NULL}, PC__NAMING_GGUF, {NULL}, {NULL}, NULL}
};
/* clang-format on */
