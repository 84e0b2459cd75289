/* The tenants of a request's parts. Catches: a range that begins a token too early or too late;
 * ranges beyond the end that make new key tables; base keys that are not those of the published
 * encoding; quotas that count for another salt than the keys'; a failed allocation that leaks. */
#include "serve/request_tenants.h"

#include "toy_schema.h"
#include <promptcache/cache.h>

static const pc_salt salts[] = {{10, "a", 1}, {20, "bb", 2}, {21, "a", 1}};

static pc__id public_base(const toy_world *w, uint32_t encoding, uint64_t regime, const char *salt)
{
    static const uint8_t no_tokenizer[32];
    pc_key_parts parts = PC_KEY_PARTS_INIT;
    pc__id base;
    parts.model = w->model->info.fingerprint;
    parts.tokenizer = no_tokenizer; /* the application's */
    parts.position_scheme = PC_POSITION_ROPE;
    parts.dtype = PC_DTYPE_F32;
    parts.rope_regime = regime;
    parts.layout = 0;
    parts.encoding = encoding;
    parts.salt = salt;
    parts.salt_size = salt ? strlen(salt) : 0;
    CHECK_OK(pc_key_base(base.bytes, &parts));
    return base;
}

static void is_scope(const toy_world *w, const pc__request_tenants *s, int64_t position,
                     const char *salt)
{
    const pc__request_tenant *at = pc__request_tenant_at(s, position);
    pc__id base = public_base(w, PC_ENCODE_SINK, 5, salt),
           digest = pc__salt_digest(salt, salt ? strlen(salt) : 0);
    if (!CHECK(pc__id_equal(&at->base, &base)) || !CHECK(pc__id_equal(&at->salt, &digest)))
        fprintf(stderr, "    position %lld\n", (long long)position);
}

static const pc__request_owners nobody;

static void ranges(const toy_world *w)
{
    const pc_allocator *mem = &w->context->mem;
    pc__request_tenants s;
    CHECK_OK(pc__request_tenants_init(&s, w->model, NULL, PC_ENCODE_SINK, 5,
                                      &(pc__request_owners){salts, 3, NULL, NULL}));
    is_scope(w, &s, 0, NULL);
    is_scope(w, &s, 9, NULL);
    is_scope(w, &s, 10, "a");
    is_scope(w, &s, 19, "a");
    is_scope(w, &s, 20, "bb");
    is_scope(w, &s, 21, "a");
    is_scope(w, &s, INT64_MAX, "a");
    pc__request_tenants_end(&s, mem);
    pc__request_tenants_end(&s, mem); /* zeroed */
    CHECK_OK(pc__request_tenants_init(&s, w->model, NULL, PC_ENCODE_SINK, 5, &nobody));
    is_scope(w, &s, 1000, NULL);
    pc__request_tenants_end(&s, mem);
}

static void names(const toy_world *w)
{
    const pc_allocator *mem = &w->context->mem;
    static const pc_salt later[] = {{11, "a", 1}}, other[] = {{10, "b", 1}};
    pc__request_tenants none, all, first, moved, changed;
    CHECK_OK(pc__request_tenants_init(&none, w->model, w->cache, 0, 0, &nobody));
    CHECK_OK(pc__request_tenants_init(&all, w->model, w->cache, 0, 0,
                                      &(pc__request_owners){salts, 3, NULL, NULL}));
    CHECK_OK(pc__request_tenants_init(&first, w->model, w->cache, 0, 0,
                                      &(pc__request_owners){salts, 1, NULL, NULL}));
    CHECK_OK(pc__request_tenants_init(&moved, w->model, w->cache, 0, 0,
                                      &(pc__request_owners){later, 1, NULL, NULL}));
    CHECK_OK(pc__request_tenants_init(&changed, w->model, w->cache, 0, 0,
                                      &(pc__request_owners){other, 1, NULL, NULL}));
    pc__id plain = pc__request_tenants_id(&none, 100), a = pc__request_tenants_id(&all, 10),
           b = pc__request_tenants_id(&all, 20), c = pc__request_tenants_id(&first, 100),
           d = pc__request_tenants_id(&all, 100), e = pc__request_tenants_id(&moved, 100),
           f = pc__request_tenants_id(&changed, 100);
    CHECK(pc__id_equal(&a, &plain)); /* all begin behind the end */
    CHECK(pc__id_equal(&b, &c));
    CHECK(!pc__id_equal(&c, &plain) && !pc__id_equal(&c, &d) && !pc__id_equal(&c, &e)
          && !pc__id_equal(&c, &f));
    pc__request_tenants_end(&all, mem);
    pc__request_tenants_end(&first, mem);
    pc__request_tenants_end(&moved, mem);
    pc__request_tenants_end(&changed, mem);
}

int main(void)
{
    toy_world w;
    pc_test_memory memory = {.fail_at = 0};
    pc_allocator mem = pc_test_allocator(&memory);
    pc__request_tenants s;
    if (!CHECK(toy_start(&w, &mem, 0, 0, NULL)))
        return pc_test_end();
    ranges(&w);
    names(&w);
    memory.fail_at = memory.calls + 1;
    CHECK_STATUS(pc__request_tenants_init(&s, w.model, w.cache, 0, 0,
                                          &(pc__request_owners){salts, 3, NULL, NULL}),
                 PC_ERR_NOMEM);
    CHECK(!s.more && !s.count);
    toy_end(&w);
    CHECK_INT(memory.live_blocks, 0);
    return pc_test_end();
}
