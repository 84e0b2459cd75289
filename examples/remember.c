/* Answers with a memo of attention maps: every line of the input is a prompt that is gone on with.
 * Lines that the memo knows, or that it was tuned to take for alike, are computed with remembered
 * maps, and the answer says so; what was new is remembered for the next time. */
#include <promptcache.h>
#include <promptcache/memo.h>
#include <stdio.h>
#include <string.h>

static int32_t print_text(void *user, uint32_t sample, const char *text, size_t size)
{
    (void)user, (void)sample;
    return fwrite(text, 1, size, stdout) == size ? 0 : 1;
}

static pc_status answer(const pc_model *model, pc_memo *memo, const char *line)
{
    int32_t tokens[512];
    pc_input input = {tokens, 0, NULL};
    pc_prompt *prompt = NULL;
    pc_generate_options options = PC_GENERATE_OPTIONS_INIT;
    pc_stats stats = PC_STATS_INIT;
    pc_status status = pc_tokenize(model, line, strlen(line), PC_TOKENIZE_BOS | PC_TOKENIZE_SPECIAL,
                                   tokens, 512, &input.count);
    if (status >= 0)
        status = pc_prompt_from_tokens(&prompt, model, tokens, input.count, NULL);
    options.max_tokens = 16;
    options.on_text = print_text;
    options.memo = memo;
    printf("%s\n ", line);
    if (status >= 0)
        status = pc_generate(prompt, NULL, &options, &stats);
    pc_prompt_free(prompt);
    if (status < 0)
        return status;
    if (stats.exactness == PC_APPROXIMATE)
        printf("\n  approximate: maps of record %d, similarity %.3f\n", (int)stats.memo_record,
               stats.memo_similarity);
    else
        printf("\n  exact\n");
    return stats.memo_layers ? PC_OK : pc_memo_add(memo, &input, sizeof(pc_input), 1, NULL);
}

int main(int argc, char **argv)
{
    pc_context *context = NULL;
    pc_model *model = NULL;
    pc_memo *memo = NULL;
    char line[1024];
    pc_status status;
    if (argc != 3 || !strcmp(argv[1], "--help")) {
        fprintf(argc == 2 ? stdout : stderr,
                "usage: remember MODEL MEMO-FOLDER < LINES\ngoes on with each line of the input\n");
        return argc == 2 ? 0 : 2;
    }
    if ((status = pc_context_new(&context, NULL)) >= 0
        && (status = pc_model_load(&model, context, argv[1], NULL)) >= 0)
        status = pc_memo_open(&memo, model, argv[2], NULL);
    while (status == PC_OK && fgets(line, sizeof line, stdin)) {
        line[strcspn(line, "\r\n")] = 0;
        status = answer(model, memo, line);
    }
    if (status != PC_OK)
        fprintf(stderr, "remember: %s: %s\n", pc_status_name(status), pc_error_text());
    pc_memo_free(memo);
    pc_model_free(model);
    pc_context_free(context);
    return status == PC_OK ? 0 : 1;
}
