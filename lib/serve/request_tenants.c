/* Salts and base keys by position. */
#include "serve/request_tenants.h"

#include <promptcache/cache.h>
#include <string.h>

#include "base/options.h"
#include "model/model_states.h"

static pc_status check_owners(const pc__request_owners *o, const pc_model *model, const char *call)
{
    for (size_t i = 0; i < o->salt_count; i++) {
        const pc_salt *salt = &o->salts[i];
        if (!salt->data || !salt->size)
            return pc__fail(PC_ERR_INVALID, "%s: salt %zu is empty", call, i);
        if (salt->first < 0 || (i && salt->first <= o->salts[i - 1].first))
            return pc__fail(PC_ERR_INVALID,
                            "%s: salt %zu begins at position %lld: positions must ascend", call, i,
                            (long long)salt->first);
    }
    if (o->adapter && pc__model_is_native(model))
        return pc__fail(PC_ERR_UNSUPPORTED,
                        "%s: adapter: this version loads no adapters; only an application's model "
                        "can compute with one",
                        call);
    return PC_OK;
}

pc_status pc__request_owners_read(pc__request_owners *o, const pc_model *model, const char *call,
                                  const pc_salt *salts, size_t stride, size_t count,
                                  const uint8_t *adapter)
{
    const pc_allocator *mem = &model->context->mem;
    const void *dense;
    pc_status status;
    *o = (pc__request_owners){.salt_count = count, .adapter = adapter};
    PC__TRY_RETURN(pc__array_in(&dense, &o->copy, mem, PC__ARRAY(call, "salts", pc_salt, size),
                                salts, stride, count));
    o->salts = dense;
    status = check_owners(o, model, call);
    if (status < 0)
        pc__request_owners_end(o, mem);
    return status;
}

void pc__request_owners_end(pc__request_owners *o, const pc_allocator *mem)
{
    pc__free(mem, o->copy);
    *o = (pc__request_owners){.salts = NULL};
}

static pc_key_parts common_parts(const pc_model *model, uint32_t encoding, uint64_t regime)
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

static void set_tenant(pc__request_tenant *tenant, pc_key_parts *base, int64_t first,
                       const void *salt, size_t size)
{
    base->salt = salt;
    base->salt_size = size;
    tenant->first = first;
    tenant->salt = pc__salt_digest(salt, size);
    tenant->base = pc__base_key(base);
}

pc_status pc__request_tenants_init(pc__request_tenants *tenants, const pc_model *model,
                                   const pc_cache *cache, uint32_t encoding, uint64_t regime,
                                   const pc__request_owners *owners)
{
    pc_key_parts base = common_parts(model, encoding, regime);
    size_t size = 0, count = owners->salt_count;
    const void *salt = cache ? pc__cache_salt(cache, &size) : NULL;
    memset(tenants, 0, sizeof *tenants);
    base.adapter = owners->adapter;
    if (owners->adapter)
        memcpy(tenants->adapter.bytes, owners->adapter, sizeof tenants->adapter.bytes);
    set_tenant(&tenants->own, &base, INT64_MIN, salt, size);
    if (!count)
        return PC_OK;
    tenants->more = pc__calloc(&model->context->mem, count, sizeof *tenants->more);
    if (!tenants->more)
        return PC_ERR_NOMEM;
    tenants->count = count;
    for (size_t i = 0; i < count; i++)
        set_tenant(&tenants->more[i], &base, owners->salts[i].first, owners->salts[i].data,
                   owners->salts[i].size);
    return PC_OK;
}

void pc__request_tenants_end(pc__request_tenants *tenants, const pc_allocator *mem)
{
    pc__free(mem, tenants->more);
    memset(tenants, 0, sizeof *tenants);
}

const pc__request_tenant *pc__request_tenant_at(const pc__request_tenants *tenants,
                                                int64_t position)
{
    size_t lo = 0, hi = tenants->count;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        if (tenants->more[mid].first <= position)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo ? &tenants->more[lo - 1] : &tenants->own;
}

pc__id pc__request_tenants_id(const pc__request_tenants *tenants, int64_t end)
{
    static const pc__id no_adapter;
    pc__digest d;
    if ((!tenants->count || tenants->more[0].first >= end)
        && pc__id_equal(&tenants->adapter, &no_adapter))
        return tenants->own.salt;
    pc__digest_start(&d, "tenants/1");
    pc__digest_bytes(&d, tenants->adapter.bytes, sizeof tenants->adapter.bytes);
    pc__digest_bytes(&d, tenants->own.salt.bytes, sizeof tenants->own.salt.bytes);
    for (size_t i = 0; i < tenants->count && tenants->more[i].first < end; i++) {
        pc__digest_u64(&d, (uint64_t)tenants->more[i].first);
        pc__digest_bytes(&d, tenants->more[i].salt.bytes, sizeof tenants->more[i].salt.bytes);
    }
    return pc__digest_end(&d);
}
