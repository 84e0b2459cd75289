/* Names all leaves of a recipe: each key holds the keys of what the leaf sees. */
#include "serve/unit_keys.h"

int64_t pc__key_offset(const pc_model *model, int64_t start)
{
    return model->info.relocatable ? 0 : start;
}

pc__id pc__key_chain_next(pc__key_chain *c, int64_t start, const int32_t *tokens, size_t count)
{
    c->last = pc__segment_key(&pc__request_tenant_at(c->tenants, start)->base,
                              c->started ? &c->last : NULL, start - c->last_start,
                              pc__key_offset(c->model, start), tokens, NULL, count);
    c->started = 1;
    c->last_start = start;
    return c->last;
}

void pc__key_chain_pass(pc__key_chain *c, int64_t start, const pc__id *key)
{
    c->last = pc__segment_key(key, c->started ? &c->last : NULL, start - c->last_start,
                              pc__key_offset(c->model, start), NULL, NULL, 0);
    c->started = 1;
    c->last_start = start;
}

static void name_unit(pc__unit_keys *keys, pc__id *salts, pc__key_chain *c,
                      const pc__recipe *recipe, const pc__unit *unit)
{
    const pc__unit *lead = unit->sees_lead ? &recipe->units[0] : NULL;
    for (size_t i = 0; lead && i < lead->count; i++)
        if (lead->leaf[i] != PC__NO_LEAF) {
            c->last = keys->leaves[lead->leaf[i]];
            c->last_start = lead->items[i]->start;
            c->started = 1;
        }
    for (size_t i = 0; i < unit->count; i++) {
        const pc__node *item = unit->items[i];
        pc__id key = pc__key_chain_next(c, item->start, item->tokens, item->token_count);
        if (unit->leaf[i] == PC__NO_LEAF)
            continue;
        keys->leaves[unit->leaf[i]] = key;
        salts[unit->leaf[i]] = pc__request_tenant_at(c->tenants, item->start)->salt;
    }
}

pc_status pc__unit_keys_new(pc__unit_keys **out, const pc_model *model, const pc__recipe *recipe,
                            const pc__request_tenants *tenants, uint64_t regime,
                            const pc__id *tenants_id)
{
    size_t leaves = recipe->leaf_count;
    pc__unit_keys *keys = pc__calloc(&model->context->mem, 1,
                                     sizeof *keys + 2 * leaves * sizeof keys->leaves[0]);
    *out = keys;
    if (!keys)
        return PC_ERR_NOMEM;
    atomic_init(&keys->references, 1);
    keys->mem = model->context->mem;
    keys->encoding = recipe->encoding;
    keys->regime = regime;
    keys->tenants_id = *tenants_id;
    keys->count = leaves;
    keys->salts = keys->leaves + leaves;
    for (size_t u = 0; u < recipe->unit_count; u++) {
        pc__key_chain c = {.model = model, .tenants = tenants};
        name_unit(keys, keys->leaves + leaves, &c, recipe, &recipe->units[u]);
    }
    return PC_OK;
}

void pc__unit_keys_unref(pc__unit_keys *keys)
{
    if (keys && atomic_fetch_sub_explicit(&keys->references, 1, memory_order_acq_rel) == 1) {
        pc_allocator mem = keys->mem;
        pc__free(&mem, keys);
    }
}
