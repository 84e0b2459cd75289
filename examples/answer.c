/* Answers a prompt of cached modules twice: the first time its modules are encoded, the second time
 * they are there. The text appears while it is made, and the statistics say where the tokens came
 * from. */
#include <promptcache.h>
#include <stdio.h>
#include <string.h>

typedef struct objects {
    pc_context *context;
    pc_model *model;
    pc_cache *cache;
    pc_schema *schema;
    pc_prompt *prompt;
} objects;

static int32_t print_text(void *user, uint32_t sample, const char *text, size_t size)
{
    (void)sample;
    return fwrite(text, 1, size, user) == size && !fflush(user)
               ? 0
               : 1; /* other than 0 ends the answer */
}

static pc_status load(objects *o, char **paths)
{
    pc_status status = pc_context_new(&o->context, NULL);
    if (status >= 0)
        status = pc_model_load(&o->model, o->context, paths[0], NULL);
    if (status >= 0)
        status = pc_cache_new(&o->cache, o->context, NULL);
    if (status >= 0)
        status = pc_schema_load(&o->schema, o->model, paths[1], NULL);
    if (status >= 0)
        status = pc_prompt_load(&o->prompt, &o->schema, 1, paths[2], NULL);
    return status;
}

static pc_status answer(const objects *o, const char *label)
{
    static const char *const exactness[] = {"?", "exact", "repaired", "approximate"};
    pc_generate_options options = PC_GENERATE_OPTIONS_INIT;
    pc_stats stats = PC_STATS_INIT;
    options.on_text = print_text;
    options.on_text_user = stdout;
    options.max_tokens = 64;
    printf("%s: ", label);
    pc_status status = pc_generate(o->prompt, o->cache, &options, &stats);
    printf("\n  %llu tokens: %llu from the cache, %llu encoded, %llu new; states %s; "
           "first token after %.2f ms\n",
           (unsigned long long)stats.tokens_prompt, (unsigned long long)stats.tokens_cached,
           (unsigned long long)stats.tokens_encoded, (unsigned long long)stats.tokens_new,
           exactness[stats.exactness % 4], 1e3 * stats.seconds_ttft);
    return status;
}

int main(int argc, char **argv)
{
    objects o = {0};
    if (argc != 4) {
        int asked = argc == 2 && !strcmp(argv[1], "--help");
        fprintf(asked ? stdout : stderr,
                "usage: answer MODEL SCHEMA.pml PROMPT.pml\n"
                "answers a prompt of cached modules, with an empty cache, then a full one\n");
        return asked ? 0 : 2;
    }
    pc_status status = load(&o, argv + 1);
    if (status >= 0)
        status = answer(&o, "empty cache");
    if (status >= 0)
        status = answer(&o, "full cache");
    if (status < 0)
        fprintf(stderr, "answer: %s: %s\n", pc_status_name(status), pc_error_text());
    pc_prompt_free(o.prompt); /* in any order: each object holds what it needs */
    pc_schema_free(o.schema);
    pc_cache_free(o.cache);
    pc_model_free(o.model);
    pc_context_free(o.context);
    return status < 0 ? 1 : 0;
}
