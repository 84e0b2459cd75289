/* config.json to pc__arch: one function an architecture, with the keys and defaults of its class in transformers. Keys that change
 * nothing in a forward pass (dropout, initialisation, caching) are not looked at. */
#include <string.h>

#include "base/file.h"
#include "model/config.h"
#include "model/hf_rope.h"
#include "model/json_config.h"
#include "model/part.h"

enum { MAX_CONFIG = 16 << 20 };

#define BIT(part) (1u << PC__PART_##part)
#define BIAS_QKV (BIT(Q) | BIT(K) | BIT(V))
#define BIAS_NORMS (BIT(NORM1) | BIT(NORM2) | BIT(FINAL_NORM) | BIT(EMBEDDING_NORM))
#define BIAS_MLP (BIT(GATE) | BIT(UP) | BIT(DOWN))

static pc_status read_activation(const pc__config *config, const char *key, pc__activation fallback, pc__activation *out)
{
    static const struct {
        const char *name;
        pc__activation activation;
    } known[] = {{"silu", PC__ACT_SILU},          {"swish", PC__ACT_SILU},
                 {"gelu", PC__ACT_GELU},          {"gelu_new", PC__ACT_GELU_TANH},
                 {"relu", PC__ACT_RELU},          {"gelu_pytorch_tanh", PC__ACT_GELU_TANH},
                 {"gelu_fast", PC__ACT_GELU_TANH}};
    const char *name = json_string_value(pc__config_find(config, key));
    *out = fallback;
    if (!pc__config_find(config, key))
        return PC_OK;
    for (size_t i = 0; name && i < sizeof known / sizeof *known; i++) {
        if (!strcmp(name, known[i].name)) {
            *out = known[i].activation;
            return PC_OK;
        }
    }
    return pc__config_refuse(config, key);
}

static pc_status read_eps(const pc__config *config, const char *key, double fallback, pc__arch *arch)
{
    pc_status status = pc__config_number(config, key, &fallback);
    arch->norm_eps = (float)fallback;
    return status;
}

/* An id, or the first of a list of ids. */
static void read_token(const pc__config *config, const char *key, int32_t *out)
{
    json_t *value = pc__config_find(config, key);
    if (json_is_array(value))
        value = json_array_get(value, 0);
    if (json_is_integer(value) && json_integer_value(value) >= 0 && json_integer_value(value) <= INT32_MAX)
        *out = (int32_t)json_integer_value(value);
}

/* hidden / heads, where no head_dim is given. */
static pc_status read_head_dim(const pc__config *config, pc__arch *arch)
{
    arch->head_dim = 0;
    pc_status status = pc__config_maybe(config, "head_dim", &arch->head_dim);
    if (status < 0 || arch->head_dim > 0)
        return status;
    if (arch->hidden % arch->heads)
        return pc__fail(PC_ERR_FORMAT, "%s: a width of %d is no multiple of %d heads", config->where, arch->hidden, arch->heads);
    arch->head_dim = arch->hidden / arch->heads;
    return PC_OK;
}

/* Where `layer_types` is given, it must be what window and window_from say. */
static pc_status check_layer_types(const pc__config *config, const pc__arch *arch)
{
    json_t *types = pc__config_find(config, "layer_types");
    if (!types)
        return PC_OK;
    if (json_array_size(types) != (size_t)arch->layers)
        return pc__config_refuse(config, "layer_types");
    for (int32_t i = 0; i < arch->layers; i++) {
        const char *type = json_string_value(json_array_get(types, (size_t)i));
        int windowed = arch->window && i >= arch->window_from;
        if (!type || strcmp(type, windowed ? "sliding_attention" : "full_attention"))
            return pc__config_refuse(config, "layer_types");
    }
    return PC_OK;
}

/* The keys that Llama and its kin share. */
static pc_status read_llama_like(const pc__config *config, const pc_allocator *mem, double eps, double partial, pc__arch *arch)
{
    pc_status status;
    PC__TRY(pc__config_size(config, "hidden_size", &arch->hidden), done);
    PC__TRY(pc__config_size(config, "num_hidden_layers", &arch->layers), done);
    PC__TRY(pc__config_size(config, "num_attention_heads", &arch->heads), done);
    PC__TRY(pc__config_size(config, "intermediate_size", &arch->ffn), done);
    PC__TRY(pc__config_size(config, "max_position_embeddings", &arch->context_length), done);
    arch->kv_heads = arch->heads;
    PC__TRY(pc__config_maybe(config, "num_key_value_heads", &arch->kv_heads), done);
    PC__TRY(read_head_dim(config, arch), done);
    PC__TRY(read_eps(config, "rms_norm_eps", eps, arch), done);
    PC__TRY(read_activation(config, "hidden_act", PC__ACT_SILU, &arch->activation), done);
    arch->norm = PC__NORM_RMS;
    arch->gated = 1;
    arch->final_norm = 1;
    arch->position_scheme = PC_POSITION_ROPE;
    PC__TRY(pc__config_flag(config, "tie_word_embeddings", &arch->tied), done);
    status = pc__read_rope(config, mem, partial, arch);
done:
    return status;
}

static pc_status read_llama(const pc__config *config, const pc_allocator *mem, pc__arch *arch)
{
    int32_t attention = 0, mlp = 0;
    pc_status status;
    PC__TRY(pc__config_flag(config, "attention_bias", &attention), done);
    PC__TRY(pc__config_flag(config, "mlp_bias", &mlp), done);
    arch->bias_parts = (attention ? BIAS_QKV | BIT(O) : 0) | (mlp ? BIAS_MLP : 0);
    PC__TRY(check_layer_types(config, arch), done);
    status = read_llama_like(config, mem, 1e-6, 1.0, arch);
done:
    return status;
}

/* Mistral's class has a window of 4096 where the key is absent, none where it is null. */
static pc_status read_mistral(const pc__config *config, const pc_allocator *mem, pc__arch *arch)
{
    int32_t heads;
    pc_status status;
    arch->window = json_object_get(config->object, "sliding_window") ? 0 : 4096;
    PC__TRY(pc__config_maybe(config, "sliding_window", &arch->window), done);
    if (!json_object_get(config->object, "num_key_value_heads"))
        PC__TRY(pc__config_size(config, "num_key_value_heads", &heads), done);
    PC__TRY(read_llama_like(config, mem, 1e-6, 1.0, arch), done);
    status = check_layer_types(config, arch);
done:
    return status;
}

static pc_status read_qwen2(const pc__config *config, const pc_allocator *mem, pc__arch *arch)
{
    int32_t windows = 0, heads;
    json_t *types = pc__config_find(config, "layer_types");
    pc_status status;
    if (!json_object_get(config->object, "num_key_value_heads"))
        PC__TRY(pc__config_size(config, "num_key_value_heads", &heads), done);
    PC__TRY(read_llama_like(config, mem, 1e-6, 1.0, arch), done);
    arch->bias_parts = BIAS_QKV;
    PC__TRY(pc__config_flag(config, "use_sliding_window", &windows), done);
    if (windows) {
        arch->window = json_object_get(config->object, "sliding_window") ? 0 : 4096;
        arch->window_from = 28;
        PC__TRY(pc__config_maybe(config, "sliding_window", &arch->window), done);
        PC__TRY(pc__config_maybe(config, "max_window_layers", &arch->window_from), done);
    }
    if (arch->window && types) { /* these come before max_window_layers */
        const char *type;
        arch->window_from = 0;
        while ((type = json_string_value(json_array_get(types, (size_t)arch->window_from))) && !strcmp(type, "full_attention"))
            arch->window_from++;
    }
    status = check_layer_types(config, arch);
done:
    return status;
}

static pc_status read_phi3(const pc__config *config, const pc_allocator *mem, pc__arch *arch)
{
    pc_status status;
    PC__TRY(pc__config_maybe(config, "sliding_window", &arch->window), done);
    PC__TRY(read_llama_like(config, mem, 1e-5, 1.0, arch), done);
    PC__TRY(check_layer_types(config, arch), done);
    if (arch->rope.scaling != PC__ROPE_PLAIN && arch->rope.scaling != PC__ROPE_LONG)
        status = pc__fail(PC_ERR_UNSUPPORTED, "%s: model_type 'phi3' has LongRoPE or plain positions only", config->where);
done:
    return status;
}

static pc_status read_phi(const pc__config *config, const pc_allocator *mem, pc__arch *arch)
{
    pc_status status;
    PC__TRY(pc__config_only(config, "qk_layernorm", 0), done);
    PC__TRY(read_llama_like(config, mem, 1e-5, 0.5, arch), done);
    PC__TRY(read_eps(config, "layer_norm_eps", 1e-5, arch), done);
    PC__TRY(read_activation(config, "hidden_act", PC__ACT_GELU_TANH, &arch->activation), done);
    arch->norm = PC__NORM_LAYER;
    arch->gated = 0;
    arch->residual = PC__RESIDUAL_PARALLEL;
    arch->bias_parts = BIAS_QKV | BIT(O) | BIAS_MLP | BIAS_NORMS | BIT(HEAD);
done:
    return status;
}

static pc_status read_opt(const pc__config *config, const pc_allocator *mem, pc__arch *arch)
{
    int32_t before = 1, removed = 0, bias = 1;
    pc_status status;
    (void)mem;
    PC__TRY(pc__config_size(config, "hidden_size", &arch->hidden), done);
    PC__TRY(pc__config_size(config, "num_hidden_layers", &arch->layers), done);
    PC__TRY(pc__config_size(config, "num_attention_heads", &arch->heads), done);
    PC__TRY(pc__config_size(config, "ffn_dim", &arch->ffn), done);
    PC__TRY(pc__config_size(config, "max_position_embeddings", &arch->context_length), done);
    PC__TRY(read_head_dim(config, arch), done);
    PC__TRY(read_activation(config, "activation_function", PC__ACT_RELU, &arch->activation), done);
    PC__TRY(pc__config_flag(config, "do_layer_norm_before", &before), done);
    PC__TRY(pc__config_flag(config, "_remove_final_layer_norm", &removed), done);
    PC__TRY(pc__config_flag(config, "enable_bias", &bias), done);
    PC__TRY(pc__config_only(config, "layer_norm_elementwise_affine", 1), done);
    PC__TRY(pc__config_maybe(config, "word_embed_proj_dim", &arch->embedding_dim), done);
    arch->tied = 1;
    PC__TRY(pc__config_flag(config, "tie_word_embeddings", &arch->tied), done);
    arch->kv_heads = arch->heads;
    arch->norm = PC__NORM_LAYER;
    arch->norm_eps = 1e-5f;
    arch->residual = before ? PC__RESIDUAL_SEQUENTIAL : PC__RESIDUAL_POST;
    arch->final_norm = before && !removed;
    arch->position_scheme = PC_POSITION_LEARNED;
    arch->position_offset = 2;
    arch->bias_parts = BIAS_NORMS | (bias ? BIAS_QKV | BIT(O) | BIT(UP) | BIT(DOWN) : 0);
done:
    return status;
}

static pc_status read_gpt2(const pc__config *config, const pc_allocator *mem, pc__arch *arch)
{
    int32_t scaled = 1;
    pc_status status;
    (void)mem;
    PC__TRY(pc__config_size(config, "n_embd", &arch->hidden), done);
    PC__TRY(pc__config_size(config, "n_layer", &arch->layers), done);
    PC__TRY(pc__config_size(config, "n_head", &arch->heads), done);
    PC__TRY(pc__config_size(config, "n_positions", &arch->context_length), done);
    PC__TRY(pc__config_maybe(config, "n_inner", &arch->ffn), done);
    PC__TRY(read_head_dim(config, arch), done);
    PC__TRY(read_eps(config, "layer_norm_epsilon", 1e-5, arch), done);
    PC__TRY(read_activation(config, "activation_function", PC__ACT_GELU_TANH, &arch->activation), done);
    PC__TRY(pc__config_only(config, "scale_attn_by_inverse_layer_idx", 0), done);
    PC__TRY(pc__config_flag(config, "scale_attn_weights", &scaled), done);
    arch->tied = 1;
    PC__TRY(pc__config_flag(config, "tie_word_embeddings", &arch->tied), done);
    if (!arch->ffn)
        arch->ffn = arch->hidden > INT32_MAX / 4 ? 0 : 4 * arch->hidden;
    arch->attention_scale = scaled ? 0.0f : 1.0f;
    arch->kv_heads = arch->heads;
    arch->norm = PC__NORM_LAYER;
    arch->final_norm = 1;
    arch->position_scheme = PC_POSITION_LEARNED;
    arch->bias_parts = BIAS_NORMS | BIAS_QKV | BIT(O) | BIT(UP) | BIT(DOWN);
done:
    return status;
}

typedef struct falcon_flags {
    int32_t newer, multi_query, parallel, alibi, bias, norms;
} falcon_flags;

static pc_status read_falcon_flags(const pc__config *config, falcon_flags *f)
{
    pc_status status;
    *f = (falcon_flags){.multi_query = 1, .parallel = 1};
    PC__TRY(pc__config_flag(config, "new_decoder_architecture", &f->newer), done);
    PC__TRY(pc__config_flag(config, "multi_query", &f->multi_query), done);
    PC__TRY(pc__config_flag(config, "parallel_attn", &f->parallel), done);
    PC__TRY(pc__config_flag(config, "alibi", &f->alibi), done);
    PC__TRY(pc__config_flag(config, "bias", &f->bias), done);
    f->norms = f->newer ? 2 : 1;
    PC__TRY(pc__config_maybe(config, "num_ln_in_parallel_attn", &f->norms), done);
    if (f->newer && !f->parallel)
        status = pc__config_refuse(config, "parallel_attn");
    else if (f->norms < 1 || f->norms > 2 || (f->norms == 2 && !f->newer))
        status = pc__config_refuse(config, "num_ln_in_parallel_attn");
    else
        status = pc__config_only(config, "apply_residual_connection_post_layernorm", 0);
done:
    return status;
}

/* Grouped heads in the newer architecture only; before it, one K/V head or all. */
static pc_status read_falcon_heads(const pc__config *config, const falcon_flags *f, pc__arch *arch)
{
    pc_status status;
    arch->kv_heads = arch->heads;
    PC__TRY(pc__config_maybe(config, "num_kv_heads", &arch->kv_heads), done);
    if (!f->newer && f->multi_query)
        arch->kv_heads = 1;
    else if (!f->newer && arch->kv_heads != arch->heads)
        status = pc__config_refuse(config, "num_kv_heads");
done:
    return status;
}

static pc_status read_falcon(const pc__config *config, const pc_allocator *mem, pc__arch *arch)
{
    falcon_flags f;
    pc_status status;
    PC__TRY(read_falcon_flags(config, &f), done);
    PC__TRY(pc__config_size(config, "hidden_size", &arch->hidden), done);
    PC__TRY(pc__config_size(config, "num_hidden_layers", &arch->layers), done);
    PC__TRY(pc__config_size(config, "num_attention_heads", &arch->heads), done);
    PC__TRY(read_falcon_heads(config, &f, arch), done);
    PC__TRY(read_head_dim(config, arch), done);
    PC__TRY(pc__config_maybe(config, "ffn_hidden_size", &arch->ffn), done);
    PC__TRY(read_eps(config, "layer_norm_epsilon", 1e-5, arch), done);
    PC__TRY(read_activation(config, "activation", PC__ACT_GELU, &arch->activation), done);
    arch->context_length = 2048;
    PC__TRY(pc__config_maybe(config, "max_position_embeddings", &arch->context_length), done);
    arch->tied = 1;
    PC__TRY(pc__config_flag(config, "tie_word_embeddings", &arch->tied), done);
    if (!arch->ffn)
        arch->ffn = arch->hidden > INT32_MAX / 4 ? 0 : 4 * arch->hidden;
    arch->norm = PC__NORM_LAYER;
    arch->final_norm = 1;
    arch->residual = !f.parallel ? PC__RESIDUAL_SEQUENTIAL : f.norms == 2 ? PC__RESIDUAL_PARALLEL_2 : PC__RESIDUAL_PARALLEL;
    arch->position_scheme = f.alibi ? PC_POSITION_ALIBI : PC_POSITION_ROPE;
    arch->alibi_before_scale = f.alibi;
    arch->bias_parts = BIAS_NORMS | (f.bias ? BIAS_QKV | BIT(O) | BIT(UP) | BIT(DOWN) : 0);
    if (!f.alibi)
        status = pc__read_rope(config, mem, 1.0, arch);
done:
    return status;
}

static pc_status read_bloom(const pc__config *config, const pc_allocator *mem, pc__arch *arch)
{
    static const char *const spellings[3][2] = {
        {"hidden_size", "n_embed"}, {"n_layer", "num_hidden_layers"}, {"n_head", "num_attention_heads"}};
    int32_t *sizes[3] = {&arch->hidden, &arch->layers, &arch->heads};
    pc_status status;
    (void)mem;
    for (int i = 0; i < 3; i++)
        PC__TRY(pc__config_size(config, spellings[i][pc__config_find(config, spellings[i][1]) != NULL], sizes[i]), done);
    PC__TRY(read_head_dim(config, arch), done);
    PC__TRY(read_eps(config, "layer_norm_epsilon", 1e-5, arch), done);
    PC__TRY(pc__config_only(config, "apply_residual_connection_post_layernorm", 0), done);
    PC__TRY(pc__config_maybe(config, "seq_length", &arch->context_length), done);
    arch->tied = 1;
    PC__TRY(pc__config_flag(config, "tie_word_embeddings", &arch->tied), done);
    arch->kv_heads = arch->heads;
    arch->ffn = arch->hidden > INT32_MAX / 4 ? 0 : 4 * arch->hidden;
    arch->norm = PC__NORM_LAYER;
    arch->embedding_norm = 1;
    arch->final_norm = 1;
    arch->activation = PC__ACT_GELU_TANH;
    arch->position_scheme = PC_POSITION_ALIBI;
    arch->bias_parts = BIAS_NORMS | BIAS_QKV | BIT(O) | BIT(UP) | BIT(DOWN);
done:
    return status;
}

/* MPT's attn_config. */
static pc_status read_mpt_attention(const pc__config *config, pc__arch *arch)
{
    pc__config inner = {config->where, config->model, pc__config_find(config, "attn_config")};
    const char *type = json_string_value(pc__config_find(&inner, "attn_type"));
    double clip = 0, scale = 0, most = 8;
    pc_status status;
    if (inner.object && !json_is_object(inner.object))
        return pc__config_refuse(config, "attn_config");
    if (pc__config_find(&inner, "attn_type") && (!type || strcmp(type, "multihead_attention")))
        return pc__config_refuse(&inner, "attn_type");
    PC__TRY(pc__config_none(&inner, "kv_n_heads"), done);
    PC__TRY(pc__config_only(&inner, "alibi", 1), done);
    PC__TRY(pc__config_only(&inner, "prefix_lm", 0), done);
    PC__TRY(pc__config_only(&inner, "qk_ln", 0), done);
    PC__TRY(pc__config_only(&inner, "attn_uses_sequence_id", 0), done);
    PC__TRY(pc__config_number(&inner, "clip_qkv", &clip), done);
    PC__TRY(pc__config_number(&inner, "softmax_scale", &scale), done);
    PC__TRY(pc__config_number(&inner, "alibi_bias_max", &most), done);
    if (clip < 0 || scale < 0 || most <= 0)
        return pc__fail(PC_ERR_FORMAT, "%s: attn_config has a number below zero", config->where);
    arch->qkv_clip = (float)clip;
    arch->attention_scale = (float)scale;
    arch->alibi_max = (float)most;
done:
    return status;
}

static pc_status read_mpt(const pc__config *config, const pc_allocator *mem, pc__arch *arch)
{
    double ratio = 4;
    pc_status status;
    (void)mem;
    PC__TRY(pc__config_size(config, "d_model", &arch->hidden), done);
    PC__TRY(pc__config_size(config, "n_layers", &arch->layers), done);
    PC__TRY(pc__config_size(config, "n_heads", &arch->heads), done);
    PC__TRY(pc__config_size(config, "max_seq_len", &arch->context_length), done);
    PC__TRY(pc__config_number(config, "expansion_ratio", &ratio), done);
    PC__TRY(read_head_dim(config, arch), done);
    PC__TRY(read_eps(config, "layer_norm_epsilon", 1e-5, arch), done);
    PC__TRY(read_mpt_attention(config, arch), done);
    PC__TRY(pc__config_none(config, "logit_scale"), done);
    PC__TRY(pc__config_only(config, "no_bias", 1), done);
    arch->tied = 1;
    PC__TRY(pc__config_flag(config, "tie_word_embeddings", &arch->tied), done);
    if (!(ratio > 0) || ratio * arch->hidden > INT32_MAX)
        return pc__config_refuse(config, "expansion_ratio");
    arch->ffn = (int32_t)(ratio * arch->hidden);
    arch->kv_heads = arch->heads;
    arch->norm = PC__NORM_LAYER;
    arch->final_norm = 1;
    arch->activation = PC__ACT_GELU;
    arch->position_scheme = PC_POSITION_ALIBI;
    arch->alibi_mpt = 1;
done:
    return status;
}

typedef pc_status (*read_fn)(const pc__config *config, const pc_allocator *mem, pc__arch *arch);
static const struct {
    const char *model_type;
    read_fn read;
} readers[] = {{"llama", read_llama}, {"mistral", read_mistral}, {"qwen2", read_qwen2}, {"falcon", read_falcon},
               {"mpt", read_mpt},     {"bloom", read_bloom},     {"gpt2", read_gpt2},   {"phi", read_phi},
               {"phi3", read_phi3},   {"opt", read_opt}};

static read_fn reader_of(const char *model_type)
{
    for (size_t i = 0; i < sizeof readers / sizeof *readers; i++)
        if (!strcmp(readers[i].model_type, model_type))
            return readers[i].read;
    return NULL;
}

/* What no architecture here computes. */
static pc_status check_common(const pc__config *config)
{
    pc_status status;
    PC__TRY(pc__config_none(config, "quantization_config"), done);
    PC__TRY(pc__config_only(config, "is_encoder_decoder", 0), done);
    status = pc__config_only(config, "add_cross_attention", 0);
done:
    return status;
}

static pc_status read_object(const pc__config *config, const pc_allocator *mem, pc__arch *arch)
{
    read_fn read = reader_of(config->model);
    pc_status status;
    if (!read)
        return pc__fail(PC_ERR_UNSUPPORTED,
                        "%s: key 'model_type': '%s' is none of llama, mistral, qwen2, falcon, mpt, bloom, gpt2, phi, phi3, opt",
                        config->where, config->model);
    strcpy(arch->name, config->model); /* one of our own short names */
    arch->causal = 1;
    arch->token_bos = arch->token_eos = arch->token_unk = arch->token_pad = -1;
    read_token(config, "bos_token_id", &arch->token_bos);
    read_token(config, "eos_token_id", &arch->token_eos);
    read_token(config, "unk_token_id", &arch->token_unk);
    read_token(config, "pad_token_id", &arch->token_pad);
    PC__TRY(check_common(config), done);
    PC__TRY(pc__config_size(config, "vocab_size", &arch->vocab), done);
    PC__TRY(read(config, mem, arch), done);
    arch->v_dim = arch->head_dim;
    if (!arch->embedding_dim)
        arch->embedding_dim = arch->hidden;
    status = pc__arch_check(arch, config->where);
done:
    return status;
}

pc_status pc__arch_from_json(pc__arch *out, const pc_allocator *mem, const char *text, size_t size, const char *where)
{
    json_error_t error;
    pc__config config = {.where = where, .object = json_loadb(text, size, JSON_REJECT_DUPLICATES, &error)};
    pc_status status;
    memset(out, 0, sizeof *out);
    if (!config.object)
        return pc__fail(PC_ERR_FORMAT, "%s: line %d, column %d: %s", where, error.line, error.column, error.text);
    config.model = json_string_value(json_object_get(config.object, "model_type"));
    if (config.model)
        status = read_object(&config, mem, out);
    else
        status = pc__fail(PC_ERR_FORMAT, "%s: no key 'model_type'", where);
    if (status < 0)
        pc__arch_clear(mem, out);
    json_decref(config.object);
    return status;
}

pc_status pc__arch_from_config(pc__arch *out, const pc_allocator *mem, const char *path)
{
    char *text;
    size_t size;
    pc_status status = pc__file_read(mem, path, MAX_CONFIG, &text, &size);
    memset(out, 0, sizeof *out);
    if (status >= 0)
        status = pc__arch_from_json(out, mem, text, size, path);
    pc__free(mem, text);
    return status;
}
