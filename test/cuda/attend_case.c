/* Builds cases of attention, their tables and the results that the library's C kernels give. */
#include "attend_case.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "attn/plan.h"
#include "testing.h"

enum { LAYERS = 2, LAYER = 1, MOST_SPANS = CASE_SPANS, MOST_RUNS = 64, ALIGNMENT = 64 };

struct attend_world {
    pc_context *context;
    pc__kv_shape shape;
    pc__kv *run[MOST_RUNS];
    int64_t *relative[MOST_RUNS];
    const uint64_t *table[MOST_RUNS]; /* addresses of a run's pages */
    size_t runs;
    pc__kv_span *spans;
    size_t *first;
    int64_t *positions;
    int64_t *distances; /* of the angles */
    size_t distance_count;
    pc__rotation rope;
    double frequency[512];
    pc_test_rng rng;
};

static uint32_t below(struct attend_world *w, uint32_t n)
{
    return n ? (uint32_t)(pc_test_bits(&w->rng) >> 20) % n : 0;
}

static void *take(size_t bytes)
{
    void *memory = aligned_alloc(ALIGNMENT, (bytes + ALIGNMENT) / ALIGNMENT * ALIGNMENT);
    if (!memory)
        abort();
    memset(memory, 0, bytes);
    return memory;
}

static void *add_input(attend_case *c, const char *name, size_t bytes)
{
    attend_array *a = &c->inputs[c->input_count++];
    *a = (attend_array){name, take(bytes), bytes};
    return a->data;
}

static uint32_t dtype_of(uint32_t format)
{
    static const uint32_t dtypes[] = {PC_DTYPE_F32, PC_DTYPE_BF16, PC_DTYPE_F16, PC_DTYPE_I8};
    return dtypes[format];
}

static void write_token(struct attend_world *w, pc__kv *kv, size_t token)
{
    size_t k = (size_t)(w->shape.kv_heads * w->shape.k_dim),
           v = (size_t)(w->shape.kv_heads * w->shape.v_dim);
    float *values = take((k + v) * sizeof *values);
    for (int32_t l = 0; l < LAYERS; l++) {
        for (size_t i = 0; i < k + v; i++)
            values[i] = pc_test_normal(&w->rng) * (l == LAYER ? 1.0f : 100.0f);
        pc__kv_write(kv, l, token, values, values + k);
    }
    free(values);
}

static void add_run(struct attend_world *w, const attend_spec *spec, size_t tokens)
{
    pc__kv_shape shape = w->shape;
    pc__kv *kv, *converted;
    int64_t at = 0;
    shape.dtype = shape.dtype == PC_DTYPE_I8 ? PC_DTYPE_F32 : shape.dtype;
    CHECK_OK(pc__kv_new(&kv, &pc__libc_allocator, &shape, tokens));
    for (size_t t = 0; t < tokens; t++, at += spec->holes ? 1 + below(w, 5) : 1) {
        CHECK_OK(pc__kv_append(kv, &at, 1));
        write_token(w, kv, t);
    }
    if (shape.dtype != w->shape.dtype) {
        CHECK_OK(pc__kv_convert(&converted, w->context, kv, w->shape.dtype));
        pc__kv_unref(kv);
        kv = converted;
    }
    w->run[w->runs++] = kv;
}

/* Adds a span to the last row; runs are placed one after the other. */
static void add_span(struct attend_world *w, size_t row, size_t run, int64_t start, uint32_t lo,
                     uint32_t hi)
{
    w->spans[w->first[row + 1]++] = (pc__kv_span){w->run[run], start, lo, hi};
}

static uint32_t tokens_of(const struct attend_world *w, size_t run)
{
    return (uint32_t)w->run[run]->tokens;
}

static void tree_row(struct attend_world *w, const attend_spec *spec, size_t row)
{
    size_t half = 1 + (row * 2 >= spec->rows), own = 3 + row;
    int64_t start = 0;
    for (size_t i = 0; i < 3; i++) {
        size_t run = i == 0 ? 0 : i == 1 ? half : own;
        add_span(w, row, run, start, 0, tokens_of(w, run));
        start += pc__kv_relative(w->run[run], w->run[run]->tokens - 1) + 1;
    }
    w->positions[row] = start - 1;
}

static void prefill_row(struct attend_world *w, size_t row)
{
    int64_t start = pc__kv_relative(w->run[0], w->run[0]->tokens - 1) + 1;
    uint32_t last = (uint32_t)row < tokens_of(w, 1) ? (uint32_t)row : tokens_of(w, 1) - 1;
    add_span(w, row, 0, 0, 0, tokens_of(w, 0));
    add_span(w, row, 1, start, 0, last + 1);
    w->positions[row] = start + pc__kv_relative(w->run[1], last);
}

static void ragged_row(struct attend_world *w, size_t row)
{
    uint32_t spans = below(w, MOST_SPANS);
    w->positions[row] = 300 + (int64_t)below(w, 2000);
    for (uint32_t i = 0; i < spans; i++) {
        size_t run = (row + i) % w->runs;
        uint32_t lo = below(w, tokens_of(w, run) + 1),
                 hi = lo + below(w, tokens_of(w, run) - lo + 1);
        add_span(w, row, run, (int64_t)below(w, 300), lo, hi);
    }
}

static void single_row(struct attend_world *w, size_t row)
{
    uint32_t tokens = tokens_of(w, 0);
    w->positions[row] = pc__kv_relative(w->run[0], tokens - 1) + (int64_t)row;
    add_span(w, row, 0, 0, row % 3 ? below(w, tokens) : 0, tokens - (row % 4 == 3));
}

static void make_rows(struct attend_world *w, const attend_spec *spec)
{
    size_t own = spec->kind == CASE_TREE ? spec->rows : spec->kind == CASE_RAGGED ? 2 : 0;
    add_run(w, spec, spec->tokens);
    if (spec->kind != CASE_SINGLE)
        add_run(w, spec, spec->kind == CASE_PREFILL ? spec->rows : 1 + below(w, 150));
    if (spec->kind == CASE_TREE)
        add_run(w, spec, 1 + below(w, 100));
    for (size_t i = 0; i < own; i++)
        add_run(w, spec, 1 + below(w, 90));
    for (size_t row = 0; row < spec->rows; row++) {
        w->first[row + 1] = w->first[row];
        switch (spec->kind) {
        case CASE_TREE:
            tree_row(w, spec, row);
            break;
        case CASE_PREFILL:
            prefill_row(w, row);
            break;
        case CASE_SINGLE:
            single_row(w, row);
            break;
        default:
            ragged_row(w, row);
        }
    }
}

/* Copies a run to where a device would have it: pages in the reverse order, layer by layer. */
static void place_run(attend_case *c, size_t run, uint64_t *pages)
{
    struct attend_world *w = c->world;
    pc__kv *kv = w->run[run];
    size_t count = (kv->tokens + PC__PAGE - 1) / PC__PAGE, heads = (size_t)w->shape.kv_heads,
           bytes = pc__kv_page_bytes(&w->shape) * heads;
    uint8_t *at = add_input(c, "pages", LAYERS * count * bytes);
    CHECK_INT(pc__kv_page_bytes(&w->shape),
              pc__cuda_page_bytes(c->spec.format, c->spec.k_dim, c->spec.v_dim));
    for (size_t l = 0; l < LAYERS; l++)
        for (size_t p = 0; p < count; p++)
            memcpy(at + (l * count + count - 1 - p) * bytes, kv->layer[l] + p * bytes, bytes);
    for (size_t p = 0; p < count; p++)
        pages[p] = (uint64_t)(uintptr_t)(at + (count - 1 - p) * bytes);
    if (kv->relative) {
        w->relative[run] = add_input(c, "relative", kv->tokens * sizeof(int64_t));
        memcpy(w->relative[run], kv->relative, kv->tokens * sizeof(int64_t));
    }
}

static uint32_t angle_of(struct attend_world *w, int64_t distance)
{
    for (size_t i = 0; i < w->distance_count; i++)
        if (w->distances[i] == distance)
            return (uint32_t)i;
    w->distances[w->distance_count++] = distance;
    return (uint32_t)w->distance_count - 1;
}

/* The tables while they are filled. */
typedef struct attend_draft {
    pc__cuda_call *calls;
    pc__cuda_pair *pairs;
    pc__cuda_tile *tiles;
    uint64_t *pages;
    size_t call_count, pair_count, tile_count, page_count;
    uint32_t *of_row; /* pairs of each row */
} attend_draft;

static void add_pairs(struct attend_world *w, attend_draft *d, size_t run, uint32_t begin,
                      uint32_t end, size_t rows)
{
    for (size_t row = 0; row < rows; row++)
        for (size_t s = w->first[row]; s < w->first[row + 1]; s++) {
            const pc__kv_span *span = &w->spans[s];
            uint32_t lo = span->lo > begin ? span->lo : begin, hi = span->hi < end ? span->hi : end;
            int64_t distance = w->positions[row] - span->start;
            if (span->kv != w->run[run] || lo >= hi)
                continue;
            d->pairs[d->pair_count++] = (pc__cuda_pair){
                .distance = distance - (w->relative[run] ? 0 : begin),
                .row = (uint32_t)row,
                .lo = lo - begin,
                .hi = hi - begin,
                .angle = angle_of(w, distance)};
            d->of_row[row]++;
        }
}

static int is_seen(const attend_case *c, const pc__cuda_pair *pair, int64_t distance)
{
    int64_t window = c->spec.window, chunk = c->spec.chunk,
            inside = chunk ? pc__chunk_inside(c->world->positions[pair->row], chunk) : 0;
    return (!window || distance < window)
           && (!chunk || (distance <= inside && distance > inside - chunk));
}

static int tile_sees(const attend_case *c, const attend_draft *d, const pc__cuda_tile *tile,
                     uint32_t page)
{
    const pc__cuda_call *call = &d->calls[tile->call];
    uint32_t end = tile->first_vector + pc__cuda_tile_vectors(c->spec.format, c->spec.v_dim);
    for (uint32_t v = tile->first_vector; v < end && v < call->pairs * c->spec.group; v++) {
        const pc__cuda_pair *pair = &d->pairs[call->first_pair + v / c->spec.group];
        const int64_t *relative = (const int64_t *)(uintptr_t)call->relative;
        for (uint32_t t = page * PC__PAGE; t < (page + 1) * PC__PAGE; t++)
            if (t >= pair->lo && t < pair->hi
                && is_seen(c, pair, pair->distance - (relative ? relative[t] : t)))
                return 1;
    }
    return 0;
}

static void add_tiles(attend_case *c, attend_draft *d)
{
    d->tile_count = pc__cuda_make_tiles(d->calls, d->call_count, c->spec.group, c->spec.format,
                                        c->spec.v_dim, d->tiles);
    for (size_t i = 0; i < d->tile_count; i++)
        for (uint32_t p = 0; p < d->calls[d->tiles[i].call].pages; p++)
            if (tile_sees(c, d, &d->tiles[i], p))
                c->needed_bytes += c->spec.kv_heads * pc__kv_page_bytes(&c->world->shape);
}

static void add_calls(attend_case *c, attend_draft *d, size_t run)
{
    struct attend_world *w = c->world;
    uint32_t tokens = tokens_of(w, run), section = c->spec.section_pages * PC__PAGE;
    size_t first_page = d->page_count;
    place_run(c, run, d->pages + first_page);
    w->table[run] = d->pages + first_page;
    d->page_count += (tokens + PC__PAGE - 1) / PC__PAGE;
    for (uint32_t begin = 0; begin < tokens; begin += section) {
        uint32_t end = tokens - begin < section ? tokens : begin + section;
        size_t first = d->pair_count, bytes = pc__kv_page_bytes(&w->shape) * c->spec.kv_heads;
        add_pairs(w, d, run, begin, end, c->spec.rows);
        if (d->pair_count == first)
            continue;
        d->calls[d->call_count] = (pc__cuda_call){
            .layer_stride = (tokens + PC__PAGE - 1) / PC__PAGE * bytes,
            .relative = w->relative[run] ? (uint64_t)(uintptr_t)(w->relative[run] + begin) : 0,
            .first_page = (uint32_t)(first_page + begin / PC__PAGE),
            .pages = (end - begin + PC__PAGE - 1) / PC__PAGE,
            .first_pair = (uint32_t)first,
            .pairs = (uint32_t)(d->pair_count - first)};
        d->call_count++;
    }
}

/* Gives slots to the pairs of rows with several; all rows but those with one are merged. */
static void give_slots(attend_case *c, attend_draft *d)
{
    pc__cuda_merge_row *merged = add_input(c, "merged", c->spec.rows * sizeof *merged);
    uint32_t *next = take(c->spec.rows * sizeof *next), slots = 0;
    c->merge.merged = merged;
    for (uint32_t row = 0; row < c->spec.rows; row++)
        if (d->of_row[row] != 1) {
            next[row] = slots;
            merged[c->merge.rows++] = (pc__cuda_merge_row){row, slots, d->of_row[row]};
            slots += d->of_row[row];
        }
    for (size_t i = 0; i < d->pair_count; i++) {
        pc__cuda_pair *pair = &d->pairs[i];
        pair->slot = d->of_row[pair->row] == 1 ? PC__CUDA_DIRECT : next[pair->row]++;
    }
    c->slots = slots;
    free(next);
}

static void make_tables(attend_case *c)
{
    struct attend_world *w = c->world;
    size_t rows = c->spec.rows, pages = 0, sections = 0, pairs;
    attend_draft d = {.of_row = take(rows * 4)};
    for (size_t i = 0; i < w->runs; i++) {
        pages += (w->run[i]->tokens + PC__PAGE - 1) / PC__PAGE;
        sections += w->run[i]->tokens / (c->spec.section_pages * PC__PAGE) + 1;
    }
    pairs = rows * MOST_SPANS * (pages + 1);
    d.calls = add_input(c, "calls", sections * sizeof *d.calls);
    d.pairs = add_input(c, "pairs", pairs * sizeof *d.pairs);
    d.tiles = add_input(c, "tiles", (sections + pairs * c->spec.group / 32) * sizeof *d.tiles);
    d.pages = add_input(c, "table of pages", pages * sizeof *d.pages);
    for (size_t i = 0; i < w->runs; i++)
        add_calls(c, &d, i);
    add_tiles(c, &d);
    give_slots(c, &d);
    c->task.tiles = d.tiles;
    c->task.calls = d.calls;
    c->task.pairs = d.pairs;
    c->task.pages = d.pages;
    c->task.tile_count = (uint32_t)d.tile_count;
    free(d.of_row);
}

static void make_angles(attend_case *c)
{
    struct attend_world *w = c->world;
    size_t half = (size_t)w->rope.dims / 2, bytes = (w->distance_count * half + 1) * 4;
    float *cosine = add_input(c, "cosine", bytes), *sine = add_input(c, "sine", bytes);
    for (size_t i = 0; i < w->distance_count && half; i++)
        pc__rope_angles(&w->rope, w->distances[i], cosine + i * half, sine + i * half);
    c->task.cosine = cosine;
    c->task.sine = sine;
    c->task.rope_dims = (uint32_t)w->rope.dims;
    c->task.interleaved = (uint32_t)w->rope.interleaved;
}

static float *make_floats(attend_case *c, const char *name, size_t count, float scale)
{
    float *x = add_input(c, name, count * sizeof *x);
    for (size_t i = 0; i < count; i++)
        x[i] = pc_test_normal(&c->world->rng) * scale;
    return x;
}

static void make_layer(attend_case *c)
{
    const attend_spec *s = &c->spec;
    uint32_t heads = s->kv_heads * s->group;
    c->task.heads = heads;
    c->task.kv_heads = s->kv_heads;
    c->task.k_dim = s->k_dim;
    c->task.v_dim = s->v_dim;
    c->task.format = s->format;
    c->task.layer = LAYER;
    c->task.scale = 1.0f / sqrtf((float)s->k_dim);
    c->task.soft_cap = s->soft_cap;
    c->task.window = s->window;
    c->task.chunk = s->chunk;
    if (s->chunk) {
        int64_t *inside = add_input(c, "inside", s->rows * sizeof *inside);
        for (uint32_t row = 0; row < s->rows; row++)
            inside[row] = pc__chunk_inside(c->world->positions[row], s->chunk);
        c->task.inside = inside;
    }
    c->vectors = (size_t)s->rows * heads;
    c->task.q = make_floats(c, "q", c->vectors * s->k_dim, 2.0f);
    if (s->slopes)
        c->task.slopes = make_floats(c, "slopes", heads, 0.02f);
    if (s->sinks)
        c->task.sinks = make_floats(c, "sinks", heads, 2.0f);
    c->merge.heads = heads;
    c->merge.v_dim = s->v_dim;
    c->merge.sinks = c->task.sinks;
}

static pc__attn_layer layer_of(const attend_case *c)
{
    return (pc__attn_layer){.layer = LAYER,
                            .heads = (int32_t)c->task.heads,
                            .window = c->spec.window,
                            .chunk = c->spec.chunk,
                            .scale = c->task.scale,
                            .soft_cap = c->task.soft_cap,
                            .slopes = c->task.slopes,
                            .sinks = c->task.sinks,
                            .rope = c->spec.rope == CASE_NO_ROPE ? NULL : &c->world->rope};
}

static void make_wanted(attend_case *c)
{
    struct attend_world *w = c->world;
    pc__rows rows = {c->spec.rows, w->positions, w->first, w->spans, 0};
    pc__attn_layer layer = layer_of(c);
    pc__row_plan *plan = NULL;
    c->want = take(c->vectors * c->spec.v_dim * sizeof(float));
    c->want_lse = take(c->vectors * sizeof(float));
    CHECK_OK(
        pc__row_plan_new(&plan, w->context, &pc__cpu_plan_limits, &rows, &w->shape, layer.heads));
    CHECK_OK(pc__plan_attend(plan, &layer, c->task.q, c->want, c->want_lse));
    pc__row_plan_free(plan);
}

size_t attend_case_map(const attend_case *c, size_t row, pc__cuda_map_row *spans, float **want,
                       size_t *keys)
{
    struct attend_world *w = c->world;
    pc__rows rows = {c->spec.rows, w->positions, w->first, w->spans, 0};
    pc__attn_layer layer = layer_of(c);
    size_t count = w->first[row + 1] - w->first[row];
    pc__row_plan *plan = NULL;
    *keys = 0;
    for (size_t i = 0; i < count; i++) {
        const pc__kv_span *span = &w->spans[w->first[row] + i];
        size_t run = 0, page = (size_t)w->shape.kv_heads * pc__kv_page_bytes(&w->shape);
        int64_t distance = w->positions[row] - span->start;
        while (w->run[run] != span->kv)
            run++;
        spans[i] = (pc__cuda_map_row){
            .layer = c->task,
            .run = {.layer_stride = (span->kv->tokens + PC__PAGE - 1) / PC__PAGE * page,
                    .relative = (uint64_t)(uintptr_t)w->relative[run]},
            .pair = {.distance = distance,
                     .row = (uint32_t)row,
                     .lo = span->lo,
                     .hi = span->hi,
                     .angle = span->lo < span->hi ? (uint32_t)angle_of(w, distance) : 0},
            .tokens = tokens_of(w, run)};
        spans[i].layer.pages = w->table[run];
        spans[i].layer.lse = c->want_lse;
        *keys += span->kv->tokens;
    }
    *want = take(*keys * c->task.heads * sizeof(float));
    CHECK_OK(
        pc__row_plan_new(&plan, w->context, &pc__cpu_plan_limits, &rows, &w->shape, layer.heads));
    CHECK_OK(pc__plan_map(plan, &layer, c->task.q, row, c->want_lse, *want));
    pc__row_plan_free(plan);
    return count;
}

static pc__rotation rope_of(struct attend_world *w, const attend_spec *spec)
{
    /* CASE_ODD: an odd number of rotated pairs */
    int32_t k = (int32_t)spec->k_dim, dims = spec->rope == CASE_NO_ROPE   ? 0
                                             : spec->rope == CASE_PARTIAL ? k / 2
                                             : spec->rope == CASE_ODD     ? k / 2 - 2
                                                                          : k;
    for (size_t i = 0; i < 512; i++)
        w->frequency[i] = pow(10000.0, -(double)i / (double)k);
    return (pc__rotation){dims, spec->rope == CASE_PAIRS, 1.0f, w->frequency};
}

void attend_case_new(attend_case *c, const attend_spec *spec)
{
    pc_context_options options = PC_CONTEXT_OPTIONS_INIT;
    struct attend_world *w = calloc(1, sizeof *w);
    *c = (attend_case){.spec = *spec, .world = w};
    options.threads = 1;
    CHECK_OK(pc_context_new(&w->context, &options));
    w->rng.state = spec->seed;
    w->shape = (pc__kv_shape){LAYERS,
                              (int32_t)spec->kv_heads,
                              (int32_t)spec->k_dim,
                              (int32_t)spec->v_dim,
                              dtype_of(spec->format),
                              0};
    w->rope = rope_of(w, spec);
    w->spans = take(spec->rows * MOST_SPANS * sizeof *w->spans);
    w->first = take((spec->rows + 1) * sizeof *w->first);
    w->positions = take(spec->rows * sizeof *w->positions);
    w->distances = take(spec->rows * MOST_SPANS * sizeof *w->distances);
    make_rows(w, spec);
    make_tables(c);
    make_angles(c);
    make_layer(c);
    make_wanted(c);
}

void attend_case_free(attend_case *c)
{
    struct attend_world *w = c->world;
    for (size_t i = 0; i < w->runs; i++)
        pc__kv_unref(w->run[i]);
    for (size_t i = 0; i < c->input_count; i++)
        free(c->inputs[i].data);
    pc_context_free(w->context);
    free(w->spans), free(w->first), free(w->positions), free(w->distances);
    free(c->want), free(c->want_lse), free(w);
}
