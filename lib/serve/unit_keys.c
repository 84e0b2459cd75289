#include "serve/unit_keys.h"

#include <string.h>

#include "model/native.h"

pc__id pc__serve_base(const pc_model *model, const pc_cache *cache, uint32_t encoding,
                      uint64_t regime)
{
    pc__key_base base = {0};
    base.model = model->info.fingerprint;
    base.tokenizer = model->tokenizer_id.bytes;
    base.position_scheme = model->info.position_scheme;
    base.regime = regime;
    base.dtype = model->native ? pc__native_format(model->native) : model->info.compute;
    base.layout = model->native ? 1 : 0;
    base.encoding = encoding;
    if (cache)
        base.salt = pc__cache_salt(cache, &base.salt_size);
    return pc__base_key(&base);
}

pc__id pc__salt_id(const pc_cache *cache)
{
    pc__digest d;
    size_t size = 0;
    const void *salt = cache ? pc__cache_salt(cache, &size) : NULL;
    pc__digest_start(&d, "salt/1");
    pc__digest_bytes(&d, salt, size);
    return pc__digest_end(&d);
}

int64_t pc__key_offset(const pc_model *model, int64_t start)
{
    return model->info.relocatable ? 0 : start;
}

/* Goes on with the chain of what is seen, over the items of one unit. */
typedef struct chain {
    const pc_model *model;
    pc__id base, last;
    int64_t last_start;
    int started;
} chain;

static pc__id next_key(chain *c, const pc__node *item)
{
    c->last = pc__segment_key(&c->base, c->started ? &c->last : NULL, item->start - c->last_start,
                              pc__key_offset(c->model, item->start), item->tokens, NULL,
                              item->token_count);
    c->started = 1;
    c->last_start = item->start;
    return c->last;
}

pc_status pc__unit_keys_new(pc__unit_keys **out, const pc_model *model, const pc__recipe *recipe,
                            const pc_cache *cache, uint64_t regime)
{
    const pc_allocator *mem = &model->context->mem;
    pc__unit_keys *keys = pc__calloc(mem, 1,
                                     sizeof *keys + recipe->leaf_count * sizeof keys->leaves[0]);
    pc__id base = pc__serve_base(model, cache, recipe->encoding, regime);
    *out = keys;
    if (!keys)
        return PC_ERR_NOMEM;
    atomic_init(&keys->references, 1);
    keys->mem = *mem;
    keys->encoding = recipe->encoding;
    keys->regime = regime;
    keys->salt = pc__salt_id(cache);
    keys->count = recipe->leaf_count;
    for (size_t u = 0; u < recipe->unit_count; u++) {
        const pc__unit *unit = &recipe->units[u],
                       *lead = unit->sees_lead ? &recipe->units[0] : NULL;
        chain c = {.model = model, .base = base};
        for (size_t i = 0; lead && i < lead->count; i++)
            if (lead->leaf[i] != PC__NO_LEAF) {
                next_key(&c, lead->items[i]);
                c.last = keys->leaves[lead->leaf[i]];
            }
        for (size_t i = 0; i < unit->count; i++) {
            pc__id key = next_key(&c, unit->items[i]);
            if (unit->leaf[i] != PC__NO_LEAF)
                keys->leaves[unit->leaf[i]] = key;
        }
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
