/* Reuse without PML: of two prompts with the same beginning, the second takes the states of that
 * beginning from the cache. Nothing has to be declared; whole blocks of 64 equal tokens are found
 * by themselves, and the answer is that of an ordinary prefill. */
#include <promptcache.h>
#include <stdio.h>
#include <string.h>

/* Special tokens are written out in a text prompt; this is the demo model's chat form. */
static const char beginning[] =
    "<s><|system|>Answer from the notes.<|end|> "
    "Employee: Anna Reed. The job of Anna Reed is engineer. "
    "The desk of Anna Reed is 341. The phone of Anna Reed is 205. "
    "Employee: Oscar Baker. The job of Oscar Baker is lawyer. "
    "The desk of Oscar Baker is 192. The team of Oscar Baker is legal. "
    "Employee: Peter Novak. The job of Peter Novak is nurse. "
    "The desk of Peter Novak is 368. The phone of Peter Novak is 126. "
    "Employee: Clara Holt. The job of Clara Holt is designer. "
    "The desk of Clara Holt is 417. The hobby of Clara Holt is reading. ";
static const char *const questions[] = {"What is the desk of Peter Novak?",
                                        "Which job does Oscar Baker have?"};

static int32_t print_text(void *user, uint32_t sample, const char *text, size_t size)
{
    (void)sample;
    return fwrite(text, 1, size, user) == size ? 0 : 1;
}

static pc_status ask(const pc_model *model, pc_cache *cache, const char *question)
{
    char text[2048];
    pc_prompt *prompt = NULL;
    pc_generate_options options = PC_GENERATE_OPTIONS_INIT;
    pc_prompt_options own_text = PC_PROMPT_OPTIONS_INIT;
    pc_stats stats = PC_STATS_INIT;
    int size = snprintf(text, sizeof text, "%s<|user|>%s<|end|><|assistant|>", beginning, question);
    options.on_text = print_text;
    options.on_text_user = stdout;
    options.max_tokens = 32;
    printf("%s ", question);
    own_text.flags = PC_PROMPT_SPECIAL; /* "<|user|>" is a token; nobody else wrote the text */
    pc_status status = pc_prompt_from_text(&prompt, model, text, (size_t)size, &own_text);
    if (status >= 0)
        status = pc_generate(prompt, cache, &options, &stats);
    printf("\n  %llu tokens: %llu from the cache, %llu computed and stored, %llu computed; states "
           "%s\n",
           (unsigned long long)stats.tokens_prompt, (unsigned long long)stats.tokens_cached,
           (unsigned long long)stats.tokens_encoded, (unsigned long long)stats.tokens_new,
           stats.exactness == PC_EXACT ? "exact" : "not exact");
    pc_prompt_free(prompt);
    return status;
}

int main(int argc, char **argv)
{
    pc_context *context = NULL;
    pc_model *model = NULL;
    pc_cache *cache = NULL;
    if (argc != 2 || !strcmp(argv[1], "--help")) {
        fprintf(
            argc == 2 ? stdout : stderr,
            "usage: prefix MODEL\nasks models/demo/demo.gguf two questions about the same notes\n");
        return argc == 2 ? 0 : 2;
    }
    pc_status status = pc_context_new(&context, NULL);
    if (status >= 0)
        status = pc_model_load(&model, context, argv[1], NULL);
    if (status >= 0)
        status = pc_cache_new(&cache, context, NULL);
    for (size_t i = 0; i < sizeof questions / sizeof *questions && status >= 0; i++)
        status = ask(model, cache, questions[i]);
    if (status < 0)
        fprintf(stderr, "prefix: %s: %s\n", pc_status_name(status), pc_error_text());
    pc_cache_free(cache);
    pc_model_free(model);
    pc_context_free(context);
    return status < 0 ? 1 : 0;
}
