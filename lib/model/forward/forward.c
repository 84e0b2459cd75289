/* The pass: each block of rows runs through all layers. Which sublayers a layer has and how they
 * join is data (pc__arch). */
#include "model/forward/forward.h"

#include "model/forward/forward_expand.h"
#include "model/forward/forward_latent.h"
#include "model/forward/forward_maps.h"
#include "model/load/positions.h"
#include "model/model_states.h"

static pc_status sequential_layer(pc__forward_work *work, int32_t l)
{
    const pc__native_layer *layer = &work->native->layers[l];
    pc__residual_norm(work, &layer->norm1, work->h);
    PC__TRY_RETURN(pc__attention_sublayer(work, l));
    pc__residual_add(work, &layer->output_norm1, work->y);
    pc__residual_norm(work, &layer->norm2, work->h);
    PC__TRY_RETURN(pc__mlp_sublayer(work, l));
    pc__residual_add(work, &layer->output_norm2, work->h);
    return PC_OK;
}

static pc_status parallel_layer(pc__forward_work *work, int32_t l)
{
    const pc__native_layer *layer = &work->native->layers[l];
    pc__residual_norm(work, &layer->norm1, work->h);
    PC__TRY_RETURN(pc__attention_sublayer(work, l));
    if (work->native->arch.residual == PC__RESIDUAL_PARALLEL_2)
        pc__residual_norm(work, &layer->norm2, work->h);
    PC__TRY_RETURN(pc__mlp_sublayer(work, l));
    pc__residual_add(work, &layer->output_norm1, work->y);
    pc__residual_add(work, &layer->output_norm2, work->h);
    return PC_OK;
}

static pc_status post_norm_layer(pc__forward_work *work, int32_t l)
{
    const pc__native_layer *layer = &work->native->layers[l];
    pc__residual_copy(work, work->h);
    PC__TRY_RETURN(pc__attention_sublayer(work, l));
    pc__residual_add(work, &layer->output_norm1, work->y);
    pc__residual_norm_x(work, &layer->norm1);
    pc__residual_copy(work, work->h);
    PC__TRY_RETURN(pc__mlp_sublayer(work, l));
    pc__residual_add(work, &layer->output_norm2, work->h);
    pc__residual_norm_x(work, &layer->norm2);
    return PC_OK;
}

static pc_status poll_cancel(const pc__forward_work *work, int32_t l)
{
    const pc__pass *pass = work->pass;
    pc__callback_begin();
    if (pass->cancelled && pass->cancelled(pass->cancel_user))
        return pc__callback_cancelled("cancelled at layer %d of row %zu", l, work->first);
    return PC_OK;
}

static pc_status run_layer(pc__forward_work *work, int32_t l)
{
    PC__TRY_RETURN(pc__await_runs(work, l));
    switch (work->native->arch.residual) {
    case PC__RESIDUAL_PARALLEL:
    case PC__RESIDUAL_PARALLEL_2:
        return parallel_layer(work, l);
    case PC__RESIDUAL_POST:
        return post_norm_layer(work, l);
    case PC__RESIDUAL_SEQUENTIAL:
        break;
    }
    return sequential_layer(work, l);
}

/* The rows of the block for the plan. `first` still indexes the pass's spans. */
static pc_status plan_block(pc__forward_work *work)
{
    const pc__pass *pass = work->pass;
    pc__rows rows = pass->attend;
    rows.count = work->rows;
    rows.positions += work->first;
    rows.first += work->first;
    for (size_t r = 0; r < work->rows; r++) {
        const pc__token_row *row = &pass->rows[work->first + r];
        work->runs[r] = row->run;
        work->slots[r] = row->slot;
        work->rope_positions[r] = row->position - row->run_start;
        work->query_factors[r] = pc__query_factor(&work->native->arch.query_scale, row->position);
    }
    if (pass->maps)
        return pc__forward_maps_begin(work);
    if (pass->skips_attention)
        return PC_OK;
    if (work->native->shape.latent)
        return pc__expand_plan(work);
    /* runs of a pass over the first n layers may have only n layers */
    return pc__row_plan_new(&work->plan, work->native->context, &work->native->backend->limits,
                            &rows, &pass->rows[0].run->shape, work->native->arch.heads);
}

static int32_t pass_layers(const pc__forward_work *work)
{
    int32_t layers = work->native->arch.layers, wanted = work->pass->kv_layers;
    return wanted > 0 && wanted < layers ? wanted : layers;
}

/* Without a trace nobody reads x here, and what is pending stays so. */
static pc_status trace_hidden(pc__forward_work *work, int32_t l)
{
    if (!work->pass->trace)
        return PC_OK;
    return pc__trace_rows(work, "hidden", l, pc__residual_x(work),
                          (size_t)work->native->arch.hidden);
}

/* Ends a pass at the K and V of layer l. */
static pc_status last_keys(pc__forward_work *work, int32_t l)
{
    if (work->mirrored_count) /* the layer must not come after what is stored there */
        PC__TRY_RETURN(pc__await_runs(work, l));
    if (work->native->arch.residual == PC__RESIDUAL_POST)
        pc__residual_copy(work, work->h);
    else
        pc__residual_norm(work, &work->native->layers[l].norm1, work->h);
    return pc__attention_keys(work, l);
}

/* In the last layer only K and V are needed of rows whose logits nobody wants. */
static int has_unread_rows(const pc__forward_work *work)
{
    const pc__pass *pass = work->pass;
    const pc__native *native = work->native;
    size_t wanted = 0;
    if (!pass->logits || pass->trace || pass->final || pass->maps || pass->skips_attention
        || native->shape.latent || !native->arch.causal)
        return 0;
    for (size_t r = 0; r < work->rows; r++)
        wanted += pass->rows[work->first + r].want_logits != 0;
    return wanted < work->rows;
}

static pc_status build_wanted(pc__forward_work *work)
{
    const pc__rows *all = &work->pass->attend;
    pc__pass_build *wanted = &work->wanted;
    PC__TRY_RETURN(pc__build_start(wanted, &work->native->context->mem, work->rows));
    for (size_t r = 0; r < work->rows; r++) {
        const pc__token_row *row = &work->pass->rows[work->first + r];
        if (!row->want_logits)
            continue;
        size_t to = wanted->count, at = work->first + r;
        work->numbers[to] = (uint32_t)r;
        work->runs[to] = work->runs[r];
        work->slots[to] = work->slots[r];
        work->rope_positions[to] = work->rope_positions[r];
        work->query_factors[to] = work->query_factors[r];
        pc__build_row(wanted, row);
        for (size_t i = all->first[at]; i < all->first[at + 1]; i++) {
            const pc__kv_span *s = &all->spans[i];
            PC__TRY_RETURN(pc__build_span(wanted, s->kv, s->start, s->lo, s->hi));
        }
    }
    return PC_OK;
}

/* Stores K and V of all rows; only those with logits stay. */
static pc_status drop_unread_rows(pc__forward_work *work, int32_t l)
{
    size_t hidden = (size_t)work->native->arch.hidden;
    pc__pass pass = {.attend = work->pass->attend};
    pc__floats *x;
    PC__TRY_RETURN(last_keys(work, l));
    PC__TRY_RETURN(build_wanted(work));
    x = pc__residual_x(work);
    work->rows = work->wanted.count;
    work->all_wanted = 1;
    if (!work->rows)
        return PC_OK;
    work->stream->ops->gather(work->stream, x, work->numbers, work->rows, hidden, work->h);
    work->stream->ops->copy(work->stream, x, work->h, work->rows * hidden * sizeof(float));
    pc__build_end(&work->wanted, &pass);
    work->plan_before = work->plan;
    work->plan = NULL;
    return pc__row_plan_new(&work->plan, work->native->context, &work->native->backend->limits,
                            &pass.attend, &pass.rows[0].run->shape, work->native->arch.heads);
}

static void end_plans(pc__forward_work *work)
{
    pc__row_plan_free(work->plan);
    pc__row_plan_free(work->plan_before);
    pc__build_free(&work->wanted);
    work->plan = work->plan_before = NULL;
    work->wanted = (pc__pass_build){0};
    work->all_wanted = 0;
}

static pc_status run_block(pc__forward_work *work)
{
    int32_t layers = pass_layers(work), l;
    size_t rows = work->rows;
    pc_status status, finished;
    PC__TRY(pc__embed_rows(work), done);
    PC__TRY(plan_block(work), done);
    for (l = 0; l < layers; l++) {
        PC__TRY(poll_cancel(work, l), done);
        PC__TRY(trace_hidden(work, l), done);
        if (l + 1 == work->pass->kv_layers)
            break;
        if (!l && work->conv_input)
            pc__residual_copy(work, work->conv_input);
        if (l + 1 == layers && has_unread_rows(work))
            PC__TRY(drop_unread_rows(work, l), done);
        if (work->rows)
            PC__TRY(run_layer(work, l), done);
        if (!l && work->conv_input)
            PC__TRY(pc__convolution_sublayer(work), done);
    }
    if (work->pass->kv_layers) {
        status = l < layers ? last_keys(work, l) : PC_OK;
        goto done;
    }
    PC__TRY(trace_hidden(work, layers), done);
    status = work->rows ? pc__head(work) : PC_OK;
done:
    finished = work->stream->ops->finish(work->stream);
    work->native->backend->ops->give(work->native->backend, work->logits);
    work->logits = NULL;
    end_plans(work);
    work->rows = rows;
    pc__expand_end(work);
    pc__forward_maps_end(work);
    return status < 0 ? status : finished;
}

/* Floats of the inner rows of an MLP for all rows. Layers with experts have scratch of their own.
 */
static size_t inner_floats(const pc__arch *arch, size_t rows)
{
    size_t most = 0;
    for (int32_t l = 0; l < arch->layers; l++) {
        size_t width = pc__has_experts(arch, l) ? 0 : (size_t)pc__mlp_width(arch, l);
        most = width > most ? width : most;
    }
    return rows * most;
}

static void lay_out_experts(pc__forward_work *work, pc__floats *slab, size_t *used)
{
    const pc__backend *backend = work->native->backend;
    const pc__expert_config *experts = &work->native->arch.experts;
    size_t rows = work->capacity, hidden = (size_t)work->native->arch.hidden;
    work->expert_scratch = pc__floats_carve(
        slab, used, backend->ops->experts_scratch(backend, experts, hidden, rows));
    work->expert_sum = pc__floats_carve(slab, used, rows * hidden);
    if (work->pass->trace)
        work->routes = pc__floats_carve(
            slab, used, rows * ((size_t)experts->count + 2 * (size_t)experts->used));
}

static size_t lay_out_work(pc__forward_work *work, pc__floats *slab)
{
    const pc__arch *arch = &work->native->arch;
    const pc__kv_shape *shape = &work->native->shape;
    size_t rows = work->capacity, heads = (size_t)arch->heads, used = 0;
    work->residual.x = pc__floats_carve(slab, &used, rows * (size_t)arch->hidden);
    work->h = pc__floats_carve(slab, &used, rows * (size_t)arch->hidden);
    work->y = pc__floats_carve(slab, &used, rows * (size_t)arch->hidden);
    work->q = pc__floats_carve(slab, &used, rows * heads * (size_t)shape->k_dim);
    work->k = pc__floats_carve(slab, &used, rows * (size_t)shape->kv_heads * (size_t)shape->k_dim);
    work->v = pc__floats_carve(slab, &used, rows * (size_t)shape->kv_heads * (size_t)shape->v_dim);
    work->attended = pc__floats_carve(slab, &used, rows * heads * (size_t)shape->v_dim);
    if (shape->latent)
        pc__latent_lay_out(work, slab, &used);
    if (arch->gated) /* in the order of the weights: a backend may compute both at once */
        work->gate = pc__floats_carve(slab, &used, inner_floats(arch, rows));
    work->up = pc__floats_carve(slab, &used, inner_floats(arch, rows));
    if (arch->experts.count)
        lay_out_experts(work, slab, &used);
    if (work->native->project_in)
        work->narrow = pc__floats_carve(slab, &used, rows * work->native->embedding.dim);
    if (work->native->encoder.conv) {
        work->conv_input = pc__floats_carve(slab, &used, rows * (size_t)arch->hidden);
        work->neighbours = pc__floats_carve(
            slab, &used, rows * (size_t)arch->hidden * (size_t)arch->encoder.conv);
    }
    if (work->pass->trace || work->pass->maps)
        work->lse = pc__floats_carve(slab, &used, rows * heads);
    return used;
}

pc_status pc__reserve_work(pc__forward_work *work, size_t floats)
{
    const pc_allocator *mem = &work->native->context->mem;
    pc__backend *backend = work->native->backend;
    PC__TRY_RETURN(backend->ops->stream_new(&work->stream, backend));
    PC__TRY_RETURN(pc__kv_mirrors_hold(&work->hold, backend, work->mirrored, work->mirrored_count,
                                       floats * sizeof(float)));
    work->slab = work->hold.memory;
    work->runs = pc__calloc(mem, work->capacity, sizeof(*work->runs));
    work->slots = pc__calloc(mem, work->capacity, sizeof *work->slots);
    work->rope_positions = pc__calloc(mem, work->capacity, sizeof *work->rope_positions);
    work->numbers = pc__calloc(mem, work->capacity, sizeof *work->numbers);
    work->query_factors = pc__calloc(mem, work->capacity, sizeof *work->query_factors);
    return work->runs && work->slots && work->rope_positions && work->numbers && work->query_factors
               ? PC_OK
               : PC_ERR_NOMEM;
}

void pc__release_work(pc__forward_work *work)
{
    const pc_allocator *mem = &work->native->context->mem;
    pc__backend *backend = work->native->backend;
    if (!work->hold.backend)
        backend->ops->give(backend, work->slab);
    if (work->stream)
        backend->ops->stream_free(work->stream);
    pc__kv_mirrors_release(&work->hold);
    pc__free(mem, work->streams);
    pc__free(mem, work->mirrored);
    pc__free(mem, work->runs);
    pc__free(mem, work->slots);
    pc__free(mem, work->rope_positions);
    pc__free(mem, work->numbers);
    pc__free(mem, work->query_factors);
    pc__free(mem, work->lanes);
    pc__expand_free(work);
    pc__rope_free(mem, work->own_rope);
}

static uint64_t pass_length(const pc__pass *pass)
{
    int64_t last = 0;
    for (size_t r = 0; r < pass->attend.count; r++)
        last = pass->rows[r].position > last ? pass->rows[r].position : last;
    return pass->rope_regime_length ? pass->rope_regime_length : (uint64_t)last + 1;
}

size_t pc__lane_count(const pc__pass *pass)
{
    return pass->lane_first ? pass->lane_count : 1;
}

void pc__lane_rows(const pc__pass *pass, size_t lane, size_t *first, size_t *count)
{
    *first = pass->lane_first ? pass->lane_first[lane] : 0;
    *count = pass->lane_first ? pass->lane_first[lane + 1] - *first : pass->attend.count;
}

/* Rows of as many whole lanes, from `lane` on, as fit into PC__BLOCK; at least one lane. *next is
 * the lane after them. */
static size_t whole_lanes(const pc__pass *pass, size_t lane, size_t *next)
{
    size_t rows = 0, first, count;
    for (; lane < pc__lane_count(pass); lane++) {
        pc__lane_rows(pass, lane, &first, &count);
        if (rows && rows + count > PC__BLOCK)
            break;
        rows += count;
    }
    *next = lane;
    return rows;
}

/* Whether a lane must lie in one block: its rows see later rows, or it has maps. */
static int lanes_whole(const pc__forward_work *work)
{
    return !work->native->arch.causal || work->pass->maps;
}

static size_t largest_block(const pc__forward_work *work)
{
    const pc__pass *pass = work->pass;
    size_t count = pass->attend.count, largest = 0;
    if (pass->trace)
        return count;
    if (!lanes_whole(work))
        return count < PC__BLOCK ? count : PC__BLOCK;
    for (size_t lane = 0, next; lane < pc__lane_count(pass); lane = next) {
        size_t rows = whole_lanes(pass, lane, &next);
        largest = rows > largest ? rows : largest;
    }
    return largest;
}

/* Lists the lanes of the block, which are whole. */
static pc_status list_lanes(pc__forward_work *work)
{
    size_t all = pc__lane_count(work->pass), first, count;
    if (!work->lanes
        && !(work->lanes = pc__calloc(&work->native->context->mem, all, sizeof *work->lanes)))
        return PC_ERR_NOMEM;
    work->lane_count = 0;
    for (size_t lane = work->first_lane; lane < all; lane++) {
        pc__lane_rows(work->pass, lane, &first, &count);
        if (first >= work->first + work->rows)
            break;
        work->lanes[work->lane_count++] = (pc__row_range){first - work->first, count};
    }
    return PC_OK;
}

static pc_status run_blocks(pc__forward_work *work)
{
    size_t count = work->pass->attend.count, next_lane = 0;
    for (; work->first < count; work->first += work->rows) {
        work->rows = count - work->first < work->capacity ? count - work->first : work->capacity;
        work->first_lane = next_lane;
        if (lanes_whole(work) && !work->pass->trace)
            work->rows = whole_lanes(work->pass, work->first_lane, &next_lane);
        if (lanes_whole(work))
            PC__TRY_RETURN(list_lanes(work));
        PC__TRY_RETURN(run_block(work));
    }
    return PC_OK;
}

static pc_status check_kind(const pc__native *native, const pc__pass *pass)
{
    if (!native->arch.causal && (pass->logits || pass->kv_layers))
        return pc__fail(
            PC_ERR_UNSUPPORTED,
            "%s is an encoder: it has neither logits over its vocabulary nor states of a prefix",
            native->arch.name);
    if (pass->lane_first && pass->lane_first[pass->lane_count] != pass->attend.count)
        return pc__fail(PC_ERR_INVALID, "the %zu lanes have %zu rows, the pass has %zu",
                        pass->lane_count, pass->lane_first[pass->lane_count], pass->attend.count);
    return PC_OK;
}

typedef struct pass_of {
    const pc_model *model;
    const pc__pass *pass;
} pass_of;

static pc_status run_pass(void *arg)
{
    const pc_model *model = ((const pass_of *)arg)->model;
    const pc__pass *pass = ((const pass_of *)arg)->pass;
    pc__forward_work work = {.native = NULL};
    pc__pass without_maps;
    uint64_t regime;
    pc_status status;
    work.native = model->native;
    work.pass = pass;
    PC__TRY(check_kind(work.native, pass), done);
    regime = pc__model_rope_regime(model, pass_length(pass));
    PC__TRY(pc__list_runs(&work, pass_layers(&work), regime), done);
    PC__TRY(pc__forward_maps_check(&work), done);
    if (work.native->shape.latent && pass->maps) { /* no lane has any */
        without_maps = *pass;
        without_maps.maps = NULL;
        work.pass = &without_maps;
    }
    work.capacity = largest_block(&work);
    PC__TRY(pc__expand_choose(&work), done);
    PC__TRY(pc__native_rope(work.native, regime, &work.rope, &work.own_rope), done);
    PC__TRY(pc__reserve_work(&work, lay_out_work(&work, NULL)), done);
    lay_out_work(&work, work.slab);
    PC__TRY(run_blocks(&work), done);
    status = pc__fetch_written(&work, pass_layers(&work));
done:
    pc__release_work(&work);
    return status;
}

pc_status pc__forward(const pc_model *model, const pc__pass *pass)
{
    pass_of work = {model, pass};
    PC__TRY_RETURN(pc__model_check_native(model, "a forward pass"));
    if (!pass->attend.count)
        return PC_OK;
    return pc__model_work(model, run_pass, &work, pass->trace || pass->choose_map);
}
