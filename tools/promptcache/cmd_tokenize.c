/* tokenize: standard input to ids (a JSON array) or back. */
#include <stdlib.h>

#include "program.h"

static int encode(const pc_model *model, const char *text, size_t size, uint64_t flags)
{
    size_t count;
    int32_t *ids;
    if (pc_tokenize(model, text, size, flags, NULL, 0, &count) < 0)
        return input_error("tokenize", NULL);
    ids = malloc((count + 1) * sizeof *ids);
    if (!ids || pc_tokenize(model, text, size, flags, ids, count, &count) < 0) {
        free(ids);
        return input_error("tokenize", NULL);
    }
    putchar('[');
    for (size_t i = 0; i < count; i++)
        printf("%s%d", i ? "," : "", ids[i]);
    puts("]");
    free(ids);
    return EXIT_OK;
}

static int decode(const pc_model *model, const char *text, size_t size, uint64_t flags)
{
    json_error_t error;
    json_t *list = json_loadb(text, size, 0, &error), *item;
    size_t count = json_array_size(list), bytes, i;
    int32_t *ids = malloc((count + 1) * sizeof *ids);
    char *out = NULL;
    int code = EXIT_OK;
    if (!json_is_array(list) || !ids) {
        fprintf(stderr, "promptcache: standard input:%d:%d: %s\n", error.line, error.column, list ? "not an array" : error.text);
        code = EXIT_INPUT;
    }
    if (code == EXIT_OK)
        json_array_foreach(list, i, item)
            ids[i] = json_is_integer(item) ? (int32_t)json_integer_value(item) : -1;
    if (code == EXIT_OK && (pc_detokenize(model, ids, count, flags, NULL, 0, &bytes) < 0 || !(out = malloc(bytes + 1)) ||
                            pc_detokenize(model, ids, count, flags, out, bytes, &bytes) < 0))
        code = input_error("decode", NULL);
    if (code == EXIT_OK)
        fwrite(out, 1, bytes, stdout);
    free(out);
    free(ids);
    json_decref(list);
    return code;
}

static int run(int argc, char **argv)
{
    const char *path = NULL, *others[1];
    int special = 0, back = 0, json = 0, code;
    size_t count, size = 0;
    const option_row rows[] = {
        {"model", OPTION_TEXT, &path, "whose tokenizer; a vocabulary-only GGUF is enough", NULL},
        {"special", OPTION_FLAG, &special, "text of special tokens counts, BOS and EOS by the model's convention", NULL},
        {"decode", OPTION_FLAG, &back, "ids to text", NULL},
        {"json", OPTION_FLAG, &json, "(the output always is)", NULL},
    };
    pc_context *context = NULL;
    pc_model *model = NULL;
    pc_model_options options = PC_MODEL_OPTIONS_INIT;
    code = read_options(&tokenize_command, argc, argv, rows, sizeof rows / sizeof *rows, others, 0, &count);
    if (code >= 0)
        return code;
    if (!path)
        return usage_error(&tokenize_command, "--model is needed");
    options.flags = PC_MODEL_VOCAB_ONLY;
    char *text = read_text("-", &size);
    if (pc_context_new(&context, NULL) < 0 || pc_model_load(&model, context, path, &options) < 0)
        code = input_error("model", NULL);
    else if (text)
        code = back ? decode(model, text, size, special ? PC_TOKENIZE_SPECIAL : 0)
                    : encode(model, text, size, special ? PC_TOKENIZE_SPECIAL | PC_TOKENIZE_BOS : 0);
    free(text);
    pc_model_free(model);
    pc_context_free(context);
    return code < 0 ? EXIT_INPUT : code;
}

const command tokenize_command = {"tokenize", "tokenize --model M [--special] [--decode] <TEXT", "text to token ids and back", run};
