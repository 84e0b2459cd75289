/* Questions about documents that a search has found: a schema of them is made for each question,
 * from bytes. What an earlier question had computed of a document is reused, wherever it stands. */
#include <promptcache.h>
#include <promptcache/prompt.h>
#include <stdio.h>
#include <string.h>

static int32_t print_text(void *user, uint32_t sample, const char *text, size_t size)
{
    (void)sample;
    return fwrite(text, 1, size, user) == size ? 0 : 1;
}

/* One module for each document, behind the system prompt. Whatever their text is, it stays text. */
static pc_status make_schema(pc_schema **out, const pc_model *model, char **documents, int count)
{
    static const char system[] = "Answer from the notes.";
    pc_schema_builder *b = NULL;
    char name[16];
    pc_status status = pc_schema_builder_new(&b, model, "documents", NULL);
    if (status >= 0 && (status = pc_schema_builder_begin_turn(b, "system")) >= 0
        && (status = pc_schema_builder_add_text(b, system, strlen(system), 0)) >= 0)
        status = pc_schema_builder_end(b);
    for (int i = 0; i < count && status >= 0; i++) {
        snprintf(name, sizeof name, "%d", i);
        if ((status = pc_schema_builder_begin_module(b, name, 0)) >= 0
            && (status = pc_schema_builder_add_text(b, documents[i], strlen(documents[i]), 0)) >= 0)
            status = pc_schema_builder_end(b);
    }
    if (status >= 0)
        status = pc_schema_from_builder(out, b);
    pc_schema_builder_free(b);
    return status;
}

/* All documents, then the question. */
static pc_status make_prompt(pc_prompt **out, const pc_schema *schema, int count,
                             const char *question)
{
    pc_prompt_builder *b = NULL;
    char name[16];
    pc_status status = pc_prompt_builder_new(&b, schema);
    for (int i = 0; i < count && status >= 0; i++) {
        snprintf(name, sizeof name, "%d", i);
        status = pc_prompt_builder_use(b, name);
    }
    if (status >= 0)
        status = pc_prompt_builder_begin_turn(b, "user");
    if (status >= 0)
        status = pc_prompt_builder_add_text(b, question, strlen(question), 0);
    if (status >= 0)
        status = pc_prompt_builder_end(b);
    if (status >= 0)
        status = pc_prompt_from_builder(out, b, NULL);
    pc_prompt_builder_free(b);
    return status;
}

static pc_status ask(const pc_model *model, pc_cache *cache, const char *question, char **documents,
                     int count)
{
    pc_generate_options options = PC_GENERATE_OPTIONS_INIT;
    pc_stats stats = PC_STATS_INIT;
    pc_schema *schema = NULL;
    pc_prompt *prompt = NULL;
    options.on_text = print_text;
    options.on_text_user = stdout;
    pc_status status = make_schema(&schema, model, documents, count);
    if (status >= 0)
        status = make_prompt(&prompt, schema, count, question);
    if (status >= 0)
        status = pc_generate(prompt, cache, &options, &stats);
    if (status >= 0)
        printf("\n%llu tokens: %llu from the cache\n", (unsigned long long)stats.tokens_prompt,
               (unsigned long long)stats.tokens_cached);
    pc_prompt_free(prompt);
    pc_schema_free(schema);
    return status;
}

int main(int argc, char **argv)
{
    pc_context *context = NULL;
    pc_model *model = NULL;
    pc_cache *cache = NULL;
    int asked = argc == 2 && !strcmp(argv[1], "--help");
    if (argc < 5) {
        fprintf(asked ? stdout : stderr,
                "usage: documents MODEL QUESTION DOCUMENT DOCUMENT...\n"
                "answers from all documents, then again from all but the first\n");
        return asked ? 0 : 2;
    }
    pc_status status = pc_context_new(&context, NULL);
    if (status >= 0)
        status = pc_model_load(&model, context, argv[1], NULL);
    if (status >= 0)
        status = pc_cache_new(&cache, context, NULL);
    if (status >= 0)
        status = ask(model, cache, argv[2], argv + 3, argc - 3);
    if (status >= 0)
        status = ask(model, cache, argv[2], argv + 4, argc - 4);
    if (status < 0)
        fprintf(stderr, "documents: %s: %s\n", pc_status_name(status), pc_error_text());
    pc_cache_free(cache);
    pc_model_free(model);
    pc_context_free(context);
    return status < 0 ? 1 : 0;
}
