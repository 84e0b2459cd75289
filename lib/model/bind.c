#include "model/bind.h"

#include <string.h>

#include "attn/bf16.h"
#include "base/threads.h"
#include "model/positions.h"

typedef struct binder {
    pc__native *native;
    const pc_allocator *mem;
    const pc__provider *provider;
    const pc__bind_options *options;
    int32_t layer; /* -1: outside the layers */
} binder;

/* Rows of several matrices, one below the other: one linear layer computes keys and values
 * together. */
enum { MAX_PARTS = 2 };
typedef struct stack {
    size_t parts, rows[MAX_PARTS], cols;
    pc__weight_source from[MAX_PARTS];
} stack;

/* The part that row *first of the stack lies in; *first and *count become those inside it, as far as it reaches. */
static const pc__weight_source *part_at(const stack *s, size_t *first, size_t *count)
{
    size_t p = 0;
    while (*first >= s->rows[p])
        *first -= s->rows[p++];
    *count = s->rows[p] - *first < *count ? s->rows[p] - *first : *count;
    return &s->from[p];
}

static void stack_rows(void *user, size_t first, size_t count, float *out)
{
    const stack *s = user;
    for (size_t n; count; first += n, count -= n, out += n * s->cols) {
        size_t at = first;
        n = count;
        const pc__weight_source *from = part_at(s, &at, &n);
        from->rows(from->user, at, n, out);
    }
}

static void stack_grid(void *user, size_t first, size_t count, uint8_t *q, float *scale, float *minimum)
{
    const stack *s = user;
    size_t groups = s->cols / s->from[0].grid.group;
    for (size_t n; count; first += n, count -= n, q += n * s->cols, scale += n * groups, minimum += n * groups) {
        size_t at = first;
        n = count;
        const pc__weight_source *from = part_at(s, &at, &n);
        from->grid_rows(from->user, at, n, q, scale, minimum);
    }
}

/* The grid that all parts lie on; bits 0: there is none. */
static pc__grid common_grid(const binder *b, const stack *s)
{
    pc__grid grid = s->from[0].grid;
    for (size_t p = 1; p < s->parts; p++)
        if (memcmp(&s->from[p].grid, &grid, sizeof grid))
            return (pc__grid){0};
    return b->options->grids && grid.bits && s->cols % grid.group == 0 ? grid : (pc__grid){0};
}

static size_t total_rows(const stack *s)
{
    size_t rows = 0;
    for (size_t p = 0; p < s->parts; p++)
        rows += s->rows[p];
    return rows;
}

/* The biases of a stack, one behind the other; a part without one gets zeros; *out is NULL if none
 * has one. */
static pc_status stack_bias(const binder *b, const pc__part *parts, const stack *s, float **out)
{
    float *bias = pc__calloc(b->mem, total_rows(s), sizeof *bias);
    size_t at = 0;
    int any = 0;
    *out = NULL;
    if (!bias)
        return PC_ERR_NOMEM;
    for (size_t p = 0; p < s->parts; at += s->rows[p++]) {
        pc_status found =
            b->provider->vector(b->provider->user, parts[p], b->layer, 1, s->rows[p], bias + at);
        if (found < 0) {
            pc__free(b->mem, bias);
            return found;
        }
        any |= found;
    }
    if (any)
        *out = bias;
    else
        pc__free(b->mem, bias);
    return PC_OK;
}

static pc_status bind_stack(const binder *b, const pc__part *parts, stack *s, pc__linear **out)
{
    const pc__native *native = b->native;
    float *bias = NULL;
    pc_status status;
    for (size_t p = 0; p < s->parts; p++)
        PC__TRY(b->provider->matrix(b->provider->user, parts[p], b->layer, s->rows[p], s->cols,
                                    &s->from[p]),
                done);
    PC__TRY(stack_bias(b, parts, s, &bias), done);
    pc__weight_source source = {s, stack_rows, common_grid(b, s), stack_grid};
    status = native->backend->linear_new(out, native->context, total_rows(s), s->cols,
                                         source.grid.bits && b->options->grids == 8 ? PC_DTYPE_I8 : native->compute, &source, bias);
done:
    pc__free(b->mem, bias);
    return status;
}

static pc_status bind_linear(const binder *b, pc__part part, size_t rows, size_t cols,
                             pc__linear **out)
{
    stack s = {.parts = 1, .rows = {rows}, .cols = cols};
    return bind_stack(b, &part, &s, out);
}

static pc_status bind_norm(const binder *b, pc__part part, pc__native_norm *norm)
{
    size_t dim = (size_t)b->native->arch.hidden;
    float *bias;
    pc_status found;
    norm->gain = pc__calloc(b->mem, dim, sizeof *norm->gain);
    bias = norm->bias = pc__calloc(b->mem, dim, sizeof *norm->bias);
    if (!norm->gain || !norm->bias)
        return PC_ERR_NOMEM;
    found = b->provider->vector(b->provider->user, part, b->layer, 0, dim, norm->gain);
    if (!found)
        return pc__fail(PC_ERR_FORMAT, "the weights lack the %s of layer %d", pc__part_name(part),
                        b->layer);
    if (found < 0)
        return found;
    found = b->provider->vector(b->provider->user, part, b->layer, 1, dim, norm->bias);
    if (!found) {
        pc__free(b->mem, bias);
        norm->bias = NULL;
    }
    return found < 0 ? found : PC_OK;
}

/* Filling a table in parallel, a chunk of rows each. */
enum { CHUNK = 256 };
typedef struct filling {
    pc__table *table;
    pc__weight_source from;
    float *scratch; /* [chunks][dim], only where rows are rounded */
} filling;

static void fill_chunk(void *arg, size_t chunk)
{
    const filling *f = arg;
    size_t dim = f->table->dim, first = chunk * CHUNK, end = first + CHUNK;
    end = end < f->table->rows ? end : f->table->rows;
    if (f->table->dtype == PC_DTYPE_F32) {
        f->from.rows(f->from.user, first, end - first, (float *)f->table->data + first * dim);
        return;
    }
    for (size_t row = first; row < end; row++) {
        float *from = f->scratch + chunk * dim;
        uint16_t *to = (uint16_t *)f->table->data + row * dim;
        f->from.rows(f->from.user, row, 1, from);
        for (size_t i = 0; i < dim; i++)
            to[i] = pc__bf16_from(from[i]);
    }
}

static pc_status bind_table(const binder *b, pc__part part, size_t dim, uint32_t dtype,
                            pc__table *table)
{
    filling f = {.table = table};
    size_t chunks;
    pc_status status;
    table->rows = b->provider->table_rows(b->provider->user, part);
    table->dim = dim;
    table->dtype = dtype;
    chunks = (table->rows + CHUNK - 1) / CHUNK;
    PC__TRY(b->provider->matrix(b->provider->user, part, -1, table->rows, dim, &f.from),
            done);
    table->data = pc__calloc(b->mem, table->rows, dim * (dtype == PC_DTYPE_BF16 ? 2 : 4));
    f.scratch = pc__calloc(b->mem, dtype == PC_DTYPE_BF16 ? chunks : 1, dim * sizeof *f.scratch);
    if (table->data && f.scratch)
        pc__parallel(b->native->context, chunks, fill_chunk, &f);
    else
        status = PC_ERR_NOMEM;
done:
    pc__free(b->mem, f.scratch);
    return status;
}

static pc_status bind_attention(const binder *b, pc__native_layer *to)
{
    static const pc__part kv[2] = {PC__PART_K, PC__PART_V};
    const pc__arch *arch = &b->native->arch;
    const pc__kv_shape *shape = &b->native->shape;
    size_t hidden = (size_t)arch->hidden, heads = (size_t)arch->heads,
           kv_heads = (size_t)shape->kv_heads;
    stack s = {.parts = 2,
               .rows = {kv_heads * (size_t)shape->k_dim, kv_heads * (size_t)shape->v_dim},
               .cols = hidden};
    pc_status status;
    PC__TRY(bind_linear(b, PC__PART_Q, heads * (size_t)shape->k_dim, hidden, &to->q), done);
    PC__TRY(bind_stack(b, kv, &s, &to->kv), done);
    status = bind_linear(b, PC__PART_O, hidden, heads * (size_t)shape->v_dim, &to->o);
done:
    return status;
}

static pc_status bind_layer(const binder *b, pc__native_layer *to)
{
    const pc__arch *arch = &b->native->arch;
    size_t hidden = (size_t)arch->hidden, ffn = (size_t)arch->ffn;
    pc_status status;
    PC__TRY(bind_norm(b, PC__PART_NORM1, &to->norm1), done);
    if (arch->residual != PC__RESIDUAL_PARALLEL)
        PC__TRY(bind_norm(b, PC__PART_NORM2, &to->norm2), done);
    PC__TRY(bind_attention(b, to), done);
    if (arch->gated)
        PC__TRY(bind_linear(b, PC__PART_GATE, ffn, hidden, &to->gate), done);
    PC__TRY(bind_linear(b, PC__PART_UP, ffn, hidden, &to->up), done);
    status = bind_linear(b, PC__PART_DOWN, hidden, ffn, &to->down);
done:
    return status;
}

static pc_status bind_layers(binder *b)
{
    pc__native *native = b->native;
    int32_t layers = native->arch.layers;
    pc_status status = PC_OK;
    native->layers = pc__calloc(b->mem, (size_t)layers, sizeof *native->layers);
    if (!native->layers)
        return PC_ERR_NOMEM;
    for (b->layer = 0; b->layer < layers && status >= 0; b->layer++) {
        if (b->options->progress
            && b->options->progress(b->options->progress_user, "loading weights",
                                    (uint64_t)b->layer, (uint64_t)layers))
            return pc__fail(PC_ERR_CANCELLED, "cancelled while loading layer %d of %d", b->layer,
                            layers);
        status = bind_layer(b, &native->layers[b->layer]);
    }
    b->layer = -1;
    if (status >= 0 && b->options->progress)
        b->options->progress(b->options->progress_user, "loading weights", (uint64_t)layers,
                             (uint64_t)layers);
    return status;
}

static pc_status bind_ends(const binder *b)
{
    pc__native *native = b->native;
    const pc__arch *arch = &native->arch;
    size_t hidden = (size_t)arch->hidden,
           narrow = arch->embedding_dim > 0 ? (size_t)arch->embedding_dim : hidden;
    pc_status status;
    PC__TRY(bind_table(b, PC__PART_EMBEDDING, narrow, native->compute, &native->embedding), done);
    if (arch->position_scheme == PC_POSITION_LEARNED)
        PC__TRY(bind_table(b, PC__PART_POSITIONS, hidden, PC_DTYPE_F32, &native->positions), done);
    if (narrow != hidden) {
        PC__TRY(bind_linear(b, PC__PART_PROJECT_IN, hidden, narrow, &native->project_in), done);
        PC__TRY(bind_linear(b, PC__PART_PROJECT_OUT, narrow, hidden, &native->project_out), done);
    }
    if (arch->embedding_norm)
        PC__TRY(bind_norm(b, PC__PART_EMBEDDING_NORM, &native->embedding_norm), done);
    if (arch->final_norm)
        PC__TRY(bind_norm(b, PC__PART_FINAL_NORM, &native->final_norm), done);
    status = bind_linear(b, arch->tied ? PC__PART_EMBEDDING : PC__PART_HEAD, (size_t)arch->vocab,
                         narrow, &native->head);
done:
    return status;
}

static pc_status bind_positions(const binder *b)
{
    pc__native *native = b->native;
    const pc__arch *arch = &native->arch;
    native->scale = pc__attention_scale(arch);
    if (arch->position_scheme == PC_POSITION_ROPE && pc__rope_regime(&arch->rope, 1) == 0)
        return pc__rope_new(&native->rope, b->mem, &arch->rope, 0);
    if (arch->position_scheme == PC_POSITION_ALIBI) {
        native->slopes = pc__calloc(b->mem, (size_t)arch->heads, sizeof *native->slopes);
        if (!native->slopes)
            return PC_ERR_NOMEM;
        pc__alibi_slopes(arch, native->scale, native->slopes);
    }
    return PC_OK;
}

pc_status pc__native_bind(pc__native **out, pc_context *context, pc__arch *arch,
                          const pc__provider *provider, const pc__bind_options *options)
{
    binder b = {.mem = &context->mem, .provider = provider, .options = options, .layer = -1};
    int grows_as_kept = options->kv != PC_DTYPE_DEFAULT && options->kv != PC_DTYPE_I8;
    pc_status status;
    *out = NULL;
    b.native = pc__calloc(b.mem, 1, sizeof *b.native);
    if (!b.native) {
        pc__arch_clear(b.mem, arch);
        return PC_ERR_NOMEM;
    }
    b.native->context = context;
    b.native->backend = pc__cpu_backend();
    b.native->arch = *arch;
    b.native->compute = options->compute;
    b.native->shape =
        (pc__kv_shape){arch->layers, arch->kv_heads, arch->head_dim,
                       arch->v_dim > 0 ? arch->v_dim : arch->head_dim,
                       grows_as_kept ? options->kv : options->compute};
    b.native->kept = options->kv == PC_DTYPE_I8 ? PC_DTYPE_I8 : b.native->shape.dtype;
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
