/* Products of tiles by oneDNN: makes the primitives and proves that each row's result depends on
 * that row alone (why: tiles_onednn.h). */
#include "attn/cpu/tiles_onednn.h"

#include <omp.h>
#include <string.h>

#include "attn/half.h"
#include "base/fail.h"

#if DNNL_VERSION_MAJOR != 2 || DNNL_VERSION_MINOR < 6
#error "oneDNN 2.6 or a later 2.x is needed (version 3 has another C interface)"
#endif

#define DNNL_TRY(call, label)                   \
    do {                                        \
        if ((failure = (call)) != dnnl_success) \
            goto label;                         \
    } while (0)

int pc__onednn_enter(void)
{
    int before = omp_get_max_threads();
    omp_set_num_threads(1);
    return before;
}

void pc__onednn_leave(int before)
{
    omp_set_num_threads(before);
}

pc_status pc__onednn_fail(dnnl_status_t failure, const char *doing)
{
    switch (failure) {
    case dnnl_out_of_memory:
        return pc__fail(PC_ERR_NOMEM, "oneDNN: %s: out of memory", doing);
    case dnnl_unimplemented:
        return pc__fail(PC_ERR_UNSUPPORTED, "oneDNN: %s: not implemented for this CPU", doing);
    case dnnl_invalid_arguments:
        return pc__fail(PC_ERR_INTERNAL, "oneDNN: %s: invalid arguments", doing);
    default:
        return pc__fail(PC_ERR_INTERNAL, "oneDNN: %s: failed with status %d", doing, (int)failure);
    }
}

static const dnnl_memory_desc_t *described(const_dnnl_primitive_t primitive, dnnl_query_t what)
{
    const_dnnl_primitive_desc_t desc;
    return dnnl_primitive_get_primitive_desc(primitive, &desc)
               ? NULL
               : dnnl_primitive_desc_query_md(desc, what, 0);
}

static void note_scratch(pc__tiles *tiles, const_dnnl_primitive_t primitive)
{
    size_t bytes = dnnl_memory_desc_get_size(described(primitive, dnnl_query_scratchpad_md));
    if (bytes > tiles->scratch_bytes)
        tiles->scratch_bytes = bytes;
}

/* Strict: no fewer bits than the layer's dtype, whatever the default of the process is; we own the
 * scratch memory. */
static dnnl_status_t attributes(dnnl_primitive_attr_t *out)
{
    dnnl_status_t failure;
    DNNL_TRY(dnnl_primitive_attr_create(out), fail);
    DNNL_TRY(dnnl_primitive_attr_set_scratchpad_mode(*out, dnnl_scratchpad_mode_user), fail);
    DNNL_TRY(dnnl_primitive_attr_set_fpmath_mode(*out, dnnl_fpmath_mode_strict), fail);
fail:
    return failure;
}

/* oneDNN's reference code is slow and counts as unsupported. */
static dnnl_status_t refuse_reference(const_dnnl_primitive_desc_t desc)
{
    const char *name = NULL;
    dnnl_status_t failure = dnnl_primitive_desc_query(desc, dnnl_query_impl_info_str, 0,
                                                      (void *)&name);
    return !failure && (!name || strstr(name, "ref")) ? dnnl_unimplemented : failure;
}

/* tiles->packed describes the weights; its format may be `any`. */
static dnnl_status_t new_product(const pc__tiles *tiles, dnnl_data_type_t type, size_t rows,
                                 dnnl_primitive_t *out)
{
    dnnl_dim_t m = (dnnl_dim_t)rows, k = (dnnl_dim_t)tiles->inputs;
    dnnl_dims_t straight[2] = {{m, k}, {m, PC__SLICE}}, transposed[2] = {{k, m}, {PC__SLICE, m}};
    dnnl_dims_t *dims = tiles->transposed ? transposed : straight;
    const dnnl_memory_desc_t *w = &tiles->packed;
    dnnl_memory_desc_t x, y;
    dnnl_matmul_desc_t op;
    dnnl_primitive_desc_t desc = NULL;
    dnnl_primitive_attr_t attr = NULL;
    dnnl_status_t failure;
    dnnl_format_tag_t x_tag = tiles->transposed ? dnnl_ba : dnnl_ab;
    DNNL_TRY(dnnl_memory_desc_init_by_tag(&x, 2, dims[0], type, x_tag), done);
    DNNL_TRY(dnnl_memory_desc_init_by_tag(&y, 2, dims[1], dnnl_f32, dnnl_ab), done);
    if (tiles->transposed)
        failure = dnnl_matmul_desc_init(&op, w, &x, NULL, &y);
    else
        failure = dnnl_matmul_desc_init(&op, &x, w, NULL, &y);
    DNNL_TRY(failure, done);
    DNNL_TRY(attributes(&attr), done);
    DNNL_TRY(dnnl_primitive_desc_create(&desc, &op, attr, tiles->engine, NULL), done);
    DNNL_TRY(refuse_reference(desc), done);
    failure = dnnl_primitive_create(out, desc);
done:
    dnnl_primitive_desc_destroy(desc);
    dnnl_primitive_attr_destroy(attr);
    return failure;
}

static dnnl_status_t new_reorder(pc__tiles *tiles)
{
    dnnl_primitive_desc_t desc = NULL;
    dnnl_primitive_attr_t attr = NULL;
    dnnl_status_t failure;
    DNNL_TRY(attributes(&attr), done);
    DNNL_TRY(dnnl_reorder_primitive_desc_create(&desc, &tiles->plain, tiles->engine, &tiles->packed,
                                                tiles->engine, attr),
             done);
    failure = dnnl_primitive_create(&tiles->reorder, desc);
done:
    dnnl_primitive_desc_destroy(desc);
    dnnl_primitive_attr_destroy(attr);
    return failure;
}

/* The largest tile first: it decides how the weights are packed. Smaller ones that oneDNN cannot
 * make for such weights are left out. */
static dnnl_status_t make_primitives(pc__tiles *tiles, dnnl_data_type_t type, const size_t *rows,
                                     size_t count)
{
    dnnl_dim_t k = (dnnl_dim_t)tiles->inputs;
    dnnl_dims_t dims = {tiles->transposed ? PC__SLICE : k, tiles->transposed ? k : PC__SLICE};
    dnnl_format_tag_t plain = tiles->transposed ? dnnl_ab : dnnl_ba, any = dnnl_format_tag_any;
    dnnl_query_t weights = tiles->transposed ? dnnl_query_src_md : dnnl_query_weights_md;
    dnnl_primitive_t largest = NULL;
    dnnl_status_t failure;
    DNNL_TRY(dnnl_memory_desc_init_by_tag(&tiles->plain, 2, dims, type, plain), done);
    DNNL_TRY(dnnl_memory_desc_init_by_tag(&tiles->packed, 2, dims, type, any), done);
    DNNL_TRY(new_product(tiles, type, rows[count - 1], &largest), done);
    tiles->packed = *described(largest, weights);
    for (size_t i = 0; i + 1 < count; i++) {
        failure = new_product(tiles, type, rows[i], &tiles->product[tiles->count]);
        if (failure == dnnl_success)
            tiles->rows[tiles->count++] = rows[i];
        else if (failure != dnnl_unimplemented)
            goto done;
    }
    tiles->rows[tiles->count] = rows[count - 1];
    tiles->product[tiles->count++] = largest;
    largest = NULL;
    DNNL_TRY(new_reorder(tiles), done);
    for (size_t i = 0; i < tiles->count; i++)
        note_scratch(tiles, tiles->product[i]);
    note_scratch(tiles, tiles->reorder);
done:
    dnnl_primitive_destroy(largest);
    return failure;
}

static void drop_primitives(pc__tiles *tiles)
{
    for (size_t i = 0; i < tiles->count; i++)
        dnnl_primitive_destroy(tiles->product[i]);
    dnnl_primitive_destroy(tiles->reorder);
    tiles->count = 0;
    tiles->reorder = NULL;
}

void pc__tiles_drop(pc__tiles *tiles)
{
    drop_primitives(tiles);
    if (tiles->engine)
        dnnl_engine_destroy(tiles->engine);
    tiles->engine = NULL;
}

dnnl_status_t pc__tile_exec_open(pc__tile_exec *exec, const pc__tiles *tiles, size_t tile, float *y,
                                 void *scratch)
{
    const_dnnl_primitive_t product = tiles->product[tile];
    const dnnl_memory_desc_t *x = described(product, tiles->transposed ? dnnl_query_weights_md
                                                                       : dnnl_query_src_md);
    dnnl_status_t failure;
    exec->tiles = tiles;
    exec->tile = tile;
    DNNL_TRY(dnnl_stream_create(&exec->stream, tiles->engine, dnnl_stream_default_flags), fail);
    DNNL_TRY(dnnl_memory_create(&exec->x, x, tiles->engine, DNNL_MEMORY_NONE), fail);
    DNNL_TRY(dnnl_memory_create(&exec->y, described(product, dnnl_query_dst_md), tiles->engine, y),
             fail);
    DNNL_TRY(dnnl_memory_create(&exec->scratch, described(product, dnnl_query_scratchpad_md),
                                tiles->engine, scratch),
             fail);
fail:
    return failure;
}

void pc__tile_exec_close(pc__tile_exec *exec)
{
    dnnl_memory_destroy(exec->x);
    dnnl_memory_destroy(exec->y);
    dnnl_memory_destroy(exec->scratch);
    dnnl_stream_destroy(exec->stream);
    *exec = (pc__tile_exec){0};
}

dnnl_status_t pc__tile_exec_multiply(const pc__tile_exec *exec, const void *x,
                                     dnnl_memory_t weights)
{
    int transposed = exec->tiles->transposed;
    dnnl_exec_arg_t args[] = {{DNNL_ARG_SRC, transposed ? weights : exec->x},
                              {DNNL_ARG_WEIGHTS, transposed ? exec->x : weights},
                              {DNNL_ARG_DST, exec->y},
                              {DNNL_ARG_SCRATCHPAD, exec->scratch}};
    dnnl_status_t failure = dnnl_memory_set_data_handle_v2(exec->x, (void *)x, exec->stream);
    return failure
               ? failure
               : dnnl_primitive_execute(exec->tiles->product[exec->tile], exec->stream, 4, args);
}

dnnl_status_t pc__tiles_reorder(const pc__tiles *tiles, void *plain, dnnl_memory_t packed,
                                void *scratch)
{
    dnnl_stream_t stream = NULL;
    dnnl_memory_t from = NULL, spare = NULL;
    dnnl_status_t failure;
    DNNL_TRY(dnnl_stream_create(&stream, tiles->engine, dnnl_stream_default_flags), done);
    DNNL_TRY(dnnl_memory_create(&from, &tiles->plain, tiles->engine, plain), done);
    DNNL_TRY(dnnl_memory_create(&spare, described(tiles->reorder, dnnl_query_scratchpad_md),
                                tiles->engine, scratch),
             done);
    dnnl_exec_arg_t args[] = {
        {DNNL_ARG_FROM, from}, {DNNL_ARG_TO, packed}, {DNNL_ARG_SCRATCHPAD, spare}};
    failure = dnnl_primitive_execute(tiles->reorder, stream, 3, args);
done:
    dnnl_memory_destroy(from);
    dnnl_memory_destroy(spare);
    dnnl_stream_destroy(stream);
    return failure;
}

/* Numbers in [-1, 1) from a linear congruential generator; any that cause rounding will do. */
static void fill_random(const pc__tiles *tiles, uint32_t seed, void *to, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        seed = seed * 1664525u + 1013904223u;
        float x = (float)(seed >> 8) * (1.0f / 8388608.0f) - 1.0f;
        if (tiles->element == sizeof x)
            ((float *)to)[i] = x;
        else
            ((uint16_t *)to)[i] = pc__bf16_from(x);
    }
}

typedef struct tile_trial {
    uint8_t *plain, *packed, *x, *scratch;
    float *y, *want; /* want: [PC__SLICE] */
    dnnl_memory_t weights;
} tile_trial;

/* *same: all rows of the tile, which are copies of one row, give the wanted bits. */
static dnnl_status_t try_tile(const pc__tiles *tiles, size_t tile, const tile_trial *t,
                              int set_want, int *same)
{
    size_t rows = tiles->rows[tile];
    pc__tile_exec exec = {0};
    dnnl_status_t failure = pc__tile_exec_open(&exec, tiles, tile, t->y, t->scratch);
    if (!failure)
        failure = pc__tile_exec_multiply(&exec, t->x, t->weights);
    pc__tile_exec_close(&exec);
    *same = 1;
    for (size_t n = 0; !failure && n < PC__SLICE; n++)
        for (size_t r = 0; r < rows; r++) {
            const float *got = t->y + (tiles->transposed ? n * rows + r : r * PC__SLICE + n);
            if (set_want && r == 0)
                t->want[n] = *got;
            *same &= !memcmp(got, t->want + n, sizeof *got);
        }
    return failure;
}

/* Removes the sizes whose bits differ from those of the largest; *usable 0: rows of the largest
 * differ among themselves. */
static dnnl_status_t keep_equal(pc__tiles *tiles, const tile_trial *t, int *usable)
{
    int same[PC__TILE_SIZES] = {0};
    size_t n = 0, last = tiles->count - 1;
    dnnl_status_t failure = try_tile(tiles, last, t, 1, &same[last]);
    for (size_t i = 0; !failure && same[last] && i < last; i++)
        failure = try_tile(tiles, i, t, 0, &same[i]);
    *usable = same[last];
    if (failure || !*usable)
        return failure;
    for (size_t i = 0; i < tiles->count; i++)
        if (same[i]) {
            tiles->rows[n] = tiles->rows[i];
            tiles->product[n++] = tiles->product[i];
        } else {
            dnnl_primitive_destroy(tiles->product[i]);
        }
    tiles->count = n;
    return failure;
}

static pc_status prove_tiles(pc__tiles *tiles, const pc_allocator *mem, int *usable)
{
    size_t line = tiles->inputs * tiles->element,
           packed = dnnl_memory_desc_get_size(&tiles->packed);
    size_t most = tiles->rows[tiles->count - 1], floats = most * PC__SLICE * sizeof(float);
    uint8_t *block = pc__alloc_aligned(mem,
                                       PC__SLICE * line + packed + most * line
                                           + tiles->scratch_bytes + floats
                                           + PC__SLICE * sizeof(float) + 6 * 64,
                                       64),
            *at = block;
    tile_trial t = {0};
    dnnl_status_t failure;
    if (!block)
        return PC_ERR_NOMEM;
    t.plain = pc__carve(&at, PC__SLICE * line);
    t.packed = pc__carve(&at, packed);
    t.x = pc__carve(&at, most * line);
    t.scratch = pc__carve(&at, tiles->scratch_bytes);
    t.y = pc__carve(&at, floats);
    t.want = pc__carve(&at, PC__SLICE * sizeof(float));
    fill_random(tiles, 1, t.plain, PC__SLICE * tiles->inputs);
    fill_random(tiles, 2, t.x, tiles->inputs);
    for (size_t r = 1; r < most; r++)
        memcpy(t.x + r * line, t.x, line);
    DNNL_TRY(dnnl_memory_create(&t.weights, &tiles->packed, tiles->engine, t.packed), done);
    DNNL_TRY(pc__tiles_reorder(tiles, t.plain, t.weights, t.scratch), done);
    failure = keep_equal(tiles, &t, usable);
done:
    dnnl_memory_destroy(t.weights);
    pc__free(mem, block);
    return failure ? pc__onednn_fail(failure, "trying out a product") : PC_OK;
}

pc_status pc__tiles_make(pc__tiles *tiles, const pc_allocator *mem, uint32_t compute, size_t inputs)
{
    static const size_t straight[] = {1, 2, 4, 8, 16, 32}, transposed[] = {8};
    dnnl_data_type_t type = compute == PC_DTYPE_F32 ? dnnl_f32 : dnnl_bf16;
    int before = pc__onednn_enter(), usable = 0;
    pc_status status = PC_OK;
    dnnl_status_t failure = dnnl_engine_create(&tiles->engine, dnnl_cpu, 0);
    tiles->inputs = (inputs + PC__INPUTS_STEP - 1) / PC__INPUTS_STEP * PC__INPUTS_STEP;
    tiles->element = compute == PC_DTYPE_F32 ? sizeof(float) : sizeof(uint16_t);
    for (int form = 0; form < 2 && !failure && status >= 0 && !usable; form++) {
        drop_primitives(tiles);
        tiles->transposed = form;
        failure = make_primitives(tiles, type, form ? transposed : straight, form ? 1 : 6);
        if (!failure)
            status = prove_tiles(tiles, mem, &usable);
    }
    pc__onednn_leave(before);
    if (failure)
        return pc__onednn_fail(failure, "making a product");
    if (status >= 0 && !usable)
        return pc__fail(PC_ERR_UNSUPPORTED,
                        "oneDNN: a row's result depends on its place among the others on this CPU");
    return status;
}
