/* A conversation over a shared system prompt: every line of standard input is a turn. Nothing that
 * was said is computed again. "/again" takes the last answer back and draws another one. */
#include <promptcache.h>
#include <promptcache/sampling.h>
#include <promptcache/prompt.h>
#include <promptcache/batch.h>
#include <stdio.h>
#include <string.h>

static const char format[] =
    "<s><|system|>{__SYS_PROMPT}<|end|><|user|>{__USR_PROMPT}<|end|><|assistant|>";

static int32_t print_text(void *user, uint32_t sample, const char *text, size_t size)
{
    (void)sample;
    return fwrite(text, 1, size, user) == size ? 0 : 1;
}

/* The first turn makes the sequence, the others go on with it. */
static pc_status turn(pc_sequence **chat, const pc_schema *schema, pc_cache *cache, pc_batch *batch,
                      const char *text)
{
    pc_generate_options options = PC_GENERATE_OPTIONS_INIT;
    pc_sampling sampling = PC_SAMPLING_INIT;
    const pc_message message = {.role = "user", .content = text, .content_size = strlen(text)};
    pc_prompt *prompt = NULL;
    if (*chat)
        return pc_sequence_push_messages(*chat, &message, sizeof message, 1, NULL);
    options.flags = PC_GENERATE_KEEP; /* it can go on after it has finished */
    options.max_tokens = 32;
    options.sampling = &sampling;
    sampling.temperature = 0.7f;
    options.on_text = print_text;
    options.on_text_user = stdout;
    pc_status status = pc_prompt_fill(&prompt, schema, text, strlen(text), NULL);
    if (status >= 0)
        status = pc_sequence_new(chat, prompt, cache, &options);
    if (status >= 0)
        status = pc_batch_add(batch, *chat);
    pc_prompt_free(prompt);
    return status;
}

static pc_status talk(pc_model *model, pc_cache *cache, const char *system)
{
    pc_system_format source = PC_SYSTEM_FORMAT_INIT;
    pc_schema *schema = NULL;
    pc_batch *batch = NULL;
    pc_sequence *chat = NULL;
    char line[1024];
    size_t asked = 0; /* tokens behind the prompt when the answer began */
    source.format = format;
    source.format_size = strlen(format);
    source.system = system;
    source.system_size = strlen(system);
    pc_status status = pc_schema_from_format(&schema, model, &source);
    if (status >= 0)
        status = pc_batch_new(&batch, model, NULL);
    while (status >= 0 && fgets(line, sizeof line, stdin)) {
        line[strcspn(line, "\n")] = 0;
        if (strcmp(line, "/again")) {
            status = turn(&chat, schema, cache, batch, line);
            if (status >= 0)
                pc_sequence_tokens(chat, &asked);
        } else if (chat) {
            status = pc_sequence_truncate(chat, asked);
        }
        while (status == PC_OK)
            status = pc_batch_step(batch);
        if (status >= 0)
            status = pc_sequence_error(chat, NULL);
        printf("\n");
    }
    pc_sequence_free(chat);
    pc_batch_free(batch);
    pc_schema_free(schema);
    return status;
}

int main(int argc, char **argv)
{
    pc_context *context = NULL;
    pc_model *model = NULL;
    pc_cache *cache = NULL;
    if (argc != 3) {
        int asked = argc == 2 && !strcmp(argv[1], "--help");
        fprintf(asked ? stdout : stderr,
                "usage: chat MODEL \"SYSTEM PROMPT\"\n"
                "answers lines of standard input with models/demo/demo.gguf\n");
        return asked ? 0 : 2;
    }
    pc_status status = pc_context_new(&context, NULL);
    if (status >= 0)
        status = pc_model_load(&model, context, argv[1], NULL);
    if (status >= 0)
        status = pc_cache_new(&cache, context, NULL);
    if (status >= 0)
        status = talk(model, cache, argv[2]);
    if (status < 0)
        fprintf(stderr, "chat: %s: %s\n", pc_status_name(status), pc_error_text());
    pc_cache_free(cache);
    pc_model_free(model);
    pc_context_free(context);
    return status < 0 ? 1 : 0;
}
