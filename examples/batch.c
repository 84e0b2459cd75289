/* Steps several prompts of one schema together. Keys and values of a module that several of them
 * use are stored once and read once for all of them in every step. */
#include <promptcache.h>
#include <promptcache/batch.h>
#include <stdio.h>
#include <string.h>

enum { MOST = 64 };

typedef struct objects {
    pc_context *context;
    pc_model *model;
    pc_cache *cache;
    pc_schema *schema;
    pc_batch *batch;
    pc_sequence *sequences[MOST];
} objects;

static pc_status load(objects *o, const char *model, const char *schema)
{
    pc_status status = pc_context_new(&o->context, NULL);
    if (status >= 0)
        status = pc_model_load(&o->model, o->context, model, NULL);
    if (status >= 0)
        status = pc_cache_new(&o->cache, o->context, NULL);
    if (status >= 0)
        status = pc_schema_load(&o->schema, o->model, schema, NULL);
    if (status >= 0)
        status = pc_batch_new(&o->batch, o->model, NULL);
    return status;
}

static pc_status add(objects *o, int index, const char *path)
{
    pc_prompt *prompt = NULL;
    pc_generate_options options = PC_GENERATE_OPTIONS_INIT;
    options.max_tokens = 64;
    pc_status status = pc_prompt_load(&prompt, &o->schema, 1, path, NULL);
    if (status >= 0)
        status = pc_sequence_new(&o->sequences[index], prompt, o->cache, &options);
    if (status >= 0)
        status = pc_batch_add(o->batch, o->sequences[index]);
    pc_prompt_free(prompt); /* the sequence holds it */
    return status;
}

static pc_status print_answer(const pc_sequence *sequence, const char *path)
{
    pc_stats stats = PC_STATS_INIT;
    size_t size;
    const char *text = pc_sequence_text(sequence, &size);
    pc_status status = pc_sequence_error(sequence, NULL);
    if (status < 0) /* the others have gone on */
        return status;
    status = pc_sequence_get_stats(sequence, &stats);
    printf("%s: %.*s\n  %llu tokens: %llu from the cache, %llu encoded, %llu new\n", path,
           (int)size, text, (unsigned long long)stats.tokens_prompt,
           (unsigned long long)stats.tokens_cached, (unsigned long long)stats.tokens_encoded,
           (unsigned long long)stats.tokens_new);
    return status;
}

int main(int argc, char **argv)
{
    static objects o;
    int prompts = argc - 3, steps = 0;
    if (prompts < 1 || prompts > MOST) {
        int asked = argc == 2 && !strcmp(argv[1], "--help");
        fprintf(asked ? stdout : stderr,
                "usage: batch MODEL SCHEMA.pml PROMPT.pml...\nanswers 1 to %d prompts together\n",
                MOST);
        return asked ? 0 : 2;
    }
    pc_status status = load(&o, argv[1], argv[2]);
    for (int i = 0; i < prompts && status >= 0; i++)
        status = add(&o, i, argv[3 + i]);
    while (status >= 0 && status != PC_END) { /* sequences could join and leave between steps */
        status = pc_batch_step(o.batch);
        steps++;
    }
    for (int i = 0; i < prompts && steps; i++) {
        pc_status answered = print_answer(o.sequences[i], argv[3 + i]);
        status = status < 0 ? status : answered;
    }
    if (status < 0)
        fprintf(stderr, "batch: %s: %s\n", pc_status_name(status), pc_error_text());
    else
        printf("%d prompts in %d steps\n", prompts, steps);
    for (int i = 0; i < prompts; i++)
        pc_sequence_free(o.sequences[i]);
    pc_batch_free(o.batch);
    pc_schema_free(o.schema);
    pc_cache_free(o.cache);
    pc_model_free(o.model);
    pc_context_free(o.context);
    return status < 0 ? 1 : 0;
}
