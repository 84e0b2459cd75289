/* The calls that overhead.py times in Python, timed in C: nanoseconds of a call, and seconds of one
 * answer, a line for each round. usage: calls MODEL SCHEMA PROMPT ROUNDS TOKENS */
#include <promptcache.h>
#include <promptcache/batch.h>
#include <promptcache/cache.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Of this thread: other work of the machine does not count. */
static double cpu(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static int32_t count_text(void *user, uint32_t sample, const char *text, size_t size)
{
    (void)sample;
    (void)text;
    *(size_t *)user += size;
    return 0;
}

static void must(pc_status status)
{
    if (status < 0) {
        fprintf(stderr, "%s\n", pc_error_text());
        exit(1);
    }
}

#define TIMED(name, n, call)                                  \
    do {                                                      \
        double begun = cpu();                                 \
        for (int i = 0; i < (n); i++)                         \
            call;                                             \
        printf("%s %.3f\n", name, (cpu() - begun) / (n)*1e9); \
    } while (0)

int main(int argc, char **argv)
{
    pc_context *context = NULL;
    pc_model *model = NULL;
    pc_schema *schema = NULL;
    pc_prompt *prompt = NULL;
    pc_cache *cache = NULL;
    pc_sequence *sequence = NULL, *stepped = NULL;
    pc_batch *batch = NULL, *steps = NULL;
    pc_generate_options options = PC_GENERATE_OPTIONS_INIT;
    pc_cache_stats stats = PC_CACHE_STATS_INIT;
    const char *text = "What is the desk of Peter Novak?";
    int32_t tokens[64];
    size_t count, bytes = 0;
    if (argc != 6)
        return 2;
    must(pc_context_new(&context, NULL));
    must(pc_model_load(&model, context, argv[1], NULL));
    must(pc_schema_load(&schema, model, argv[2], NULL));
    must(pc_prompt_load(&prompt, &schema, 1, argv[3], NULL));
    must(pc_cache_new(&cache, context, NULL));
    options.max_tokens = 4;
    must(pc_sequence_new(&sequence, prompt, cache, &options));
    must(pc_batch_new(&batch, model, NULL));
    must(pc_batch_add(batch, sequence));
    while (pc_batch_step(batch) != PC_END)
        ;
    options.max_tokens = (uint32_t)atoi(argv[5]);
    options.flags = PC_GENERATE_IGNORE_END;
    options.on_text = count_text;
    options.on_text_user = &bytes;
    for (int round = 0; round < atoi(argv[4]); round++) {
        double begun;
        TIMED("schema.length", 20000, (void)pc_schema_length(schema));
        TIMED("sequence.finish", 20000, (void)pc_sequence_finish(sequence));
        TIMED("sequence.text", 20000, (void)pc_sequence_text(sequence, &count));
        TIMED("batch.step", 20000, (void)pc_batch_step(batch));
        TIMED("cache.stats", 20000, (void)pc_cache_get_stats(cache, &stats));
        TIMED("model.tokenize", 2000,
              (void)pc_tokenize(model, text, strlen(text), 0, tokens, 64, &count));
        begun = now();
        must(pc_generate(prompt, cache, &options, NULL));
        printf("answer %.9f\n", now() - begun);
        options.on_text = NULL;
        begun = now();
        must(pc_sequence_new(&stepped, prompt, cache, &options));
        must(pc_batch_new(&steps, model, NULL));
        must(pc_batch_add(steps, stepped));
        while (pc_batch_step(steps) != PC_END)
            (void)pc_sequence_text(stepped, &count);
        pc_batch_free(steps);
        pc_sequence_free(stepped);
        printf("steps %.9f\n", now() - begun);
        options.on_text = count_text;
    }
    pc_batch_free(batch);
    pc_sequence_free(sequence);
    pc_cache_free(cache);
    pc_prompt_free(prompt);
    pc_schema_free(schema);
    pc_model_free(model);
    pc_context_free(context);
    return 0;
}
