/* Chat by llama.cpp over a system prompt and documents, which are modules: whatever any earlier
 * question, or an earlier run with --cache, has computed of a document is reused.
 *
 *   llama_chat --model FILE.gguf [--system TEXT] [--document FILE]... [--cache FOLDER]
 *              [--context TOKENS] [--threads N]
 *
 * Questions come line by line from the standard input. Each one is asked on its own. */
#include <llama.h>
#include <promptcache.h>
#include <promptcache/prompt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "promptcache_llama.h"

enum { MOST_DOCUMENTS = 64, MOST_STOPS = 32, LINE = 4096 };

typedef struct settings {
    const char *model, *system, *cache;
    const char *documents[MOST_DOCUMENTS];
    int document_count, threads;
    uint32_t context;
} settings;

static int usage(FILE *to)
{
    fputs("usage: llama_chat --model FILE.gguf [--system TEXT] [--document FILE]... "
          "[--cache FOLDER] [--context TOKENS] [--threads N]\n"
          "answers questions from the standard input, a line each, over the documents\n",
          to);
    return to == stderr ? 2 : 0;
}

/* A whole number from 1 to 2^31 - 1. */
static int read_number(long *out, const char *text)
{
    char *end;
    *out = strtol(text, &end, 10);
    return end != text && !*end && *out > 0 && *out <= INT32_MAX;
}

static int read_settings(settings *s, int argc, char **argv)
{
    long number;
    *s = (settings){.system = "Answer from the documents.", .context = 8192};
    for (int i = 1; i + 1 < argc; i += 2) {
        if (!strcmp(argv[i], "--model"))
            s->model = argv[i + 1];
        else if (!strcmp(argv[i], "--system"))
            s->system = argv[i + 1];
        else if (!strcmp(argv[i], "--cache"))
            s->cache = argv[i + 1];
        else if (!strcmp(argv[i], "--context") && read_number(&number, argv[i + 1]))
            s->context = (uint32_t)number;
        else if (!strcmp(argv[i], "--threads") && read_number(&number, argv[i + 1]))
            s->threads = (int)number;
        else if (!strcmp(argv[i], "--document") && s->document_count < MOST_DOCUMENTS)
            s->documents[s->document_count++] = argv[i + 1];
        else
            return 0;
    }
    return argc % 2 && s->model;
}

static void errors_only(enum ggml_log_level level, const char *text, void *user)
{
    (void)user;
    if (level == GGML_LOG_LEVEL_ERROR)
        fputs(text, stderr);
}

static int32_t print_text(void *user, uint32_t sample, const char *text, size_t size)
{
    (void)user, (void)sample;
    return fwrite(text, 1, size, stdout) == size && !fflush(stdout) ? 0 : 1;
}

/* ---------------------------------------------------------------- prompts */

static pc_status add_file(pc_schema_builder *b, const char *path)
{
    FILE *file = fopen(path, "rb");
    char block[LINE];
    pc_status status = PC_OK;
    int unread = !file;
    for (size_t n; !unread && status >= 0 && (n = fread(block, 1, sizeof block, file));)
        status = pc_schema_builder_add_text(b, block, n, 0);
    if (file) {
        unread = ferror(file); /* a folder can be opened */
        fclose(file);
    }
    if (!unread)
        return status;
    snprintf(block, sizeof block, "%s cannot be read", path);
    pc_error_set(block);
    return PC_ERR_IO;
}

/* The system prompt, then a module for each document. */
static pc_status make_schema(pc_schema **out, const pc_model *model, const settings *s)
{
    pc_schema_builder *b = NULL;
    char name[16];
    pc_status status = pc_schema_builder_new(&b, model, "chat", NULL);
    if (status >= 0 && (status = pc_schema_builder_begin_turn(b, "system")) >= 0
        && (status = pc_schema_builder_add_text(b, s->system, strlen(s->system), 0)) >= 0)
        status = pc_schema_builder_end(b);
    for (int i = 0; i < s->document_count && status >= 0; i++) {
        snprintf(name, sizeof name, "%d", i);
        if ((status = pc_schema_builder_begin_module(b, name, 0)) >= 0
            && (status = add_file(b, s->documents[i])) >= 0)
            status = pc_schema_builder_end(b);
    }
    if (status >= 0)
        status = pc_schema_from_builder(out, b);
    pc_schema_builder_free(b);
    return status;
}

/* All documents, then the question. */
static pc_status make_prompt(pc_prompt **out, const pc_schema *schema, const settings *s,
                             const char *question)
{
    pc_prompt_builder *b = NULL;
    char name[16];
    pc_status status = pc_prompt_builder_new(&b, schema);
    for (int i = 0; i < s->document_count && status >= 0; i++) {
        snprintf(name, sizeof name, "%d", i);
        status = pc_prompt_builder_use(b, name);
    }
    if (status >= 0 && (status = pc_prompt_builder_begin_turn(b, "user")) >= 0
        && (status = pc_prompt_builder_add_text(b, question, strlen(question), 0)) >= 0)
        status = pc_prompt_builder_end(b);
    if (status >= 0)
        status = pc_prompt_from_builder(out, b, NULL);
    pc_prompt_builder_free(b);
    return status;
}

static pc_status answer(const pc_schema *schema, pc_cache *cache, const settings *s,
                        const struct llama_model *weights, const char *question)
{
    pc_generate_options options = PC_GENERATE_OPTIONS_INIT;
    pc_stats stats = PC_STATS_INIT;
    int32_t stops[MOST_STOPS];
    pc_prompt *prompt = NULL;
    pc_status status = make_prompt(&prompt, schema, s, question);
    options.on_text = print_text;
    if (status >= 0)
        status = pc_llama_stop_tokens(weights, stops, MOST_STOPS, &options.stop_token_count);
    options.stop_tokens = stops;
    if (status >= 0)
        status = pc_generate(prompt, cache, &options, &stats);
    if (status >= 0)
        printf("\n  (%llu of %llu tokens from the cache; first token after %.0f ms)\n",
               (unsigned long long)stats.tokens_cached, (unsigned long long)stats.tokens_prompt,
               1e3 * stats.seconds_ttft);
    pc_prompt_free(prompt);
    return status;
}

static pc_status talk(const pc_model *model, pc_cache *cache, const settings *s,
                      const struct llama_model *weights)
{
    pc_schema *schema = NULL;
    char line[LINE];
    pc_status status = make_schema(&schema, model, s);
    while (status >= 0 && fgets(line, sizeof line, stdin)) {
        size_t length = strcspn(line, "\n");
        if (length == sizeof line - 1) {
            pc_error_set("a question of more than 4,094 bytes");
            status = PC_ERR_LIMIT;
            break;
        }
        line[length] = 0;
        if (*line)
            status = answer(schema, cache, s, weights, line);
    }
    pc_schema_free(schema);
    return status;
}

/* ------------------------------------------------------------------- main */

static pc_status serve(const settings *s, struct llama_model *weights, struct llama_context *memory,
                       const struct llama_context_params *params)
{
    pc_llama_options options = PC_LLAMA_OPTIONS_INIT;
    pc_cache_options how = PC_CACHE_OPTIONS_INIT;
    pc_context *context = NULL;
    pc_model *model = NULL;
    pc_cache *cache = NULL;
    options.params = params;
    options.files = &s->model;
    options.file_count = 1;
    how.disk_path = s->cache;
    pc_status status = pc_context_new(&context, NULL);
    if (status >= 0)
        status = pc_llama_model_new(&model, context, weights, memory, &options);
    if (status >= 0)
        status = pc_cache_new(&cache, context, &how);
    if (status >= 0)
        status = talk(model, cache, s, weights);
    if (status < 0)
        fprintf(stderr, "llama_chat: %s: %s\n", pc_status_name(status), pc_error_text());
    pc_cache_free(cache);
    pc_model_free(model);
    pc_context_free(context);
    return status;
}

int main(int argc, char **argv)
{
    struct llama_context_params params = llama_context_default_params();
    struct llama_model *weights;
    struct llama_context *memory;
    settings s;
    int failed = 1;
    if (!read_settings(&s, argc, argv))
        return usage(argc == 2 && !strcmp(argv[1], "--help") ? stdout : stderr);
    llama_log_set(errors_only, NULL);
    llama_backend_init();
    params.n_ctx = s.context;
    if (s.threads)
        params.n_threads = params.n_threads_batch = s.threads;
    pc_llama_params(&params);
    weights = llama_model_load_from_file(s.model, llama_model_default_params());
    memory = weights ? llama_init_from_model(weights, params) : NULL;
    if (memory)
        failed = serve(&s, weights, memory, &params) < 0;
    llama_free(memory);
    llama_model_free(weights);
    llama_backend_free();
    return failed;
}
