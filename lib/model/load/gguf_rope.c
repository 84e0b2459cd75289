/* RoPE of a GGUF file: base, scaling, factors of single frequencies. */
#include <math.h>
#include <string.h>

#include "model/load/gguf_internal.h"
#include "model/load/positions.h"

/* Reads a tensor of `count` factors above zero. */
static pc_status read_factor_tensor(const pc__meta *s, const pc_allocator *mem,
                                    const pc__tensor *tensor, int32_t count, double **out)
{
    if (tensor->rank != 1 || tensor->shape[0] != (uint64_t)count || tensor->type != PC__T_F32)
        return pc__fail(PC_ERR_FORMAT, "%s: tensor '%s' is not an F32 vector of %d factors",
                        s->path, tensor->name, count);
    if (!(*out = pc__calloc(mem, (size_t)count, sizeof **out)))
        return PC_ERR_NOMEM;
    for (int32_t i = 0; i < count; i++) {
        float factor;
        pc__tensor_floats(tensor, (uint64_t)i, 1, &factor);
        if (!(factor > 0) || !pc__factor_has((double)factor))
            return pc__fail(PC_ERR_FORMAT,
                            "%s: tensor '%s': factor %d is not above zero, or too large", s->path,
                            tensor->name, i);
        (*out)[i] = (double)factor;
    }
    return PC_OK;
}

static pc_status read_gguf_scaling_kind(const pc__meta *s, pc__rope_config *rope)
{
    static const struct {
        const char *name;
        pc__rope_scaling scaling;
    } kinds[] = {{"none", PC__ROPE_PLAIN},
                 {"linear", PC__ROPE_LINEAR},
                 {"yarn", PC__ROPE_YARN},
                 {"longrope", PC__ROPE_LONG}};
    char key[PC__META_KEY];
    const char *name = "linear"; /* older files have a factor and no type */
    PC__TRY_RETURN(pc__meta_number(s, "rope.scale_linear", &rope->factor));
    PC__TRY_RETURN(pc__meta_number(s, "rope.scaling.factor", &rope->factor));
    if (!pc__gguf_string(s->gguf, pc__meta_key(s, "rope.scaling.type", key), &name)
        && (rope->factor == 0 || rope->factor == 1))
        name = "none";
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        if (!strcmp(name, kinds[i].name)) {
            rope->scaling = kinds[i].scaling;
            return PC_OK;
        }
    }
    return pc__fail(PC_ERR_UNSUPPORTED, "%s: key '%s': '%s' is not implemented", s->path, key,
                    PC__QUOTE(name));
}

static double yarn_scale(double factor, double mscale)
{
    return factor > 1 ? 1 + 0.1 * mscale * log(factor) : 1;
}

/* The logarithmic factor of the length, mscale_all_dim of the original; mscale is 1, or, in files
 * of DeepSeek, the same. There the files have a tenth of it, and the scores are scaled by its
 * square. */
static pc_status read_log_multiplier(const pc__meta *s, pc__arch *arch, double *usual)
{
    double multiplier = 0;
    int is_latent = !strcmp(s->architecture, "deepseek2");
    PC__TRY_RETURN(pc__meta_number(s, "rope.scaling.yarn_log_multiplier", &multiplier));
    if (multiplier < 0)
        return pc__fail(PC_ERR_FORMAT,
                        "%s: key '%s.rope.scaling.yarn_log_multiplier' is below "
                        "zero",
                        s->path, s->architecture);
    if (multiplier == 0)
        return PC_OK;
    if (!is_latent) {
        *usual /= yarn_scale(arch->rope.factor, multiplier);
        return PC_OK;
    }
    double scale = yarn_scale(arch->rope.factor, multiplier / 0.1);
    double scores = arch->attention_scale > 0 ? (double)arch->attention_scale
                                              : 1 / sqrt((double)arch->head_dim);
    arch->attention_scale = (float)(scores * scale * scale);
    *usual = 1;
    return PC_OK;
}

/* Of the two factors in files, attn_factor multiplies that of the formula, yarn_attn_factor stands
 * in its place: it is attention_factor of config.json. gpt-oss does not round the range of the
 * dimensions; no key says so. */
static pc_status read_gguf_yarn(const pc__meta *s, const pc__gguf_family *f, pc__arch *arch)
{
    pc__rope_config *rope = &arch->rope;
    double attention = 1, usual = yarn_scale(rope->factor, 1);
    rope->beta_fast = 32;
    rope->beta_slow = 1;
    rope->truncate = strcmp(s->architecture, "gpt-oss") != 0;
    PC__TRY_RETURN(pc__meta_only(s, "rope.scaling.yarn_ext_factor", 1));
    if (f->keys & PC__GGUF_YARN_LOG)
        PC__TRY_RETURN(read_log_multiplier(s, arch, &usual));
    else
        PC__TRY_RETURN(pc__meta_only(s, "rope.scaling.yarn_log_multiplier", 0));
    PC__TRY_RETURN(pc__meta_number(s, "rope.scaling.yarn_beta_fast", &rope->beta_fast));
    PC__TRY_RETURN(pc__meta_number(s, "rope.scaling.yarn_beta_slow", &rope->beta_slow));
    PC__TRY_RETURN(pc__meta_number(s, "rope.scaling.attn_factor", &attention));
    PC__TRY_RETURN(pc__meta_number(s, "rope.scaling.yarn_attn_factor", &usual));
    if (!(rope->beta_fast > 0) || !(rope->beta_slow > 0) || !(attention > 0) || !(usual > 0))
        return pc__fail(PC_ERR_FORMAT, "%s: a number of rope.scaling is not above zero", s->path);
    rope->attention_factor = attention * usual;
    return PC_OK;
}

static pc_status read_gguf_scaling(const pc__meta *s, const pc__gguf_family *f, pc__arch *arch)
{
    pc__rope_config *rope = &arch->rope;
    int32_t original;
    PC__TRY_RETURN(read_gguf_scaling_kind(s, rope));
    PC__TRY_RETURN(pc__meta_size(s, "rope.scaling.original_context_length", PC__COUNT_POSITIONS, 0,
                                 &original));
    rope->original_length = original ? original : rope->max_length;
    if (rope->scaling == PC__ROPE_LINEAR && rope->factor == 0)
        rope->scaling = PC__ROPE_PLAIN;
    if ((rope->scaling == PC__ROPE_LINEAR || rope->scaling == PC__ROPE_YARN) && !(rope->factor > 0))
        return pc__fail(PC_ERR_FORMAT, "%s: the factor of rope.scaling is not above zero", s->path);
    if (rope->scaling != PC__ROPE_PLAIN && !(rope->original_length > 1))
        return pc__fail(PC_ERR_FORMAT,
                        "%s: rope.scaling needs the length that the model was trained for",
                        s->path);
    if (rope->scaling == PC__ROPE_YARN)
        return read_gguf_yarn(s, f, arch);
    return PC_OK;
}

/* Factors of single frequencies: one vector (Llama 3), or a short and a long one (LongRoPE). */
static pc_status read_factor_tensors(const pc__meta *s, const pc_allocator *mem,
                                     pc__rope_config *rope)
{
    const pc__tensor *one = pc__weights_find(s->weights, "rope_freqs.weight");
    const pc__tensor *low = pc__weights_find(s->weights, "rope_factors_short.weight"),
                     *high = pc__weights_find(s->weights, "rope_factors_long.weight");
    int is_long = low && high;
    if (!one && !low && !high)
        return rope->scaling == PC__ROPE_LONG
                   ? pc__fail(PC_ERR_FORMAT,
                              "%s: longrope needs rope_factors_short and rope_factors_long",
                              s->path)
                   : PC_OK;
    if (is_long == (one != NULL)
        || (rope->scaling != PC__ROPE_PLAIN && !(is_long && rope->scaling == PC__ROPE_LONG)))
        return pc__fail(PC_ERR_UNSUPPORTED,
                        "%s: frequency factors are incomplete or have another scaling beside them",
                        s->path);
    rope->scaling = is_long ? PC__ROPE_LONG : PC__ROPE_FACTORS;
    PC__TRY_RETURN(
        read_factor_tensor(s, mem, is_long ? low : one, rope->dims / 2, &rope->short_factors));
    if (is_long) {
        PC__TRY_RETURN(read_factor_tensor(s, mem, high, rope->dims / 2, &rope->long_factors));
        rope->attention_factor = 1;
        PC__TRY_RETURN(pc__meta_number(s, "rope.scaling.attn_factor", &rope->attention_factor));
        if (!(rope->attention_factor > 0) || !(rope->original_length > 1))
            return pc__fail(PC_ERR_FORMAT, "%s: a number of rope.scaling is not above zero",
                            s->path);
    }
    return PC_OK;
}

/* RoPE of layers with the window, if it is another one. */
static pc_status read_local_rope(const pc__meta *s, const pc__gguf_family *f, pc__arch *arch)
{
    const pc__rope_config *rope = &arch->rope;
    double theta = f->local_theta > 0 ? f->local_theta : rope->theta;
    if (!arch->window)
        return PC_OK;
    PC__TRY_RETURN(pc__meta_number(s, "rope.freq_base_swa", &theta));
    if (theta == rope->theta && (!f->local_plain || rope->scaling == PC__ROPE_PLAIN))
        return PC_OK;
    if (!(theta > 1) || (!f->local_plain && rope->scaling != PC__ROPE_PLAIN))
        return pc__fail(PC_ERR_UNSUPPORTED,
                        "%s: key '%s.rope.freq_base_swa': %g is not implemented with this scaling",
                        s->path, s->architecture, theta);
    arch->local_rope = (pc__rope_config){.scaling = PC__ROPE_PLAIN,
                                         .theta = theta,
                                         .dims = rope->dims,
                                         .interleaved = rope->interleaved,
                                         .max_length = rope->max_length};
    return PC_OK;
}

/* Granite has a key for models without RoPE. */
static void read_switch(const pc__meta *s, const pc__gguf_family *f, pc__arch *arch)
{
    char key[PC__META_KEY];
    uint64_t turns = 1;
    if (f->keys & PC__GGUF_SCALES)
        pc__gguf_u64(s->gguf, pc__meta_key(s, "rope.scaling.finetuned", key), &turns);
    for (int32_t l = 0; !turns && l < arch->layers; l++)
        pc__layer_add(&arch->unrotated, l);
}

pc_status pc__gguf_rope(const pc__meta *s, const pc_allocator *mem, const pc__gguf_family *f,
                        pc__arch *arch)
{
    pc__rope_config *rope = &arch->rope;
    rope->theta = 10000.0;
    rope->max_length = rope->original_length = arch->context_length;
    rope->interleaved = f->pairs != PC__GGUF_HALVES;
    arch->permuted = f->pairs == PC__GGUF_PERMUTED;
    PC__TRY_RETURN(pc__meta_number(s, "rope.freq_base", &rope->theta));
    PC__TRY_RETURN(pc__meta_size(s, "rope.dimension_count", PC__COUNT_HEAD_DIM, 0, &rope->dims));
    if (!rope->dims)
        rope->dims = arch->head_dim;
    PC__TRY_RETURN(pc__arch_check(arch, s->path)); /* the number of factors depends on the sizes */
    PC__TRY_RETURN(read_gguf_scaling(s, f, arch));
    PC__TRY_RETURN(read_factor_tensors(s, mem, rope));
    read_switch(s, f, arch);
    PC__TRY_RETURN(read_local_rope(s, f, arch));
    arch->context_length = pc__rope_context(rope);
    return PC_OK;
}
