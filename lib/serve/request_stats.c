/* The statistics of a request: tokens by source, the reason of the first miss, and exactness. */
#include "serve/model_calls.h"
#include "serve/request.h"

void pc__request_missed(pc__request *r, size_t part, uint32_t reason)
{
    if (part < r->missed_part) {
        r->missed_part = part;
        r->stats.miss_reason = reason;
    }
}

/* The reason and the level that the caller's options give by themselves. */
static void judge_options(pc__request *r)
{
    int baseline = pc__request_reuses_nothing(r) || r->bench->baseline == PC_BASELINE_PLAN;
    if (!baseline && r->options->repair != PC_REPAIR_FULL)
        return;
    r->stats.exactness = PC_EXACT;
    r->stats.repair = baseline ? PC_REPAIR_NONE : PC_REPAIR_FULL;
    if (r->missed_part != SIZE_MAX)
        r->stats.miss_reason = baseline ? PC_REASON_NOT_WANTED : PC_REASON_REPAIR;
}

void pc__request_judge(pc__request *r)
{
    for (size_t p = 0; p < r->prompt->part_count; p++) {
        const pc__prompt_part *part = &r->prompt->parts[p];
        if (pc__part_is_given(part) && part->count
            && (pc__request_reuses_nothing(r) || !pc__part_is_cached(part)))
            pc__request_missed(r, p, PC_REASON_UNCACHED);
    }
    judge_options(r);
}

static void count_part(pc__request *r, size_t p, uint64_t again)
{
    const pc__prompt_part *part = &r->prompt->parts[p];
    const pc__request_part *have = &r->parts[p];
    pc_stats *s = &r->stats;
    if (part->kind == PC__PART_UNCACHED)
        s->tokens_uncached += part->count;
    if (!pc__part_is_given(part) && !have->hit) {
        s->tokens_new += part->count;
    } else if (part->kind == PC__PART_UNCACHED || !have->segment) {
        s->tokens_encoded += part->count;
    } else if (s->repair == PC_REPAIR_FULL) {
        s->tokens_repaired += part->count;
    } else {
        uint64_t reused = part->count - again;
        s->tokens_repaired += again;
        *(have->hit ? &s->tokens_cached : &s->tokens_encoded) += reused;
        if (have->hit)
            s->tokens_tier[have->tier % PC_TIER_COUNT] += reused;
        if (have->hit && part->count)
            s->bytes_reused += have->segment->bytes / part->count * reused;
    }
}

/* States that were rounded for keeping are not those of a prefill, whatever they have seen. */
static void judge_format(pc__request *r, const pc_segment *segment)
{
    if (pc__segment_is_lossy(segment))
        r->stats.exactness = PC_APPROXIMATE;
    r->stats.lossy |= segment->lossy;
    r->stats.other_kernels |= segment->other_kernels;
}

void pc__request_count(pc__request *r)
{
    for (size_t p = 0; p < r->prompt->part_count; p++) {
        uint64_t again = 0;
        for (size_t t = r->parts[p].first; t < r->parts[p + 1].first; t++)
            again += r->again[t];
        if (r->parts[p].segment && again < r->prompt->parts[p].count)
            judge_format(r, r->parts[p].segment);
        count_part(r, p, again);
    }
}
