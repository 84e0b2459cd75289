/* Runs lanes (spans that exist already, then new tokens) through the forward pass and stores what
 * the trace shows. The golden tests share this. It calls the functions of lib/model directly, so
 * that a fault shows below sequences, caches and requests. */
#ifndef PC_GOLDEN_LANES_H
#define PC_GOLDEN_LANES_H

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "model/forward/native.h"
#include "model/forward/pass_build.h"
#include "model/load/weights.h"
#include "model/model_states.h"
#include "testing.h"

enum { MAX_SPANS = 8, MAX_LAYERS = 8, MAX_LANES = 8, ROUTER_STAGES = 3, LATENT_STAGES = 4 };

/* The values of a tensor of a golden file, which the caller frees, and their count. NULL and 0 if
 * there is no tensor of that name. Floats hold whole numbers below 2^24 exactly. */
static inline float *golden_floats(const pc__weights *file, const char *name, size_t *count)
{
    const pc__tensor *tensor = pc__weights_find(file, name);
    float *out;
    *count = tensor != NULL;
    for (uint32_t i = 0; tensor && i < tensor->rank; i++)
        *count *= (size_t)tensor->shape[i];
    if (!tensor)
        return NULL;
    out = malloc((*count + 1) * sizeof *out);
    pc__tensor_floats(tensor, 0, *count, out);
    return out;
}

typedef struct lane {
    /* lo and hi say which tokens take part; visibility hides some of them. */
    pc__kv_span spans[MAX_SPANS];
    size_t span_count;
    const int32_t *tokens;
    const int64_t *positions;
    size_t count;
    pc__kv *run; /* new tokens go here; made when NULL */
    int64_t run_start;
} lane;

/* What was traced: [lane][layer] blocks. */
typedef struct traced {
    float *hidden[MAX_LANES][MAX_LAYERS + 1], *k[MAX_LANES][MAX_LAYERS],
        *k_pre[MAX_LANES][MAX_LAYERS], *v[MAX_LANES][MAX_LAYERS], *probs[MAX_LANES][MAX_LAYERS],
        *final[MAX_LANES];
    float *router[ROUTER_STAGES][MAX_LANES][MAX_LAYERS]; /* layers with experts */
    float *latent[LATENT_STAGES][MAX_LANES][MAX_LAYERS]; /* latent attention */
} traced;

static const char *const router_stages[ROUTER_STAGES] = {"router_logits", "router_topk_idx",
                                                         "router_topk_weight"};

static const char *const latent_stages[LATENT_STAGES] = {"latent_raw", "latent", "k_rope_pre",
                                                         "k_rope"};

static inline float **latent_place(traced *t, const pc_trace *trace)
{
    for (int s = 0; s < LATENT_STAGES; s++)
        if (!strcmp(trace->name, latent_stages[s]))
            return &t->latent[s][trace->lane][trace->layer];
    return NULL;
}

static inline float **router_place(traced *t, const pc_trace *trace)
{
    for (int s = 0; s < ROUTER_STAGES; s++)
        if (!strcmp(trace->name, router_stages[s]))
            return &t->router[s][trace->lane][trace->layer];
    return NULL;
}

static inline void keep(void *user, const pc_trace *trace)
{
    traced *t = user;
    float **to = NULL;
    size_t count = 1;
    if (!strcmp(trace->name, "hidden"))
        to = &t->hidden[trace->lane][trace->layer];
    else if (!strcmp(trace->name, "k"))
        to = &t->k[trace->lane][trace->layer];
    else if (!strcmp(trace->name, "k_pre"))
        to = &t->k_pre[trace->lane][trace->layer];
    else if (!strcmp(trace->name, "v"))
        to = &t->v[trace->lane][trace->layer];
    else if (!strcmp(trace->name, "probs"))
        to = &t->probs[trace->lane][trace->layer];
    else if (!strncmp(trace->name, "router_", 7))
        to = router_place(t, trace);
    else if (!strcmp(trace->name, "final"))
        to = &t->final[trace->lane];
    else
        to = latent_place(t, trace);
    if (!CHECK(to != NULL))
        return;
    for (uint32_t i = 0; i < trace->rank; i++)
        count *= (size_t)trace->shape[i];
    *to = malloc(count * sizeof(float));
    memcpy(*to, trace->data, count * sizeof(float));
}

static inline void forget(traced *t)
{
    float **all = (float **)(void *)t;
    for (size_t i = 0; i < sizeof *t / sizeof *all; i++)
        free(all[i]);
    memset(t, 0, sizeof *t);
}

static inline uint32_t cut(const pc__kv *kv, int64_t start, int64_t position, uint32_t hi,
                           uint32_t see)
{
    size_t upto = pc__kv_upto(kv, position - start);
    return see == PC_VISIBLE_BY_POSITION && upto < hi ? (uint32_t)upto : hi;
}

static inline pc_status add_lane(const pc_model *model, pc__pass_build *build, lane *l,
                                 uint32_t see, uint64_t length)
{
    pc_status status = PC_OK;
    size_t before;
    if (!l->run) {
        status = pc__model_run_new(model, l->count, length, &l->run);
        l->run_start = l->positions[0];
        if (status >= 0)
            l->run->origin = l->run_start;
    }
    if (status < 0)
        return status;
    before = l->run->tokens;
    for (size_t i = 0; i < l->count && status >= 0; i++) {
        int64_t relative = l->positions[i] - l->run_start;
        status = pc__kv_append(l->run, &relative, 1);
    }
    for (size_t i = 0; i < l->count && status >= 0; i++) {
        pc__token_row row = {l->tokens[i], 1, l->positions[i], l->run, before + i, l->run_start, 0};
        pc__build_row(build, &row);
        for (size_t s = 0; s < l->span_count && status >= 0; s++)
            status = pc__build_span(
                build, l->spans[s].kv, l->spans[s].start, l->spans[s].lo,
                cut(l->spans[s].kv, l->spans[s].start, l->positions[i], l->spans[s].hi, see));
        if (status >= 0)
            status = pc__build_span(build, l->run, l->run_start, 0,
                                    model->native->arch.causal ? before + i + 1 : l->count);
    }
    return status;
}

/* logits [all rows][vocab] or NULL; t may be NULL. */
static inline pc_status run_lanes(const pc_model *model, lane *lanes, size_t count, uint32_t see,
                                  uint64_t length, float *logits, traced *t)
{
    pc__pass_build build = {0};
    pc__pass pass = {0};
    size_t first[MAX_LANES + 1] = {0};
    pc_status status;
    for (size_t i = 0; i < count; i++)
        first[i + 1] = first[i] + lanes[i].count;
    status = pc__build_start(&build, &model->context->mem, first[count]);
    for (size_t i = 0; i < count && status >= 0; i++)
        status = add_lane(model, &build, &lanes[i], see, length);
    if (status >= 0) {
        pc__build_end(&build, &pass);
        pass.rope_regime_length = length;
        pass.logits = logits;
        pass.lane_first = first;
        pass.lane_count = count;
        pass.trace = t ? keep : NULL;
        pass.trace_user = t;
        status = pc__forward(model, &pass);
    }
    pc__build_free(&build);
    return status;
}

static inline int32_t largest(const float *logits, size_t count)
{
    size_t best = 0;
    for (size_t i = 1; i < count; i++)
        if (logits[i] > logits[best])
            best = i;
    return (int32_t)best;
}

static inline void end_lanes(lane *lanes, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        pc__kv_unref(lanes[i].run);
        lanes[i].run = NULL;
    }
}

/* Compares `count` floats; with `relative`, scaled by the largest magnitude of `want` (at least 1).
 * Records the largest error. */
static inline int near_all(const char *what, const float *got, const float *want, size_t count,
                           double limit, int relative, double *worst)
{
    double top = 1, apart = 0;
    for (size_t i = 0; i < count; i++) {
        double d = fabs((double)got[i] - (double)want[i]);
        apart = d > apart || d != d ? d : apart;
        if (relative && fabs((double)want[i]) > top)
            top = fabs((double)want[i]);
    }
    apart /= top;
    if (worst && !(apart <= *worst))
        *worst = apart;
    if (!CHECK(apart <= limit)) {
        fprintf(stderr, "    %s is %.3g away, the limit is %.3g\n", what, apart, limit);
        return 0;
    }
    return 1;
}

/* Compares the results of the same rows, computed beside other rows or at once with more of them:
 * bit for bit where the backend promises that (PC__SAME_BITS), elsewhere as near_all with
 * `relative`. */
static inline int same_rows(const pc_context *context, const char *what, const float *got,
                            const float *want, size_t count, double limit)
{
    int same = (pc__backend_of(context)->traits & PC__SAME_BITS) != 0;
    return same ? CHECK(!memcmp(got, want, count * sizeof *got))
                : near_all(what, got, want, count, limit, 1, NULL);
}

#endif
