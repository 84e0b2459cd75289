/* The prompt handle: parts in position order, resolved against a schema, or the blocks of a run of
 * tokens. */
#ifndef PC_SERVE_PROMPT_H
#define PC_SERVE_PROMPT_H

#include "pml/resolve.h"
#include "serve/schema.h"

enum { PC__BLOCK_TOKENS = 64 }; /* of a prompt without PML; one block is one segment */

struct pc_prompt {
    atomic_size_t references;
    pc_model *model;
    pc_schema *schema;      /* NULL without PML */
    pc__resolved *resolved; /* NULL without PML */
    int32_t *tokens;        /* without PML: all of them, cut into `blocks` */
    pc__part *blocks;
    pc_span *given; /* [given_count] levels by hand: what the first parts are taken from */
    size_t given_count;
    int given_exact;       /* each of them has seen what stands before it, and nothing else */
    const pc__part *parts; /* of either */
    size_t part_count;
    int64_t end; /* where generation starts */
};

pc_prompt *pc__prompt_new(const pc_model *model); /* with nothing in it */
pc_prompt *pc__prompt_ref(const pc_prompt *prompt);
void pc__prompt_unref(pc_prompt *prompt);

/* Takes `resolved` over, on failure too. */
pc_status pc__prompt_from_resolved(pc_prompt **out, const pc_schema *schema,
                                   pc__resolved *resolved);

/* Where a token of a part stands; in segments by hand there may be gaps. */
int64_t pc__prompt_position(const pc_prompt *prompt, size_t part, size_t token);

/* Whether a part's states are kept: texts of the schema that are not cache="false", and blocks. */
static inline int pc__part_is_kept(const pc__part *part)
{
    return part->kind == PC__PART_CACHED;
}

#endif
