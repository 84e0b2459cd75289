/* pc_sequence_spans: the states of a sequence as segments at their positions. */
#include "attn/kv.h"
#include "model/model_states.h"
#include "serve/model_calls.h"
#include "serve/sequence.h"
#include "serve/visibility.h"

pc_segment *pc__sequence_attached(const pc_sequence *s, const pc__kv *kv)
{
    for (size_t i = 0; i < s->placed.segment_count; i++)
        if (s->placed.segments[i]->payload == kv)
            return pc__segment_ref(s->placed.segments[i]);
    return NULL;
}

int32_t pc__sequence_own_token(const pc_sequence *s, size_t n)
{
    size_t prompt = s->placed.own.count - (s->again != 0);
    return n < prompt ? s->placed.own.tokens[n] : s->tokens[n - prompt];
}

/* An own run as a segment; a copy, if the run holds more tokens than the sequence sees. */
static pc_status own_segment(const pc_sequence *s, const pc__sequence_span *span, size_t first,
                             pc_segment **out)
{
    int32_t *ids = pc__calloc(s->mem, span->hi, sizeof *ids);
    pc__kv *kv = NULL;
    pc_status status;
    if (!ids)
        return PC_ERR_NOMEM;
    for (uint32_t i = 0; i < span->hi; i++)
        ids[i] = pc__sequence_own_token(s, first + i);
    if (span->hi == span->kv->tokens) {
        kv = pc__kv_ref(span->kv);
    } else {
        PC__TRY(pc__kv_copy(&kv, span->kv), done);
        pc__kv_truncate(kv, span->hi);
    }
    PC__TRY(pc__wrap_segment(out, s->model, kv, 0, ids, span->hi), done);
    if (s->stats.tokens_memo || s->generation.bench.baseline == PC_BASELINE_NO_ATTENTION)
        (*out)->lossy = 1; /* some of it has seen other maps, or nothing */
done:
    pc__free(s->mem, ids);
    return status;
}

static pc_status make_spans(const pc_sequence *s, const pc__sequence_span *seen, size_t n,
                            pc_span *spans)
{
    size_t own = 0, made = 0;
    pc_status status = PC_OK;
    pc__visibility visible;
    pc__visibility_start(&visible);
    visible.exact = s->stats.exactness == PC_EXACT;
    for (size_t i = 0; i < n && status >= 0; i++) {
        pc_segment *segment = NULL;
        if (seen[i].hi <= seen[i].lo)
            continue;
        if (!seen[i].own)
            segment = pc__sequence_attached(s, seen[i].kv);
        else
            status = own_segment(s, &seen[i], own, &segment);
        own += seen[i].own ? seen[i].hi : 0;
        if (status >= 0 && !segment)
            status = pc__fail(PC_ERR_INTERNAL, "pc_sequence_spans: span %zu has no segment", i);
        if (status < 0)
            continue;
        spans[made++] = (pc_span){segment, seen[i].start, seen[i].lo, seen[i].hi};
        status = pc__visibility_note(&visible, segment, seen[i].start);
        if (visible.exact)
            pc__visibility_add(&visible, segment, seen[i].start, seen[i].lo, seen[i].hi);
    }
    for (; status < 0 && made; made--)
        pc__segment_unref(spans[made - 1].segment);
    return status;
}

static pc_status check_sequence(pc_sequence *s, const pc__array *array, const pc_span *spans,
                                size_t stride, size_t capacity, const size_t *count)
{
    if (!s || !count)
        return pc__fail(PC_ERR_INVALID, "pc_sequence_spans: sequence or count is NULL");
    PC__TRY_RETURN(pc__array_check(array, spans, stride, capacity));
    PC__TRY_RETURN(pc__model_check_native(s->model, "pc_sequence_spans"));
    return pc__sequence_check(s, 1, "pc_sequence_spans");
}

/* The spans in the caller's array, whose elements may be of another size than ours. */
static pc_status give_spans(const pc_sequence *s, const pc__sequence_span *seen, size_t n,
                            const pc__array *array, pc_span *spans, size_t stride, size_t count)
{
    pc_span *made = pc__calloc(s->mem, count, sizeof *made);
    pc_status status = made ? make_spans(s, seen, n, made) : PC_ERR_NOMEM;
    for (size_t i = 0; status >= 0 && i < count; i++)
        pc__array_out(array, spans, stride, i, &made[i]);
    pc__free(s->mem, made);
    return status;
}

pc_status pc_sequence_spans(pc_sequence *sequence, pc_span *spans, size_t span_stride,
                            size_t capacity, size_t *count)
{
    PC__HOLD(pc_sequence, sequence);
    const pc__array *array = PC__ARRAY("pc_sequence_spans", "spans", pc_span, hi);
    pc__sequence_span *seen;
    size_t n, full = 0;
    pc_status status = PC_OK;
    if (count)
        *count = 0;
    PC__TRY_RETURN(check_sequence(sequence, array, spans, span_stride, capacity, count));
    n = pc__model_sequence_spans(sequence->placed.sequence, NULL);
    seen = pc__calloc(sequence->mem, n, sizeof *seen);
    if (!seen)
        return PC_ERR_NOMEM;
    pc__model_sequence_spans(sequence->placed.sequence, seen);
    for (size_t i = 0; i < n; i++)
        full += seen[i].hi > seen[i].lo;
    *count = full;
    if (spans && full > capacity) {
        status = pc__fail(PC_ERR_LIMIT, "pc_sequence_spans: %zu spans, there is room for %zu", full,
                          capacity);
    } else if (spans) {
        pc__model_sequence_freeze(sequence->placed.sequence);
        status = give_spans(sequence, seen, n, array, spans, span_stride, full);
    }
    pc__free(sequence->mem, seen);
    return status;
}
