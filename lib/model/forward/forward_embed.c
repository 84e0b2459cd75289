/* The two ends of a pass: tokens to the residual stream, residual stream to logits. Also the input
 * of the first layer alone, without a pass. */
#include "model/forward/forward_internal.h"
#include "model/model_states.h"

static pc_status check_row(const pc__native *native, const pc__token_row *row)
{
    int64_t place = row->position + native->arch.position_offset;
    if (row->token < 0 || (size_t)row->token >= native->embedding.rows)
        return pc__fail(PC_ERR_INVALID, "token %d is not in the vocabulary of %zu tokens",
                        row->token, native->embedding.rows);
    if (row->position < 0)
        return pc__fail(PC_ERR_INVALID, "token %d has the negative position %lld", row->token,
                        (long long)row->position);
    if (native->positions.rows && (place < 0 || (uint64_t)place >= native->positions.rows))
        return pc__fail(PC_ERR_LIMIT,
                        "position %lld is too large: the model has learned %zu positions",
                        (long long)row->position,
                        native->positions.rows - (size_t)native->arch.position_offset);
    if (row->type < 0 || (row->type && (size_t)row->type >= native->encoder.types.rows))
        return pc__fail(PC_ERR_INVALID, "token type %d does not exist: the model has %zu",
                        row->type, native->encoder.types.rows);
    return PC_OK;
}

/* Adds the embeddings of position and type. */
static void add_learned(const pc__forward_work *work, pc__floats *x)
{
    const pc__native *native = work->native;
    const pc__token_row *rows = work->pass->rows + work->first;
    pc__stream *stream = work->stream;
    uint32_t *at = work->numbers;
    if (native->positions.table) {
        for (size_t r = 0; r < work->rows; r++)
            at[r] = (uint32_t)(rows[r].position + native->arch.position_offset);
        stream->ops->look_up(stream, native->positions.table, at, work->rows, 1, x);
    }
    if (native->encoder.types.table) {
        for (size_t r = 0; r < work->rows; r++)
            at[r] = (uint32_t)rows[r].type;
        stream->ops->look_up(stream, native->encoder.types.table, at, work->rows, 1, x);
    }
}

pc_status pc__embed_rows(pc__forward_work *work)
{
    const pc__native *native = work->native;
    pc__stream *stream = work->stream;
    pc__floats *x = pc__residual_begin(work), *to = work->narrow ? work->narrow : x;
    for (size_t r = 0; r < work->rows; r++) {
        const pc__token_row *row = &work->pass->rows[work->first + r];
        PC__TRY_RETURN(check_row(native, row));
        work->numbers[r] = (uint32_t)row->token;
    }
    stream->ops->look_up(stream, native->embedding.table, work->numbers, work->rows, 0, to);
    if (native->arch.embedding_scale > 0)
        stream->ops->pointwise(stream, PC__SCALE, native->arch.embedding_scale, to,
                               work->rows * native->embedding.dim);
    if (work->narrow)
        PC__TRY_RETURN(pc__stream_linear(stream, native->project_in, work->narrow, work->rows, x));
    add_learned(work, x);
    pc__apply_norm(work, &native->embedding_norm, x, work->rows, x);
    return PC_OK;
}

/* h = the final norm of the rows that want logits, without gaps. Returns how many there are. */
static size_t norm_logit_rows(pc__forward_work *work)
{
    const pc__native_norm *norm = &work->native->final_norm;
    size_t n = 0;
    for (size_t r = 0; r < work->rows; r++)
        if (work->all_wanted || work->pass->rows[work->first + r].want_logits)
            work->numbers[n++] = (uint32_t)r;
    if (n == work->rows) {
        pc__residual_norm(work, norm, work->h);
    } else if (n) {
        work->stream->ops->gather(work->stream, pc__residual_x(work), work->numbers, n,
                                  (size_t)work->native->arch.hidden, work->h);
        pc__apply_norm(work, norm, work->h, n, work->h);
    }
    return n;
}

static pc_status run_head(pc__forward_work *work, size_t n, pc__floats *logits)
{
    const pc__arch *arch = &work->native->arch;
    pc__stream *stream = work->stream;
    const pc__floats *in = work->h;
    size_t count = n * (size_t)arch->vocab;
    if (work->native->project_out) {
        PC__TRY_RETURN(pc__stream_linear(stream, work->native->project_out, in, n, work->narrow));
        in = work->narrow;
    }
    PC__TRY_RETURN(pc__stream_linear(stream, work->native->head, in, n, logits));
    if (arch->logit_scale > 0)
        stream->ops->pointwise(stream, PC__SCALE, arch->logit_scale, logits, count);
    if (arch->logit_cap > 0)
        stream->ops->pointwise(stream, PC__SOFT_CAP, arch->logit_cap, logits, count);
    return PC_OK;
}

/* Those of the pass from rows [first, first + n) of its logits. */
static pc__draws draws_of_rows(const pc__draws *all, size_t first, size_t n)
{
    pc__draws some = {.first = first};
    size_t from = 0, end;
    if (!all)
        return some;
    while (from < all->count && all->list[from].row < first)
        from++;
    for (end = from; end < all->count && all->list[end].row < first + n;)
        end++;
    some.list = all->list + from;
    some.count = end - from;
    some.likely = all->likely;
    some.drawn = pc__drawn_at(all, from);
    return some;
}

/* Logits of n rows of h: to the host, or only what is drawn from them. */
static pc_status write_logits(pc__forward_work *work, size_t n)
{
    size_t vocab = (size_t)work->native->arch.vocab, first = work->logits_done, row = 0;
    const pc__draws draws = draws_of_rows(work->pass->draws, first, n);
    float *to = work->pass->logits + first * vocab;
    pc__stream *stream = work->stream;
    pc__floats *logits = pc__stream_output(stream, to, n * vocab);
    if (!logits)
        return PC_ERR_NOMEM;
    work->logits = (void *)logits == to ? NULL : logits;
    work->logits_done += n;
    PC__TRY_RETURN(run_head(work, n, logits));
    for (size_t i = 0; work->logits && i <= draws.count; i++) {
        size_t end = i < draws.count ? draws.list[i].row - first : n;
        if (end > row)
            stream->ops->copy(stream, to + row * vocab, pc__floats_at(logits, row * vocab),
                              (end - row) * vocab * sizeof *to);
        row = end + 1;
    }
    if (draws.count)
        stream->ops->sample(stream, logits, vocab, &draws);
    return PC_OK;
}

/* The final hidden rows of the block, where they are asked for. */
static pc_status show_final(pc__forward_work *work)
{
    const pc__pass *pass = work->pass;
    size_t hidden = (size_t)work->native->arch.hidden;
    if (!pass->trace && !pass->final)
        return PC_OK;
    pc__residual_norm(work, &work->native->final_norm, work->h);
    if (pass->final)
        work->stream->ops->copy(work->stream, pass->final + work->first * hidden, work->h,
                                work->rows * hidden * sizeof(float));
    return pc__trace_rows(work, "final", work->native->arch.layers, work->h, hidden);
}

pc_status pc__head(pc__forward_work *work)
{
    size_t n;
    PC__TRY_RETURN(show_final(work));
    if (!work->native->arch.causal)
        return pc__trace_heads(work);
    n = work->pass->logits ? norm_logit_rows(work) : 0;
    return n ? write_logits(work, n) : PC_OK;
}

static pc_status check_input(const pc_model *model, const pc_input *input)
{
    const pc_model_info *info = &model->info;
    PC__TRY_RETURN(pc__model_check_native(model, "the input of the first layer"));
    if (!input->count || !input->tokens)
        return pc__fail(PC_ERR_INVALID, "the input has no tokens");
    if (info->context_length > 0 && input->count > (size_t)info->context_length)
        return pc__fail(PC_ERR_LIMIT, "the input has %zu tokens, the model takes %d", input->count,
                        info->context_length);
    return PC_OK;
}

static void set_input_rows(pc__token_row *rows, const pc_input *input)
{
    for (size_t i = 0; i < input->count; i++) {
        rows[i].token = input->tokens[i];
        rows[i].type = input->types ? input->types[i] : 0;
        rows[i].position = (int64_t)i;
    }
}

/* Only what pc__embed_rows uses. */
static pc_status reserve_input(pc__forward_work *work, pc__floats *x, size_t narrow)
{
    const pc_allocator *mem = &work->native->context->mem;
    pc__backend *backend = work->native->backend;
    work->residual.x = x;
    work->numbers = pc__calloc(mem, work->rows, sizeof *work->numbers);
    if (narrow)
        work->narrow = work->slab = backend->ops->take(backend,
                                                       work->rows * narrow * sizeof(float));
    return x && work->numbers && (work->narrow || !narrow) ? PC_OK : PC_ERR_NOMEM;
}

static pc_status embed_input(pc__forward_work *work, float *x)
{
    const pc__native *native = work->native;
    size_t count = work->rows * (size_t)native->arch.hidden;
    pc__floats *to = pc__stream_output(work->stream, x, count);
    pc_status status, ended;
    PC__TRY(reserve_input(work, to, native->project_in ? native->embedding.dim : 0), done);
    PC__TRY(pc__embed_rows(work), done);
    if (native->arch.residual != PC__RESIDUAL_POST) /* those layers do not norm their inputs */
        pc__apply_norm(work, &native->layers[0].norm1, to, work->rows, to);
done:
    ended = pc__stream_output_end(work->stream, to, x, count);
    return status < 0 ? status : ended;
}

pc_status pc__first_input(const pc_model *model, const pc_input *input, float *x)
{
    const pc_allocator *mem = &model->context->mem;
    pc__pass pass = {0};
    pc__forward_work work = {.native = model->native, .pass = &pass, .rows = input->count};
    pc__token_row *rows;
    pc_status status = PC_ERR_NOMEM;
    PC__TRY_RETURN(check_input(model, input));
    pass.rows = rows = pc__calloc(mem, input->count, sizeof *rows);
    if (!rows)
        return PC_ERR_NOMEM;
    set_input_rows(rows, input);
    PC__TRY(work.native->backend->ops->stream_new(&work.stream, work.native->backend), done);
    status = embed_input(&work, x);
done:
    pc__release_work(&work);
    pc__free(mem, rows);
    return status;
}
