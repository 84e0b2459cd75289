/* Where the rows of a role lie in a tensor, with checks of its shape and type. */
#include <stdio.h>

#include "model/load/tensor_names_internal.h"

static int is_gate(pc__tensor_role role)
{
    return role == PC__ROLE_GATE || role == PC__ROLE_EXPERT_GATE;
}

static int is_expert_matrix(pc__tensor_role role)
{
    return role >= PC__ROLE_EXPERT_GATE && role <= PC__ROLE_EXPERT_DOWN;
}

/* Of a role with one matrix an expert or head, how many there are; 0: other roles. */
static size_t block_count(const pc__arch *arch, pc__tensor_role role)
{
    if (role == PC__ROLE_K_B || role == PC__ROLE_V_B)
        return (size_t)arch->heads;
    return is_expert_matrix(role) ? (size_t)arch->experts.count : 0;
}

/* Sets how the rows of a role lie among the `*total` rows of the file's matrix. */
static void locate_rows(const pc__arch *arch, pc__tensor_role role, pc__tensor_layout layout,
                        pc__matrix_source *source, size_t *total)
{
    size_t k = (size_t)arch->head_dim, v = arch->v_dim > 0 ? (size_t)arch->v_dim : k;
    size_t heads = (size_t)arch->heads, groups = (size_t)arch->kv_heads, q = heads / groups * k;
    size_t rows = source->block_rows;
    source->first = 0;
    source->run = rows ? rows : 1;
    source->stride = 0;
    *total = rows;
    switch (layout) {
    case PC__LAYOUT_PLAIN:
        break;
    case PC__LAYOUT_STACKED:
        *total = heads * k + groups * (k + v);
        source->first = role == PC__ROLE_Q   ? 0
                        : role == PC__ROLE_K ? heads * k
                                             : heads * k + groups * k;
        break;
    case PC__LAYOUT_GROUPED:
        source->stride = q + k + v;
        *total = groups * source->stride;
        source->first = role == PC__ROLE_Q ? 0 : role == PC__ROLE_K ? q : q + k;
        source->run = role == PC__ROLE_Q ? q : role == PC__ROLE_K ? k : v;
        break;
    case PC__LAYOUT_HALVES:
        *total = 2 * rows;
        source->first = is_gate(role) ? 0 : rows;
        break;
    case PC__LAYOUT_ALTERNATING:
        *total = 2 * rows;
        source->first = is_gate(role) ? 0 : 1;
        source->run = 1;
        source->stride = 2;
        break;
    case PC__LAYOUT_NUMBERED:
        *total = source->run = rows / (size_t)pc__numbered_count(arch, role);
        break;
    }
}

static void shape_text(const pc__tensor *tensor, char *out, size_t size)
{
    size_t used = (size_t)snprintf(out, size, "[");
    for (uint32_t i = 0; i < tensor->rank; i++)
        used += (size_t)snprintf(out + used, size - used, "%s%llu", i ? ", " : "",
                                 (unsigned long long)tensor->shape[i]);
    snprintf(out + used, size - used, "]");
}

/* Refuses integer types, and block formats where single values are read. */
static pc_status check_type(const pc__tensor_names *names, const pc__tensor *tensor, int single)
{
    int is_integer = tensor->type >= PC__T_I8 && tensor->type <= PC__T_U8;
    if (is_integer || (single && pc__ttypes[tensor->type].block != 1))
        return pc__fail(PC_ERR_UNSUPPORTED,
                        "%s: tensor '%s' has type %s, which is not supported there", names->path,
                        tensor->name, pc__ttypes[tensor->type].name);
    return PC_OK;
}

/* Whether a tensor has the shape [rows][cols]; experts may be [experts][rows / experts][cols], one
 * row [cols]. */
static int is_matrix(const pc__tensor_names *names, pc__tensor_role role, const pc__tensor *tensor,
                     size_t rows, size_t cols)
{
    uint64_t blocks = block_count(names->arch, role);
    if (tensor->rank == 3 && blocks)
        return tensor->shape[0] == blocks && tensor->shape[1] * blocks == rows
               && tensor->shape[2] == cols;
    if (tensor->rank == 1 && role == PC__ROLE_SHARED_SCALE)
        return rows == 1 && tensor->shape[0] == cols;
    if (tensor->rank == 3 && role == PC__ROLE_CONV)
        return tensor->shape[0] == rows && tensor->shape[1] * tensor->shape[2] == cols;
    return tensor->rank == 2 && tensor->shape[0] == rows && tensor->shape[1] == cols;
}

static pc_status check_matrix(const pc__tensor_names *names, pc__tensor_role role,
                              const pc__tensor *tensor, size_t rows, size_t cols, int single)
{
    char found[96];
    if (is_matrix(names, role, tensor, rows, cols))
        return check_type(names, tensor, single);
    shape_text(tensor, found, sizeof found);
    return pc__fail(PC_ERR_FORMAT, "%s: tensor '%s': shape %s, expected [%zu, %zu]", names->path,
                    tensor->name, found, rows, cols);
}

/* The tensor of one expert or head. */
static pc_status find_numbered(const pc__tensor_names *names, const pc__matrix_source *source,
                               int32_t number, const pc__tensor **out)
{
    pc__tensor_place at = {source->layer, number, 0, 0};
    char name[PC__MAX_NAME];
    if ((*out = pc__name_tensor(names, source->row, at)))
        return PC_OK;
    pc__name_spell(names, source->row, at, name);
    return pc__fail(PC_ERR_NOT_FOUND, "%s: no %s: tensor '%s' is missing", names->path,
                    pc__tensor_role_name(source->row->role), name);
}

/* Checks the tensors of all experts or heads but the first, which is checked like any other. */
static pc_status check_numbered(const pc__tensor_names *names, pc__matrix_source *source,
                                size_t rows)
{
    pc__tensor_role role = source->row->role;
    const pc__tensor *tensor;
    for (int32_t e = 1; e < pc__numbered_count(names->arch, role); e++) {
        PC__TRY_RETURN(find_numbered(names, source, e, &tensor));
        PC__TRY_RETURN(check_matrix(names, role, tensor, rows, source->cols, 0));
        source->mixed |= tensor->type != source->tensor->type;
    }
    return PC_OK;
}

/* Experts or heads in one tensor: each has a matrix of its own there, unless it simply is the rows.
 */
static size_t blocks_of(const pc__tensor_names *names, const pc__tensor_name_row *row,
                        const pc__tensor *tensor)
{
    int is_plain = row->layout == PC__LAYOUT_PLAIN && !row->transposed;
    size_t blocks = block_count(names->arch, row->role);
    return tensor->rank == 3 && blocks && !is_plain ? blocks : 1;
}

pc_status pc__tensor_names_matrix(const pc__tensor_names *names, pc__tensor_role role,
                                  int32_t layer, size_t rows, size_t cols, pc__matrix_source *out)
{
    const pc__tensor *tensor;
    const pc__tensor_name_row *row = pc__name_find(names, role, layer, 0, &tensor);
    size_t total, blocks;
    *out = (pc__matrix_source){.tensor = tensor, .rows = rows, .cols = cols, .layer = layer};
    if (!tensor)
        return pc__name_missing(names, role, layer);
    blocks = blocks_of(names, row, tensor);
    out->block_rows = rows / blocks;
    locate_rows(names->arch, role, row->layout, out, &total);
    out->block = total * cols;
    out->transposed = row->transposed;
    out->file_cols = row->transposed ? total : cols;
    pc_status status = check_matrix(names, role, tensor, blocks * (row->transposed ? cols : total),
                                    out->file_cols, out->transposed);
    if (status >= 0 && out->block_rows
        && (out->block_rows - 1) / out->run * out->stride + out->first
                   + (out->block_rows - 1) % out->run
               >= total)
        return pc__fail(PC_ERR_FORMAT, "%s: tensor '%s' cannot be the %s of %zu rows", names->path,
                        tensor->name, pc__tensor_role_name(role), rows);
    if (status < 0 || row->layout != PC__LAYOUT_NUMBERED)
        return status;
    out->names = names;
    out->row = row;
    return check_numbered(names, out, total);
}

/* Whether a tensor is a vector of `total` values; of experts [experts][total], of heads
 * [heads][total / heads]. */
static int is_vector(const pc__tensor_names *names, pc__tensor_role role, const pc__tensor *tensor,
                     size_t blocks, size_t total)
{
    if (tensor->rank == 2 && is_expert_matrix(role))
        return tensor->shape[0] == blocks && tensor->shape[1] == total;
    if (tensor->rank == 2 && names->arch->qk_norm == PC__QK_HEADS
        && (role == PC__ROLE_Q_NORM || role == PC__ROLE_K_NORM))
        return tensor->shape[0] == (uint64_t)pc__numbered_count(names->arch, role)
               && tensor->shape[0] * tensor->shape[1] == total;
    return tensor->rank == 1 && blocks == 1 && tensor->shape[0] == total;
}

static pc_status check_vector(const pc__tensor_names *names, pc__tensor_role role,
                              const pc__tensor *tensor, size_t blocks, size_t total)
{
    char found[96];
    if (is_vector(names, role, tensor, blocks, total))
        return check_type(names, tensor, 1);
    shape_text(tensor, found, sizeof found);
    return pc__fail(PC_ERR_FORMAT, "%s: tensor '%s': shape %s, expected [%zu]", names->path,
                    tensor->name, found, total);
}

/* Checks the vectors of all heads but the first, which is checked like any other. */
static pc_status check_numbered_vectors(const pc__tensor_names *names,
                                        const pc__matrix_source *source, size_t each)
{
    pc__tensor_role role = source->row->role;
    const pc__tensor *tensor;
    for (int32_t e = 1; e < pc__numbered_count(names->arch, role); e++) {
        PC__TRY_RETURN(find_numbered(names, source, e, &tensor));
        PC__TRY_RETURN(check_vector(names, role, tensor, 1, each));
    }
    return PC_OK;
}

pc_status pc__tensor_names_vector(void *user, pc__tensor_role role, int32_t layer, int bias,
                                  size_t count, float *out)
{
    const pc__tensor_names *names = user;
    const pc__tensor *tensor;
    const pc__tensor_name_row *row = pc__name_find(names, role, layer, bias, &tensor);
    pc__matrix_source source = {.tensor = tensor, .rows = count, .cols = 1, .layer = layer};
    size_t total, blocks;
    if (!tensor)
        return 0;
    blocks = is_expert_matrix(role) && tensor->rank == 2 ? (size_t)names->arch->experts.count : 1;
    source.block_rows = count / blocks;
    locate_rows(names->arch, role, row->layout, &source, &total);
    source.block = total;
    PC__TRY_RETURN(check_vector(names, role, tensor, blocks, total));
    if (row->layout == PC__LAYOUT_NUMBERED) {
        source.names = names;
        source.row = row;
        PC__TRY_RETURN(check_numbered_vectors(names, &source, total));
    }
    pc__source_rows(&source, 0, count, out);
    return 1;
}
