/* An event loop that never waits for a step: two batches of prompts are stepped by threads of the
 * library, and poll() tells when a step is done. A server has its sockets in the same poll(). */
#include <promptcache.h>
#include <promptcache/task.h>
#include <promptcache/batch.h>
#include <poll.h>
#include <stdio.h>

enum { BATCHES = 2, MOST = 64 };

typedef struct objects {
    pc_context *context;
    pc_model *model;
    pc_schema *schema;
    pc_batch *batches[BATCHES];
    pc_task *steps[BATCHES]; /* under way; NULL: the batch has ended */
    pc_sequence *sequences[MOST];
    int done; /* steps */
} objects;

static pc_status load(objects *o, const char *model, const char *schema)
{
    pc_status status = pc_context_new(&o->context, NULL);
    if (status >= 0)
        status = pc_model_load(&o->model, o->context, model, NULL);
    if (status >= 0)
        status = pc_schema_load(&o->schema, o->model, schema, NULL);
    for (int b = 0; b < BATCHES && status >= 0; b++)
        status = pc_batch_new(&o->batches[b], o->model, NULL);
    return status;
}

static pc_status add(objects *o, int index, const char *path)
{
    pc_prompt *prompt = NULL;
    pc_status status = pc_prompt_load(&prompt, &o->schema, 1, path, NULL);
    if (status >= 0)
        status = pc_sequence_new(&o->sequences[index], prompt, NULL, NULL);
    if (status >= 0)
        status = pc_batch_add(o->batches[index % BATCHES], o->sequences[index]);
    pc_prompt_free(prompt); /* the sequence holds it */
    return status;
}

/* The step of a batch is done: until the next one, its sequences are ours. */
static pc_status go_on(objects *o, int b)
{
    size_t count, size;
    pc_status status = pc_task_wait(o->steps[b], 0); /* what pc_batch_step would have said */
    pc_sequence *const *changed = pc_batch_changed(o->batches[b], &count);
    pc_task_free(o->steps[b]);
    o->steps[b] = NULL;
    o->done++;
    for (size_t i = 0; i < count; i++) {
        const char *text = pc_sequence_text(changed[i], &size);
        if (pc_sequence_finish(changed[i]))
            printf("batch %d: %.*s\n", b, (int)size, text);
    }
    return status == PC_OK ? pc_batch_step_async(&o->steps[b], o->batches[b]) : status;
}

/* One turn of the loop: waits for any step. PC_END: none is under way. */
static pc_status turn(objects *o)
{
    struct pollfd polled[BATCHES] = {{.fd = -1}, {.fd = -1}}; /* poll() passes over -1 */
    pc_status status = PC_OK;
    int running = 0;
    for (int b = 0; b < BATCHES && status >= 0; b++) {
        polled[b].events = POLLIN;
        if (o->steps[b])
            status = pc_task_fd(o->steps[b], &polled[b].fd);
        running += o->steps[b] != NULL;
    }
    if (status < 0 || !running)
        return status < 0 ? status : PC_END;
    for (int b = poll(polled, BATCHES, -1) < 0 ? BATCHES : 0; b < BATCHES && status >= 0; b++)
        if (polled[b].revents)
            status = go_on(o, b);
    return status < 0 ? status : PC_OK;
}

int main(int argc, char **argv)
{
    static objects o;
    int prompts = argc - 3;
    if (prompts < 1 || prompts > MOST) {
        fprintf(argc == 2 ? stdout : stderr, "usage: events MODEL SCHEMA.pml PROMPT.pml...\n");
        return argc == 2 ? 0 : 2; /* --help */
    }
    pc_status status = load(&o, argv[1], argv[2]);
    for (int i = 0; i < prompts && status >= 0; i++)
        status = add(&o, i, argv[3 + i]);
    for (int b = 0; b < BATCHES && status >= 0; b++)
        status = pc_batch_step_async(&o.steps[b], o.batches[b]);
    while (status >= 0 && status != PC_END)
        status = turn(&o);
    if (status < 0)
        fprintf(stderr, "events: %s: %s\n", pc_status_name(status), pc_error_text());
    else
        printf("%d prompts in %d steps\n", prompts, o.done);
    for (int b = 0; b < BATCHES; b++) {
        pc_task_free(o.steps[b]); /* waits */
        pc_batch_free(o.batches[b]);
    }
    for (int i = 0; i < prompts; i++)
        pc_sequence_free(o.sequences[i]);
    pc_schema_free(o.schema);
    pc_model_free(o.model);
    pc_context_free(o.context);
    return status < 0 ? 1 : 0;
}
