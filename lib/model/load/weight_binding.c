/* Binding: packs the weights of each role for the backend, layer by layer. */
#include "model/load/weight_binding.h"

#include <string.h>

#include "model/load/positions.h"
#include "model/load/weight_binding_internal.h"

static pc__block_format format_of(const pc__binder *b, const pc__weight_source *from, size_t cols)
{
    return b->options->input_bits && from->format.bits && cols % from->format.block == 0
               ? from->format
               : (pc__block_format){0};
}

/* Keeps quantised matrices quantised if the options say so; else packs them in the model's number
 * format. */
pc_status pc__bind_source(const pc__binder *b, const pc__weight_source *from, size_t rows,
                          size_t cols, const float *bias, pc__linear **out)
{
    const pc__native *native = b->native;
    pc__weight_source source = *from;
    source.format = format_of(b, from, cols);
    source.packed = b->options->packed;
    uint32_t compute = !source.format.bits            ? native->compute
                       : b->options->input_bits == 16 ? PC_DTYPE_I16
                                                      : PC_DTYPE_I8;
    return native->backend->ops->linear_new(out, native->backend, rows, cols, compute, &source,
                                            bias);
}

pc_status pc__bind_linear(const pc__binder *b, pc__tensor_role role, size_t rows, size_t cols,
                          pc__linear **out)
{
    pc__weight_source source;
    float *bias = NULL;
    pc_status status, biased;
    PC__TRY(b->provider->matrix(b->provider->user, role, b->layer, rows, cols, &source), done);
    bias = pc__calloc(b->mem, rows,
                      sizeof *bias); /* matrix() has checked that the file has so many rows */
    PC__TRY(bias ? PC_OK : PC_ERR_NOMEM, done);
    PC__TRY(biased = b->provider->vector(b->provider->user, role, b->layer, 1, rows, bias), done);
    status = pc__bind_source(b, &source, rows, cols, biased ? bias : NULL, out);
done:
    pc__free(b->mem, bias);
    return status;
}

/* values [2][count]: scratch for gain and bias. */
static pc_status read_norm(const pc__binder *b, pc__tensor_role role, float *values, size_t count,
                           pc__native_norm *norm)
{
    float *bias = values + count;
    pc_status found = b->provider->vector(b->provider->user, role, b->layer, 0, count, values);
    if (!found)
        return pc__fail(PC_ERR_FORMAT, "the %s of layer %d is missing in the weights",
                        pc__tensor_role_name(role), b->layer);
    if (found < 0)
        return found;
    for (size_t i = 0; i < count; i++)
        values[i] += b->native->arch.gain_offset;
    if (!(norm->gain = pc__backend_vector(b->native->backend, values, count)))
        return PC_ERR_NOMEM;
    PC__TRY_RETURN(found = b->provider->vector(b->provider->user, role, b->layer, 1, count, bias));
    if (found && !(norm->bias = pc__backend_vector(b->native->backend, bias, count)))
        return PC_ERR_NOMEM;
    return PC_OK;
}

pc_status pc__bind_norm_of(const pc__binder *b, pc__tensor_role role, size_t dim, size_t vectors,
                           pc__native_norm *norm)
{
    size_t count = dim * vectors;
    float *values = pc__calloc(b->mem, 2 * count, sizeof *values);
    pc_status status = values ? read_norm(b, role, values, count, norm) : PC_ERR_NOMEM;
    norm->dim = dim;
    norm->vectors = vectors;
    pc__free(b->mem, values);
    return status;
}

/* Norms without gain have a gain of ones. */
static pc_status bind_plain_norm(const pc__binder *b, size_t dim, pc__native_norm *norm)
{
    float *ones = pc__calloc(b->mem, dim, sizeof *ones);
    for (size_t i = 0; ones && i < dim; i++)
        ones[i] = 1.0f;
    *norm = (pc__native_norm){.dim = dim, .vectors = 1};
    if (ones)
        norm->gain = pc__backend_vector(b->native->backend, ones, dim);
    pc__free(b->mem, ones);
    return norm->gain ? PC_OK : PC_ERR_NOMEM;
}

pc_status pc__bind_norm(const pc__binder *b, pc__tensor_role role, pc__native_norm *norm)
{
    size_t hidden = (size_t)b->native->arch.hidden;
    return b->native->arch.plain_norms ? bind_plain_norm(b, hidden, norm)
                                       : pc__bind_norm_of(b, role, hidden, 1, norm);
}

static pc_status bind_head_norm(const pc__binder *b, pc__tensor_role role, int32_t heads,
                                pc__native_norm *norm)
{
    size_t dim = (size_t)b->native->arch.head_dim, count = (size_t)heads;
    switch (b->native->arch.qk_norm) {
    case PC__QK_HEAD:
        return pc__bind_norm_of(b, role, dim, 1, norm);
    case PC__QK_HEADS:
        return pc__bind_norm_of(b, role, dim, count, norm);
    case PC__QK_WHOLE:
        return pc__bind_norm_of(b, role, dim * count, 1, norm);
    case PC__QK_PLAIN:
        PC__TRY_RETURN(bind_plain_norm(b, dim, norm));
        norm->eps = b->native->arch.qk_eps;
        return PC_OK;
    case PC__QK_NONE:
        break;
    }
    return PC_OK;
}

pc_status pc__bind_vector(const pc__binder *b, pc__tensor_role role, size_t count, float *values)
{
    pc_status found = b->provider->vector(b->provider->user, role, b->layer, 0, count, values);
    if (!found)
        found = b->provider->vector(b->provider->user, role, b->layer, 1, count, values);
    if (!found)
        return pc__fail(PC_ERR_FORMAT, "the %s of layer %d is missing in the weights",
                        pc__tensor_role_name(role), b->layer);
    return found < 0 ? found : PC_OK;
}

static pc_status bind_sinks(const pc__binder *b, float **out)
{
    size_t heads = (size_t)b->native->arch.heads;
    if (!(*out = pc__calloc(b->mem, heads, sizeof **out)))
        return PC_ERR_NOMEM;
    return pc__bind_vector(b, PC__ROLE_SINKS, heads, *out);
}

pc_status pc__bind_embedding(const pc__binder *b, pc__tensor_role role, size_t dim, uint32_t dtype,
                             pc__embedding *embedding)
{
    const pc__native *native = b->native;
    pc__weight_source source;
    embedding->rows = b->provider->table_rows(b->provider->user, role);
    embedding->dim = dim;
    PC__TRY_RETURN(b->provider->matrix(b->provider->user, role, -1, embedding->rows, dim, &source));
    source.format = format_of(b, &source, dim);
    source.packed = b->options->packed;
    return native->backend->ops->table_new(&embedding->table, native->backend, embedding->rows, dim,
                                           dtype, &source);
}

static pc_status bind_attention(const pc__binder *b, pc__native_layer *to)
{
    const pc__arch *arch = &b->native->arch;
    const pc__kv_shape *shape = &b->native->shape;
    size_t hidden = (size_t)arch->hidden, heads = (size_t)arch->heads,
           kv_heads = (size_t)shape->kv_heads;
    PC__TRY_RETURN(pc__bind_linear(b, PC__ROLE_Q, heads * (size_t)shape->k_dim, hidden, &to->q));
    PC__TRY_RETURN(pc__bind_linear(b, PC__ROLE_K, kv_heads * (size_t)shape->k_dim, hidden, &to->k));
    PC__TRY_RETURN(pc__bind_linear(b, PC__ROLE_V, kv_heads * (size_t)shape->v_dim, hidden, &to->v));
    PC__TRY_RETURN(bind_head_norm(b, PC__ROLE_Q_NORM, arch->heads, &to->q_norm));
    PC__TRY_RETURN(bind_head_norm(b, PC__ROLE_K_NORM, arch->kv_heads, &to->k_norm));
    if (arch->sinks)
        PC__TRY_RETURN(bind_sinks(b, &to->sinks));
    return pc__bind_linear(b, PC__ROLE_O, hidden, heads * (size_t)shape->v_dim, &to->o);
}

static pc_status bind_mlp(const pc__binder *b, pc__mlp *mlp)
{
    const pc__arch *arch = &b->native->arch;
    size_t hidden = (size_t)arch->hidden;
    mlp->width = (size_t)pc__mlp_width(arch, b->layer);
    if (!mlp->width)
        return PC_OK;
    if (arch->gated)
        PC__TRY_RETURN(pc__bind_linear(b, PC__ROLE_GATE, mlp->width, hidden, &mlp->gate));
    PC__TRY_RETURN(pc__bind_linear(b, PC__ROLE_UP, mlp->width, hidden, &mlp->up));
    return pc__bind_linear(b, PC__ROLE_DOWN, hidden, mlp->width, &mlp->down);
}

static pc_status bind_layer(const pc__binder *b, pc__native_layer *to)
{
    const pc__arch *arch = &b->native->arch;
    if (!arch->no_input_norms)
        PC__TRY_RETURN(pc__bind_norm(b, PC__ROLE_NORM1, &to->norm1));
    if (!arch->no_input_norms && arch->residual != PC__RESIDUAL_PARALLEL)
        PC__TRY_RETURN(pc__bind_norm(b, PC__ROLE_NORM2, &to->norm2));
    if (arch->output_norms) {
        PC__TRY_RETURN(pc__bind_norm(b, PC__ROLE_OUTPUT_NORM1, &to->output_norm1));
        PC__TRY_RETURN(pc__bind_norm(b, PC__ROLE_OUTPUT_NORM2, &to->output_norm2));
    }
    PC__TRY_RETURN((arch->latent.rank ? pc__bind_latent : bind_attention)(b, to));
    PC__TRY_RETURN(bind_mlp(b, &to->mlp));
    if (pc__has_experts(arch, b->layer))
        return pc__bind_experts(b, to);
    return PC_OK;
}

static pc_status bind_layers(pc__binder *b)
{
    pc__native *native = b->native;
    int32_t layers = native->arch.layers;
    if (!(native->layers = pc__calloc(b->mem, (size_t)layers, sizeof *native->layers)))
        return PC_ERR_NOMEM;
    for (b->layer = 0; b->layer < layers; b->layer++) {
        pc__callback_begin();
        if (b->options->progress
            && b->options->progress(b->options->progress_user, "loading weights",
                                    (uint64_t)b->layer, (uint64_t)layers))
            return pc__callback_cancelled("cancelled while loading layer %d of %d", b->layer,
                                          layers);
        PC__TRY_RETURN(bind_layer(b, &native->layers[b->layer]));
    }
    b->layer = -1;
    if (b->options->progress)
        b->options->progress(b->options->progress_user, "loading weights", (uint64_t)layers,
                             (uint64_t)layers);
    return PC_OK;
}

/* Binds the embedding, and the head of a causal model. If they are one tensor, it is held once
 * where the backend can look the rows of a head up. */
static pc_status bind_embedding_and_head(const pc__binder *b)
{
    pc__native *native = b->native;
    const pc__backend_ops *ops = native->backend->ops;
    const pc__arch *arch = &native->arch;
    size_t dim = (size_t)(arch->embedding_dim > 0 ? arch->embedding_dim : arch->hidden);
    pc__embedding *embedding = &native->embedding;
    if (arch->causal)
        PC__TRY_RETURN(pc__bind_linear(
            b, arch->tied && !pc__head_has_bias(arch) ? PC__ROLE_EMBEDDING : PC__ROLE_HEAD,
            (size_t)arch->vocab, dim, &native->head));
    if (arch->causal && arch->tied && ops->table_of) {
        *embedding = (pc__embedding){.rows = (size_t)arch->vocab, .dim = dim};
        PC__TRY_RETURN(ops->table_of(&embedding->table, native->backend, native->head));
    }
    return embedding->table
               ? PC_OK
               : pc__bind_embedding(b, PC__ROLE_EMBEDDING, dim, native->compute, embedding);
}

static pc_status bind_ends(pc__binder *b)
{
    pc__native *native = b->native;
    const pc__arch *arch = &native->arch;
    size_t hidden = (size_t)arch->hidden,
           narrow = arch->embedding_dim > 0 ? (size_t)arch->embedding_dim : hidden;
    if (arch->position_scheme == PC_POSITION_LEARNED)
        PC__TRY_RETURN(
            pc__bind_embedding(b, PC__ROLE_POSITIONS, hidden, PC_DTYPE_F32, &native->positions));
    if (narrow != hidden) {
        PC__TRY_RETURN(
            pc__bind_linear(b, PC__ROLE_PROJECT_IN, hidden, narrow, &native->project_in));
        PC__TRY_RETURN(
            pc__bind_linear(b, PC__ROLE_PROJECT_OUT, narrow, hidden, &native->project_out));
    }
    if (arch->embedding_norm)
        PC__TRY_RETURN(pc__bind_norm(b, PC__ROLE_EMBEDDING_NORM, &native->embedding_norm));
    if (arch->final_norm)
        PC__TRY_RETURN(pc__bind_norm(b, PC__ROLE_FINAL_NORM, &native->final_norm));
    return arch->causal ? PC_OK : pc__bind_encoder(b);
}

/* Makes the frequencies of a single RoPE regime. Of several, checks that they can be made: each
 * pass makes its own. */
static pc_status bind_rope(const pc__binder *b)
{
    const pc__rope_config *config = &b->native->arch.rope;
    pc_status status = PC_OK;
    if (pc__rope_regime(config, 1) == 0)
        return pc__rope_new(&b->native->rope, b->mem, config, 0);
    for (uint64_t regime = 1; regime <= 2 && status >= 0; regime++) {
        pc__rotation *tried;
        status = pc__rope_new(&tried, b->mem, config, regime);
        pc__rope_free(b->mem, tried);
    }
    return status;
}

static pc_status bind_positions(const pc__binder *b)
{
    pc__native *native = b->native;
    const pc__arch *arch = &native->arch;
    native->scale = pc__attention_scale(arch);
    if (arch->position_scheme == PC_POSITION_ROPE && arch->local_rope.dims)
        PC__TRY_RETURN(pc__rope_new(&native->local_rope, b->mem, &arch->local_rope, 0));
    if (arch->position_scheme == PC_POSITION_ROPE)
        return bind_rope(b);
    if (arch->position_scheme == PC_POSITION_ALIBI) {
        if (!(native->slopes = pc__calloc(b->mem, (size_t)arch->heads, sizeof *native->slopes)))
            return PC_ERR_NOMEM;
        pc__alibi_slopes(arch, native->scale, native->slopes);
    }
    return PC_OK;
}

/* The parts of the model that not every backend has. */
static uint32_t parts_of(const pc__arch *arch)
{
    const pc__expert_config *e = &arch->experts;
    int routes = e->count
                 && (e->sigmoid || e->groups || e->selection_bias || e->scales_input || e->biased);
    int activates = arch->activation == PC__ACT_RELU_SQUARED || arch->activation == PC__ACT_CLAMPED;
    return (arch->qk_norm == PC__QK_HEADS ? (uint32_t)PC__PART_NORM_VECTORS : 0)
           | (arch->query_scale.scale != 0 ? (uint32_t)PC__PART_ROW_SCALES : 0)
           | (arch->sinks ? (uint32_t)PC__PART_SINKS : 0)
           | (arch->chunk ? (uint32_t)PC__PART_CHUNKS : 0)
           | (activates ? (uint32_t)PC__PART_ACTIVATIONS : 0)
           | (routes ? (uint32_t)PC__PART_ROUTING : 0)
           | (arch->latent.rank ? (uint32_t)PC__PART_LATENT : 0);
}

static pc_status check_parts(const pc__binder *b)
{
    static const char *const names[] = {"norms with a gain of their own for each head",
                                        "queries scaled by their position",
                                        "sinks of attention",
                                        "attention within chunks",
                                        "activation",
                                        "choice of experts",
                                        "latent attention"};
    const pc__native *native = b->native;
    uint32_t lacks = parts_of(&native->arch) & ~native->backend->parts;
    for (uint32_t i = 0; i < sizeof names / sizeof *names; i++)
        if (lacks >> i & 1)
            return pc__fail(PC_ERR_UNSUPPORTED, "%s: backend '%s' does not have its %s; use 'cpu'",
                            native->arch.name, native->backend->ops->name, names[i]);
    return PC_OK;
}

/* What a run holds of a token. */
static pc__kv_shape run_shape(const pc__arch *arch, uint32_t dtype)
{
    const pc__latent_config *l = &arch->latent;
    int32_t v_dim = arch->v_dim > 0 ? arch->v_dim : arch->head_dim;
    if (l->rank)
        return (pc__kv_shape){arch->layers, 1, l->rotated + l->rank, l->rank, dtype, 1};
    return (pc__kv_shape){arch->layers, arch->kv_heads, arch->head_dim, v_dim, dtype, 0};
}

pc_status pc__native_bind(pc__native **out, pc_context *context, pc__arch *arch,
                          const pc__weight_provider *provider, const pc__bind_options *options)
{
    pc__binder b = {.mem = &context->mem, .provider = provider, .options = options, .layer = -1};
    int grows_as_kept = options->kv != PC_DTYPE_DEFAULT && options->kv != PC_DTYPE_I8;
    pc_status status;
    *out = NULL;
    if (!(b.native = pc__calloc(b.mem, 1, sizeof *b.native))) {
        pc__arch_clear(b.mem, arch);
        return PC_ERR_NOMEM;
    }
    b.native->context = context;
    b.native->backend = options->backend ? options->backend : pc__backend_of(context);
    b.native->arch = *arch;
    b.native->compute = options->compute;
    b.native->shape = run_shape(arch, grows_as_kept ? options->kv : options->compute);
    b.native->segment_dtype = options->kv == PC_DTYPE_I8 ? PC_DTYPE_I8 : b.native->shape.dtype;
    memset(arch, 0, sizeof *arch);
    PC__TRY(check_parts(&b), done);
    PC__TRY(bind_positions(&b), done);
    PC__TRY(bind_embedding_and_head(&b), done); /* first: they are large */
    PC__TRY(bind_layers(&b), done);
    PC__TRY(bind_ends(&b), done);
    *out = b.native;
    b.native = NULL;
done:
    pc__native_free(b.native);
    return status;
}
