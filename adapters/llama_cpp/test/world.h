/* What the tests of the adapter share: llama.cpp's model and context behind a pc_model, and the
 * library's own model of the same file. */
#ifndef LLAMA_TEST_WORLD_H
#define LLAMA_TEST_WORLD_H

#include <llama.h>
#include <promptcache.h>
#include <promptcache/batch.h>
#include <promptcache/cache.h>
#include <promptcache/prompt.h>
#include <stdlib.h>
#include <string.h>

#include "promptcache_llama.h"
#include "testing.h"

typedef struct world {
    pc_context *context;
    struct llama_model *weights;
    struct llama_context *memory;
    struct llama_context_params params;
    pc_llama_stats stats;
    pc_model *model; /* llama.cpp's */
    pc_model *own;   /* promptcache's, in fp32 */
} world;

static inline void world_quiet(enum ggml_log_level level, const char *text, void *user)
{
    (void)user;
    if (level == GGML_LOG_LEVEL_ERROR && getenv("PC_TEST_VERBOSE"))
        fputs(text, stderr);
}

/* fp32 everywhere, so that both compute the same but for the order of sums. */
static inline struct llama_context_params world_params(void)
{
    struct llama_context_params p = llama_context_default_params();
    p.n_ctx = 8192;
    p.n_batch = 512;
    p.n_seq_max = 256;
    p.n_threads = p.n_threads_batch = 1; /* several would spin while other tests run */
    p.type_k = p.type_v = GGML_TYPE_F32;
    p.flash_attn_type = LLAMA_FLASH_ATTN_TYPE_DISABLED;
    p.no_perf = true;
    pc_llama_params(&p);
    return p;
}

static inline int world_llama(world *w, const char *path, const struct llama_context_params *p)
{
    pc_llama_options o = PC_LLAMA_OPTIONS_INIT;
    struct llama_model_params m = llama_model_default_params();
    llama_log_set(world_quiet, NULL);
    w->params = *p;
    w->stats = (pc_llama_stats)PC_LLAMA_STATS_INIT;
    if (!w->context)
        CHECK_OK(pc_context_new(&w->context, NULL));
    if (!w->weights)
        w->weights = llama_model_load_from_file(path, m);
    CHECK(w->weights != NULL);
    w->memory = w->weights ? llama_init_from_model(w->weights, *p) : NULL;
    CHECK(w->memory != NULL);
    o.params = &w->params;
    o.files = &path;
    o.file_count = 1;
    o.stats = &w->stats;
    return w->memory
           && CHECK_OK(pc_llama_model_new(&w->model, w->context, w->weights, w->memory, &o));
}

static inline int world_open(world *w, const char *path, const struct llama_context_params *p)
{
    pc_model_options own = PC_MODEL_OPTIONS_INIT;
    own.compute = PC_DTYPE_F32;
    memset(w, 0, sizeof *w);
    return world_llama(w, path, p) && CHECK_OK(pc_model_load(&w->own, w->context, path, &own));
}

/* Every cell of the context is free. */
static inline int world_is_empty(const world *w)
{
    for (uint32_t i = 0; i < w->params.n_seq_max; i++)
        if (llama_memory_seq_pos_max(llama_get_memory(w->memory), (llama_seq_id)i) >= 0)
            return 0;
    return !w->stats.ids && !w->stats.cells_moved;
}

static inline void world_close_llama(world *w)
{
    pc_model_free(w->model);
    w->model = NULL;
    if (w->memory) {
        CHECK(world_is_empty(w));
        llama_free(w->memory);
    }
    w->memory = NULL;
}

static inline void world_close(world *w)
{
    world_close_llama(w);
    llama_model_free(w->weights);
    pc_model_free(w->own);
    pc_context_free(w->context);
}

/* The model with all its numbers in fp32, whatever its file has: only then do both sides multiply
 * the same numbers, for llama.cpp rounds activations to the format of the weights. */
static inline const char *world_in_fp32(const char *path)
{
    static char out[4][512];
    static int next;
    struct llama_model_quantize_params p = llama_model_quantize_default_params();
    char *to = out[next++ % 4];
    snprintf(to, sizeof out[0], "%s/fp32-%d.gguf", pc_test_folder(), next);
    llama_log_set(world_quiet, NULL);
    p.ftype = LLAMA_FTYPE_ALL_F32;
    p.allow_requantize = true;
    return CHECK_INT(llama_model_quantize(path, to, &p), 0) ? to : NULL;
}

/* A folder for a cache. */
static inline const char *world_folder(void)
{
    static char out[512];
    static int next;
    snprintf(out, sizeof out, "%s/cache-%d", pc_test_folder(), next++);
    return out;
}

/* A cache over a folder that computes nothing that is there; the machine may be busy. */
static inline pc_cache *world_disk_cache(const world *w, const char *folder)
{
    pc_cache_options o = PC_CACHE_OPTIONS_INIT;
    pc_cache *cache = NULL;
    o.disk_path = folder;
    o.flags = PC_CACHE_ALWAYS_LOAD;
    o.deadline_seconds = 60;
    CHECK_OK(pc_cache_new(&cache, w->context, &o));
    return cache;
}

static inline pc_status world_prompt(pc_prompt **out, const pc_model *model, const char *schema,
                                     const char *prompt)
{
    pc_schema *parsed = NULL;
    pc_status status = pc_schema_parse(&parsed, model, schema, strlen(schema), NULL);
    *out = NULL;
    if (status >= 0)
        status = pc_prompt_parse(out, &parsed, 1, prompt, strlen(prompt), NULL);
    pc_schema_free(parsed);
    return status;
}

static inline int32_t world_take_logits(void *user, uint32_t sample, float *logits, size_t count)
{
    (void)sample;
    memcpy(user, logits, count * sizeof *logits);
    return 0;
}

/* One token, whose logits go to `logits` [vocabulary]. */
static inline pc_generate_options world_once(float *logits)
{
    pc_generate_options o = PC_GENERATE_OPTIONS_INIT;
    o.max_tokens = 1;
    o.on_logits = world_take_logits;
    o.on_logits_user = logits;
    return o;
}

/* cache and stats may be NULL. */
static inline pc_status world_ask(const pc_model *model, pc_cache *cache, const char *schema,
                                  const char *prompt, const pc_generate_options *o, pc_stats *stats)
{
    pc_prompt *parsed;
    pc_status status = world_prompt(&parsed, model, schema, prompt);
    if (status >= 0)
        status = pc_generate(parsed, cache, o, stats);
    pc_prompt_free(parsed);
    return status;
}

/* A model file of the tree, or of the data beside it. */
static inline const char *world_file(const char *name)
{
    static char path[4][512];
    static int next;
    char *out = path[next++ % 4];
    const char *data;
    if (strchr(name, '/') && !strncmp(name, "models/", 7))
        snprintf(out, sizeof path[0], "%s/%s", PC_SOURCE_DIR, name);
    else if ((data = pc_test_data(name)))
        snprintf(out, sizeof path[0], "%s", data);
    else
        return NULL;
    return out;
}

#endif
