/* Prefill batches: chooses the inputs of each pass, sets their maps, runs the pass, pools rows and
 * gives states away. */
#include "model/forward/prefill_batch.h"

#include <string.h>

#include "attn/kv_device.h"
#include "model/forward/forward.h"
#include "model/forward/heads.h"
#include "model/forward/pass_build.h"
#include "model/model_states.h"

enum {
    PASS_TOKENS = 4096, /* of a pass; one longer prompt has a pass of its own */
    UNCUT_TOKENS = 1024 /* a longer prompt may be cut into blocks */
};

/* Memory for the maps of one prompt. */
typedef struct lane_buffers {
    uint8_t *leaders; /* maps of layers that other layers share */
    void **record;    /* [layers] into leaders */
    float *inputs;    /* [layers][tokens][hidden] from which keys are computed later */
    uint8_t *missing; /* [layers] 1: the layer has no keys yet */
} lane_buffers;

/* One pass over some of the inputs. */
typedef struct prefill_batch {
    const pc_model *model;
    const pc__prefill_input *prompts;
    const pc__prefill_batch_options *options;
    size_t first; /* first input */
    /* [count] input of each lane. Inputs with maps come last, so that rows that compute the same
     * are consecutive. */
    size_t *which;
    size_t count, tokens; /* count: of inputs, then of lanes */
    int has_maps;         /* 1: some lane has maps */
    /* 1: no lane is cut into blocks, so none needs more than one layer of K and V at a time */
    int no_lane_is_cut;
    size_t *lane_first;  /* [count + 1] */
    pc__kv **runs;       /* [count] */
    pc__lane_maps *maps; /* [count] */
    lane_buffers *lanes; /* [count] */
    float *final;        /* [tokens][hidden] */
    float *logits;       /* decoders: [inputs that want them][vocab] */
    pc__pass_build build;
} prefill_batch;

static const pc__prefill_input *input_of(const prefill_batch *b, size_t lane)
{
    return &b->prompts[b->which[lane]];
}

static int follows_layer(const prefill_batch *b, size_t layer)
{
    const int32_t *of = b->options->map_layers;
    return of && (size_t)of[layer] < layer;
}

static int leads_layer(const prefill_batch *b, size_t layer)
{
    size_t layers = (size_t)b->model->info.layers, l = layer + 1;
    while (l < layers && !(follows_layer(b, l) && (size_t)b->options->map_layers[l] == layer))
        l++;
    return l < layers;
}

/* Prepares to record the maps that other layers share. */
static pc_status record_leaders(prefill_batch *b, size_t l)
{
    const pc_allocator *mem = &b->model->context->mem;
    size_t layers = (size_t)b->model->info.layers, leaders = 0, bytes;
    pc__map_shape *shape = &b->maps[l].shape;
    *shape = (pc__map_shape){.format = PC_MAP_F16,
                             .heads = b->model->info.heads,
                             .tokens = input_of(b, l)->input->count,
                             .causal = b->model->native->arch.causal};
    bytes = (pc__map_bytes(shape) + 63) / 64 * 64;
    for (size_t i = 0; i < layers; i++)
        leaders += leads_layer(b, i) != 0;
    b->lanes[l].record = pc__calloc(mem, layers, sizeof *b->lanes[l].record);
    b->lanes[l].leaders = bytes && leaders < SIZE_MAX / bytes
                              ? pc__alloc_aligned(mem, leaders * bytes, 64)
                              : NULL;
    if (!b->lanes[l].record || !b->lanes[l].leaders)
        return PC_ERR_NOMEM;
    leaders = 0;
    for (size_t i = 0; i < layers; i++)
        if (leads_layer(b, i))
            b->lanes[l].record[i] = b->lanes[l].leaders + bytes * leaders++;
    b->maps[l].record = b->lanes[l].record;
    return PC_OK;
}

static const void *choose_map_of(void *user, size_t lane, int32_t layer, const float *x)
{
    const prefill_batch *b = user;
    const void *map = NULL;
    if (!input_of(b, lane)->maps)
        map = b->options->choose(b->options->choose_user, b->which[lane], layer, x);
    if (map && b->lanes[lane].missing)
        b->lanes[lane].missing[layer] = 1;
    return map;
}

static const void *leader_map(void *user, size_t lane, int32_t layer, const float *x)
{
    const prefill_batch *b = user;
    (void)x;
    return follows_layer(b, (size_t)layer) ? b->lanes[lane].record[b->options->map_layers[layer]]
                                           : NULL;
}

/* Keeps the input of attention of each layer: keys are computed from it later. */
static pc_status keep_inputs(prefill_batch *b, size_t l)
{
    const pc_allocator *mem = &b->model->context->mem;
    size_t layers = (size_t)b->model->info.layers;
    lane_buffers *one = &b->lanes[l];
    one->inputs = pc__calloc(mem, layers * input_of(b, l)->input->count,
                             (size_t)b->model->info.hidden * sizeof *one->inputs);
    one->missing = pc__calloc(mem, layers, 1);
    if (!one->inputs || !one->missing)
        return PC_ERR_NOMEM;
    for (size_t i = 0; i < layers; i++)
        one->missing[i] = input_of(b, l)->maps || follows_layer(b, i);
    b->maps[l].inputs = one->inputs;
    return PC_OK;
}

/* Which maps of a lane are given, recorded and shared. */
static pc_status set_maps(prefill_batch *b, size_t l)
{
    const pc__prefill_input *p = input_of(b, l);
    int asks = b->options->map_layers || (b->options->choose && !p->maps);
    if (!p->maps && !p->record && !asks)
        return PC_OK;
    b->has_maps = 1;
    b->maps[l] = (pc__lane_maps){.shape = p->shape, .given = p->maps, .record = p->record};
    if (b->options->map_layers)
        PC__TRY_RETURN(record_leaders(b, l));
    return p->run && (p->maps || asks) ? keep_inputs(b, l) : PC_OK;
}

/* A run that holds one layer at a time, for a pass over whole lanes. */
static pc_status run_passing(prefill_batch *b, size_t lane)
{
    size_t count = input_of(b, lane)->input->count;
    PC__TRY_RETURN(pc__kv_new_passing_at(&b->runs[lane], b->model->native->backend,
                                         &b->model->native->shape, count));
    b->runs[lane]->rope_regime = pc__model_rope_regime(b->model, count);
    return PC_OK;
}

static pc_status run_to_keep(prefill_batch *b, size_t lane)
{
    size_t count = input_of(b, lane)->input->count;
    PC__TRY_RETURN(pc__model_run_new(b->model, count, count, &b->runs[lane]));
    for (int64_t at = 0; at < (int64_t)count; at++)
        PC__TRY_RETURN(pc__kv_append(b->runs[lane], &at, 1));
    return PC_OK;
}

static pc_status add_batch_lane(prefill_batch *b, size_t lane)
{
    const pc__prefill_input *p = input_of(b, lane);
    const pc_input *in = p->input;
    int causal = b->model->native->arch.causal;
    PC__TRY_RETURN((b->no_lane_is_cut && !p->run ? run_passing : run_to_keep)(b, lane));
    PC__TRY_RETURN(set_maps(b, lane));
    for (size_t i = 0; i < in->count; i++) {
        pc__token_row row = {.token = in->tokens[i],
                             .want_logits = causal && p->logits && i + 1 == in->count,
                             .position = (int64_t)i,
                             .run = b->runs[lane],
                             .slot = i,
                             .type = in->types ? in->types[i] : 0};
        pc__build_row(&b->build, &row);
        if (!p->maps)
            PC__TRY_RETURN(
                pc__build_span(&b->build, b->runs[lane], 0, 0, causal ? i + 1 : in->count));
    }
    return PC_OK;
}

static pc_status order_inputs(prefill_batch *b)
{
    size_t n = 0;
    b->which = pc__calloc(&b->model->context->mem, b->count, sizeof *b->which);
    if (!b->which)
        return PC_ERR_NOMEM;
    for (int mapped = 0; mapped < 2; mapped++)
        for (size_t i = b->first; i < b->first + b->count; i++)
            if (!b->prompts[i].is_done && (b->prompts[i].maps != NULL) == mapped)
                b->which[n++] = i;
    b->count = n;
    return PC_OK;
}

static pc_status reserve_batch(prefill_batch *b)
{
    const pc_allocator *mem = &b->model->context->mem;
    size_t wanted = 0;
    PC__TRY_RETURN(order_inputs(b));
    b->no_lane_is_cut = 1;
    b->lane_first = pc__calloc(mem, b->count + 1, sizeof *b->lane_first);
    b->runs = pc__calloc(mem, b->count, sizeof(*b->runs));
    b->maps = pc__calloc(mem, b->count, sizeof(*b->maps));
    b->lanes = pc__calloc(mem, b->count, sizeof *b->lanes);
    if (!b->lane_first || !b->runs || !b->maps || !b->lanes)
        return PC_ERR_NOMEM;
    for (size_t l = 0; l < b->count; l++) {
        b->lane_first[l + 1] = b->lane_first[l] + input_of(b, l)->input->count;
        wanted += input_of(b, l)->logits != NULL;
        b->no_lane_is_cut &= input_of(b, l)->input->count <= UNCUT_TOKENS
                             || !b->model->native->arch.causal;
    }
    b->tokens = b->lane_first[b->count];
    b->final = pc__calloc(mem, b->tokens, (size_t)b->model->info.hidden * sizeof(float));
    b->logits = pc__calloc(mem, b->model->native->arch.causal ? wanted : 0,
                           (size_t)b->model->info.vocab * sizeof(float));
    if (!b->final || !b->logits)
        return PC_ERR_NOMEM;
    return pc__build_start(&b->build, mem, b->tokens);
}

/* Logits of an encoder's head. */
static pc_status classify_text(const prefill_batch *b, const float *rows, float *logits)
{
    const pc__native *native = b->model->native;
    float *pooled = pc__calloc(&b->model->context->mem, (size_t)native->arch.hidden,
                               sizeof *pooled);
    pc_status status = pooled ? pc__head_pooled(native, rows, 1, pooled) : PC_ERR_NOMEM;
    if (status >= 0)
        status = pc__head_logits(native, pooled, 1, logits);
    pc__free(&b->model->context->mem, pooled);
    return status;
}

pc_status pc__prefill_input_check(const pc_model *model, const pc__prefill_input *p, size_t number)
{
    int64_t last = (int64_t)p->input->count - 1;
    if (p->embedding)
        PC__TRY_RETURN(pc__model_check_row(model, p->embedding, (size_t)model->info.hidden,
                                           "embedding", "input", number, last));
    return p->logits ? pc__model_check_row(model, p->logits, pc__prefill_batch_logits(model),
                                           "logits", "input", number, last)
                     : PC_OK;
}

static pc_status write_outputs(const prefill_batch *b)
{
    const pc__native *native = b->model->native;
    size_t hidden = (size_t)native->arch.hidden, vocab = (size_t)b->model->info.vocab, n = 0;
    uint32_t pool = pc__pool_of(native, b->options->pool);
    for (size_t l = 0; l < b->count; l++) {
        const pc__prefill_input *p = input_of(b, l);
        const float *rows = b->final + b->lane_first[l] * hidden;
        if (p->embedding) {
            pc__pool_rows(pool, rows, p->input->count, hidden, p->embedding);
            if (b->options->normalize || native->pooling.normalize)
                pc__normalize(p->embedding, hidden);
        }
        if (p->logits && native->arch.causal)
            memcpy(p->logits, b->logits + n++ * vocab, vocab * sizeof(float));
        else if (p->logits)
            PC__TRY_RETURN(classify_text(b, rows, p->logits));
        PC__TRY_RETURN(pc__prefill_input_check(b->model, p, b->which[l]));
    }
    return PC_OK;
}

/* Completes the keys of the runs that are asked for and gives the runs away. */
static pc_status hand_over_runs(prefill_batch *b)
{
    for (size_t l = 0; l < b->count; l++)
        if (input_of(b, l)->run && b->lanes[l].inputs)
            PC__TRY_RETURN(
                pc__complete_keys(b->model, b->runs[l], b->lanes[l].inputs, b->lanes[l].missing));
    for (size_t l = 0; l < b->count; l++)
        if (input_of(b, l)->run) {
            *input_of(b, l)->run = b->runs[l];
            b->runs[l] = NULL;
        }
    return PC_OK;
}

static pc_status compute_batch(prefill_batch *b)
{
    pc__pass pass = {0};
    PC__TRY_RETURN(reserve_batch(b));
    if (!b->count)
        return PC_OK;
    for (size_t l = 0; l < b->count; l++)
        PC__TRY_RETURN(add_batch_lane(b, l));
    pc__build_end(&b->build, &pass);
    pass.rope_regime_length = input_of(b, 0)->input->count;
    pass.lane_first = b->lane_first;
    pass.lane_count = b->count;
    pass.final = b->final;
    /* a pass with maps, even empty ones, cuts no lane */
    pass.maps = b->has_maps || b->no_lane_is_cut ? b->maps : NULL;
    pass.choose_map = b->options->map_layers ? leader_map
                      : b->options->choose   ? choose_map_of
                                             : NULL;
    pass.choose_user = b;
    pass.logits = b->model->native->arch.causal ? b->logits : NULL;
    pass.cancelled = b->options->cancelled;
    pass.cancel_user = b->options->cancel_user;
    PC__TRY_RETURN(pc__forward(b->model, &pass));
    PC__TRY_RETURN(write_outputs(b));
    return hand_over_runs(b);
}

static void release_batch(prefill_batch *b)
{
    const pc_allocator *mem = &b->model->context->mem;
    for (size_t l = 0; b->runs && l < b->count; l++)
        pc__kv_unref(b->runs[l]);
    pc__free(mem, b->lane_first);
    pc__free(mem, b->runs);
    pc__free(mem, b->which);
    for (size_t l = 0; b->lanes && l < b->count; l++) {
        pc__free(mem, b->lanes[l].leaders);
        pc__free(mem, b->lanes[l].record);
        pc__free(mem, b->lanes[l].inputs);
        pc__free(mem, b->lanes[l].missing);
    }
    pc__free(mem, b->maps);
    pc__free(mem, b->lanes);
    pc__free(mem, b->final);
    pc__free(mem, b->logits);
    pc__build_free(&b->build);
}

/* Of a description that stays as it is, so that it can run again. */
static pc_status run_batch(void *of)
{
    prefill_batch b = *(const prefill_batch *)of;
    pc_status status = compute_batch(&b);
    release_batch(&b);
    return status;
}

size_t pc__prefill_batch_logits(const pc_model *model)
{
    const pc__native *native = model->native;
    return !native               ? 0
           : native->arch.causal ? (size_t)model->info.vocab
                                 : (size_t)native->encoder.classes;
}

pc_status pc__inputs_check(const char *call, const pc_input *inputs, size_t count)
{
    PC__TRY_RETURN(pc__check_array(call, "inputs", inputs, count, sizeof *inputs));
    for (size_t i = 0; i < count; i++) {
        if (!inputs[i].tokens || !inputs[i].count)
            return pc__fail(PC_ERR_INVALID, "%s: input %zu has no tokens", call, i);
        PC__TRY_RETURN(pc__check_array(call, "tokens", inputs[i].tokens, inputs[i].count,
                                       sizeof *inputs[i].tokens));
    }
    return PC_OK;
}

static pc_status check_inputs(const pc_model *model, const pc__prefill_input *prompts, size_t count)
{
    const pc_model_info *info = &model->info;
    for (size_t i = 0; i < count; i++) {
        const pc_input *in = prompts[i].input;
        if (info->context_length > 0 && in->count > (size_t)info->context_length)
            return pc__fail(PC_ERR_LIMIT, "input %zu has %zu tokens; the model takes %d", i,
                            in->count, info->context_length);
        for (size_t t = 0; t < in->count; t++)
            if (in->tokens[t] < 0 || in->tokens[t] >= info->vocab)
                return pc__fail(PC_ERR_INVALID,
                                "input %zu: token %zu is %d, not in the vocabulary of %d tokens", i,
                                t, in->tokens[t], info->vocab);
    }
    return PC_OK;
}

/* Number of inputs, from `from` on, for one pass: of one RoPE regime, as many as fit. */
static size_t count_together(const pc_model *model, const pc__prefill_input *prompts, size_t from,
                             size_t count)
{
    uint64_t regime = pc__model_rope_regime(model, prompts[from].input->count);
    size_t end = from, tokens = 0;
    while (end < count && pc__model_rope_regime(model, prompts[end].input->count) == regime
           && (end == from || tokens + prompts[end].input->count <= PASS_TOKENS))
        tokens += prompts[end++].input->count;
    return end - from;
}

pc_status pc__prefill_batch_run(const pc_model *model, const pc__prefill_input *prompts,
                                size_t count, const pc__prefill_batch_options *options)
{
    pc_status status = check_inputs(model, prompts, count);
    for (size_t from = 0, n; from < count && status >= 0; from += n) {
        prefill_batch b = {.model = model, .prompts = prompts, .options = options, .first = from};
        b.count = n = count_together(model, prompts, from, count);
        status = pc__model_work(model, run_batch, &b, options->choose != NULL);
    }
    return status;
}
