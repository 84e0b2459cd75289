/* Catches: what GGUF leaves to the reader of an architecture, because its released models all have
 * the same value, read otherwise than config.json gives it: which layers have windows, chunks and
 * RoPE, limits, temperatures; experts in MXFP4. write_gguf.py makes each pair: a folder with the
 * values of released models, and the file that the usual converter makes of it. Both must give the
 * same bits.
 *
 * test_gguf_released FOLDER: the pairs NAME and NAME.gguf there. */
#include <dirent.h>
#include <stdlib.h>
#include <string.h>

#include "golden_lanes.h"

enum { TOKENS = 48 };

/* Logits, in fp32, of tokens around position 8192, where Llama 4 begins another chunk and another
 * temperature. */
static float *logits_of(pc_context *context, const char *path, size_t *count)
{
    int32_t tokens[TOKENS];
    int64_t positions[TOKENS];
    pc_model_options options = PC_MODEL_OPTIONS_INIT;
    pc_model *model = NULL;
    float *logits = NULL;
    lane l = {.tokens = tokens, .positions = positions, .count = TOKENS};
    options.compute = PC_DTYPE_F32;
    if (!CHECK_OK(pc_model_load(&model, context, path, &options)))
        return NULL;
    for (int i = 0; i < TOKENS; i++) {
        tokens[i] = (i * 37 + 11) % model->info.vocab;
        positions[i] = 8192 - TOKENS / 2 + i;
    }
    *count = TOKENS * (size_t)model->info.vocab;
    logits = calloc(*count, sizeof *logits);
    if (!CHECK_OK(run_lanes(model, &l, 1, PC_VISIBLE_BY_POSITION, 8192 + TOKENS, logits, NULL)))
        *count = 0;
    pc__kv_unref(l.run);
    pc_model_free(model);
    return logits;
}

static void compare(pc_context *context, const char *folder, const char *file)
{
    size_t counts[2] = {0, 0};
    float *a = logits_of(context, folder, &counts[0]), *b = logits_of(context, file, &counts[1]);
    if (a && b && CHECK_INT(counts[1], counts[0]) && CHECK(counts[0] > 0)) {
        size_t differ = 0;
        for (size_t i = 0; i < counts[0]; i++)
            differ += a[i] != b[i];
        printf("%s: %zu of %zu logits differ\n", file, differ, counts[0]);
        CHECK(differ == 0);
    }
    free(a);
    free(b);
}

int main(int argc, char **argv)
{
    DIR *all = argc > 1 ? opendir(argv[1]) : NULL;
    struct dirent *entry;
    pc_context *context;
    size_t count = 0;
    if (!all)
        pc_test_skip("no folder of models (write_gguf.py)");
    if (!CHECK_OK(pc_context_new(&context, NULL)))
        return pc_test_end();
    while ((entry = readdir(all))) {
        char folder[4096], file[4096];
        const char *dot = strstr(entry->d_name, ".gguf");
        if (!dot)
            continue;
        snprintf(folder, sizeof folder, "%s/%.*s", argv[1], (int)(dot - entry->d_name),
                 entry->d_name);
        snprintf(file, sizeof file, "%s/%s", argv[1], entry->d_name);
        compare(context, folder, file);
        count++;
    }
    closedir(all);
    CHECK(count > 0);
    pc_context_free(context);
    return pc_test_end();
}
