/* pc_batch_step_async: a step as a task. */
#include <promptcache/task.h>
#include <promptcache/batch.h>

#include "serve/batch.h"

typedef struct async_step {
    pc_batch *batch;
} async_step;

static pc_status run_step(void *work)
{
    return pc_batch_step(((async_step *)work)->batch);
}

static void let_go(void *work)
{
    pc__batch_unref(((async_step *)work)->batch);
}

static const pc__task_kind step_kind = {sizeof(async_step), run_step, let_go};

/* Sequences that join in a callback of the step get the link there. */
static void link_members(pc_batch *batch, pc_task *task)
{
    pc__task_link_to(&batch->task, task);
    for (size_t i = 0; i < batch->members.count; i++)
        pc__task_link_to(&batch->members.items[i]->task, task);
}

/* Not with PC__HOLD: once the task runs, the batch is the task's. */
static pc_status start_step(pc_task **out, pc_batch *batch)
{
    pc_task *task;
    PC__TRY_RETURN(pc__batch_check(batch, "pc_batch_step_async"));
    if (pc__task_here(&batch->task))
        return pc__fail(PC_ERR_STATE, "pc_batch_step_async: a step of the batch is under way");
    PC__TRY_RETURN(pc__task_new(&task, batch->model->context, &step_kind));
    *(async_step *)pc__task_work(task) = (async_step){batch};
    link_members(batch, task);
    *out = task; /* a callback may free it */
    pc__task_start(task);
    return PC_OK;
}

pc_status pc_batch_step_async(pc_task **out, pc_batch *batch)
{
    pc_status status;
    if (!out)
        return pc__fail(PC_ERR_INVALID, "pc_batch_step_async: out is NULL");
    *out = NULL;
    if (!batch)
        return pc__fail(PC_ERR_INVALID, "pc_batch_step_async: batch is NULL");
    pc__batch_ref(batch);
    status = start_step(out, batch);
    if (status < 0)
        pc__batch_unref(batch);
    return status;
}
