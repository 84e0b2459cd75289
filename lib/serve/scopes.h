/* Whose the states of a request are: the cache's tenant's, and from some position on another's
 * (pc_salt). What has to differ with that are the base keys. */
#ifndef PC_SERVE_SCOPES_H
#define PC_SERVE_SCOPES_H

#include "model/model.h"
#include "store/cache.h"

/* Positions from `first` up to the next scope's. */
typedef struct pc__scope {
    int64_t first;
    pc__id salt; /* pc__salt_digest */
    pc__id base; /* pc__base_key of the model, encoding, regime and salt */
} pc__scope;

typedef struct pc__scopes {
    pc__scope own;   /* from the lowest position on: the cache's, or nobody's without one */
    pc__scope *more; /* [count] ascending */
    size_t count;
} pc__scopes;

/* `salts` as checked by pc__generation_init. */
pc_status pc__scopes_init(pc__scopes *scopes, const pc_model *model, const pc_cache *cache,
                          uint32_t encoding, uint64_t regime, const pc_salt *salts, size_t count);
void pc__scopes_end(pc__scopes *scopes, const pc_allocator *mem); /* zeroed: does nothing */
/* A part whose first token stands there belongs to this one as a whole. */
const pc__scope *pc__scope_at(const pc__scopes *scopes, int64_t position);
/* Names the scopes below `end`: equal exactly where no key of a part before it differs. */
pc__id pc__scopes_id(const pc__scopes *scopes, int64_t end);

#endif
