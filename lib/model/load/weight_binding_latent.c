/* Binding of layers with latent attention: projections to latents and narrow queries, and for each
 * head the two halves of the projection from latents. That of keys is there a second time,
 * transposed, because absorbed queries are multiplied with it. */
#include "model/load/weight_binding_internal.h"

/* The key projection of one head as the file has it, [plain][rank]. */
typedef struct key_projection {
    float *values;
    size_t plain, rank;
} key_projection;

static void transposed_rows(void *user, size_t first, size_t count, float *rows)
{
    const key_projection *p = user;
    for (size_t r = 0; r < count; r++)
        for (size_t i = 0; i < p->plain; i++)
            rows[r * p->plain + i] = p->values[i * p->rank + first + r];
}

static pc_status bind_heads_of(const pc__binder *b, const pc__weight_source *all,
                               key_projection *keys, pc__native_latent *to)
{
    const pc__arch *arch = &b->native->arch;
    size_t v_dim = (size_t)arch->v_dim, each = keys->plain + v_dim;
    for (size_t h = 0; h < (size_t)arch->heads; h++) {
        pc__matrix_slice plain = {*all, h * each}, values = {*all, h * each + keys->plain};
        pc__weight_source source = {.user = keys, .rows = transposed_rows};
        all->rows(all->user, h * each, keys->plain, keys->values);
        PC__TRY_RETURN(pc__bind_source(b, &source, keys->rank, keys->plain, NULL, &to->k_b[h]));
        source = pc__slice_source(&plain);
        PC__TRY_RETURN(pc__bind_source(b, &source, keys->plain, keys->rank, NULL, &to->k_up[h]));
        source = pc__slice_source(&values);
        PC__TRY_RETURN(pc__bind_source(b, &source, v_dim, keys->rank, NULL, &to->v_b[h]));
    }
    return PC_OK;
}

/* The projection from latents, head by head. */
static pc_status bind_from_latents(const pc__binder *b, pc__native_latent *to)
{
    const pc__arch *arch = &b->native->arch;
    size_t heads = (size_t)arch->heads;
    key_projection keys = {NULL, (size_t)arch->latent.plain, (size_t)arch->latent.rank};
    size_t rows = heads * (keys.plain + (size_t)arch->v_dim);
    pc__weight_source all;
    PC__TRY_RETURN(
        b->provider->matrix(b->provider->user, PC__ROLE_KV_B, b->layer, rows, keys.rank, &all));
    keys.values = pc__calloc(b->mem, keys.plain * keys.rank, sizeof *keys.values);
    to->k_up = pc__calloc(b->mem, heads, sizeof(*to->k_up));
    to->k_b = pc__calloc(b->mem, heads, sizeof(*to->k_b));
    to->v_b = pc__calloc(b->mem, heads, sizeof(*to->v_b));
    pc_status status = keys.values && to->k_up && to->k_b && to->v_b
                           ? bind_heads_of(b, &all, &keys, to)
                           : PC_ERR_NOMEM;
    pc__free(b->mem, keys.values);
    return status;
}

pc_status pc__bind_latent(const pc__binder *b, pc__native_layer *to)
{
    const pc__arch *arch = &b->native->arch;
    const pc__latent_config *l = &arch->latent;
    size_t hidden = (size_t)arch->hidden, heads = (size_t)arch->heads,
           q_in = l->q_rank ? (size_t)l->q_rank : hidden;
    if (l->q_rank) {
        PC__TRY_RETURN(
            pc__bind_linear(b, PC__ROLE_Q_A, (size_t)l->q_rank, hidden, &to->latent.q_a));
        PC__TRY_RETURN(pc__bind_norm_of(b, PC__ROLE_Q_NORM, (size_t)l->q_rank, 1, &to->q_norm));
    }
    PC__TRY_RETURN(pc__bind_linear(b, PC__ROLE_Q, heads * (size_t)arch->head_dim, q_in, &to->q));
    PC__TRY_RETURN(pc__bind_linear(b, PC__ROLE_KV_A, (size_t)(l->rank + l->rotated), hidden,
                                   &to->latent.kv_a));
    PC__TRY_RETURN(pc__bind_norm_of(b, PC__ROLE_K_NORM, (size_t)l->rank, 1, &to->k_norm));
    PC__TRY_RETURN(bind_from_latents(b, &to->latent));
    return pc__bind_linear(b, PC__ROLE_O, hidden, heads * (size_t)arch->v_dim, &to->o);
}
