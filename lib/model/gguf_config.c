/* GGUF metadata to pc__arch. What an architecture is beyond its sizes stands in a table here, as
 * GGUF leaves it to the reader. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "model/config.h"

typedef struct family {
    const char *name;
    pc__norm norm;
    pc__residual residual;
    pc__activation activation;
    int32_t gated;
    uint32_t positions;
    int32_t interleaved; /* the converter has reordered the rows of Q and K for it */
    const char *experts; /* the name of such models with experts; NULL: there are none */
} family;

static const family families[] = {
    {"llama", PC__NORM_RMS, PC__RESIDUAL_SEQUENTIAL, PC__ACT_SILU, 1, PC_POSITION_ROPE, 1, "mixtral"},
    {"qwen2", PC__NORM_RMS, PC__RESIDUAL_SEQUENTIAL, PC__ACT_SILU, 1, PC_POSITION_ROPE, 0, NULL},
    {"qwen2moe", PC__NORM_RMS, PC__RESIDUAL_SEQUENTIAL, PC__ACT_SILU, 1, PC_POSITION_ROPE, 0, "qwen2moe"},
    {"deepseek", PC__NORM_RMS, PC__RESIDUAL_SEQUENTIAL, PC__ACT_SILU, 1, PC_POSITION_ROPE, 1, "deepseek"},
    {"phi3", PC__NORM_RMS, PC__RESIDUAL_SEQUENTIAL, PC__ACT_SILU, 1, PC_POSITION_ROPE, 0, NULL},
    {"phi2", PC__NORM_LAYER, PC__RESIDUAL_PARALLEL, PC__ACT_GELU_TANH, 0, PC_POSITION_ROPE, 0, NULL},
    {"falcon", PC__NORM_LAYER, PC__RESIDUAL_PARALLEL, PC__ACT_GELU, 0, PC_POSITION_ROPE, 0, NULL},
    {"mpt", PC__NORM_LAYER, PC__RESIDUAL_SEQUENTIAL, PC__ACT_GELU, 0, PC_POSITION_ALIBI, 0, NULL},
    {"bloom", PC__NORM_LAYER, PC__RESIDUAL_SEQUENTIAL, PC__ACT_GELU_TANH, 0, PC_POSITION_ALIBI, 0, NULL},
    {"gpt2", PC__NORM_LAYER, PC__RESIDUAL_SEQUENTIAL, PC__ACT_GELU_TANH, 0, PC_POSITION_LEARNED, 0, NULL},
};

/* Keys are those of the architecture: "<architecture>.<name>". */
typedef struct source {
    pc__gguf *gguf;
    const pc__weights *weights;
    const char *path;
    const char *architecture;
} source;

enum { MAX_KEY = 128 };

static const char *key_of(const source *s, const char *name, char key[MAX_KEY])
{
    snprintf(key, MAX_KEY, "%s.%s", s->architecture, name);
    return key;
}

/* A size; 0 and PC_OK where the key is absent and not `wanted`. Some models give one value a layer:
 * all must be the same. */
static pc_status read_size(const source *s, const char *name, int wanted, int32_t *out)
{
    char key[MAX_KEY];
    uint64_t value;
    int64_t each, first = 0;
    size_t count = pc__gguf_array(s->gguf, key_of(s, name, key));
    *out = 0;
    for (size_t i = 0; i < count; i++) {
        if (!pc__gguf_array_i64(s->gguf, key, i, &each) || each < 0 || each > INT32_MAX)
            return pc__fail(PC_ERR_FORMAT, "%s: key '%s': value %zu is no size", s->path, key, i);
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
                   ? pc__fail(PC_ERR_FORMAT, "%s: there is no key '%s' with a size", s->path, key)
                   : PC_OK;
    if (value > INT32_MAX)
        return pc__fail(PC_ERR_FORMAT, "%s: key '%s' is %llu", s->path, key,
                        (unsigned long long)value);
    *out = (int32_t)value;
    return PC_OK;
}

/* Leaves *out as it was where the key is absent. */
static pc_status read_number(const source *s, const char *name, double *out)
{
    char key[MAX_KEY];
    double value;
    if (!pc__gguf_f64(s->gguf, key_of(s, name, key), &value))
        return PC_OK;
    if (!isfinite(value))
        return pc__fail(PC_ERR_FORMAT, "%s: key '%s' is no finite number", s->path, key);
    *out = value;
    return PC_OK;
}

/* PC_ERR_UNSUPPORTED where a key is there with another value than the one that changes nothing. */
static pc_status read_only(const source *s, const char *name, double neutral)
{
    char key[MAX_KEY];
    double value = neutral;
    pc_status status = read_number(s, name, &value);
    if (status < 0 || value == neutral)
        return status;
    return pc__fail(PC_ERR_UNSUPPORTED, "%s: key '%s': %g is not implemented", s->path,
                    key_of(s, name, key), value);
}

/* Keys of models that are more than their architecture's name says. */
static pc_status refuse_extras(const source *s)
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
    pc_status status = PC_OK;
    for (size_t i = 0; i < sizeof extras / sizeof *extras && status >= 0; i++)
        status = read_only(s, extras[i].name, extras[i].neutral);
    return status;
}

static const pc__tensor *find_tensor(const source *s, const char *name)
{
    return pc__weights_find(s->weights, name);
}

/* A vector of `count` factors above zero, from a tensor. */
static pc_status read_factors(const source *s, const pc_allocator *mem, const pc__tensor *tensor,
                              int32_t count, double **out)
{
    if (tensor->rank != 1 || tensor->shape[0] != (uint64_t)count || tensor->type != PC__T_F32)
        return pc__fail(PC_ERR_FORMAT, "%s: tensor '%s' is no F32 vector of %d factors", s->path,
                        tensor->name, count);
    *out = pc__calloc(mem, (size_t)count, sizeof **out);
    if (!*out)
        return PC_ERR_NOMEM;
    for (int32_t i = 0; i < count; i++) {
        float factor;
        pc__tensor_floats(tensor, (uint64_t)i, 1, &factor);
        if (!(factor > 0) || !isfinite(factor))
            return pc__fail(PC_ERR_FORMAT, "%s: tensor '%s': factor %d is not above zero", s->path,
                            tensor->name, i);
        (*out)[i] = (double)factor;
    }
    return PC_OK;
}

static pc_status read_scaling_kind(const source *s, pc__rope_config *rope)
{
    static const struct {
        const char *name;
        pc__rope_scaling scaling;
    } kinds[] = {{"none", PC__ROPE_PLAIN},
                 {"linear", PC__ROPE_LINEAR},
                 {"yarn", PC__ROPE_YARN},
                 {"longrope", PC__ROPE_LONG}};
    char key[MAX_KEY];
    const char *name = "linear"; /* as older files mean it, where they have a factor */
    pc_status status;
    PC__TRY(read_number(s, "rope.scale_linear", &rope->factor), done);
    PC__TRY(read_number(s, "rope.scaling.factor", &rope->factor), done);
    if (!pc__gguf_string(s->gguf, key_of(s, "rope.scaling.type", key), &name)
        && (rope->factor == 0 || rope->factor == 1))
        name = "none";
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        if (!strcmp(name, kinds[i].name)) {
            rope->scaling = kinds[i].scaling;
            goto done;
        }
    }
    status =
        pc__fail(PC_ERR_UNSUPPORTED, "%s: key '%s': '%s' is not implemented", s->path, key, name);
done:
    return status;
}

/* Files of YaRN carry a factor that multiplies the formula's own one. */
static pc_status read_yarn(const source *s, pc__rope_config *rope)
{
    double attention = 1;
    pc_status status;
    rope->beta_fast = 32;
    rope->beta_slow = 1;
    rope->truncate = 1;
    PC__TRY(read_only(s, "rope.scaling.yarn_ext_factor", 1), done);
    PC__TRY(read_only(s, "rope.scaling.yarn_log_multiplier", 0), done);
    PC__TRY(read_number(s, "rope.scaling.yarn_beta_fast", &rope->beta_fast), done);
    PC__TRY(read_number(s, "rope.scaling.yarn_beta_slow", &rope->beta_slow), done);
    PC__TRY(read_number(s, "rope.scaling.attn_factor", &attention), done);
    PC__TRY(read_number(s, "rope.scaling.yarn_attn_factor", &attention), done);
    if (!(rope->beta_fast > 0) || !(rope->beta_slow > 0) || !(attention > 0))
        return pc__fail(PC_ERR_FORMAT, "%s: a number of rope.scaling is not above zero", s->path);
    rope->attention_factor = attention * (rope->factor > 1 ? 1 + 0.1 * log(rope->factor) : 1);
done:
    return status;
}

static pc_status read_scaling(const source *s, pc__rope_config *rope)
{
    int32_t original;
    pc_status status;
    PC__TRY(read_scaling_kind(s, rope), done);
    PC__TRY(read_size(s, "rope.scaling.original_context_length", 0, &original), done);
    rope->original_length = original ? original : rope->max_length;
    if (rope->scaling == PC__ROPE_LINEAR && rope->factor == 0)
        rope->scaling = PC__ROPE_PLAIN;
    if ((rope->scaling == PC__ROPE_LINEAR || rope->scaling == PC__ROPE_YARN) && !(rope->factor > 0))
        return pc__fail(PC_ERR_FORMAT, "%s: the factor of rope.scaling is not above zero", s->path);
    if (rope->scaling != PC__ROPE_PLAIN && !(rope->original_length > 1))
        return pc__fail(PC_ERR_FORMAT,
                        "%s: rope.scaling without the length that the model was trained for",
                        s->path);
    if (rope->scaling == PC__ROPE_YARN)
        status = read_yarn(s, rope);
done:
    return status;
}

/* Factors of single frequencies: one vector (Llama 3), or a short and a long one (LongRoPE). */
static pc_status read_factor_tensors(const source *s, const pc_allocator *mem,
                                     pc__rope_config *rope)
{
    const pc__tensor *one = find_tensor(s, "rope_freqs.weight");
    const pc__tensor *low = find_tensor(s, "rope_factors_short.weight"),
                     *high = find_tensor(s, "rope_factors_long.weight");
    int is_long = low && high;
    pc_status status = PC_OK;
    if (!one && !low && !high)
        return rope->scaling == PC__ROPE_LONG
                   ? pc__fail(PC_ERR_FORMAT,
                              "%s: longrope without rope_factors_short and rope_factors_long",
                              s->path)
                   : PC_OK;
    if (is_long == (one != NULL)
        || (rope->scaling != PC__ROPE_PLAIN && !(is_long && rope->scaling == PC__ROPE_LONG)))
        return pc__fail(
            PC_ERR_UNSUPPORTED,
            "%s: frequency factors together with another scaling, or with one half of them missing",
            s->path);
    rope->scaling = is_long ? PC__ROPE_LONG : PC__ROPE_FACTORS;
    PC__TRY(read_factors(s, mem, is_long ? low : one, rope->dims / 2, &rope->short_factors), done);
    if (is_long) {
        PC__TRY(read_factors(s, mem, high, rope->dims / 2, &rope->long_factors), done);
        rope->attention_factor = 1;
        PC__TRY(read_number(s, "rope.scaling.attn_factor", &rope->attention_factor), done);
        if (!(rope->attention_factor > 0) || !(rope->original_length > 1))
            status =
                pc__fail(PC_ERR_FORMAT, "%s: a number of rope.scaling is not above zero", s->path);
    }
done:
    return status;
}

static pc_status read_rope(const source *s, const pc_allocator *mem, pc__arch *arch)
{
    pc__rope_config *rope = &arch->rope;
    pc_status status;
    rope->theta = 10000.0;
    rope->max_length = rope->original_length = arch->context_length;
    PC__TRY(read_number(s, "rope.freq_base", &rope->theta), done);
    PC__TRY(read_size(s, "rope.dimension_count", 0, &rope->dims), done);
    if (!rope->dims)
        rope->dims = arch->head_dim;
    PC__TRY(pc__arch_check(arch, s->path), done); /* the number of factors depends on it */
    PC__TRY(read_scaling(s, rope), done);
    status = read_factor_tensors(s, mem, rope);
done:
    return status;
}

static pc_status read_heads(const source *s, pc__arch *arch)
{
    int32_t v_dim;
    pc_status status;
    PC__TRY(read_size(s, "attention.head_count", 1, &arch->heads), done);
    PC__TRY(read_size(s, "attention.head_count_kv", 0, &arch->kv_heads), done);
    PC__TRY(read_size(s, "attention.key_length", 0, &arch->head_dim), done);
    PC__TRY(read_size(s, "attention.value_length", 0, &v_dim), done);
    if (!arch->kv_heads)
        arch->kv_heads = arch->heads;
    if (!arch->head_dim && (arch->heads < 1 || arch->hidden % arch->heads))
        return pc__fail(PC_ERR_FORMAT, "%s: a width of %d is no multiple of %d heads", s->path,
                        arch->hidden, arch->heads);
    if (!arch->head_dim)
        arch->head_dim = arch->hidden / arch->heads;
    arch->v_dim = v_dim ? v_dim : arch->head_dim;
    if (arch->v_dim != arch->head_dim)
        return pc__fail(PC_ERR_UNSUPPORTED,
                        "%s: keys of %d and values of %d dimensions are not implemented", s->path,
                        arch->head_dim, arch->v_dim);
done:
    return status;
}

static pc_status read_sizes(const source *s, pc__arch *arch)
{
    const pc__tensor *embedding = find_tensor(s, "token_embd.weight");
    double scale = 0;
    pc_status status;
    PC__TRY(read_size(s, "block_count", 1, &arch->layers), done);
    PC__TRY(read_size(s, "embedding_length", 1, &arch->hidden), done);
    PC__TRY(read_size(s, "feed_forward_length", 1, &arch->ffn), done);
    PC__TRY(read_size(s, "context_length", 1, &arch->context_length), done);
    PC__TRY(read_size(s, "attention.sliding_window", 0, &arch->window), done);
    PC__TRY(read_heads(s, arch), done);
    PC__TRY(read_number(s, "attention.scale", &scale), done);
    if (scale < 0)
        return pc__fail(PC_ERR_FORMAT, "%s: key '%s.attention.scale' is below zero", s->path,
                        s->architecture);
    arch->attention_scale = (float)scale;
    if (!embedding || embedding->rank != 2 || embedding->shape[0] > INT32_MAX)
        return pc__fail(PC_ERR_FORMAT, "%s: there is no matrix 'token_embd.weight'", s->path);
    arch->vocab = (int32_t)embedding->shape[0];
    arch->embedding_dim = arch->hidden;
    arch->tied = !find_tensor(s, "output.weight");
done:
    return status;
}

static pc_status read_eps(const source *s, pc__arch *arch)
{
    double eps = -1;
    const char *name = arch->norm == PC__NORM_RMS ? "attention.layer_norm_rms_epsilon"
                                                  : "attention.layer_norm_epsilon";
    pc_status status = read_number(s, name, &eps);
    if (status >= 0 && eps < 0)
        return pc__fail(PC_ERR_FORMAT, "%s: there is no key '%s.%s'", s->path, s->architecture,
                        name);
    arch->norm_eps = (float)eps;
    return status;
}

/* MPT's and Bloom's slopes; the largest exponent is a constant of Bloom. */
static pc_status read_alibi(const source *s, pc__arch *arch)
{
    double most = 8, clip = 0;
    pc_status status;
    PC__TRY(read_number(s, "attention.max_alibi_bias", &most), done);
    PC__TRY(read_number(s, "attention.clamp_kqv", &clip), done);
    if (!(most > 0) || clip < 0)
        return pc__fail(PC_ERR_UNSUPPORTED, "%s: an ALiBi exponent of %g, a clamp of %g", s->path,
                        most, clip);
    arch->alibi_max = (float)most;
    arch->qkv_clip = (float)clip;
    arch->alibi_mpt = !strcmp(s->architecture, "mpt");
    arch->embedding_norm = !strcmp(s->architecture, "bloom");
done:
    return status;
}

/* What leaves the experts' weights another sum than the softmax's. */
static pc_status read_expert_weights(const source *s, pc__expert_config *experts)
{
    char key[MAX_KEY];
    uint64_t renormalise = (uint64_t)experts->renormalise;
    double gating = 1, scale = 0;
    int32_t groups;
    pc_status status;
    PC__TRY(read_number(s, "expert_gating_func", &gating), done);
    PC__TRY(read_size(s, "expert_group_count", 0, &groups), done);
    if (gating != 1 || groups > 1)
        return pc__fail(PC_ERR_UNSUPPORTED, "%s: key '%s': %g is not implemented", s->path,
                        key_of(s, groups > 1 ? "expert_group_count" : "expert_gating_func", key),
                        groups > 1 ? (double)groups : gating);
    if (pc__gguf_u64(s->gguf, key_of(s, "expert_weights_norm", key), &renormalise)
        && experts->renormalise && !renormalise)
        return pc__fail(PC_ERR_UNSUPPORTED, "%s: key '%s': false is not implemented for '%s'",
                        s->path, key, s->architecture);
    experts->renormalise = renormalise != 0;
    PC__TRY(read_number(s, "expert_weights_scale", &scale), done);
    experts->scale = scale == 1 ? 0 : (float)scale;
done:
    return status;
}

static pc_status read_expert_sizes(const source *s, pc__arch *arch)
{
    pc__expert_config *experts = &arch->experts;
    int qwen = !strcmp(s->architecture, "qwen2moe"), llama = !strcmp(s->architecture, "llama");
    int32_t shared;
    pc_status status;
    PC__TRY(read_size(s, "expert_used_count", 1, &experts->used), done);
    PC__TRY(read_size(s, "expert_feed_forward_length", !llama && !qwen, &experts->width), done);
    if (!experts->width)
        experts->width = llama || experts->used < 1 ? arch->ffn : arch->ffn / experts->used;
    PC__TRY(read_size(s, "expert_shared_feed_forward_length", 0, &experts->shared), done);
    PC__TRY(read_size(s, "expert_shared_count", 0, &shared), done);
    if (llama && (shared || experts->shared))
        return pc__fail(PC_ERR_UNSUPPORTED, "%s: a shared expert is not implemented for 'llama'",
                        s->path);
    if (qwen && !experts->shared)
        experts->shared = arch->ffn;
    else if (!qwen && (int64_t)shared * experts->width <= INT32_MAX)
        experts->shared = shared * experts->width;
    experts->shared_gated = qwen;
    experts->renormalise = llama;
done:
    return status;
}

/* Layers with a router have experts; a key may say which ones those are. */
static pc_status read_expert_layers(const source *s, pc__arch *arch)
{
    char key[MAX_KEY];
    uint64_t dense;
    int told = pc__gguf_u64(s->gguf, key_of(s, "leading_dense_block_count", key), &dense);
    for (int32_t l = 0; l < arch->layers && l < PC__MAX_LAYERS; l++) {
        char name[64];
        snprintf(name, sizeof name, "blk.%d.ffn_gate_inp.weight", l);
        int has = find_tensor(s, name) != NULL;
        if (told && has != ((uint64_t)l >= dense))
            return pc__fail(PC_ERR_FORMAT, "%s: key '%s' is %llu, and there is %s tensor '%s'",
                            s->path, key, (unsigned long long)dense, has ? "a" : "no", name);
        if (has)
            pc__set_experts(arch, l);
    }
    return PC_OK;
}

static pc_status read_experts(const source *s, const family *f, pc__arch *arch)
{
    char key[MAX_KEY];
    pc_status status;
    PC__TRY(read_size(s, "expert_count", 0, &arch->experts.count), done);
    if (!arch->experts.count)
        goto done;
    if (!f->experts)
        return pc__fail(PC_ERR_UNSUPPORTED, "%s: key '%s': %d is not implemented", s->path,
                        key_of(s, "expert_count", key), arch->experts.count);
    strcpy(arch->name, f->experts);
    PC__TRY(read_expert_sizes(s, arch), done);
    PC__TRY(read_expert_weights(s, &arch->experts), done);
    status = read_expert_layers(s, arch);
done:
    return status;
}

static void read_tokens(const source *s, pc__arch *arch)
{
    static const char *const keys[4] = {"tokenizer.ggml.bos_token_id",
                                        "tokenizer.ggml.eos_token_id",
                                        "tokenizer.ggml.unknown_token_id",
                                        "tokenizer.ggml.padding_token_id"};
    int32_t *ids[4] = {&arch->token_bos, &arch->token_eos, &arch->token_unk, &arch->token_pad};
    for (int i = 0; i < 4; i++) {
        int64_t id = -1;
        pc__gguf_i64(s->gguf, keys[i], &id);
        *ids[i] = id >= 0 && id < arch->vocab ? (int32_t)id : -1;
    }
}

static pc_status read_arch(const source *s, const family *f, const pc_allocator *mem,
                           pc__arch *arch)
{
    pc_status status;
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
    PC__TRY(refuse_extras(s), done);
    PC__TRY(read_sizes(s, arch), done);
    PC__TRY(read_experts(s, f, arch), done);
    PC__TRY(read_eps(s, arch), done);
    if (!strcmp(f->name, "falcon") && find_tensor(s, "blk.0.attn_norm_2.weight"))
        arch->residual = PC__RESIDUAL_PARALLEL_2;
    if (f->positions == PC_POSITION_ROPE)
        PC__TRY(read_rope(s, mem, arch), done);
    if (f->positions == PC_POSITION_ALIBI)
        PC__TRY(read_alibi(s, arch), done);
    read_tokens(s, arch);
    status = pc__arch_check(arch, s->path);
done:
    return status;
}

pc_status pc__arch_from_gguf(pc__arch *out, const pc_allocator *mem, pc__gguf *gguf)
{
    source s = {.gguf = gguf,
                .weights = pc__gguf_weights(gguf),
                .path = pc__weights_path(pc__gguf_weights(gguf))};
    const family *found = NULL;
    pc_status status;
    memset(out, 0, sizeof *out);
    if (!pc__gguf_string(gguf, "general.architecture", &s.architecture))
        return pc__fail(PC_ERR_FORMAT, "%s: there is no key 'general.architecture'", s.path);
    if (!pc__weights_count(s.weights))
        return pc__fail(PC_ERR_NOT_FOUND, "%s: a vocabulary without weights", s.path);
    for (size_t i = 0; i < sizeof families / sizeof *families; i++)
        if (!strcmp(families[i].name, s.architecture))
            found = &families[i];
    if (!found)
        return pc__fail(PC_ERR_UNSUPPORTED,
                        "%s: key 'general.architecture': '%s' is none of llama, qwen2, qwen2moe, "
                        "deepseek, phi3, phi2, falcon, mpt, bloom, gpt2",
                        s.path, s.architecture);
    status = read_arch(&s, found, mem, out);
    if (status < 0)
        pc__arch_clear(mem, out);
    return status;
}
