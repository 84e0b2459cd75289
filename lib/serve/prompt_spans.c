/* Prompts of segments that the caller gives, with new tokens behind them. */
#include <string.h>

#include "attn/kv.h"
#include "model/model_states.h"
#include "serve/model_calls.h"
#include "serve/prompt.h"
#include "serve/visibility.h"

static int64_t relative_position(const pc_model *model, const pc_segment *segment, size_t token)
{
    return pc__model_relative(model, segment->payload, token);
}

int64_t pc__prompt_position(const pc_prompt *prompt, size_t part, size_t token)
{
    const pc_span *given = part < prompt->given_count ? &prompt->given[part] : NULL;
    return given
               ? given->start + relative_position(prompt->model, given->segment, given->lo + token)
               : prompt->parts[part].start + (int64_t)token;
}

static pc_status check_prompt_span(const pc_model *model, const pc_span *span, size_t s,
                                   int64_t start)
{
    const pc_segment *segment = span->segment;
    size_t tokens = segment ? segment->tokens : 0, hi = span->hi ? span->hi : tokens;
    int64_t last;
    if (!segment)
        return pc__fail(PC_ERR_INVALID, "pc_prompt_from_spans: span %zu: segment is NULL", s);
    if (pc__segment_model(segment) != model)
        return pc__fail(PC_ERR_MISMATCH,
                        "pc_prompt_from_spans: span %zu: the segment is of another model", s);
    if (span->lo >= hi || hi > tokens)
        return pc__fail(PC_ERR_INVALID, "pc_prompt_from_spans: span %zu: tokens %u to %zu of %zu",
                        s, span->lo, hi, tokens);
    last = relative_position(model, segment, hi - 1);
    if (span->start < 0 || span->start > start || last >= start - span->start)
        return pc__fail(PC_ERR_INVALID,
                        "pc_prompt_from_spans: span %zu starts at %lld, its last token stands %lld "
                        "behind that, the new tokens stand at %lld",
                        s, (long long)span->start, (long long)last, (long long)start);
    return PC_OK;
}

static pc_status check_new_tokens(const pc_model *model, int64_t start, const int32_t *tokens,
                                  size_t count)
{
    int64_t limit = model->info.context_length ? model->info.context_length : INT64_MAX / 2;
    if (start < 0)
        return pc__fail(PC_ERR_INVALID, "pc_prompt_from_spans: start is %lld", (long long)start);
    if (count > (size_t)limit || start > limit - (int64_t)count)
        return pc__fail(PC_ERR_LIMIT,
                        "pc_prompt_from_spans: %zu tokens from position %lld, the model's context "
                        "is %lld",
                        count, (long long)start, (long long)limit);
    return pc__check_tokens(model, "pc_prompt_from_spans", tokens, count);
}

static void fill_parts(pc_prompt *prompt, const pc_span *spans, int64_t start, size_t token_count)
{
    static char no_path[1];
    for (size_t s = 0; s < prompt->given_count; s++) {
        pc_span *span = &prompt->given[s];
        *span = spans[s];
        pc_segment *segment = span->segment;
        span->hi = span->hi ? span->hi : (uint32_t)segment->tokens;
        pc__segment_ref(segment);
        int64_t first = span->start + relative_position(prompt->model, segment, span->lo);
        prompt->blocks[s] = (pc__prompt_part){.kind = PC__PART_CACHED,
                                              .path = no_path,
                                              .tokens = segment->token_ids + span->lo,
                                              .count = span->hi - span->lo,
                                              .start = first};
    }
    prompt->blocks[prompt->given_count] = (pc__prompt_part){.kind = PC__PART_TEXT,
                                                            .path = no_path,
                                                            .tokens = prompt->tokens,
                                                            .count = token_count,
                                                            .start = start};
    prompt->parts = prompt->blocks;
    prompt->part_count = prompt->given_count + (token_count != 0);
    prompt->end = start + (int64_t)token_count;
}

static pc_status judge_exactness(pc_prompt *prompt)
{
    pc__visibility seen = {.exact = 0};
    pc_status status = PC_OK;
    if (pc__model_is_native(prompt->model))
        status = pc__visibility_of(&seen, &prompt->model->context->mem, prompt->given,
                                   prompt->given_count);
    prompt->given_exact = seen.exact;
    return status;
}

static pc_status make_prompt(pc_prompt **out, const pc_model *model, const pc_span *spans,
                             size_t span_count, int64_t start, const int32_t *tokens,
                             size_t token_count)
{
    const pc_allocator *mem = &model->context->mem;
    pc_prompt *prompt = pc__prompt_new(model);
    pc_status status;
    if (!prompt)
        return PC_ERR_NOMEM;
    prompt->given = pc__calloc(mem, span_count, sizeof *prompt->given);
    prompt->blocks = pc__calloc(mem, span_count + 1, sizeof *prompt->blocks);
    prompt->tokens = pc__calloc(mem, token_count, sizeof *prompt->tokens);
    if (!prompt->given || !prompt->blocks || !prompt->tokens) {
        pc_prompt_free(prompt);
        return PC_ERR_NOMEM;
    }
    if (token_count)
        memcpy(prompt->tokens, tokens, token_count * sizeof *tokens);
    prompt->given_count = span_count;
    fill_parts(prompt, spans, start, token_count);
    status = judge_exactness(prompt);
    if (status < 0)
        pc_prompt_free(prompt);
    else
        *out = prompt;
    return status;
}

/* `spans` are ours, dense. */
static pc_status check_and_make(pc_prompt **out, const pc_model *model, const pc_span *spans,
                                size_t span_count, int64_t start, const int32_t *tokens,
                                size_t token_count)
{
    pc_span *own;
    pc_status status;
    PC__TRY_RETURN(pc__spans_of_model(&own, model, spans, span_count));
    for (size_t s = 0; s < span_count; s++)
        PC__TRY(check_prompt_span(model, &own[s], s, start), done);
    status = make_prompt(out, model, own, span_count, start, tokens, token_count);
done:
    pc__spans_free(own, span_count, model);
    return status;
}

pc_status pc_prompt_from_spans(pc_prompt **out, const pc_model *model, const pc_span *spans,
                               size_t span_stride, size_t span_count, int64_t start,
                               const int32_t *tokens, size_t token_count,
                               const pc_prompt_options *options)
{
    PC__HOLD(pc_model, model);
    const pc__array *array = PC__ARRAY("pc_prompt_from_spans", "spans", pc_span, hi);
    const pc_allocator *mem;
    uint64_t flags;
    const void *dense;
    void *copy;
    pc_status status;
    if (!out)
        return pc__fail(PC_ERR_INVALID, "pc_prompt_from_spans: out is NULL");
    *out = NULL;
    if (!model)
        return pc__fail(PC_ERR_INVALID, "pc_prompt_from_spans: model is NULL");
    PC__TRY_RETURN(pc__prompt_flags(&flags, "pc_prompt_from_spans", options, 0));
    PC__TRY_RETURN(
        pc__check_array("pc_prompt_from_spans", "tokens", tokens, token_count, sizeof *tokens));
    if (!span_count && !token_count)
        return pc__fail(PC_ERR_INVALID, "pc_prompt_from_spans: no spans and no new tokens");
    mem = &model->context->mem;
    PC__TRY_RETURN(pc__model_has_order(model));
    PC__TRY_RETURN(check_new_tokens(model, start, tokens, token_count));
    PC__TRY_RETURN(pc__array_check(array, spans, span_stride, span_count));
    pc__spans_hold(spans, span_stride, span_count); /* the allocator may free them */
    status = pc__array_in(&dense, &copy, mem, array, spans, span_stride, span_count);
    if (status >= 0)
        status = check_and_make(out, model, dense, span_count, start, tokens, token_count);
    pc__free(mem, copy);
    pc__spans_let_go(spans, span_stride, span_count);
    return status;
}
