/* A prompt resolved against a schema: its parts, from texts of the schema and new ones. */
#ifndef PC_PML_RESOLVE_H
#define PC_PML_RESOLVE_H

#include "pml/schema_tree.h"

/* = PC_PART_… */
typedef enum pc__part_kind {
    PC__PART_CACHED = 1,
    PC__PART_ARGUMENT,
    PC__PART_TEXT,
    PC__PART_UNCACHED /* of the schema, computed at every request */
} pc__part_kind;

typedef struct pc__prompt_part {
    pc__part_kind kind;
    const pc__node *node; /* of the schema: the text node; argument: the parameter; text: NULL */
    char *path;
    int32_t *tokens; /* of the resolved prompt; of a schema's text: borrowed from the node */
    size_t count;
    int64_t start;
    int is_block; /* of new text: its states are kept for later prompts (serve/prompt.h) */
} pc__prompt_part;

typedef struct pc__resolved {
    /* by start; of equal starts schema, then argument, then text */
    pc__prompt_part *parts;
    size_t part_count;
    const pc__node **modules; /* imported modules, document order (the root is the first) */
    size_t module_count;
    const pc__scaffold **scaffolds; /* with all of their modules imported */
    size_t scaffold_count;
    int64_t end; /* position after the last new token: where generation starts */
    int moved;   /* modules may stand elsewhere than the schema has them */
} pc__resolved;

/* A text of the schema, or a block of a prompt without PML; not new text. */
static inline int pc__part_is_given(const pc__prompt_part *part)
{
    return part->kind == PC__PART_CACHED || part->kind == PC__PART_UNCACHED;
}

/* A prompt's root element, for choosing the schema. */
typedef struct pc__prompt_head {
    char *schema; /* NULL: it names none; owned by the caller */
    size_t line, column;
} pc__prompt_head;
pc_status pc__prompt_head_read(pc__prompt_head *out, const pc__pml_env *env, const char *text,
                               size_t size);
pc_status pc__resolve(pc__resolved **out, const pc__pml_env *env, const pc__schema_tree *tree,
                      const char *text, size_t size);
/* Of a tree of elements, whose root is <prompt>. in_order: modules stand where the prompt names
 * them, one behind the other, not where the schema has them; a schema with text between modules
 * keeps its positions. */
pc_status pc__resolve_elements(pc__resolved **out, const pc__pml_env *env,
                               const pc__schema_tree *tree, const pc__element *root, int in_order);
/* A prompt of the schema's anonymous texts with these tokens behind them. Owns the block of tokens
 * from now on, on failure too. */
pc_status pc__resolve_slot(pc__resolved **out, const pc__pml_env *env, const pc__schema_tree *tree,
                           int32_t *tokens, size_t count);
void pc__resolved_free(pc__resolved *resolved, const pc_allocator *mem);

#endif
