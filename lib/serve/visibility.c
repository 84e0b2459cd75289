/* The digest of what segments have seen, over their tokens and distances. */
#include "serve/visibility.h"

#include <stdlib.h>

#include "serve/model_calls.h"

void pc__visibility_start(pc__visibility *visible)
{
    *visible = (pc__visibility){.exact = 1};
    pc__digest_start(&visible->digest, "visibility/1");
}

/* Names the tokens before a segment at `start`. */
static pc__id visible_id(const pc__visibility *visible, int64_t start)
{
    pc__digest digest = visible->digest;
    pc__digest_u64(&digest, visible->tokens);
    pc__digest_u64(&digest, visible->tokens ? (uint64_t)(start - visible->first) : 0);
    return pc__digest_end(&digest);
}

static int comes_behind(const pc__visibility *visible, int64_t start)
{
    return visible->exact && (!visible->tokens || start > visible->last);
}

void pc__visibility_add(pc__visibility *visible, const pc_segment *segment, int64_t start,
                        uint32_t lo, uint32_t hi)
{
    const pc__id *saw = pc__segment_visibility(segment);
    size_t end = hi ? hi : segment->tokens;
    pc__id id;
    visible->exact = comes_behind(visible, start) && saw && !lo && !pc__segment_is_lossy(segment);
    if (!visible->exact)
        return;
    id = visible_id(visible, start);
    visible->exact = pc__id_equal(saw, &id);
    if (!visible->tokens)
        visible->first = start;
    for (size_t i = 0; i < end; i++) {
        visible->last = start + pc__kv_relative(segment->payload, i);
        pc__digest_u64(&visible->digest, (uint64_t)(visible->last - visible->first));
        pc__digest_u64(&visible->digest, (uint32_t)segment->token_ids[i]);
    }
    visible->tokens += end;
}

static int by_span_start(const void *a, const void *b)
{
    int64_t x = (*(const pc_span *const *)a)->start, y = (*(const pc_span *const *)b)->start;
    return (x > y) - (x < y);
}

pc_status pc__visibility_of(pc__visibility *visible, const pc_allocator *mem, const pc_span *spans,
                            size_t count)
{
    const pc_span **sorted = pc__calloc(mem, count, sizeof(*sorted));
    pc__visibility_start(visible);
    if (!sorted)
        return PC_ERR_NOMEM;
    for (size_t i = 0; i < count; i++)
        sorted[i] = &spans[i];
    if (count > 1)
        qsort(sorted, count, sizeof *sorted, by_span_start);
    for (size_t i = 0; i < count && visible->exact; i++)
        pc__visibility_add(visible, sorted[i]->segment, sorted[i]->start, sorted[i]->lo,
                           sorted[i]->hi);
    pc__free(mem, sorted);
    return PC_OK;
}

pc_status pc__visibility_note(const pc__visibility *visible, pc_segment *segment, int64_t start)
{
    pc__id id;
    if (!comes_behind(visible, start))
        return PC_OK;
    id = visible_id(visible, start);
    return pc__segment_set_visibility(segment, &id);
}
