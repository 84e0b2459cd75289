/* Tables of tensor names of Hugging Face folders, one an architecture; those of GGUF files are in
 * tensor_name_tables_gguf.c. */
#include "model/load/tensor_name_tables.h"

#include <string.h>

#include "model/load/tensor_name_rows.h"

/* clang-format off */
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
#define QK_NORMS(q, k) \
    PLAIN("layers.%d.self_attn." q, Q_NORM), PLAIN("layers.%d.self_attn." k, K_NORM)
#define OUTPUT_NORMS(attention, mlp) \
    PLAIN("layers.%d." attention, OUTPUT_NORM1), PLAIN("layers.%d." mlp, OUTPUT_NORM2)
/* Llama's layers with other norms. */
#define LLAMA_BODY \
    PLAIN("embed_tokens", EMBEDDING), PLAIN("norm", FINAL_NORM), HEAD, \
    PLAIN("layers.%d.self_attn.q_proj", Q), PLAIN("layers.%d.self_attn.k_proj", K), \
    PLAIN("layers.%d.self_attn.v_proj", V), PLAIN("layers.%d.self_attn.o_proj", O)
#define INV_FREQ ".rotary_emb.inv_freq"
/* Text parts of models with images. */
#define TEXT_PREFIXES {"model.", "", "language_model.model.", "model.language_model."}
#define TEXT_IGNORED \
    {INV_FREQ, "^vision_tower.", "^multi_modal_projector.", "^model.vision_tower.", \
     "^model.multi_modal_projector.", "^vision_model.", "^model.vision_model."}
#define TEXT_HEAD PLAIN("=language_model.lm_head", HEAD)
static const pc__tensor_name_row mistral[] = {LLAMA_REST, LLAMA_MLP(""), TEXT_HEAD, END};
static const pc__tensor_name_row qwen3[] = {
    LLAMA_REST, LLAMA_MLP(""), QK_NORMS("q_norm", "k_norm"), END};
static const pc__tensor_name_row gemma2[] = {
    LLAMA_BODY, TEXT_HEAD, LLAMA_MLP(""), QK_NORMS("q_norm", "k_norm"),
    PLAIN("layers.%d.input_layernorm", NORM1), PLAIN("layers.%d.pre_feedforward_layernorm", NORM2),
    OUTPUT_NORMS("post_attention_layernorm", "post_feedforward_layernorm"), END};
static const pc__tensor_name_row olmo2[] = {
    LLAMA_BODY, LLAMA_MLP(""), QK_NORMS("q_norm", "k_norm"),
    OUTPUT_NORMS("post_attention_layernorm", "post_feedforward_layernorm"), END};
static const pc__tensor_name_row starcoder2[] = {
    LLAMA_REST, PLAIN("layers.%d.mlp.c_fc", UP), PLAIN("layers.%d.mlp.c_proj", DOWN), END};
static const pc__tensor_name_row stablelm[] = {
    LLAMA_REST, LLAMA_MLP(""), NUMBERED("layers.%d.self_attn.q_layernorm.norms.%d", Q_NORM),
    NUMBERED("layers.%d.self_attn.k_layernorm.norms.%d", K_NORM), END};
static const pc__tensor_name_row glm4[] = {
    LLAMA_REST, HALVES("layers.%d.mlp.gate_up_proj", GATE),
    HALVES("layers.%d.mlp.gate_up_proj", UP), PLAIN("layers.%d.mlp.down_proj", DOWN),
    OUTPUT_NORMS("post_self_attn_layernorm", "post_mlp_layernorm"), END};
static const pc__tensor_name_row llama4[] = {
    LLAMA_REST, TEXT_HEAD, PLAIN("layers.%d.feed_forward.gate_proj", GATE),
    PLAIN("layers.%d.feed_forward.up_proj", UP), PLAIN("layers.%d.feed_forward.down_proj", DOWN),
    PLAIN("layers.%d.feed_forward.router", ROUTER),
    PLAIN("layers.%d.feed_forward.shared_expert.gate_proj", GATE),
    PLAIN("layers.%d.feed_forward.shared_expert.up_proj", UP),
    PLAIN("layers.%d.feed_forward.shared_expert.down_proj", DOWN),
    TRANSPOSED("#layers.%d.feed_forward.experts.gate_up_proj", EXPERT_GATE, PC__LAYOUT_HALVES),
    TRANSPOSED("#layers.%d.feed_forward.experts.gate_up_proj", EXPERT_UP, PC__LAYOUT_HALVES),
    TRANSPOSED("#layers.%d.feed_forward.experts.down_proj", EXPERT_DOWN, PC__LAYOUT_PLAIN), END};
#define ALTERNATING(name, role) {name, PC__ROLE_##role, PC__LAYOUT_ALTERNATING, 0}
static const pc__tensor_name_row gpt_oss[] = {
    LLAMA_REST, PLAIN("!layers.%d.self_attn.sinks", SINKS),
    PLAIN("layers.%d.mlp.router", ROUTER),
    TRANSPOSED("#layers.%d.mlp.experts.gate_up_proj", EXPERT_GATE, PC__LAYOUT_ALTERNATING),
    TRANSPOSED("#layers.%d.mlp.experts.gate_up_proj", EXPERT_UP, PC__LAYOUT_ALTERNATING),
    TRANSPOSED("#layers.%d.mlp.experts.down_proj", EXPERT_DOWN, PC__LAYOUT_PLAIN),
    ALTERNATING("#layers.%d.mlp.experts.gate_up_proj_blocks", EXPERT_GATE),
    ALTERNATING("#layers.%d.mlp.experts.gate_up_proj_blocks", EXPERT_UP),
    PLAIN("#layers.%d.mlp.experts.down_proj_blocks", EXPERT_DOWN),
    ALTERNATING("!layers.%d.mlp.experts.gate_up_proj_bias", EXPERT_GATE),
    ALTERNATING("!layers.%d.mlp.experts.gate_up_proj_bias", EXPERT_UP),
    PLAIN("!layers.%d.mlp.experts.down_proj_bias", EXPERT_DOWN), END};
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
static const pc__tensor_name_row qwen3_moe[] = {
    LLAMA_EXPERTS("shared_expert"), QK_NORMS("q_norm", "k_norm"), END};
static const pc__tensor_name_row deepseek[] = {LLAMA_EXPERTS("shared_experts"), END};
static const pc__tensor_name_row deepseek_v2[] = {
    PLAIN("layers.%d.self_attn.q_b_proj", Q), PLAIN("layers.%d.self_attn.q_a_proj", Q_A),
    QK_NORMS("q_a_layernorm", "kv_a_layernorm"),
    PLAIN("layers.%d.self_attn.kv_a_proj_with_mqa", KV_A),
    PLAIN("layers.%d.self_attn.kv_b_proj", KV_B), LLAMA_EXPERTS("shared_experts"),
    PLAIN("!layers.%d.mlp.gate.e_score_correction_bias", SELECTION_BIAS), END};
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
    PLAIN("layers.%d.mlp.fc2", DOWN), QK_NORMS("q_layernorm", "k_layernorm"), END};
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
static const pc__tensor_name_row gpt_neox[] = {
    PLAIN("embed_in", EMBEDDING), PLAIN("final_layer_norm", FINAL_NORM),
    PLAIN("=embed_out", HEAD), PLAIN("layers.%d.input_layernorm", NORM1),
    PLAIN("layers.%d.post_attention_layernorm", NORM2),
    GROUPED("layers.%d.attention.query_key_value", Q),
    GROUPED("layers.%d.attention.query_key_value", K),
    GROUPED("layers.%d.attention.query_key_value", V), PLAIN("layers.%d.attention.dense", O),
    PLAIN("layers.%d.mlp.dense_h_to_4h", UP), PLAIN("layers.%d.mlp.dense_4h_to_h", DOWN), END};
static const pc__tensor_name_row mpt[] = {
    PLAIN("wte", EMBEDDING), PLAIN("norm_f", FINAL_NORM), HEAD, PLAIN("blocks.%d.norm_1", NORM1),
    PLAIN("blocks.%d.norm_2", NORM2), STACKED("blocks.%d.attn.Wqkv", Q),
    STACKED("blocks.%d.attn.Wqkv", K), STACKED("blocks.%d.attn.Wqkv", V),
    PLAIN("blocks.%d.attn.out_proj", O), PLAIN("blocks.%d.ffn.up_proj", UP),
    PLAIN("blocks.%d.ffn.down_proj", DOWN), END};

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

static const pc__tensor_name_family families[] = {
    {{"llama", "qwen2", "gemma", "granite", "smollm3", "ministral", "nemotron"},
     PC__NAMING_HF, {"model.", ""}, {INV_FREQ}, llama},
    {{"mistral", "ministral3"}, PC__NAMING_HF, TEXT_PREFIXES, TEXT_IGNORED, mistral},
    {{"qwen3", "cohere", "cohere2"}, PC__NAMING_HF, {"model.", ""}, {INV_FREQ}, qwen3},
    {{"gemma2", "gemma3_text"}, PC__NAMING_HF, TEXT_PREFIXES, TEXT_IGNORED, gemma2},
    {{"olmo2"}, PC__NAMING_HF, {"model.", ""}, {INV_FREQ}, olmo2},
    {{"starcoder2"}, PC__NAMING_HF, {"model.", ""}, {INV_FREQ}, starcoder2},
    {{"stablelm"}, PC__NAMING_HF, {"model.", ""}, {INV_FREQ}, stablelm},
    {{"glm", "glm4"}, PC__NAMING_HF, {"model.", ""}, {INV_FREQ}, glm4},
    {{"llama4_text"}, PC__NAMING_HF, TEXT_PREFIXES, TEXT_IGNORED, llama4},
    {{"gpt_oss"}, PC__NAMING_HF, {"model.", ""}, {INV_FREQ}, gpt_oss},
    {{"gpt_neox"}, PC__NAMING_HF, {"gpt_neox.", ""}, {INV_FREQ, ".attention.bias",
     ".attention.masked_bias"}, gpt_neox},
    {{"mixtral"}, PC__NAMING_HF, {"model.", ""}, {INV_FREQ}, mixtral},
    {{"qwen2_moe"}, PC__NAMING_HF, {"model.", ""}, {INV_FREQ}, qwen2_moe},
    {{"qwen3_moe"}, PC__NAMING_HF, {"model.", ""}, {INV_FREQ}, qwen3_moe},
    {{"deepseek"}, PC__NAMING_HF, {"model.", ""}, {INV_FREQ}, deepseek},
    {{"deepseek_v2", "deepseek_v3"}, PC__NAMING_HF, {"model.", ""}, {INV_FREQ}, deepseek_v2},
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
    {{NULL}, PC__NAMING_HF, {NULL}, {NULL}, NULL}
};
/* clang-format on */

const pc__tensor_name_family *pc__tensor_name_family_of(const char *architecture,
                                                        pc__tensor_naming naming)
{
    const pc__tensor_name_family *family = naming == PC__NAMING_GGUF ? pc__gguf_name_families
                                                                     : families;
    for (; family->rows; family++)
        for (size_t a = 0; a < 8 && family->architectures[a]; a++)
            if (!strcmp(family->architectures[a], architecture))
                return family;
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
        [PC__ROLE_SHARED_SCALE] = "gate of the shared expert",
        [PC__ROLE_OUTPUT_NORM1] = "norm of the attention's output",
        [PC__ROLE_OUTPUT_NORM2] = "norm of the MLP's output", [PC__ROLE_Q_NORM] = "query norm",
        [PC__ROLE_K_NORM] = "key norm", [PC__ROLE_SINKS] = "sinks of attention",
        [PC__ROLE_Q_A] = "projection to narrow queries", [PC__ROLE_KV_A] = "projection to latents",
        [PC__ROLE_KV_B] = "projection from latents",
        [PC__ROLE_K_B] = "projection from latents to keys",
        [PC__ROLE_V_B] = "projection from latents to values",
        [PC__ROLE_SELECTION_BIAS] = "bias of the experts' selection"
    };
    /* clang-format on */
    return names[role];
}
