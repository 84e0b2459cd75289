/* An answer that is JSON of a given schema: each token is drawn among those that can go on with it.
 * The grammar is compiled once; any number of requests may have it in their options. */
#include <promptcache.h>
#include <promptcache/grammar.h>
#include <promptcache/prompt.h>
#include <promptcache/sampling.h>
#include <stdio.h>
#include <string.h>

static const char schema[] =
    "{\"type\": \"object\","
    " \"properties\": {"
    "  \"city\": {\"enum\": [\"Oslo\", \"Rome\", \"Lima\"]},"
    "  \"nights\": {\"type\": \"integer\", \"minimum\": 1, \"maximum\": 14},"
    "  \"breakfast\": {\"type\": \"boolean\"}},"
    " \"required\": [\"city\", \"nights\", \"breakfast\"]}";

static int32_t print_text(void *user, uint32_t sample, const char *text, size_t size)
{
    (void)user, (void)sample;
    return fwrite(text, 1, size, stdout) == size ? 0 : 1;
}

static pc_status answer(const pc_prompt *prompt, const pc_grammar *grammar, uint64_t seed)
{
    pc_generate_options options = PC_GENERATE_OPTIONS_INIT;
    pc_sampling sampling = PC_SAMPLING_INIT;
    pc_stats stats = PC_STATS_INIT;
    sampling.temperature = 1;
    sampling.seed = seed;
    options.sampling = &sampling;
    options.grammar = grammar;
    options.on_text = print_text;
    pc_status status = pc_generate(prompt, NULL, &options, &stats);
    if (status >= 0)
        printf("\n%s, %llu tokens\n",
               stats.finish == PC_FINISH_GRAMMAR || stats.finish == PC_FINISH_STOP_TOKEN
                   ? "complete"
                   : "cut off",
               (unsigned long long)stats.tokens_generated);
    return status;
}

int main(int argc, char **argv)
{
    pc_context *context = NULL;
    pc_model *model = NULL;
    pc_grammar *grammar = NULL;
    pc_prompt *prompt = NULL;
    pc_grammar_options form = PC_GRAMMAR_OPTIONS_INIT;
    if (argc != 3) {
        int asked = argc == 2 && !strcmp(argv[1], "--help");
        fprintf(asked ? stdout : stderr,
                "json MODEL TEXT: three answers to TEXT, as JSON of a schema\n");
        return asked ? 0 : 2;
    }
    form.text = schema;
    form.text_size = strlen(schema);
    form.flags = PC_GRAMMAR_ONE_LINE;
    pc_status status = pc_context_new(&context, NULL);
    if (status >= 0)
        status = pc_model_load(&model, context, argv[1], NULL);
    if (status >= 0)
        status = pc_grammar_new(&grammar, model, &form);
    if (status >= 0)
        status = pc_prompt_from_text(&prompt, model, argv[2], strlen(argv[2]), NULL);
    for (uint64_t seed = 1; seed <= 3 && status >= 0; seed++)
        status = answer(prompt, grammar, seed);
    if (status < 0)
        fprintf(stderr, "%s\n", pc_error_text());
    pc_prompt_free(prompt);
    pc_grammar_free(grammar);
    pc_model_free(model);
    pc_context_free(context);
    return status < 0;
}
