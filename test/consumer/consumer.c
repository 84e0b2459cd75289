/* An outside program: asks the same prompt twice and fails unless the second time all modules came
 * from the cache. */
#include <promptcache.h>
#include <stdio.h>
#include <string.h>

typedef struct answer {
    char text[256];
    size_t size;
} answer;

static int32_t collect(void *user, uint32_t sample, const char *text, size_t size)
{
    answer *a = user;
    if (sample || a->size + size >= sizeof a->text)
        return 1;
    memcpy(a->text + a->size, text, size);
    a->size += size;
    return 0;
}

static int ask(const pc_prompt *prompt, pc_cache *cache, uint64_t cached, uint64_t encoded)
{
    answer a = {{0}, 0};
    pc_generate_options options = PC_GENERATE_OPTIONS_INIT;
    pc_stats stats = PC_STATS_INIT;
    options.on_text = collect;
    options.on_text_user = &a;
    if (pc_generate(prompt, cache, &options, &stats) < 0) {
        fprintf(stderr, "%s\n", pc_error_text());
        return 0;
    }
    printf("%s (%llu cached, %llu encoded, %llu new)\n", a.text,
           (unsigned long long)stats.tokens_cached, (unsigned long long)stats.tokens_encoded,
           (unsigned long long)stats.tokens_new);
    return !strcmp(a.text, "The desk of Peter Novak is 368.") && stats.tokens_prompt == 601
           && stats.tokens_cached == cached && stats.tokens_encoded == encoded
           && stats.tokens_new == 11;
}

int main(int argc, char **argv)
{
    pc_context *context = NULL;
    pc_model *model = NULL;
    pc_cache *cache = NULL;
    pc_schema *schema = NULL;
    pc_prompt *prompt = NULL;
    int ok = argc == 4 && pc_abi_version() == PC_ABI_VERSION && pc_context_new(&context, NULL) >= 0
             && pc_model_load(&model, context, argv[1], NULL) >= 0
             && pc_cache_new(&cache, context, NULL) >= 0
             && pc_schema_load(&schema, model, argv[2], NULL) >= 0
             && pc_prompt_load(&prompt, &schema, 1, argv[3], NULL) >= 0;
    if (!ok)
        fprintf(stderr, "%s\n", pc_error_text());
    ok = ok && ask(prompt, cache, 0, 590) && ask(prompt, cache, 590, 0);
    pc_prompt_free(prompt);
    pc_schema_free(schema);
    pc_cache_free(cache);
    pc_model_free(model);
    pc_context_free(context);
    return ok ? 0 : 1;
}
