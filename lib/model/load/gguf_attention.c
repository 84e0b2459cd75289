/* Attention of a GGUF file: heads, norms of queries and keys, windows and chunks, layers that do
 * not turn, scales of scores and queries. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "model/load/gguf_internal.h"

static pc_status read_heads(const pc__meta *s, pc__arch *arch)
{
    int32_t v_dim;
    PC__TRY_RETURN(pc__meta_size(s, "attention.head_count", PC__COUNT_HEADS, 1, &arch->heads));
    PC__TRY_RETURN(
        pc__meta_size(s, "attention.head_count_kv", PC__COUNT_HEADS, 0, &arch->kv_heads));
    PC__TRY_RETURN(
        pc__meta_size(s, "attention.key_length", PC__COUNT_HEAD_DIM, 0, &arch->head_dim));
    PC__TRY_RETURN(pc__meta_size(s, "attention.value_length", PC__COUNT_HEAD_DIM, 0, &v_dim));
    if (!arch->kv_heads)
        arch->kv_heads = arch->heads;
    if (!arch->head_dim && arch->hidden % arch->heads)
        return pc__fail(PC_ERR_FORMAT, "%s: the width %d is not a multiple of %d heads", s->path,
                        arch->hidden, arch->heads);
    if (!arch->head_dim)
        arch->head_dim = arch->hidden / arch->heads;
    arch->v_dim = v_dim ? v_dim : arch->head_dim;
    return PC_OK;
}

/* Newer files give the sizes of the latent state as those of keys and values, as if it were one
 * head, and those of the heads under other keys. */
static pc_status read_latent(const pc__meta *s, pc__arch *arch)
{
    pc__latent_config *latent = &arch->latent;
    int32_t key, value;
    PC__TRY_RETURN(pc__meta_size(s, "attention.kv_lora_rank", PC__COUNT_WIDTH, 1, &latent->rank));
    PC__TRY_RETURN(pc__meta_size(s, "attention.q_lora_rank", PC__COUNT_WIDTH, 0, &latent->q_rank));
    PC__TRY_RETURN(
        pc__meta_size(s, "rope.dimension_count", PC__COUNT_HEAD_DIM, 1, &latent->rotated));
    PC__TRY_RETURN(pc__meta_size(s, "attention.key_length_mla", PC__COUNT_HEAD_DIM, 0, &key));
    PC__TRY_RETURN(pc__meta_size(s, "attention.value_length_mla", PC__COUNT_HEAD_DIM, 0, &value));
    if ((key > 0) != (value > 0))
        return pc__fail(PC_ERR_FORMAT,
                        "%s: keys 'attention.kv_lora_rank' %d, 'attention.key_length_mla' %d and "
                        "'attention.value_length_mla' %d do not fit together",
                        s->path, latent->rank, key, value);
    if (key) {
        arch->head_dim = key;
        arch->v_dim = value;
    }
    arch->kv_heads = arch->heads;
    latent->plain = arch->head_dim - latent->rotated;
    return PC_OK;
}

static pc_status check_values(const pc__meta *s, const pc__arch *arch)
{
    if (arch->v_dim == arch->head_dim)
        return PC_OK;
    return pc__fail(
        PC_ERR_UNSUPPORTED,
        "%s: keys of %d and values of %d dimensions are not implemented: they must be equal",
        s->path, arch->head_dim, arch->v_dim);
}

/* Gemma's largest models divide scores by the root of the width of a head as it would be without
 * head_dim; no key says so. */
static double usual_scale(const pc__meta *s, const pc__arch *arch)
{
    int is_largest = (!strcmp(s->architecture, "gemma2") && arch->layers == 46)
                     || (!strcmp(s->architecture, "gemma3") && arch->layers == 62);
    return is_largest ? 1 / sqrt((double)(arch->hidden / arch->heads)) : 0;
}

static pc_status read_scores(const pc__meta *s, const pc__gguf_family *f, pc__arch *arch)
{
    double scale = usual_scale(s, arch), cap = 0;
    PC__TRY_RETURN(pc__meta_number(s, "attention.scale", &scale));
    if (f->keys & PC__GGUF_ATTENTION_CAP)
        PC__TRY_RETURN(pc__meta_number(s, "attn_logit_softcapping", &cap));
    if (scale < 0 || cap < 0)
        return pc__fail(PC_ERR_FORMAT, "%s: key '%s.%s' is below zero", s->path, s->architecture,
                        scale < 0 ? "attention.scale" : "attn_logit_softcapping");
    arch->attention_scale = (float)scale;
    arch->attention_cap = (float)cap;
    return PC_OK;
}

/* Llama 4 norms queries and keys, but for its model of 128 experts; only some files say so. */
static pc_status read_qk_norm(const pc__meta *s, const pc__gguf_family *f, pc__arch *arch)
{
    char key[PC__META_KEY];
    int has = pc__weights_find(s->weights, "blk.0.attn_q_norm.weight") != NULL;
    uint64_t normed;
    int32_t experts;
    arch->qk_norm = f->qk_norm;
    if (f->qk_norm_by_file && !has)
        arch->qk_norm = PC__QK_NONE;
    if (f->qk_norm != PC__QK_PLAIN)
        return PC_OK;
    PC__TRY_RETURN(pc__meta_size(s, "expert_count", PC__COUNT_EXPERTS, 0, &experts));
    normed = experts != 128;
    pc__gguf_u64(s->gguf, pc__meta_key(s, "use_qk_norm", key), &normed);
    arch->qk_norm = normed ? PC__QK_PLAIN : PC__QK_NONE;
    return PC_OK;
}

/* The layers with the window: a list of flags, or every layer but each n-th; 0: all. */
static pc_status read_pattern(const pc__meta *s, const pc__gguf_family *f, int32_t layers,
                              pc__layer_set *out)
{
    char key[PC__META_KEY];
    uint64_t period = (uint64_t)f->period;
    int64_t flag;
    size_t count = pc__gguf_array(s->gguf,
                                  pc__meta_key(s, "attention.sliding_window_pattern", key));
    int is_given = pc__gguf_u64(s->gguf, key, &period);
    if (count ? count < (size_t)layers
              : !is_given && pc__meta_has(s, "attention.sliding_window_pattern"))
        return pc__fail(PC_ERR_FORMAT, "%s: key '%s' is not a number or a flag for each layer",
                        s->path, key);
    for (int32_t l = 0; l < layers; l++) {
        flag = !period || (uint64_t)l % period < period - 1;
        if (count && !pc__gguf_array_i64(s->gguf, key, (size_t)l, &flag))
            return pc__fail(PC_ERR_FORMAT, "%s: key '%s' is not a flag for each layer", s->path,
                            key);
        if (flag)
            pc__layer_add(out, l);
    }
    return PC_OK;
}

static void leave_unrotated(const pc__gguf_family *f, const pc__layer_set *near, pc__arch *arch)
{
    for (int32_t l = 0; l < arch->layers; l++) {
        int turns = f->unrotated == PC__GGUF_FULL_DO_NOT       ? pc__layer_in(near, l)
                    : f->unrotated == PC__GGUF_FOURTH_DOES_NOT ? (l + 1) % 4
                                                               : 1;
        if (!turns)
            pc__layer_add(&arch->unrotated, l);
    }
}

static pc_status read_windows(const pc__meta *s, const pc__gguf_family *f, pc__arch *arch)
{
    pc__layer_set near = {{0}};
    PC__TRY_RETURN(read_pattern(s, f, arch->layers, &near));
    leave_unrotated(f, &near, arch);
    if (f->chunk) {
        PC__TRY_RETURN(
            pc__meta_size(s, "attention.chunk_size", PC__COUNT_POSITIONS, 0, &arch->chunk));
        arch->chunk = arch->chunk ? arch->chunk : f->chunk;
        arch->chunked = near;
        PC__TRY_RETURN(
            pc__meta_size(s, "attention.sliding_window", PC__COUNT_POSITIONS, 0, &arch->window));
        if (!arch->window && pc__meta_has(s, "attention.sliding_window"))
            return pc__fail(PC_ERR_UNSUPPORTED,
                            "%s: key '%s.attention.sliding_window': 0 is not implemented", s->path,
                            s->architecture);
        arch->window = 0; /* the files give the chunks' size again, if anything */
        return PC_OK;
    }
    PC__TRY_RETURN(
        pc__meta_size(s, "attention.sliding_window", PC__COUNT_POSITIONS, 0, &arch->window));
    if (!arch->window && !strcmp(f->name, "gemma2"))
        arch->window = 4096; /* its first files have no key */
    if (arch->window)
        arch->windowed = near;
    return PC_OK;
}

pc_status pc__gguf_attention(const pc__meta *s, const pc__gguf_family *f, pc__arch *arch)
{
    PC__TRY_RETURN(read_heads(s, arch));
    PC__TRY_RETURN(f->keys & PC__GGUF_LATENT ? read_latent(s, arch) : check_values(s, arch));
    PC__TRY_RETURN(read_scores(s, f, arch));
    PC__TRY_RETURN(read_qk_norm(s, f, arch));
    return read_windows(s, f, arch);
}

pc_status pc__gguf_query_scale(const pc__meta *s, const pc__gguf_family *f, pc__arch *arch)
{
    pc__query_scale *scale = &arch->query_scale;
    int32_t length;
    if (!(f->keys & PC__GGUF_TEMPERATURE))
        return PC_OK;
    *scale = f->query_scale;
    PC__TRY_RETURN(pc__meta_number(s, "attention.temperature_scale", &scale->scale));
    PC__TRY_RETURN(
        pc__meta_size(s, "attention.temperature_length", PC__COUNT_POSITIONS, 0, &length));
    if (length)
        scale->step = length;
    if (!(scale->step > 0))
        scale->step = arch->rope.original_length;
    if (scale->scale == 0)
        *scale = (pc__query_scale){0};
    else if (!(scale->step > 0))
        return pc__fail(PC_ERR_FORMAT,
                        "%s: key '%s.attention.temperature_scale' needs the length that the model "
                        "was trained for",
                        s->path, s->architecture);
    return PC_OK;
}
