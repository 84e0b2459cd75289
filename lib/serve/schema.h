/* The schema handle: a layout bound to a model, and what serving keeps with it: how its parts are
 * encoded and under which keys. */
#ifndef PC_SERVE_SCHEMA_H
#define PC_SERVE_SCHEMA_H

#include "serve/request_regime.h"
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

#endif
