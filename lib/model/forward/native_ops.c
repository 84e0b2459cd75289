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
struct pc__encoding {
    const pc_model *model;
    const pc_encode_args *args;
    pc__kv **runs;    /* [range_count + 1]; the last may be NULL */
    int64_t *starts;  /* [range_count + 1] */
    size_t *filled;   /* [range_count + 1] tokens in each so far */
    uint32_t *owner;  /* [count] run of each token */
    int64_t *scratch; /* [count] relative positions */
    uint64_t length;  /* decides the RoPE regime */
    size_t computed;  /* tokens [0, computed) */
};

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

static pc_status assign_tokens(pc__encoding *e)
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

/* Makes run `c` for all its tokens, at positions relative to its first. It is the host's: between
 * passes it needs no memory of a device. */
static pc_status make_encoded_run(pc__encoding *e, size_t c)
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
    PC__TRY_RETURN(pc__kv_new(&e->runs[c], &e->model->context->mem, &e->model->native->shape, n));
    e->runs[c]->rope_regime = pc__model_rope_regime(e->model, e->length);
    e->runs[c]->origin = e->starts[c];
    PC__TRY_RETURN(pc__kv_append(e->runs[c], e->scratch, n));
    e->runs[c]->unwritten = n;
    return PC_OK;
}

static size_t min_size(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* Runs [*next, end) that the row sees, up to the first one that starts at `until` or later. */
static pc_status add_own_spans(const pc__encoding *e, pc__pass_build *build, size_t *next,
                               int64_t until)
{
    for (; *next <= e->args->range_count; ++*next) {
        size_t r = *next;
        if (!e->filled[r])
            continue;
        if (e->starts[r] >= until)
            break;
        PC__TRY_RETURN(pc__build_span(build, e->runs[r], e->starts[r], 0, e->filled[r]));
    }
    return PC_OK;
}

/* Spans come in the order of their places, whether they are given or made by this call: a row has
 * the same bits whatever was there before. */
static pc_status add_encode_row(pc__encoding *e, pc__pass_build *build, size_t i)
{
    const pc_encode_args *args = e->args;
    uint32_t c = e->owner[i];
    int64_t position = args->positions[i];
    pc__token_row row = {args->tokens[i], 0, position, e->runs[c], e->filled[c]++, e->starts[c], 0};
    size_t own = 0;
    pc__build_row(build, &row);
    for (size_t v = 0; v < args->visible_count; v++) {
        const pc_span *at = &args->visible[v];
        size_t hi = min_size(at->hi, pc__kv_upto(at->segment, position - at->start));
        if (hi <= at->lo)
            continue;
        PC__TRY_RETURN(add_own_spans(e, build, &own, at->start + at->lo));
        PC__TRY_RETURN(pc__build_span(build, at->segment, at->start, at->lo, hi));
    }
    return add_own_spans(e, build, &own, INT64_MAX);
}

pc_status pc__encoding_add(pc__encoding *e, pc__pass_build *build, size_t count)
{
    for (size_t i = e->computed; i < e->computed + count; i++)
        PC__TRY_RETURN(add_encode_row(e, build, i));
    return PC_OK;
}

void pc__encoding_settle(pc__encoding *e, size_t count, pc_status status)
{
    if (status >= 0)
        e->computed += count;
    memset(e->filled, 0, (e->args->range_count + 1) * sizeof *e->filled);
    for (size_t i = 0; i < e->computed; i++)
        e->filled[e->owner[i]]++;
    for (size_t c = 0; c <= e->args->range_count; c++)
        if (e->runs[c])
            e->runs[c]->unwritten = e->runs[c]->tokens - e->filled[c];
}

size_t pc__encoding_left(const pc__encoding *e)
{
    return e->args->count - e->computed;
}

static pc_status reserve_encode(pc__encoding *e)
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

void pc__encoding_close(pc__encoding *e, void **segments)
{
    if (!e)
        return;
    const pc_allocator *mem = &e->model->context->mem;
    for (size_t c = 0; e->runs && c <= e->args->range_count; c++) {
        if (segments && c < e->args->range_count)
            segments[c] = e->runs[c];
        else
            pc__kv_unref(e->runs[c]);
    }
    pc__free(mem, e->runs);
    pc__free(mem, e->starts);
    pc__free(mem, e->filled);
    pc__free(mem, e->owner);
    pc__free(mem, e->scratch);
    pc__free(mem, e);
}

typedef struct encode_opening {
    const pc_model *model;
    const pc_encode_args *args;
    pc__encoding *encoding; /* the result */
} encode_opening;

static pc_status open_encoding(void *work)
{
    encode_opening *o = work;
    const pc_encode_args *args = o->args;
    pc__encoding *e = pc__calloc(&o->model->context->mem, 1, sizeof *e);
    pc_status status;
    if (!e)
        return PC_ERR_NOMEM;
    e->model = o->model;
    e->args = args;
    e->length = args->rope_regime_length ? args->rope_regime_length
                                         : (uint64_t)args->positions[args->count - 1] + 1;
    PC__TRY(reserve_encode(e), failed);
    PC__TRY(assign_tokens(e), failed);
    for (size_t c = 0; c <= args->range_count; c++)
        PC__TRY(make_encoded_run(e, c), failed);
    o->encoding = e;
    return PC_OK;
failed:
    pc__encoding_close(e, NULL);
    return status;
}

pc_status pc__encoding_open(pc__encoding **out, const pc_model *model, const pc_encode_args *args)
{
    encode_opening work = {model, args, NULL};
    pc_status status;
    *out = NULL;
    PC__TRY_RETURN(pc__model_can_go_on(model));
    PC__TRY_RETURN(check_encode_args(model->native, args));
    status = pc__model_work(model, open_encoding, &work, 0);
    *out = work.encoding;
    return status;
}

/* Passes end where their blocks end, so that several passes compute what one would. */
static pc_status encode_all(pc__encoding *e)
{
    const pc_step_args args = {.struct_size = sizeof args,
                               .rope_regime_length = e->length,
                               .cancelled = e->args->cancelled,
                               .cancel_user = e->args->cancel_user};
    size_t runs = e->args->visible_count + e->args->range_count + 1;
    size_t blocks = SPANS_AT_ONCE / runs / PC__BLOCK, rows = (blocks ? blocks : 1) * PC__BLOCK;
    while (pc__encoding_left(e)) {
        const pc__encode_piece piece = {e, min_size(rows, pc__encoding_left(e))};
        PC__TRY_RETURN(pc__model_step_pieces(e->model, &args, NULL, &piece, 1));
    }
    return PC_OK;
}

static pc_status encode_native(void *user, const pc_encode_args *args, void **segments)
{
    pc__encoding *e;
    pc_status status;
    for (size_t c = 0; c < args->range_count; c++)
        segments[c] = NULL;
    if (!args->count)
        return args->range_count
                   ? pc__fail(PC_ERR_INVALID, "encode: ranges are given, but no tokens")
                   : pc__model_can_go_on(user);
    PC__TRY_RETURN(pc__encoding_open(&e, user, args));
    status = encode_all(e);
    pc__encoding_close(e, status >= 0 ? segments : NULL);
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
