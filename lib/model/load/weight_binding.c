/* Binding: packs the weights of each role for the backend, layer by layer. */
#include "model/load/weight_binding.h"

#include <string.h>

#include "model/load/positions.h"
#include "attn/disentangled_attention.h"

typedef struct binder {
    pc__native *native;
    const pc_allocator *mem;
    const pc__weight_provider *provider;
    const pc__bind_options *options;
    int32_t layer; /* -1: outside the layers */
} binder;

static pc__block_format format_of(const binder *b, const pc__weight_source *from, size_t cols)
{
    return b->options->input_bits && from->format.bits && cols % from->format.group == 0
               ? from->format
               : (pc__block_format){0};
}

/* Keeps quantised matrices quantised if the options say so; else packs them in the model's number
 * format. */
static pc_status new_linear(const binder *b, const pc__weight_source *from, size_t rows,
                            size_t cols, const float *bias, pc__linear **out)
{
    const pc__native *native = b->native;
    pc__weight_source source = *from;
    source.format = format_of(b, from, cols);
    return native->backend->ops->linear_new(
        out, native->backend, rows, cols,
        source.format.bits && b->options->input_bits == 8 ? PC_DTYPE_I8 : native->compute, &source,
        bias);
}

static pc_status bind_linear(const binder *b, pc__tensor_role role, size_t rows, size_t cols,
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
    status = new_linear(b, &source, rows, cols, biased ? bias : NULL, out);
done:
    pc__free(b->mem, bias);
    return status;
}

/* values [2][dim]: scratch for gain and bias. */
static pc_status read_norm(const binder *b, pc__tensor_role role, float *values,
                           pc__native_norm *norm)
{
    size_t dim = (size_t)b->native->arch.hidden;
    float *bias = values + dim;
    pc_status found = b->provider->vector(b->provider->user, role, b->layer, 0, dim, values);
    if (!found)
        return pc__fail(PC_ERR_FORMAT, "the %s of layer %d is missing in the weights",
                        pc__tensor_role_name(role), b->layer);
    if (found < 0)
        return found;
    if (!(norm->gain = pc__backend_vector(b->native->backend, values, dim)))
        return PC_ERR_NOMEM;
    PC__TRY_RETURN(found = b->provider->vector(b->provider->user, role, b->layer, 1, dim, bias));
    if (found && !(norm->bias = pc__backend_vector(b->native->backend, bias, dim)))
        return PC_ERR_NOMEM;
    return PC_OK;
}

static pc_status bind_norm(const binder *b, pc__tensor_role role, pc__native_norm *norm)
{
    size_t dim = (size_t)b->native->arch.hidden;
    float *values = pc__calloc(b->mem, 2 * dim, sizeof *values);
    pc_status status = values ? read_norm(b, role, values, norm) : PC_ERR_NOMEM;
    pc__free(b->mem, values);
    return status;
}

static pc_status bind_embedding(const binder *b, pc__tensor_role role, size_t dim, uint32_t dtype,
                                pc__embedding *embedding)
{
    const pc__native *native = b->native;
    pc__weight_source source;
    embedding->rows = b->provider->table_rows(b->provider->user, role);
    embedding->dim = dim;
    PC__TRY_RETURN(b->provider->matrix(b->provider->user, role, -1, embedding->rows, dim, &source));
    return native->backend->ops->table_new(&embedding->table, native->backend, embedding->rows, dim,
                                           dtype, &source);
}

static pc_status bind_attention(const binder *b, pc__native_layer *to)
{
    const pc__arch *arch = &b->native->arch;
    const pc__kv_shape *shape = &b->native->shape;
    size_t hidden = (size_t)arch->hidden, heads = (size_t)arch->heads,
           kv_heads = (size_t)shape->kv_heads;
    PC__TRY_RETURN(bind_linear(b, PC__ROLE_Q, heads * (size_t)shape->k_dim, hidden, &to->q));
    PC__TRY_RETURN(bind_linear(b, PC__ROLE_K, kv_heads * (size_t)shape->k_dim, hidden, &to->k));
    PC__TRY_RETURN(bind_linear(b, PC__ROLE_V, kv_heads * (size_t)shape->v_dim, hidden, &to->v));
    return bind_linear(b, PC__ROLE_O, hidden, heads * (size_t)shape->v_dim, &to->o);
}

static pc_status bind_mlp(const binder *b, pc__mlp *mlp)
{
    const pc__arch *arch = &b->native->arch;
    size_t hidden = (size_t)arch->hidden;
    mlp->width = (size_t)pc__mlp_width(arch, b->layer);
    if (!mlp->width)
        return PC_OK;
    if (arch->gated)
        PC__TRY_RETURN(bind_linear(b, PC__ROLE_GATE, mlp->width, hidden, &mlp->gate));
    PC__TRY_RETURN(bind_linear(b, PC__ROLE_UP, mlp->width, hidden, &mlp->up));
    return bind_linear(b, PC__ROLE_DOWN, hidden, mlp->width, &mlp->down);
}

/* Binds in fp32: a rounded router would choose other experts. */
static pc_status bind_exactly(const binder *b, pc__tensor_role role, size_t rows, pc__linear **out)
{
    const pc__native *native = b->native;
    size_t hidden = (size_t)native->arch.hidden;
    pc__weight_source source;
    PC__TRY_RETURN(b->provider->matrix(b->provider->user, role, b->layer, rows, hidden, &source));
    source.format = (pc__block_format){0};
    return native->backend->ops->linear_new(out, native->backend, rows, hidden, PC_DTYPE_F32,
                                            &source, NULL);
}

/* Rows of a matrix, from `first` on. */
typedef struct matrix_slice {
    pc__weight_source from;
    size_t first;
} matrix_slice;

static void slice_rows(void *user, size_t first, size_t count, float *out)
{
    const matrix_slice *s = user;
    s->from.rows(s->from.user, s->first + first, count, out);
}

static void slice_quantised_rows(void *user, size_t first, size_t count, uint8_t *q, float *scale,
                                 float *minimum)
{
    const matrix_slice *s = user;
    s->from.quantised_rows(s->from.user, s->first + first, count, q, scale, minimum);
}

/* Binds matrix number `e` of the role, [rows][cols]. */
static pc_status bind_expert(const binder *b, const pc__weight_source *all, int32_t e, size_t rows,
                             size_t cols, pc__linear **out)
{
    matrix_slice s = {*all, (size_t)e * rows};
    pc__weight_source source = {&s, slice_rows, all->format, slice_quantised_rows};
    pc_status status = new_linear(b, &source, rows, cols, NULL, out);
    return status < 0 ? pc__fail_in(status, "expert %d of layer %d", e, b->layer) : status;
}

static pc_status join_experts(const binder *b, pc__native_layer *layer, size_t count)
{
    pc__linear **all = pc__calloc(b->mem, 3 * count, sizeof(*all));
    pc_status status = PC_ERR_NOMEM;
    for (size_t e = 0; all && e < count; e++) {
        all[3 * e] = layer->experts[e].up;
        all[3 * e + 1] = layer->experts[e].gate;
        all[3 * e + 2] = layer->experts[e].down;
    }
    if (all)
        status = b->native->backend->ops->linear_join(b->native->backend, all, 3 * count,
                                                      &layer->expert_block);
    pc__free(b->mem, all);
    return status;
}

static pc_status bind_experts(const binder *b, pc__native_layer *to)
{
    const pc__expert_config *config = &b->native->arch.experts;
    size_t count = (size_t)config->count, width = (size_t)config->width,
           hidden = (size_t)b->native->arch.hidden;
    const pc__weight_provider *p = b->provider;
    pc__weight_source gate, up, down;
    PC__TRY_RETURN(bind_exactly(b, PC__ROLE_ROUTER, count, &to->router));
    if (config->shared_gated)
        PC__TRY_RETURN(bind_exactly(b, PC__ROLE_SHARED_SCALE, 1, &to->shared_scale));
    PC__TRY_RETURN(p->matrix(p->user, PC__ROLE_EXPERT_UP, b->layer, count * width, hidden, &up));
    PC__TRY_RETURN(
        p->matrix(p->user, PC__ROLE_EXPERT_DOWN, b->layer, count * hidden, width, &down));
    if (b->native->arch.gated)
        PC__TRY_RETURN(
            p->matrix(p->user, PC__ROLE_EXPERT_GATE, b->layer, count * width, hidden, &gate));
    if (!(to->experts = pc__calloc(b->mem, count, sizeof *to->experts)))
        return PC_ERR_NOMEM;
    for (int32_t e = 0; e < config->count; e++) {
        pc__mlp *mlp = &to->experts[e];
        mlp->width = width;
        if (b->native->arch.gated)
            PC__TRY_RETURN(bind_expert(b, &gate, e, width, hidden, &mlp->gate));
        PC__TRY_RETURN(bind_expert(b, &up, e, width, hidden, &mlp->up));
        PC__TRY_RETURN(bind_expert(b, &down, e, hidden, width, &mlp->down));
    }
    return join_experts(b, to, count);
}

static pc_status bind_layer(const binder *b, pc__native_layer *to)
{
    const pc__arch *arch = &b->native->arch;
    PC__TRY_RETURN(bind_norm(b, PC__ROLE_NORM1, &to->norm1));
    if (arch->residual != PC__RESIDUAL_PARALLEL)
        PC__TRY_RETURN(bind_norm(b, PC__ROLE_NORM2, &to->norm2));
    PC__TRY_RETURN(bind_attention(b, to));
    PC__TRY_RETURN(bind_mlp(b, &to->mlp));
    if (pc__has_experts(arch, b->layer))
        return bind_experts(b, to);
    return PC_OK;
}

static pc_status bind_layers(binder *b)
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

/* The embedding of distances while it is projected. */
typedef struct distance_embedding {
    pc__stream *stream;
    pc__floats *rows;      /* [count][hidden] */
    pc__floats *projected; /* [count][width] */
    size_t count, width;
} distance_embedding;

static pc_status norm_distances(const binder *b, const distance_embedding *e)
{
    const pc__native *native = b->native;
    pc__native_norm norm = {0};
    pc_status status = bind_norm(b, PC__ROLE_RELATIVE_NORM, &norm);
    if (status >= 0)
        e->stream->ops->layer_norm(e->stream, e->rows, e->count, (size_t)native->arch.hidden,
                                   norm.gain, norm.bias, native->arch.norm_eps, e->rows);
    pc_status finished = e->stream->ops->finish(e->stream);
    native->backend->ops->give(native->backend, norm.gain);
    native->backend->ops->give(native->backend, norm.bias);
    return status < 0 ? status : finished;
}

/* Reads the embedding of distances, and norms it if the model does. */
static pc_status read_distances(const binder *b, distance_embedding *e)
{
    const pc__native *native = b->native;
    size_t hidden = (size_t)native->arch.hidden;
    pc__weight_source source;
    e->count = b->provider->table_rows(b->provider->user, PC__ROLE_RELATIVE);
    if (e->count != 2 * (size_t)native->arch.encoder.relative)
        return pc__fail(PC_ERR_FORMAT, "the %s has %zu rows, expected %zu",
                        pc__tensor_role_name(PC__ROLE_RELATIVE), e->count,
                        2 * (size_t)native->arch.encoder.relative);
    PC__TRY_RETURN(
        b->provider->matrix(b->provider->user, PC__ROLE_RELATIVE, -1, e->count, hidden, &source));
    float *values = pc__calloc(b->mem, e->count, hidden * sizeof *values);
    if (values) {
        source.rows(source.user, 0, e->count, values);
        e->rows = pc__backend_vector(native->backend, values, e->count * hidden);
    }
    pc__free(b->mem, values);
    if (!e->rows)
        return PC_ERR_NOMEM;
    return native->arch.encoder.relative_norm ? norm_distances(b, e) : PC_OK;
}

/* Projects them: by a matrix of its own, or by the layer's K or Q. *own: to free. */
static pc_status project_distances(const binder *b, const distance_embedding *e,
                                   pc__tensor_role role, const pc__linear *shared,
                                   const float **out, void **own)
{
    const pc__native *native = b->native;
    pc__linear *matrix = NULL;
    pc_status status = PC_OK;
    if (!native->arch.encoder.shared)
        status = bind_linear(b, role, e->width, (size_t)native->arch.hidden, &matrix);
    if (status >= 0)
        status = pc__stream_linear(e->stream, matrix ? matrix : shared, e->rows, e->count,
                                   e->projected);
    if (status >= 0 && !(*out = pc__stream_show(e->stream, e->projected, e->count * e->width, own)))
        status = PC_ERR_NOMEM;
    if (matrix)
        native->backend->ops->linear_free(matrix);
    return status;
}

/* Of one layer: the terms that the model has. */
static pc_status bind_terms(const binder *b, const distance_embedding *e)
{
    const pc__native *native = b->native;
    const pc__native_layer *layer = &native->layers[b->layer];
    const float *rows;
    void *own = NULL;
    if (native->arch.encoder.c2p) {
        PC__TRY_RETURN(project_distances(b, e, PC__ROLE_POSITION_K, layer->k, &rows, &own));
        pc_status status = pc__disentangled_set(native->encoder.relative, b->layer, rows, NULL);
        pc__free(b->mem, own);
        PC__TRY_RETURN(status);
    }
    if (native->arch.encoder.p2c) {
        PC__TRY_RETURN(project_distances(b, e, PC__ROLE_POSITION_Q, layer->q, &rows, &own));
        pc_status status = pc__disentangled_set(native->encoder.relative, b->layer, NULL, rows);
        pc__free(b->mem, own);
        return status;
    }
    return PC_OK;
}

static pc_status bind_distances(binder *b)
{
    pc__native *native = b->native;
    pc__backend *backend = native->backend;
    const pc__encoder_config *config = &native->arch.encoder;
    const pc__relative_config relative = {native->arch.layers,   native->arch.heads,
                                          native->arch.head_dim, config->relative,
                                          config->farthest,      config->buckets};
    distance_embedding e = {.width = (size_t)native->arch.heads * (size_t)native->arch.head_dim};
    pc_status status;
    if (!backend->ops->disentangled)
        return pc__fail(PC_ERR_UNSUPPORTED,
                        "%s: backend '%s' does not have its disentangled attention; use 'cpu'",
                        native->arch.name, backend->ops->name);
    PC__TRY_RETURN(backend->ops->stream_new(&e.stream, backend));
    PC__TRY(read_distances(b, &e), done);
    e.projected = backend->ops->take(backend, e.count * e.width * sizeof(float));
    PC__TRY(e.projected ? PC_OK : PC_ERR_NOMEM, done);
    status = pc__disentangled_new(&native->encoder.relative, backend, &relative);
    for (b->layer = 0; b->layer < native->arch.layers && status >= 0; b->layer++)
        PC__TRY(bind_terms(b, &e), done);
done:
    b->layer = -1;
    backend->ops->give(backend, e.rows);
    backend->ops->give(backend, e.projected);
    backend->ops->stream_free(e.stream);
    return status;
}

/* Binds the heads that the file has. */
static pc_status bind_heads(const binder *b)
{
    pc__native_encoder *encoder = &b->native->encoder;
    size_t hidden = (size_t)b->native->arch.hidden;
    if (b->provider->table_rows(b->provider->user, PC__ROLE_POOL))
        PC__TRY_RETURN(bind_linear(b, PC__ROLE_POOL, hidden, hidden, &encoder->pool));
    encoder->classes = b->provider->table_rows(b->provider->user, PC__ROLE_CLASSIFIER);
    if (encoder->classes && !encoder->pool)
        return pc__fail(PC_ERR_UNSUPPORTED, "a classifier without a pooler is not supported");
    if (encoder->classes)
        return bind_linear(b, PC__ROLE_CLASSIFIER, encoder->classes, hidden, &encoder->classifier);
    return PC_OK;
}

static pc_status bind_encoder(binder *b)
{
    pc__native *native = b->native;
    pc__native_encoder *encoder = &native->encoder;
    const pc__encoder_config *config = &native->arch.encoder;
    size_t hidden = (size_t)native->arch.hidden;
    if (config->types)
        PC__TRY_RETURN(bind_embedding(b, PC__ROLE_TYPES, hidden, PC_DTYPE_F32, &encoder->types));
    if (config->relative)
        PC__TRY_RETURN(bind_distances(b));
    if (config->conv) {
        PC__TRY_RETURN(
            bind_linear(b, PC__ROLE_CONV, hidden, hidden * (size_t)config->conv, &encoder->conv));
        PC__TRY_RETURN(bind_norm(b, PC__ROLE_CONV_NORM, &encoder->conv_norm));
    }
    return bind_heads(b);
}

static pc_status bind_ends(binder *b)
{
    pc__native *native = b->native;
    const pc__arch *arch = &native->arch;
    size_t hidden = (size_t)arch->hidden,
           narrow = arch->embedding_dim > 0 ? (size_t)arch->embedding_dim : hidden;
    PC__TRY_RETURN(
        bind_embedding(b, PC__ROLE_EMBEDDING, narrow, native->compute, &native->embedding));
    if (arch->position_scheme == PC_POSITION_LEARNED)
        PC__TRY_RETURN(
            bind_embedding(b, PC__ROLE_POSITIONS, hidden, PC_DTYPE_F32, &native->positions));
    if (narrow != hidden) {
        PC__TRY_RETURN(bind_linear(b, PC__ROLE_PROJECT_IN, hidden, narrow, &native->project_in));
        PC__TRY_RETURN(bind_linear(b, PC__ROLE_PROJECT_OUT, narrow, hidden, &native->project_out));
    }
    if (arch->embedding_norm)
        PC__TRY_RETURN(bind_norm(b, PC__ROLE_EMBEDDING_NORM, &native->embedding_norm));
    if (arch->final_norm)
        PC__TRY_RETURN(bind_norm(b, PC__ROLE_FINAL_NORM, &native->final_norm));
    if (!arch->causal)
        return bind_encoder(b);
    return bind_linear(b, arch->tied ? PC__ROLE_EMBEDDING : PC__ROLE_HEAD, (size_t)arch->vocab,
                       narrow, &native->head);
}

/* Makes the frequencies of a single RoPE regime. Of several, checks that they can be made: each
 * pass makes its own. */
static pc_status bind_rope(const binder *b)
{
    const pc__rope_config *config = &b->native->arch.rope;
    pc_status status = PC_OK;
    if (pc__rope_regime(config, 1) == 0)
        return pc__rope_new(&b->native->rope, b->mem, config, 0);
    for (uint64_t regime = 1; regime <= 2 && status >= 0; regime++) {
        pc__rope *tried;
        status = pc__rope_new(&tried, b->mem, config, regime);
        pc__rope_free(b->mem, tried);
    }
    return status;
}

static pc_status bind_positions(const binder *b)
{
    pc__native *native = b->native;
    const pc__arch *arch = &native->arch;
    native->scale = pc__attention_scale(arch);
    if (arch->position_scheme == PC_POSITION_ROPE)
        return bind_rope(b);
    if (arch->position_scheme == PC_POSITION_ALIBI) {
        if (!(native->slopes = pc__calloc(b->mem, (size_t)arch->heads, sizeof *native->slopes)))
            return PC_ERR_NOMEM;
        pc__alibi_slopes(arch, native->scale, native->slopes);
    }
    return PC_OK;
}

pc_status pc__native_bind(pc__native **out, pc_context *context, pc__arch *arch,
                          const pc__weight_provider *provider, const pc__bind_options *options)
{
    binder b = {.mem = &context->mem, .provider = provider, .options = options, .layer = -1};
    int grows_as_kept = options->kv != PC_DTYPE_DEFAULT && options->kv != PC_DTYPE_I8;
    pc_status status;
    *out = NULL;
    if (!(b.native = pc__calloc(b.mem, 1, sizeof *b.native))) {
        pc__arch_clear(b.mem, arch);
        return PC_ERR_NOMEM;
    }
    b.native->context = context;
    b.native->backend = pc__backend_of(context);
    b.native->arch = *arch;
    b.native->compute = options->compute;
    b.native->shape = (pc__kv_shape){arch->layers, arch->kv_heads, arch->head_dim,
                                     arch->v_dim > 0 ? arch->v_dim : arch->head_dim,
                                     grows_as_kept ? options->kv : options->compute};
    b.native->segment_dtype = options->kv == PC_DTYPE_I8 ? PC_DTYPE_I8 : b.native->shape.dtype;
    memset(arch, 0, sizeof *arch);
    PC__TRY(bind_positions(&b), done);
    PC__TRY(bind_layers(&b), done);
    PC__TRY(bind_ends(&b), done);
    *out = b.native;
    b.native = NULL;
done:
    pc__native_free(b.native);
    return status;
}
