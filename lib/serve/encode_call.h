/* The arguments of an encode call under construction: new tokens at positions, and the segments
 * that they see. */
#ifndef PC_SERVE_ENCODE_CALL_H
#define PC_SERVE_ENCODE_CALL_H

#include "store/segment.h"

typedef struct pc__encode_call {
    pc_encode_args args; /* ranges: the tokens that become segments */
    int32_t *tokens;     /* the arrays of args */
    int64_t *positions;
    pc_token_range *ranges;
    pc_span *visible;
    pc_segment **segments; /* [args.range_count] room for the result; those left are unreferenced */
    int stored;            /* 1: in the format in which the model's segments are stored */
    pc__id key;            /* of its first segment */
    /* Of a gather, whose parts it computes: those of a unit, or [first, end). */
    struct pc__gather *gather;
    size_t unit, first, end;
    double started;
    int overtaken; /* loads have come meanwhile: it was stopped */
} pc__encode_call;

/* With room for so much. To be ended, on failure too. */
pc_status pc__encode_call_init(pc__encode_call *call, const pc_allocator *mem, size_t tokens,
                               size_t ranges, size_t visible);
void pc__encode_call_end(pc__encode_call *call, const pc_allocator *mem);
/* The new tokens see the segment at `start`. */
void pc__encode_call_see(pc__encode_call *call, const pc_segment *segment, int64_t start);
/* `is_range`: the tokens become a segment. */
void pc__encode_call_add(pc__encode_call *call, const int32_t *tokens, size_t count, int64_t start,
                         int is_range);

#endif
