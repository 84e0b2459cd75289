/* What a segment is called: a 256-bit digest over everything that can change its states
 * (doc/format.md, "Identity", with test vectors). Not its placement, unless the model's states
 * cannot be moved.
 *
 * A name is made in two steps, so that the long common part is digested once a request and not once
 * a segment: base    = all that the segments of one model, mode and salt have in common segment =
 * base, what it saw, where it was computed (if that matters), its tokens What it saw is named by
 * the last segment before it and how far before it that starts: in every mode a segment sees
 * whatever the one before it saw, and that one's name tells it in turn. */
#ifndef PC_STORE_KEY_H
#define PC_STORE_KEY_H

#include <promptcache.h>
#include <promptcache/extend.h>

#include "base/digest.h"

/* `parts` are valid (pc_key_base checks them); struct_size is not looked at. */
pc__id pc__base_key(const pc_key_parts *parts);

/* `before`: the last segment that it saw (NULL: it saw nothing but itself), which starts `distance`
 * positions before it; `offset`: position at which it was computed if it cannot be moved, else 0;
 * `relative`: positions of its tokens relative to the first, NULL: 0, 1, 2 …. */
pc__id pc__segment_key(const pc__id *base, const pc__id *parent, int64_t distance, int64_t offset,
                       const int32_t *tokens, const int64_t *relative, size_t count);

#endif
