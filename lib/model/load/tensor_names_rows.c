/* Reads the rows of a role, as the provider of weights. */
#include "model/load/tensor_names_internal.h"
#include "model/load/quantised_rows.h"

/* The tensor with row r of the role. */
static const pc__tensor *tensor_at(const pc__matrix_source *source, size_t r)
{
    if (!source->names)
        return source->tensor;
    return pc__name_tensor(source->names, source->row,
                           (pc__tensor_place){source->layer, (int32_t)(r / source->run), 0, 0});
}

/* How many of `count` rows, from `r` on, are consecutive in the file, from row *at of the matrix on
 * that begins at value *base. */
static size_t rows_together(const pc__matrix_source *source, size_t r, size_t count, size_t *base,
                            size_t *at)
{
    size_t row = r % source->block_rows, inside = row % source->run, n = source->run - inside;
    *base = r / source->block_rows * source->block;
    *at = source->first + row / source->run * source->stride + inside;
    n = n < source->block_rows - row ? n : source->block_rows - row;
    return n < count ? n : count;
}

/* Reads `count` columns of the file's matrix, from `at` on, as rows. */
static void read_columns(const pc__matrix_source *source, size_t base, size_t at, size_t count,
                         float *out)
{
    enum { WIDE = 64 };
    float some[WIDE];
    for (size_t c = 0; c < count; c += WIDE) {
        size_t n = count - c < WIDE ? count - c : WIDE;
        for (size_t i = 0; i < source->cols; i++) {
            pc__tensor_floats(source->tensor, (uint64_t)base + i * source->file_cols + at + c, n,
                              some);
            for (size_t j = 0; j < n; j++)
                out[(c + j) * source->cols + i] = some[j];
        }
    }
}

void pc__source_rows(void *user, size_t first, size_t count, float *out)
{
    const pc__matrix_source *source = user;
    for (size_t done = 0, n, base, at; done < count; done += n, out += n * source->cols) {
        n = rows_together(source, first + done, count - done, &base, &at);
        if (source->transposed)
            read_columns(source, base, at, n, out);
        else
            pc__tensor_floats(tensor_at(source, first + done),
                              (uint64_t)base + (uint64_t)at * source->cols,
                              (uint64_t)n * source->cols, out);
    }
}

static void source_quantised_rows(void *user, size_t first, size_t count, const pc__block_rows *to)
{
    const pc__matrix_source *source = user;
    pc__block_format format = pc__ttype_quantised(source->tensor->type);
    for (size_t done = 0, n, base, at; done < count; done += n) {
        pc__block_rows rows = pc__block_rows_at(to, &format, source->cols, done);
        n = rows_together(source, first + done, count - done, &base, &at);
        pc__tensor_quantised_rows(tensor_at(source, first + done),
                                  (uint64_t)base + (uint64_t)at * source->cols,
                                  (uint64_t)n * source->cols, &rows);
    }
}

static uint32_t stored_dtype(pc__ttype type)
{
    return type == PC__T_F16 ? PC_DTYPE_F16 : type == PC__T_BF16 ? PC_DTYPE_BF16 : 0;
}

static pc_status provide_matrix(void *user, pc__tensor_role role, int32_t layer, size_t rows,
                                size_t cols, pc__weight_source *out)
{
    pc__tensor_names *names = user;
    pc__matrix_source *source = &names->ring[names->next++ % 8];
    pc_status status = pc__tensor_names_matrix(names, role, layer, rows, cols, source);
    *out = (pc__weight_source){.user = source, .rows = pc__source_rows};
    if (status >= 0 && !source->mixed)
        out->stored = stored_dtype(source->tensor->type);
    if (status >= 0 && !source->transposed && !source->mixed
        && source->cols % pc__ttypes[source->tensor->type].block == 0) {
        out->format = pc__ttype_quantised(source->tensor->type);
        out->quantised_rows = source_quantised_rows;
    }
    return status;
}

void pc__tensor_names_provider(pc__tensor_names *names, pc__weight_provider *out)
{
    *out = (pc__weight_provider){names, provide_matrix, pc__tensor_names_vector,
                                 pc__tensor_names_table_rows};
}
