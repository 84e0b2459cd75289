/* State bytes of llama.cpp: what llama_state_seq_get_data writes and llama_state_seq_set_data
 * reads. llama.h gives their version alone, so this file is checked against it when it is built,
 * and against the context when a model is made: one that writes anything else is refused.
 *
 *   u32 magic, i32 id; then of each cache (one, or two: full attention and windows):
 *   u32 streams (1), u32 cells; of each cell: i32 position, u32 ids (1), i32 id;
 *   u32 whether V is transposed, u32 layers;
 *   of each layer: i32 type of K, u64 bytes of a row, rows by cell;
 *   of each layer with V: i32 type of V, u64 bytes of a row, rows by cell; or, transposed,
 *   i32 type, u32 bytes of an element, u32 width, elements [width][cell]. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "host.h"

_Static_assert(LLAMA_STATE_SEQ_VERSION == 3, "llama.cpp writes states in a form that this adapter "
                                             "does not know");

enum { HEAD_BYTES = 8, CACHE_BYTES = 8, CELL_BYTES = 12 };

typedef struct reader {
    const uint8_t *at, *end;
    int short_of;
} reader;

static void read_bytes(reader *r, void *out, size_t size)
{
    memset(out, 0, size);
    if ((size_t)(r->end - r->at) < size) {
        r->short_of = 1;
        return;
    }
    memcpy(out, r->at, size);
    r->at += size;
}

static uint32_t read_u32(reader *r)
{
    uint32_t value;
    read_bytes(r, &value, sizeof value);
    return value;
}

static uint64_t read_u64(reader *r)
{
    uint64_t value;
    read_bytes(r, &value, sizeof value);
    return value;
}

static void skip(reader *r, uint64_t row, size_t count)
{
    if (count && row > (uint64_t)(r->end - r->at) / count)
        r->short_of = 1;
    else
        r->at += row * count;
}

/* Rows of K or V of one layer. */
static void read_layer(reader *r, size_t count, int transposed, state_form *f, int *type,
                       uint64_t *row)
{
    int kind = (int)read_u32(r);
    uint64_t bytes;
    if (transposed) {
        uint64_t element = read_u32(r);
        bytes = element * read_u32(r);
    } else {
        bytes = read_u64(r);
    }
    skip(r, bytes, count);
    f->token_bytes += bytes;
    *row = *type < 0 || *row == bytes ? bytes : 0;
    if (*type >= 0 && *type != kind)
        r->short_of = 1;
    *type = kind;
}

static void read_cache(reader *r, size_t count, state_form *f, llama_pos *pos)
{
    uint32_t streams = read_u32(r), cells = read_u32(r), layers;
    if (streams != 1 || cells != count) {
        r->short_of = 1;
        return;
    }
    for (size_t i = 0; i < count && !r->short_of; i++) {
        llama_pos at = (llama_pos)read_u32(r);
        if (read_u32(r) != 1 || at < 0 || (f->caches && pos && pos[i] != at))
            r->short_of = 1;
        read_u32(r);
        if (pos)
            pos[i] = at;
    }
    f->transposed = (int)read_u32(r);
    layers = read_u32(r);
    if (f->transposed > 1 || layers > 4096)
        r->short_of = 1;
    f->layers += layers;
    f->caches++;
    for (uint32_t l = 0; l < layers && !r->short_of; l++)
        read_layer(r, count, 0, f, &f->type_k, &f->row_k);
    for (uint32_t l = 0; l < layers && !r->short_of && r->at < r->end; l++) /* MLA has no V */
        read_layer(r, count, f->transposed, f, &f->type_v, &f->row_v);
}

static int same_form(const state_form *a, const state_form *b)
{
    return a->caches == b->caches && a->transposed == b->transposed && a->type_k == b->type_k
           && a->type_v == b->type_v && a->layers == b->layers && a->token_bytes == b->token_bytes;
}

pc_status state_read(const host *h, const uint8_t *bytes, size_t size, size_t count,
                     state_form *form, llama_pos *pos)
{
    reader r = {bytes, bytes + size, 0};
    state_form f = {.type_k = -1, .type_v = -1};
    read_u32(&r);
    read_u32(&r);
    while (r.at < r.end && !r.short_of && f.caches < 2)
        read_cache(&r, count, &f, pos);
    if (r.short_of || r.at != r.end || !f.caches)
        return PC_ERR_FORMAT;
    if (form)
        *form = f;
    else if (!same_form(&f, &h->form))
        return PC_ERR_FORMAT;
    return PC_OK;
}

static void row_floats(float *out, const uint8_t *row, enum ggml_type type, int64_t count)
{
    if (type == GGML_TYPE_F32)
        memcpy(out, row, (size_t)count * sizeof *out);
    else
        ggml_get_type_traits(type)->to_float(row, out, count);
}

/* Of two rows: the factor between them, and what is left without it. */
static int same_rows(const uint8_t *a, const uint8_t *b, enum ggml_type type, uint64_t bytes)
{
    double most = ggml_is_quantized(type) ? 0.06 : 0.01;
    double rest = ggml_is_quantized(type) ? 0.35 : 0.02;
    double aa = 0, ab = 0, bb = 0;
    int64_t count = (int64_t)(bytes / ggml_type_size(type)) * ggml_blck_size(type);
    float *x = malloc((size_t)count * 2 * sizeof *x), *y = x + count;
    if (!x)
        return 0;
    row_floats(x, a, type, count);
    row_floats(y, b, type, count);
    for (int64_t i = 0; i < count; i++) {
        aa += (double)x[i] * x[i];
        ab += (double)x[i] * y[i];
        bb += (double)y[i] * y[i];
    }
    free(x);
    return bb > 0 ? fabs(ab / bb - 1) < most && aa - ab * ab / bb < rest * rest * bb : aa == 0;
}

int state_same_keys(const uint8_t *a, const uint8_t *b, size_t size)
{
    reader r = {b, b + size, 0};
    int same = 1;
    skip(&r, 1, HEAD_BYTES);
    while (r.at < r.end && !r.short_of) {
        uint32_t transposed, layers;
        state_form values = {.type_k = -1, .type_v = -1};
        skip(&r, 1, CACHE_BYTES + CELL_BYTES);
        transposed = read_u32(&r);
        layers = read_u32(&r);
        for (uint32_t l = 0; l < layers && !r.short_of; l++) {
            enum ggml_type type = (enum ggml_type)read_u32(&r);
            uint64_t bytes = read_u64(&r);
            const uint8_t *row = r.at;
            skip(&r, bytes, 1);
            same = same && !r.short_of && same_rows(a + (row - b), row, type, bytes);
        }
        for (uint32_t l = 0; l < layers && !r.short_of && r.at < r.end; l++)
            read_layer(&r, 1, (int)transposed, &values, &values.type_v, &values.row_v);
    }
    return same && !r.short_of;
}

void state_label(uint8_t *bytes, llama_pos label)
{
    uint32_t cells;
    uint8_t *cell = bytes + HEAD_BYTES + CACHE_BYTES;
    memcpy(&cells, bytes + HEAD_BYTES + 4, sizeof cells);
    for (uint32_t i = 0; i < cells; i++, cell += CELL_BYTES)
        memcpy(cell, &label, sizeof label);
}

pc_status state_grow(host *h, size_t size)
{
    uint8_t *bytes;
    if (size <= h->bytes_capacity)
        return PC_OK;
    if (!(bytes = realloc(h->bytes, size)))
        return PC_ERR_NOMEM;
    h->bytes = bytes;
    h->bytes_capacity = size;
    return PC_OK;
}

pc_status state_take(host *h, llama_seq_id id, size_t *size)
{
    pc_status status;
    *size = llama_state_seq_get_size(h->memory, id);
    if ((status = state_grow(h, *size)) < 0)
        return status;
    return llama_state_seq_get_data(h->memory, h->bytes, *size, id) == *size
               ? PC_OK
               : host_fail(PC_ERR_INTERNAL, "llama_state_seq_get_data gave no state");
}

/* The bytes are of a known form, so the one thing that can be missing is room. */
pc_status state_put(host *h, llama_seq_id id, const uint8_t *bytes, size_t size)
{
    do {
        if (llama_state_seq_set_data(h->memory, bytes, size, id) == size)
            return PC_OK;
        llama_memory_seq_rm(h->cells, id, -1, -1);
    } while (moved_drop(h, NULL));
    return host_fail(PC_ERR_LIMIT,
                     "the context's %u cells are in use: a larger n_ctx, or fewer "
                     "requests at once",
                     llama_n_ctx(h->memory));
}
