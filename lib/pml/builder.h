/* Puts a tree of elements together, call by call. A call that fails changes nothing. */
#ifndef PC_PML_BUILDER_H
#define PC_PML_BUILDER_H

#include "pml/element.h"

typedef struct pc__builder {
    const pc_allocator *mem;
    pc__element *root;
    pc__element *open; /* gets what is added */
    size_t depth;      /* of `open`: 1 is the root */
    size_t count;      /* elements and texts so far, which numbers them */
} pc__builder;

/* `where`: in error texts, outlives the builder. */
pc_status pc__builder_start(pc__builder *b, const pc_allocator *mem, const char *root,
                            const char *where);
void pc__builder_free(pc__builder *b);

/* Of a public call `call`, with its checks of arguments. */
/* An element in the open one, which stays open. */
pc_status pc__builder_add(pc__builder *b, const char *call, const char *name, pc__element **out);
/* Opens the last child of the open element. PC_ERR_LIMIT: it is nested too deep. */
pc_status pc__builder_check_depth(const pc__builder *b, const char *call, size_t more);
void pc__builder_open_last(pc__builder *b);
/* Takes the last child of the open element back, after a failure. */
void pc__builder_drop_last(pc__builder *b);
/* PC_ERR_STATE: none is open. */
pc_status pc__builder_end(pc__builder *b, const char *call);
/* flags: PC_PROMPT_SPECIAL. */
pc_status pc__builder_add_text(pc__builder *b, const char *call, const char *text, size_t size,
                               uint64_t flags);
/* A reference to a module, in references to those around it. *last: its own element. */
pc_status pc__builder_use(pc__builder *b, const char *call, const char *path, pc__element **last);
/* A turn of a conversation: an element named by its role. */
pc_status pc__builder_begin_turn(pc__builder *b, const char *call, const char *role);
/* PC_ERR_STATE: something is open. */
pc_status pc__builder_check_closed(const pc__builder *b, const char *call);

#endif
