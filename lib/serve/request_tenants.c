/* Salts and base keys by position. */
#include "serve/request_tenants.h"

#include <string.h>

#include "model/model_states.h"

static pc_key_parts common(const pc_model *model, uint32_t encoding, uint64_t regime)
{
    pc_key_parts base = PC_KEY_PARTS_INIT;
    base.model = model->info.fingerprint;
    base.tokenizer = model->tokenizer_id.bytes;
    base.position_scheme = model->info.position_scheme;
    base.rope_regime = regime;
    base.dtype = pc__model_format(model);
    base.layout = pc__model_layout(model);
    base.encoding = encoding;
    return base;
}

static void set_scope(pc__request_tenant *scope, pc_key_parts *base, int64_t first,
                      const void *salt, size_t size)
{
    base->salt = salt;
    base->salt_size = size;
    scope->first = first;
    scope->salt = pc__salt_digest(salt, size);
    scope->base = pc__base_key(base);
}

pc_status pc__request_tenants_init(pc__request_tenants *scopes, const pc_model *model,
                                   const pc_cache *cache, uint32_t encoding, uint64_t regime,
                                   const pc_salt *salts, size_t count)
{
    pc_key_parts base = common(model, encoding, regime);
    size_t size = 0;
    const void *salt = cache ? pc__cache_salt(cache, &size) : NULL;
    memset(scopes, 0, sizeof *scopes);
    set_scope(&scopes->own, &base, INT64_MIN, salt, size);
    if (!count)
        return PC_OK;
    scopes->more = pc__calloc(&model->context->mem, count, sizeof *scopes->more);
    if (!scopes->more)
        return PC_ERR_NOMEM;
    scopes->count = count;
    for (size_t i = 0; i < count; i++)
        set_scope(&scopes->more[i], &base, salts[i].first, salts[i].data, salts[i].size);
    return PC_OK;
}

void pc__request_tenants_end(pc__request_tenants *scopes, const pc_allocator *mem)
{
    pc__free(mem, scopes->more);
    memset(scopes, 0, sizeof *scopes);
}

const pc__request_tenant *pc__request_tenant_at(const pc__request_tenants *scopes, int64_t position)
{
    size_t lo = 0, hi = scopes->count;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        if (scopes->more[mid].first <= position)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo ? &scopes->more[lo - 1] : &scopes->own;
}

pc__id pc__request_tenants_id(const pc__request_tenants *scopes, int64_t end)
{
    pc__digest d;
    if (!scopes->count || scopes->more[0].first >= end)
        return scopes->own.salt;
    pc__digest_start(&d, "scopes/1");
    pc__digest_bytes(&d, scopes->own.salt.bytes, sizeof scopes->own.salt.bytes);
    for (size_t i = 0; i < scopes->count && scopes->more[i].first < end; i++) {
        pc__digest_u64(&d, (uint64_t)scopes->more[i].first);
        pc__digest_bytes(&d, scopes->more[i].salt.bytes, sizeof scopes->more[i].salt.bytes);
    }
    return pc__digest_end(&d);
}
