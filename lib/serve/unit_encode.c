#include "serve/unit_encode.h"

#include <string.h>

#include "serve/fetch.h"
#include "serve/request.h"

pc_status pc__unit_work_start(pc__unit_work *work)
{
    size_t leaves = work->recipe->leaf_count;
    if (work->made)
        return PC_OK;
    work->made = pc__calloc(&work->model->context->mem, leaves, sizeof(*work->made) + 1);
    if (work->made)
        work->unkept = (uint8_t *)(work->made + leaves);
    return work->made ? PC_OK : PC_ERR_NOMEM;
}

void pc__unit_work_end(pc__unit_work *work)
{
    for (size_t l = 0; work->made && l < work->recipe->leaf_count; l++)
        pc__segment_unref(work->made[l]);
    pc__free(&work->model->context->mem, work->made);
    work->made = NULL;
}

pc_status pc__unit_find(pc__unit_work *work, size_t leaf, pc_segment **out)
{
    const pc__node *node = pc__leaf_node(work->recipe, leaf);
    pc_status status = PC_OK;
    if (!work->made[leaf])
        status = work->cache ? pc__segment_find(work->model, work->cache, &work->keys->leaves[leaf],
                                                node->tokens, node->token_count, &work->made[leaf])
                             : PC_MISS;
    *out = work->made[leaf];
    return status;
}

/* One encode call under way. */
typedef struct encode_call {
    int32_t *tokens;
    int64_t *positions;
    pc_token_range *cuts;
    size_t *cut_leaf;
    size_t range_count;
    pc_span *visible;
    size_t visible_count;
    pc_segment **segments;
} encode_call;

static void free_call(const pc_allocator *mem, encode_call *c)
{
    for (size_t i = 0; c->segments && i < c->range_count; i++)
        pc__segment_unref(c->segments[i]);
    pc__free(mem, c->tokens);
    pc__free(mem, c->positions);
    pc__free(mem, c->cuts);
    pc__free(mem, c->cut_leaf);
    pc__free(mem, c->visible);
    pc__free(mem, c->segments);
}

static pc_status fill_call(const pc_allocator *mem, encode_call *c, const pc__plan_tile *unit)
{
    size_t n = 0;
    c->tokens = pc__calloc(mem, unit->tokens, sizeof *c->tokens);
    c->positions = pc__calloc(mem, unit->tokens, sizeof *c->positions);
    c->cuts = pc__calloc(mem, unit->count, sizeof *c->cuts);
    c->cut_leaf = pc__calloc(mem, unit->count, sizeof *c->cut_leaf);
    c->segments = pc__calloc(mem, unit->count, sizeof(*c->segments));
    if (!c->tokens || !c->positions || !c->cuts || !c->cut_leaf || !c->segments)
        return PC_ERR_NOMEM;
    for (size_t i = 0; i < unit->count; i++) {
        const pc__node *item = unit->items[i];
        if (unit->leaf[i] != PC__NO_LEAF) {
            c->cut_leaf[c->range_count] = unit->leaf[i];
            c->cuts[c->range_count++] = (pc_token_range){n, item->token_count};
        }
        memcpy(c->tokens + n, item->tokens, item->token_count * sizeof *c->tokens);
        for (size_t t = 0; t < item->token_count; t++)
            c->positions[n + t] = item->start + (int64_t)t;
        n += item->token_count;
    }
    return PC_OK;
}

/* The leading texts, encoded first where they are missing. */
static pc_status show_lead(pc__unit_work *work, encode_call *c)
{
    const pc__plan_tile *lead = &work->recipe->units[0];
    c->visible = pc__calloc(&work->model->context->mem, lead->count, sizeof *c->visible);
    if (!c->visible)
        return PC_ERR_NOMEM;
    for (size_t i = 0; i < lead->count; i++) {
        pc_segment *segment;
        pc_status status;
        if (lead->leaf[i] == PC__NO_LEAF)
            continue;
        status = pc__unit_find(work, lead->leaf[i], &segment);
        if (status == PC_MISS) {
            status = pc__unit_encode(work, 0);
            segment = work->made[lead->leaf[i]];
        }
        if (status < 0)
            return status;
        c->visible[c->visible_count++] = (pc_span){segment->payload, lead->items[i]->start, 0,
                                                   (uint32_t)segment->tokens};
    }
    return PC_OK;
}

pc__segment_facts pc__unit_facts(const pc__unit_work *work, size_t leaf)
{
    const pc__node *node = pc__leaf_node(work->recipe, leaf);
    return (pc__segment_facts){.key = &work->keys->leaves[leaf],
                               .salt = &work->keys->salts[leaf],
                               .encoding = work->recipe->encoding,
                               .regime = work->keys->regime,
                               .start = node->start,
                               .tokens = node->tokens,
                               .count = node->token_count};
}

static pc_status keep_one(pc__unit_work *work, size_t leaf, pc_segment *mine, double cost,
                          pc_segment **kept, uint32_t *reason)
{
    pc__segment_facts facts = pc__unit_facts(work, leaf);
    const pc__entry_desc desc = {.key = *facts.key,
                                 .salt = facts.salt,
                                 .cost = cost,
                                 .ttl = work->ttl,
                                 .priority = work->priority};
    pc__image image;
    return pc__cache_put(work->cache, &desc,
                         pc__fetch_image(&image, work->model, work->cache, &facts), mine, kept,
                         reason);
}

/* Who fills a store wants all of it written: what is on its way has to fit beside RAM
 * (cache_write_behind.c). */
static void let_write(pc__unit_work *work, uint64_t bytes)
{
    if (work->write_room && work->behind && work->behind + bytes > work->write_room) {
        pc_cache_flush(work->cache); /* what it could not write it has told */
        work->behind = 0;
    }
    work->behind += bytes;
}

/* Keeps the segments; where another thread was first, its segment is the one we go on with. */
static pc_status keep_segments(pc__unit_work *work, encode_call *c, double seconds_per_token)
{
    for (size_t i = 0; i < c->range_count; i++) {
        pc_segment *mine = c->segments[i], *kept = NULL;
        size_t leaf = c->cut_leaf[i];
        if (work->cache) {
            let_write(work, mine->bytes);
            uint32_t reason = PC_REASON_NONE;
            pc_status status = keep_one(work, leaf, mine, seconds_per_token * (double)mine->tokens,
                                        &kept, &reason);
            if (status < 0)
                return status;
            work->unkept[leaf] = (uint8_t)(status == PC_MISS ? reason : PC_REASON_NONE);
            work->refused |= status == PC_MISS;
        }
        if (work->made[leaf]) {
            pc__segment_unref(kept);
            continue;
        }
        work->made[leaf] = kept ? kept : pc__segment_ref(mine);
    }
    return PC_OK;
}

/* The threads of the cache keep still meanwhile; it learns what computing takes. */
static pc_status compute_unit(pc__unit_work *work, const pc__plan_tile *unit,
                              const pc_encode_args *args, pc_segment **segments,
                              double *seconds_per_token)
{
    double started = pc__now(), seconds;
    pc_status status;
    if (work->cache)
        pc__cache_request_running(work->cache, 1);
    status = pc__call_encode(work->model, work->cache, args, segments);
    if (work->cache)
        pc__cache_request_running(work->cache, -1);
    seconds = pc__now() - started;
    *seconds_per_token = unit->tokens ? seconds / (double)unit->tokens : 0;
    if (status < 0)
        return pc__fail_in(status, "encoding %s%s", *unit->name ? "module " : "the schema's texts",
                           unit->name);
    if (work->cache)
        pc__cache_report_compute(work->cache, work->model->info.fingerprint, unit->tokens, seconds);
    return status;
}

pc_status pc__unit_encode(pc__unit_work *work, size_t index)
{
    const pc__plan_tile *unit = &work->recipe->units[index];
    const pc_allocator *mem = &work->model->context->mem;
    pc_encode_args args = {.struct_size = sizeof args};
    encode_call c = {0};
    double seconds_per_token;
    pc_status status;
    PC__TRY(pc__unit_work_start(work), done);
    PC__TRY(fill_call(mem, &c, unit), done);
    if (unit->sees_lead)
        PC__TRY(show_lead(work, &c), done);
    args.tokens = c.tokens;
    args.positions = c.positions;
    args.count = unit->tokens;
    args.visible = c.visible;
    args.visible_count = c.visible_count;
    args.ranges = c.cuts;
    args.range_count = c.range_count;
    args.rope_regime_length = work->rope_regime_length;
    args.cancelled = work->cancelled;
    args.cancel_user = work->cancel_user;
    PC__TRY(compute_unit(work, unit, &args, c.segments, &seconds_per_token), done);
    status = keep_segments(work, &c, seconds_per_token);
done:
    free_call(mem, &c);
    return status;
}
