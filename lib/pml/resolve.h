/* A prompt resolved against a schema: which texts of the schema take part, and which tokens are
 * new. */
#ifndef PC_PML_RESOLVE_H
#define PC_PML_RESOLVE_H

#include "pml/schema.h"

/* = PC_PART_… */
typedef enum pc__part_kind { PC__PART_CACHED = 1, PC__PART_ARGUMENT, PC__PART_TEXT } pc__part_kind;

typedef struct pc__part {
    pc__part_kind kind;
    const pc__node *node;   /* cached: the text node; argument: the parameter; text: NULL */
    char *path;
    int32_t *tokens;        /* owned by the resolved prompt, but for cached parts: the node's */
    size_t count;
    int64_t start;
} pc__part;

typedef struct pc__resolved {
    /* ascending start; cached before argument before text where starts are equal */
    pc__part *parts;
    size_t part_count;
    const pc__node **modules; /* imported modules, document order (the root is the first) */
    size_t module_count;
    const pc__scaffold **scaffolds; /* those whose modules are all imported */
    size_t scaffold_count;
    int64_t end;            /* position after the last new token: where generation starts */
} pc__resolved;

/* The schema name in a prompt's root element, for choosing the schema; NULL where it names none.
 * `name` is owned by the caller. */
pc_status pc__prompt_schema_name(const pc__pml_env *env, const char *text, size_t size,
                                 char **name);
pc_status pc__resolve(pc__resolved **out, const pc__pml_env *env, const pc__schema_tree *tree,
                      const char *text, size_t size);
/* A prompt of the schema's anonymous texts, and these tokens behind all of it. Takes the block of
 * tokens over, on failure too. */
pc_status pc__resolve_slot(pc__resolved **out, const pc__pml_env *env, const pc__schema_tree *tree,
                           int32_t *tokens, size_t count);
void pc__resolved_free(pc__resolved *resolved, const pc_allocator *mem);

#endif
