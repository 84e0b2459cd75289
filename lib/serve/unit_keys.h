/* The store keys of all leaves of a recipe, for one salt and one regime of positions. Made once and
 * kept with the schema, so that a request digests nothing but its prompt's new tokens. */
#ifndef PC_SERVE_UNIT_KEYS_H
#define PC_SERVE_UNIT_KEYS_H

#include "model/model.h"
#include "serve/recipe.h"
#include "store/cache.h"

typedef struct pc__unit_keys {
    atomic_size_t references;
    pc_allocator mem;
    uint32_t encoding;
    uint64_t regime;
    pc__id salt;     /* digest of the salt */
    size_t count;
    pc__id leaves[]; /* [count] */
} pc__unit_keys;

/* What the segments of a model have in common under this mode, salt (of `cache`, which may be NULL)
 * and regime. */
pc__id pc__serve_base(const pc_model *model, const pc_cache *cache, uint32_t encoding,
                      uint64_t regime);
pc__id pc__salt_id(const pc_cache *cache);
/* The position that a key has to hold: 0 where segments can be moved. */
int64_t pc__key_offset(const pc_model *model, int64_t start);

pc_status pc__unit_keys_new(pc__unit_keys **out, const pc_model *model, const pc__recipe *recipe,
                            const pc_cache *cache, uint64_t regime);
void pc__unit_keys_unref(pc__unit_keys *keys);

#endif
