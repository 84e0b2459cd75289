/* Whose the states of a request are: the cache's tenant's, and from some position on another's
 * (pc_salt). What has to differ with that are the base keys. */
#ifndef PC_SERVE_REQUEST_TENANTS_H
#define PC_SERVE_REQUEST_TENANTS_H

#include "model/model.h"
#include "store/cache.h"

/* Positions from `first` up to the next scope's. */
typedef struct pc__request_tenant {
    int64_t first;
    pc__id salt; /* pc__salt_digest */
    pc__id base; /* pc__base_key of the model, encoding, regime and salt */
} pc__request_tenant;

typedef struct pc__request_tenants {
    pc__request_tenant own; /* from the lowest position on: the cache's, or nobody's without one */
    pc__request_tenant *more; /* [count] ascending */
    size_t count;
} pc__request_tenants;

/* `salts` as checked by pc__generation_init. */
pc_status pc__request_tenants_init(pc__request_tenants *scopes, const pc_model *model,
                                   const pc_cache *cache, uint32_t encoding, uint64_t regime,
                                   const pc_salt *salts, size_t count);
void pc__request_tenants_end(pc__request_tenants *scopes,
                             const pc_allocator *mem); /* zeroed: does nothing */
/* A part whose first token stands there belongs to this one as a whole. */
const pc__request_tenant *pc__request_tenant_at(const pc__request_tenants *scopes,
                                                int64_t position);
/* Names the scopes below `end`: equal exactly where no key of a part before it differs. */
pc__id pc__request_tenants_id(const pc__request_tenants *scopes, int64_t end);

#endif
