/* Keys and values of all heads, read from a run that holds latents: what other models store. */
#include <string.h>

#include "model/forward/latent_run.h"

typedef struct latent_read {
    const pc__native *native;
    const pc__kv *kv;
    size_t rank, rotated, plain, v_dim, heads;
    float *rotated_rows; /* [token][rotated] */
    float *latents;      /* [token][rank] */
} latent_read;

/* K of a run has the attention factor of YaRN already: moving it rotates it without the factor. */
static void read_tokens(latent_read *r, int32_t layer, int64_t start, const pc__rotation *rope,
                        float *token)
{
    float cosine[PC__MAX_HEAD / 2], sine[PC__MAX_HEAD / 2];
    pc__rotation rotation;
    if (rope) {
        rotation = *rope;
        rotation.factor = 1.0f;
        pc__rope_angles(&rotation, start, cosine, sine);
    }
    for (size_t t = 0; t < r->kv->tokens; t++) {
        pc__kv_read(r->kv, layer, t, token, r->latents + t * r->rank);
        if (rope)
            pc__rope_rotate(&rotation, cosine, sine, token, 1, r->rotated);
        memcpy(r->rotated_rows + t * r->rotated, token, r->rotated * sizeof *token);
    }
}

/* b: [token][head][plain, value] */
static void spread(const latent_read *r, const float *b, float *k, float *v)
{
    size_t tokens = r->kv->tokens, head = r->plain + r->rotated, each = r->plain + r->v_dim;
    for (size_t h = 0; h < r->heads; h++)
        for (size_t t = 0; t < tokens; t++) {
            const float *from = b + (t * r->heads + h) * each;
            float *to = k ? k + (h * tokens + t) * head : NULL;
            if (to) {
                memcpy(to, from, r->plain * sizeof *to);
                memcpy(to + r->plain, r->rotated_rows + t * r->rotated, r->rotated * sizeof *to);
            }
            if (v)
                memcpy(v + (h * tokens + t) * r->v_dim, from + r->plain, r->v_dim * sizeof *v);
        }
}

static pc_status project(const latent_read *r, int32_t layer, pc__stream *stream, float *k,
                         float *v)
{
    pc__backend *backend = r->native->backend;
    size_t tokens = r->kv->tokens, count = tokens * r->heads * (r->plain + r->v_dim);
    pc__floats *all = backend->ops->take(backend, count * sizeof(float));
    const pc__floats *x = all ? pc__stream_input(stream, r->latents, tokens * r->rank) : NULL;
    void *own = NULL;
    pc_status status = x ? pc__latent_project(stream, r->native, layer, x, tokens, all)
                         : PC_ERR_NOMEM;
    const float *b = status >= 0 ? pc__stream_show(stream, all, count, &own) : NULL;
    if (b)
        spread(r, b, k, v);
    else if (status >= 0)
        status = PC_ERR_NOMEM;
    pc__free(&r->native->context->mem, own);
    if (x)
        pc__stream_input_end(stream, x, r->latents);
    backend->ops->give(backend, all);
    return status;
}

pc_status pc__latent_project(pc__stream *stream, const pc__native *native, int32_t layer,
                             const pc__floats *latents, size_t rows, pc__floats *out)
{
    const pc__native_latent *weights = &native->layers[layer].latent;
    size_t heads = (size_t)native->arch.heads, plain = (size_t)native->arch.latent.plain,
           each = plain + (size_t)native->arch.v_dim;
    const pc__head_rows from = {pc__floats_at(latents, 0), 0, (size_t)native->arch.latent.rank},
                        keys = {out, each, heads * each},
                        values = {pc__floats_at(out, plain), each, heads * each};
    PC__TRY_RETURN(stream->ops->linear_heads(stream, weights->k_up, heads, rows, &from, &keys));
    return stream->ops->linear_heads(stream, weights->v_b, heads, rows, &from, &values);
}

pc_status pc__latent_run_read(const pc__native *native, const pc__kv *kv, int32_t layer,
                              int64_t start, const pc__rotation *rope, float *k, float *v)
{
    const pc__arch *arch = &native->arch;
    latent_read r = {native,
                     kv,
                     (size_t)arch->latent.rank,
                     (size_t)arch->latent.rotated,
                     (size_t)arch->latent.plain,
                     (size_t)arch->v_dim,
                     (size_t)arch->heads,
                     NULL,
                     NULL};
    pc__stream *stream;
    size_t row = r.rank + r.rotated;
    if (!kv->tokens)
        return PC_OK;
    float *scratch = pc__calloc(&native->context->mem, (kv->tokens + 1) * row, sizeof *scratch);
    pc_status status = scratch ? native->backend->ops->stream_new(&stream, native->backend)
                               : PC_ERR_NOMEM;
    if (status >= 0) {
        r.rotated_rows = scratch + row;
        r.latents = r.rotated_rows + kv->tokens * r.rotated;
        read_tokens(&r, layer, start, rope, scratch);
        status = project(&r, layer, stream, k, v);
        native->backend->ops->stream_free(stream);
    }
    pc__free(&native->context->mem, scratch);
    return status;
}
