/* A provider that un-permutes the rows of Q and K of another one. */
#include "model/load/unpermute.h"

#include <string.h>

int pc__is_permuted(const pc__arch *arch)
{
    return arch->position_scheme == PC_POSITION_ROPE && arch->permuted
           && arch->rope.dims == arch->head_dim;
}

/* The row of the file that is row `row` of the original. */
static size_t permuted(size_t row, size_t head_dim)
{
    size_t head = row / head_dim, i = row % head_dim, half = head_dim / 2;
    return head * head_dim + (i < half ? 2 * i : 2 * (i - half) + 1);
}

static void unpermuted_rows(void *user, size_t first, size_t count, float *out)
{
    const pc__permuted_rows *w = user;
    for (size_t r = 0; r < count; r++)
        w->from.rows(w->from.user, permuted(first + r, w->head_dim), 1, out + r * w->cols);
}

static void quantised_rows(void *user, size_t first, size_t count, const pc__block_rows *to)
{
    const pc__permuted_rows *w = user;
    for (size_t r = 0; r < count; r++) {
        pc__block_rows row = pc__block_rows_at(to, &w->from.format, w->cols, r);
        w->from.quantised_rows(w->from.user, permuted(first + r, w->head_dim), 1, &row);
    }
}

static pc_status unpermuted_matrix(void *user, pc__tensor_role role, int32_t layer,
                                   size_t row_count, size_t cols, pc__weight_source *out)
{
    pc__unpermute *u = user;
    pc__permuted_rows *w = &u->ring[u->next % 8];
    pc_status status = u->inner.matrix(u->inner.user, role, layer, row_count, cols, out);
    if (status < 0 || (role != PC__ROLE_Q && role != PC__ROLE_K))
        return status;
    u->next++;
    *w = (pc__permuted_rows){*out, u->head_dim, cols};
    *out = (pc__weight_source){w,   unpermuted_rows, w->from.format, quantised_rows, w->from.stored,
                               NULL};
    return PC_OK;
}

static pc_status unpermuted_vector(void *user, pc__tensor_role role, int32_t layer, int bias,
                                   size_t count, float *out)
{
    const pc__unpermute *u = user;
    pc_status found = u->inner.vector(u->inner.user, role, layer, bias, count, out);
    if (found <= 0 || (role != PC__ROLE_Q && role != PC__ROLE_K))
        return found;
    float *copy = pc__alloc(u->mem, count * sizeof *copy);
    if (!copy)
        return PC_ERR_NOMEM;
    memcpy(copy, out, count * sizeof *copy);
    for (size_t i = 0; i < count; i++)
        out[i] = copy[permuted(i, u->head_dim)];
    pc__free(u->mem, copy);
    return found;
}

static size_t unpermuted_table_rows(void *user, pc__tensor_role role)
{
    const pc__unpermute *u = user;
    return u->inner.table_rows(u->inner.user, role);
}

void pc__unpermute_provider(pc__unpermute *unpermute, const pc_allocator *mem,
                            const pc__weight_provider *inner, const pc__arch *arch,
                            pc__weight_provider *out)
{
    *unpermute = (pc__unpermute){.inner = *inner, .head_dim = (size_t)arch->head_dim, .mem = mem};
    *out = (pc__weight_provider){unpermute, unpermuted_matrix, unpermuted_vector,
                                 unpermuted_table_rows};
}
