/* One encode call for a unit of a schema, and where its segments go. */
#include "serve/unit_encode.h"

#include "serve/encode_call.h"
#include "serve/fetch.h"
#include "serve/model_calls.h"

pc_status pc__unit_work_init(pc__unit_work *work, const pc_schema *schema, pc_cache *cache,
                             uint32_t encoding, const pc__request_regime *regime,
                             const pc__request_owners *owners)
{
    work->model = schema->model;
    work->cache = cache;
    work->rope_regime_length = regime->length;
    work->adapter = owners->adapter;
    PC__TRY_RETURN(pc__schema_recipe(schema, encoding, &work->recipe));
    return pc__schema_keys(schema, work->recipe, cache, regime->key, owners, &work->keys);
}

pc_status pc__unit_work_start(pc__unit_work *work)
{
    size_t leaves = work->recipe->leaf_count;
    if (work->made)
        return PC_OK;
    work->made = pc__calloc(&work->model->context->mem, leaves, sizeof(*work->made) + 1);
    if (work->made)
        work->not_stored = (uint8_t *)(work->made + leaves);
    return work->made ? PC_OK : PC_ERR_NOMEM;
}

void pc__unit_work_drop(pc__unit_work *work)
{
    for (size_t l = 0; work->made && l < work->recipe->leaf_count; l++)
        pc__segment_unref(work->made[l]);
    pc__free(&work->model->context->mem, work->made);
    work->made = NULL;
}

void pc__unit_work_end(pc__unit_work *work)
{
    if (work->made)
        pc__unit_work_drop(work);
    pc__unit_keys_unref(work->keys);
}

pc_status pc__unit_find(pc__unit_work *work, size_t leaf, pc_segment **out)
{
    const pc__node *node = pc__leaf_node(work->recipe, leaf);
    const pc__id *key = &work->keys->leaves[leaf];
    pc_status status = PC_OK;
    if (!work->made[leaf]) {
        status = work->cache ? pc__segment_find(work->model, work->cache, key, node->tokens,
                                                node->token_count, &work->made[leaf])
                             : PC_MISS;
        if (work->made[leaf] && work->wait_for_room)
            pc__cache_write_dropped(work->cache, key, work->made[leaf]);
    }
    *out = work->made[leaf];
    return status;
}

/* The leading texts, encoded first where they are missing. */
static pc_status show_lead(pc__unit_work *work, pc__encode_call *call)
{
    const pc__unit *lead = &work->recipe->units[0];
    for (size_t i = 0; i < lead->count; i++) {
        size_t leaf = lead->leaf[i];
        pc_segment *segment;
        if (leaf == PC__NO_LEAF)
            continue;
        PC__TRY_RETURN(pc__unit_find(work, leaf, &segment));
        if (!segment)
            PC__TRY_RETURN(pc__unit_encode(work, 0));
        pc__encode_call_see(call, work->made[leaf], lead->items[i]->start);
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

static pc_status store_segment(pc__unit_work *work, size_t leaf, pc_segment *mine,
                               double token_seconds, pc_segment **stored)
{
    pc__segment_facts facts = pc__unit_facts(work, leaf);
    const pc__entry_desc how = {.cost = token_seconds * (double)mine->tokens,
                                .ttl = work->ttl,
                                .priority = work->priority,
                                .wait_for_room = work->wait_for_room};
    uint32_t reason = PC_REASON_NONE;
    pc_status status;
    status = pc__fetch_store(work->model, work->cache, &facts, &how, mine, stored, &reason);
    work->not_stored[leaf] = (uint8_t)(status == PC_MISS ? reason : PC_REASON_NONE);
    work->refused |= status == PC_MISS;
    return status;
}

/* Where another thread was first, its segment is used from now on. */
static pc_status store_segments(pc__unit_work *work, const pc__unit *unit, pc_segment *const *made,
                                double token_seconds)
{
    for (size_t i = 0; i < unit->count; i++) {
        size_t leaf = unit->leaf[i];
        pc_segment *stored = NULL;
        if (leaf == PC__NO_LEAF)
            continue;
        if (work->cache)
            PC__TRY_RETURN(store_segment(work, leaf, *made, token_seconds, &stored));
        if (work->made[leaf])
            pc__segment_unref(stored);
        else
            work->made[leaf] = stored ? stored : pc__segment_ref(*made);
        made++;
    }
    return PC_OK;
}

pc_status pc__unit_encode(pc__unit_work *work, size_t index)
{
    const pc__unit *unit = &work->recipe->units[index];
    const pc_allocator *mem = &work->model->context->mem;
    pc__encode_call c = {.tokens = NULL};
    double token_seconds;
    pc_status status;
    PC__TRY(pc__unit_work_start(work), done);
    PC__TRY(pc__encode_call_init(&c, mem, unit->tokens, unit->count, work->recipe->units[0].count),
            done);
    if (unit->sees_lead)
        PC__TRY(show_lead(work, &c), done);
    for (size_t i = 0; i < unit->count; i++)
        pc__encode_call_add(&c, unit->items[i]->tokens, unit->items[i]->token_count,
                            unit->items[i]->start, unit->leaf[i] != PC__NO_LEAF);
    c.args.rope_regime_length = work->rope_regime_length;
    c.args.adapter = work->adapter;
    c.args.tag = work->tag;
    c.args.cancelled = work->cancelled;
    c.args.cancel_user = work->cancel_user;
    status = pc__call_encode(work->model, work->cache, &c.args, 1, c.segments, &token_seconds);
    if (status >= 0)
        status = store_segments(work, unit, c.segments, token_seconds);
    else
        status = pc__fail_in(status, "encoding %s%s",
                             *unit->name ? "module " : "the schema's texts", unit->name);
done:
    pc__encode_call_end(&c, mem);
    return status;
}
