/* The K/V runs of a pass: whether they can be read, and waiting for those that are still loading.
 */
#include "model/forward/forward_internal.h"

static pc_status note_stream(pc__forward_work *work, const pc__kv *kv)
{
    pc__layer_stream *stream = atomic_load_explicit(&((pc__kv *)(uintptr_t)kv)->stream,
                                                    memory_order_acquire);
    if (!stream)
        return PC_OK;
    for (size_t i = 0; i < work->stream_count; i++)
        if (work->streams[i] == stream)
            return PC_OK;
    PC__TRY_RETURN(pc__grow(&work->native->context->mem, (void **)&work->streams,
                            &work->stream_capacity, work->stream_count + 1,
                            sizeof(*work->streams)));
    work->streams[work->stream_count++] = stream;
    return PC_OK;
}

/* Lists a run of the host, if the backend reads a mirror of it. */
static pc_status note_mirrored(pc__forward_work *work, const pc__kv *kv)
{
    if (kv->home || pc__host_sees(work->native->backend))
        return PC_OK;
    for (size_t i = 0; i < work->mirrored_count; i++)
        if (work->mirrored[i] == kv)
            return PC_OK;
    PC__TRY_RETURN(pc__grow(&work->native->context->mem, (void **)&work->mirrored,
                            &work->mirrored_capacity, work->mirrored_count + 1,
                            sizeof(*work->mirrored)));
    work->mirrored[work->mirrored_count++] = (pc__kv *)(uintptr_t)kv;
    return PC_OK;
}

pc_status pc__list_runs(pc__forward_work *work, int32_t layers, uint64_t regime)
{
    const pc__rows *rows = &work->pass->attend;
    const pc__kv *last = NULL;
    int64_t last_start = 0;
    for (size_t i = rows->first[0]; i < rows->first[rows->count]; i++) {
        const pc__kv_span *span = &rows->spans[i];
        if (span->kv == last && span->start == last_start)
            continue;
        PC__TRY_RETURN(pc__native_may_place(work->native, span->kv, layers, span->start, regime));
        if (span->kv != last) {
            PC__TRY_RETURN(note_stream(work, span->kv));
            PC__TRY_RETURN(note_mirrored(work, span->kv));
        }
        last = span->kv;
        last_start = span->start;
    }
    for (size_t r = 0; r < rows->count; r++)
        PC__TRY_RETURN(pc__native_may_place(work->native, work->pass->rows[r].run, layers,
                                            work->pass->rows[r].run_start, regime));
    return PC_OK;
}

/* Whether a row of the block sees a key of the runs that `stream` loads, in this layer. */
static int sees(const pc__forward_work *work, const pc__attn_layer *layer,
                const pc__layer_stream *stream)
{
    const pc__rows *rows = &work->pass->attend;
    for (size_t r = work->first; r < work->first + work->rows; r++)
        for (size_t i = rows->first[r]; i < rows->first[r + 1]; i++) {
            const pc__kv_span *span = &rows->spans[i];
            uint32_t lo = span->lo, hi = span->hi;
            if (atomic_load(&((pc__kv *)(uintptr_t)span->kv)->stream) != stream)
                continue;
            pc__attn_visible(layer, span->kv, rows->positions[r], span->start, &lo, &hi);
            if (lo < hi)
                return 1;
        }
    return 0;
}

/* Mirrors get their layers in order, so they need all of them. */
pc_status pc__await_runs(const pc__forward_work *work, int32_t l)
{
    const pc__attn_layer layer = pc__attention_layer(work, l);
    int needs_all = (layer.window <= 0 && layer.chunk <= 0) || work->mirrored_count;
    for (size_t i = 0; i < work->stream_count; i++)
        if (needs_all || sees(work, &layer, work->streams[i]))
            PC__TRY_RETURN(work->streams[i]->await(work->streams[i], (size_t)l));
    return pc__kv_mirrors_fill(&work->hold, l);
}

pc_status pc__fetch_written(const pc__forward_work *work, int32_t layers)
{
    const pc__pass *pass = work->pass;
    pc__stream *stream = work->stream;
    size_t end;
    int any = 0;
    for (size_t r = 0; work->mirrored_count && r < pass->attend.count; r = end) {
        const pc__kv *run = pass->rows[r].run;
        size_t from = pass->rows[r].slot;
        for (end = r + 1; end < pass->attend.count && pass->rows[end].run == run;)
            end++;
        if (run->home)
            continue;
        pc__kv_mirror_fetch(stream, run, layers, from, pass->rows[end - 1].slot + 1);
        any = 1;
    }
    return any ? stream->ops->finish(stream) : PC_OK;
}
