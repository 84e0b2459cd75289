/* Several continuations of one prompt in one request: they share everything but what they say, so
 * the prompt is computed once and read once a step for all of them. Sample i is drawn with seed +
 * i; the same seed gives the same texts again. */
#include <promptcache.h>
#include <promptcache/sampling.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SAMPLES = 4 };

typedef struct texts {
    char text[SAMPLES][512];
    size_t size[SAMPLES];
} texts;

/* The samples' texts come in turns, a piece at a time. */
static int32_t collect(void *user, uint32_t sample, const char *text, size_t size)
{
    texts *t = user;
    if (sample >= SAMPLES || t->size[sample] + size > sizeof t->text[sample])
        return 1; /* ends this sample */
    memcpy(t->text[sample] + t->size[sample], text, size);
    t->size[sample] += size;
    return 0;
}

static pc_status sample(const pc_prompt *prompt, pc_cache *cache, uint64_t seed)
{
    static texts t;
    pc_generate_options options = PC_GENERATE_OPTIONS_INIT;
    pc_sampling sampling = PC_SAMPLING_INIT;
    pc_stats stats = PC_STATS_INIT;
    options.samples = SAMPLES;
    options.sampling = &sampling;
    sampling.temperature = 1.5f;
    sampling.top_k = 10;
    sampling.seed = seed;
    options.max_tokens = 24;
    options.on_text = collect;
    options.on_text_user = &t;
    pc_status status = pc_generate(prompt, cache, &options, &stats);
    for (int i = 0; i < SAMPLES && status >= 0; i++)
        printf("sample %d: %.*s\n", i, (int)t.size[i], t.text[i]);
    if (status >= 0)
        printf("prompt of %llu tokens computed once, %llu tokens generated\n",
               (unsigned long long)stats.tokens_prompt, (unsigned long long)stats.tokens_generated);
    return status;
}

int main(int argc, char **argv)
{
    pc_context *context = NULL;
    pc_model *model = NULL;
    pc_cache *cache = NULL;
    pc_schema *schema = NULL;
    pc_prompt *prompt = NULL;
    if (argc < 4 || argc > 5) {
        int asked = argc == 2 && !strcmp(argv[1], "--help");
        fprintf(asked ? stdout : stderr,
                "usage: samples MODEL SCHEMA.pml PROMPT.pml [SEED]\nanswers %d times by chance\n",
                SAMPLES);
        return asked ? 0 : 2;
    }
    pc_status status = pc_context_new(&context, NULL);
    if (status >= 0)
        status = pc_model_load(&model, context, argv[1], NULL);
    if (status >= 0)
        status = pc_cache_new(&cache, context, NULL);
    if (status >= 0)
        status = pc_schema_load(&schema, model, argv[2], NULL);
    if (status >= 0)
        status = pc_prompt_load(&prompt, &schema, 1, argv[3], NULL);
    if (status >= 0)
        status = sample(prompt, cache, argc == 5 ? strtoull(argv[4], NULL, 10) : 1);
    if (status < 0)
        fprintf(stderr, "samples: %s: %s\n", pc_status_name(status), pc_error_text());
    pc_prompt_free(prompt);
    pc_schema_free(schema);
    pc_cache_free(cache);
    pc_model_free(model);
    pc_context_free(context);
    return status < 0 ? 1 : 0;
}
