/* Catches: a model whose logits over a forest of shared levels differ from those of every sequence
 * computed alone from its first token, or change when sharing is turned off or the hierarchy is
 * left out. The shapes are those of the end-to-end test of Hydragen's published implementation:
 * four forced tokens, one and two completions a leaf, levels that are longer than what their
 * sequences see of them.
 * The demo model and random weights run in fp32, with far narrower tolerances than the published
 * ones. Random weights also run in bf16, within the published tolerances for fp16 (logits 0.75,
 * mean relative 0.05), although bf16 has three bits less. The demo model does not: it looks keys
 * up, so that single bits matter. Without hierarchy the published mean is 0.02, which holds in
 * fp32 only: keys that are rotated at other places round to about 0.026 in bf16. Runs once a CPU
 * level. */
#include <promptcache/bench.h>
#include <math.h>

#include "levels.h"
#include "model/model.h"

enum { STEPS = 4, MOST_LEVELS = 3, MOST_NODES = 8, MOST_SEQUENCES = 16, MOST_TOKENS = 400 };

typedef struct forest_case {
    const char *name;
    size_t levels, counts[MOST_LEVELS], lengths[MOST_LEVELS], padding;
    int hierarchy; /* 1: also without sharing or hierarchy */
} forest_case;

static const forest_case cases[] = {
    {"[1] x 10", 1, {1}, {10}, 0, 1},
    {"[1] x 10, padding 3", 1, {1}, {10}, 3, 0},
    {"[1, 4] x [2, 4]", 2, {1, 4}, {2, 4}, 0, 1},
    {"[2, 4, 8] x [2, 4, 3]", 3, {2, 4, 8}, {2, 4, 3}, 0, 0},
    {"[3, 3, 6] x [4, 8, 2], padding 1", 3, {3, 3, 6}, {4, 8, 2}, 1, 0},
    {"[1, 2] x [256, 128]", 2, {1, 2}, {256, 128}, 0, 0},
};

enum { CASES = sizeof cases / sizeof *cases };

typedef struct node {
    void *segment;
    int32_t tokens[MOST_TOKENS];
    int64_t start;
    size_t count; /* without the padding */
} node;

typedef struct forest {
    const forest_case *of;
    const pc_model *model;
    size_t vocab, leaves, completions;
    node nodes[MOST_LEVELS][MOST_NODES];
    int32_t forced[MOST_SEQUENCES][STEPS];
    float *logits[MOST_SEQUENCES]; /* [STEPS][vocab] of each sequence */
} forest;

static const pc_model_ops *ops_of(const forest *f)
{
    return &f->model->ops;
}

static node *ancestor(forest *f, size_t leaf, size_t level)
{
    return &f->nodes[level][leaf * f->of->counts[level] / f->leaves];
}

static pc_span placed(const node *n)
{
    return (pc_span){n->segment, n->start, 0, (uint32_t)n->count};
}

/* Encodes tokens from position `from` on, which see the placements. */
static void *encode(forest *f, const int32_t *tokens, int64_t from, size_t count,
                    const pc_span *visible, size_t visible_count)
{
    int64_t positions[MOST_TOKENS];
    pc_token_range whole = {0, count};
    pc_encode_args args = {sizeof args,
                           tokens,
                           positions,
                           count,
                           visible,
                           sizeof(pc_span),
                           visible_count,
                           &whole,
                           sizeof(pc_token_range),
                           1,
                           512,
                           NULL,
                           NULL,
                           NULL,
                           0};
    void *segment = NULL;
    for (size_t i = 0; i < count; i++)
        positions[i] = from + (int64_t)i;
    CHECK_OK(ops_of(f)->encode(f->model->user, &args, &segment));
    return segment;
}

/* A level's segments hold `padding` tokens more than anybody sees. */
static void plant(forest *f, pc_test_rng *rng)
{
    for (size_t l = 0; l < f->of->levels; l++)
        for (size_t i = 0; i < f->of->counts[l]; i++) {
            node *n = &f->nodes[l][i];
            pc_span visible[MOST_LEVELS];
            size_t leaf = (i * f->leaves + f->of->counts[l] - 1) / f->of->counts[l];
            n->count = f->of->lengths[l];
            for (size_t t = 0; t < n->count + f->of->padding; t++)
                n->tokens[t] = (int32_t)(pc_test_bits(rng) % f->vocab);
            n->start = 0;
            for (size_t up = 0; up < l; up++) {
                visible[up] = placed(ancestor(f, leaf, up));
                n->start += (int64_t)f->of->lengths[up];
            }
            n->segment = encode(f, n->tokens, n->start, n->count + f->of->padding, visible, l);
        }
    for (size_t s = 0; s < f->leaves * f->completions; s++)
        for (size_t t = 0; t < STEPS; t++)
            f->forced[s][t] = (int32_t)(pc_test_bits(rng) % f->vocab);
}

static int64_t path_length(const forest *f)
{
    int64_t n = 0;
    for (size_t l = 0; l < f->of->levels; l++)
        n += (int64_t)f->of->lengths[l];
    return n;
}

static void uproot(forest *f)
{
    for (size_t l = 0; l < f->of->levels; l++)
        for (size_t i = 0; i < f->of->counts[l]; i++)
            if (f->nodes[l][i].segment)
                ops_of(f)->release(f->model->user, f->nodes[l][i].segment);
    for (size_t s = 0; s < f->leaves * f->completions; s++)
        free(f->logits[s]);
}

/* The forced tokens of all sequences, one step at a time, all in one batch. */
static void run_steps(forest *f, void *const *sequences, size_t count, uint32_t flags)
{
    float *logits = malloc(count * f->vocab * sizeof *logits);
    for (size_t t = 0; t < STEPS; t++) {
        pc_step_row rows[MOST_SEQUENCES];
        pc_step_args args = {sizeof args, rows,   sizeof(pc_step_row),
                             count,       logits, PC_VISIBLE_BY_POSITION,
                             flags,       512,    NULL,
                             NULL};
        for (size_t s = 0; s < count; s++)
            rows[s] = (pc_step_row){sequences[s], path_length(f) + (int64_t)t, f->forced[s][t], 1};
        CHECK_OK(ops_of(f)->step(f->model->user, &args));
        for (size_t s = 0; s < count; s++)
            memcpy(f->logits[s] + t * f->vocab, logits + s * f->vocab, f->vocab * sizeof *logits);
    }
    free(logits);
}

static void *attached(forest *f, const pc_span *placements, size_t count)
{
    void *sequence = NULL;
    CHECK_OK(ops_of(f)->sequence_new(f->model->user, NULL, &sequence));
    for (size_t i = 0; i < count; i++)
        CHECK_OK(ops_of(f)->attach(f->model->user, sequence, &placements[i]));
    return sequence;
}

static void drop_all(forest *f, void *const *sequences, size_t count)
{
    for (size_t s = 0; s < count; s++)
        ops_of(f)->drop(f->model->user, sequences[s]);
}

static void run_shared(forest *f, uint32_t flags)
{
    void *sequences[MOST_SEQUENCES] = {NULL};
    size_t n = 0;
    for (size_t leaf = 0; leaf < f->leaves; leaf++) {
        pc_span path[MOST_LEVELS];
        for (size_t l = 0; l < f->of->levels; l++)
            path[l] = placed(ancestor(f, leaf, l));
        sequences[n++] = attached(f, path, f->of->levels);
        for (size_t c = 1; c < f->completions; c++, n++)
            CHECK_OK(ops_of(f)->fork(f->model->user, sequences[n - 1], &sequences[n]));
    }
    run_steps(f, sequences, n, flags);
    drop_all(f, sequences, n);
}

/* Every sequence holds all its levels in one segment of its own. */
static void run_flat(forest *f)
{
    void *sequences[MOST_SEQUENCES] = {NULL}, *own[MOST_SEQUENCES] = {NULL};
    size_t n = 0;
    for (; n < f->leaves * f->completions; n++) {
        int32_t tokens[MOST_TOKENS];
        size_t count = 0;
        for (size_t l = 0; l < f->of->levels; l++) {
            const node *up = ancestor(f, n / f->completions, l);
            memcpy(tokens + count, up->tokens, up->count * sizeof *tokens);
            count += up->count;
        }
        own[n] = encode(f, tokens, 0, count, NULL, 0);
        pc_span all = {own[n], 0, 0, (uint32_t)count};
        sequences[n] = attached(f, &all, 1);
    }
    run_steps(f, sequences, n, 0);
    drop_all(f, sequences, n);
    for (size_t s = 0; s < n; s++)
        ops_of(f)->release(f->model->user, own[s]);
}

/* One sequence from its first token to its last, in one step. */
static void run_alone(forest *f, size_t s, float *logits)
{
    pc_step_row rows[MOST_TOKENS];
    pc_step_args args = {
        sizeof args, rows, sizeof(pc_step_row), 0, logits, PC_VISIBLE_BY_POSITION, 0, 512,
        NULL,        NULL};
    void *sequence = attached(f, NULL, 0);
    int64_t position = 0;
    for (size_t l = 0; l < f->of->levels; l++) {
        const node *n = ancestor(f, s / f->completions, l);
        for (size_t t = 0; t < n->count; t++)
            rows[args.count++] = (pc_step_row){sequence, position++, n->tokens[t], 0};
    }
    for (size_t t = 0; t < STEPS; t++)
        rows[args.count++] = (pc_step_row){sequence, position++, f->forced[s][t], 1};
    CHECK_OK(ops_of(f)->step(f->model->user, &args));
    drop_all(f, &sequence, 1);
}

typedef struct apart {
    double worst, mean;
} apart;

static void take_apart(apart *a, const float *got, const float *want, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        double x = (double)got[i], y = (double)want[i], error = fabs(x - y);
        a->worst = isnan(error) ? INFINITY : fmax(a->worst, error);
        a->mean += 2.0 * error / (fabs(x) + fabs(y) + 1e-8) / (double)count;
    }
}

static void check_apart(const forest *f, const char *what, apart a, double worst, double mean)
{
    if (!CHECK(a.worst <= worst && a.mean <= mean) || getenv("PC_TEST_VERBOSE"))
        fprintf(stderr,
                "    %s, %zu completions, compute %u, %s: largest %.3g of %.3g, mean relative %.3g "
                "of %.3g\n",
                f->of->name, f->completions, f->model->info.compute, what, a.worst, worst, a.mean,
                mean);
}

static void run_case(const pc_model *model, const forest_case *of, size_t completions)
{
    static forest f;
    f = (forest){.of = of,
                 .model = model,
                 .vocab = (size_t)model->info.vocab,
                 .leaves = of->counts[of->levels - 1],
                 .completions = completions};
    pc_test_rng rng = {of->levels * 10 + completions};
    int exact = model->info.compute == PC_DTYPE_F32;
    size_t n = f.leaves * completions, values = STEPS * f.vocab;
    float *alone = malloc(values * sizeof *alone), *shared = malloc(n * values * sizeof *shared);
    apart whole = {0}, flat = {0};
    for (size_t s = 0; s < n; s++)
        f.logits[s] = malloc(values * sizeof *f.logits[s]);
    plant(&f, &rng);
    run_shared(&f, 0);
    for (size_t s = 0; s < n; s++) {
        apart one = {0};
        run_alone(&f, s, alone);
        take_apart(&one, f.logits[s], alone, values);
        whole = (apart){fmax(whole.worst, one.worst), whole.mean + one.mean / (double)n};
        memcpy(shared + s * values, f.logits[s], values * sizeof *shared);
    }
    check_apart(&f, "against each alone", whole, exact ? 2e-4 : 0.75, exact ? 2e-3 : 0.05);
    run_shared(&f, PC_STEP_PER_ROW);
    for (size_t s = 0; s < n; s++)
        CHECK(!memcmp(f.logits[s], shared + s * values,
                      values * sizeof *shared)); /* sharing changes no bit */
    if (of->hierarchy) {
        run_flat(&f);
        for (size_t s = 0; s < n; s++) {
            apart one = {0};
            take_apart(&one, f.logits[s], shared + s * values, values);
            flat = (apart){fmax(flat.worst, one.worst), flat.mean + one.mean / (double)n};
        }
        check_apart(&f, "without hierarchy", flat, exact ? 2e-4 : 0.75, exact ? 2e-3 : 0.05);
    }
    uproot(&f);
    free(alone);
    free(shared);
}

static void run_cases(pc_model *model, size_t count)
{
    for (size_t c = 0; c < count; c++)
        for (size_t completions = 1; completions <= 2; completions++)
            run_case(model, &cases[c], completions);
    pc_model_free(model);
}

int main(void)
{
    static const char config[] = "{\"architectures\": [\"LlamaForCausalLM\"], \"model_type\": "
                                 "\"llama\", \"hidden_size\": 64, \"intermediate_size\": 176, "
                                 "\"num_hidden_layers\": 3, \"num_attention_heads\": 4, "
                                 "\"num_key_value_heads\": 2, \"vocab_size\": 512, "
                                 "\"max_position_embeddings\": 2048, \"rms_norm_eps\": 1e-5, "
                                 "\"rope_theta\": 10000.0, \"hidden_act\": \"silu\"}";
    pc_context_options one = PC_CONTEXT_OPTIONS_INIT;
    pc_context *context;
    pc_model *model;
    char path[4096];
    pc_test_need_level();
    one.threads = 1; /* for time: every step here is short */
    if (!CHECK_OK(pc_context_new(&context, &one)))
        return pc_test_end();
    snprintf(path, sizeof path, "%s/config.json", pc_test_folder());
    pc_test_write(path, config, sizeof config - 1);
    for (int i = 0; i < 3; i++) {
        pc_model_options options = PC_MODEL_OPTIONS_INIT;
        options.compute = i == 2 ? PC_DTYPE_BF16 : PC_DTYPE_F32;
        if (CHECK_OK(i ? pc_model_new_shape(&model, context, path, 7, &options)
                       : pc_model_load(&model, context, PC_SOURCE_DIR "/models/demo/demo.gguf",
                                       &options)))
            run_cases(model, i ? CASES : 3); /* the larger model takes long under sanitizers */
    }
    pc_context_free(context);
    return pc_test_end();
}
