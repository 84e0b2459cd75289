/* The tenants of a request: that of the cache, and from some position on another one (pc_salt).
 * Each has a base key of its own, so that tenants never share states. Neither do adapters, which
 * every base key names. */
#ifndef PC_SERVE_REQUEST_TENANTS_H
#define PC_SERVE_REQUEST_TENANTS_H

#include "model/model.h"
#include "store/cache.h"

/* What options say of whose states they are. Borrowed from them. */
typedef struct pc__request_owners {
    const pc_salt *salts; /* [salt_count] */
    size_t salt_count;
    const uint8_t *adapter; /* [32]; NULL: none */
    void *copy;             /* of salts that the caller has in another form; or NULL */
} pc__request_owners;

/* As the options of `call` have them. PC_ERR_INVALID: an empty salt, or positions that do not
 * ascend. PC_ERR_UNSUPPORTED: an adapter for a model that we compute ourselves. Nothing is to be
 * ended on failure. */
pc_status pc__request_owners_read(pc__request_owners *owners, const pc_model *model,
                                  const char *call, const pc_salt *salts, size_t salt_stride,
                                  size_t salt_count, const uint8_t *adapter);
void pc__request_owners_end(pc__request_owners *owners, const pc_allocator *mem);

/* Owns the positions from `first` up to the next tenant's. */
typedef struct pc__request_tenant {
    int64_t first;
    pc__id salt; /* pc__salt_digest */
    pc__id base; /* pc__base_key of the model, encoding, regime and salt */
} pc__request_tenant;

typedef struct pc__request_tenants {
    pc__request_tenant own; /* the cache's, from the lowest position on; without a cache no salt */
    pc__request_tenant *more; /* [count] ascending */
    size_t count;
    pc__id adapter; /* zeros: none */
} pc__request_tenants;

pc_status pc__request_tenants_init(pc__request_tenants *tenants, const pc_model *model,
                                   const pc_cache *cache, uint32_t encoding, uint64_t regime,
                                   const pc__request_owners *owners);
/* Zeroed: does nothing. */
void pc__request_tenants_end(pc__request_tenants *tenants, const pc_allocator *mem);
/* The tenant of a part whose first token has this position. */
const pc__request_tenant *pc__request_tenant_at(const pc__request_tenants *tenants,
                                                int64_t position);
/* Names the tenants below `end`, and the adapter. Equal ids: the parts before `end` have equal
 * keys. */
pc__id pc__request_tenants_id(const pc__request_tenants *tenants, int64_t end);

#endif
