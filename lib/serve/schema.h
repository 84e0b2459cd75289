/* The schema handle: a layout bound to a model, with its recipes and key tables. */
#ifndef PC_SERVE_SCHEMA_H
#define PC_SERVE_SCHEMA_H

#include "serve/request_regime.h"
#include "serve/unit_keys.h"

enum { PC__KEY_TABLES = 16 }; /* of a schema, each for a mode, salts and a RoPE regime */

struct pc_schema {
    atomic_size_t references;
    pc_model *model;
    pc__schema_tree *tree;
    char *file;           /* NULL: it was not read from one */
    pthread_mutex_t lock; /* of the rest */
    pc__recipe *recipes[PC_ENCODE_JOINT + 1];
    pc__unit_keys *keys[PC__KEY_TABLES];
    size_t next_keys;
};

pc_schema *pc__schema_ref(const pc_schema *schema);
PC__HOLDABLE(pc_schema, pc__schema_ref, pc_schema_free)

/* Owns the tree from now on, on failure too. */
pc_status pc__schema_from_tree(pc_schema **out, const pc_model *model, pc__schema_tree *tree);

/* The recipe of a mode (not EXACT), borrowed from the schema. */
pc_status pc__schema_recipe(const pc_schema *schema, uint32_t encoding, const pc__recipe **out);
/* Its keys in this cache, with the tenants that `owners` give; a counted reference. */
pc_status pc__schema_keys(const pc_schema *schema, const pc__recipe *recipe, const pc_cache *cache,
                          uint64_t regime, const pc__request_owners *owners, pc__unit_keys **out);

#define PC__PML_FLAGS (PC_PML_COMPACT | PC_PML_SRC_ANYWHERE | PC_PML_OVERLAP)

/* Options of calls that encode a schema or load its states, and the owners that they name, which
 * are to be ended; `call` is the call's name. */
pc_status pc__encode_options_read(pc_encode_options *out, pc__request_owners *owners,
                                  const pc_encode_options *options, const pc_schema *schema,
                                  const pc_cache *cache, const char *call);

/* The environment of PML for a model; `where` as in the environment. */
void pc__pml_env_of(pc__pml_env *env, const pc_model *model, const char *where);
#define PC__PML_FILE_BYTES ((size_t)64 << 20) /* the limit of PML files and schema strings */
/* A PML file and the folder that it lies in. On failure, too, the caller frees both. */
pc_status pc__pml_file_read(const pc_allocator *mem, const char *path, char **text, size_t *size,
                            char **folder);
/* A schema string from a file, without a byte order mark at the start and a line break at the end:
 * neither is part of it. */
pc_status pc__system_format_file(const pc_allocator *mem, const char *path, char **format,
                                 size_t *size);

#endif
