/* Embeddings of prompts over cached modules: which prompts are nearest to each other. The modules
 * are computed once, and so is all that they have in common. */
#include <promptcache.h>
#include <promptcache/embed.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 64 };

typedef struct objects {
    pc_context *context;
    pc_model *model;
    pc_cache *cache;
    pc_schema *schema;
    pc_prompt *prompts[MOST];
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
    return status;
}

/* Of vectors of length 1. */
static double cosine(const float *a, const float *b, int32_t width)
{
    double sum = 0;
    for (int32_t i = 0; i < width; i++)
        sum += (double)a[i] * (double)b[i];
    return sum;
}

static void print_nearest(const float *vectors, int count, int32_t width, char **names)
{
    for (int i = 0; i < count; i++) {
        double most = -2;
        int nearest = i;
        for (int j = 0; j < count; j++) {
            double near = j == i ? -2 : cosine(vectors + i * width, vectors + j * width, width);
            if (near > most) {
                most = near;
                nearest = j;
            }
        }
        printf("%s: %.3f to %s\n", names[i], nearest == i ? 1 : most, names[nearest]);
    }
}

int main(int argc, char **argv)
{
    static objects o;
    int count = argc - 3;
    pc_embed_options options = PC_EMBED_OPTIONS_INIT;
    pc_embed_stats stats = PC_EMBED_STATS_INIT;
    pc_model_info info = PC_MODEL_INFO_INIT;
    float *vectors = NULL;
    if (count < 1 || count > MOST) {
        int asked = argc == 2 && !strcmp(argv[1], "--help");
        fprintf(asked ? stdout : stderr,
                "usage: embed_prompts MODEL SCHEMA.pml PROMPT.pml...\nembeds 1 to %d prompts\n",
                MOST);
        return asked ? 0 : 2;
    }
    pc_status status = load(&o, argv[1], argv[2]);
    for (int i = 0; i < count && status >= 0; i++)
        status = pc_prompt_load(&o.prompts[i], &o.schema, 1, argv[3 + i], NULL);
    if (status >= 0)
        status = pc_model_get_info(o.model, &info);
    if (status >= 0 && !(vectors = malloc((size_t)count * (size_t)info.hidden * sizeof *vectors)))
        status = PC_ERR_NOMEM;
    options.flags = PC_EMBED_NORMALIZE;
    for (int again = 0; again < 2 && status >= 0; again++) {
        status = pc_embed(o.prompts, (size_t)count, o.cache, &options, vectors, &stats);
        if (status >= 0)
            printf("%llu tokens: %llu from the cache, %llu computed\n",
                   (unsigned long long)stats.tokens, (unsigned long long)stats.tokens_cached,
                   (unsigned long long)stats.tokens_computed);
    }
    if (status >= 0)
        print_nearest(vectors, count, info.hidden, argv + 3);
    else
        fprintf(stderr, "embed_prompts: %s: %s\n", pc_status_name(status), pc_error_text());
    free(vectors);
    for (int i = 0; i < count; i++)
        pc_prompt_free(o.prompts[i]);
    pc_schema_free(o.schema);
    pc_cache_free(o.cache);
    pc_model_free(o.model);
    pc_context_free(o.context);
    return status < 0;
}
