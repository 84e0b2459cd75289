#include "serve/model_calls.h"

#include "model/model_states.h"
#include "serve/segment_image.h"

static void release_payload(const pc_model *model, void *payload)
{
    pc__model_payload.release((void *)(uintptr_t)model, payload);
}

const pc_model *pc__segment_model(const pc_segment *segment)
{
    return segment->ops == &pc__model_payload ? segment->owner : NULL;
}

pc_status pc__segment_find(const pc_model *model, pc_cache *cache, const pc__id *key,
                           const int32_t *tokens, size_t count, pc_segment **out)
{
    pc_status status = pc__cache_get(cache, key, tokens, count, out);
    if (status != PC_OK || pc__segment_serves(*out, &pc__model_payload, model))
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
        pc__model_enter(model);
        status = model->ops.size(model->user, payload, bytes);
        pc__model_leave(model);
    }
    return pc__model_status(model, "size", status);
}

pc_status pc__wrap_segment(pc_segment **out, const pc_model *model, void *payload,
                           const int32_t *tokens, size_t count)
{
    uint64_t bytes;
    pc_status status = payload_bytes(model, payload, count, &bytes);
    *out = NULL;
    if (status >= 0)
        status = pc__segment_new(out, &model->context->mem, &pc__model_payload, payload,
                                 (void *)(uintptr_t)model, bytes, tokens, count);
    if (status >= 0)
        pc__model_ref(model);
    else
        release_payload(model, payload);
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

/* A host that says OK owes every segment. */
static pc_status check_payloads(void *const *payloads, size_t count)
{
    for (size_t c = 0; c < count; c++)
        if (!payloads[c])
            return pc__fail(PC_ERR_INTERNAL, "the model's encode gave no segment for cut %zu", c);
    return PC_OK;
}

/* Wraps a payload of encode, in the format that is asked for. Released in any case. */
static pc_status wrap_payload(pc_segment **out, const pc_model *model, void *payload, int kept,
                              const int32_t *tokens, size_t count)
{
    pc__kv *run = payload;
    pc_status status = kept ? pc__model_keep(model, &run) : PC_OK;
    if (status >= 0)
        return pc__wrap_segment(out, model, run, tokens, count);
    release_payload(model, payload);
    return status;
}

/* Calls of a host's that find no room. The first time as much is given back as is wanted, then four
 * times as much: its pool may be in pieces, or count otherwise. */
typedef struct retries {
    uint64_t bytes; /* that the next one gives back */
    int left;
} retries;

enum { RETRIES = 8, LEAST_BYTES = 4096, GROWTH = 4 };

static retries retries_of(const pc_model *model, uint64_t tokens)
{
    uint64_t bytes = tokens * model->info.kv_bytes_per_token;
    return (retries){bytes > LEAST_BYTES ? bytes : LEAST_BYTES,
                     pc__model_is_native(model) ? 0 : RETRIES};
}

/* 1: it failed for want of room, and there is more of that now. */
static int has_room_now(const pc_model *model, pc_cache *cache, pc_status status, retries *r)
{
    uint64_t bytes = r->bytes;
    if (status != PC_ERR_LIMIT || !cache || r->left <= 0)
        return 0;
    r->left--;
    r->bytes *= GROWTH;
    return pc__cache_free_for_owner(cache, model, bytes) > 0;
}

static pc_status call_encode(const pc_model *model, pc_cache *cache, const pc_encode_args *args,
                             void **payloads)
{
    retries again = retries_of(model, args->count);
    pc_status status;
    do {
        for (size_t c = 0; c < args->range_count; c++)
            payloads[c] = NULL;
        pc__model_enter(model);
        status = pc__model_status(model, "encode", model->ops.encode(model->user, args, payloads));
        pc__model_leave(model);
    } while (has_room_now(model, cache, status, &again));
    return status;
}

static pc_status encode(const pc_model *model, pc_cache *cache, const pc_encode_args *args,
                        int kept, pc_segment **segments)
{
    const pc_allocator *mem = &model->context->mem;
    size_t cuts = args->range_count;
    void **payloads;
    pc_status status;
    for (size_t c = 0; c < cuts; c++)
        segments[c] = NULL;
    if ((status = pc__model_can_go_on(model)) < 0
        || (status = check_vocabulary(model, args->tokens, args->count)) < 0)
        return status;
    payloads = pc__calloc(mem, cuts, sizeof *payloads);
    if (!payloads)
        return PC_ERR_NOMEM;
    status = call_encode(model, cache, args, payloads);
    if (status >= 0)
        status = check_payloads(payloads, cuts);
    else
        cuts = 0;
    for (size_t c = 0; c < cuts; c++) {
        if (!payloads[c])
            continue;
        if (status >= 0)
            status = wrap_payload(&segments[c], model, payloads[c], kept,
                                  args->tokens + args->ranges[c].first, args->ranges[c].count);
        else
            release_payload(model, payloads[c]);
    }
    for (size_t c = 0; status < 0 && c < cuts; c++) {
        pc__segment_unref(segments[c]);
        segments[c] = NULL;
    }
    pc__free(mem, payloads);
    return status;
}

pc_status pc__call_encode(const pc_model *model, pc_cache *cache, const pc_encode_args *args,
                          pc_segment **segments)
{
    return encode(model, cache, args, 1, segments);
}

pc_status pc__call_encode_as_computed(const pc_model *model, pc_cache *cache,
                                      const pc_encode_args *args, pc_segment **segments)
{
    return encode(model, cache, args, 0, segments);
}

int pc__segment_is_lossy(const pc_segment *segment)
{
    const pc_model *model = pc__segment_model(segment);
    return segment->lossy
           || (model && pc__model_is_native(model)
               && ((const pc__kv *)segment->payload)->shape.dtype == PC_DTYPE_I8);
}

pc_status pc__call_sequence_new(const pc_model *model, pc_cache *cache, void **sequence)
{
    retries again = retries_of(model, 0);
    pc_status status = pc__model_can_go_on(model);
    *sequence = NULL;
    if (status < 0)
        return status;
    do {
        pc__model_enter(model);
        status = pc__model_status(model, "sequence_new",
                                  model->ops.sequence_new(model->user, sequence));
        pc__model_leave(model);
    } while (has_room_now(model, cache, status, &again));
    if (status < 0)
        *sequence = NULL;
    return status;
}

pc_status pc__call_attach(const pc_model *model, pc_cache *cache, void *sequence,
                          const pc_segment *segment, int64_t start, uint32_t lo, uint32_t hi)
{
    pc_span at = {segment->payload, start, lo, hi};
    retries again = retries_of(model, hi - lo);
    pc_status status;
    do {
        pc__model_enter(model);
        status = pc__model_status(model, "attach", model->ops.attach(model->user, sequence, &at));
        pc__model_leave(model);
    } while (has_room_now(model, cache, status, &again));
    return status;
}

pc_status pc__call_fork(const pc_model *model, pc_cache *cache, void *sequence, void **copy)
{
    retries again = retries_of(model, 0);
    pc_status status;
    *copy = NULL;
    if (!model->ops.fork)
        return pc__fail(PC_ERR_UNSUPPORTED, "the model cannot fork a sequence (no ops.fork)");
    do {
        pc__model_enter(model);
        status = pc__model_status(model, "fork", model->ops.fork(model->user, sequence, copy));
        pc__model_leave(model);
    } while (has_room_now(model, cache, status, &again));
    if (status < 0)
        *copy = NULL;
    return status;
}

pc_status pc__call_truncate(const pc_model *model, void *sequence, size_t count)
{
    pc_status status;
    if (!model->ops.truncate)
        return pc__fail(PC_ERR_UNSUPPORTED,
                        "the model cannot shorten a sequence (no ops.truncate)");
    pc__model_enter(model);
    status = pc__model_status(model, "truncate", model->ops.truncate(model->user, sequence, count));
    pc__model_leave(model);
    return status;
}

pc_status pc__call_step(const pc_model *model, pc_cache *cache, const pc_step_args *args)
{
    retries again = retries_of(model, args->count);
    pc_status status = PC_OK;
    for (size_t i = 0; i < args->count && status >= 0; i++)
        status = check_vocabulary(model, &args->rows[i].token, 1);
    if (status < 0)
        return status;
    do {
        pc__model_enter(model);
        status = pc__model_status(model, "step", model->ops.step(model->user, args));
        pc__model_leave(model);
    } while (has_room_now(model, cache, status, &again));
    return status;
}

void pc__call_drop(const pc_model *model, void *sequence)
{
    if (!sequence)
        return;
    pc__model_enter(model);
    model->ops.drop(model->user, sequence);
    pc__model_leave(model);
}
