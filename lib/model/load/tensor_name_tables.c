/* Tables of tensor names, one an architecture and kind of file. */
#include "model/load/tensor_name_tables.h"

#include <string.h>

/* clang-format off */
#define PLAIN(name, role) {name, PC__ROLE_##role, PC__LAYOUT_PLAIN, 0}
#define STACKED(name, role) {name, PC__ROLE_##role, PC__LAYOUT_STACKED, 0}
#define GROUPED(name, role) {name, PC__ROLE_##role, PC__LAYOUT_GROUPED, 0}
#define HALVES(name, role) {name, PC__ROLE_##role, PC__LAYOUT_HALVES, 0}
#define TRANSPOSED(name, role, layout) {name, PC__ROLE_##role, layout, 1}
#define NUMBERED(name, role) {name, PC__ROLE_##role, PC__LAYOUT_NUMBERED, 0}
#define END {NULL, PC__ROLE_EMBEDDING, PC__LAYOUT_PLAIN, 0}
#define HEAD PLAIN("=lm_head", HEAD)

/* Llama, Mistral, Qwen2; what Phi-3 shares; what models with experts share. */
#define LLAMA_ENDS \
    PLAIN("embed_tokens", EMBEDDING), PLAIN("norm", FINAL_NORM), HEAD, \
    PLAIN("layers.%d.input_layernorm", NORM1), \
    PLAIN("layers.%d.post_attention_layernorm", NORM2), PLAIN("layers.%d.self_attn.o_proj", O)
#define LLAMA_REST \
    LLAMA_ENDS, PLAIN("layers.%d.self_attn.q_proj", Q), PLAIN("layers.%d.self_attn.k_proj", K), \
    PLAIN("layers.%d.self_attn.v_proj", V)
#define LLAMA_MLP(shared) \
    PLAIN("layers.%d.mlp." shared "gate_proj", GATE), \
    PLAIN("layers.%d.mlp." shared "up_proj", UP), \
    PLAIN("layers.%d.mlp." shared "down_proj", DOWN)
static const pc__tensor_name_row llama[] = {LLAMA_REST, LLAMA_MLP(""), END};
static const pc__tensor_name_row mixtral[] = {
    LLAMA_REST, PLAIN("layers.%d.block_sparse_moe.gate", ROUTER),
    NUMBERED("layers.%d.block_sparse_moe.experts.%d.w1", EXPERT_GATE),
    NUMBERED("layers.%d.block_sparse_moe.experts.%d.w3", EXPERT_UP),
    NUMBERED("layers.%d.block_sparse_moe.experts.%d.w2", EXPERT_DOWN), END};
#define LLAMA_EXPERTS(shared) \
    LLAMA_REST, LLAMA_MLP(""), PLAIN("layers.%d.mlp.gate", ROUTER), \
    NUMBERED("layers.%d.mlp.experts.%d.gate_proj", EXPERT_GATE), \
    NUMBERED("layers.%d.mlp.experts.%d.up_proj", EXPERT_UP), \
    NUMBERED("layers.%d.mlp.experts.%d.down_proj", EXPERT_DOWN), LLAMA_MLP(shared ".")
static const pc__tensor_name_row qwen2_moe[] = {
    LLAMA_EXPERTS("shared_expert"), PLAIN("layers.%d.mlp.shared_expert_gate", SHARED_SCALE), END};
static const pc__tensor_name_row deepseek[] = {LLAMA_EXPERTS("shared_experts"), END};
static const pc__tensor_name_row phi3[] = {
    LLAMA_ENDS, STACKED("layers.%d.self_attn.qkv_proj", Q),
    STACKED("layers.%d.self_attn.qkv_proj", K), STACKED("layers.%d.self_attn.qkv_proj", V),
    HALVES("layers.%d.mlp.gate_up_proj", GATE), HALVES("layers.%d.mlp.gate_up_proj", UP),
    PLAIN("layers.%d.mlp.down_proj", DOWN), END};
static const pc__tensor_name_row phi[] = {
    PLAIN("embed_tokens", EMBEDDING), PLAIN("final_layernorm", FINAL_NORM), HEAD,
    PLAIN("layers.%d.input_layernorm", NORM1), PLAIN("layers.%d.self_attn.q_proj", Q),
    PLAIN("layers.%d.self_attn.k_proj", K), PLAIN("layers.%d.self_attn.v_proj", V),
    PLAIN("layers.%d.self_attn.dense", O), PLAIN("layers.%d.mlp.fc1", UP),
    PLAIN("layers.%d.mlp.fc2", DOWN), END};
static const pc__tensor_name_row opt[] = {
    PLAIN("embed_tokens", EMBEDDING), PLAIN("embed_positions", POSITIONS),
    PLAIN("project_in", PROJECT_IN), PLAIN("project_out", PROJECT_OUT),
    PLAIN("final_layer_norm", FINAL_NORM), HEAD, PLAIN("layers.%d.self_attn_layer_norm", NORM1),
    PLAIN("layers.%d.final_layer_norm", NORM2), PLAIN("layers.%d.self_attn.q_proj", Q),
    PLAIN("layers.%d.self_attn.k_proj", K), PLAIN("layers.%d.self_attn.v_proj", V),
    PLAIN("layers.%d.self_attn.out_proj", O), PLAIN("layers.%d.fc1", UP),
    PLAIN("layers.%d.fc2", DOWN), END};
static const pc__tensor_name_row gpt2[] = {
    PLAIN("wte", EMBEDDING), PLAIN("wpe", POSITIONS), PLAIN("ln_f", FINAL_NORM), HEAD,
    PLAIN("h.%d.ln_1", NORM1), PLAIN("h.%d.ln_2", NORM2),
    TRANSPOSED("h.%d.attn.c_attn", Q, PC__LAYOUT_STACKED),
    TRANSPOSED("h.%d.attn.c_attn", K, PC__LAYOUT_STACKED),
    TRANSPOSED("h.%d.attn.c_attn", V, PC__LAYOUT_STACKED),
    TRANSPOSED("h.%d.attn.c_proj", O, PC__LAYOUT_PLAIN),
    TRANSPOSED("h.%d.mlp.c_fc", UP, PC__LAYOUT_PLAIN),
    TRANSPOSED("h.%d.mlp.c_proj", DOWN, PC__LAYOUT_PLAIN), END};
/* What Falcon and Bloom share. */
#define FALCON_REST \
    PLAIN("word_embeddings", EMBEDDING), PLAIN("ln_f", FINAL_NORM), HEAD, \
    PLAIN("h.%d.input_layernorm", NORM1), PLAIN("h.%d.post_attention_layernorm", NORM2), \
    GROUPED("h.%d.self_attention.query_key_value", Q), \
    GROUPED("h.%d.self_attention.query_key_value", K), \
    GROUPED("h.%d.self_attention.query_key_value", V), PLAIN("h.%d.self_attention.dense", O), \
    PLAIN("h.%d.mlp.dense_h_to_4h", UP), PLAIN("h.%d.mlp.dense_4h_to_h", DOWN)
static const pc__tensor_name_row falcon[] = {
    PLAIN("h.%d.ln_attn", NORM1), PLAIN("h.%d.ln_mlp", NORM2), FALCON_REST, END};
static const pc__tensor_name_row bloom[] = {
    PLAIN("word_embeddings_layernorm", EMBEDDING_NORM), FALCON_REST, END};
static const pc__tensor_name_row mpt[] = {
    PLAIN("wte", EMBEDDING), PLAIN("norm_f", FINAL_NORM), HEAD, PLAIN("blocks.%d.norm_1", NORM1),
    PLAIN("blocks.%d.norm_2", NORM2), STACKED("blocks.%d.attn.Wqkv", Q),
    STACKED("blocks.%d.attn.Wqkv", K), STACKED("blocks.%d.attn.Wqkv", V),
    PLAIN("blocks.%d.attn.out_proj", O), PLAIN("blocks.%d.ffn.up_proj", UP),
    PLAIN("blocks.%d.ffn.down_proj", DOWN), END};

#define GGUF_ENDS \
    PLAIN("token_embd", EMBEDDING), PLAIN("output_norm", FINAL_NORM), PLAIN("output", HEAD)
#define GGUF_APART PLAIN("blk.%d.attn_q", Q), PLAIN("blk.%d.attn_k", K), PLAIN("blk.%d.attn_v", V)
#define GGUF_FUSED \
    STACKED("blk.%d.attn_qkv", Q), STACKED("blk.%d.attn_qkv", K), STACKED("blk.%d.attn_qkv", V)
#define GGUF_BLOCK PLAIN("blk.%d.attn_output", O), PLAIN("blk.%d.ffn_down", DOWN)

static const pc__tensor_name_row gguf_common[] = {
    GGUF_ENDS, PLAIN("position_embd", POSITIONS), PLAIN("token_embd_norm", EMBEDDING_NORM),
    PLAIN("blk.%d.attn_norm", NORM1), PLAIN("blk.%d.ffn_norm", NORM2), GGUF_APART, GGUF_FUSED,
    PLAIN("blk.%d.ffn_gate", GATE), PLAIN("blk.%d.ffn_up", UP), GGUF_BLOCK, END};
/* Files of Mixtral before 2024 have numbered experts. */
static const pc__tensor_name_row gguf_experts[] = {
    GGUF_ENDS, PLAIN("blk.%d.attn_norm", NORM1), PLAIN("blk.%d.ffn_norm", NORM2), GGUF_APART,
    PLAIN("blk.%d.ffn_gate", GATE), PLAIN("blk.%d.ffn_up", UP), GGUF_BLOCK,
    PLAIN("blk.%d.ffn_gate_inp", ROUTER), PLAIN("blk.%d.ffn_gate_exps", EXPERT_GATE),
    PLAIN("blk.%d.ffn_up_exps", EXPERT_UP), PLAIN("blk.%d.ffn_down_exps", EXPERT_DOWN),
    NUMBERED("blk.%d.ffn_gate.%d", EXPERT_GATE), NUMBERED("blk.%d.ffn_up.%d", EXPERT_UP),
    NUMBERED("blk.%d.ffn_down.%d", EXPERT_DOWN), PLAIN("blk.%d.ffn_gate_shexp", GATE),
    PLAIN("blk.%d.ffn_up_shexp", UP), PLAIN("blk.%d.ffn_down_shexp", DOWN),
    PLAIN("blk.%d.ffn_gate_inp_shexp", SHARED_SCALE), END};
/* If there are two norms, the second is the attention's. */
static const pc__tensor_name_row gguf_falcon[] = {
    GGUF_ENDS, PLAIN("blk.%d.attn_norm_2", NORM1), PLAIN("blk.%d.attn_norm", NORM1),
    PLAIN("blk.%d.attn_norm", NORM2), GGUF_FUSED, PLAIN("blk.%d.ffn_up", UP), GGUF_BLOCK, END};
static const pc__tensor_name_row gguf_phi3[] = {
    GGUF_ENDS, PLAIN("blk.%d.attn_norm", NORM1), PLAIN("blk.%d.ffn_norm", NORM2), GGUF_FUSED,
    GGUF_APART, HALVES("blk.%d.ffn_up", GATE), HALVES("blk.%d.ffn_up", UP), GGUF_BLOCK, END};

/* Encoders. RoBERTa's classifier contains the pooler. */
#define ENCODER_EMBEDDINGS \
    PLAIN("embeddings.word_embeddings", EMBEDDING), \
    PLAIN("embeddings.position_embeddings", POSITIONS), \
    PLAIN("embeddings.token_type_embeddings", TYPES), \
    PLAIN("embeddings.LayerNorm", EMBEDDING_NORM)
#define ENCODER_BLOCK \
    PLAIN("encoder.layer.%d.attention.output.dense", O), \
    PLAIN("encoder.layer.%d.attention.output.LayerNorm", NORM1), \
    PLAIN("encoder.layer.%d.intermediate.dense", UP), \
    PLAIN("encoder.layer.%d.output.dense", DOWN), \
    PLAIN("encoder.layer.%d.output.LayerNorm", NORM2)
#define BERT_SELF \
    PLAIN("encoder.layer.%d.attention.self.query", Q), \
    PLAIN("encoder.layer.%d.attention.self.key", K), \
    PLAIN("encoder.layer.%d.attention.self.value", V)

static const pc__tensor_name_row bert[] = {
    ENCODER_EMBEDDINGS, BERT_SELF, ENCODER_BLOCK, PLAIN("pooler.dense", POOL),
    PLAIN("=classifier", CLASSIFIER), END};
static const pc__tensor_name_row roberta[] = {
    ENCODER_EMBEDDINGS, BERT_SELF, ENCODER_BLOCK, PLAIN("=classifier.dense", POOL),
    PLAIN("pooler.dense", POOL), PLAIN("=classifier.out_proj", CLASSIFIER), END};
static const pc__tensor_name_row deberta[] = {
    ENCODER_EMBEDDINGS, ENCODER_BLOCK, PLAIN("encoder.rel_embeddings", RELATIVE),
    GROUPED("encoder.layer.%d.attention.self.in_proj", Q),
    GROUPED("encoder.layer.%d.attention.self.in_proj", K),
    GROUPED("encoder.layer.%d.attention.self.in_proj", V),
    PLAIN("!encoder.layer.%d.attention.self.q_bias", Q),
    PLAIN("!encoder.layer.%d.attention.self.v_bias", V),
    PLAIN("encoder.layer.%d.attention.self.pos_proj", POSITION_K),
    PLAIN("encoder.layer.%d.attention.self.pos_q_proj", POSITION_Q), PLAIN("=pooler.dense", POOL),
    PLAIN("=classifier", CLASSIFIER), END};
static const pc__tensor_name_row deberta_v2[] = {
    ENCODER_EMBEDDINGS, ENCODER_BLOCK, PLAIN("encoder.rel_embeddings", RELATIVE),
    PLAIN("encoder.LayerNorm", RELATIVE_NORM), PLAIN("encoder.conv.conv", CONV),
    PLAIN("encoder.conv.LayerNorm", CONV_NORM),
    PLAIN("encoder.layer.%d.attention.self.query_proj", Q),
    PLAIN("encoder.layer.%d.attention.self.key_proj", K),
    PLAIN("encoder.layer.%d.attention.self.value_proj", V),
    PLAIN("encoder.layer.%d.attention.self.pos_key_proj", POSITION_K),
    PLAIN("encoder.layer.%d.attention.self.pos_query_proj", POSITION_Q),
    PLAIN("=pooler.dense", POOL), PLAIN("=classifier", CLASSIFIER), END};

#define INV_FREQ ".rotary_emb.inv_freq"
static const pc__tensor_name_family families[] = {
    {{"llama", "mistral", "qwen2"}, PC__NAMING_HF, {"model.", ""}, {INV_FREQ}, llama},
    {{"mixtral"}, PC__NAMING_HF, {"model.", ""}, {INV_FREQ}, mixtral},
    {{"qwen2_moe"}, PC__NAMING_HF, {"model.", ""}, {INV_FREQ}, qwen2_moe},
    {{"deepseek"}, PC__NAMING_HF, {"model.", ""}, {INV_FREQ}, deepseek},
    {{"phi3"}, PC__NAMING_HF, {"model.", ""}, {INV_FREQ}, phi3},
    {{"phi"}, PC__NAMING_HF, {"model.", ""}, {INV_FREQ}, phi},
    {{"opt"}, PC__NAMING_HF, {"model.decoder.", "decoder.", ""}, {NULL}, opt},
    /* old files contain the causal mask */
    {{"gpt2"}, PC__NAMING_HF, {"transformer.", ""}, {".attn.bias", ".attn.masked_bias"}, gpt2},
    {{"falcon"}, PC__NAMING_HF, {"transformer.", ""}, {INV_FREQ}, falcon},
    {{"bloom"}, PC__NAMING_HF, {"transformer.", ""}, {NULL}, bloom},
    {{"mpt"}, PC__NAMING_HF, {"transformer.", ""}, {NULL}, mpt},
    /* position numbers; the head that predicts masked words */
    {{"bert"}, PC__NAMING_HF, {"bert.", ""}, {"embeddings.position_ids", "^cls."}, bert},
    {{"roberta", "xlm-roberta", "camembert"}, PC__NAMING_HF, {"roberta.", ""},
     {"embeddings.position_ids", "^lm_head."}, roberta},
    {{"deberta"}, PC__NAMING_HF, {"deberta.", ""}, {"embeddings.position_ids", "^cls.",
     "^lm_predictions."}, deberta},
    {{"deberta-v2"}, PC__NAMING_HF, {"deberta.", ""}, {"embeddings.position_ids", "^cls.",
     "^lm_predictions.", "^mask_predictions."}, deberta_v2},
    /* rope_freqs and rope_factors_* belong to the configuration */
    {{"llama", "qwen2", "phi2"}, PC__NAMING_GGUF, {""}, {"rope_freqs.weight",
     ".attn_rot_embd.weight"}, gguf_common},
    {{"mixtral", "qwen2moe", "deepseek"}, PC__NAMING_GGUF, {""}, {"rope_freqs.weight",
     ".attn_rot_embd.weight"}, gguf_experts},
    {{"mpt", "bloom", "gpt2"}, PC__NAMING_GGUF, {""}, {NULL}, gguf_common},
    {{"falcon"}, PC__NAMING_GGUF, {""}, {NULL}, gguf_falcon},
    {{"phi3"}, PC__NAMING_GGUF, {""}, {"rope_factors_long.weight", "rope_factors_short.weight"},
     gguf_phi3},
};
/* clang-format on */

const pc__tensor_name_family *pc__tensor_name_family_of(const char *architecture,
                                                        pc__tensor_naming naming)
{
    for (size_t i = 0; i < sizeof families / sizeof *families; i++)
        for (size_t a = 0; a < 4 && families[i].architectures[a]; a++)
            if (families[i].naming == naming && !strcmp(families[i].architectures[a], architecture))
                return &families[i];
    return NULL;
}

const char *pc__tensor_role_name(pc__tensor_role role)
{
    /* clang-format off */
    static const char *const names[] = {
        [PC__ROLE_EMBEDDING] = "token embedding", [PC__ROLE_POSITIONS] = "position embedding",
        [PC__ROLE_PROJECT_IN] = "input projection", [PC__ROLE_PROJECT_OUT] = "output projection",
        [PC__ROLE_EMBEDDING_NORM] = "embedding norm", [PC__ROLE_FINAL_NORM] = "final norm",
        [PC__ROLE_HEAD] = "head", [PC__ROLE_NORM1] = "attention norm",
        [PC__ROLE_NORM2] = "MLP norm", [PC__ROLE_Q] = "attention query",
        [PC__ROLE_K] = "attention key", [PC__ROLE_V] = "attention value",
        [PC__ROLE_O] = "attention output", [PC__ROLE_GATE] = "MLP gate", [PC__ROLE_UP] = "MLP up",
        [PC__ROLE_DOWN] = "MLP down", [PC__ROLE_POSITION_K] = "key of a distance",
        [PC__ROLE_POSITION_Q] = "query of a distance", [PC__ROLE_TYPES] = "token type embedding",
        [PC__ROLE_RELATIVE] = "embedding of distances",
        [PC__ROLE_RELATIVE_NORM] = "norm of distances", [PC__ROLE_CONV] = "convolution",
        [PC__ROLE_CONV_NORM] = "convolution norm", [PC__ROLE_POOL] = "pooler",
        [PC__ROLE_CLASSIFIER] = "classifier", [PC__ROLE_ROUTER] = "router",
        [PC__ROLE_EXPERT_GATE] = "experts' gate", [PC__ROLE_EXPERT_UP] = "experts' up",
        [PC__ROLE_EXPERT_DOWN] = "experts' down",
        [PC__ROLE_SHARED_SCALE] = "gate of the shared expert"
    };
    /* clang-format on */
    return names[role];
}
