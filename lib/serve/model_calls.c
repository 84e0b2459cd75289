/* Calls of a model's operations. One loop has the retries of those that may find no room. */
#include "serve/model_calls.h"

#include "base/clock.h"
#include "model/model_states.h"

static void release_payload(const pc_model *model, void *payload)
{
    pc__model_payload(model)->release((void *)(uintptr_t)model, payload);
}

pc_status pc__segment_find(const pc_model *model, pc_cache *cache, const pc__id *key,
                           const int32_t *tokens, size_t count, pc_segment **out)
{
    pc_status status = pc__cache_get_entry(cache, key, tokens, count, out, NULL);
    if (status != PC_OK || pc__segment_serves(*out, pc__model_payload(model), model))
        return status;
    pc__segment_unref(*out);
    *out = NULL;
    return PC_MISS;
}

static pc_status payload_bytes(const pc_model *model, void *payload, size_t count, uint64_t *bytes)
{
    pc_status status = PC_OK;
    *bytes = count * model->info.kv_bytes_per_token;
    if (model->ops.size) {
        pc__model_enter(model, PC_OVERLAP_STATES);
        status = model->ops.size(model->user, payload, bytes);
        pc__model_leave(model, PC_OVERLAP_STATES);
    }
    return pc__model_status(model, "size", status);
}

pc_status pc__wrap_segment(pc_segment **out, const pc_model *model, void *payload, int stored,
                           const int32_t *tokens, size_t count)
{
    pc__kv *run = payload;
    uint64_t bytes;
    pc_status status = stored ? pc__model_keep(model, &run) : PC_OK;
    *out = NULL;
    if (status >= 0)
        status = payload_bytes(model, run, count, &bytes);
    if (status >= 0)
        status = pc__segment_new(out, &model->context->mem, pc__model_payload(model), run,
                                 (void *)(uintptr_t)model, bytes, tokens, count);
    if (status >= 0)
        pc__model_ref(model);
    else
        release_payload(model, run);
    return status;
}

static pc_status check_vocabulary(const pc_model *model, const int32_t *tokens, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (tokens[i] < 0 || tokens[i] >= model->info.vocab)
            return pc__fail(PC_ERR_MISMATCH,
                            "the tokenizer gave id %d, the model's vocabulary has %d", tokens[i],
                            model->info.vocab);
    return PC_OK;
}

/* Without an error the model owes every segment. */
static pc_status check_payloads(void *const *payloads, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (!payloads[i])
            return pc__fail(PC_ERR_INTERNAL, "the model's encode gave no segment for range %zu", i);
    return PC_OK;
}

/* One call of an operation that may find no room. */
typedef struct model_call {
    enum { ENCODE, SEQUENCE_NEW, ATTACH, FORK, STEP, STEP_HIDDEN } operation;
    const void *args; /* of all but FORK */
    void *sequence;   /* of ATTACH and FORK */
    void **out;       /* [out_count] new payloads or sequences */
    size_t out_count;
    uint64_t tokens;        /* that it needs room for */
    float *hidden;          /* of STEP_HIDDEN */
    const pc__draws *draws; /* of STEP; NULL: none */
} model_call;

static pc_status call_once(const pc_model *model, const model_call *c)
{
    switch (c->operation) {
    case ENCODE:
        return model->ops.encode(model->user, c->args, c->out);
    case SEQUENCE_NEW:
        return model->ops.sequence_new(model->user, c->args, c->out);
    case ATTACH:
        return model->ops.attach(model->user, c->sequence, c->args);
    case FORK:
        return model->ops.fork(model->user, c->sequence, c->out);
    case STEP_HIDDEN:
        return model->ops.step_hidden(model->user, c->args, c->hidden);
    default:
        return c->draws ? pc__model_step_draw(model, c->args, c->draws)
                        : model->ops.step(model->user, c->args);
    }
}

/* A call that finds no room (PC_ERR_LIMIT) is made again, up to RETRIES times, each time after the
 * cache has given room back: first as much as the call needs, then four times as much each time,
 * for the application's pool may be in pieces, or count otherwise. */
enum { RETRIES = 8, LEAST_BYTES = 4096, GROWTH = 4 };

static pc_status call_model(const pc_model *model, pc_cache *cache, const model_call *c)
{
    static const char *const names[] = {"encode", "sequence_new", "attach",
                                        "fork",   "step",         "step_hidden"};
    uint64_t bytes = c->tokens * model->info.kv_bytes_per_token;
    int left = pc__model_is_native(model) || !cache ? 0 : RETRIES;
    pc_status status;
    bytes = bytes > LEAST_BYTES ? bytes : LEAST_BYTES;
    for (;; bytes *= GROWTH) {
        for (size_t i = 0; i < c->out_count; i++)
            c->out[i] = NULL;
        pc__model_enter(model, 0);
        status = pc__model_status(model, names[c->operation], call_once(model, c));
        pc__model_leave(model, 0);
        if (status != PC_ERR_LIMIT || left-- <= 0 || !pc__cache_free_for_owner(cache, model, bytes))
            break;
    }
    for (size_t i = 0; status < 0 && i < c->out_count; i++)
        c->out[i] = NULL;
    return status;
}

typedef struct encode_ranges {
    const pc_model *model;
    pc_cache *cache;
    const pc_encode_args *args;
    int stored;
    pc_segment **segments;
} encode_ranges;

static void drop_segments(pc_segment **segments, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        pc__segment_unref(segments[i]);
        segments[i] = NULL;
    }
}

/* Makes segments of what the call gave, if it gave all. */
static pc_status wrap_payloads(const encode_ranges *e, void **payloads, pc_status status)
{
    const pc_encode_args *args = e->args;
    if (status >= 0)
        status = check_payloads(payloads, args->range_count);
    for (size_t i = 0; i < args->range_count; i++) {
        const pc_token_range *range = &args->ranges[i];
        if (payloads[i] && status >= 0)
            status = pc__wrap_segment(&e->segments[i], e->model, payloads[i], e->stored,
                                      args->tokens + range->first, range->count);
        else if (payloads[i])
            release_payload(e->model, payloads[i]);
    }
    if (status < 0)
        drop_segments(e->segments, args->range_count);
    return status;
}

static pc_status run_encode(void *work)
{
    const encode_ranges *e = work;
    const pc_model *model = e->model;
    const pc_encode_args *args = e->args;
    model_call call = {
        .operation = ENCODE, .args = args, .out_count = args->range_count, .tokens = args->count};
    void **payloads;
    pc_status status;
    PC__TRY_RETURN(pc__model_can_go_on(model));
    PC__TRY_RETURN(check_vocabulary(model, args->tokens, args->count));
    payloads = pc__calloc(&model->context->mem, args->range_count, sizeof *payloads);
    if (!payloads)
        return PC_ERR_NOMEM;
    call.out = payloads;
    status = wrap_payloads(e, payloads, call_model(model, e->cache, &call));
    pc__free(&model->context->mem, payloads);
    return status;
}

static void report_encode(const pc_model *model, pc_cache *cache, size_t tokens, double seconds)
{
    if (cache)
        pc__estimate_report_compute(pc__cache_estimate(cache), model->info.fingerprint, tokens,
                                    seconds);
}

/* The cache's background thread pauses meanwhile. The cache learns how long computing takes. */
pc_status pc__call_encode(const pc_model *model, pc_cache *cache, const pc_encode_args *args,
                          int stored, pc_segment **segments, double *token_seconds)
{
    double started = pc__now(), seconds;
    encode_ranges ranges = {model, cache, args, stored, segments};
    pc_status status;
    for (size_t i = 0; i < args->range_count; i++)
        segments[i] = NULL;
    pc__cache_request_running(cache, 1);
    status = pc__model_work(model, run_encode, &ranges, 0);
    pc__cache_request_running(cache, -1);
    seconds = pc__now() - started;
    *token_seconds = args->count ? seconds / (double)args->count : 0;
    if (status >= 0)
        report_encode(model, cache, args->count, seconds);
    return status;
}

pc_status pc__call_encode_open(const pc_model *model, const pc_encode_args *args,
                               pc__encoding **out)
{
    *out = NULL;
    PC__TRY_RETURN(check_vocabulary(model, args->tokens, args->count));
    return pc__encoding_open(out, model, args);
}

pc_status pc__call_encode_end(const pc_model *model, pc_cache *cache, pc__encoding *encoding,
                              const pc_encode_args *args, int stored, pc_segment **segments,
                              double seconds)
{
    const encode_ranges ranges = {model, cache, args, stored, segments};
    void **payloads = pc__calloc(&model->context->mem, args->range_count, sizeof *payloads);
    pc_status status = payloads ? PC_OK : PC_ERR_NOMEM;
    pc__encoding_close(encoding, payloads);
    if (payloads)
        status = wrap_payloads(&ranges, payloads, PC_OK);
    pc__free(&model->context->mem, payloads);
    if (status >= 0)
        report_encode(model, cache, args->count, seconds);
    return status;
}

int pc__segment_is_lossy(const pc_segment *segment)
{
    const pc_model *model = pc__segment_model(segment);
    return segment->lossy
           || (model && pc__model_is_native(model)
               && ((const pc__kv *)segment->payload)->shape.dtype == PC_DTYPE_I8);
}

pc_status pc__call_sequence_new(const pc_model *model, pc_cache *cache,
                                const pc_sequence_args *args, void **sequence)
{
    model_call call = {.operation = SEQUENCE_NEW, .args = args, .out = sequence, .out_count = 1};
    pc_status status = pc__model_can_go_on(model);
    *sequence = NULL;
    return status < 0 ? status : call_model(model, cache, &call);
}

pc_status pc__call_attach(const pc_model *model, pc_cache *cache, void *sequence,
                          const pc_segment *segment, int64_t start, uint32_t lo, uint32_t hi)
{
    pc_span at = {segment->payload, start, lo, hi};
    model_call call = {.operation = ATTACH, .args = &at, .sequence = sequence, .tokens = hi - lo};
    return call_model(model, cache, &call);
}

pc_status pc__call_fork(const pc_model *model, pc_cache *cache, void *sequence, void **copy)
{
    model_call call = {.operation = FORK, .sequence = sequence, .out = copy, .out_count = 1};
    *copy = NULL;
    if (!model->ops.fork)
        return pc__fail(PC_ERR_UNSUPPORTED, "the model cannot fork a sequence (no ops.fork)");
    return call_model(model, cache, &call);
}

pc_status pc__call_truncate(const pc_model *model, void *sequence, size_t count)
{
    pc_status status;
    if (!model->ops.truncate)
        return pc__fail(PC_ERR_UNSUPPORTED,
                        "the model cannot shorten a sequence (no ops.truncate)");
    pc__model_enter(model, 0);
    status = pc__model_status(model, "truncate", model->ops.truncate(model->user, sequence, count));
    pc__model_leave(model, 0);
    return status;
}

static pc_status check_rows(const pc_model *model, const pc_step_args *args)
{
    for (size_t i = 0; i < args->count; i++)
        PC__TRY_RETURN(check_vocabulary(model, &args->rows[i].token, 1));
    return PC_OK;
}

static pc_status call_step(const pc_model *model, pc_cache *cache, const model_call *call,
                           const pc_step_args *args)
{
    PC__TRY_RETURN(check_rows(model, args));
    return call_model(model, cache, call);
}

pc_status pc__call_step(const pc_model *model, pc_cache *cache, const pc_step_args *args,
                        const pc__draws *draws)
{
    const model_call call = {
        .operation = STEP, .args = args, .tokens = args->count, .draws = draws};
    return call_step(model, cache, &call, args);
}

pc_status pc__call_step_pieces(const pc_model *model, const pc_step_args *args,
                               const pc__draws *draws, const pc__encode_piece *pieces, size_t count)
{
    PC__TRY_RETURN(check_rows(model, args));
    pc__model_enter(model, 0);
    pc_status status = pc__model_status(model, "step",
                                        pc__model_step_pieces(model, args, draws, pieces, count));
    pc__model_leave(model, 0);
    return status;
}

pc_status pc__call_step_hidden(const pc_model *model, pc_cache *cache, const pc_step_args *args,
                               float *hidden)
{
    const model_call call = {
        .operation = STEP_HIDDEN, .args = args, .tokens = args->count, .hidden = hidden};
    return call_step(model, cache, &call, args);
}

void pc__call_drop(const pc_model *model, void *sequence)
{
    if (!sequence)
        return;
    pc__model_enter(model, 0);
    model->ops.drop(model->user, sequence);
    pc__model_leave(model, 0);
}
