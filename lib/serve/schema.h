/* The schema handle: a layout bound to a model, and what serving keeps with it: how its parts are
 * encoded and under which keys. */
#ifndef PC_SERVE_SCHEMA_H
#define PC_SERVE_SCHEMA_H

#include "serve/unit_keys.h"

enum { PC__KEPT_KEYS = 16 }; /* key tables (mode, salts, regime) that a schema remembers */

struct pc_schema {
    atomic_size_t references;
    pc_model *model;
    pc__schema_tree *tree;
    char *file;           /* that it was read from; NULL: none */
    pthread_mutex_t lock; /* of the rest */
    pc__recipe *recipes[PC_ENCODE_JOINT + 1];
    pc__unit_keys *keys[PC__KEPT_KEYS];
    size_t next_keys;
};

pc_schema *pc__schema_ref(const pc_schema *schema);
void pc__schema_unref(pc_schema *schema);

/* Takes the tree over, on failure too. */
pc_status pc__schema_from_tree(pc_schema **out, const pc_model *model, pc__schema_tree *tree);

/* The recipe of a mode (not EXACT), borrowed from the schema. */
pc_status pc__schema_recipe(const pc_schema *schema, uint32_t encoding, const pc__recipe **out);
/* Its keys in this cache, a counted reference; from some positions on, as `salts` say, other
 * tenants'. */
pc_status pc__schema_keys(const pc_schema *schema, const pc__recipe *recipe, const pc_cache *cache,
                          uint64_t regime, const pc_salt *salts, size_t salt_count,
                          pc__unit_keys **out);

/* What PML needs to know of a model. */
void pc__pml_env_of(pc__pml_env *env, const pc_model *model);

/* Frequencies that depend on the context's length (dynamic NTK, LongRoPE) are fixed per request, by
 * the length that it may reach; states of one regime are never used in another, and no request
 * grows out of its own. A host's model gets its full context length, so that all its segments go
 * together. */
typedef struct pc__request_regime {
    uint64_t length; /* for rope_regime_length of the model's operations: one and the same for all
                        lengths of a regime */
    uint64_t key;    /* for store keys */
    uint64_t
        decided; /* the length that has decided; 0: the model's frequencies do not depend on one */
    int64_t end; /* the longest context of this regime; INT64_MAX: no end */
} pc__request_regime;
/* Of what may reach `reach` positions; `chosen` decides instead where it is not 0. */
pc__request_regime pc__regime_for_length(const pc_model *model, uint64_t chosen, int64_t reach);
/* Of states that are there. */
pc__request_regime pc__regime_of_key(const pc_model *model, uint64_t key);

#endif
