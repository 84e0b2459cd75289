/* GGUF metadata to pc__arch. GGUF does not say what an architecture computes: the table here does.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "model/load/gguf_internal.h"

typedef struct gguf_family {
    const char *name;
    pc__norm norm;
    pc__residual residual;
    pc__activation activation;
    int32_t gated;
    uint32_t positions;
    int32_t interleaved; /* the file has the rows of Q and K permuted for it */
    const char *experts; /* name of its models with experts; NULL: none */
} gguf_family;

static const gguf_family gguf_families[] = {
    {"llama", PC__NORM_RMS, PC__RESIDUAL_SEQUENTIAL, PC__ACT_SILU, 1, PC_POSITION_ROPE, 1,
     "mixtral"},
    {"qwen2", PC__NORM_RMS, PC__RESIDUAL_SEQUENTIAL, PC__ACT_SILU, 1, PC_POSITION_ROPE, 0, NULL},
    {"qwen2moe", PC__NORM_RMS, PC__RESIDUAL_SEQUENTIAL, PC__ACT_SILU, 1, PC_POSITION_ROPE, 0,
     "qwen2moe"},
    {"deepseek", PC__NORM_RMS, PC__RESIDUAL_SEQUENTIAL, PC__ACT_SILU, 1, PC_POSITION_ROPE, 1,
     "deepseek"},
    {"phi3", PC__NORM_RMS, PC__RESIDUAL_SEQUENTIAL, PC__ACT_SILU, 1, PC_POSITION_ROPE, 0, NULL},
    {"phi2", PC__NORM_LAYER, PC__RESIDUAL_PARALLEL, PC__ACT_GELU_TANH, 0, PC_POSITION_ROPE, 0,
     NULL},
    {"falcon", PC__NORM_LAYER, PC__RESIDUAL_PARALLEL, PC__ACT_GELU, 0, PC_POSITION_ROPE, 0, NULL},
    {"mpt", PC__NORM_LAYER, PC__RESIDUAL_SEQUENTIAL, PC__ACT_GELU, 0, PC_POSITION_ALIBI, 0, NULL},
    {"bloom", PC__NORM_LAYER, PC__RESIDUAL_SEQUENTIAL, PC__ACT_GELU_TANH, 0, PC_POSITION_ALIBI, 0,
     NULL},
    {"gpt2", PC__NORM_LAYER, PC__RESIDUAL_SEQUENTIAL, PC__ACT_GELU_TANH, 0, PC_POSITION_LEARNED, 0,
     NULL},
};

const char *pc__meta_key(const pc__meta *s, const char *name, char key[PC__META_KEY])
{
    snprintf(key, PC__META_KEY, "%s.%s", s->architecture, name);
    return key;
}

pc_status pc__meta_size(const pc__meta *s, const char *name, int wanted, int32_t *out)
{
    char key[PC__META_KEY];
    uint64_t value;
    int64_t each, first = 0;
    size_t count = pc__gguf_array(s->gguf, pc__meta_key(s, name, key));
    *out = 0;
    for (size_t i = 0; i < count; i++) {
        if (!pc__gguf_array_i64(s->gguf, key, i, &each) || each < 0 || each > INT32_MAX)
            return pc__fail(PC_ERR_FORMAT, "%s: key '%s': value %zu is not a size", s->path, key,
                            i);
        if (i && each != first)
            return pc__fail(PC_ERR_UNSUPPORTED,
                            "%s: key '%s': layers of different sizes are not implemented", s->path,
                            key);
        first = each;
    }
    *out = (int32_t)first;
    if (count)
        return PC_OK;
    if (!pc__gguf_u64(s->gguf, key, &value))
        return wanted
                   ? pc__fail(PC_ERR_FORMAT, "%s: key '%s' is missing or not a size", s->path, key)
                   : PC_OK;
    if (value > INT32_MAX)
        return pc__fail(PC_ERR_FORMAT, "%s: key '%s': %llu is too large", s->path, key,
                        (unsigned long long)value);
    *out = (int32_t)value;
    return PC_OK;
}

pc_status pc__meta_number(const pc__meta *s, const char *name, double *out)
{
    char key[PC__META_KEY];
    double value;
    if (!pc__gguf_f64(s->gguf, pc__meta_key(s, name, key), &value))
        return PC_OK;
    if (!isfinite(value))
        return pc__fail(PC_ERR_FORMAT, "%s: key '%s' is not finite", s->path, key);
    *out = value;
    return PC_OK;
}

pc_status pc__meta_only(const pc__meta *s, const char *name, double neutral)
{
    char key[PC__META_KEY];
    double value = neutral;
    pc_status status = pc__meta_number(s, name, &value);
    if (status < 0 || value == neutral)
        return status;
    return pc__fail(PC_ERR_UNSUPPORTED, "%s: key '%s': %g is not implemented", s->path,
                    pc__meta_key(s, name, key), value);
}

/* Refuses keys that change what the architecture computes. */
static pc_status refuse_extras(const pc__meta *s)
{
    static const struct {
        const char *name;
        double neutral;
    } extras[] = {{"attn_logit_softcapping", 0},
                  {"final_logit_softcapping", 0},
                  {"logit_scale", 0},
                  {"embedding_scale", 0},
                  {"residual_scale", 0},
                  {"attention.causal", 1},
                  {"attention.q_lora_rank", 0},
                  {"attention.kv_lora_rank", 0},
                  {"use_parallel_residual", 0},
                  {"attention.temperature_scale", 0}};
    for (size_t i = 0; i < sizeof extras / sizeof *extras; i++)
        PC__TRY_RETURN(pc__meta_only(s, extras[i].name, extras[i].neutral));
    return PC_OK;
}

static pc_status read_heads(const pc__meta *s, pc__arch *arch)
{
    int32_t v_dim;
    PC__TRY_RETURN(pc__meta_size(s, "attention.head_count", 1, &arch->heads));
    PC__TRY_RETURN(pc__meta_size(s, "attention.head_count_kv", 0, &arch->kv_heads));
    PC__TRY_RETURN(pc__meta_size(s, "attention.key_length", 0, &arch->head_dim));
    PC__TRY_RETURN(pc__meta_size(s, "attention.value_length", 0, &v_dim));
    if (!arch->kv_heads)
        arch->kv_heads = arch->heads;
    if (!arch->head_dim && (arch->heads < 1 || arch->hidden % arch->heads))
        return pc__fail(PC_ERR_FORMAT, "%s: the width %d is not a multiple of %d heads", s->path,
                        arch->hidden, arch->heads);
    if (!arch->head_dim)
        arch->head_dim = arch->hidden / arch->heads;
    arch->v_dim = v_dim ? v_dim : arch->head_dim;
    if (arch->v_dim != arch->head_dim)
        return pc__fail(
            PC_ERR_UNSUPPORTED,
            "%s: keys of %d and values of %d dimensions are not implemented: they must be equal",
            s->path, arch->head_dim, arch->v_dim);
    return PC_OK;
}

static pc_status read_gguf_sizes(const pc__meta *s, pc__arch *arch)
{
    const pc__tensor *embedding = pc__weights_find(s->weights, "token_embd.weight");
    double scale = 0;
    PC__TRY_RETURN(pc__meta_size(s, "block_count", 1, &arch->layers));
    PC__TRY_RETURN(pc__meta_size(s, "embedding_length", 1, &arch->hidden));
    PC__TRY_RETURN(pc__meta_size(s, "feed_forward_length", 1, &arch->ffn));
    PC__TRY_RETURN(pc__meta_size(s, "context_length", 1, &arch->context_length));
    PC__TRY_RETURN(pc__meta_size(s, "attention.sliding_window", 0, &arch->window));
    PC__TRY_RETURN(read_heads(s, arch));
    PC__TRY_RETURN(pc__meta_number(s, "attention.scale", &scale));
    if (scale < 0)
        return pc__fail(PC_ERR_FORMAT, "%s: key '%s.attention.scale' is below zero", s->path,
                        s->architecture);
    arch->attention_scale = (float)scale;
    if (!embedding || embedding->rank != 2 || embedding->shape[0] > INT32_MAX)
        return pc__fail(PC_ERR_FORMAT, "%s: the matrix 'token_embd.weight' is missing", s->path);
    arch->vocab = (int32_t)embedding->shape[0];
    arch->embedding_dim = arch->hidden;
    arch->tied = !pc__weights_find(s->weights, "output.weight");
    return PC_OK;
}

static pc_status read_eps(const pc__meta *s, pc__arch *arch)
{
    double eps = -1;
    const char *name = arch->norm == PC__NORM_RMS ? "attention.layer_norm_rms_epsilon"
                                                  : "attention.layer_norm_epsilon";
    pc_status status = pc__meta_number(s, name, &eps);
    if (status >= 0 && eps < 0)
        return pc__fail(PC_ERR_FORMAT, "%s: key '%s.%s' is missing", s->path, s->architecture,
                        name);
    arch->norm_eps = (float)eps;
    return status;
}

/* Slopes of MPT and Bloom; Bloom's largest exponent is a constant. */
static pc_status read_alibi(const pc__meta *s, pc__arch *arch)
{
    double most = 8, clip = 0;
    PC__TRY_RETURN(pc__meta_number(s, "attention.max_alibi_bias", &most));
    PC__TRY_RETURN(pc__meta_number(s, "attention.clamp_kqv", &clip));
    if (!(most > 0) || clip < 0)
        return pc__fail(PC_ERR_UNSUPPORTED,
                        "%s: an ALiBi exponent of %g with a clamp of %g is not implemented",
                        s->path, most, clip);
    arch->alibi_max = (float)most;
    arch->qkv_clip = (float)clip;
    arch->alibi_mpt = !strcmp(s->architecture, "mpt");
    arch->embedding_norm = !strcmp(s->architecture, "bloom");
    return PC_OK;
}

static void read_token_ids(const pc__meta *s, pc__arch *arch)
{
    static const char *const keys[4] = {
        "tokenizer.ggml.bos_token_id", "tokenizer.ggml.eos_token_id",
        "tokenizer.ggml.unknown_token_id", "tokenizer.ggml.padding_token_id"};
    int32_t *ids[4] = {&arch->token_bos, &arch->token_eos, &arch->token_unk, &arch->token_pad};
    for (int i = 0; i < 4; i++) {
        int64_t id = -1;
        pc__gguf_i64(s->gguf, keys[i], &id);
        *ids[i] = id >= 0 && id < arch->vocab ? (int32_t)id : -1;
    }
}

static pc_status read_arch(const pc__meta *s, const gguf_family *f, const pc_allocator *mem,
                           pc__arch *arch)
{
    strcpy(arch->name, f->name);
    arch->norm = f->norm;
    arch->residual = f->residual;
    arch->activation = f->activation;
    arch->gated = f->gated;
    arch->position_scheme = f->positions;
    arch->rope.interleaved = f->interleaved;
    arch->causal = 1;
    arch->final_norm = 1;
    arch->bias_by_file = 1;
    PC__TRY_RETURN(refuse_extras(s));
    PC__TRY_RETURN(read_gguf_sizes(s, arch));
    PC__TRY_RETURN(pc__gguf_experts(s, f->experts, arch));
    PC__TRY_RETURN(read_eps(s, arch));
    if (!strcmp(f->name, "falcon") && pc__weights_find(s->weights, "blk.0.attn_norm_2.weight"))
        arch->residual = PC__RESIDUAL_PARALLEL_2;
    if (f->positions == PC_POSITION_ROPE)
        PC__TRY_RETURN(pc__gguf_rope(s, mem, arch));
    if (f->positions == PC_POSITION_ALIBI)
        PC__TRY_RETURN(read_alibi(s, arch));
    read_token_ids(s, arch);
    return pc__arch_check(arch, s->path);
}

pc_status pc__arch_from_gguf(pc__arch *out, const pc_allocator *mem, pc__gguf *gguf)
{
    pc__meta s = {.gguf = gguf,
                  .weights = pc__gguf_weights(gguf),
                  .path = pc__weights_path(pc__gguf_weights(gguf))};
    const gguf_family *found = NULL;
    memset(out, 0, sizeof *out);
    if (!pc__gguf_string(gguf, "general.architecture", &s.architecture))
        return pc__fail(PC_ERR_FORMAT, "%s: key 'general.architecture' is missing", s.path);
    if (!pc__weights_count(s.weights))
        return pc__fail(PC_ERR_NOT_FOUND, "%s: the file is a vocabulary without weights", s.path);
    for (size_t i = 0; i < sizeof gguf_families / sizeof *gguf_families; i++)
        if (!strcmp(gguf_families[i].name, s.architecture))
            found = &gguf_families[i];
    if (!found)
        return pc__fail(PC_ERR_UNSUPPORTED,
                        "%s: key 'general.architecture': '%s' is not supported (llama, qwen2, "
                        "qwen2moe, deepseek, phi3, phi2, falcon, mpt, bloom and gpt2 are)",
                        s.path, s.architecture);
    pc_status status = read_arch(&s, found, mem, out);
    if (status < 0)
        pc__arch_clear(mem, out);
    return status;
}
