/* Binds what encoders have beside decoders: token types, distances, heads. */
#include "attn/disentangled_attention.h"
#include "model/load/weight_binding_internal.h"

/* The embedding of distances while it is projected. */
typedef struct distance_embedding {
    pc__stream *stream;
    pc__floats *rows;      /* [count][hidden] */
    pc__floats *projected; /* [count][width] */
    size_t count, width;
} distance_embedding;

static pc_status norm_distances(const pc__binder *b, const distance_embedding *e)
{
    const pc__native *native = b->native;
    pc__native_norm norm = {0};
    pc_status status = pc__bind_norm(b, PC__ROLE_RELATIVE_NORM, &norm);
    if (status >= 0)
        e->stream->ops->layer_norm(
            e->stream, e->rows, NULL, e->count, norm.dim,
            &(pc__norm_weights){norm.gain, norm.bias, norm.vectors, native->arch.norm_eps},
            e->rows);
    pc_status finished = e->stream->ops->finish(e->stream);
    native->backend->ops->give(native->backend, norm.gain);
    native->backend->ops->give(native->backend, norm.bias);
    return status < 0 ? status : finished;
}

/* Reads the embedding of distances, and norms it if the model does. */
static pc_status read_distances(const pc__binder *b, distance_embedding *e)
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
static pc_status project_distances(const pc__binder *b, const distance_embedding *e,
                                   pc__tensor_role role, const pc__linear *shared,
                                   const float **out, void **own)
{
    const pc__native *native = b->native;
    pc__linear *matrix = NULL;
    pc_status status = PC_OK;
    if (!native->arch.encoder.shared)
        status = pc__bind_linear(b, role, e->width, (size_t)native->arch.hidden, &matrix);
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
static pc_status bind_terms(const pc__binder *b, const distance_embedding *e)
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

static pc_status bind_distances(pc__binder *b)
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
static pc_status bind_heads(const pc__binder *b)
{
    pc__native_encoder *encoder = &b->native->encoder;
    size_t hidden = (size_t)b->native->arch.hidden;
    if (b->provider->table_rows(b->provider->user, PC__ROLE_POOL))
        PC__TRY_RETURN(pc__bind_linear(b, PC__ROLE_POOL, hidden, hidden, &encoder->pool));
    encoder->classes = b->provider->table_rows(b->provider->user, PC__ROLE_CLASSIFIER);
    if (encoder->classes && !encoder->pool)
        return pc__fail(PC_ERR_UNSUPPORTED, "a classifier without a pooler is not supported");
    if (encoder->classes)
        return pc__bind_linear(b, PC__ROLE_CLASSIFIER, encoder->classes, hidden,
                               &encoder->classifier);
    return PC_OK;
}

pc_status pc__bind_encoder(pc__binder *b)
{
    pc__native *native = b->native;
    pc__native_encoder *encoder = &native->encoder;
    const pc__encoder_config *config = &native->arch.encoder;
    size_t hidden = (size_t)native->arch.hidden;
    if (config->types)
        PC__TRY_RETURN(
            pc__bind_embedding(b, PC__ROLE_TYPES, hidden, PC_DTYPE_F32, &encoder->types));
    if (config->relative)
        PC__TRY_RETURN(bind_distances(b));
    if (config->conv) {
        PC__TRY_RETURN(pc__bind_linear(b, PC__ROLE_CONV, hidden, hidden * (size_t)config->conv,
                                       &encoder->conv));
        PC__TRY_RETURN(pc__bind_norm(b, PC__ROLE_CONV_NORM, &encoder->conv_norm));
    }
    return bind_heads(b);
}
