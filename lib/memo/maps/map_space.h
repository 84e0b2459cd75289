/* The room of a data file: what is given out, and the gaps between. Nothing here locks or touches
 * files.
 *
 * A gap knows how much of it may still take room on the disk (`solid`): removed records' bytes stay
 * there until a hole is punched. */
#ifndef PC_MEMO_MAP_ROOM_H
#define PC_MEMO_MAP_ROOM_H

#include "base/mem.h"

typedef struct pc__map_gap {
    uint64_t at, bytes, on_disk; /* solid <= bytes */
} pc__map_gap;

typedef struct pc__map_space { /* zero-initialised but for `end`: nothing is given out */
    pc__map_gap *gaps;         /* [count] by place; no two touch */
    size_t count, capacity;
    uint64_t end;     /* nothing was ever given out beyond */
    uint64_t taken;   /* bytes given out, in `pieces` */
    uint64_t on_disk; /* of all gaps */
    size_t pieces;
} pc__map_space;

/* So that one more piece can be taken and all can be given back without allocating. PC_ERR_NOMEM.
 */
pc_status pc__map_space_reserve(pc__map_space *room, const pc_allocator *mem);
void pc__map_space_free(pc__map_space *room, const pc_allocator *mem);

/* The smallest gap of at least `bytes` that comes after *last in the order (size, place); SIZE_MAX:
 * none. */
size_t pc__map_space_find(const pc__map_space *room, uint64_t bytes, const pc__map_gap *last);
/* The first `bytes` of a gap; what is left of it is taken for as solid as it can be. Returns where.
 */
uint64_t pc__map_space_take(pc__map_space *room, size_t index, uint64_t bytes);
uint64_t pc__map_space_append(pc__map_space *room,
                              uint64_t bytes); /* behind all that was ever given out */
/* How much more would lie on the disk after either (index SIZE_MAX: at the end); may be negative.
 */
int64_t pc__map_space_growth(const pc__map_space *room, size_t index, uint64_t bytes);
/* A piece that was taken comes back. */
void pc__map_space_return(pc__map_space *room, uint64_t at, uint64_t bytes, uint64_t on_disk);
uint64_t pc__map_space_used_end(const pc__map_space *room); /* where the last piece ends */
/* The end moves to there; not before the last piece's. */
void pc__map_space_truncate(pc__map_space *room, uint64_t end);
/* While a file is opened: this piece is in use; those before it, in the order of places, are known
 * already. */
void pc__map_space_claim(pc__map_space *room, uint64_t at, uint64_t bytes);

#endif
