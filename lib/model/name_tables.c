#include "model/name_tables.h"

#include <string.h>

#define PLAIN(name, part) {name, PC__PART_##part, PC__PLAIN, 0}
#define STACKED(name, part) {name, PC__PART_##part, PC__STACKED, 0}
#define GROUPED(name, part) {name, PC__PART_##part, PC__GROUPED, 0}
#define HALVES(name, part) {name, PC__PART_##part, PC__HALVES, 0}
#define TURNED(name, part, layout) {name, PC__PART_##part, layout, 1}
#define END {NULL, PC__PART_EMBEDDING, PC__PLAIN, 0}
#define HEAD PLAIN("=lm_head", HEAD)

/* Llama, Mistral, Qwen2; Phi-3 has its projections fused. */
static const pc__name_row llama[] = {
    PLAIN("embed_tokens", EMBEDDING), PLAIN("norm", FINAL_NORM), HEAD,
    PLAIN("layers.%d.input_layernorm", NORM1), PLAIN("layers.%d.post_attention_layernorm", NORM2),
    PLAIN("layers.%d.self_attn.q_proj", Q), PLAIN("layers.%d.self_attn.k_proj", K),
    PLAIN("layers.%d.self_attn.v_proj", V), PLAIN("layers.%d.self_attn.o_proj", O),
    PLAIN("layers.%d.mlp.gate_proj", GATE), PLAIN("layers.%d.mlp.up_proj", UP),
    PLAIN("layers.%d.mlp.down_proj", DOWN), END};
static const pc__name_row phi3[] = {
    PLAIN("embed_tokens", EMBEDDING), PLAIN("norm", FINAL_NORM), HEAD,
    PLAIN("layers.%d.input_layernorm", NORM1), PLAIN("layers.%d.post_attention_layernorm", NORM2),
    STACKED("layers.%d.self_attn.qkv_proj", Q), STACKED("layers.%d.self_attn.qkv_proj", K),
    STACKED("layers.%d.self_attn.qkv_proj", V), PLAIN("layers.%d.self_attn.o_proj", O),
    HALVES("layers.%d.mlp.gate_up_proj", GATE), HALVES("layers.%d.mlp.gate_up_proj", UP),
    PLAIN("layers.%d.mlp.down_proj", DOWN), END};
static const pc__name_row phi[] = {
    PLAIN("embed_tokens", EMBEDDING), PLAIN("final_layernorm", FINAL_NORM), HEAD,
    PLAIN("layers.%d.input_layernorm", NORM1), PLAIN("layers.%d.self_attn.q_proj", Q),
    PLAIN("layers.%d.self_attn.k_proj", K), PLAIN("layers.%d.self_attn.v_proj", V),
    PLAIN("layers.%d.self_attn.dense", O), PLAIN("layers.%d.mlp.fc1", UP),
    PLAIN("layers.%d.mlp.fc2", DOWN), END};
static const pc__name_row opt[] = {
    PLAIN("embed_tokens", EMBEDDING), PLAIN("embed_positions", POSITIONS),
    PLAIN("project_in", PROJECT_IN), PLAIN("project_out", PROJECT_OUT),
    PLAIN("final_layer_norm", FINAL_NORM), HEAD, PLAIN("layers.%d.self_attn_layer_norm", NORM1),
    PLAIN("layers.%d.final_layer_norm", NORM2), PLAIN("layers.%d.self_attn.q_proj", Q),
    PLAIN("layers.%d.self_attn.k_proj", K), PLAIN("layers.%d.self_attn.v_proj", V),
    PLAIN("layers.%d.self_attn.out_proj", O), PLAIN("layers.%d.fc1", UP),
    PLAIN("layers.%d.fc2", DOWN), END};
static const pc__name_row gpt2[] = {
    PLAIN("wte", EMBEDDING), PLAIN("wpe", POSITIONS), PLAIN("ln_f", FINAL_NORM), HEAD,
    PLAIN("h.%d.ln_1", NORM1), PLAIN("h.%d.ln_2", NORM2),
    TURNED("h.%d.attn.c_attn", Q, PC__STACKED), TURNED("h.%d.attn.c_attn", K, PC__STACKED),
    TURNED("h.%d.attn.c_attn", V, PC__STACKED), TURNED("h.%d.attn.c_proj", O, PC__PLAIN),
    TURNED("h.%d.mlp.c_fc", UP, PC__PLAIN), TURNED("h.%d.mlp.c_proj", DOWN, PC__PLAIN), END};
static const pc__name_row falcon[] = {
    PLAIN("word_embeddings", EMBEDDING), PLAIN("ln_f", FINAL_NORM), HEAD,
    PLAIN("h.%d.ln_attn", NORM1), PLAIN("h.%d.input_layernorm", NORM1), PLAIN("h.%d.ln_mlp", NORM2),
    PLAIN("h.%d.post_attention_layernorm", NORM2),
    GROUPED("h.%d.self_attention.query_key_value", Q),
    GROUPED("h.%d.self_attention.query_key_value", K),
    GROUPED("h.%d.self_attention.query_key_value", V), PLAIN("h.%d.self_attention.dense", O),
    PLAIN("h.%d.mlp.dense_h_to_4h", UP), PLAIN("h.%d.mlp.dense_4h_to_h", DOWN), END};
static const pc__name_row bloom[] = {
    PLAIN("word_embeddings", EMBEDDING), PLAIN("word_embeddings_layernorm", EMBEDDING_NORM),
    PLAIN("ln_f", FINAL_NORM), HEAD, PLAIN("h.%d.input_layernorm", NORM1),
    PLAIN("h.%d.post_attention_layernorm", NORM2),
    GROUPED("h.%d.self_attention.query_key_value", Q),
    GROUPED("h.%d.self_attention.query_key_value", K),
    GROUPED("h.%d.self_attention.query_key_value", V), PLAIN("h.%d.self_attention.dense", O),
    PLAIN("h.%d.mlp.dense_h_to_4h", UP), PLAIN("h.%d.mlp.dense_4h_to_h", DOWN), END};
static const pc__name_row mpt[] = {
    PLAIN("wte", EMBEDDING), PLAIN("norm_f", FINAL_NORM), HEAD, PLAIN("blocks.%d.norm_1", NORM1),
    PLAIN("blocks.%d.norm_2", NORM2), STACKED("blocks.%d.attn.Wqkv", Q),
    STACKED("blocks.%d.attn.Wqkv", K), STACKED("blocks.%d.attn.Wqkv", V),
    PLAIN("blocks.%d.attn.out_proj", O), PLAIN("blocks.%d.ffn.up_proj", UP),
    PLAIN("blocks.%d.ffn.down_proj", DOWN), END};

#define GGUF_ENDS \
    PLAIN("token_embd", EMBEDDING), PLAIN("output_norm", FINAL_NORM), PLAIN("output", HEAD)
#define GGUF_APART \
    PLAIN("blk.%d.attn_q", Q), PLAIN("blk.%d.attn_k", K), PLAIN("blk.%d.attn_v", V)
#define GGUF_FUSED \
    STACKED("blk.%d.attn_qkv", Q), STACKED("blk.%d.attn_qkv", K), STACKED("blk.%d.attn_qkv", V)
#define GGUF_BLOCK \
    PLAIN("blk.%d.attn_output", O), PLAIN("blk.%d.ffn_down", DOWN)

static const pc__name_row gguf_common[] = {
    GGUF_ENDS, PLAIN("position_embd", POSITIONS), PLAIN("token_embd_norm", EMBEDDING_NORM),
    PLAIN("blk.%d.attn_norm", NORM1), PLAIN("blk.%d.ffn_norm", NORM2), GGUF_APART, GGUF_FUSED,
    PLAIN("blk.%d.ffn_gate", GATE), PLAIN("blk.%d.ffn_up", UP), GGUF_BLOCK, END};
/* With two norms the one of the attention is the second. */
static const pc__name_row gguf_falcon[] = {
    GGUF_ENDS, PLAIN("blk.%d.attn_norm_2", NORM1), PLAIN("blk.%d.attn_norm", NORM1),
    PLAIN("blk.%d.attn_norm", NORM2), GGUF_FUSED, PLAIN("blk.%d.ffn_up", UP), GGUF_BLOCK, END};
static const pc__name_row gguf_phi3[] = {
    GGUF_ENDS, PLAIN("blk.%d.attn_norm", NORM1), PLAIN("blk.%d.ffn_norm", NORM2), GGUF_FUSED,
    GGUF_APART, HALVES("blk.%d.ffn_up", GATE), HALVES("blk.%d.ffn_up", UP), GGUF_BLOCK, END};

#define INV_FREQ ".rotary_emb.inv_freq"
static const pc__name_family families[] = {
    {{"llama", "mistral", "qwen2"}, PC__FORM_HF, {"model.", ""}, {INV_FREQ}, llama},
    {{"phi3"}, PC__FORM_HF, {"model.", ""}, {INV_FREQ}, phi3},
    {{"phi"}, PC__FORM_HF, {"model.", ""}, {INV_FREQ}, phi},
    {{"opt"}, PC__FORM_HF, {"model.decoder.", "decoder.", ""}, {NULL}, opt},
    /* the causal mask, which old files hold */
    {{"gpt2"}, PC__FORM_HF, {"transformer.", ""}, {".attn.bias", ".attn.masked_bias"}, gpt2},
    {{"falcon"}, PC__FORM_HF, {"transformer.", ""}, {INV_FREQ}, falcon},
    {{"bloom"}, PC__FORM_HF, {"transformer.", ""}, {NULL}, bloom},
    {{"mpt"}, PC__FORM_HF, {"transformer.", ""}, {NULL}, mpt},
    /* the factors of rope_freqs and rope_factors_* are part of the configuration */
    {{"llama", "qwen2", "phi2"},
     PC__FORM_GGUF,
     {""},
     {"rope_freqs.weight", ".attn_rot_embd.weight"},
     gguf_common},
    {{"mpt", "bloom", "gpt2"}, PC__FORM_GGUF, {""}, {NULL}, gguf_common},
    {{"falcon"}, PC__FORM_GGUF, {""}, {NULL}, gguf_falcon},
    {{"phi3"},
     PC__FORM_GGUF,
     {""},
     {"rope_factors_long.weight", "rope_factors_short.weight"},
     gguf_phi3},
};

const pc__name_family *pc__name_family_of(const char *architecture, pc__form form)
{
    for (size_t i = 0; i < sizeof families / sizeof *families; i++)
        for (size_t a = 0; a < 4 && families[i].architectures[a]; a++)
            if (families[i].form == form && !strcmp(families[i].architectures[a], architecture))
                return &families[i];
    return NULL;
}

const char *pc__part_name(pc__part part)
{
    static const char *const names[] = {
        [PC__PART_EMBEDDING] = "token embedding",
        [PC__PART_POSITIONS] = "position embedding",
        [PC__PART_PROJECT_IN] = "input projection",
        [PC__PART_PROJECT_OUT] = "output projection",
        [PC__PART_EMBEDDING_NORM] = "embedding norm",
        [PC__PART_FINAL_NORM] = "final norm",
        [PC__PART_HEAD] = "head",
        [PC__PART_NORM1] = "attention norm",
        [PC__PART_NORM2] = "MLP norm",
        [PC__PART_Q] = "attention query",
        [PC__PART_K] = "attention key",
        [PC__PART_V] = "attention value",
        [PC__PART_O] = "attention output",
        [PC__PART_GATE] = "MLP gate",
        [PC__PART_UP] = "MLP up",
        [PC__PART_DOWN] = "MLP down",
    };
    return names[part];
}
