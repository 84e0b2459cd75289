/* Catches: a given map that is applied to the wrong layer, head or token, in any architecture with
 * golden vectors; queries or scores that still matter; lanes with given maps that change other
 * lanes; recorded maps that are not the model's; states of such lanes that are used as if they had
 * keys. The expected values come from an independent pass in double precision. */
#include "golden_lanes.h"
#include "model/load/safetensors.h"
#include "refused.h"

enum { MOST = 64 };

typedef struct golden {
    const char *name;
    pc_model *model;
    pc__weights *file;
    size_t tokens;
    int32_t x[MOST], y[MOST];
    int64_t positions[MOST];
    float *probs; /* [layer][head][token][token] of X */
} golden;

typedef struct seen {
    uint32_t lane;
    float *hidden[MAX_LAYERS + 1], *probs[MAX_LAYERS];
    int keys; /* 1: the trace had keys of this lane */
} seen;

static void look(void *user, const pc_trace *t)
{
    seen *s = user;
    float **to = !strcmp(t->name, "hidden")  ? &s->hidden[t->layer]
                 : !strcmp(t->name, "probs") ? &s->probs[t->layer]
                                             : NULL;
    size_t count = 1;
    s->keys += t->lane == s->lane && !strcmp(t->name, "k");
    if (!to || t->lane != s->lane)
        return;
    for (uint32_t i = 0; i < t->rank; i++)
        count *= (size_t)t->shape[i];
    *to = malloc(count * sizeof(float));
    memcpy(*to, t->data, count * sizeof(float));
}

static void drop(seen *s)
{
    for (int l = 0; l <= MAX_LAYERS; l++)
        free(s->hidden[l]);
    for (int l = 0; l < MAX_LAYERS; l++)
        free(s->probs[l]);
    *s = (seen){.lane = s->lane};
}

/* Lane 0: X, computed. Lane 1: Y, with or without given maps. `which`: a bit for each lane. */
static pc_status eval(const golden *g, unsigned which, const float *const *maps, float *logits,
                      seen *s, pc_segment **segments)
{
    pc_eval_args args = PC_EVAL_ARGS_INIT;
    const pc_lane all[2] = {{NULL, 0, g->x, g->positions, g->tokens, NULL, 0},
                            {NULL, 0, g->y, g->positions, g->tokens, NULL, 0}};
    const float *const *given[2] = {NULL, maps};
    args.lanes = which & 1 ? all : all + 1;
    args.lane_stride = sizeof(pc_lane);
    args.lane_count = which == 3 ? 2 : 1;
    args.maps = which & 1 ? given : given + 1;
    args.visibility = PC_VISIBLE_ALL;
    args.logits = logits;
    args.segments = segments;
    args.trace = s ? look : NULL;
    args.trace_user = s;
    return pc_eval(g->model, &args);
}

static void compare(const golden *g, const char *name, const float *got, size_t first, double limit)
{
    size_t count;
    float *want = golden_floats(g->file, name, &count);
    double worst = 0.0, most = 0.0;
    if (!CHECK(want != NULL))
        return;
    for (size_t i = 0; i < count; i++) {
        worst = fmax(worst, fabs((double)got[first + i] - (double)want[i]));
        most = fmax(most, fabs((double)want[i]));
    }
    if (!CHECK(worst <= limit * most))
        printf("%s: %s is off by %.2e of %.2e\n", g->name, name, worst, most);
    free(want);
}

static void compare_hidden(const golden *g, const seen *s)
{
    size_t layers = (size_t)g->model->native->arch.layers,
           each = g->tokens * (size_t)g->model->native->arch.hidden;
    float *all = malloc((layers + 1) * each * sizeof *all);
    for (size_t l = 0; l <= layers; l++)
        if (CHECK(s->hidden[l] != NULL))
            memcpy(all + l * each, s->hidden[l], each * sizeof *all);
    compare(g, "mapreuse/y_hidden_reuse", all, 0, 2e-4);
    free(all);
}

static void layers_of(const golden *g, const float *all, const float **layers)
{
    size_t each = (size_t)g->model->native->arch.heads * g->tokens * g->tokens;
    for (int32_t l = 0; l < g->model->native->arch.layers; l++)
        layers[l] = all + (size_t)l * each;
}

static void given(const golden *g)
{
    const pc__arch *arch = &g->model->native->arch;
    size_t rows = arch->causal ? g->tokens : 0, vocab = (size_t)arch->vocab;
    float *alone = calloc(rows * vocab + 1, sizeof *alone),
          *both = calloc(2 * rows * vocab + 1, sizeof *both);
    const float *layers[MAX_LAYERS];
    seen s = {.lane = 0}, t = {.lane = 1}, x = {.lane = 0};
    layers_of(g, g->probs, layers);
    CHECK_OK(eval(g, 2, layers, rows ? alone : NULL, &s, NULL));
    compare_hidden(g, &s);
    CHECK_INT(s.keys, 0);
    if (rows)
        compare(g, "mapreuse/y_logits_reuse", alone, 0, 2e-4);
    /* with X, whose maps are recorded */
    CHECK_OK(eval(g, 3, layers, rows ? both : NULL, &t, NULL));
    CHECK_OK(eval(g, 3, layers, NULL, &x, NULL));
    for (int32_t l = 0; l <= arch->layers; l++)
        same_rows(g->model->context, g->name, t.hidden[l], s.hidden[l],
                  g->tokens * (size_t)arch->hidden, 2e-5);
    if (rows) {
        same_rows(g->model->context, g->name, both + rows * vocab, alone, rows * vocab, 2e-5);
        compare(g, "mapreuse/x_logits", both, 0, 2e-4);
    }
    CHECK_INT(x.keys, arch->layers);
    for (int32_t l = 0; l < arch->layers; l++)
        for (size_t i = 0; i < (size_t)arch->heads * g->tokens * g->tokens; i++)
            CHECK(fabsf(x.probs[l][i] - layers[l][i]) <= 1e-4f);
    drop(&s);
    drop(&t);
    drop(&x);
    free(alone);
    free(both);
}

/* A lane with its own maps in every other layer gives the same. */
static void own_maps(const golden *g)
{
    const pc__arch *arch = &g->model->native->arch;
    const float *layers[MAX_LAYERS];
    seen plain = {.lane = 0}, again = {.lane = 0};
    CHECK_OK(eval(g, 2, NULL, NULL, &plain, NULL));
    for (int32_t l = 0; l < arch->layers; l++)
        layers[l] = l % 2 ? plain.probs[l] : NULL;
    CHECK_OK(eval(g, 2, layers, NULL, &again, NULL));
    for (int32_t l = 0; l <= arch->layers; l++)
        for (size_t i = 0; i < g->tokens * (size_t)arch->hidden; i++)
            CHECK(fabsf(plain.hidden[l][i] - again.hidden[l][i]) <= 1e-4f);
    drop(&plain);
    drop(&again);
}

static void refusals(const golden *g)
{
    const float *layers[MAX_LAYERS];
    pc_segment *segments[1] = {NULL};
    layers_of(g, g->probs, layers);
    if (g->model->native->arch.causal) {
        CHECK_STATUS(eval(g, 2, layers, NULL, NULL, segments), PC_ERR_STATE);
        CHECK(!segments[0]);
        CHECK_ERROR_HAS("values only");
    }
}

static int32_t read_ids(const golden *g, const char *name, int32_t *out)
{
    size_t count;
    float *values = golden_floats(g->file, name, &count);
    if (!CHECK(values && count <= MOST))
        count = 0;
    for (size_t i = 0; i < count; i++)
        out[i] = (int32_t)values[i];
    free(values);
    return (int32_t)count;
}

static void folder(pc_context *context, const char *name)
{
    golden g = {.name = name};
    pc_model_options options = PC_MODEL_OPTIONS_INIT;
    char path[4096];
    size_t count;
    const char *at;
    snprintf(path, sizeof path, "golden/%s", name);
    at = pc_test_data(path);
    options.compute = PC_DTYPE_F32;
    pc_status loaded = at ? pc_model_load(&g.model, context, at, &options) : PC_ERR_NOT_FOUND;
    if (pc_test_refused(loaded) || !CHECK(at) || !CHECK_OK(loaded))
        return;
    snprintf(path, sizeof path, "%s/golden.safetensors", at);
    if (CHECK_OK(pc__safetensors_open(&g.file, &context->mem, path))) {
        g.tokens = (size_t)read_ids(&g, "mapreuse/x_ids", g.x);
        CHECK_INT(read_ids(&g, "mapreuse/y_ids", g.y), (int64_t)g.tokens);
        for (size_t i = 0; i < g.tokens; i++)
            g.positions[i] = (int64_t)i;
        g.probs = golden_floats(g.file, "mapreuse/x_probs", &count);
        if (CHECK(g.probs && g.tokens)) {
            given(&g);
            own_maps(&g);
            refusals(&g);
        }
    }
    free(g.probs);
    pc__weights_free(g.file);
    pc_model_free(g.model);
}

int main(void)
{
    static const char *const names[] = {"llama_gqa", "mistral_swa", "qwen2_moe",
                                        "gpt_oss",   "bert",        "roberta",
                                        "deberta",   "deberta_v2",  "deberta_v2_conv"};
    pc_context *context = NULL;
    if (CHECK_OK(pc_context_new(&context, NULL)))
        for (size_t i = 0; i < sizeof names / sizeof *names; i++)
            folder(context, names[i]);
    pc_context_free(context);
    return pc_test_end();
}
