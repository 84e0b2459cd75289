/* The deviation of cached states: computes the given tokens again, up to the layer that is
 * compared, and measures how far K and V moved. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "attn/kv_device.h"
#include "model/forward/native_ops.h"
#include "model/forward/pass_build.h"
#include "model/model_states.h"

/* A given token, its placement, and its index in that placement. */
typedef struct given_token {
    int64_t position;
    int32_t token;
    uint32_t placement;
    size_t slot;
} given_token;

typedef struct deviation_work {
    const pc_model *model;
    const pc_span *placements;
    size_t count; /* of placements */
    size_t tokens;
    int32_t layer;    /* the compared layer */
    given_token *all; /* [tokens] by position */
    pc__kv **fresh;   /* [count] */
    size_t *added;    /* [count] */
    pc__pass_build build;
} deviation_work;

static int by_token_position(const void *a, const void *b)
{
    const given_token *x = a, *y = b;
    if (x->position != y->position)
        return x->position < y->position ? -1 : 1;
    if (x->placement != y->placement)
        return x->placement < y->placement ? -1 : 1;
    return x->slot < y->slot ? -1 : x->slot > y->slot;
}

static pc_status check_given_tokens(deviation_work *c, const int64_t *positions)
{
    size_t n = 0;
    for (size_t p = 0; p < c->count; p++) {
        const pc_span *at = &c->placements[p];
        PC__TRY_RETURN(pc__native_check_placement(c->model->native, at));
        for (uint32_t t = at->lo; t < at->hi; t++, n++)
            if (n >= c->tokens || positions[n] != at->start + pc__kv_relative(at->segment, t))
                return pc__fail(PC_ERR_INVALID,
                                "deviation: token %zu is not token %u of placement %zu", n, t, p);
    }
    return n == c->tokens
               ? PC_OK
               : pc__fail(PC_ERR_INVALID,
                          "deviation: %zu tokens are given, the placements have %zu", c->tokens, n);
}

/* Empty runs at the positions of the cached ones, so that K is rotated alike. */
static pc_status make_fresh_runs(deviation_work *c)
{
    const pc__native *native = c->model->native;
    pc__kv_shape shape = native->shape;
    shape.layers = c->layer + 1;
    for (size_t p = 0; p < c->count; p++) {
        const pc_span *at = &c->placements[p];
        const pc__kv *cached = at->segment;
        PC__TRY_RETURN(pc__kv_new_at(&c->fresh[p], native->backend, &shape, at->hi - at->lo));
        c->fresh[p]->rope_regime = cached->rope_regime;
        c->fresh[p]->origin = at->start;
        for (uint32_t t = at->lo; t < at->hi; t++) {
            int64_t relative = pc__kv_relative(cached, t);
            PC__TRY_RETURN(pc__kv_append(c->fresh[p], &relative, 1));
        }
    }
    return PC_OK;
}

static void order_tokens(deviation_work *c, const int32_t *tokens, const int64_t *positions)
{
    size_t n = 0;
    for (size_t p = 0; p < c->count; p++)
        for (size_t slot = 0; slot < c->placements[p].hi - c->placements[p].lo; slot++, n++)
            c->all[n] = (given_token){positions[n], tokens[n], (uint32_t)p, slot};
    qsort(c->all, c->tokens, sizeof *c->all, by_token_position);
}

static pc_status compute_fresh(deviation_work *c, uint64_t regime)
{
    pc__pass pass = {0};
    PC__TRY_RETURN(pc__build_start(&c->build, &c->model->context->mem, c->tokens));
    for (size_t i = 0; i < c->tokens; i++) {
        const given_token *g = &c->all[i];
        pc__token_row row = {g->token,
                             0,
                             g->position,
                             c->fresh[g->placement],
                             g->slot,
                             c->placements[g->placement].start,
                             0};
        c->added[g->placement]++;
        pc__build_row(&c->build, &row);
        for (size_t p = 0; p < c->count; p++)
            if (c->added[p])
                PC__TRY_RETURN(
                    pc__build_span(&c->build, c->fresh[p], c->placements[p].start, 0, c->added[p]));
    }
    pc__build_end(&c->build, &pass);
    pass.kv_layers = c->layer + 1;
    pass.rope_regime_length = pc__model_rope_regime_length(c->model, regime);
    return pc__forward(c->model, &pass);
}

static double relative_distance(const float *fresh, const float *cached, size_t count)
{
    double apart = 0, size = 0;
    for (size_t i = 0; i < count; i++) {
        double d = (double)cached[i] - (double)fresh[i];
        apart += d * d;
        size += (double)fresh[i] * (double)fresh[i];
    }
    return size > 0 ? sqrt(apart / size) : 0;
}

/* Scores of one placement's tokens. states: scratch. */
static pc_status compare_placement(const deviation_work *c, size_t p, float *states, float *score)
{
    const pc__kv_shape *shape = &c->model->native->shape;
    const pc_span *at = &c->placements[p];
    size_t k = (size_t)shape->kv_heads * (size_t)shape->k_dim,
           v = (size_t)shape->kv_heads * (size_t)shape->v_dim;
    float *was = states + k + v;
    pc__kv *fresh = NULL, *cached = NULL;
    pc_status status;
    PC__TRY(pc__kv_to_host(&fresh, c->fresh[p]), done);
    PC__TRY(pc__kv_to_host(&cached, at->segment), done);
    for (uint32_t t = at->lo; t < at->hi; t++) {
        pc__kv_read(fresh, c->layer, t - at->lo, states, states + k);
        pc__kv_read(cached, c->layer, t, was, was + k);
        score[t - at->lo] = (float)(0.5
                                    * (relative_distance(states, was, k)
                                       + relative_distance(states + k, was + k, v)));
    }
done:
    pc__kv_unref(fresh);
    pc__kv_unref(cached);
    return status;
}

static pc_status compare_states(const deviation_work *c, float *score)
{
    const pc__kv_shape *shape = &c->model->native->shape;
    size_t token = (size_t)shape->kv_heads * (size_t)(shape->k_dim + shape->v_dim), n = 0;
    float *states = pc__calloc(&c->model->context->mem, 2 * token, sizeof *states);
    pc_status status = states ? PC_OK : PC_ERR_NOMEM;
    for (size_t p = 0; p < c->count && status >= 0; p++) {
        status = compare_placement(c, p, states, score + n);
        n += c->placements[p].hi - c->placements[p].lo;
    }
    pc__free(&c->model->context->mem, states);
    return status;
}

static pc_status reserve_deviation(deviation_work *c)
{
    const pc_allocator *mem = &c->model->context->mem;
    c->all = pc__calloc(mem, c->tokens, sizeof *c->all);
    c->fresh = pc__calloc(mem, c->count, sizeof(*c->fresh));
    c->added = pc__calloc(mem, c->count, sizeof *c->added);
    return c->all && c->fresh && c->added ? PC_OK : PC_ERR_NOMEM;
}

static void free_deviation(deviation_work *c)
{
    const pc_allocator *mem = &c->model->context->mem;
    for (size_t p = 0; c->fresh && p < c->count; p++)
        pc__kv_unref(c->fresh[p]);
    pc__free(mem, c->all);
    pc__free(mem, c->fresh);
    pc__free(mem, c->added);
    pc__build_free(&c->build);
}

typedef struct deviation_call {
    const pc_model *model;
    const pc_deviation_args *args;
    float *score;
} deviation_call;

static pc_status compute_deviation(void *call)
{
    const deviation_call *d = call;
    const pc_deviation_args *args = d->args;
    deviation_work c = {.model = d->model,
                        .placements = args->spans,
                        .count = args->span_count,
                        .tokens = args->count};
    pc_status status;
    c.layer = c.model->native->arch.layers > 1 ? 1 : 0;
    PC__TRY(check_given_tokens(&c, args->positions), done);
    PC__TRY(reserve_deviation(&c), done);
    PC__TRY(make_fresh_runs(&c), done);
    order_tokens(&c, args->tokens, args->positions);
    PC__TRY(compute_fresh(&c, ((const pc__kv *)c.placements[0].segment)->rope_regime), done);
    status = compare_states(&c, d->score);
done:
    free_deviation(&c);
    return status;
}

pc_status pc__native_deviation(void *user, const pc_deviation_args *args, float *score)
{
    deviation_call call = {user, args, score};
    return args->count ? pc__model_work(user, compute_deviation, &call, 0) : PC_OK;
}
