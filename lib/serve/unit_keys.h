/* The keys of all leaves of a recipe, for one set of tenants and one RoPE regime. They are made
 * once and stay with the schema, so that a request digests only its prompt's new tokens. */
#ifndef PC_SERVE_UNIT_KEYS_H
#define PC_SERVE_UNIT_KEYS_H

#include "serve/recipe.h"
#include "serve/request_tenants.h"

typedef struct pc__unit_keys {
    atomic_size_t references;
    pc_allocator mem;
    uint32_t encoding;
    uint64_t regime;
    pc__id tenants_id; /* pc__request_tenants_id */
    size_t count;
    const pc__id *salts; /* [count] pc__salt_digest of each leaf's tenant */
    pc__id leaves[];     /* [count] */
} pc__unit_keys;

/* The position in a key: 0 if the model can relocate segments. */
int64_t pc__key_offset(const pc_model *model, int64_t start);

/* Keys of consecutive texts, each with the one before it as its parent. */
typedef struct pc__key_chain {
    const pc_model *model;
    const pc__request_tenants *tenants;
    pc__id last;
    int64_t last_start;
    int started;
} pc__key_chain;
pc__id pc__key_chain_next(pc__key_chain *chain, int64_t start, const int32_t *tokens, size_t count);
/* A segment with a key of its own stands at `start`: what follows has seen it. */
void pc__key_chain_pass(pc__key_chain *chain, int64_t start, const pc__id *key);

pc_status pc__unit_keys_new(pc__unit_keys **out, const pc_model *model, const pc__recipe *recipe,
                            const pc__request_tenants *tenants, uint64_t regime,
                            const pc__id *tenants_id);
void pc__unit_keys_unref(pc__unit_keys *keys);

#endif
