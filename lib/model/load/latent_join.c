/* A provider that joins the projections from latents to keys and to values. */
#include "model/load/latent_join.h"

static void joined_rows(void *user, size_t first, size_t count, float *out)
{
    const pc__joined_rows *j = user;
    size_t each = j->plain + j->v_dim;
    for (size_t done = 0, n; done < count; done += n) {
        size_t head = (first + done) / each, row = (first + done) % each;
        int is_key = row < j->plain;
        const pc__weight_source *from = is_key ? &j->keys : &j->values;
        size_t at = is_key ? head * j->plain + row : head * j->v_dim + row - j->plain;
        n = (is_key ? j->plain : each) - row;
        n = n < count - done ? n : count - done;
        from->rows(from->user, at, n, out + done * j->cols);
    }
}

static pc_status joined_matrix(void *user, pc__tensor_role role, int32_t layer, size_t rows,
                               size_t cols, pc__weight_source *out)
{
    pc__latent_join *join = user;
    const pc__weight_provider *inner = &join->inner;
    pc__joined_rows *j = &join->ring[join->next % 8];
    if (role != PC__ROLE_KV_B)
        return inner->matrix(inner->user, role, layer, rows, cols, out);
    j->plain = join->plain;
    j->v_dim = join->v_dim;
    j->cols = cols;
    PC__TRY_RETURN(
        inner->matrix(inner->user, PC__ROLE_K_B, layer, join->heads * join->plain, cols, &j->keys));
    PC__TRY_RETURN(inner->matrix(inner->user, PC__ROLE_V_B, layer, join->heads * join->v_dim, cols,
                                 &j->values));
    join->next++;
    *out = (pc__weight_source){.user = j, .rows = joined_rows};
    return PC_OK;
}

static pc_status joined_vector(void *user, pc__tensor_role role, int32_t layer, int bias,
                               size_t count, float *out)
{
    const pc__latent_join *join = user;
    return join->inner.vector(join->inner.user, role, layer, bias, count, out);
}

static size_t joined_table_rows(void *user, pc__tensor_role role)
{
    const pc__latent_join *join = user;
    return join->inner.table_rows(join->inner.user, role);
}

void pc__latent_join_provider(pc__latent_join *join, const pc__weight_provider *inner,
                              const pc__arch *arch, pc__weight_provider *out)
{
    *join = (pc__latent_join){.inner = *inner,
                              .heads = (size_t)arch->heads,
                              .plain = (size_t)arch->latent.plain,
                              .v_dim = (size_t)arch->v_dim};
    *out = (pc__weight_provider){join, joined_matrix, joined_vector, joined_table_rows};
}
