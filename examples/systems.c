/* A server's loop in small: two applications with system prompts of their own, requests of both in
 * one batch, and a system prompt that is replaced while its requests run. A request holds the
 * states that it has found. States that several requests hold are stored once, and read once in
 * every step. */
#include <promptcache.h>
#include <promptcache/admin.h>
#include <promptcache/batch.h>
#include <promptcache/prompt.h>
#include <stdio.h>
#include <string.h>

/* The schema string: what stands before the user's slot is shared. */
static const char format[] =
    "<s><|system|>{__SYS_PROMPT}<|end|><|user|>{__USR_PROMPT}<|end|><|assistant|>";

typedef struct server {
    pc_context *context;
    pc_model *model;
    pc_cache *cache;
    pc_systems *systems;
    pc_batch *batch;
    pc_sequence *requests[8];
    size_t count;
} server;

static pc_status start(server *s, const char *model)
{
    pc_systems_options options = PC_SYSTEMS_OPTIONS_INIT;
    options.format = format;
    options.format_size = strlen(format);
    pc_status status;
    if ((status = pc_context_new(&s->context, NULL)) < 0
        || (status = pc_model_load(&s->model, s->context, model, NULL)) < 0
        || (status = pc_cache_new(&s->cache, s->context, NULL)) < 0
        || (status = pc_systems_new(&s->systems, s->model, s->cache, &options)) < 0)
        return status;
    return pc_batch_new(&s->batch, s->model, NULL);
}

static pc_status ask(server *s, const char *application, const char *question)
{
    pc_schema *schema = NULL;
    pc_prompt *prompt = NULL;
    pc_status status = pc_systems_find(&schema, s->systems, application);
    if (status >= 0
        && (status = pc_prompt_fill(&prompt, schema, question, strlen(question), NULL)) >= 0
        && (status = pc_sequence_new(&s->requests[s->count], prompt, s->cache, NULL)) >= 0)
        status = pc_batch_add(s->batch, s->requests[s->count++]);
    pc_prompt_free(prompt); /* the sequence holds what it needs */
    pc_schema_free(schema);
    return status;
}

/* What comes in: system prompts (fill) and requests, each before a step of the batch. */
static const struct {
    int fill;
    const char *application, *text;
} events[] = {
    {1, "desk", "Answer from the notes. The desk of Anna Reed is 368. Rosa Silva is a nurse."},
    {1, "travel", "Answer from the notes. The hotel in Lisbon is Harbor House."},
    {0, "desk", "What is the desk of Anna Reed?"},
    {0, "travel", "What is the hotel in Lisbon?"},
    {0, "desk", "Where is the desk of Anna Reed?"},
    /* the request from before goes on with the old notes */
    {1, "travel", "Answer from the notes. The hotel in Lisbon is Rain Lodge."},
    {0, "travel", "What is the hotel in Lisbon?"},
};

static pc_status serve(server *s)
{
    pc_batch_stats shared = PC_BATCH_STATS_INIT;
    pc_status status = PC_OK;
    for (size_t i = 0; i < sizeof events / sizeof *events && status >= 0; i++) {
        const char *name = events[i].application, *text = events[i].text;
        status = events[i].fill ? pc_systems_fill(s->systems, name, text, strlen(text))
                                : ask(s, name, text);
        status = status < 0 ? status : pc_batch_step(s->batch);
    }
    if (status >= 0)
        status = pc_batch_get_stats(s->batch, &shared);
    while (status == PC_OK)
        status = pc_batch_step(s->batch);
    printf("a step reads %llu tokens; without sharing it would read %llu\n",
           (unsigned long long)shared.tokens_stored, (unsigned long long)shared.tokens_seen);
    return status;
}

int main(int argc, char **argv)
{
    static server s;
    if (argc != 2 || !strcmp(argv[1], "--help")) {
        fprintf(argc == 2 ? stdout : stderr, "usage: systems MODEL\nfor models/demo/demo.gguf\n");
        return argc == 2 ? 0 : 2;
    }
    pc_status status = start(&s, argv[1]);
    status = status < 0 ? status : serve(&s);
    if (status < 0)
        fprintf(stderr, "systems: %s: %s\n", pc_status_name(status), pc_error_text());
    for (size_t i = 0; i < s.count; i++) {
        const char *failed;
        pc_sequence_error(s.requests[i], &failed); /* it has ended alone */
        printf("request %zu: %s%s\n", i, pc_sequence_text(s.requests[i], NULL), failed);
        pc_sequence_free(s.requests[i]);
    }
    pc_batch_free(s.batch);
    pc_systems_free(s.systems);
    pc_cache_free(s.cache);
    pc_model_free(s.model);
    pc_context_free(s.context);
    return status < 0 ? 1 : 0;
}
