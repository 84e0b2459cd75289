/* Work memory: blocks that a computation takes and gives back within one call, such as activations.
 * The context holds a few that were given back for the next computation. Fresh memory would cost a
 * page fault every 4 KiB, in every layer. */
#ifndef PC_BASE_WORK_H
#define PC_BASE_WORK_H

#include "base/context.h"

/* 64-byte aligned; its contents are undefined. NULL: out of memory, with the error text. */
void *pc__work_take(pc_context *context, size_t bytes);
void pc__work_give(pc_context *context, void *block); /* NULL does nothing */

#endif
