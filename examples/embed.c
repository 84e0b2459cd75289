/* Sentence embeddings with a memo of attention maps: every line of the input becomes a vector;
 * lines that the memo knows, or that it was tuned to take for alike, compute no attention scores.
 * What was new is remembered for the next time. Any model will do, an encoder made for sentences
 * gives the better vectors. */
#include <promptcache.h>
#include <promptcache/memo.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_LINES = 64, MOST_TOKENS = 512 };

static int32_t tokens[MOST_LINES][MOST_TOKENS];
static char lines[MOST_LINES][1024];
static pc_input inputs[MOST_LINES];

static pc_status read_lines(const pc_model *model, size_t *count)
{
    for (*count = 0; *count < MOST_LINES && fgets(lines[*count], sizeof *lines, stdin); ++*count) {
        char *line = lines[*count];
        size_t size = strcspn(line, "\r\n");
        line[size] = 0;
        inputs[*count].tokens = tokens[*count];
        pc_status status = pc_tokenize(model, line, size, PC_TOKENIZE_BOS, tokens[*count],
                                       MOST_TOKENS, &inputs[*count].count);
        if (status < 0)
            return status;
    }
    return PC_OK;
}

/* Which of the others is nearest: embeddings have length 1. */
static void print_nearest(const float *vectors, size_t count, size_t width)
{
    for (size_t i = 0; i < count; i++) {
        double best = -2;
        size_t at = i;
        for (size_t j = 0; j < count; j++) {
            double cosine = 0;
            for (size_t d = 0; d < width; d++)
                cosine += (double)vectors[i * width + d] * (double)vectors[j * width + d];
            if (j != i && cosine > best) {
                best = cosine;
                at = j;
            }
        }
        printf("%s\n  %.3f %s\n", lines[i], best, lines[at]);
    }
}

int main(int argc, char **argv)
{
    pc_context *context = NULL;
    pc_model *model = NULL;
    pc_memo *memo = NULL;
    pc_model_info info = PC_MODEL_INFO_INIT;
    pc_prefill_options options = PC_PREFILL_OPTIONS_INIT;
    pc_prefill_stats stats = PC_PREFILL_STATS_INIT;
    float *vectors = NULL;
    size_t count = 0;
    pc_status status;
    if (argc != 3 || !strcmp(argv[1], "--help")) {
        fprintf(argc == 2 ? stdout : stderr, "usage: embed MODEL MEMO-FOLDER < LINES\nfor each "
                                             "line of the input the one that is most like it\n");
        return argc == 2 ? 0 : 2;
    }
    if ((status = pc_context_new(&context, NULL)) >= 0
        && (status = pc_model_load(&model, context, argv[1], NULL)) >= 0
        && (status = pc_memo_open(&memo, model, argv[2], NULL)) == PC_OK
        && (status = pc_model_get_info(model, &info)) >= 0)
        status = read_lines(model, &count);
    if (status == PC_OK && count)
        vectors = calloc(count, (size_t)info.hidden * sizeof *vectors);
    options.flags = PC_PREFILL_NORMALIZE;
    options.memo = memo;
    options.embeddings = vectors;
    if (vectors
        && (status = pc_prefill(model, inputs, sizeof(pc_input), count, &options, &stats)) >= 0) {
        print_nearest(vectors, count, (size_t)info.hidden);
        printf("%zu lines, %d of them with maps of the memo\n", count, (int)stats.hits);
        status = pc_memo_add(memo, inputs, sizeof(pc_input), count, NULL);
    }
    if (status != PC_OK)
        fprintf(stderr, "embed: %s: %s\n", pc_status_name(status), pc_error_text());
    free(vectors);
    pc_memo_free(memo);
    pc_model_free(model);
    pc_context_free(context);
    return status == PC_OK ? 0 : 1;
}
