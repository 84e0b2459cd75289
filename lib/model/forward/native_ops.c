/* The operations of native models that need no sequence: describe, encode, release, size. */
#include "model/forward/native_ops.h"

#include <string.h>

#include "base/options.h"
#include "model/forward/pass_build.h"
#include "model/model_states.h"

static pc_status describe_native(void *user, pc_model_info *info)
{
    const pc_model *model = user;
    return pc__result_write(info, sizeof *info, &model->info, sizeof model->info, "pc_model_info");
}

static void release_run(void *user, void *segment)
{
    (void)user;
    pc__kv_unref(segment);
}

static pc_status size_run(void *user, void *segment, uint64_t *bytes)
{
    (void)user;
    *bytes = pc__kv_bytes(segment);
    return PC_OK;
}

pc_status pc__native_check_placement(const pc__native *native, const pc_span *placement)
{
    const pc__kv *kv = placement->segment;
    if (placement->lo > placement->hi || placement->hi > kv->tokens)
        return pc__fail(PC_ERR_INVALID, "the placement names tokens %u to %u, the segment has %zu",
                        placement->lo, placement->hi, kv->tokens);
    return pc__native_may_place(native, kv, native->arch.layers, placement->start, kv->rope_regime);
}

/* An encode call: the runs that it fills. The last run takes the tokens of no range. */
typedef struct encode_work {
    const pc_model *model;
    const pc_encode_args *args;
    pc__kv **runs;    /* [range_count + 1]; the last may be NULL */
    int64_t *starts;  /* [range_count + 1] */
    size_t *filled;   /* [range_count + 1] tokens in each so far */
    uint32_t *owner;  /* [count] run of each token */
    int64_t *scratch; /* [count] relative positions */
    uint64_t length;  /* decides the RoPE regime */
    pc__pass_build build;
} encode_work;

/* About the most spans of one pass: each row names the run of each range. */
enum { SPANS_AT_ONCE = 1 << 18 };

static pc_status check_encode_args(const pc__native *native, const pc_encode_args *args)
{
    for (size_t i = 1; i < args->count; i++)
        if (args->positions[i] <= args->positions[i - 1])
            return pc__fail(
                PC_ERR_INVALID,
                "encode: token %zu is at position %lld, not after its predecessor's %lld", i,
                (long long)args->positions[i], (long long)args->positions[i - 1]);
    for (size_t i = 0; i < args->visible_count; i++)
        PC__TRY_RETURN(pc__native_check_placement(native, &args->visible[i]));
    return PC_OK;
}

static pc_status assign_tokens(encode_work *e)
{
    const pc_encode_args *args = e->args;
    for (size_t i = 0; i < args->count; i++)
        e->owner[i] = (uint32_t)args->range_count;
    for (size_t c = 0; c < args->range_count; c++) {
        pc_token_range cut = args->ranges[c];
        if (!cut.count || cut.first > args->count || cut.count > args->count - cut.first)
            return pc__fail(PC_ERR_INVALID,
                            "encode: range %zu (%zu tokens from %zu) does not fit into %zu tokens",
                            c, cut.count, cut.first, args->count);
        for (size_t i = cut.first; i < cut.first + cut.count; i++) {
            if (e->owner[i] != args->range_count)
                return pc__fail(PC_ERR_INVALID, "encode: ranges %u and %zu overlap", e->owner[i],
                                c);
            e->owner[i] = (uint32_t)c;
        }
    }
    return PC_OK;
}

/* Makes run `c` for all its tokens, at positions relative to its first. */
static pc_status make_encoded_run(encode_work *e, size_t c)
{
    const pc_encode_args *args = e->args;
    size_t n = 0;
    for (size_t i = 0; i < args->count; i++)
        if (e->owner[i] == c) {
            e->starts[c] = n ? e->starts[c] : args->positions[i];
            e->scratch[n++] = args->positions[i] - e->starts[c];
        }
    if (!n)
        return PC_OK;
    PC__TRY_RETURN(pc__model_run_new(e->model, n, e->length, &e->runs[c]));
    e->runs[c]->origin = e->starts[c];
    return pc__kv_append(e->runs[c], e->scratch, n);
}

static size_t min_size(size_t a, size_t b)
{
    return a < b ? a : b;
}

static pc_status add_encode_row(encode_work *e, size_t i)
{
    const pc_encode_args *args = e->args;
    uint32_t c = e->owner[i];
    int64_t position = args->positions[i];
    pc__token_row row = {args->tokens[i], 0, position, e->runs[c], e->filled[c]++, e->starts[c], 0};
    pc__build_row(&e->build, &row);
    for (size_t v = 0; v < args->visible_count; v++) {
        const pc_span *at = &args->visible[v];
        size_t hi = min_size(at->hi, pc__kv_upto(at->segment, position - at->start));
        if (hi > at->lo)
            PC__TRY_RETURN(pc__build_span(&e->build, at->segment, at->start, at->lo, hi));
    }
    for (size_t r = 0; r <= args->range_count; r++)
        if (e->filled[r])
            PC__TRY_RETURN(pc__build_span(&e->build, e->runs[r], e->starts[r], 0, e->filled[r]));
    return PC_OK;
}

static pc_status encode_rows(encode_work *e, size_t first, size_t count)
{
    const pc_encode_args *args = e->args;
    pc__pass pass = {0};
    PC__TRY_RETURN(pc__build_start(&e->build, &e->model->context->mem, count));
    for (size_t i = first; i < first + count; i++)
        PC__TRY_RETURN(add_encode_row(e, i));
    pc__build_end(&e->build, &pass);
    pass.rope_regime_length = e->length;
    pass.cancelled = args->cancelled;
    pass.cancel_user = args->cancel_user;
    /* no logits are wanted: end at the last K and V */
    pass.kv_layers = e->model->native->arch.layers;
    return pc__forward(e->model, &pass);
}

/* Passes end where their blocks end, so that several passes compute what one would. */
static pc_status encode_all(encode_work *e)
{
    size_t count = e->args->count, runs = e->args->visible_count + e->args->range_count + 1;
    size_t blocks = SPANS_AT_ONCE / runs / PC__BLOCK, rows = (blocks ? blocks : 1) * PC__BLOCK;
    for (size_t first = 0; first < count; first += rows) {
        PC__TRY_RETURN(encode_rows(e, first, min_size(rows, count - first)));
        pc__build_free(&e->build);
        e->build = (pc__pass_build){0};
    }
    return PC_OK;
}

static pc_status reserve_encode(encode_work *e)
{
    const pc_allocator *mem = &e->model->context->mem;
    size_t runs = e->args->range_count + 1;
    e->runs = pc__calloc(mem, runs, sizeof(*e->runs));
    e->starts = pc__calloc(mem, runs, sizeof *e->starts);
    e->filled = pc__calloc(mem, runs, sizeof *e->filled);
    e->owner = pc__calloc(mem, e->args->count, sizeof *e->owner);
    e->scratch = pc__calloc(mem, e->args->count, sizeof *e->scratch);
    return e->runs && e->starts && e->filled && e->owner && e->scratch ? PC_OK : PC_ERR_NOMEM;
}

static void finish_encode(encode_work *e, pc_status status, void **segments)
{
    const pc_allocator *mem = &e->model->context->mem;
    for (size_t c = 0; e->runs && c <= e->args->range_count; c++) {
        if (status >= 0 && c < e->args->range_count)
            segments[c] = e->runs[c];
        else
            pc__kv_unref(e->runs[c]);
    }
    pc__free(mem, e->runs);
    pc__free(mem, e->starts);
    pc__free(mem, e->filled);
    pc__free(mem, e->owner);
    pc__free(mem, e->scratch);
    pc__build_free(&e->build);
}

static pc_status encode_native(void *user, const pc_encode_args *args, void **segments)
{
    encode_work e = {.model = user, .args = args};
    pc_status status;
    for (size_t c = 0; c < args->range_count; c++)
        segments[c] = NULL;
    PC__TRY(pc__model_can_go_on(e.model), done);
    if (!args->count)
        return args->range_count
                   ? pc__fail(PC_ERR_INVALID, "encode: ranges are given, but no tokens")
                   : PC_OK;
    PC__TRY(check_encode_args(e.model->native, args), done);
    PC__TRY(reserve_encode(&e), done);
    PC__TRY(assign_tokens(&e), done);
    e.length = args->rope_regime_length ? args->rope_regime_length
                                        : (uint64_t)args->positions[args->count - 1] + 1;
    for (size_t c = 0; c <= args->range_count; c++)
        PC__TRY(make_encoded_run(&e, c), done);
    status = encode_all(&e);
done:
    finish_encode(&e, status, segments);
    return status;
}

const pc_model_ops pc__native_ops = {
    .struct_size = sizeof(pc_model_ops),
    .describe = describe_native,
    .encode = encode_native,
    .release = release_run,
    .size = size_run,
    .sequence_new = pc__native_sequence_new,
    .attach = pc__native_attach,
    .fork = pc__native_fork,
    .step = pc__native_step,
    .drop = pc__native_drop,
    .truncate = pc__native_truncate,
    .deviation = pc__native_deviation,
    .step_hidden = pc__native_step_hidden,
};
