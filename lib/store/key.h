/* The key of a segment: a 256-bit digest of all that can change its states (doc/format.md,
 * "Identity", with test vectors). Placement is no part of it, unless the model's states cannot be
 * moved.
 *
 * The common part is digested once a request:
 *   base    = what all segments of one model, mode and salt have in common
 *   segment = base, parent, position (if the states cannot be moved), tokens
 *
 * The parent is the last segment that this one saw. That is enough: in every mode a segment sees
 * all that its parent saw, and the parent's key names that. */
#ifndef PC_STORE_KEY_H
#define PC_STORE_KEY_H

#include <promptcache.h>
#include <promptcache/extend.h>
#include <promptcache/cache.h>

#include "base/digest.h"

/* `parts` are valid (pc_key_base checks them); struct_size is ignored. */
pc__id pc__base_key(const pc_key_parts *parts);

/* parent: key of the last segment that it saw, or NULL; it starts `distance` positions earlier.
 * offset: position at which the segment was computed if it cannot be moved, else 0. relative:
 * positions of its tokens relative to the first; NULL: 0, 1, 2 …. */
pc__id pc__segment_key(const pc__id *base, const pc__id *parent, int64_t distance, int64_t offset,
                       const int32_t *tokens, const int64_t *relative, size_t count);

#endif
