/* tokenize: text from the argument or standard input to token ids (a JSON array), or back. */
#include <stdlib.h>
#include <string.h>

#include "cmd.h"

static int encode(const pc_model *model, const char *text, size_t size, uint64_t flags)
{
    size_t count;
    int32_t *ids;
    if (pc_tokenize(model, text, size, flags, NULL, 0, &count) < 0)
        return input_error("tokenize", NULL);
    ids = malloc((count + 1) * sizeof *ids);
    if (!ids)
        return plain_error("tokenize: out of memory for %zu ids", count);
    if (pc_tokenize(model, text, size, flags, ids, count, &count) < 0) {
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

/* The ids of a JSON array, for the caller to free; NULL after a message. `where`: for messages. */
static int32_t *read_ids(const char *where, const char *text, size_t size, size_t *count)
{
    json_error_t error;
    json_t *list = json_loadb(text, size, JSON_DECODE_ANY, &error);
    int32_t *ids = NULL;
    *count = json_array_size(list);
    if (!list)
        plain_error("%s:%d:%d: %s; --decode takes a JSON array of ids", where, error.line,
                    error.column, error.text);
    else if (!json_is_array(list))
        plain_error("%s: not a JSON array of ids", where);
    else if (!(ids = malloc((*count + 1) * sizeof *ids)))
        plain_error("decode: out of memory for %zu ids", *count);
    for (size_t i = 0; ids && i < *count; i++) {
        json_t *item = json_array_get(list, i);
        json_int_t id = json_integer_value(item);
        if (!json_is_integer(item) || id < 0 || id > INT32_MAX) {
            plain_error("%s: item %zu of the array is not a token id", where, i);
            free(ids);
            ids = NULL;
            break;
        }
        ids[i] = (int32_t)id;
    }
    json_decref(list);
    return ids;
}

static int decode(const pc_model *model, const char *where, const char *text, size_t size,
                  uint64_t flags, int json)
{
    size_t count, bytes;
    int32_t *ids = read_ids(where, text, size, &count);
    char *out = NULL;
    int code = EXIT_OK;
    if (!ids)
        return EXIT_INPUT;
    if (pc_detokenize(model, ids, count, flags, NULL, 0, &bytes) < 0)
        code = input_error("decode", NULL);
    else if (!(out = malloc(bytes + 1)))
        code = plain_error("decode: out of memory for %zu bytes", bytes);
    else if (pc_detokenize(model, ids, count, flags, out, bytes, &bytes) < 0)
        code = input_error("decode", NULL);
    else if (json)
        print_json(json_pack("{s:o}", "text", json_text(out, bytes)));
    else
        write_text(out, bytes);
    free(out);
    free(ids);
    return code;
}

/* given: the text, or NULL for standard input */
static int convert(const char *path, const char *given, int special, int back, int json)
{
    pc_context *context = NULL;
    pc_model *model = NULL;
    pc_model_options options = PC_MODEL_OPTIONS_INIT;
    size_t size = given ? strlen(given) : 0;
    const char *text = given;
    char *read = NULL;
    int code;
    options.flags = PC_MODEL_VOCAB_ONLY;
    options.progress = stop_loading;
    watch_interrupt();
    if ((code = open_context(&context)) >= 0)
        return code;
    if (pc_model_load(&model, context, path, &options) < 0)
        code = model_error(path, MODEL_HINT);
    else if (!text && !(text = read = read_text("-", TEXT_BYTES, &size)))
        code = is_interrupted(NULL) ? EXIT_INTERRUPTED : EXIT_INPUT;
    else if (back)
        code = decode(model, given ? "the argument" : "standard input", text, size,
                      special ? PC_TOKENIZE_SPECIAL : 0, json);
    else
        code = encode(model, text, size, special ? PC_TOKENIZE_SPECIAL | PC_TOKENIZE_BOS : 0);
    free(read);
    pc_model_free(model);
    pc_context_free(context);
    return code;
}

static int run(int argc, char **argv)
{
    const char *path = NULL, *others[1];
    int special = 0, back = 0, json = 0, code;
    size_t count;
    const option_row rows[] = {
        {"model", OPTION_PATH, &path, "its tokenizer is used; a vocabulary-only GGUF is enough",
         NULL, 0, 0},
        {"special", OPTION_FLAG, &special,
         "reads and writes special tokens; adds BOS and EOS by the model's convention", NULL, 0, 0},
        {"decode", OPTION_FLAG, &back, "ids to text", NULL, 0, 0},
        {"json", OPTION_FLAG, &json, "with --decode: {\"text\": ...}; ids are JSON in any case",
         NULL, 0, 0},
    };
    code = read_options(&tokenize_command, argc, argv, rows, sizeof rows / sizeof *rows, others, 1,
                        &count);
    if (code >= 0)
        return code;
    if (!path)
        return usage_error(&tokenize_command, "--model is needed");
    return convert(path, count ? others[0] : NULL, special, back, json);
}

const command tokenize_command = {
    .name = "tokenize",
    .usage = "tokenize --model M [--special] [--decode] [--json] [TEXT]",
    .summary = "text, of the argument or standard input, to token ids and back",
    .run = run};
