/* The prompt handle: parts in position order. They come from a schema, are the blocks of a list of
 * tokens, or are given as segments.
 *
 * Long new text of a prompt with a schema is cut into blocks too. So a conversation over modules
 * that goes on finds the states of what was said before. */
#ifndef PC_SERVE_PROMPT_H
#define PC_SERVE_PROMPT_H

#include "pml/resolve.h"
#include "serve/schema.h"

enum { PC__BLOCK_TOKENS = 64 }; /* one block is one segment */

struct pc_prompt {
    atomic_size_t references;
    pc_model *model;
    pc_schema *schema;       /* NULL without PML */
    pc__resolved *resolved;  /* NULL without PML */
    int32_t *tokens;         /* that `blocks` divide: all; with PML new text */
    pc__prompt_part *blocks; /* NULL: `resolved` has the parts */
    pc_span *given;          /* [given_count] the segments of the first parts, from the caller */
    size_t given_count;
    int given_exact;              /* each has seen exactly what stands before it */
    const pc__prompt_part *parts; /* of `resolved` or `blocks` */
    size_t part_count;
    int64_t end; /* where generation starts */
};

pc_prompt *pc__prompt_new(const pc_model *model); /* empty; NULL: no memory */
pc_prompt *pc__prompt_ref(const pc_prompt *prompt);
PC__HOLDABLE(pc_prompt, pc__prompt_ref, pc_prompt_free)

/* The flags of options (NULL: none) of a call that knows `known`. */
pc_status pc__prompt_flags(uint64_t *flags, const char *call, const pc_prompt_options *options,
                           uint64_t known);

/* Owns `resolved` from now on, on failure too. */
pc_status pc__prompt_from_resolved(pc_prompt **out, const pc_schema *schema,
                                   pc__resolved *resolved);

/* A prompt of tokens alone. Owns the block of them from now on, on failure too. */
pc_status pc__prompt_own_tokens(pc_prompt **out, const pc_model *model, int32_t *tokens,
                                size_t count);

/* PC_ERR_INVALID with `call` in front: an id that the model's vocabulary does not have. */
pc_status pc__check_tokens(const pc_model *model, const char *call, const int32_t *tokens,
                           size_t count);

/* Position of a part's token; given segments may have gaps. */
int64_t pc__prompt_position(const pc_prompt *prompt, size_t part, size_t token);

/* A text of the schema without cache="false", or a block. */
static inline int pc__part_is_cached(const pc__prompt_part *part)
{
    return part->kind == PC__PART_CACHED;
}

#endif
