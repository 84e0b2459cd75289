/* pc_prefill: prompts that need no answer, with or without a memo; and pc__prefill_hit. */
#include <math.h>
#include <promptcache/bench.h>
#include <string.h>

#include "base/clock.h"
#include "base/options.h"
#include "memo/memo.h"
#include "model/forward/heads.h"
#include "model/model_states.h"
#include "model/forward/prefill_batch.h"
#include "serve/model_calls.h"
#include "serve/prefill.h"
#include "serve/visibility.h"

/* The state of one input. */
typedef struct prefill_item {
    pc__maps maps;          /* of a hit */
    pc__memo_layers layers; /* if it is looked up layer by layer */
    pc__kv *run;            /* where states are wanted */
    uint8_t verify;         /* a hit that is computed in full, too */
    double loss;            /* if it is */
} prefill_item;

typedef struct prefill_work {
    const pc_model *model;
    const pc_input *inputs;
    size_t count;
    pc_prefill_options options;
    pc__prefill_batch_options how;
    size_t hidden, logits;
    prefill_item *items;        /* [count] */
    pc__memo_found *found;      /* [count] for pc__memo_find */
    pc__prefill_input *prompts; /* [count] for pc__prefill_batch_run */
    int by_layer;               /* some inputs are looked up layer by layer */
    const double *threshold; /* of the call: nothing is counted or verified; NULL: the buckets' */
    /* pc__prefill_hit: one input, computed only if it is or may be a hit; its run is not made a
     * segment. */
    int only_hit;
    float *own_embeddings, *own_logits; /* [count][…] for verification */
    pc_prefill_stats stats;
} prefill_work;

static pc_status read_prefill_options(pc_prefill_options *out, const pc_prefill_options *options)
{
    PC__TRY_RETURN(pc__options_read(out, sizeof *out, PC__V1_SIZE(pc_prefill_options, threshold),
                                    options, "pc_prefill_options"));
    PC__TRY_RETURN(
        pc__check_flags("pc_prefill_options", out->flags, PC_PREFILL_NORMALIZE | PC_PREFILL_MAPS));
    if (out->pool > PC_POOL_LAST || out->reserved || (out->threshold && !(*out->threshold <= 1)))
        return pc__fail(PC_ERR_INVALID,
                        "pc_prefill_options: pool is %u, threshold is %g, or reserved is set",
                        out->pool, out->threshold ? *out->threshold : 0);
    return PC_OK;
}

#define RESULTS PC__ARRAY("pc_prefill", "results", pc_memo_result, reserved)

static pc_status check_prefill(const prefill_work *w)
{
    if (!w->model)
        return pc__fail(PC_ERR_INVALID, "pc_prefill: model is NULL");
    PC__TRY_RETURN(pc__model_check_native(w->model, "pc_prefill"));
    if (w->options.logits && !w->logits)
        return pc__fail(PC_ERR_UNSUPPORTED, "pc_prefill: the model has no head that gives logits");
    if (w->options.segments && !pc__model_is_causal(w->model))
        return pc__fail(PC_ERR_UNSUPPORTED, "pc_prefill: an encoder's states cannot be segments");
    PC__TRY_RETURN(pc__inputs_check("pc_prefill", w->inputs, w->count));
    if (w->options.results)
        PC__TRY_RETURN(
            pc__array_check(RESULTS, w->options.results, w->options.result_stride, w->count));
    for (int32_t l = 0; w->options.map_layers && l < w->model->info.layers; l++)
        if (w->options.memo || w->options.map_layers[l] < 0 || w->options.map_layers[l] > l)
            return pc__fail(PC_ERR_INVALID,
                            "pc_prefill: map_layers together with a memo, or map_layers[%d] is %d",
                            l, w->options.map_layers[l]);
    return w->options.memo ? pc__memo_check_model(w->options.memo, w->model) : PC_OK;
}

static int keeps_states(const prefill_work *w)
{
    return w->options.segments || w->only_hit;
}

static pc_status reserve_results(prefill_work *w)
{
    const pc_allocator *mem = &w->model->context->mem;
    w->items = pc__calloc(mem, w->count, sizeof *w->items);
    w->found = pc__calloc(mem, w->count, sizeof *w->found);
    w->prompts = pc__calloc(mem, w->count, sizeof *w->prompts);
    if (!w->items || !w->found || !w->prompts)
        return PC_ERR_NOMEM;
    for (size_t i = 0; i < w->count; i++) {
        w->found[i].id = PC__NO_NEIGHBOUR;
        w->prompts[i].input = &w->inputs[i];
        w->prompts[i].embedding = w->options.embeddings ? w->options.embeddings + i * w->hidden
                                                        : NULL;
        w->prompts[i].logits = w->options.logits ? w->options.logits + i * w->logits : NULL;
        w->prompts[i].run = keeps_states(w) ? &w->items[i].run : NULL;
        w->stats.tokens += w->inputs[i].count;
    }
    w->stats.inputs = w->count;
    return PC_OK;
}

/* NULL: no memory. */
static float *own_row(const prefill_work *w, float **own, size_t i, size_t width)
{
    if (!*own)
        *own = pc__calloc(&w->model->context->mem, w->count, width * sizeof(float));
    return *own ? *own + i * width : NULL;
}

/* Verification compares results that the caller may not ask for. */
static pc_status reserve_checked(prefill_work *w, size_t i)
{
    pc__prefill_input *prompt = &w->prompts[i];
    if (!prompt->embedding)
        prompt->embedding = own_row(w, &w->own_embeddings, i, w->hidden);
    if (!prompt->logits && w->logits)
        prompt->logits = own_row(w, &w->own_logits, i, w->logits);
    return prompt->embedding && (prompt->logits || !w->logits) ? PC_OK : PC_ERR_NOMEM;
}

static const void *layer_map(void *user, size_t prompt, int32_t layer, const float *x)
{
    prefill_work *w = user;
    return w->items[prompt].layers.input
               ? pc__memo_layer_map(w->options.memo, &w->items[prompt].layers, layer, x)
               : NULL;
}

/* Its layers are looked up while they are computed. Whether it is verified is known afterwards. */
static pc_status expect_layers(prefill_work *w, size_t i)
{
    w->by_layer = 1;
    w->items[i].layers = (pc__memo_layers){
        .input = &w->inputs[i], .threshold = w->threshold, .found = &w->found[i]};
    w->prompts[i].shape = pc__memo_shape(w->options.memo, w->inputs[i].count);
    w->how.choose = layer_map;
    w->how.choose_user = w;
    return w->threshold ? PC_OK : reserve_checked(w, i);
}

/* Stored outputs can replace all results that are asked for. */
static int may_use_outputs(const prefill_work *w)
{
    return (w->options.embeddings || w->options.logits) && !keeps_states(w)
           && !(w->options.flags & PC_PREFILL_MAPS);
}

/* The outputs of the same prompt. PC_MISS: not all are stored. */
static pc_status use_outputs(prefill_work *w, size_t i)
{
    pc__prefill_input *prompt = &w->prompts[i];
    pc_status status;
    if (!w->found[i].same || !may_use_outputs(w))
        return PC_MISS;
    status = pc__memo_output(w->options.memo, w->found[i].id,
                             pc__model_pool(w->model, w->options.pool), prompt->embedding,
                             prompt->logits);
    if (status == PC_OK && pc__prefill_input_check(w->model, prompt, i) < 0)
        status = PC_MISS; /* computing says what is wrong */
    if (status == PC_OK && prompt->embedding && (w->options.flags & PC_PREFILL_NORMALIZE)
        && !pc__model_normalizes(w->model))
        pc__normalize(prompt->embedding, w->hidden);
    prompt->is_done = status == PC_OK;
    return status;
}

static pc_status look_up_memo(prefill_work *w)
{
    pc_memo *memo = w->options.memo;
    pc__memo_times times;
    pc_status status;
    w->threshold = w->options.threshold;
    status = pc__memo_find(memo, w->inputs, w->count, w->threshold, w->found, &times);
    double begun = pc__now();
    for (size_t i = 0; i < w->count && status >= 0; i++) {
        pc_status reused;
        if (w->found[i].by_layer)
            status = expect_layers(w, i);
        if (w->found[i].reason != PC_REASON_NONE)
            continue;
        reused = use_outputs(w, i);
        if (reused == PC_OK)
            continue;
        if (reused == PC_MISS)
            reused = pc__memo_maps_get(memo, w->found[i].id, &w->items[i].maps);
        if (reused == PC_MISS || reused == PC_ERR_FORMAT) {
            w->found[i].reason = reused == PC_MISS ? PC_REASON_FIRST_USE : PC_REASON_DAMAGED;
            continue;
        }
        if (reused < 0)
            return reused;
        w->prompts[i].maps = w->items[i].maps.layer;
        w->prompts[i].shape = pc__memo_shape(memo, w->inputs[i].count);
        w->items[i].verify = !w->threshold && !w->found[i].same
                             && pc__memo_wants_verification(memo, w->found[i].bucket);
        if (w->items[i].verify)
            status = reserve_checked(w, i);
    }
    w->stats.seconds_maps = pc__now() - begun;
    w->stats.seconds_features = times.features;
    w->stats.seconds_search = times.search;
    return status;
}

/* The results of all look-ups, those by layer too. */
static void count_hits(prefill_work *w)
{
    for (size_t i = 0; i < w->count; i++) {
        prefill_item *item = &w->items[i];
        int hit = w->prompts[i].maps || item->layers.layers || w->prompts[i].is_done;
        w->stats.hits += hit != 0;
        w->stats.output_hits += w->prompts[i].is_done != 0;
        w->stats.hit_tokens += hit ? w->inputs[i].count : 0;
        w->stats.seconds_features += item->layers.times.features;
        w->stats.seconds_search += item->layers.times.search;
        if (w->found[i].by_layer && hit && !w->threshold)
            item->verify = pc__memo_wants_verification(w->options.memo, w->found[i].bucket) != 0;
    }
    if (!w->threshold)
        pc__memo_count(w->options.memo, w->stats.hits, w->stats.output_hits,
                       w->count - w->stats.hits);
}

/* Computes a hit in full, and puts that result in place of the memo's. */
static pc_status verify_hit(prefill_work *w, size_t i)
{
    const pc_allocator *mem = &w->model->context->mem;
    pc__prefill_input *hit = &w->prompts[i], full = {.input = hit->input};
    uint32_t bucket = w->found[i].bucket;
    float *slab = pc__calloc(mem, w->hidden + w->logits, sizeof *slab);
    pc__kv *run = NULL;
    prefill_item *item = &w->items[i];
    pc_status status = PC_ERR_NOMEM;
    if (!slab)
        return status;
    full.embedding = slab;
    full.logits = w->logits ? slab + w->hidden : NULL;
    full.run = keeps_states(w) ? &run : NULL;
    PC__TRY(pc__prefill_batch_run(w->model, &full, 1, &w->how), done);
    if (run) {
        pc__kv_unref(item->run);
        item->run = run;
    }
    item->loss = pc__prefill_loss(pc__memo_loss_kind(w->options.memo, bucket), full.embedding,
                                  hit->embedding, w->hidden, full.logits, hit->logits, w->logits);
    pc__memo_verified(w->options.memo, bucket, item->loss);
    memcpy(hit->embedding, full.embedding, w->hidden * sizeof(float));
    if (hit->logits)
        memcpy(hit->logits, full.logits, w->logits * sizeof(float));
done:
    pc__free(mem, slab);
    return status;
}

static int is_approximate(const prefill_work *w, size_t i)
{
    const prefill_item *item = &w->items[i];
    return w->options.map_layers || ((w->prompts[i].maps || item->layers.layers) && !item->verify);
}

/* States as segments, all or none. Those from other maps are marked lossy. */
static pc_status make_segments(prefill_work *w)
{
    pc_segment **segments = w->options.segments;
    pc_status status = PC_OK;
    pc__visibility nothing;
    pc__visibility_start(&nothing);
    for (size_t i = 0; segments && i < w->count; i++) {
        pc__kv *run = w->items[i].run;
        w->items[i].run = NULL; /* the segment's, or gone */
        PC__TRY(pc__wrap_segment(&segments[i], w->model, run, 1, w->inputs[i].tokens,
                                 w->inputs[i].count),
                fail);
        segments[i]->lossy |= is_approximate(w, i) != 0;
        PC__TRY(pc__visibility_note(&nothing, segments[i], 0), fail);
    }
    return PC_OK;
fail:
    for (size_t i = 0; i < w->count; i++) {
        pc__segment_unref(segments[i]);
        segments[i] = NULL;
    }
    return status;
}

static void write_results(const prefill_work *w)
{
    const pc__array *results_array = RESULTS;
    for (size_t i = 0; w->options.results && i < w->count; i++) {
        const prefill_item *item = &w->items[i];
        uint32_t layers = w->prompts[i].maps ? (uint32_t)w->model->info.layers
                                             : item->layers.layers;
        const pc_memo_result result = {
            .exactness = is_approximate(w, i) ? PC_APPROXIMATE : PC_EXACT,
            .reason = w->options.memo ? w->found[i].reason : PC_REASON_NONE,
            .record = w->found[i].id,
            .similarity = w->found[i].similarity,
            .verified = item->verify,
            .layers = layers,
            .loss = item->loss,
            .reuse = w->prompts[i].is_done ? PC_REUSE_OUTPUT
                     : layers              ? PC_REUSE_MAPS
                                           : PC_REUSE_NONE};
        pc__array_out(results_array, w->options.results, w->options.result_stride, i, &result);
    }
}

static pc_status run_prefill(prefill_work *w)
{
    double begun;
    PC__TRY_RETURN(reserve_results(w));
    if (w->options.memo)
        PC__TRY_RETURN(look_up_memo(w));
    if (w->only_hit && !w->prompts->maps && !w->by_layer) {
        count_hits(w);
        write_results(w);
        return PC_MISS;
    }
    begun = pc__now();
    PC__TRY_RETURN(pc__prefill_batch_run(w->model, w->prompts, w->count, &w->how));
    w->stats.seconds_forward = pc__now() - begun;
    if (w->options.memo)
        count_hits(w);
    w->how.choose = NULL; /* verification computes all */
    begun = pc__now();
    for (size_t i = 0; i < w->count; i++)
        if (w->items[i].verify)
            PC__TRY_RETURN(verify_hit(w, i));
    w->stats.seconds_verify = pc__now() - begun;
    PC__TRY_RETURN(make_segments(w));
    write_results(w);
    return PC_OK;
}

static void end_prefill(prefill_work *w)
{
    const pc_allocator *mem = &w->model->context->mem;
    for (size_t i = 0; w->items && w->prompts && i < w->count; i++) {
        if (w->prompts[i].maps)
            pc__memo_maps_release(w->options.memo, &w->items[i].maps);
        if (w->by_layer)
            pc__memo_layers_end(w->options.memo, &w->items[i].layers);
        pc__kv_unref(w->items[i].run);
    }
    pc__free(mem, w->items);
    pc__free(mem, w->found);
    pc__free(mem, w->prompts);
    pc__free(mem, w->own_embeddings);
    pc__free(mem, w->own_logits);
}

static pc_status begin_prefill(prefill_work *w, const pc_prefill_options *options)
{
    PC__TRY_RETURN(read_prefill_options(&w->options, options));
    if (w->model && pc__model_is_native(w->model)) {
        w->hidden = (size_t)w->model->info.hidden;
        w->logits = pc__prefill_batch_logits(w->model);
    }
    PC__TRY_RETURN(check_prefill(w));
    for (size_t i = 0; w->options.segments && i < w->count; i++)
        w->options.segments[i] = NULL;
    w->how = (pc__prefill_batch_options){.pool = w->options.pool,
                                         .normalize = (w->options.flags & PC_PREFILL_NORMALIZE)
                                                      != 0,
                                         .map_layers = w->options.map_layers,
                                         .cancelled = w->options.cancelled,
                                         .cancel_user = w->options.cancel_user};
    return PC_OK;
}

pc_status pc__prefill_hit(const pc_model *model, const pc_input *input,
                          const pc_prefill_options *options, pc__kv **states,
                          pc_prefill_stats *stats)
{
    prefill_work w = {
        .model = model, .inputs = input, .count = 1, .only_hit = 1, .stats = PC_PREFILL_STATS_INIT};
    pc_status status = begin_prefill(&w, options);
    *states = NULL;
    if (status < 0)
        return status;
    status = run_prefill(&w);
    if (status == PC_OK) {
        *states = w.items[0].run;
        w.items[0].run = NULL;
    }
    end_prefill(&w);
    *stats = w.stats;
    return status;
}

/* `inputs` are ours, dense. */
static pc_status prefill_all(const pc_model *model, const pc_input *inputs, size_t count,
                             const pc_prefill_options *options, pc_prefill_stats *stats)
{
    prefill_work w = {
        .model = model, .inputs = inputs, .count = count, .stats = PC_PREFILL_STATS_INIT};
    pc_status status;
    PC__TRY_RETURN(begin_prefill(&w, options));
    if (w.options.memo)
        pc__memo_ref(w.options.memo);
    status = run_prefill(&w);
    end_prefill(&w);
    pc_memo_free(w.options.memo);
    if (status >= 0 && stats)
        status = pc__result_write(stats, PC__V1_SIZE(pc_prefill_stats, output_hits), &w.stats,
                                  sizeof w.stats, "pc_prefill_stats");
    return status < 0 ? status : PC_OK;
}

pc_status pc_prefill(const pc_model *model, const pc_input *inputs, size_t input_stride,
                     size_t count, const pc_prefill_options *options, pc_prefill_stats *stats)
{
    PC__HOLD(pc_model, model);
    const void *dense;
    void *copy;
    pc_status status;
    if (!model)
        return pc__fail(PC_ERR_INVALID, "pc_prefill: model is NULL");
    PC__TRY_RETURN(pc__array_in(&dense, &copy, &model->context->mem,
                                PC__ARRAY("pc_prefill", "inputs", pc_input, types), inputs,
                                input_stride, count));
    status = prefill_all(model, dense, count, options, stats);
    pc__free(&model->context->mem, copy);
    return status;
}
