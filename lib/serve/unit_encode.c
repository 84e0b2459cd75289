/* One encode call for a unit of a schema, and where its segments go. */
#include "serve/unit_encode.h"

#include <string.h>

#include "serve/fetch.h"
#include "serve/model_calls.h"

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
    pc_token_range *ranges;
    size_t *range_leaf;
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
    pc__free(mem, c->ranges);
    pc__free(mem, c->range_leaf);
    pc__free(mem, c->visible);
    pc__free(mem, c->segments);
}

static pc_status fill_call(const pc_allocator *mem, encode_call *c, const pc__unit *unit)
{
    size_t n = 0;
    c->tokens = pc__calloc(mem, unit->tokens, sizeof *c->tokens);
    c->positions = pc__calloc(mem, unit->tokens, sizeof *c->positions);
    c->ranges = pc__calloc(mem, unit->count, sizeof *c->ranges);
    c->range_leaf = pc__calloc(mem, unit->count, sizeof *c->range_leaf);
    c->segments = pc__calloc(mem, unit->count, sizeof(*c->segments));
    if (!c->tokens || !c->positions || !c->ranges || !c->range_leaf || !c->segments)
        return PC_ERR_NOMEM;
    for (size_t i = 0; i < unit->count; i++) {
        const pc__node *item = unit->items[i];
        if (unit->leaf[i] != PC__NO_LEAF) {
            c->range_leaf[c->range_count] = unit->leaf[i];
            c->ranges[c->range_count++] = (pc_token_range){n, item->token_count};
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
    const pc__unit *lead = &work->recipe->units[0];
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

/* Without waiting, what is still to be written could exceed the room that it has beside RAM
 * (store/cache_write_behind.c). */
static void make_write_room(pc__unit_work *work, uint64_t bytes)
{
    if (work->write_room && work->behind && work->behind + bytes > work->write_room) {
        pc_cache_flush(work->cache); /* its events report what could not be written */
        work->behind = 0;
    }
    work->behind += bytes;
}

static pc_status keep_segment(pc__unit_work *work, size_t leaf, pc_segment *mine,
                              double token_seconds, pc_segment **kept)
{
    pc__segment_facts facts = pc__unit_facts(work, leaf);
    const pc__entry_desc how = {
        .cost = token_seconds * (double)mine->tokens, .ttl = work->ttl, .priority = work->priority};
    uint32_t reason = PC_REASON_NONE;
    pc_status status;
    make_write_room(work, mine->bytes);
    status = pc__fetch_keep(work->model, work->cache, &facts, &how, mine, kept, &reason);
    if (status < 0)
        return status;
    work->unkept[leaf] = (uint8_t)(status == PC_MISS ? reason : PC_REASON_NONE);
    work->refused |= status == PC_MISS;
    return PC_OK;
}

/* Where another thread was first, its segment is used from now on. */
static pc_status keep_segments(pc__unit_work *work, encode_call *c, double token_seconds)
{
    pc_status status = PC_OK;
    for (size_t i = 0; i < c->range_count && status >= 0; i++) {
        pc_segment *kept = NULL, **made = &work->made[c->range_leaf[i]];
        if (work->cache)
            status = keep_segment(work, c->range_leaf[i], c->segments[i], token_seconds, &kept);
        if (*made)
            pc__segment_unref(kept);
        else if (status >= 0)
            *made = kept ? kept : pc__segment_ref(c->segments[i]);
    }
    return status;
}

pc_status pc__unit_encode(pc__unit_work *work, size_t index)
{
    const pc__unit *unit = &work->recipe->units[index];
    const pc_allocator *mem = &work->model->context->mem;
    pc_encode_args args = {.struct_size = sizeof args};
    encode_call c = {0};
    double token_seconds;
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
    args.ranges = c.ranges;
    args.range_count = c.range_count;
    args.rope_regime_length = work->rope_regime_length;
    args.cancelled = work->cancelled;
    args.cancel_user = work->cancel_user;
    status = pc__call_encode(work->model, work->cache, &args, 1, c.segments, &token_seconds);
    if (status >= 0)
        status = keep_segments(work, &c, token_seconds);
    else
        status = pc__fail_in(status, "encoding %s%s",
                             *unit->name ? "module " : "the schema's texts", unit->name);
done:
    free_call(mem, &c);
    return status;
}
