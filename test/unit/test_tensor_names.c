/* Catches: rows of a fused tensor given to the wrong role, a transposed matrix read straight,
 * tensors that change the result and are ignored, missing tensors or biases that are not noticed,
 * wrong shapes, prefixes that are not found. */
#include "base/mem.h"
#include "model/load/tensor_names.h"
#include "model/load/weights_internal.h"
#include "testing.h"

#include <stdlib.h>
#include <string.h>

static float numbers[4096]; /* 0, 1, 2 … */

static pc__weights *table(void)
{
    pc__weights *w = NULL;
    CHECK_OK(pc__weights_new(&w, &pc__libc_allocator, "model.file"));
    return w;
}

static size_t first_value; /* of the tensors that are added */

/* rows 0: a vector. Values count up from first_value. */
static void add(pc__weights *w, const char *name, uint64_t rows, uint64_t cols)
{
    pc__tensor t = {.type = PC__T_F32,
                    .rank = rows ? 2 : 1,
                    .shape = {rows ? rows : cols, cols},
                    .data = (const uint8_t *)(numbers + first_value)};
    CHECK(pc__tensor_size(&t, &t.bytes) && t.bytes <= sizeof numbers);
    CHECK_OK(pc__weights_add(w, &t, name, strlen(name)));
}

/* heads 4 of 2, one layer, width 8, MLP 6. */
static pc__arch arch_of(const char *name, int32_t kv_heads)
{
    pc__arch a = {.layers = 1,
                  .heads = 4,
                  .kv_heads = kv_heads,
                  .head_dim = 2,
                  .v_dim = 2,
                  .hidden = 8,
                  .ffn = 6,
                  .vocab = 5,
                  .embedding_dim = 8,
                  .tied = 1,
                  .final_norm = 1,
                  .gated = 1};
    strcpy(a.name, name);
    a.bias_by_file = 1;
    return a;
}

/* A Llama without the tensors whose name ends with `leave_out`. `extra`: one more; after '=' with
 * values that no other tensor has. */
static pc__weights *llama(const char *prefix, const char *leave_out, const char *extra)
{
    static const struct {
        const char *name;
        uint64_t rows, cols;
    } all[] = {{"embed_tokens.weight", 5, 8},
               {"norm.weight", 0, 8},
               {"layers.0.input_layernorm.weight", 0, 8},
               {"layers.0.post_attention_layernorm.weight", 0, 8},
               {"layers.0.self_attn.q_proj.weight", 8, 8},
               {"layers.0.self_attn.k_proj.weight", 4, 8},
               {"layers.0.self_attn.v_proj.weight", 4, 8},
               {"layers.0.self_attn.o_proj.weight", 8, 8},
               {"layers.0.mlp.gate_proj.weight", 6, 8},
               {"layers.0.mlp.up_proj.weight", 6, 8},
               {"layers.0.mlp.down_proj.weight", 8, 6}};
    pc__weights *w = table();
    char name[128];
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        if (leave_out && strstr(all[i].name, leave_out))
            continue;
        snprintf(name, sizeof name, "%s%s", prefix, all[i].name);
        add(w, name, all[i].rows, all[i].cols);
    }
    first_value = extra && *extra == '=';
    if (extra)
        add(w, extra + first_value, strstr(extra, ".weight") ? 5 : 0, 8);
    first_value = 0;
    CHECK_OK(pc__weights_seal(w));
    return w;
}

static pc_status open_llama(const char *prefix, const char *leave_out, const char *extra,
                            const pc__arch *arch)
{
    pc__weights *w = llama(prefix, leave_out, extra);
    pc__tensor_names n;
    pc_status status = pc__tensor_names_open(&n, w, arch, PC__NAMING_HF);
    pc__weights_free(w);
    return status;
}

static void accounts(void)
{
    pc__arch a = arch_of("llama", 2);
    CHECK_OK(open_llama("model.", NULL, NULL, &a));
    CHECK_OK(open_llama("", NULL, NULL, &a));
    CHECK_OK(open_llama("model.", NULL, "lm_head.weight", &a)); /* tied: a copy */
    CHECK_OK(open_llama("model.", NULL, "model.layers.0.self_attn.rotary_emb.inv_freq", &a));
    CHECK_OK(open_llama("model.", "embed_tokens", "lm_head.weight",
                        &a)); /* tied under the head's name */
    CHECK_STATUS(open_llama("model.", NULL, "model.layers.0.self_attn.q_norm.weight", &a),
                 PC_ERR_UNSUPPORTED);
    CHECK_ERROR_HAS("q_norm");
    CHECK_STATUS(open_llama("model.", NULL, "model.layers.1.input_layernorm.weight", &a),
                 PC_ERR_UNSUPPORTED);
    CHECK_STATUS(open_llama("model.", NULL, "lm_head.bias", &a), PC_ERR_UNSUPPORTED);
    CHECK_STATUS(open_llama("other.", NULL, NULL, &a), PC_ERR_NOT_FOUND);
    CHECK_ERROR_HAS("'model.embed_tokens.weight'");
    a.gated = 0;
    CHECK_STATUS(open_llama("model.", NULL, NULL, &a), PC_ERR_UNSUPPORTED);
    CHECK_ERROR_HAS("gate_proj");
    strcpy(a.name, "nothing");
    CHECK_STATUS(open_llama("model.", NULL, NULL, &a), PC_ERR_UNSUPPORTED);
    CHECK_ERROR_HAS("'nothing'");
}

/* A head beside the embedding that the configuration ties. */
static void heads(void)
{
    pc__arch a = arch_of("llama", 2);
    pc__tensor_names n;
    pc__matrix_source head;
    pc__weights *w = llama("model.", NULL, NULL); /* none: the embedding is read */
    if (CHECK_OK(pc__tensor_names_open(&n, w, &a, PC__NAMING_HF))) {
        CHECK(!pc__tensor_names_own_head(&n));
        if (CHECK_OK(pc__tensor_names_matrix(&n, PC__ROLE_HEAD, -1, 5, 8, &head)))
            CHECK_STR(head.tensor->name, "model.embed_tokens.weight");
    }
    pc__weights_free(w);
    w = llama("model.", NULL, "lm_head.weight"); /* a copy */
    if (CHECK_OK(pc__tensor_names_open(&n, w, &a, PC__NAMING_HF)))
        CHECK(!pc__tensor_names_own_head(&n));
    pc__weights_free(w);
    w = llama("model.", NULL, "=lm_head.weight"); /* its own values */
    if (CHECK_OK(pc__tensor_names_open(&n, w, &a, PC__NAMING_HF)))
        CHECK(pc__tensor_names_own_head(&n));
    pc__weights_free(w);
}

static void biases(void)
{
    pc__arch a = arch_of("llama", 2);
    static const char bias[] = "model.layers.0.self_attn.q_proj.bias";
    CHECK_OK(open_llama("model.", NULL, bias, &a));
    a.bias_by_file = 0;
    CHECK_OK(open_llama("model.", NULL, NULL, &a));
    CHECK_STATUS(open_llama("model.", NULL, bias, &a), PC_ERR_UNSUPPORTED);
    CHECK_ERROR_HAS("q_proj.bias");
    a.bias_roles = UINT64_C(1) << PC__ROLE_Q;
    CHECK_OK(open_llama("model.", NULL, bias, &a));
    CHECK_STATUS(open_llama("model.", NULL, NULL, &a), PC_ERR_FORMAT);
    CHECK_ERROR_HAS("q_proj.bias");
}

/* Tensors of BERT's files: with and without prefix, with old names of norms, with and without
 * heads, with a second pooler, with the position numbers and the head for masked words. */
static pc_status open_bert(const char *prefix, int old, const char *const *extra,
                           const char *architecture)
{
    static const char *const norms[] = {"embeddings.LayerNorm",
                                        "encoder.layer.0.attention.output.LayerNorm",
                                        "encoder.layer.0.output.LayerNorm"};
    static const struct {
        const char *name;
        uint64_t rows, cols;
    } all[] = {{"embeddings.word_embeddings.weight", 5, 8},
               {"embeddings.position_embeddings.weight", 4, 8},
               {"embeddings.token_type_embeddings.weight", 2, 8},
               {"encoder.layer.0.attention.self.query.weight", 8, 8},
               {"encoder.layer.0.attention.self.key.weight", 8, 8},
               {"encoder.layer.0.attention.self.value.weight", 8, 8},
               {"encoder.layer.0.attention.output.dense.weight", 8, 8},
               {"encoder.layer.0.intermediate.dense.weight", 6, 8},
               {"encoder.layer.0.output.dense.weight", 8, 6}};
    pc__weights *w = table();
    pc__arch a = arch_of(architecture, 4);
    pc__tensor_names n;
    float gain[8] = {0};
    char name[128];
    pc_status status;
    a.gated = a.final_norm = 0;
    a.residual = PC__RESIDUAL_POST;
    a.embedding_norm = 1;
    a.position_scheme = PC_POSITION_LEARNED;
    a.encoder.types = 2;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        snprintf(name, sizeof name, "%s%s", prefix, all[i].name);
        add(w, name, all[i].rows, all[i].cols);
    }
    for (size_t i = 0; i < 6; i++) {
        snprintf(name, sizeof name, "%s%s.%s", prefix, norms[i / 2],
                 i % 2 ? (old ? "beta" : "bias") : (old ? "gamma" : "weight"));
        add(w, name, 0, 8);
    }
    for (; *extra; extra++)
        add(w, *extra, 8, 8);
    CHECK_OK(pc__weights_seal(w));
    status = pc__tensor_names_open(&n, w, &a, PC__NAMING_HF);
    if (status >= 0)
        CHECK(pc__tensor_names_vector(&n, PC__ROLE_NORM2, 0, 1, 8, gain) == 1 && gain[7] == 7);
    pc__weights_free(w);
    return status;
}

static void encoders(void)
{
    static const char *const none[] = {NULL},
                             *const trained[] = {"cls.predictions.transform.dense.weight", NULL},
                             *const pooler[] = {"bert.pooler.dense.weight", "classifier.weight",
                                                NULL},
                             *const two[] = {"roberta.pooler.dense.weight",
                                             "classifier.dense.weight", NULL},
                             *const foreign[] = {"qa_outputs.weight", NULL};
    CHECK_OK(open_bert("bert.", 0, none, "bert"));
    CHECK_OK(open_bert("", 1, none, "bert"));
    CHECK_OK(open_bert("bert.", 1, trained, "bert"));
    CHECK_OK(open_bert("bert.", 0, pooler, "bert"));
    CHECK_OK(open_bert("roberta.", 0, two, "roberta"));
    CHECK_OK(open_bert("roberta.", 0, two, "xlm-roberta"));
    CHECK_OK(open_bert("roberta.", 0, two, "camembert"));
    CHECK_STATUS(open_bert("bert.", 0, foreign, "bert"), PC_ERR_UNSUPPORTED);
    CHECK_ERROR_HAS("qa_outputs");
    CHECK_STATUS(open_bert("roberta.", 0, trained, "roberta"), PC_ERR_UNSUPPORTED);
    CHECK_ERROR_HAS("cls.predictions");
}

static void lookups(void)
{
    pc__arch a = arch_of("llama", 2);
    pc__weights *w = llama("model.", "up_proj", "model.layers.0.self_attn.q_proj.bias");
    pc__tensor_names n;
    pc__matrix_source s;
    float rows[32], bias[8] = {0};
    CHECK_OK(pc__tensor_names_open(&n, w, &a, PC__NAMING_HF));
    CHECK_OK(pc__tensor_names_matrix(&n, PC__ROLE_K, 0, 4, 8, &s));
    pc__source_rows(&s, 1, 3, rows);
    CHECK(rows[0] == 8 && rows[23] == 31);
    CHECK_STATUS(pc__tensor_names_matrix(&n, PC__ROLE_UP, 0, 6, 8, &s), PC_ERR_NOT_FOUND);
    CHECK_ERROR_HAS("model.file: no MLP up: tensor 'model.layers.0.mlp.up_proj.weight' is missing");
    CHECK_STATUS(pc__tensor_names_matrix(&n, PC__ROLE_K, 0, 5, 8, &s), PC_ERR_FORMAT);
    CHECK_ERROR_HAS("shape [4, 8], expected [5, 8]");
    CHECK_STATUS(pc__tensor_names_matrix(&n, PC__ROLE_PROJECT_IN, -1, 8, 8, &s), PC_ERR_NOT_FOUND);
    CHECK_INT(pc__tensor_names_vector(&n, PC__ROLE_Q, 0, 1, 8, bias), 1);
    CHECK(bias[7] == 7);
    CHECK_INT(pc__tensor_names_vector(&n, PC__ROLE_K, 0, 1, 4, bias), 0);
    CHECK_INT(pc__tensor_names_vector(&n, PC__ROLE_NORM1, 0, 0, 8, bias), 1);
    CHECK_STATUS(pc__tensor_names_vector(&n, PC__ROLE_NORM1, 0, 0, 7, bias), PC_ERR_FORMAT);
    CHECK_ERROR_HAS("shape [8], expected [7]");
    CHECK_INT(pc__tensor_names_table_rows(&n, PC__ROLE_EMBEDDING), 5);
    CHECK_INT(pc__tensor_names_table_rows(&n, PC__ROLE_POSITIONS), 0);
    pc__weights_free(w);
}

/* Row r of a fused matrix has values from r * 8 on, its bias is r: shows which rows a role gets,
 * one by one and all together. */
static void fused(const char *architecture, pc__tensor_naming form, int32_t kv_heads,
                  const char *name, uint64_t file_rows, pc__tensor_role role, size_t count,
                  const size_t *want)
{
    pc__arch a = arch_of(architecture, kv_heads);
    pc__weights *w = table();
    pc__tensor_names n;
    pc__matrix_source s;
    float rows[16 * 8], one[8], bias[16];
    char full[96];
    snprintf(full, sizeof full, "%s.weight", name);
    add(w, full, file_rows, 8);
    snprintf(full, sizeof full, "%s.bias", name);
    add(w, full, 0, file_rows);
    add(w,
        form == PC__NAMING_GGUF         ? "token_embd.weight"
        : !strcmp(architecture, "phi3") ? "embed_tokens.weight"
        : !strcmp(architecture, "mpt")  ? "wte.weight"
                                        : "word_embeddings.weight",
        5, 8);
    CHECK_OK(pc__weights_seal(w));
    a.residual = strcmp(architecture, "falcon") ? PC__RESIDUAL_SEQUENTIAL : PC__RESIDUAL_PARALLEL;
    if (CHECK_OK(pc__tensor_names_open(&n, w, &a, form))
        && CHECK_OK(pc__tensor_names_matrix(&n, role, 0, count, 8, &s))) {
        pc__source_rows(&s, 0, count, rows);
        CHECK_INT(pc__tensor_names_vector(&n, role, 0, 1, count, bias), 1);
        for (size_t r = 0; r < count; r++) {
            pc__source_rows(&s, r, 1, one);
            CHECK(rows[r * 8] == (float)(want[r] * 8) && !memcmp(one, rows + r * 8, sizeof one)
                  && bias[r] == (float)want[r]);
        }
        CHECK_STATUS(pc__tensor_names_matrix(&n, role, 0, count, 7, &s), PC_ERR_FORMAT);
    }
    pc__weights_free(w);
}

static void layouts(void)
{
    static const size_t first8[] = {0, 1, 2, 3, 4, 5, 6, 7}, from8[] = {8, 9, 10, 11},
                        from12[] = {12, 13, 14, 15};
    /* grouped, two K/V heads: q0 q1 k v | q2 q3 k v of two rows each */
    static const size_t group_q[] = {0, 1, 2, 3, 8, 9, 10, 11}, group_k[] = {4, 5, 12, 13},
                        group_v[] = {6, 7, 14, 15};
    /* per head: q k v */
    static const size_t head_q[] = {0, 1, 6, 7, 12, 13, 18, 19},
                        head_k[] = {2, 3, 8, 9, 14, 15, 20, 21},
                        head_v[] = {4, 5, 10, 11, 16, 17, 22, 23};
    static const size_t second[] = {6, 7, 8, 9, 10, 11};
    static const char qkv[] = "layers.0.self_attn.qkv_proj",
                      falcon[] = "h.0.self_attention.query_key_value";
    fused("phi3", PC__NAMING_HF, 2, qkv, 16, PC__ROLE_Q, 8, first8);
    fused("phi3", PC__NAMING_HF, 2, qkv, 16, PC__ROLE_K, 4, from8);
    fused("phi3", PC__NAMING_HF, 2, qkv, 16, PC__ROLE_V, 4, from12);
    fused("phi3", PC__NAMING_HF, 2, "layers.0.mlp.gate_up_proj", 12, PC__ROLE_GATE, 6, first8);
    fused("phi3", PC__NAMING_HF, 2, "layers.0.mlp.gate_up_proj", 12, PC__ROLE_UP, 6, second);
    fused("falcon", PC__NAMING_HF, 2, falcon, 16, PC__ROLE_Q, 8, group_q);
    fused("falcon", PC__NAMING_HF, 2, falcon, 16, PC__ROLE_K, 4, group_k);
    fused("falcon", PC__NAMING_HF, 2, falcon, 16, PC__ROLE_V, 4, group_v);
    fused("bloom", PC__NAMING_HF, 4, falcon, 24, PC__ROLE_Q, 8, head_q);
    fused("bloom", PC__NAMING_HF, 4, falcon, 24, PC__ROLE_K, 8, head_k);
    fused("bloom", PC__NAMING_HF, 4, falcon, 24, PC__ROLE_V, 8, head_v);
    fused("falcon", PC__NAMING_GGUF, 2, "blk.0.attn_qkv", 16, PC__ROLE_K, 4, from8);
    fused("mpt", PC__NAMING_HF, 2, "blocks.0.attn.Wqkv", 16, PC__ROLE_V, 4, from12);
    fused("phi2", PC__NAMING_GGUF, 2, "blk.0.attn_qkv", 16, PC__ROLE_V, 4, from12);
    fused("phi3", PC__NAMING_GGUF, 2, "blk.0.ffn_up", 12, PC__ROLE_UP, 6, second);
}

/* GPT-2: [in][out], 8 x 24; K is columns from 8 on. 150 columns cross the inner blocks. */
static void transposed(void)
{
    pc__arch a = arch_of("gpt2", 4);
    pc__weights *w = table();
    pc__tensor_names n;
    pc__matrix_source s;
    float rows[8 * 8], wide[150 * 8];
    a.position_scheme = PC_POSITION_LEARNED;
    a.gated = 0;
    a.ffn = 150;
    add(w, "wte.weight", 5, 8);
    add(w, "h.0.attn.c_attn.weight", 8, 24);
    add(w, "h.0.mlp.c_fc.weight", 8, 150);
    add(w, "h.0.attn.bias", 0, 16); /* the causal mask */
    CHECK_OK(pc__weights_seal(w));
    CHECK_OK(pc__tensor_names_open(&n, w, &a, PC__NAMING_HF));
    if (CHECK_OK(pc__tensor_names_matrix(&n, PC__ROLE_K, 0, 8, 8, &s))) {
        pc__source_rows(&s, 0, 8, rows);
        for (size_t r = 0; r < 8; r++)
            for (size_t c = 0; c < 8; c++)
                CHECK(rows[r * 8 + c] == (float)(c * 24 + 8 + r));
    }
    if (CHECK_OK(pc__tensor_names_matrix(&n, PC__ROLE_UP, 0, 150, 8, &s))) {
        pc__source_rows(&s, 0, 150, wide);
        for (size_t r = 0; r < 150; r++)
            for (size_t c = 0; c < 8; c++)
                CHECK(wide[r * 8 + c] == (float)(c * 150 + r));
    }
    CHECK_STATUS(pc__tensor_names_matrix(&n, PC__ROLE_UP, 0, 149, 8, &s), PC_ERR_FORMAT);
    pc__weights_free(w);
}

static void types(void)
{
    pc__arch a = arch_of("llama", 2);
    pc__weights *w = llama("model.", NULL, NULL);
    pc__tensor_names n;
    pc__matrix_source s;
    float gain[8];
    for (size_t i = 0; i < w->count; i++)
        w->tensors[i].type = strstr(w->tensors[i].name, "norm") ? PC__T_Q8_0 : PC__T_I32;
    CHECK_OK(pc__tensor_names_open(&n, w, &a, PC__NAMING_HF));
    CHECK_STATUS(pc__tensor_names_matrix(&n, PC__ROLE_K, 0, 4, 8, &s), PC_ERR_UNSUPPORTED);
    CHECK_ERROR_HAS("I32");
    CHECK_STATUS(pc__tensor_names_vector(&n, PC__ROLE_NORM1, 0, 0, 8, gain), PC_ERR_UNSUPPORTED);
    CHECK_ERROR_HAS("Q8_0");
    pc__weights_free(w);
}

/* Two layers of a Qwen2-MoE with three experts of width 4 (the first layer has none), as single
 * tensors or in three dimensions. */
static pc__arch arch_of_experts(const char *name)
{
    pc__arch a = arch_of(name, 2);
    a.layers = 2;
    a.experts = (pc__expert_config){
        .count = 3, .used = 2, .width = 4, .shared = 5, .shared_gated = 1};
    pc__layer_add(&a.expert_layers, 1);
    return a;
}

/* All experts have the same numbers, except the last, which starts at 1000. */
static void add_expert(pc__weights *w, const char *kind, int e, uint64_t rows, uint64_t cols)
{
    char name[96];
    snprintf(name, sizeof name, "layers.1.mlp.experts.%d.%s_proj.weight", e, kind);
    pc__tensor t = {.type = PC__T_F32,
                    .rank = 2,
                    .shape = {rows, cols},
                    .data = (const uint8_t *)(numbers + (e == 2 ? 1000 : 0))};
    CHECK(pc__tensor_size(&t, &t.bytes));
    CHECK_OK(pc__weights_add(w, &t, name, strlen(name)));
}

static pc__weights *experts(int count, uint64_t last_rows, const char *extra)
{
    pc__weights *w = table();
    add(w, "embed_tokens.weight", 5, 8);
    add(w, "layers.0.mlp.gate_proj.weight", 6, 8);
    add(w, "layers.1.mlp.gate.weight", 3, 8);
    add(w, "layers.1.mlp.shared_expert.gate_proj.weight", 5, 8);
    add(w, "layers.1.mlp.shared_expert_gate.weight", 1, 8);
    for (int e = 0; e < count; e++) {
        add_expert(w, "gate", e, e + 1 == count ? last_rows : 4, 8);
        add_expert(w, "down", e, 8, 4);
    }
    if (extra)
        add(w, extra, strstr(extra, ".bias") ? 0 : 4, 8);
    CHECK_OK(pc__weights_seal(w));
    return w;
}

static pc_status open_experts(int count, const char *extra)
{
    pc__arch a = arch_of_experts("qwen2_moe");
    pc__weights *w = experts(count, 4, extra);
    pc__tensor_names n;
    pc_status status = pc__tensor_names_open(&n, w, &a, PC__NAMING_HF);
    pc__weights_free(w);
    return status;
}

static void numbered(void)
{
    pc__arch a = arch_of_experts("qwen2_moe");
    pc__weights *w = experts(3, 4, NULL);
    pc__tensor_names n;
    pc__matrix_source s;
    float rows[12 * 8], one[8];
    CHECK_OK(pc__tensor_names_open(&n, w, &a, PC__NAMING_HF));
    if (CHECK_OK(pc__tensor_names_matrix(&n, PC__ROLE_EXPERT_GATE, 1, 12, 8, &s))) {
        pc__source_rows(&s, 0, 12, rows);
        for (size_t r = 0; r < 12; r++) {
            pc__source_rows(&s, r, 1, one);
            CHECK(rows[r * 8] == (float)(r % 4 * 8 + (r >= 8 ? 1000 : 0)));
            CHECK(!memcmp(one, rows + r * 8, sizeof one));
        }
    }
    CHECK_OK(pc__tensor_names_matrix(&n, PC__ROLE_EXPERT_DOWN, 1, 24, 4, &s));
    CHECK_OK(pc__tensor_names_matrix(&n, PC__ROLE_GATE, 0, 6, 8,
                                     &s)); /* the dense one, and the shared one */
    CHECK_OK(pc__tensor_names_matrix(&n, PC__ROLE_GATE, 1, 5, 8, &s));
    CHECK_OK(pc__tensor_names_matrix(&n, PC__ROLE_SHARED_SCALE, 1, 1, 8, &s));
    CHECK_STATUS(pc__tensor_names_matrix(&n, PC__ROLE_EXPERT_UP, 1, 12, 8, &s), PC_ERR_NOT_FOUND);
    CHECK_ERROR_HAS("'layers.1.mlp.experts.0.up_proj.weight'");
    pc__weights_free(w);
    w = experts(2, 4, NULL);
    CHECK_OK(pc__tensor_names_open(&n, w, &a, PC__NAMING_HF));
    CHECK_STATUS(pc__tensor_names_matrix(&n, PC__ROLE_EXPERT_GATE, 1, 12, 8, &s), PC_ERR_NOT_FOUND);
    CHECK_ERROR_HAS("'layers.1.mlp.experts.2.gate_proj.weight'");
    pc__weights_free(w);
    w = experts(3, 5, NULL);
    CHECK_STATUS(pc__tensor_names_open(&n, w, &a, PC__NAMING_HF), PC_OK);
    CHECK_STATUS(pc__tensor_names_matrix(&n, PC__ROLE_EXPERT_GATE, 1, 12, 8, &s), PC_ERR_FORMAT);
    CHECK_ERROR_HAS("experts.2.gate_proj.weight': shape [5, 8], expected [4, 8]");
    pc__weights_free(w);
    CHECK_STATUS(open_experts(4, NULL), PC_ERR_UNSUPPORTED); /* one too many */
    CHECK_ERROR_HAS("experts.3");
    CHECK_STATUS(open_experts(3, "layers.0.mlp.experts.0.gate_proj.weight"), PC_ERR_UNSUPPORTED);
    CHECK_STATUS(open_experts(3, "layers.1.mlp.gate.bias"), PC_ERR_UNSUPPORTED);
    CHECK_STATUS(open_experts(3, "layers.1.mlp.experts.1.gate_proj.bias"), PC_ERR_UNSUPPORTED);
    CHECK_STATUS(open_experts(3, "layers.0.mlp.shared_expert.gate_proj.weight"),
                 PC_ERR_UNSUPPORTED);
}

static void in_three_dimensions(void)
{
    pc__arch a = arch_of_experts("qwen2moe");
    pc__weights *w = table();
    pc__tensor t = {
        .type = PC__T_F32, .rank = 3, .shape = {3, 4, 8}, .data = (const uint8_t *)numbers};
    pc__tensor_names n;
    pc__matrix_source s;
    float row[8];
    CHECK(pc__tensor_size(&t, &t.bytes));
    CHECK_OK(pc__weights_add(w, &t, "blk.1.ffn_up_exps.weight", 24));
    add(w, "token_embd.weight", 5, 8);
    add(w, "blk.1.ffn_gate_inp_shexp.weight", 0, 8);
    CHECK_OK(pc__weights_seal(w));
    CHECK_OK(pc__tensor_names_open(&n, w, &a, PC__NAMING_GGUF));
    CHECK_OK(pc__tensor_names_matrix(&n, PC__ROLE_SHARED_SCALE, 1, 1, 8, &s));
    if (CHECK_OK(pc__tensor_names_matrix(&n, PC__ROLE_EXPERT_UP, 1, 12, 8, &s))) {
        pc__source_rows(&s, 9, 1, row);
        CHECK(row[0] == 72);
    }
    a.experts.count = 4;
    CHECK_STATUS(pc__tensor_names_matrix(&n, PC__ROLE_EXPERT_UP, 1, 16, 8, &s), PC_ERR_FORMAT);
    CHECK_ERROR_HAS("shape [3, 4, 8]");
    pc__weights_free(w);
}

/* The provider: eight matrices stay readable at the same time. */
static void provider(void)
{
    pc__arch a = arch_of("llama", 2);
    pc__weights *w = llama("model.", NULL, NULL);
    pc__tensor_names n;
    pc__weight_provider p;
    pc__weight_source from[2];
    float row[8];
    CHECK_OK(pc__tensor_names_open(&n, w, &a, PC__NAMING_HF));
    pc__tensor_names_provider(&n, &p);
    CHECK_OK(p.matrix(p.user, PC__ROLE_K, 0, 4, 8, &from[0]));
    for (int i = 0; i < 7; i++)
        CHECK_OK(p.matrix(p.user, PC__ROLE_GATE, 0, 6, 8, &from[1]));
    from[0].rows(from[0].user, 3, 1, row);
    CHECK(row[0] == 24 && from[0].user != from[1].user && !from[0].format.bits);
    CHECK_INT(p.vector(p.user, PC__ROLE_NORM2, 0, 0, 8, row), 1);
    CHECK_INT(p.table_rows(p.user, PC__ROLE_EMBEDDING), 5);
    pc__weights_free(w);
}

int main(void)
{
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        numbers[i] = (float)i;
    accounts();
    heads();
    biases();
    encoders();
    lookups();
    layouts();
    transposed();
    types();
    numbered();
    in_three_dimensions();
    provider();
    return pc_test_end();
}
