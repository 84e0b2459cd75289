/* Catches: any mistake in the graph of an architecture (norms, residuals, biases, scales, RoPE and
 * ALiBi, windows), in the placement of segments, in visibility, in RoPE regimes, in the readers.
 * The expected values come from an independent pass in double precision.
 *
 * test_golden_models NAME: one model. test_golden_models few: all of them, but 600 rows, which take
 * most of the time, only of one. test_golden_models files FOLDER: the golden models as GGUF files
 * (write_gguf.py) of this folder, NAME.gguf or NAME.FORM.gguf. */
#include <dirent.h>

#include "golden_case.h"
#include "golden_models.h"
#include "levels.h"
#include "refused.h"
#include "model/load/safetensors.h"

/* Compares one list of traced layers with a golden tensor [layer]…; absent tensors are skipped (no
 * k_pre without RoPE). */
static void compare_layers(golden *g, const char *name, float *const *layers, size_t count)
{
    float *want = floats(g, name);
    const pc__tensor *tensor = find(g, name);
    char what[96];
    for (size_t l = 0; want && l < count; l++) {
        size_t n = elements(tensor) / (size_t)tensor->shape[0];
        snprintf(what, sizeof what, "%s %s layer %zu", g->name, name, l);
        if (CHECK(layers[l] != NULL && tensor->shape[0] == count))
            near_all(what, layers[l], want + l * n, n, 1e-4, 0, &g->worst_rest);
    }
    free(want);
}

static void compare_flat(golden *g, const char *name, const float *got, int logits)
{
    float *want = floats(g, name);
    char what[96];
    snprintf(what, sizeof what, "%s %s", g->name, name);
    if (want && CHECK(got != NULL))
        near_all(what, got, want, elements(find(g, name)), logits ? 2e-4 : 1e-4, logits,
                 logits ? &g->worst_logits : &g->worst_rest);
    free(want);
}

/* Compares the choice and the weights of the routers. */
static void compare_routers(golden *g, const char *prefix, traced *t, int of)
{
    char name[96];
    snprintf(name, sizeof name, "%s/router_layers", prefix);
    if (!find(g, name))
        return;
    int32_t layers[MAX_LAYERS];
    size_t count = integers(g, name, layers);
    for (int s = 0; s < ROUTER_STAGES; s++) {
        float *there[MAX_LAYERS] = {0};
        size_t filled = 0;
        for (int l = 0; l < MAX_LAYERS; l++)
            if (t->router[s][of][l]) {
                CHECK(filled < count && layers[filled] == l);
                there[filled++] = t->router[s][of][l];
            }
        CHECK_INT(filled, count);
        snprintf(name, sizeof name, "%s/%s", prefix, router_stages[s]);
        CHECK(find(g, name) != NULL);
        compare_layers(g, name, there, count);
    }
}

/* Continues a lane that has run; `token` is the best of its last logits. */
static void greedy(golden *g, const char *name, lane *l, uint32_t see, uint64_t length,
                   int32_t token)
{
    int32_t want[16];
    size_t n = integers(g, name, want), vocab = (size_t)g->model->info.vocab;
    float *logits = malloc(vocab * sizeof *logits);
    int64_t position = l->positions[l->count - 1];
    for (size_t i = 0; i < n; i++) {
        CHECK_INT(token, want[i]);
        position++;
        l->tokens = &token;
        l->positions = &position;
        l->count = 1;
        if (!CHECK_OK(run_lanes(g->model, l, 1, see, length, logits, NULL)))
            break;
        token = largest(logits, vocab);
    }
    free(logits);
}

/* The latents and the parts of keys that turn. */
static void compare_latents(golden *g, traced *t)
{
    char name[64];
    for (int s = 0; s < LATENT_STAGES; s++) {
        snprintf(name, sizeof name, "plain/%s", latent_stages[s]);
        CHECK((find(g, name) != NULL) == (t->latent[s][0][0] != NULL));
        compare_layers(g, name, t->latent[s][0], (size_t)g->model->info.layers);
    }
}

static void plain(golden *g)
{
    run_of r = read_run(g, "plain");
    lane l = lane_of(&r);
    traced t = {0};
    size_t vocab = (size_t)g->model->info.vocab, layers = (size_t)g->model->info.layers;
    uint64_t length = rope_len(g, "plain");
    float *logits = malloc(r.count * vocab * sizeof *logits);
    if (CHECK_OK(run_lanes(g->model, &l, 1, PC_VISIBLE_BY_POSITION, length, logits, &t))) {
        compare_flat(g, "plain/logits", logits, 1);
        compare_layers(g, "plain/hidden", t.hidden[0], layers + 1);
        compare_layers(g, "plain/k", t.k[0], layers);
        compare_layers(g, "plain/k_pre", t.k_pre[0], layers);
        compare_layers(g, "plain/v", t.v[0], layers);
        compare_layers(g, "plain/probs", t.probs[0], layers);
        compare_flat(g, "plain/final", t.final[0], 0);
        compare_routers(g, "plain", &t, 0);
        compare_latents(g, &t);
        if (find(g, "plain/greedy"))
            greedy(g, "plain/greedy", &l, PC_VISIBLE_BY_POSITION, length,
                   largest(logits + (r.count - 1) * vocab, vocab));
    }
    forget(&t);
    end_lanes(&l, 1);
    free(logits);
}

/* Encodes the three modules, each alone, all in one pass. */
static int modules(golden *g, run_of *runs, lane *lanes, uint64_t length, int compare)
{
    traced t = {0};
    size_t layers = (size_t)g->model->info.layers;
    int ok;
    char name[64];
    for (int m = 0; m < 3; m++) {
        snprintf(name, sizeof name, "modular/m%d", m);
        runs[m] = read_run(g, name);
        lanes[m] = lane_of(&runs[m]);
    }
    ok = CHECK_OK(run_lanes(g->model, lanes, 3, PC_VISIBLE_BY_POSITION, length, NULL, &t));
    for (int m = 0; m < 3 && ok && compare; m++) {
        snprintf(name, sizeof name, "modular/m%d/k", m);
        compare_layers(g, name, t.k[m], layers);
        snprintf(name, sizeof name, "modular/m%d/v", m);
        compare_layers(g, name, t.v[m], layers);
        snprintf(name, sizeof name, "modular/m%d/hidden_last", m);
        compare_flat(g, name, t.hidden[m][layers], 0);
        snprintf(name, sizeof name, "modular/m%d", m);
        compare_routers(g, name, &t, m);
    }
    forget(&t);
    return ok;
}

static void modular(golden *g, const char *name, uint32_t see)
{
    run_of runs[3], fresh = read_run(g, "modular/new");
    lane lanes[3], l = lane_of(&fresh);
    traced t = {0};
    size_t vocab = (size_t)g->model->info.vocab, layers = (size_t)g->model->info.layers;
    uint64_t length = rope_len(g, name);
    float *logits = malloc(fresh.count * vocab * sizeof *logits);
    char tensor[64];
    if (modules(g, runs, lanes, length, see == PC_VISIBLE_ALL)) {
        for (int m = 0; m < 3; m++)
            l.spans[m] = (pc__kv_span){lanes[m].run, lanes[m].run_start, 0,
                                       (uint32_t)lanes[m].run->tokens};
        l.span_count = 3;
        if (CHECK_OK(run_lanes(g->model, &l, 1, see, length, logits, &t))) {
            snprintf(tensor, sizeof tensor, "%s/logits", name);
            compare_flat(g, tensor, logits, 1);
            snprintf(tensor, sizeof tensor, "%s/probs", name);
            compare_layers(g, tensor, t.probs[0], layers);
            snprintf(tensor, sizeof tensor, "%s/k", name);
            compare_layers(g, tensor, t.k[0], layers);
            snprintf(tensor, sizeof tensor, "%s/v", name);
            compare_layers(g, tensor, t.v[0], layers);
            compare_routers(g, name, &t, 0);
            snprintf(tensor, sizeof tensor, "%s/greedy", name);
            greedy(g, tensor, &l, see, length, largest(logits + (fresh.count - 1) * vocab, vocab));
        }
    }
    forget(&t);
    end_lanes(lanes, 3);
    end_lanes(&l, 1);
    free(logits);
}

/* The same through the operations: encode, attach, step, fork, drop. */
static void modular_by_ops(golden *g, const char *name, uint32_t see)
{
    const pc_model_ops *ops = &g->model->ops;
    run_of fresh = read_run(g, "modular/new");
    size_t vocab = (size_t)g->model->info.vocab, n;
    float *logits = malloc((fresh.count + 1) * vocab * sizeof *logits);
    pc_span placements[3] = {{0}};
    pc_step_row rows[128];
    int32_t want[16], token;
    void *sequence = NULL, *copy = NULL;
    char tensor[64];
    int ok = CHECK_OK(ops->sequence_new(g->model->user, NULL, &sequence));
    for (int m = 0; m < 3 && ok; m++) {
        snprintf(tensor, sizeof tensor, "modular/m%d", m);
        run_of r = read_run(g, tensor);
        pc_token_range whole = {0, r.count};
        pc_encode_args args = {sizeof args,
                               r.ids,
                               r.positions,
                               r.count,
                               NULL,
                               sizeof(pc_span),
                               0,
                               &whole,
                               sizeof(pc_token_range),
                               1,
                               rope_len(g, name),
                               NULL,
                               NULL,
                               NULL,
                               0};
        ok = CHECK_OK(ops->encode(g->model->user, &args, &placements[m].segment));
        placements[m].start = r.positions[0];
        placements[m].hi = (uint32_t)r.count;
        ok = ok && CHECK_OK(ops->attach(g->model->user, sequence, &placements[m]));
    }
    for (size_t i = 0; i < fresh.count; i++)
        rows[i] = (pc_step_row){sequence, fresh.positions[i], fresh.ids[i], 1};
    pc_step_args args = {sizeof args, rows, sizeof(pc_step_row), fresh.count, logits,
                         see,         0,    rope_len(g, name),   NULL,        NULL};
    if (ok && CHECK_OK(ops->step(g->model->user, &args))) {
        snprintf(tensor, sizeof tensor, "%s/logits", name);
        compare_flat(g, tensor, logits, 1);
        snprintf(tensor, sizeof tensor, "%s/greedy", name);
        n = integers(g, tensor, want);
        token = largest(logits + (fresh.count - 1) * vocab, vocab);
        int64_t position = fresh.positions[fresh.count - 1];
        /* one token in the original, the rest in a fork, while the original repeats its last
         * token */
        for (size_t i = 0; i < n && ok; i++) {
            CHECK_INT(token, want[i]);
            if (i == 1)
                ok = CHECK_OK(ops->fork(g->model->user, sequence, &copy));
            rows[0] = (pc_step_row){copy ? copy : sequence, ++position, token, 1};
            rows[1] = (pc_step_row){sequence, position, want[0], 0};
            args.count = copy ? 2 : 1;
            ok = ok && CHECK_OK(ops->step(g->model->user, &args));
            token = largest(logits, vocab);
        }
    }
    ops->drop(g->model->user, sequence);
    ops->drop(g->model->user, copy);
    for (int m = 0; m < 3; m++)
        if (placements[m].segment)
            ops->release(g->model->user, placements[m].segment);
    free(logits);
}

static void joint(golden *g)
{
    run_of r = read_run(g, "joint");
    lane l = lane_of(&r);
    traced t = {0};
    size_t vocab = (size_t)g->model->info.vocab, layers = (size_t)g->model->info.layers;
    float *logits = malloc(r.count * vocab * sizeof *logits);
    if (CHECK_OK(
            run_lanes(g->model, &l, 1, PC_VISIBLE_BY_POSITION, rope_len(g, "joint"), logits, &t))) {
        size_t ends = (size_t)find(g, "joint/logits")->shape[0];
        compare_flat(g, "joint/logits", logits + (r.count - ends) * vocab, 1);
        compare_layers(g, "joint/k", t.k[0], layers);
        compare_layers(g, "joint/v", t.v[0], layers);
        compare_routers(g, "joint", &t, 0);
    }
    forget(&t);
    end_lanes(&l, 1);
    free(logits);
}

static void count_up(run_of *r, int64_t from)
{
    for (size_t i = 0; i < r->count; i++)
        r->positions[i] = from + (int64_t)i;
}

static size_t parent_of(const golden *g, size_t leaf)
{
    json_t *leaves = json_object_get(json_object_get(json_object_get(g->info, "inputs"), "shared"),
                                     "leaves");
    return strcmp(json_string_value(json_object_get(json_array_get(leaves, leaf), "parent")),
                  "mid1")
               ? 0
               : 1;
}

static size_t value_dim(const golden *g)
{
    const pc__arch *arch = &g->model->native->arch;
    return (size_t)(arch->v_dim > 0 ? arch->v_dim : arch->head_dim);
}

/* K and V of root, middle and leaf 0, at their places, one after the other. */
static void leaf_states(golden *g, const lane *leaf)
{
    size_t layers = (size_t)g->model->info.layers, heads = (size_t)g->model->info.kv_heads;
    size_t dim = (size_t)g->model->info.head_dim, total = 0, done, v_dim = value_dim(g);
    const pc__kv *parts[3] = {leaf->spans[0].kv, leaf->spans[1].kv, leaf->run};
    int64_t starts[3] = {leaf->spans[0].start, leaf->spans[1].start, leaf->run_start};
    float *k[MAX_LAYERS] = {0}, *v[MAX_LAYERS] = {0},
          *one = malloc(2 * heads * 128 * dim * sizeof *one);
    for (int p = 0; p < 3; p++)
        total += parts[p]->tokens;
    for (size_t l = 0; l < layers; l++) {
        k[l] = malloc(heads * total * dim * sizeof **k);
        v[l] = malloc(heads * total * dim * sizeof **v);
        done = 0;
        for (int p = 0; p < 3; done += parts[p++]->tokens) {
            size_t n = parts[p]->tokens;
            CHECK_OK(pc__model_run_read(g->model, parts[p], (int32_t)l, starts[p], one,
                                        one + heads * n * dim));
            for (size_t h = 0; h < heads; h++) {
                memcpy(k[l] + (h * total + done) * dim, one + h * n * dim, n * dim * sizeof *one);
                memcpy(v[l] + (h * total + done) * v_dim, one + (heads * dim + h * v_dim) * n,
                       n * v_dim * sizeof *one);
            }
        }
    }
    compare_layers(g, "shared/leaf0_k", k, layers);
    compare_layers(g, "shared/leaf0_v", v, layers);
    for (size_t l = 0; l < layers; l++) {
        free(k[l]);
        free(v[l]);
    }
    free(one);
}

static void hang(lane *child, const lane *parent)
{
    memcpy(child->spans, parent->spans, sizeof child->spans);
    child->span_count = parent->span_count;
    child->spans[child->span_count++] = (pc__kv_span){parent->run, parent->run_start, 0,
                                                      (uint32_t)parent->run->tokens};
}

static void shared(golden *g)
{
    run_of runs[8] = {{{0}, {0}, 0}};
    lane lanes[8] = {{.count = 0}}; /* root, two middles, five leaves */
    traced t = {0};
    size_t vocab = (size_t)g->model->info.vocab, hidden = (size_t)g->model->info.hidden, row = 0;
    uint64_t length = rope_len(g, "shared");
    float *logits = malloc(64 * vocab * sizeof *logits), *last = malloc(5 * vocab * sizeof *last),
          *final = malloc(5 * hidden * sizeof *final);
    char name[64];
    runs[0].count = integers(g, "shared/root_ids", runs[0].ids);
    count_up(&runs[0], 0);
    lanes[0] = lane_of(&runs[0]);
    int ok = CHECK_OK(run_lanes(g->model, lanes, 1, PC_VISIBLE_BY_POSITION, length, NULL, NULL));
    for (size_t i = 1; i < 8 && ok; i++) {
        const lane *parent = i < 3 ? &lanes[0] : &lanes[1 + parent_of(g, i - 3)];
        snprintf(name, sizeof name, i < 3 ? "shared/mid%zu_ids" : "shared/leaf%zu_ids",
                 i < 3 ? i - 1 : i - 3);
        runs[i].count = integers(g, name, runs[i].ids);
        count_up(&runs[i], parent->run_start + (int64_t)parent->run->tokens);
        lanes[i] = lane_of(&runs[i]);
        hang(&lanes[i], parent);
        if (i == 2) /* both middles in one pass */
            ok = CHECK_OK(
                run_lanes(g->model, lanes + 1, 2, PC_VISIBLE_BY_POSITION, length, NULL, NULL));
    }
    if (ok
        && CHECK_OK(
            run_lanes(g->model, lanes + 3, 5, PC_VISIBLE_BY_POSITION, length, logits, &t))) {
        for (size_t i = 0; i < 5; i++) {
            size_t n = lanes[3 + i].count;
            row += n;
            memcpy(last + i * vocab, logits + (row - 1) * vocab, vocab * sizeof *last);
            memcpy(final + i * hidden, t.final[i] + (n - 1) * hidden, hidden * sizeof *final);
        }
        compare_flat(g, "shared/logits", last, 1);
        compare_flat(g, "shared/final", final, 0);
        leaf_states(g, &lanes[3]);
    }
    forget(&t);
    end_lanes(lanes, 8);
    free(logits);
    free(last);
    free(final);
}

/* Of models with latent attention, `relocate` has only the part of a key that turns, which is equal
 * in all heads. */
static void keep_rotated(const golden *g, float **k, size_t count)
{
    const pc__latent_config *l = &g->model->native->arch.latent;
    size_t rotated = (size_t)l->rotated, head = rotated + (size_t)l->plain;
    for (size_t i = 0; l->rank && i < (size_t)g->model->info.layers; i++)
        for (size_t t = 0; t < count; t++)
            memmove(k[i] + t * rotated, k[i] + t * head + l->plain, rotated * sizeof **k);
}

static void relocate(golden *g)
{
    json_t *input = json_object_get(json_object_get(g->info, "inputs"), "relocate");
    int64_t from = json_integer_value(json_object_get(input, "from_pos"));
    int64_t to = json_integer_value(json_object_get(input, "to_pos"));
    size_t layers = (size_t)g->model->info.layers;
    run_of r = {0};
    traced t = {0};
    float *k[2][MAX_LAYERS] = {{0}}, *v[MAX_LAYERS] = {0};
    r.count = integers(g, "relocate/ids", r.ids);
    count_up(&r, from);
    lane l = lane_of(&r);
    if (!CHECK_OK(
            run_lanes(g->model, &l, 1, PC_VISIBLE_BY_POSITION, rope_len(g, "relocate"), NULL, &t)))
        return;
    for (size_t i = 0; i < layers; i++) {
        size_t n = (size_t)g->model->info.kv_heads * r.count * (size_t)g->model->info.head_dim;
        k[0][i] = malloc(n * sizeof(float));
        k[1][i] = malloc(n * sizeof(float));
        v[i] = malloc(n * sizeof(float));
        CHECK_OK(pc__model_run_read(g->model, l.run, (int32_t)i, from, k[0][i], NULL));
        CHECK_OK(pc__model_run_read(g->model, l.run, (int32_t)i, to, k[1][i], v[i]));
    }
    keep_rotated(g, k[0], r.count);
    keep_rotated(g, k[1], r.count);
    compare_layers(g, "relocate/k_from", k[0], layers);
    compare_layers(g, "relocate/k_moved", k[1], layers);
    compare_layers(g, "relocate/k_fresh", k[1], layers);
    compare_layers(g, "relocate/v", v, layers);
    compare_flat(g, "relocate/hidden_last", t.hidden[0][layers], 0);
    for (size_t i = 0; i < layers; i++) {
        free(k[0][i]);
        free(k[1][i]);
        free(v[i]);
    }
    forget(&t);
    end_lanes(&l, 1);
}

/* Rows that are divided into other passes and blocks give the same; 600 rows are two blocks of
 * one pass. */
static void cuts(golden *g)
{
    enum { ROWS = 600, CUT = 217 };
    size_t vocab = (size_t)g->model->info.vocab;
    int32_t *ids = malloc(ROWS * sizeof *ids);
    int64_t *positions = malloc(ROWS * sizeof *positions);
    float *a = malloc(ROWS * vocab * sizeof *a), *b = malloc(ROWS * vocab * sizeof *b);
    pc_test_rng rng = {7};
    for (size_t i = 0; i < ROWS; i++) {
        ids[i] = (int32_t)(pc_test_bits(&rng) % vocab);
        positions[i] = (int64_t)i;
    }
    lane whole = {.tokens = ids, .positions = positions, .count = ROWS};
    lane part = {.tokens = ids, .positions = positions, .count = CUT};
    CHECK_OK(run_lanes(g->model, &whole, 1, PC_VISIBLE_BY_POSITION, ROWS, a, NULL));
    CHECK_OK(run_lanes(g->model, &part, 1, PC_VISIBLE_BY_POSITION, ROWS, b, NULL));
    part.tokens += CUT;
    part.positions += CUT;
    part.count = ROWS - CUT;
    CHECK_OK(run_lanes(g->model, &part, 1, PC_VISIBLE_BY_POSITION, ROWS, b + CUT * vocab, NULL));
    same_rows(g->model->context, g->name, a, b, ROWS * vocab, 2e-5);
    end_lanes(&whole, 1);
    end_lanes(&part, 1);
    free(ids);
    free(positions);
    free(a);
    free(b);
}

/* A module with learned or absolute positions can only be placed where it was computed; RoPE
 * regimes do not mix. */
static void refusals(golden *g)
{
    const pc_model_ops *ops = &g->model->ops;
    int32_t ids[4] = {5, 6, 7, 8};
    int64_t positions[4] = {3, 4, 5, 6};
    pc_token_range whole = {0, 4};
    pc_encode_args args = {sizeof args, ids,    positions,
                           4,           NULL,   sizeof(pc_span),
                           0,           &whole, sizeof(pc_token_range),
                           1,           8,      NULL,
                           NULL,        NULL,   0};
    pc_span at = {NULL, 9, 0, 4};
    int learned = g->model->info.position_scheme == PC_POSITION_LEARNED;
    void *sequence = NULL;
    float *logits = malloc((size_t)g->model->info.vocab * sizeof *logits);
    CHECK_OK(ops->sequence_new(g->model->user, NULL, &sequence));
    CHECK_OK(ops->encode(g->model->user, &args, &at.segment));
    if (g->model->info.relocatable) {
        CHECK_OK(ops->attach(g->model->user, sequence, &at));
    } else {
        CHECK_STATUS(ops->attach(g->model->user, sequence, &at), PC_ERR_UNSUPPORTED);
        CHECK_ERROR_HAS(learned ? "learned" : "positions");
    }
    pc_step_row row = {sequence, 100, 5, 1};
    pc_step_args step = {
        sizeof step, &row, sizeof(pc_step_row), 1, logits, PC_VISIBLE_BY_POSITION, 0, 120,
        NULL,        NULL};
    if (pc__model_rope_regime(g->model, 8) != pc__model_rope_regime(g->model, 120)) {
        CHECK_STATUS(ops->step(g->model->user, &step), PC_ERR_MISMATCH);
        CHECK_ERROR_HAS("regime");
        step.rope_regime_length = 8;
    }
    CHECK_OK(ops->step(g->model->user, &step));
    row.token = g->model->info.vocab;
    row.position = 101;
    CHECK_STATUS(ops->step(g->model->user, &step), PC_ERR_INVALID);
    row.token = 5; /* the failed step has changed nothing: the position is free */
    CHECK_OK(ops->step(g->model->user, &step));
    if (learned) {
        row.position = 100000;
        CHECK_STATUS(ops->step(g->model->user, &step), PC_ERR_LIMIT);
        CHECK_ERROR_HAS("100000");
    }
    ops->drop(g->model->user, sequence);
    ops->release(g->model->user, at.segment);
    free(logits);
}

/* States of a plain prefill have deviation 0; a module that was encoded alone deviates, except its
 * first token. */
static void deviation(golden *g)
{
    const pc_model_ops *ops = &g->model->ops;
    run_of r = read_run(g, "plain");
    pc_token_range halves[2] = {{0, r.count / 2}, {r.count / 2, r.count - r.count / 2}};
    pc_span at[2] = {{0}}, alone[2] = {{0}};
    float score[128];
    pc_encode_args args = {sizeof args, r.ids,  r.positions,
                           r.count,     NULL,   sizeof(pc_span),
                           0,           halves, sizeof(pc_token_range),
                           2,           64,     NULL,
                           NULL,        NULL,   0};
    void *segments[2];
    double sum = 0;
    CHECK_OK(ops->encode(g->model->user, &args, segments));
    for (int i = 0; i < 2; i++)
        at[i] = (pc_span){segments[i], r.positions[halves[i].first], 0, (uint32_t)halves[i].count};
    pc_deviation_args all = {
        sizeof all, r.ids, r.positions, r.count, at, sizeof *at, 2, NULL, args.rope_regime_length,
        0};
    CHECK_OK(ops->deviation(g->model->user, &all, score));
    for (size_t i = 0; i < r.count; i++)
        CHECK(score[i] < 1e-5f);
    memcpy(alone, at, sizeof at);
    pc_token_range second = {0, halves[1].count};
    pc_encode_args by_itself = {sizeof args,
                                r.ids + halves[1].first,
                                r.positions + halves[1].first,
                                halves[1].count,
                                NULL,
                                sizeof(pc_span),
                                0,
                                &second,
                                sizeof(pc_token_range),
                                1,
                                64,
                                NULL,
                                NULL,
                                NULL,
                                0};
    CHECK_OK(ops->encode(g->model->user, &by_itself, &alone[1].segment));
    all.spans = alone;
    CHECK_OK(ops->deviation(g->model->user, &all, score));
    for (size_t i = 0; i < r.count; i++) {
        if (i < halves[1].first)
            CHECK(score[i] < 1e-5f);
        else
            sum += (double)score[i];
    }
    CHECK(sum / (double)halves[1].count > 0.01);
    for (int i = 0; i < 2; i++)
        ops->release(g->model->user, at[i].segment);
    ops->release(g->model->user, alone[1].segment);
}

static int has_cuts(const golden *g)
{
    static const char *const names[] = {"llama_gqa", "mistral_swa", "bloom"};
    int found = g->model->native->arch.experts.count && !g->few;
    for (size_t i = 0; i < (g->few ? 1 : sizeof names / sizeof *names); i++)
        found |= !strcmp(g->name, names[i]);
    return found;
}

static void all_cases(golden *g)
{
    plain(g);
    if (has_case(g, "modular_all")) {
        modular(g, "modular_all", PC_VISIBLE_ALL);
        modular(g, "modular_pos", PC_VISIBLE_BY_POSITION);
        modular_by_ops(g, "modular_all", PC_VISIBLE_ALL);
        modular_by_ops(g, "modular_pos", PC_VISIBLE_BY_POSITION);
    }
    if (has_case(g, "joint"))
        joint(g);
    if (has_case(g, "shared"))
        shared(g);
    if (has_case(g, "relocate"))
        relocate(g);
    if (has_cuts(g))
        cuts(g);
    refusals(g);
    deviation(g);
}

static pc_status load(golden *g, pc_context *context, const char *path, uint32_t compute)
{
    pc_model_options options = PC_MODEL_OPTIONS_INIT;
    options.compute = compute;
    g->model = NULL;
    g->worst_logits = g->worst_rest = 0;
    return pc_model_load(&g->model, context, path, &options);
}

/* The same folder with the older spelling of the config. */
static void legacy(pc_context *context, const golden *newer, const char *folder)
{
    char path[4096], copy[4096];
    const char *const links[2] = {"model.safetensors", "config.json"};
    golden g = *newer;
    size_t size;
    for (int i = 0; i < 2; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, i ? "config_legacy.json" : links[0]);
        snprintf(copy, sizeof copy, "%s/%s", pc_test_folder(), links[i]);
        char *data = pc_test_read(path, &size);
        if (!data)
            return;
        pc_test_write(copy, data, size);
        free(data);
    }
    if (CHECK_OK(load(&g, context, pc_test_folder(), PC_DTYPE_F32)))
        plain(&g);
    pc_model_free(g.model);
}

/* |got - want| / |want| */
static double distance(const float *got, const float *want, size_t count)
{
    double apart = 0, size = 0;
    for (size_t i = 0; i < count; i++) {
        apart += ((double)got[i] - (double)want[i]) * ((double)got[i] - (double)want[i]);
        size += (double)want[i] * (double)want[i];
    }
    return sqrt(apart / size);
}

/* bf16 (weights, inputs of linear layers, K and V) rounds logits: eight bits of mantissa lose 0.2
 * to 0.4 % each time, 1 to 3 % after two or three layers of random weights. A wrong layout or graph
 * changes logits by their own size. */
static void rounded(pc_context *context, const golden *exact, const char *folder, double *worst)
{
    golden g = *exact;
    run_of runs[3], fresh = read_run(&g, "modular/new");
    lane lanes[3], l = lane_of(&fresh);
    uint64_t length = rope_len(&g, "modular_pos");
    float *want = floats(&g, "modular_pos/logits");
    if (!CHECK_OK(load(&g, context, folder, PC_DTYPE_BF16)))
        return;
    size_t count = fresh.count * (size_t)g.model->info.vocab;
    float *logits = malloc(count * sizeof *logits);
    CHECK_INT(g.model->info.compute, PC_DTYPE_BF16);
    if (modules(&g, runs, lanes, length, 0)) {
        for (int m = 0; m < 3; m++)
            l.spans[m] = (pc__kv_span){lanes[m].run, lanes[m].run_start, 0,
                                       (uint32_t)lanes[m].run->tokens};
        l.span_count = 3;
        if (CHECK_OK(run_lanes(g.model, &l, 1, PC_VISIBLE_BY_POSITION, length, logits, NULL)))
            CHECK((*worst = distance(logits, want, count)) < 0.05);
    }
    end_lanes(lanes, 3);
    end_lanes(&l, 1);
    free(logits);
    free(want);
    pc_model_free(g.model);
}

/* The cases of a golden folder, with its model or with `model`, the same one in a file. */
static void folder(pc_context *context, const char *name, const char *model, int few)
{
    golden g = {.name = name, .few = few};
    char path[4096];
    const char *at;
    snprintf(path, sizeof path, "golden/%s", name);
    at = pc_test_data(path);
    if (!CHECK(at != NULL))
        return;
    snprintf(path, sizeof path, "%s/golden.safetensors", at);
    if (!CHECK_OK(pc__safetensors_open(&g.file, &context->mem, path)))
        return;
    snprintf(path, sizeof path, "%s/golden.json", at);
    g.info = json_load_file(path, 0, NULL);
    pc_status loaded = load(&g, context, model ? model : at, PC_DTYPE_F32);
    if (pc_test_refused(loaded)) {
        printf("%-20s refused by this backend\n", name);
    } else if (CHECK(g.info != NULL) && CHECK_OK(loaded)) {
        all_cases(&g);
        if (g.model->native->shape.latent) { /* small models choose the other form */
            g.model->native->expansion = PC__EXPAND_ALWAYS;
            all_cases(&g);
        }
        if (!model)
            legacy(context, &g, at);
        double bf16 = 0;
        if (has_case(&g, "modular_pos"))
            rounded(context, &g, model ? model : at, &bf16);
        printf("%-20s logits %.1e  rest %.1e  bf16 logits %.1e\n", name, g.worst_logits,
               g.worst_rest, bf16);
    }
    pc_model_free(g.model);
    pc__weights_free(g.file);
    json_decref(g.info);
}

static void files(pc_context *context, const char *at)
{
    DIR *all = opendir(at);
    struct dirent *entry;
    size_t count = 0;
    while (all && (entry = readdir(all))) {
        char name[64], path[4096];
        const char *dot = strchr(entry->d_name, '.');
        if (!dot || strcmp(dot + strlen(dot) - 5, ".gguf"))
            continue;
        snprintf(name, sizeof name, "%.*s", (int)(dot - entry->d_name), entry->d_name);
        snprintf(path, sizeof path, "%s/%s", at, entry->d_name);
        printf("%s: ", entry->d_name);
        folder(context, name, path, 1);
        count++;
    }
    if (all)
        closedir(all);
    CHECK(count > 0);
}

static void gguf(pc_context *context, const char *name)
{
    golden g = {.name = name};
    char path[128];
    const char *at;
    snprintf(path, sizeof path, "golden/gguf/llama-%s.golden.safetensors", name);
    at = pc_test_data(path);
    if (!CHECK(at != NULL) || !CHECK_OK(pc__safetensors_open(&g.file, &context->mem, at)))
        return;
    snprintf(path, sizeof path, "golden/gguf/llama-%s.gguf", name);
    g.info = json_object();
    if (CHECK_OK(load(&g, context, pc_test_data(path), PC_DTYPE_F32))) {
        plain(&g);
        printf("gguf %-15s logits %.1e  rest %.1e\n", name, g.worst_logits, g.worst_rest);
    }
    pc_model_free(g.model);
    pc__weights_free(g.file);
    json_decref(g.info);
}

int main(int argc, char **argv)
{
    static const char *const ggufs[] = {"f32",  "f16",  "bf16",   "q8_0",  "q4_0", "q4_1",
                                        "q5_0", "q5_1", "q2_k",   "q3_k",  "q4_k", "q4_k_m",
                                        "q5_k", "q6_k", "iq4_nl", "iq4_xs"};
    /* the decoders of models that see images, too */
    static const char *const images[] = {"gemma3_images", "llama4_images", "mistral3_images"};
    pc_context *context;
    pc_test_need_level();
    if (!CHECK_OK(pc_context_new(&context, NULL)))
        return pc_test_end();
    int few = argc > 1 && !strcmp(argv[1], "few"), all = argc < 2 || few;
    if (argc > 2)
        files(context, argv[2]);
    for (size_t i = 0; i < GOLDEN_MODELS; i++)
        if (all || !strcmp(argv[1], golden_models[i]))
            folder(context, golden_models[i], NULL, few);
    for (size_t i = 0; i < sizeof images / sizeof *images; i++)
        if (all || !strcmp(argv[1], images[i]))
            folder(context, images[i], NULL, few);
    for (size_t i = 0; i < sizeof ggufs / sizeof *ggufs; i++)
        if (all || !strcmp(argv[1], ggufs[i]))
            gguf(context, ggufs[i]);
    pc_context_free(context);
    return pc_test_end();
}
