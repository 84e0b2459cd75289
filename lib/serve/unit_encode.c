/* One encode call for a unit of a schema, and where its segments go. */
#include "serve/unit_encode.h"

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

/* PC_MISS: one of the leading texts has no segment. */
static pc_status find_lead(pc__unit_work *work)
{
    const pc__unit *lead = &work->recipe->units[0];
    for (size_t i = 0; i < lead->count; i++) {
        pc_segment *segment = NULL;
        if (lead->leaf[i] == PC__NO_LEAF)
            continue;
        PC__TRY_RETURN(pc__unit_find(work, lead->leaf[i], &segment));
        if (!segment)
            return PC_MISS;
    }
    return PC_OK;
}

static void show_lead(const pc__unit_work *work, pc__encode_call *call)
{
    const pc__unit *lead = &work->recipe->units[0];
    for (size_t i = 0; i < lead->count; i++)
        if (lead->leaf[i] != PC__NO_LEAF)
            pc__encode_call_see(call, work->made[lead->leaf[i]], lead->items[i]->start);
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

/* Every item has a segment, so that its states have the same bits in whichever unit they are
 * computed; only those of leaves stay. Where another thread was first, its segment is used from now
 * on. */
pc_status pc__unit_take(pc__unit_work *work, size_t index, const pc__encode_call *call,
                        double token_seconds)
{
    const pc__unit *unit = &work->recipe->units[index];
    for (size_t i = 0, next = 0; i < unit->count; i++) {
        size_t leaf = unit->leaf[i];
        pc_segment *stored = NULL,
                   *made = unit->items[i]->token_count ? call->segments[next++] : NULL;
        if (leaf == PC__NO_LEAF)
            continue;
        if (work->cache)
            PC__TRY_RETURN(store_segment(work, leaf, made, token_seconds, &stored));
        if (work->made[leaf])
            pc__segment_unref(stored);
        else
            work->made[leaf] = stored ? stored : pc__segment_ref(made);
    }
    return PC_OK;
}

static void name_call(const pc__unit_work *work, const pc__unit *unit, pc__encode_call *call)
{
    for (size_t i = unit->count; i--;)
        if (unit->leaf[i] != PC__NO_LEAF)
            call->key = work->keys->leaves[unit->leaf[i]];
}

pc_status pc__unit_prepare(pc__unit_work *work, size_t index, pc__encode_call *call, size_t *which)
{
    const pc__unit *unit = &work->recipe->units[index];
    pc_status status;
    *call = (pc__encode_call){.tokens = NULL};
    *which = index;
    PC__TRY_RETURN(pc__unit_work_start(work));
    if (unit->sees_lead) {
        status = find_lead(work);
        if (status == PC_MISS)
            return pc__unit_prepare(work, 0, call, which);
        if (status < 0)
            return status;
    }
    PC__TRY_RETURN(pc__encode_call_init(call, &work->model->context->mem, unit->tokens, unit->count,
                                        work->recipe->units[0].count));
    if (unit->sees_lead)
        show_lead(work, call);
    for (size_t i = 0; i < unit->count; i++)
        pc__encode_call_add(call, unit->items[i]->tokens, unit->items[i]->token_count,
                            unit->items[i]->start, unit->items[i]->token_count > 0);
    call->args.rope_regime_length = work->rope_regime_length;
    call->args.adapter = work->adapter;
    call->args.tag = work->tag;
    call->args.cancelled = work->cancelled;
    call->args.cancel_user = work->cancel_user;
    call->stored = 1;
    name_call(work, unit, call);
    return PC_OK;
}

pc_status pc__unit_failed(const pc__unit_work *work, size_t index, pc_status status)
{
    const char *name = work->recipe->units[index].name;
    return pc__fail_in(status, "encoding %s%s", *name ? "module " : "the schema's texts", name);
}

pc_status pc__unit_encode(pc__unit_work *work, size_t index)
{
    pc__encode_call call;
    double token_seconds;
    size_t which;
    do {
        pc_status status = pc__unit_prepare(work, index, &call, &which);
        if (status >= 0) {
            status = pc__call_encode(work->model, work->cache, &call.args, call.stored,
                                     call.segments, &token_seconds);
            status = status < 0 ? pc__unit_failed(work, which, status)
                                : pc__unit_take(work, which, &call, token_seconds);
        }
        pc__encode_call_end(&call, &work->model->context->mem);
        if (status < 0)
            return status;
    } while (which != index);
    return PC_OK;
}
