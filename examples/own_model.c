/* An application's own model: the application hands over a table of functions, and schemas,
 * placement, cache and generation work on it. copy_model.c computes its states, copy_sequence.c
 * holds them. This file describes the model and uses it. */
#include <stdio.h>
#include <string.h>

#include "copy_model.h"

static const char schema_text[] =
    "<schema name=\"facts\">"
    "<module name=\"sky\">The colour of the sky is blue. </module>"
    "<module name=\"grass\">The colour of the grass is green. </module>"
    "<module name=\"snow\">The colour of the snow is white. </module>"
    "</schema>";
static const char prompt_text[] =
    "<prompt schema=\"facts\"><grass/><snow/>The colour of the snow is</prompt>";

static pc_status describe(void *user, pc_model_info *info)
{
    (void)user;
    strcpy(info->architecture, "copy");
    memcpy(info->fingerprint, "copy, version 1",
           16); /* part of every cached state's name: changes whenever the states do */
    info->vocab = COPY_VOCAB;
    info->context_length = COPY_CONTEXT;
    info->relocatable = 1; /* a state does not depend on where its segment is placed */
    info->token_bos = info->token_unk = info->token_pad = -1;
    info->token_eos = '.';
    return PC_OK;
}

static int32_t print_text(void *user, uint32_t sample, const char *text, size_t size)
{
    (void)sample;
    return fwrite(text, 1, size, user) == size ? 0 : 1;
}

static pc_status answer(const pc_prompt *prompt, pc_cache *cache)
{
    pc_generate_options options = PC_GENERATE_OPTIONS_INIT;
    pc_stats stats = PC_STATS_INIT;
    options.on_text = print_text;
    options.on_text_user = stdout;
    options.max_tokens = 20;
    printf("The colour of the snow is");
    pc_status status = pc_generate(prompt, cache, &options, &stats);
    printf("\n  %llu tokens: %llu from the cache, %llu encoded, %llu new\n",
           (unsigned long long)stats.tokens_prompt, (unsigned long long)stats.tokens_cached,
           (unsigned long long)stats.tokens_encoded, (unsigned long long)stats.tokens_new);
    return status;
}

int main(int argc, char **argv)
{
    pc_context *context = NULL;
    pc_model *model = NULL;
    pc_cache *cache = NULL;
    pc_schema *schema = NULL;
    pc_prompt *prompt = NULL;
    pc_model_ops ops = PC_MODEL_OPS_INIT;
    if (argc != 1) {
        int asked = argc == 2 && !strcmp(argv[1], "--help");
        fprintf(asked ? stdout : stderr, "usage: own_model\n"
                                         "completes a sentence twice with a model of its own\n");
        return asked ? 0 : 2;
    }
    ops.describe = describe, ops.tokenize = copy_tokenize, ops.detokenize = copy_detokenize;
    ops.encode = copy_encode, ops.release = copy_release, ops.step = copy_step;
    ops.sequence_new = copy_sequence_new, ops.attach = copy_attach, ops.drop = copy_drop;
    pc_status status = pc_context_new(&context, NULL);
    if (status >= 0)
        status = pc_model_from_ops(&model, context, &ops, NULL, NULL, NULL);
    if (status >= 0)
        status = pc_cache_new(&cache, context, NULL);
    if (status >= 0)
        status = pc_schema_parse(&schema, model, schema_text, strlen(schema_text), NULL);
    if (status >= 0)
        status = pc_prompt_parse(&prompt, &schema, 1, prompt_text, strlen(prompt_text), NULL);
    for (int i = 0; i < 2 && status >= 0; i++)
        status = answer(prompt, cache);
    if (status < 0)
        fprintf(stderr, "own_model: %s: %s\n", pc_status_name(status), pc_error_text());
    pc_prompt_free(prompt);
    pc_schema_free(schema);
    pc_cache_free(cache);
    pc_model_free(model);
    pc_context_free(context);
    return status < 0 ? 1 : 0;
}
