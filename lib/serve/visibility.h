/* What the tokens of a segment have seen, so that exactness travels with a segment: behind the very
 * tokens that it was computed behind, at the distances that they had, its states are those of a
 * plain prefill; anywhere else they are not.
 *
 * A segment whose sight is known has a digest of those tokens (pc_segment.saw). It gets it where it
 * is made by hand (pc_eval, pc_prefill) or taken out of an exact sequence (pc_sequence_spans), and
 * is asked for it where levels are put together by hand. The digest is over tokens, not over
 * segments: however a run of tokens is cut, it is the same. */
#ifndef PC_SERVE_VISIBILITY_H
#define PC_SERVE_VISIBILITY_H

#include "store/segment.h"

/* A run of spans, in the order of their positions. */
typedef struct pc__visibility {
    pc__digest digest;   /* of tokens and of their distances from the first */
    int64_t first, last; /* positions */
    size_t tokens;
    int exact; /* 0: some of them have not seen what stands before them here, or nobody knows */
} pc__visibility;

void pc__visibility_start(pc__visibility *sight);
/* Tokens [0, hi) of a segment at `start` (hi 0: all), the states of a model that we run ourselves.
 */
void pc__visibility_add(pc__visibility *sight, const pc_segment *segment, int64_t start,
                        uint32_t lo, uint32_t hi);
/* The same for spans in any order. */
pc_status pc__visibility_of(pc__visibility *sight, const pc_allocator *mem, const pc_span *spans,
                            size_t count);
/* The segment was computed at `start` behind all of it, and of nothing else; where that is not
 * exact, or not behind it, nothing is noted. */
pc_status pc__visibility_note(const pc__visibility *sight, pc_segment *segment, int64_t start);

#endif
