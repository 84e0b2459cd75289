/* GGUF metadata to pc__arch. GGUF does not say what an architecture computes: gguf_families.c does.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "model/load/families.h"
#include "model/load/gguf_internal.h"

const char *pc__meta_key(const pc__meta *s, const char *name, char key[PC__META_KEY])
{
    snprintf(key, PC__META_KEY, "%s.%s", s->architecture, name);
    return key;
}

/* The integer of the key, or the one that all its elements have in common; PC_MISS: there is none.
 */
static pc_status read_common(const pc__meta *s, const char *key, int64_t *out)
{
    int64_t each;
    size_t count = pc__gguf_array(s->gguf, key);
    if (!count)
        return pc__gguf_i64(s->gguf, key, out) ? PC_OK : PC_MISS;
    for (size_t i = 0; i < count; i++) {
        if (!pc__gguf_array_i64(s->gguf, key, i, &each))
            return PC_MISS;
        if (i && each != *out)
            return pc__fail(PC_ERR_UNSUPPORTED,
                            "%s: key '%s': layers of different sizes are not implemented", s->path,
                            key);
        *out = each;
    }
    return PC_OK;
}

pc_status pc__meta_size(const pc__meta *s, const char *name, pc__count kind, int wanted,
                        int32_t *out)
{
    char key[PC__META_KEY], words[PC__COUNT_WORDS];
    int64_t value = 0;
    pc_status status = read_common(s, pc__meta_key(s, name, key), &value);
    *out = 0;
    if (status < 0 || (status == PC_MISS && !wanted && !pc__meta_has(s, name)))
        return status < 0 ? status : PC_OK;
    if (status == PC_MISS)
        return pc__fail(PC_ERR_FORMAT, "%s: key '%s' is missing or not %s", s->path, key,
                        pc__count_words(kind, words));
    if (value || wanted)
        PC__TRY_RETURN(pc__count_check(kind, value, s->path, key));
    *out = (int32_t)value;
    return PC_OK;
}

pc_status pc__meta_number(const pc__meta *s, const char *name, double *out)
{
    char key[PC__META_KEY];
    double value;
    if (!pc__gguf_f64(s->gguf, pc__meta_key(s, name, key), &value))
        return PC_OK;
    if (!pc__factor_has(value))
        return pc__fail(PC_ERR_FORMAT, "%s: key '%s': %g is not " PC__FACTOR_WORDS, s->path, key,
                        value);
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

int pc__meta_has(const pc__meta *s, const char *name)
{
    char key[PC__META_KEY];
    return pc__gguf_find(s->gguf, pc__meta_key(s, name, key)) != NULL;
}

pc_status pc__meta_none(const pc__meta *s, const char *name)
{
    char key[PC__META_KEY];
    if (!pc__meta_has(s, name))
        return PC_OK;
    return pc__fail(PC_ERR_UNSUPPORTED, "%s: key '%s' is not implemented for '%s'", s->path,
                    pc__meta_key(s, name, key), s->architecture);
}

/* Refuses keys that change what the architecture computes. */
static pc_status refuse_extras(const pc__meta *s, uint32_t known)
{
    static const struct {
        const char *name;
        double neutral;
        uint32_t bit; /* families with it read the key */
    } extras[] = {{"attn_logit_softcapping", 0, PC__GGUF_ATTENTION_CAP},
                  {"final_logit_softcapping", 0, PC__GGUF_LOGIT_CAP},
                  {"router_logit_softcapping", 0, 0},
                  {"logit_scale", 0, PC__GGUF_LOGIT_SCALE | PC__GGUF_LOGIT_DIVISOR},
                  {"embedding_scale", 0, PC__GGUF_SCALES},
                  {"residual_scale", 0, PC__GGUF_SCALES},
                  {"attention.causal", 1, 0},
                  {"attention.output_scale", 0, 0},
                  {"attention.value_scale", 0, 0},
                  {"attention.shared_kv_layers", 0, 0},
                  {"attention.q_lora_rank", 0, PC__GGUF_LATENT},
                  {"attention.kv_lora_rank", 0, PC__GGUF_LATENT},
                  {"use_parallel_residual", 0, PC__GGUF_PARALLEL},
                  {"attention.temperature_scale", 0, PC__GGUF_TEMPERATURE}};
    static const char *const structures[] = {"rope.dimension_sections", "rope.dimension_count_swa",
                                             "attention.key_length_swa", "swiglu_clamp_shexp",
                                             "embedding_length_per_layer_input"};
    for (size_t i = 0; i < sizeof extras / sizeof *extras; i++)
        if (!(known & extras[i].bit))
            PC__TRY_RETURN(pc__meta_only(s, extras[i].name, extras[i].neutral));
    for (size_t i = 0; i < sizeof structures / sizeof *structures; i++)
        PC__TRY_RETURN(pc__meta_none(s, structures[i]));
    return known & PC__GGUF_CLAMP ? PC_OK : pc__meta_none(s, "swiglu_clamp_exp");
}

static pc_status read_gguf_sizes(const pc__meta *s, pc__arch *arch)
{
    const pc__tensor *embedding = pc__weights_find(s->weights, "token_embd.weight");
    PC__TRY_RETURN(pc__meta_size(s, "block_count", PC__COUNT_LAYERS, 1, &arch->layers));
    PC__TRY_RETURN(
        pc__meta_size(s, "nextn_predict_layers", PC__COUNT_LAYERS, 0, &arch->layers_after));
    arch->layers -= arch->layers_after; /* they count too */
    PC__TRY_RETURN(pc__count_check(PC__COUNT_LAYERS, arch->layers, s->path, "layers"));
    PC__TRY_RETURN(pc__meta_size(s, "embedding_length", PC__COUNT_WIDTH, 1, &arch->hidden));
    PC__TRY_RETURN(pc__meta_size(s, "feed_forward_length", PC__COUNT_WIDTH, 1, &arch->ffn));
    PC__TRY_RETURN(
        pc__meta_size(s, "context_length", PC__COUNT_POSITIONS, 1, &arch->context_length));
    if (!embedding || embedding->rank != 2)
        return pc__fail(PC_ERR_FORMAT, "%s: the matrix 'token_embd.weight' is missing", s->path);
    PC__TRY_RETURN(pc__count_check(PC__COUNT_VOCABULARY, (int64_t)embedding->shape[0], s->path,
                                   "token_embd.weight"));
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

/* Where layer 0 shows how sublayers are joined, or a key says it. */
static pc_status read_residual(const pc__meta *s, const pc__gguf_family *f, pc__arch *arch)
{
    char key[PC__META_KEY];
    uint64_t parallel;
    arch->residual = f->residual;
    if (!strcmp(f->name, "falcon") && pc__weights_find(s->weights, "blk.0.attn_norm_2.weight"))
        arch->residual = PC__RESIDUAL_PARALLEL_2;
    if (!strcmp(f->name, "stablelm") && !pc__weights_find(s->weights, "blk.0.ffn_norm.weight"))
        arch->residual = PC__RESIDUAL_PARALLEL;
    if (strcmp(f->name, "gptneox"))
        return PC_OK;
    if (!pc__gguf_u64(s->gguf, pc__meta_key(s, "use_parallel_residual", key), &parallel))
        return pc__fail(PC_ERR_FORMAT, "%s: key '%s' is missing", s->path, key);
    arch->residual = parallel ? PC__RESIDUAL_PARALLEL_2 : PC__RESIDUAL_SEQUENTIAL;
    return PC_OK;
}

/* Factors and caps of embeddings, residuals and logits. */
static pc_status read_factors(const pc__meta *s, const pc__gguf_family *f, pc__arch *arch)
{
    double embedding = f->root_scale ? sqrt((double)arch->hidden) : 0, residual = 0, logits = 0,
           cap = 0;
    if (f->keys & PC__GGUF_SCALES) {
        PC__TRY_RETURN(pc__meta_number(s, "embedding_scale", &embedding));
        PC__TRY_RETURN(pc__meta_number(s, "residual_scale", &residual));
    }
    if (f->keys & (PC__GGUF_LOGIT_SCALE | PC__GGUF_LOGIT_DIVISOR))
        PC__TRY_RETURN(pc__meta_number(s, "logit_scale", &logits));
    if (f->keys & PC__GGUF_LOGIT_CAP)
        PC__TRY_RETURN(pc__meta_number(s, "final_logit_softcapping", &cap));
    if (embedding < 0 || residual < 0 || logits < 0 || cap < 0)
        return pc__fail(
            PC_ERR_FORMAT,
            "%s: a factor is below zero: embeddings %g, residuals %g, logits %g, cap of "
            "logits %g",
            s->path, embedding, residual, logits, cap);
    arch->embedding_scale = (float)embedding;
    arch->residual_scale = (float)residual;
    arch->logit_scale = (float)(logits > 0 && f->keys & PC__GGUF_LOGIT_DIVISOR ? 1 / logits
                                                                               : logits);
    arch->logit_cap = (float)cap;
    return PC_OK;
}

/* gpt-oss: the files have no key for alpha, and for the limit only where it is not that of the
 * released models. */
static pc_status read_clamp(const pc__meta *s, pc__arch *arch)
{
    char key[PC__META_KEY];
    double limit = 7, each;
    size_t count = pc__gguf_array(s->gguf, pc__meta_key(s, "swiglu_clamp_exp", key));
    PC__TRY_RETURN(pc__meta_number(s, "swiglu_clamp_exp", &limit));
    for (size_t i = 0; i < count; i++) {
        if (!pc__gguf_array_f64(s->gguf, key, i, &each) || !pc__factor_has(each)
            || (i && each != limit))
            return pc__fail(PC_ERR_UNSUPPORTED,
                            "%s: key '%s': layers of different limits are not "
                            "implemented",
                            s->path, key);
        limit = each;
    }
    if (!(limit > 0))
        return pc__fail(PC_ERR_FORMAT, "%s: key '%s': %g is not above zero", s->path, key, limit);
    arch->gate_alpha = 1.702f;
    arch->gate_limit = (float)limit;
    arch->sinks = 1;
    return PC_OK;
}

static pc_status read_arch(const pc__meta *s, const pc__gguf_family *f, const pc_allocator *mem,
                           pc__arch *arch)
{
    strcpy(arch->name, f->name);
    arch->norm = f->norm;
    arch->activation = f->activation;
    arch->gated = f->gated;
    arch->position_scheme = f->positions;
    arch->output_norms = f->output_norms;
    arch->no_input_norms = f->no_input_norms;
    arch->causal = 1;
    arch->final_norm = 1;
    arch->bias_by_file = 1;
    PC__TRY_RETURN(refuse_extras(s, f->keys));
    PC__TRY_RETURN(read_gguf_sizes(s, arch));
    PC__TRY_RETURN(pc__gguf_attention(s, f, arch));
    PC__TRY_RETURN(pc__gguf_experts(s, f, arch));
    PC__TRY_RETURN(read_eps(s, arch));
    arch->latent.norm_eps = arch->latent.rank ? arch->norm_eps : 0;
    PC__TRY_RETURN(read_residual(s, f, arch));
    PC__TRY_RETURN(read_factors(s, f, arch));
    if (f->activation == PC__ACT_CLAMPED)
        PC__TRY_RETURN(read_clamp(s, arch));
    if (f->positions == PC_POSITION_ROPE)
        PC__TRY_RETURN(pc__gguf_rope(s, mem, f, arch));
    if (f->positions == PC_POSITION_ALIBI)
        PC__TRY_RETURN(read_alibi(s, arch));
    PC__TRY_RETURN(pc__gguf_query_scale(s, f, arch));
    read_token_ids(s, arch);
    return pc__arch_check(arch, s->path);
}

/* Refuses files that are only a part of a model, whatever its architecture. */
static pc_status check_is_model(const pc__meta *s)
{
    const char *type;
    if (!pc__gguf_string(s->gguf, "general.type", &type))
        return PC_OK;
    if (!strcmp(type, "adapter"))
        return pc__fail(PC_ERR_UNSUPPORTED,
                        "%s: the file is an adapter (LoRA) alone: merge it into its model, %s",
                        s->path, s->architecture);
    if (!strcmp(type, "mmproj"))
        return pc__fail(PC_ERR_UNSUPPORTED,
                        "%s: the file is a vision tower (mmproj) alone: give the file of its "
                        "language model",
                        s->path);
    return PC_OK;
}

pc_status pc__arch_from_gguf(pc__arch *out, const pc_allocator *mem, pc__gguf *gguf)
{
    pc__meta s = {.gguf = gguf,
                  .weights = pc__gguf_weights(gguf),
                  .path = pc__weights_path(pc__gguf_weights(gguf))};
    const pc__gguf_family *found;
    memset(out, 0, sizeof *out);
    if (!pc__gguf_string(gguf, "general.architecture", &s.architecture))
        return pc__fail(PC_ERR_FORMAT, "%s: key 'general.architecture' is missing", s.path);
    if (!pc__weights_count(s.weights))
        return pc__fail(PC_ERR_NOT_FOUND, "%s: the file is a vocabulary without weights", s.path);
    PC__TRY_RETURN(check_is_model(&s));
    if (!(found = pc__gguf_family_of(s.architecture)))
        return pc__family_refuse(s.path, "general.architecture", s.architecture,
                                 pc__gguf_family_name);
    pc_status status = read_arch(&s, found, mem, out);
    if (status < 0)
        pc__arch_clear(mem, out);
    return status;
}
