/* Builds the arguments of an encode call. */
#include "serve/encode_call.h"

#include <string.h>

pc_status pc__encode_call_init(pc__encode_call *c, const pc_allocator *mem, size_t tokens,
                               size_t ranges, size_t visible)
{
    memset(c, 0, sizeof *c);
    c->args.struct_size = sizeof c->args;
    c->args.range_stride = sizeof *c->ranges;
    c->args.visible_stride = sizeof *c->visible;
    c->args.tokens = c->tokens = pc__calloc(mem, tokens, sizeof *c->tokens);
    c->args.positions = c->positions = pc__calloc(mem, tokens, sizeof *c->positions);
    c->args.ranges = c->ranges = pc__calloc(mem, ranges, sizeof *c->ranges);
    c->args.visible = c->visible = pc__calloc(mem, visible, sizeof *c->visible);
    c->segments = pc__calloc(mem, ranges, sizeof(*c->segments));
    return c->tokens && c->positions && c->ranges && c->visible && c->segments ? PC_OK
                                                                               : PC_ERR_NOMEM;
}

void pc__encode_call_end(pc__encode_call *c, const pc_allocator *mem)
{
    for (size_t i = 0; c->segments && i < c->args.range_count; i++)
        pc__segment_unref(c->segments[i]);
    pc__free(mem, c->tokens);
    pc__free(mem, c->positions);
    pc__free(mem, c->ranges);
    pc__free(mem, c->visible);
    pc__free(mem, c->segments);
}

void pc__encode_call_see(pc__encode_call *c, const pc_segment *segment, int64_t start)
{
    c->visible[c->args.visible_count++] = (pc_span){segment->payload, start, 0,
                                                    (uint32_t)segment->tokens};
}

void pc__encode_call_add(pc__encode_call *c, const int32_t *tokens, size_t count, int64_t start,
                         int is_range)
{
    if (is_range)
        c->ranges[c->args.range_count++] = (pc_token_range){c->args.count, count};
    memcpy(c->tokens + c->args.count, tokens, count * sizeof *tokens);
    for (size_t t = 0; t < count; t++)
        c->positions[c->args.count++] = start + (int64_t)t;
}
