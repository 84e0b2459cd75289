/* A placed prompt is freed and forked. */
#include "serve/placed_prompt.h"

#include <string.h>

#include "serve/model_calls.h"

void pc__placed_prompt_end(pc__placed_prompt *placed, const pc_model *model)
{
    pc__call_drop(model, placed->sequence);
    for (size_t i = 0; i < placed->segment_count; i++)
        pc__segment_unref(placed->segments[i]);
    pc__free(&model->context->mem, placed->segments);
    pc__free(&model->context->mem, placed->own.tokens);
    memset(placed, 0, sizeof *placed);
}

pc_status pc__placed_prompt_fork(pc__placed_prompt *to, const pc__placed_prompt *from,
                                 const pc_model *model, pc_cache *cache)
{
    const pc_allocator *mem = &model->context->mem;
    *to = (pc__placed_prompt){.next_position = from->next_position,
                              .own = {.last = from->own.last}};
    to->segments = pc__calloc(mem, from->segment_count, sizeof(*to->segments));
    to->own.tokens = pc__calloc(mem, from->own.count, sizeof *to->own.tokens);
    if (!to->segments || !to->own.tokens)
        return PC_ERR_NOMEM;
    for (size_t i = 0; i < from->segment_count; i++)
        to->segments[to->segment_count++] = pc__segment_ref(from->segments[i]);
    if (from->own.count)
        memcpy(to->own.tokens, from->own.tokens, from->own.count * sizeof *to->own.tokens);
    to->own.count = from->own.count;
    return pc__call_fork(model, cache, from->sequence, &to->sequence);
}
