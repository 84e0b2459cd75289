/* pc_eval, the forward pass of a native model over lanes of spans and new tokens; and copies and
 * reads of segments. */
#include <string.h>

#include "attn/plan.h"
#include "base/options.h"
#include "model/model_states.h"
#include "model/forward/pass_build.h"
#include "serve/model_calls.h"
#include "serve/visibility.h"

/* New tokens of a lane at ascending positions. A lane has one such run, or several where
 * PC_VISIBLE_ALL lets positions go back. */
typedef struct lane_run {
    pc__kv *kv;
    int64_t start;
    size_t first, count; /* tokens of the lane */
} lane_run;

typedef struct evaluation {
    const pc_model *model;
    const pc_eval_args *args;
    uint64_t length;
    size_t tokens;            /* of all lanes */
    size_t *lane_first;       /* [lanes + 1] */
    size_t *run_first;        /* [lanes + 1] */
    lane_run *runs;           /* [tokens] at most */
    pc__lane_maps *lane_maps; /* [lanes]; NULL: no maps are given */
    const void **given_maps;  /* [lanes][layers] */
    void *packed_maps;        /* triangular copies, where the model is causal */
    pc__pass_build build;
} evaluation;

static pc_status check_lane_span(const pc_model *model, const pc_span *span, size_t lane, size_t s)
{
    const pc_segment *segment = span->segment;
    if (!span->segment)
        return pc__fail(PC_ERR_INVALID, "pc_eval: lane %zu, span %zu: segment is NULL", lane, s);
    if (pc__segment_model(span->segment) != model)
        return pc__fail(PC_ERR_MISMATCH,
                        "pc_eval: lane %zu, span %zu: the segment is of another model", lane, s);
    if ((span->hi && span->lo > span->hi) || span->hi > segment->tokens
        || span->lo > segment->tokens)
        return pc__fail(PC_ERR_INVALID, "pc_eval: lane %zu, span %zu: tokens %u to %u of %zu", lane,
                        s, span->lo, span->hi, segment->tokens);
    if (pc__is_far(span->start))
        return pc__fail(PC_ERR_LIMIT, "pc_eval: lane %zu, span %zu starts at %lld", lane, s,
                        (long long)span->start);
    return PC_OK;
}

static pc_status check_lane(const pc_model *model, const pc_lane *lane, size_t index,
                            uint32_t visibility)
{
    if (!lane->count || !lane->tokens || !lane->positions)
        return pc__fail(PC_ERR_INVALID,
                        "pc_eval: lane %zu: no tokens, or tokens or positions is NULL", index);
    PC__TRY_RETURN(pc__check_array("pc_eval", "tokens", lane->tokens, lane->count, 8));
    for (size_t i = 0; i < lane->count; i++) {
        if (lane->tokens[i] < 0 || lane->tokens[i] >= model->info.vocab)
            return pc__fail(PC_ERR_INVALID,
                            "pc_eval: lane %zu: token %zu is %d, the vocabulary has %d", index, i,
                            lane->tokens[i], model->info.vocab);
        if (lane->positions[i] < 0 || pc__is_far(lane->positions[i]))
            return pc__fail(lane->positions[i] < 0 ? PC_ERR_INVALID : PC_ERR_LIMIT,
                            "pc_eval: lane %zu: token %zu stands at %lld", index, i,
                            (long long)lane->positions[i]);
        if (visibility == PC_VISIBLE_BY_POSITION && i
            && lane->positions[i] <= lane->positions[i - 1])
            return pc__fail(
                PC_ERR_INVALID,
                "pc_eval: lane %zu: token %zu stands at %lld, not behind its predecessor", index, i,
                (long long)lane->positions[i]);
    }
    for (size_t s = 0; s < lane->span_count; s++)
        PC__TRY_RETURN(check_lane_span(model, &lane->spans[s], index, s));
    return PC_OK;
}

/* Every token of an encoder sees all of its lane, whatever the visibility. */
static pc_status check_encoder(const pc_model *model, const pc_eval_args *a)
{
    const char *name = model->info.architecture;
    if (a->logits)
        return pc__fail(PC_ERR_UNSUPPORTED,
                        "pc_eval: %s is an encoder: it has no logits over its vocabulary", name);
    if (a->segments)
        return pc__fail(PC_ERR_UNSUPPORTED,
                        "pc_eval: %s is an encoder: its states hold for one whole input only",
                        name);
    for (size_t l = 0; l < a->lane_count; l++) {
        const pc_lane *lane = &a->lanes[l];
        if (lane->span_count)
            return pc__fail(PC_ERR_UNSUPPORTED,
                            "pc_eval: lane %zu: %s is an encoder: it cannot continue a segment", l,
                            name);
        for (size_t i = 1; i < lane->count; i++)
            if (lane->positions[i] <= lane->positions[i - 1])
                return pc__fail(PC_ERR_UNSUPPORTED,
                                "pc_eval: lane %zu: an encoder needs ascending positions", l);
    }
    return PC_OK;
}

static pc_status check_args(const pc_model *model, const pc_eval_args *a)
{
    PC__TRY_RETURN(pc__model_check_native(model, "pc_eval"));
    if (!a->lane_count)
        return pc__fail(PC_ERR_INVALID, "pc_eval: no lanes");
    if (a->visibility > PC_VISIBLE_ALL || a->reserved)
        return pc__fail(PC_ERR_INVALID, "pc_eval: unknown visibility %u, or reserved is set",
                        a->visibility);
    for (size_t l = 0; l < a->lane_count; l++)
        PC__TRY_RETURN(check_lane(model, &a->lanes[l], l, a->visibility));
    return pc__model_is_causal(model) ? PC_OK : check_encoder(model, a);
}

/* An encoder uses the caller's maps as they are; others need them packed. */
static void use_lane_maps(evaluation *e, size_t lane, uint8_t **packed)
{
    const float *const *dense = e->args->maps[lane];
    const pc__map_shape *shape = &e->lane_maps[lane].shape;
    const void **given = e->given_maps + lane * (size_t)e->model->info.layers;
    e->lane_maps[lane].given = given;
    for (int32_t l = 0; l < e->model->info.layers; l++) {
        given[l] = dense[l];
        if (!dense[l] || !shape->causal)
            continue;
        pc__map_pack(shape, dense[l], *packed);
        given[l] = *packed;
        *packed += pc__map_bytes(shape);
    }
}

static pc_status use_maps(evaluation *e)
{
    const pc_allocator *mem = &e->model->context->mem;
    const pc_eval_args *a = e->args;
    size_t bytes = 0, layers = (size_t)e->model->info.layers;
    uint8_t *packed;
    if (!a->maps)
        return PC_OK;
    e->lane_maps = pc__calloc(mem, a->lane_count, sizeof *e->lane_maps);
    e->given_maps = pc__calloc(mem, a->lane_count * layers, sizeof *e->given_maps);
    if (!e->lane_maps || !e->given_maps)
        return PC_ERR_NOMEM;
    for (size_t l = 0; l < a->lane_count; l++) {
        e->lane_maps[l].shape = (pc__map_shape){PC_MAP_F32, e->model->info.heads, a->lanes[l].count,
                                                pc__model_is_causal(e->model)};
        if (a->maps[l])
            bytes += layers * pc__map_bytes(&e->lane_maps[l].shape);
    }
    packed = e->packed_maps = pc__alloc(mem, pc__model_is_causal(e->model) ? bytes : 0);
    if (!packed)
        return PC_ERR_NOMEM;
    for (size_t l = 0; l < a->lane_count; l++)
        if (a->maps[l])
            use_lane_maps(e, l, &packed);
    return PC_OK;
}

static int all_maps_given(const evaluation *e, size_t lane)
{
    if (!e->lane_maps || !e->lane_maps[lane].given)
        return 0;
    for (int32_t l = 0; l < e->model->info.layers; l++)
        if (!e->lane_maps[lane].given[l])
            return 0;
    return 1;
}

static pc_status reserve_eval(evaluation *e)
{
    const pc_allocator *mem = &e->model->context->mem;
    const pc_eval_args *a = e->args;
    e->lane_first = pc__calloc(mem, a->lane_count + 1, sizeof *e->lane_first);
    e->run_first = pc__calloc(mem, a->lane_count + 1, sizeof *e->run_first);
    if (!e->lane_first || !e->run_first)
        return PC_ERR_NOMEM;
    e->length = a->rope_regime_length;
    for (size_t l = 0; l < a->lane_count; l++) {
        e->lane_first[l + 1] = e->lane_first[l] + a->lanes[l].count;
        for (size_t i = 0; i < a->lanes[l].count && !a->rope_regime_length; i++)
            if ((uint64_t)a->lanes[l].positions[i] + 1 > e->length)
                e->length = (uint64_t)a->lanes[l].positions[i] + 1;
    }
    e->tokens = e->lane_first[a->lane_count];
    e->runs = pc__calloc(mem, e->tokens, sizeof *e->runs);
    return e->runs ? PC_OK : PC_ERR_NOMEM;
}

static pc_status make_lane_runs(evaluation *e, size_t l)
{
    const pc_lane *lane = &e->args->lanes[l];
    size_t n = e->run_first[l];
    for (size_t i = 0, end; i < lane->count; i = end) {
        lane_run *r = &e->runs[n++];
        for (end = i + 1; end < lane->count && lane->positions[end] > lane->positions[end - 1];)
            end++;
        e->run_first[l + 1] = n;
        *r = (lane_run){NULL, lane->positions[i], i, end - i};
        PC__TRY_RETURN(pc__model_run_new(e->model, r->count, e->length, &r->kv));
        r->kv->origin = r->start;
        for (size_t t = i; t < end; t++) {
            int64_t relative = lane->positions[t] - r->start;
            PC__TRY_RETURN(pc__kv_append(r->kv, &relative, 1));
        }
    }
    return PC_OK;
}

/* With a trace every row names all runs of its lane, so that the trace shows all keys. */
static pc_status add_spans(evaluation *e, size_t l, size_t token)
{
    const pc_lane *lane = &e->args->lanes[l];
    int64_t position = lane->positions[token];
    for (size_t s = 0; s < lane->span_count; s++) {
        const pc_span *span = &lane->spans[s];
        pc__kv *kv = ((const pc_segment *)span->segment)->payload;
        size_t hi = span->hi ? span->hi : kv->tokens,
               upto = pc__kv_upto(kv, position - span->start);
        if (e->args->visibility == PC_VISIBLE_BY_POSITION && upto < hi)
            hi = upto;
        if (e->args->trace || hi > span->lo)
            PC__TRY_RETURN(pc__build_span(&e->build, kv, span->start, hi > span->lo ? span->lo : 0,
                                          hi > span->lo ? hi : 0));
    }
    for (size_t n = e->run_first[l]; n < e->run_first[l + 1]; n++) {
        const lane_run *r = &e->runs[n];
        size_t hi = token + 1 > r->first ? token + 1 - r->first : 0;
        hi = hi < r->count && pc__model_is_causal(e->model) ? hi : r->count;
        if (e->args->trace || hi)
            PC__TRY_RETURN(pc__build_span(&e->build, r->kv, r->start, 0, hi));
    }
    return PC_OK;
}

static pc_status add_lane(evaluation *e, size_t l)
{
    const pc_lane *lane = &e->args->lanes[l];
    PC__TRY_RETURN(make_lane_runs(e, l));
    for (size_t n = e->run_first[l]; n < e->run_first[l + 1]; n++)
        for (size_t i = 0; i < e->runs[n].count; i++) {
            size_t token = e->runs[n].first + i;
            pc__token_row row = {lane->tokens[token],
                                 e->args->logits != NULL,
                                 lane->positions[token],
                                 e->runs[n].kv,
                                 i,
                                 e->runs[n].start,
                                 lane->types ? lane->types[token] : 0};
            pc__build_row(&e->build, &row);
            if (!all_maps_given(e, l))
                PC__TRY_RETURN(add_spans(e, l, token));
        }
    return PC_OK;
}

static pc_status compute_pass(evaluation *e)
{
    const pc_eval_args *a = e->args;
    pc__pass pass = {0};
    PC__TRY_RETURN(use_maps(e));
    PC__TRY_RETURN(pc__build_start(&e->build, &e->model->context->mem, e->tokens));
    for (size_t l = 0; l < a->lane_count; l++)
        PC__TRY_RETURN(add_lane(e, l));
    for (size_t l = 0; l < a->lane_count && a->segments; l++)
        if (e->run_first[l + 1] - e->run_first[l] > 1)
            return pc__fail(PC_ERR_UNSUPPORTED,
                            "pc_eval: lane %zu: a segment needs ascending positions", l);
    pc__build_end(&e->build, &pass);
    pass.rope_regime_length = e->length;
    pass.logits = a->logits;
    pass.lane_first = e->lane_first;
    pass.lane_count = a->lane_count;
    pass.trace = a->trace;
    pass.trace_user = a->trace_user;
    pass.maps = e->lane_maps;
    return pc__forward(e->model, &pass);
}

static pc_status check_logits(const evaluation *e)
{
    const float *row = e->args->logits;
    size_t vocab = (size_t)e->model->info.vocab;
    for (size_t l = 0; row && l < e->args->lane_count; l++)
        for (size_t i = 0; i < e->args->lanes[l].count; i++, row += vocab)
            PC__TRY_RETURN(pc__model_check_row(e->model, row, vocab, "logits", "lane", l,
                                               e->args->lanes[l].positions[i]));
    return PC_OK;
}

/* Known if the spans of the lane have seen each other. */
static pc_status note_visibility(const evaluation *e, size_t l)
{
    const pc_lane *lane = &e->args->lanes[l];
    pc__visibility visible;
    PC__TRY_RETURN(
        pc__visibility_of(&visible, &e->model->context->mem, lane->spans, lane->span_count));
    return pc__visibility_note(&visible, e->args->segments[l], e->runs[e->run_first[l]].start);
}

static pc_status make_segments(evaluation *e)
{
    const pc_eval_args *a = e->args;
    for (size_t l = 0; l < a->lane_count && a->segments; l++) {
        lane_run *r = &e->runs[e->run_first[l]];
        pc__kv *kv = r->kv;
        r->kv = NULL; /* the segment's, or gone */
        PC__TRY_RETURN(
            pc__wrap_segment(&a->segments[l], e->model, kv, 1, a->lanes[l].tokens, r->count));
        PC__TRY_RETURN(note_visibility(e, l));
    }
    return PC_OK;
}

static void end_eval(evaluation *e, pc_status status)
{
    const pc_allocator *mem = &e->model->context->mem;
    for (size_t n = 0; e->runs && n < e->tokens; n++)
        pc__kv_unref(e->runs[n].kv);
    for (size_t l = 0; status < 0 && e->args->segments && l < e->args->lane_count; l++) {
        pc__segment_unref(e->args->segments[l]);
        e->args->segments[l] = NULL;
    }
    pc__free(mem, e->lane_first);
    pc__free(mem, e->run_first);
    pc__free(mem, e->runs);
    pc__free(mem, e->lane_maps);
    pc__free(mem, (void *)e->given_maps);
    pc__free(mem, e->packed_maps);
    pc__build_free(&e->build);
}

static pc_status compute_lanes(void *of)
{
    evaluation e = *(const evaluation *)of;
    pc_status status;
    PC__TRY(pc__model_can_compute(e.model), done);
    PC__TRY(check_args(e.model, e.args), done);
    PC__TRY(reserve_eval(&e), done);
    PC__TRY(compute_pass(&e), done);
    PC__TRY(check_logits(&e), done);
    status = make_segments(&e);
done:
    end_eval(&e, status);
    return status;
}

/* `a`: its lanes and their spans are ours, dense. */
static pc_status eval_lanes(const pc_model *model, const pc_eval_args *a)
{
    evaluation e = {.model = model, .args = a};
    return pc__model_work(model, compute_lanes, &e, a->trace != NULL);
}

#define LANES PC__ARRAY("pc_eval", "lanes", pc_lane, span_stride)
#define SPANS PC__ARRAY("pc_eval", "spans of a lane", pc_span, hi)

/* The caller's lanes, and their spans with segments of the model. */
typedef struct dense_lanes {
    pc_lane *lanes;  /* [count] */
    pc_span **spans; /* [count] */
} dense_lanes;

static pc_status read_spans(pc_span **out, const pc_model *model, const pc_lane *lane)
{
    const void *given;
    void *copy;
    pc_status status;
    PC__TRY_RETURN(pc__array_in(&given, &copy, &model->context->mem, SPANS, lane->spans,
                                lane->span_stride, lane->span_count));
    status = pc__spans_of_model(out, model, given, lane->span_count);
    pc__free(&model->context->mem, copy);
    return status;
}

static pc_status read_lanes(dense_lanes *d, const pc_model *model, const pc_eval_args *a)
{
    const pc_allocator *mem = &model->context->mem;
    const void *given;
    void *copy;
    pc_status status = PC_OK;
    PC__TRY_RETURN(
        pc__array_in(&given, &copy, mem, LANES, a->lanes, a->lane_stride, a->lane_count));
    d->lanes = pc__calloc(mem, a->lane_count, sizeof *d->lanes);
    d->spans = pc__calloc(mem, a->lane_count, sizeof(*d->spans));
    if (!d->lanes || !d->spans)
        status = PC_ERR_NOMEM;
    else if (a->lane_count)
        memcpy(d->lanes, given, a->lane_count * sizeof *d->lanes);
    pc__free(mem, copy);
    for (size_t l = 0; l < a->lane_count && status >= 0; l++) {
        status = read_spans(&d->spans[l], model, &d->lanes[l]);
        d->lanes[l].spans = d->spans[l];
    }
    return status;
}

static void free_lanes(dense_lanes *d, const pc_model *model, size_t count)
{
    for (size_t l = 0; d->spans && l < count; l++)
        if (d->spans[l])
            pc__spans_free(d->spans[l], d->lanes[l].span_count, model);
    pc__free(&model->context->mem, d->spans);
    pc__free(&model->context->mem, d->lanes);
}

/* Holds or lets go of the segments of the caller's lanes, while nothing is allocated: the allocator
 * may free them. */
static void each_given(const pc_eval_args *a,
                       void (*with)(const pc_span *spans, size_t stride, size_t count))
{
    for (size_t l = 0; l < a->lane_count; l++) {
        pc_lane lane = {0};
        memcpy(&lane, (const char *)a->lanes + l * a->lane_stride,
               a->lane_stride < sizeof lane ? a->lane_stride : sizeof lane);
        if (pc__array_check(SPANS, lane.spans, lane.span_stride, lane.span_count) >= 0)
            with(lane.spans, lane.span_stride, lane.span_count); /* else read_spans says so */
    }
}

pc_status pc_eval(const pc_model *model, const pc_eval_args *args)
{
    PC__HOLD(pc_model, model);
    pc_eval_args a;
    dense_lanes dense = {0};
    pc_status status;
    if (!model || !args)
        return pc__fail(PC_ERR_INVALID, "pc_eval: model or args is NULL");
    PC__TRY_RETURN(
        pc__options_read(&a, sizeof a, PC__V1_SIZE(pc_eval_args, maps), args, "pc_eval_args"));
    PC__TRY_RETURN(pc__array_check(LANES, a.lanes, a.lane_stride, a.lane_count));
    for (size_t l = 0; a.segments && l < a.lane_count; l++)
        a.segments[l] = NULL;
    const pc_eval_args given = a;
    each_given(&given, pc__spans_hold);
    status = read_lanes(&dense, model, &a);
    a.lanes = dense.lanes;
    if (status >= 0)
        status = eval_lanes(model, &a);
    free_lanes(&dense, model, a.lane_count);
    each_given(&given, pc__spans_let_go);
    return status;
}

pc_status pc_segment_copy(pc_segment **out, const pc_segment *segment)
{
    PC__HOLD(pc_segment, segment);
    const pc_model *model;
    pc__kv *copy;
    pc_status status;
    if (!out)
        return pc__fail(PC_ERR_INVALID, "pc_segment_copy: out is NULL");
    *out = NULL;
    if (!segment)
        return pc__fail(PC_ERR_INVALID, "pc_segment_copy: segment is NULL");
    model = pc__segment_model(segment);
    if (!model || !pc__model_is_native(model))
        return pc__fail(PC_ERR_UNSUPPORTED,
                        "pc_segment_copy: only for segments of models that we run ourselves");
    PC__TRY_RETURN(pc__kv_copy(&copy, segment->payload));
    PC__TRY_RETURN(pc__wrap_segment(out, model, copy, 0, segment->token_ids, segment->tokens));
    (*out)->lossy = segment->lossy;
    if (pc__segment_visibility(segment)
        && (status = pc__segment_set_visibility(*out, pc__segment_visibility(segment))) < 0) {
        pc__segment_unref(*out);
        *out = NULL;
        return status;
    }
    atomic_store_explicit(&(*out)->tier, atomic_load_explicit(&segment->tier, memory_order_relaxed),
                          memory_order_relaxed);
    return PC_OK;
}

pc_status pc_segment_read(const pc_segment *segment, int32_t layer, int64_t start, float *k,
                          float *v)
{
    PC__HOLD(pc_segment, segment);
    const pc_model *model;
    if (!segment || start < 0)
        return pc__fail(PC_ERR_INVALID, "pc_segment_read: segment is NULL, or start is negative");
    if (pc__is_far(start))
        return pc__fail(PC_ERR_LIMIT, "pc_segment_read: start %lld is too far from 0",
                        (long long)start);
    model = pc__segment_model(segment);
    if (!model || !pc__model_is_native(model))
        return pc__fail(PC_ERR_UNSUPPORTED,
                        "pc_segment_read: only for segments of models that we run ourselves");
    return pc__model_run_read(model, segment->payload, layer, start, k, v);
}
