/* The two ends of a pass: tokens to the residual stream, residual stream to logits. Also the input
 * of the first layer alone, without a pass. */
#include <math.h>
#include <string.h>

#include "model/forward/forward_internal.h"
#include "model/model_states.h"

static void scale(float *x, size_t count, float factor)
{
    for (size_t i = 0; i < count; i++)
        x[i] *= factor;
}

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

static void add_table_row(const pc__embedding_table *table, size_t from, float *x, float *scratch)
{
    pc__embedding_row(table, from, scratch);
    for (size_t i = 0; i < table->dim; i++)
        x[i] += scratch[i];
}

/* Adds the embeddings of position and type. */
static void add_learned(const pc__forward_work *work, size_t r, float *scratch)
{
    const pc__native *native = work->native;
    const pc__token_row *row = &work->pass->rows[work->first + r];
    float *x = work->x + r * (size_t)native->arch.hidden;
    if (native->positions.rows)
        add_table_row(&native->positions, (size_t)(row->position + native->arch.position_offset), x,
                      scratch);
    if (native->encoder.types.rows)
        add_table_row(&native->encoder.types, (size_t)row->type, x, scratch);
}

pc_status pc__embed(pc__forward_work *work)
{
    const pc__native *native = work->native;
    float *to = work->narrow ? work->narrow : work->x;
    size_t dim = native->embedding.dim;
    for (size_t r = 0; r < work->rows; r++) {
        PC__TRY_RETURN(check_row(native, &work->pass->rows[work->first + r]));
        pc__embedding_row(&native->embedding, (size_t)work->pass->rows[work->first + r].token,
                          to + r * dim);
    }
    if (native->arch.embedding_scale > 0)
        scale(to, work->rows * dim, native->arch.embedding_scale);
    if (work->narrow)
        PC__TRY_RETURN(
            native->backend->linear_run(native->project_in, work->narrow, work->rows, work->x));
    for (size_t r = 0; r < work->rows; r++)
        add_learned(work, r, work->h);
    if (native->embedding_norm.gain)
        pc__apply_norm(work, &native->embedding_norm, work->x, work->rows, work->x);
    return PC_OK;
}

static void cap_logits(float *x, size_t count, float limit)
{
    for (size_t i = 0; i < count; i++)
        x[i] = limit * tanhf(x[i] / limit);
}

/* Copies the rows that want logits into h, without gaps. Returns how many there are. */
static size_t gather_logit_rows(pc__forward_work *work)
{
    size_t hidden = (size_t)work->native->arch.hidden, n = 0;
    for (size_t r = 0; r < work->rows; r++)
        if (work->pass->rows[work->first + r].want_logits)
            memcpy(work->h + n++ * hidden, work->x + r * hidden, hidden * sizeof *work->h);
    return n;
}

pc_status pc__head(pc__forward_work *work)
{
    const pc__native *native = work->native;
    size_t vocab = (size_t)native->arch.vocab, n;
    float *in = work->h, *logits = work->pass->logits + work->logits_done * vocab;
    if (work->pass->trace || work->pass->final) {
        pc__apply_norm(work, &native->final_norm, work->x, work->rows, work->h);
        pc__trace_rows(work, "final", native->arch.layers, work->h);
    }
    if (work->pass->final)
        memcpy(work->pass->final + work->first * (size_t)native->arch.hidden, work->h,
               work->rows * (size_t)native->arch.hidden * sizeof *work->h);
    if (!native->arch.causal)
        return pc__trace_heads(work);
    n = gather_logit_rows(work);
    if (!n || !work->pass->logits)
        return PC_OK;
    pc__apply_norm(work, &native->final_norm, work->h, n, work->h);
    if (native->project_out) {
        PC__TRY_RETURN(native->backend->linear_run(native->project_out, work->h, n, work->narrow));
        in = work->narrow;
    }
    PC__TRY_RETURN(native->backend->linear_run(native->head, in, n, logits));
    if (native->arch.logit_scale > 0)
        scale(logits, n * vocab, native->arch.logit_scale);
    if (native->arch.logit_cap > 0)
        cap_logits(logits, n * vocab, native->arch.logit_cap);
    work->logits_done += n;
    return PC_OK;
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

pc_status pc__first_input(const pc_model *model, const pc_input *input, float *x)
{
    const pc__native *native = model->native;
    const pc_allocator *mem = &model->context->mem;
    pc__pass pass = {0};
    pc__forward_work work = {.native = native, .pass = &pass, .rows = input->count, .x = x};
    pc__token_row *rows;
    size_t hidden, narrow;
    pc_status status = PC_ERR_NOMEM;
    PC__TRY_RETURN(check_input(model, input));
    hidden = (size_t)native->arch.hidden;
    narrow = native->project_in ? native->embedding.dim : 0;
    pass.rows = rows = pc__calloc(mem, input->count, sizeof *rows);
    /* pc__embed uses one row of h */
    work.h = pc__calloc(mem, hidden + input->count * narrow, sizeof *work.h);
    if (!rows || !work.h)
        goto done;
    set_input_rows(rows, input);
    work.narrow = narrow ? work.h + hidden : NULL;
    PC__TRY(pc__embed(&work), done);
    if (native->arch.residual != PC__RESIDUAL_POST) /* those layers do not norm their inputs */
        pc__apply_norm(&work, &native->layers[0].norm1, x, input->count, x);
done:
    pc__free(mem, rows);
    pc__free(mem, work.h);
    return status;
}
