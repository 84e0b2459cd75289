/* Temporary runs of expanded keys and values, and attention to them, a group of heads at a time
 * (forward_expand.h). */
#include "model/forward/forward_expand_internal.h"

enum {
    RUN_BYTES = 64 << 20, /* pc__native.expansion_bytes */
    PAGES = 4             /* that are projected at once */
};

/* All heads are so many groups. */
static size_t heads_of_group(const pc__forward_work *work, const pc__kv_shape *one_head)
{
    const pc__expand_work *e = &work->latent.expand;
    size_t heads = (size_t)work->native->arch.heads, groups = 1, pages = 0,
           bytes = work->native->expansion_bytes ? work->native->expansion_bytes : RUN_BYTES;
    for (size_t i = 0; i < e->runs.count; i++)
        pages += pc__expand_pages(&e->runs.run[i]);
    size_t fit = bytes / (pages * pc__kv_page_bytes(one_head) + 1);
    while (groups < heads && (heads % groups || heads / groups > fit))
        groups++;
    return heads / groups;
}

static void lay_out(const pc__forward_work *work, size_t rows, pc__expand_work *e,
                    const pc__floats *slab, size_t *used)
{
    const pc__arch *arch = &work->native->arch;
    size_t group = (size_t)e->shape.kv_heads, head = (size_t)arch->head_dim,
           v_dim = (size_t)arch->v_dim, tokens = PAGES * PC__PAGE, rank = (size_t)arch->latent.rank;
    e->q = pc__floats_carve(slab, used, rows * group * head);
    e->out = pc__floats_carve(slab, used, rows * group * v_dim);
    e->opened = pc__floats_carve(slab, used, tokens * (rank + (size_t)arch->latent.rotated));
    e->latents = pc__floats_carve(slab, used, tokens * rank);
    e->plain = pc__floats_carve(slab, used, tokens * group * (size_t)arch->latent.plain);
    e->values = pc__floats_carve(slab, used, tokens * group * v_dim);
    e->scratch = pc__floats_carve(slab, used, work->native->context->threads * PC__PAGE * head);
}

static pc_status make_runs(const pc__forward_work *work, pc__expand_work *e)
{
    for (size_t i = 0; i < e->runs.count; i++) {
        pc__expanded_run *run = &e->runs.run[i];
        PC__TRY_RETURN(pc__kv_new_unset(&run->to, &work->native->context->mem, &e->shape,
                                        run->from->tokens, run->from->relative));
    }
    return PC_OK;
}

pc_status pc__expand_runs(pc__forward_work *work, pc__pass_build *rows)
{
    const pc__native *native = work->native;
    pc__expand_work *e = &work->latent.expand;
    size_t used = 0;
    for (size_t i = 0; i < rows->span_count; i++)
        PC__TRY_RETURN(pc__expand_note(&native->context->mem, &e->runs, &rows->spans[i]));
    e->shape = (pc__kv_shape){1,
                              1,
                              native->arch.head_dim,
                              native->arch.v_dim,
                              native->compute == PC_DTYPE_BF16 ? PC_DTYPE_BF16 : PC_DTYPE_F32,
                              0};
    e->shape.kv_heads = (int32_t)heads_of_group(work, &e->shape);
    PC__TRY_RETURN(make_runs(work, e));
    for (size_t i = 0; i < rows->span_count; i++) {
        PC__TRY_RETURN(pc__expand_note(&native->context->mem, &e->runs, &rows->spans[i]));
        rows->spans[i].kv = e->runs.run[e->runs.last].to;
    }
    lay_out(work, rows->count, e, NULL, &used);
    e->slab = native->backend->ops->take(native->backend, used * sizeof(float));
    if (!e->slab)
        return PC_ERR_NOMEM;
    used = 0;
    lay_out(work, rows->count, e, e->slab, &used);
    return PC_OK;
}

void pc__expand_end(pc__forward_work *work)
{
    pc__expand_work *e = &work->latent.expand;
    uint8_t *chosen = e->chosen;
    pc__row_plan_free(e->plan);
    for (size_t i = 0; i < e->runs.count; i++)
        pc__kv_unref(e->runs.run[i].to);
    pc__free(&work->native->context->mem, e->runs.run);
    work->native->backend->ops->give(work->native->backend, e->slab);
    *e = (pc__expand_work){.chosen = chosen};
}

/* Keys and values of heads [head, head + group) of some pages. */
static pc_status expand_pages(pc__forward_work *work, const pc__latent_pages *pages, size_t head)
{
    const pc__expand_work *e = &work->latent.expand;
    const pc__backend_ops *ops = work->stream->ops;
    const pc__native_latent *weights = &work->native->layers[pages->layer].latent;
    size_t group = (size_t)e->shape.kv_heads, tokens = pages->pages * PC__PAGE,
           rank = (size_t)work->native->arch.latent.rank,
           plain = (size_t)work->native->arch.latent.plain, v_dim = (size_t)e->shape.v_dim;
    const pc__head_rows from = {e->latents, 0, rank}, keys = {e->plain, tokens * plain, plain},
                        values = {e->values, tokens * v_dim, v_dim};
    ops->open_latents(work->stream, pages);
    PC__TRY_RETURN(
        ops->linear_heads(work->stream, weights->k_up + head, group, tokens, &from, &keys));
    PC__TRY_RETURN(
        ops->linear_heads(work->stream, weights->v_b + head, group, tokens, &from, &values));
    ops->fill_heads(work->stream, pages);
    return PC_OK;
}

static pc_status expand_run(pc__forward_work *work, const pc__expanded_run *run, int32_t layer,
                            size_t head)
{
    const pc__expand_work *e = &work->latent.expand;
    size_t first = run->lo / PC__PAGE, end = first + pc__expand_pages(run);
    for (; first < end; first += PAGES) {
        size_t pages = end - first < PAGES ? end - first : PAGES;
        const pc__latent_pages some = {run->from, run->to,    layer,    first,     pages,
                                       e->opened, e->latents, e->plain, e->values, e->scratch};
        PC__TRY_RETURN(expand_pages(work, &some, head));
    }
    return PC_OK;
}

/* Queries of a group, [row][head of the group][rotated, plain]. */
static void take_queries(pc__forward_work *work, size_t first_head)
{
    const pc__expand_work *e = &work->latent.expand;
    const pc__backend_ops *ops = work->stream->ops;
    const pc__arch *arch = &work->native->arch;
    size_t heads = (size_t)arch->heads, head = (size_t)arch->head_dim,
           plain = (size_t)arch->latent.plain, rotated = (size_t)arch->latent.rotated,
           group = (size_t)e->shape.kv_heads, to_row = 0;
    pc__row_range range;
    for (size_t at = 0; (range = pc__expand_next(work, 1, &at)).count; to_row += range.count)
        for (size_t h = 0; h < group; h++) {
            const pc__floats *from = pc__floats_at(work->latent.q,
                                                   (range.first * heads + first_head + h) * head);
            pc__floats *to = pc__floats_at(e->q, (to_row * group + h) * head);
            ops->columns(work->stream, pc__floats_at(from, plain), heads * head, range.count,
                         rotated, to, group * head);
            ops->columns(work->stream, from, heads * head, range.count, plain,
                         pc__floats_at(to, rotated), group * head);
        }
}

static void put_results(pc__forward_work *work, size_t first_head)
{
    const pc__expand_work *e = &work->latent.expand;
    size_t v_dim = (size_t)e->shape.v_dim, width = (size_t)e->shape.kv_heads * v_dim,
           all = (size_t)work->native->arch.heads * v_dim, from_row = 0;
    pc__row_range range;
    for (size_t at = 0; (range = pc__expand_next(work, 1, &at)).count; from_row += range.count)
        work->stream->ops->columns(
            work->stream, pc__floats_at(e->out, from_row * width), width, range.count, width,
            pc__floats_at(work->latent.values, range.first * all + first_head * v_dim), all);
}

static pc_status attend_group(pc__forward_work *work, const pc__attn_layer *what, size_t head)
{
    pc__expand_work *e = &work->latent.expand;
    pc__attn_layer part = *what;
    part.layer = 0;
    part.heads = e->shape.kv_heads;
    part.slopes = what->slopes ? what->slopes + head : NULL;
    part.sinks = what->sinks ? what->sinks + head : NULL;
    for (size_t i = 0; i < e->runs.count; i++)
        PC__TRY_RETURN(expand_run(work, &e->runs.run[i], what->layer, head));
    take_queries(work, head);
    PC__TRY_RETURN(work->stream->ops->attend(work->stream, e->plan, &part, e->q, e->out, NULL));
    put_results(work, head);
    return PC_OK;
}

pc_status pc__expand_attend(pc__forward_work *work, const pc__attn_layer *what)
{
    const pc__expand_work *e = &work->latent.expand;
    size_t heads = (size_t)what->heads;
    for (size_t head = 0; e->plan && head < heads; head += (size_t)e->shape.kv_heads)
        PC__TRY_RETURN(attend_group(work, what, head));
    return PC_OK;
}
