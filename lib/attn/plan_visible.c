/* Which keys of a span a layer shows to a row: windows and chunks. */
#include "attn/plan.h"

int64_t pc__chunk_inside(int64_t position, int64_t chunk)
{
    int64_t inside = position % chunk;
    return inside < 0 ? inside + chunk : inside;
}

void pc__attn_visible(const pc__attn_layer *layer, const pc__kv *kv, int64_t position,
                      int64_t start, uint32_t *lo, uint32_t *hi)
{
    uint32_t from = 0, to = UINT32_MAX;
    if (layer->window > 0)
        from = (uint32_t)pc__kv_upto(kv, position - start - layer->window);
    if (layer->chunk > 0) {
        int64_t first = position - pc__chunk_inside(position, layer->chunk) - start;
        uint32_t before = (uint32_t)pc__kv_upto(kv, first - 1);
        from = before > from ? before : from;
        to = (uint32_t)pc__kv_upto(kv, first + layer->chunk - 1);
    }
    *lo = from > *lo ? from : *lo;
    *hi = to < *hi ? to : *hi;
    *hi = *hi < *lo ? *lo : *hi;
}
