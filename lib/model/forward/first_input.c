/* Embeds the tokens of one prompt, without the layers. */
#include "model/forward/first_input.h"

#include <string.h>

#include "model/forward/forward_internal.h"
#include "model/model_states.h"

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
    pc__forward_work work = {.rows = input->count};
    pc__pass pass = {0};
    const pc_allocator *mem = &model->context->mem;
    pc__token_row *rows = NULL;
    size_t hidden, narrow;
    pc_status status;
    PC__TRY_RETURN(check_input(model, input));
    hidden = (size_t)model->native->arch.hidden;
    narrow = model->native->project_in ? model->native->embedding.dim : 0;
    rows = pc__calloc(mem, input->count, sizeof *rows);
    work.h = pc__calloc(mem, hidden + input->count * narrow,
                        sizeof *work.h); /* pc__embed uses one row of it */
    status = rows && work.h ? PC_OK : PC_ERR_NOMEM;
    if (status >= 0) {
        set_input_rows(rows, input);
        pass.rows = rows;
        work.native = model->native;
        work.pass = &pass;
        work.x = x;
        work.narrow = narrow ? work.h + hidden : NULL;
        status = pc__embed(&work);
    }
    if (status >= 0
        && model->native->arch.residual
               != PC__RESIDUAL_POST) /* post-norm layers have no norm at their input */
        pc__apply_norm(&work, &model->native->layers[0].norm1, x, input->count, x);
    pc__free(mem, rows);
    pc__free(mem, work.h);
    return status;
}
