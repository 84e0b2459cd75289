/* check: runs a model through the cases of golden vectors and compares every tensor (check_*.c). */
#include <stdlib.h>
#include <string.h>

#include "bench.h"
#include "check.h"

static void leftover(checking *c)
{
    const golden_tensor *first = NULL;
    size_t count = 0;
    for (size_t i = 0; i < c->golden.count; i++) {
        const golden_tensor *t = &c->golden.tensors[i];
        if (t->used || (!c->info.relocatable && !strncmp(t->name, "relocate/", 9)))
            continue;
        if (!count++)
            first = t;
    }
    if (first && !c->code)
        c->code = plain_error("tensor '%s'%s of the golden file: no case that is known here%s",
                              first->name, count > 1 ? " and others" : "",
                              c->golden.about ? "" : " (there is no golden.json beside it)");
}

/* ------------------------------------------------- is the file about this model? */

static int ends_with(const char *text, const char *end)
{
    size_t n = strlen(text), m = strlen(end);
    return n >= m && !strcmp(text + n - m, end);
}

static int is_states(const char *name)
{
    static const char *const ends[] = {"/k", "/v",      "/k_pre",   "_k",
                                       "_v", "/k_from", "/k_moved", "/k_fresh"};
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
        if (ends_with(name, ends[i]))
            return 1;
    return 0;
}

/* Whether a tensor has the sizes of the model. The cases compare the numbers of tokens. With latent
 * attention values are narrower than keys, and some tensors have no heads. */
static int fits(const checking *c, const golden_tensor *t)
{
    const pc_model_info *m = &c->info;
    int64_t last = t->rank ? t->shape[t->rank - 1] : 0;
    if (is_states(t->name))
        return t->shape[0] == m->layers && last <= m->head_dim
               && (t->rank == 3 || (t->rank == 4 && t->shape[1] == m->kv_heads));
    if (strstr(t->name, "/router_"))
        return t->rank == 3 || (t->rank == 1 && t->integers);
    if (ends_with(t->name, "logits") || strstr(t->name, "/logits_"))
        return t->rank == 1 || (t->rank == 2 && last == m->vocab);
    if (ends_with(t->name, "/hidden"))
        return t->rank == 3 && t->shape[0] == m->layers + 1 && last == m->hidden;
    if (ends_with(t->name, "/hidden_last") || ends_with(t->name, "/final"))
        return t->rank == 2 && last == m->hidden;
    if (ends_with(t->name, "ids") || ends_with(t->name, "/pos") || strstr(t->name, "/greedy"))
        return t->integers;
    return 1;
}

static int check_fit(const checking *c, const char *path)
{
    for (size_t i = 0; i < c->golden.count; i++)
        if (!fits(c, &c->golden.tensors[i]))
            return plain_error("%s: tensor '%s' does not fit the model (%d layers, %d K/V heads of"
                               " %d, width %d, vocabulary %d): golden vectors of another model?",
                               path, c->golden.tensors[i].name, c->info.layers, c->info.kv_heads,
                               c->info.head_dim, c->info.hidden, c->info.vocab);
    return EXIT_OK;
}

static int run_cases(checking *c, const char *path)
{
    int code;
    c->info = (pc_model_info)PC_MODEL_INFO_INIT;
    pc_model_get_info(c->model, &c->info);
    if ((code = check_fit(c, path)) != EXIT_OK)
        return code;
    check_plain(c, "plain");
    check_encoder(c, "plain");
    check_encoder(c, "padded");
    check_modular(c);
    check_plain(c, "joint");
    check_shared(c);
    check_relocate(c);
    check_map_reuse(c);
    check_cross(c);
    leftover(c);
    return c->code ? c->code : c->missed ? EXIT_CHECK : EXIT_OK;
}

static int check_model(const char *model, const char *golden, long compute, int json)
{
    checking *c = calloc(1, sizeof *c);
    pc_context *context = NULL;
    pc_model_options options = PC_MODEL_OPTIONS_INIT;
    int code = c ? golden_open(&c->golden, golden) : EXIT_INPUT;
    options.compute = compute ? COMPUTE_DTYPE(compute) : PC_DTYPE_F32;
    options.progress = stop_loading;
    watch_interrupt();
    if (code == EXIT_OK && (code = open_context(&context)) < 0)
        code = EXIT_OK;
    if (code == EXIT_OK && pc_model_load(&c->model, context, model, &options) < 0)
        code = model_error(model, MODEL_HINT);
    if (code == EXIT_OK) {
        c->json = json;
        code = run_cases(c, golden);
    }
    if (c) {
        golden_close(&c->golden);
        pc_model_free(c->model);
    }
    free(c);
    pc_context_free(context);
    return code;
}

static int run(int argc, char **argv)
{
    const char *model = NULL, *golden = NULL, *others[1];
    long compute = 0;
    int json = 0, code;
    size_t count;
    const option_row rows[] = {
        {"model", OPTION_PATH, &model, "Hugging Face folder or GGUF file", NULL, 0, 0},
        {"golden", OPTION_FILE, &golden,
         "golden.safetensors; golden.json beside it describes the cases", NULL, 0, 0},
        {"compute", OPTION_CHOICE, &compute, "number format (f32)", COMPUTE_CHOICES, 0, 0},
        THREADS_ROW,
        {"json", OPTION_FLAG, &json, "one JSON object a tensor", NULL, 0, 0},
    };
    code = read_options(&bench_check, argc, argv, rows, sizeof rows / sizeof *rows, others, 0,
                        &count);
    if (code >= 0)
        return code;
    if (!model || !golden)
        return usage_error(&bench_check, "%s needed",
                           model    ? "--golden is"
                           : golden ? "--model is"
                                    : "--model and --golden are");
    return check_model(model, golden, compute, json);
}

const command bench_check = {.name = "check",
                             .usage = "check --model M --golden FILE [--json]",
                             .summary = "compares a model with golden vectors",
                             .run = run};
