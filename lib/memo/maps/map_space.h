/* The room of a data file: extents that are given out, and the gaps between them. Nothing here
 * locks or touches files.
 *
 * A gap knows how many of its bytes may occupy the disk (`on_disk`): those of removed records do,
 * until a hole is punched. */
#ifndef PC_MEMO_MAP_SPACE_H
#define PC_MEMO_MAP_SPACE_H

#include "base/mem.h"

typedef struct pc__map_gap {
    uint64_t at, bytes, on_disk; /* on_disk <= bytes */
} pc__map_gap;

typedef struct pc__map_space { /* zero-initialise, but for `end` */
    pc__map_gap *gaps;         /* [count] by offset; no two touch */
    size_t count, capacity;
    uint64_t end;     /* all extents lie before it */
    uint64_t taken;   /* bytes given out, in `pieces` extents */
    uint64_t on_disk; /* in all gaps */
    size_t pieces;
} pc__map_space;

/* Makes room, so that taking one more extent and returning all cannot fail. */
pc_status pc__map_space_reserve(pc__map_space *space, const pc_allocator *mem);
void pc__map_space_free(pc__map_space *space, const pc_allocator *mem);

/* The smallest gap of at least `bytes` behind *last in the order (size, offset). SIZE_MAX: none. */
size_t pc__map_space_find(const pc__map_space *space, uint64_t bytes, const pc__map_gap *last);
/* Takes the first `bytes` of a gap, or bytes at `end` (index SIZE_MAX), and returns their offset.
 * The rest of the gap counts as on disk as far as it can. */
uint64_t pc__map_space_take(pc__map_space *space, size_t index, uint64_t bytes);
/* How many more bytes would occupy the disk after taking them. May be negative. */
int64_t pc__map_space_growth(const pc__map_space *space, size_t index, uint64_t bytes);
/* Gives an extent back. */
void pc__map_space_return(pc__map_space *space, uint64_t at, uint64_t bytes, uint64_t on_disk);
uint64_t pc__map_space_used_end(const pc__map_space *space); /* end of the last extent */
/* Moves `end` back, at most to the end of the last extent. */
void pc__map_space_truncate(pc__map_space *space, uint64_t end);
/* While a file is opened: takes an extent behind all that are taken. */
void pc__map_space_claim(pc__map_space *space, uint64_t at, uint64_t bytes);

#endif
