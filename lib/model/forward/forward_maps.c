/* Which lanes of a block use given maps, and which compute attention: layer by layer, in ranges of
 * equal lanes. Owns the lists in pc__forward_maps_work. */
#include "model/forward/forward_maps.h"

#include <string.h>

static const pc__lane_maps *maps_of(const pc__forward_work *work, size_t lane)
{
    return &work->pass->maps[work->maps.first_lane + lane];
}

/* Whether maps of the lane are given, asked for or recorded. */
static int has_maps(const pc__lane_maps *maps)
{
    return maps->shape.tokens != 0;
}

static pc_status check_map_shape(const pc__forward_work *work, size_t lane, size_t tokens)
{
    const pc__arch *arch = &work->native->arch;
    const pc__map_shape *shape = &work->pass->maps[lane].shape;
    if (shape->tokens != tokens)
        return pc__fail(PC_ERR_MISMATCH, "lane %zu has %zu tokens, its attention maps have %zu",
                        lane, tokens, shape->tokens);
    if (shape->heads != arch->heads || !pc__map_bytes(shape))
        return pc__fail(PC_ERR_MISMATCH,
                        "lane %zu: maps of %d heads, format %u; the model has %d heads", lane,
                        shape->heads, shape->format, arch->heads);
    if (!shape->causal != !arch->causal)
        return pc__fail(PC_ERR_MISMATCH, "lane %zu: %s maps, and %s is %s", lane,
                        shape->causal ? "causal" : "bidirectional", arch->name,
                        arch->causal ? "causal" : "bidirectional");
    return PC_OK;
}

static int all_given(const pc__forward_work *work, const pc__lane_maps *maps)
{
    for (int32_t l = 0; l < work->native->arch.layers; l++)
        if (!maps->given || !maps->given[l])
            return 0;
    return 1;
}

/* Whether the row sees its run from slot 0 on, and nothing else. */
static int sees_its_run(const pc__pass *pass, size_t row, size_t keys)
{
    const pc__kv_span *span = &pass->attend.spans[pass->attend.first[row]];
    return pass->attend.first[row + 1] == pass->attend.first[row] + 1
           && span->kv == pass->rows[row].run && span->start == pass->rows[row].run_start
           && span->lo == 0 && span->hi == keys;
}

static pc_status check_map_rows(const pc__forward_work *work, size_t lane, size_t first,
                                size_t count)
{
    const pc__pass *pass = work->pass;
    const pc__lane_maps *maps = &pass->maps[lane];
    int given = all_given(work, maps);
    for (size_t i = 0; i < count; i++) {
        const pc__token_row *row = &pass->rows[first + i];
        if (row->run != pass->rows[first].run || row->slot != i || row->run->tokens != count
            || row->run_start != pass->rows[first].run_start)
            return pc__fail(
                PC_ERR_MISMATCH,
                "lane %zu: with attention maps all tokens must be in one run (row %zu is not)",
                lane, i);
        if (given ? pass->attend.first[first + i + 1] != pass->attend.first[first + i]
                  : !sees_its_run(pass, first + i, pc__map_row_keys(&maps->shape, i)))
            return pc__fail(PC_ERR_MISMATCH,
                            "lane %zu: row %zu does not see exactly what its attention map covers",
                            lane, i);
    }
    return PC_OK;
}

pc_status pc__forward_maps_check(const pc__forward_work *work)
{
    const pc__pass *pass = work->pass;
    if (!pass->maps)
        return PC_OK;
    if (pass->kv_layers)
        return pc__fail(PC_ERR_UNSUPPORTED, "attention maps need a pass through all layers");
    for (size_t lane = 0; lane < pc__lane_count(pass); lane++) {
        size_t first, count;
        pc__lane_rows(pass, lane, &first, &count);
        if (!has_maps(&pass->maps[lane]))
            continue;
        if (work->native->shape.latent)
            return pc__fail(
                PC_ERR_UNSUPPORTED,
                "%s: attention maps of a model with latent attention are not implemented",
                work->native->arch.name);
        PC__TRY_RETURN(check_map_shape(work, lane, count));
        PC__TRY_RETURN(check_map_rows(work, lane, first, count));
    }
    return PC_OK;
}

pc_status pc__forward_maps_begin(pc__forward_work *work)
{
    pc__forward_maps_work *m = &work->maps;
    const pc_allocator *mem = &work->native->context->mem;
    size_t first, count, spans;
    m->first_lane = work->first_lane;
    for (m->lanes = 0; m->first_lane + m->lanes < pc__lane_count(work->pass); m->lanes++) {
        pc__lane_rows(work->pass, m->first_lane + m->lanes, &first, &count);
        if (first >= work->first + work->rows)
            break;
    }
    spans = work->pass->attend.first[work->first + work->rows]
            - work->pass->attend.first[work->first];
    m->lane = pc__calloc(mem, m->lanes, sizeof *m->lane);
    m->planned = pc__calloc(mem, m->lanes, sizeof *m->planned);
    m->products = pc__calloc(mem, m->lanes, sizeof *m->products);
    m->records = pc__calloc(mem, m->lanes, sizeof *m->records);
    m->spans = pc__calloc(mem, spans, sizeof *m->spans);
    m->first = pc__calloc(mem, work->rows + 1, sizeof *m->first);
    if (!m->lane || !m->planned || !m->products || !m->records || !m->spans || !m->first)
        return PC_ERR_NOMEM;
    for (size_t i = 0; i < m->lanes; i++) {
        pc__lane_rows(work->pass, m->first_lane + i, &first, &count);
        m->lane[i] = (pc__block_lane){first - work->first, count, NULL};
    }
    return PC_OK;
}

void pc__forward_maps_end(pc__forward_work *work)
{
    pc__forward_maps_work *m = &work->maps;
    const pc_allocator *mem = &work->native->context->mem;
    pc__free(mem, m->lane);
    pc__free(mem, m->planned);
    pc__free(mem, m->products);
    pc__free(mem, m->records);
    pc__free(mem, m->spans);
    pc__free(mem, m->first);
    memset(m, 0, sizeof *m);
}

static pc_status ask_for_map(pc__forward_work *work, size_t i, int32_t layer)
{
    const pc__pass *pass = work->pass;
    pc__block_lane *block = &work->maps.lane[i];
    size_t hidden = (size_t)work->native->arch.hidden;
    void *own;
    const float *x = pc__stream_show(work->stream,
                                     pc__floats_at(pc__residual_x(work), block->first * hidden),
                                     block->rows * hidden, &own);
    if (!x)
        return PC_ERR_NOMEM;
    block->map = pass->choose_map(pass->choose_user, work->maps.first_lane + i, layer, x);
    pc__free(&work->native->context->mem, own);
    return PC_OK;
}

/* Finds the given map of each lane. Keeps the inputs that the keys of such lanes are computed from
 * later. */
static pc_status decide_maps(pc__forward_work *work, int32_t layer)
{
    const pc__pass *pass = work->pass;
    size_t hidden = (size_t)work->native->arch.hidden;
    for (size_t i = 0; i < work->maps.lanes; i++) {
        const pc__lane_maps *maps = maps_of(work, i);
        pc__block_lane *block = &work->maps.lane[i];
        block->map = has_maps(maps) && maps->given ? maps->given[layer] : NULL;
        if (has_maps(maps) && !block->map && pass->choose_map)
            PC__TRY_RETURN(ask_for_map(work, i, layer));
        if (!block->map)
            continue;
        work->runs[block->first]->values_only = 1;
        if (maps->inputs)
            work->stream->ops->copy(work->stream,
                                    maps->inputs + (size_t)layer * block->rows * hidden,
                                    pc__floats_at(work->h, block->first * hidden),
                                    block->rows * hidden * sizeof(float));
    }
    return PC_OK;
}

int pc__forward_maps_given(const pc__forward_work *work, size_t lane)
{
    return work->pass->maps && work->maps.lane[lane - work->maps.first_lane].map != NULL;
}

/* Consecutive lanes of one kind, from *lane on. *lane becomes the one after them. */
static pc__block_lane next_range(const pc__forward_work *work, size_t *lane)
{
    const pc__block_lane *lanes = work->maps.lane;
    pc__block_lane range = lanes[(*lane)++];
    while (*lane < work->maps.lanes && !lanes[*lane].map == !range.map)
        range.rows += lanes[(*lane)++].rows;
    return range;
}

static pc_status project_lanes(pc__forward_work *work, int32_t layer)
{
    for (size_t lane = 0; lane < work->maps.lanes;) {
        pc__block_lane range = next_range(work, &lane);
        if (range.rows)
            PC__TRY_RETURN(
                pc__attention_project(work, layer, range.first, range.rows, range.map != NULL));
    }
    return PC_OK;
}

static void store_lanes(pc__forward_work *work, int32_t layer)
{
    for (size_t lane = 0; lane < work->maps.lanes;) {
        pc__block_lane range = next_range(work, &lane);
        if (range.rows)
            pc__attention_store(work, layer, range.first, range.rows, range.map != NULL);
    }
}

/* Plans the rows of lanes without given maps; the others see nothing. Keeps the plan while the
 * lanes stay the same. */
static pc_status plan_lanes(pc__forward_work *work)
{
    pc__forward_maps_work *m = &work->maps;
    const pc__rows *all = &work->pass->attend;
    pc__rows rows = *all;
    size_t spans = 0;
    int same = work->plan != NULL;
    for (size_t i = 0; i < m->lanes; i++) {
        same &= m->planned[i] == !m->lane[i].map;
        m->planned[i] = !m->lane[i].map;
    }
    if (same)
        return PC_OK;
    for (size_t i = 0; i < m->lanes; i++)
        for (size_t r = m->lane[i].first; r < m->lane[i].first + m->lane[i].rows; r++) {
            size_t from = all->first[work->first + r],
                   count = all->first[work->first + r + 1] - from;
            m->first[r] = spans;
            if (m->planned[i] && count) {
                memcpy(m->spans + spans, all->spans + from, count * sizeof *m->spans);
                spans += count;
            }
        }
    m->first[work->rows] = spans;
    pc__row_plan_free(work->plan);
    rows.count = work->rows;
    rows.positions += work->first;
    rows.first = m->first;
    rows.spans = m->spans;
    return pc__row_plan_new(&work->plan, work->native->context, &work->native->backend->limits,
                            &rows, &work->runs[0]->shape, work->native->arch.heads);
}

static pc_status apply_maps(pc__forward_work *work, int32_t layer)
{
    pc__forward_maps_work *m = &work->maps;
    size_t count = 0;
    for (size_t i = 0; i < m->lanes; i++)
        if (m->lane[i].map)
            m->products[count++] = (pc__map_lane){maps_of(work, i)->shape, m->lane[i].map,
                                                  work->runs[m->lane[i].first], m->lane[i].first};
    return work->stream->ops->apply_maps(work->stream, m->products, count, layer, work->attended);
}

static void *record_to(const pc__forward_work *work, size_t lane, int32_t layer)
{
    const pc__lane_maps *maps = maps_of(work, lane);
    return has_maps(maps) && maps->record && !work->maps.lane[lane].map ? maps->record[layer]
                                                                        : NULL;
}

/* Where the run of a row of the block starts. */
static int64_t pass_start(const pc__forward_work *work, size_t row)
{
    return work->pass->rows[work->first + row].run_start;
}

static pc_status record_maps(pc__forward_work *work, const pc__attn_layer *layer)
{
    pc__forward_maps_work *m = &work->maps;
    size_t count = 0;
    for (size_t i = 0; i < m->lanes; i++) {
        size_t first = m->lane[i].first;
        void *to = record_to(work, i, layer->layer);
        if (to)
            m->records[count++] = (pc__map_out){
                maps_of(work, i)->shape,     to, work->runs[first], first, pass_start(work, first),
                work->rope_positions + first};
    }
    return work->stream->ops->record_maps(work->stream, layer, m->records, count, work->q,
                                          work->lse);
}

int pc__forward_maps_recorded(const pc__forward_work *work, int32_t layer)
{
    for (size_t i = 0; work->pass->maps && i < work->maps.lanes; i++)
        if (record_to(work, i, layer))
            return 1;
    return 0;
}

void pc__forward_maps_record(const pc__forward_work *work, size_t lane, int32_t layer,
                             const float *dense)
{
    void *to = work->pass->maps ? record_to(work, lane - work->maps.first_lane, layer) : NULL;
    if (to)
        pc__map_pack(&work->pass->maps[lane].shape, dense, to);
}

/* [lanes] 1: the map is given. Encoders with distance terms need no plan. */
static const uint8_t *left_out(pc__forward_work *work)
{
    for (size_t i = 0; i < work->maps.lanes; i++)
        work->maps.planned[i] = work->maps.lane[i].map != NULL;
    return work->maps.planned;
}

static pc_status compute_maps(pc__forward_work *work, const pc__attn_layer *layer)
{
    pc__stream *stream = work->stream;
    if (work->native->encoder.relative)
        return pc__attention_disentangled(work, layer->layer, left_out(work));
    PC__TRY_RETURN(plan_lanes(work));
    PC__TRY_RETURN(
        stream->ops->attend(stream, work->plan, layer, work->q, work->attended, work->lse));
    PC__TRY_RETURN(record_maps(work, layer));
    return pc__trace_maps(work, layer);
}

pc_status pc__forward_maps_attend(pc__forward_work *work, const pc__attn_layer *layer)
{
    int computed = 0;
    PC__TRY_RETURN(decide_maps(work, layer->layer));
    PC__TRY_RETURN(project_lanes(work, layer->layer));
    PC__TRY_RETURN(pc__trace_keys(work, layer->layer));
    store_lanes(work, layer->layer);
    for (size_t i = 0; i < work->maps.lanes; i++)
        computed |= !work->maps.lane[i].map && work->maps.lane[i].rows;
    if (computed)
        PC__TRY_RETURN(compute_maps(work, layer));
    return apply_maps(work, layer->layer);
}
