/* The visible prefix of segments, by which exactness travels with a segment. Behind the very tokens
 * that it was computed behind, at the same distances, its states are those of a plain prefill;
 * anywhere else they are not.
 *
 * Such a segment has a digest of those tokens (pc_segment.saw): from pc_eval, pc_prefill, or
 * pc_sequence_spans of an exact sequence. Prompts of given segments are checked by it. The digest
 * is over tokens, not segments, so it does not depend on how tokens are divided into segments. */
#ifndef PC_SERVE_VISIBILITY_H
#define PC_SERVE_VISIBILITY_H

#include "store/segment.h"

/* Spans in the order of their positions. */
typedef struct pc__visibility {
    pc__digest digest;   /* of tokens and of their distances from the first */
    int64_t first, last; /* positions */
    size_t tokens;
    int exact; /* each token has seen what stands before it; 0: not, or unknown */
} pc__visibility;

void pc__visibility_start(pc__visibility *visible);
/* Adds tokens [0, hi) of a native model's segment at `start` (hi 0: all). */
void pc__visibility_add(pc__visibility *visible, const pc_segment *segment, int64_t start,
                        uint32_t lo, uint32_t hi);
/* Of spans in any order. */
pc_status pc__visibility_of(pc__visibility *visible, const pc_allocator *mem, const pc_span *spans,
                            size_t count);
/* Notes in the segment that it was computed at `start` behind exactly these tokens. Does nothing if
 * they are not exact, or the segment does not stand behind them. */
pc_status pc__visibility_note(const pc__visibility *visible, pc_segment *segment, int64_t start);

#endif
