/* check: runs a model through the cases of golden vectors and compares every tensor. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"
#include "check.h"

static const double logits_limit = 2e-4; /* relative to the tensor's largest magnitude */
static const double other_limit = 1e-4;

static const char *const stage_names[STAGES] = {"hidden",
                                                "k_pre",
                                                "k",
                                                "v",
                                                "probs",
                                                "final",
                                                "router_logits",
                                                "router_topk_idx",
                                                "router_topk_weight",
                                                "pooled",
                                                "logits"};

/* ----------------------------------------------------------------- comparing */

static void report(checking *c, const char *name, double max_abs, double max_rel, double limit,
                   int ok)
{
    c->missed += !ok;
    if (c->json)
        print_json(json_pack("{s:s,s:o,s:o,s:f,s:b}", "tensor", name, "max_abs",
                             json_number(max_abs), "max_rel", json_number(max_rel), "limit", limit,
                             "ok", ok));
    else
        printf("%-28s abs %9.2e  rel %9.2e  limit %7.0e  %s\n", name, max_abs, max_rel, limit,
               ok ? "ok" : "MISSED");
}

void check_tensor(checking *c, const golden_tensor *want, const float *got, size_t count)
{
    double worst = 0.0, largest = 0.0, limit;
    int logits = strstr(want->name, "logits") && !strstr(want->name, "router_"), finite = 1;
    if (count != want->count) {
        fprintf(stderr, "promptcache: %s: %zu values, computed %zu\n", want->name, want->count,
                count);
        report(c, want->name, INFINITY, INFINITY, logits ? logits_limit : other_limit, 0);
        return;
    }
    for (size_t i = 0; i < count; i++) {
        double w = (double)((const float *)want->data)[i], d = fabs(w - (double)got[i]);
        largest = fmax(largest, fabs(w));
        finite = finite && isfinite(got[i]);
        worst = fmax(worst, d);
    }
    limit = logits ? logits_limit : other_limit;
    double relative = largest > 0 ? worst / largest : worst;
    report(c, want->name, worst, relative, limit, finite && (logits ? relative : worst) <= limit);
}

void check_ids(checking *c, const golden_tensor *want, const int32_t *got)
{
    int equal = !memcmp(want->data, got, want->count * sizeof *got);
    report(c, want->name, equal ? 0 : 1, equal ? 0 : 1, 0, equal);
}

/* ------------------------------------------------------------------- tracing */

static void keep(void *user, const pc_trace *t)
{
    checking *c = user;
    size_t count = 1;
    if (c->finals && !strcmp(t->name, "final"))
        memcpy(c->finals + t->lane * (size_t)c->info.hidden, t->data,
               (size_t)c->info.hidden * sizeof(float));
    if (t->lane)
        return;
    for (uint32_t i = 0; i < t->rank; i++)
        count *= (size_t)t->shape[i];
    for (size_t s = 0; s < STAGES; s++) {
        stage *to = &c->stages[s];
        int layer = !strcmp(t->name, "final") ? 0 : t->layer;
        if (strcmp(stage_names[s], t->name) || layer < 0 || layer >= 256)
            continue;
        free(to->data[layer]);
        if (!(to->data[layer] = malloc((count + 1) * sizeof(float)))) {
            c->code = plain_error("out of memory for %s", t->name);
            return;
        }
        memcpy(to->data[layer], t->data, count * sizeof(float));
        memcpy(to->shape, t->shape, sizeof to->shape);
        to->rank = t->rank;
        to->layers = layer + 1 > to->layers ? layer + 1 : to->layers;
    }
}

static void forget(checking *c)
{
    for (size_t s = 0; s < STAGES; s++) {
        for (int i = 0; i < 256; i++)
            free(c->stages[s].data[i]);
        memset(&c->stages[s], 0, sizeof c->stages[s]);
    }
}

/* Whole numbers that were traced as floats. */
static void compare_numbers(checking *c, const golden_tensor *want, const float *got, size_t count)
{
    int32_t *ids = calloc(count + 1, sizeof *ids);
    if (!ids)
        c->code = plain_error("out of memory for %s", want->name);
    for (size_t i = 0; ids && i < count; i++)
        ids[i] = (int32_t)got[i];
    if (ids && count == want->count)
        check_ids(c, want, ids);
    else if (ids)
        report(c, want->name, INFINITY, INFINITY, 0, 0);
    free(ids);
}

/* Layers of a stage one behind the other (of a router's, those that have one). */
static void compare_layers(checking *c, const golden_tensor *want, size_t s)
{
    const stage *got = &c->stages[s];
    size_t one = 1, filled = 0;
    if (!want)
        return;
    for (uint32_t i = 0; i < got->rank; i++)
        one *= (size_t)got->shape[i];
    float *all = calloc((size_t)got->layers * one + 1, sizeof *all);
    if (!all) {
        c->code = plain_error("out of memory for %s", want->name);
        return;
    }
    for (int l = 0; l < got->layers; l++)
        if (got->data[l])
            memcpy(all + filled++ * one, got->data[l], one * sizeof *all);
    if (want->integers)
        compare_numbers(c, want, all, filled * one);
    else
        check_tensor(c, want, all, filled * one);
    free(all);
}

/* The same against `case/stage`. */
static void compare_stage(checking *c, const char *prefix, size_t s)
{
    compare_layers(c, golden_find(&c->golden, "%s/%s", prefix, stage_names[s]), s);
}

/* What the routers of a model with experts have chosen, and which layers have one. */
static void compare_routers(checking *c, const char *prefix)
{
    golden_tensor *want = golden_find(&c->golden, "%s/router_layers", prefix);
    const stage *got = &c->stages[FIRST_OF_ROUTER];
    float layers[256];
    size_t count = 0;
    for (int l = 0; l < got->layers; l++)
        if (got->data[l])
            layers[count++] = (float)l;
    if (want && want->integers)
        compare_numbers(c, want, layers, count);
    for (size_t s = FIRST_OF_ROUTER; s < DECODER_STAGES; s++)
        compare_stage(c, prefix, s);
}

/* The output of the last layer, against `case/hidden_last`. */
static void compare_last(checking *c, const char *prefix)
{
    golden_tensor *want = golden_find(&c->golden, "%s/hidden_last", prefix);
    const stage *got = &c->stages[0];
    if (want && got->layers && got->data[got->layers - 1])
        check_tensor(c, want, got->data[got->layers - 1], (size_t)(got->shape[0] * got->shape[1]));
}

/* ------------------------------------------------------------------- running */

typedef struct tokens {
    const int32_t *ids;
    int64_t *positions;
    size_t count;
} tokens;

static tokens tokens_of(checking *c, const char *prefix)
{
    golden_tensor *ids = golden_find(&c->golden, "%s/ids", prefix),
                  *pos = golden_find(&c->golden, "%s/pos", prefix);
    tokens t = {0};
    if (!ids || !pos || ids->count != pos->count)
        return t;
    t.ids = ids->data;
    t.count = ids->count;
    t.positions = malloc((t.count + 1) * sizeof *t.positions);
    if (!t.positions)
        t.count = 0;
    for (size_t i = 0; i < t.count; i++)
        t.positions[i] = ((const int32_t *)pos->data)[i];
    return t;
}

int check_eval(checking *c, const pc_lane *lanes, size_t count, uint32_t see, uint64_t regime,
               float *logits, pc_segment **segments, int trace)
{
    pc_eval_args args = PC_EVAL_ARGS_INIT;
    args.lanes = lanes;
    args.lane_count = count;
    args.visibility = see;
    args.rope_regime_length = regime;
    args.logits = logits;
    args.segments = segments;
    args.trace = trace ? keep : NULL;
    args.trace_user = c;
    args.maps = c->maps;
    if (!c->code && is_interrupted(NULL))
        c->code = input_error("evaluation", NULL);
    if (c->code || pc_eval(c->model, &args) >= 0)
        return !c->code;
    c->code = input_error("evaluation", NULL);
    return 0;
}

float *check_new_logits(const checking *c, size_t rows)
{
    return calloc(rows * (size_t)c->info.vocab + 1, sizeof(float));
}

int32_t check_largest(const float *logits, size_t count)
{
    size_t best = 0;
    for (size_t i = 1; i < count; i++)
        best = logits[i] > logits[best] ? i : best;
    return (int32_t)best;
}

/* Greedy ids from `spans` (the last one ends with the given position), one token a pass; `first`
 * follows from the logits already there. */
static void greedy(checking *c, const char *prefix, pc_span *spans, size_t span_count,
                   int32_t first, int64_t position, uint64_t regime, uint32_t see)
{
    golden_tensor *want = golden_find(&c->golden, "%s/greedy", prefix);
    int32_t ids[64];
    float *logits = check_new_logits(c, 1);
    size_t given = span_count;
    if (want && want->count > 64)
        c->code = plain_error("%s: more than 64 ids", want->name);
    if (!want || c->code || !logits) {
        free(logits);
        return;
    }
    ids[0] = first;
    for (size_t i = 1; i < want->count; i++) {
        int64_t at = position + (int64_t)i;
        pc_segment *segment = NULL;
        pc_lane lane = {spans, span_count, &ids[i - 1], &at, 1, NULL};
        if (!check_eval(c, &lane, 1, see, regime, logits, &segment, 0))
            break;
        spans[span_count++] = (pc_span){segment, at, 0, 0};
        ids[i] = check_largest(logits, (size_t)c->info.vocab);
    }
    if (!c->code)
        check_ids(c, want, ids);
    for (size_t i = given; i < span_count; i++)
        pc_segment_free(spans[i].segment);
    free(logits);
}

/* One lane of new tokens over given spans, everything traced and compared. `skip`: leading tokens
 * whose logits the file leaves out. */
static void run_case(checking *c, const char *prefix, pc_span *spans, size_t span_count,
                     const tokens *t, uint32_t see, uint64_t regime)
{
    golden_tensor *want = golden_find(&c->golden, "%s/logits", prefix);
    float *logits = check_new_logits(c, t->count);
    pc_segment *segment = NULL;
    pc_lane lane = {spans, span_count, t->ids, t->positions, t->count, NULL};
    size_t vocab = (size_t)c->info.vocab, rows = want ? want->count / vocab : 0;
    if (check_eval(c, &lane, 1, see, regime, logits, &segment, 1)) {
        for (size_t s = 0; s < FIRST_OF_ROUTER; s++)
            compare_stage(c, prefix, s);
        compare_routers(c, prefix);
        if (want)
            check_tensor(c, want, logits + (rows <= t->count ? t->count - rows : 0) * vocab,
                         (rows <= t->count ? rows : t->count) * vocab);
        spans[span_count] = (pc_span){segment, t->positions[0], 0, 0};
        greedy(c, prefix, spans, span_count + 1,
               check_largest(logits + (t->count - 1) * vocab, vocab), t->positions[t->count - 1],
               regime, see);
    }
    pc_segment_free(segment);
    free(logits);
    forget(c);
}

static void plain(checking *c, const char *prefix)
{
    tokens t = tokens_of(c, prefix);
    pc_span spans[80];
    if (t.count)
        run_case(c, prefix, spans, 0, &t, PC_VISIBLE_BY_POSITION,
                 golden_regime(&c->golden, prefix));
    free(t.positions);
}

/* ------------------------------------------------ encoders: a text, padded or not */

/* Maps of the file may have columns for the padding behind the text: zeros. */
static void widen(checking *c, const golden_tensor *want)
{
    stage *maps = &c->stages[4];
    size_t width = want->rank == 4 ? (size_t)want->shape[3] : 0, n = (size_t)maps->shape[2];
    size_t rows = (size_t)(maps->shape[0] * maps->shape[1]);
    for (int l = 0; l < maps->layers && width > n; l++) {
        float *wide = calloc(rows * width, sizeof *wide);
        if (!wide) {
            c->code = plain_error("out of memory for %s", want->name);
            return;
        }
        for (size_t r = 0; r < rows; r++)
            memcpy(wide + r * width, maps->data[l] + r * n, n * sizeof *wide);
        free(maps->data[l]);
        maps->data[l] = wide;
    }
    maps->shape[2] = width > n ? (int64_t)width : maps->shape[2];
}

/* A lane holds the text only, not the padding. */
static void encoder(checking *c, const char *prefix)
{
    golden_tensor *ids = golden_find(&c->golden, "%s/ids", prefix),
                  *mask = golden_find(&c->golden, "%s/mask", prefix),
                  *types = golden_find(&c->golden, "plain/type_ids"),
                  *maps = golden_find(&c->golden, "%s/probs", prefix);
    static const size_t stages[] = {0, 3, 4, DECODER_STAGES, DECODER_STAGES + 1};
    int64_t positions[4096];
    size_t count = ids ? ids->count : 0;
    if (!ids || golden_find(&c->golden, "%s/pos", prefix) || c->code)
        return;
    for (size_t i = 0; i < 4096; i++)
        positions[i] = (int64_t)i;
    while (count && mask && mask->count == ids->count && !((const int32_t *)mask->data)[count - 1])
        count--;
    if (count > 4096 || (types && types->count < count))
        c->code = plain_error("%s: more than 4096 ids, or fewer types", ids->name);
    pc_lane lane = {NULL, 0, ids->data, positions, count, types ? types->data : NULL};
    if (check_eval(c, &lane, 1, PC_VISIBLE_ALL, 0, NULL, NULL, 1)) {
        if (maps && c->stages[4].layers)
            widen(c, maps);
        for (size_t s = 0; s < sizeof stages / sizeof *stages; s++)
            compare_stage(c, prefix, stages[s]);
    }
    forget(c);
}

static pc_segment *module(checking *c, const char *prefix, uint64_t regime, int64_t *start)
{
    tokens t = tokens_of(c, prefix);
    pc_segment *segment = NULL;
    pc_lane lane = {NULL, 0, t.ids, t.positions, t.count, NULL};
    if (t.count && check_eval(c, &lane, 1, PC_VISIBLE_BY_POSITION, regime, NULL, &segment, 1)) {
        *start = t.positions[0];
        compare_stage(c, prefix, 2);
        compare_stage(c, prefix, 3);
        compare_last(c, prefix);
        compare_routers(c, prefix);
    }
    forget(c);
    free(t.positions);
    return segment;
}

static void modular(checking *c)
{
    tokens t = tokens_of(c, "modular/new");
    pc_span spans[80];
    size_t count = 0;
    uint64_t regime = golden_regime(&c->golden, "modular_all");
    for (char name[] = "modular/m0"; count < 8; name[9]++, count++) {
        int64_t start = 0;
        pc_segment *segment = module(c, name, regime, &start);
        if (!segment)
            break;
        spans[count] = (pc_span){segment, start, 0, 0};
    }
    if (t.count && count && !c->code) {
        run_case(c, "modular_all", spans, count, &t, PC_VISIBLE_ALL, regime);
        run_case(c, "modular_pos", spans, count, &t, PC_VISIBLE_BY_POSITION,
                 golden_regime(&c->golden, "modular_pos"));
    }
    for (size_t i = 0; i < count; i++)
        pc_segment_free(spans[i].segment);
    free(t.positions);
}

/* ---------------------------------------------- the tree: a root, middles, leaves */

static pc_segment *extend(checking *c, const pc_span *spans, size_t count, const golden_tensor *ids,
                          int64_t start, size_t length, uint64_t regime)
{
    int64_t positions[4096];
    pc_segment *segment = NULL;
    pc_lane lane = {spans, count, ids->data, positions, length, NULL};
    if (length > 4096 && !c->code)
        c->code = plain_error("%s: more than 4096 ids", ids->name);
    for (size_t i = 0; i < length && i < 4096; i++)
        positions[i] = start + (int64_t)i;
    check_eval(c, &lane, 1, PC_VISIBLE_BY_POSITION, regime, NULL, &segment, 0);
    return segment;
}

typedef struct leaf {
    pc_span spans[3];
    size_t count;
    int64_t position;
    int32_t query;
} leaf;

/* The stored K and V of leaf 0's whole chain, query token included. */
static void leaf_states(checking *c, const leaf *l, pc_segment *query)
{
    golden_tensor *k = golden_find(&c->golden, "shared/leaf0_k"),
                  *v = golden_find(&c->golden, "shared/leaf0_v");
    size_t heads = (size_t)c->info.kv_heads, total = k ? (size_t)k->shape[2] : 0;
    if (!k || !v || v->shape[2] != k->shape[2])
        return;
    for (int which = 0; which < 2; which++) {
        const golden_tensor *want = which ? v : k;
        size_t dim = (size_t)want->shape[3], at = 0;
        float *all = calloc(want->count + 1, sizeof *all),
              *part = calloc(want->count + 1, sizeof *part);
        for (size_t s = 0; s <= l->count; s++) {
            pc_segment *segment = s < l->count ? l->spans[s].segment : query;
            int64_t start = s < l->count ? l->spans[s].start : l->position;
            size_t n = pc_segment_tokens(segment, NULL);
            for (int32_t layer = 0; layer < c->info.layers && at + n <= total; layer++) {
                if (pc_segment_read(segment, layer, start, which ? NULL : part, which ? part : NULL)
                    < 0)
                    c->code = input_error("segment", NULL);
                for (size_t h = 0; h < heads; h++)
                    memcpy(all + (((size_t)layer * heads + h) * total + at) * dim,
                           part + h * n * dim, n * dim * sizeof *all);
            }
            at += n;
        }
        check_tensor(c, want, all, want->count);
        free(all);
        free(part);
    }
}

static void shared(checking *c)
{
    golden_tensor *root_ids = golden_find(&c->golden, "shared/root_ids"),
                  *want = golden_find(&c->golden, "shared/logits");
    json_t *leaves = json_object_get(
               json_object_get(json_object_get(c->golden.about, "inputs"), "shared"), "leaves"),
           *row;
    uint64_t regime = golden_regime(&c->golden, "shared");
    pc_segment *root, *mid[8] = {0}, *suffix[16] = {0}, *query[16] = {0};
    leaf leaf_rows[16] = {0};
    pc_lane lanes[16];
    size_t i, count = json_array_size(leaves);
    if (!root_ids || !want || !count || count > 16)
        return;
    root = extend(c, NULL, 0, root_ids, 0, root_ids->count, regime);
    pc_span root_span = {root, 0, 0, 0};
    int64_t root_end = (int64_t)root_ids->count;
    json_array_foreach(leaves, i, row)
    {
        const char *parent = json_string_value(json_object_get(row, "parent"));
        size_t m = parent && strlen(parent) == 4 ? (size_t)(parent[3] - '0') : 8;
        golden_tensor *mid_ids = m < 8 ? golden_find(&c->golden, "shared/mid%zu_ids", m) : NULL;
        golden_tensor *ids = golden_find(&c->golden, "shared/leaf%zu_ids", i);
        if ((!mid_ids || !ids || !ids->count) && !c->code)
            c->code = plain_error("golden: leaf %zu or the middle it hangs on is missing", i);
        if (c->code)
            break;
        if (!mid[m])
            mid[m] = extend(c, &root_span, 1, mid_ids, root_end, mid_ids->count, regime);
        leaf *l = &leaf_rows[i];
        l->spans[l->count++] = root_span;
        l->spans[l->count++] = (pc_span){mid[m], root_end, 0, 0};
        l->position = root_end + (int64_t)mid_ids->count;
        if (ids->count > 1) {
            suffix[i] = extend(c, l->spans, 2, ids, l->position, ids->count - 1, regime);
            l->spans[l->count++] = (pc_span){suffix[i], l->position, 0, 0};
            l->position += (int64_t)ids->count - 1;
        }
        l->query = ((const int32_t *)ids->data)[ids->count - 1];
        lanes[i] = (pc_lane){l->spans, l->count, &l->query, &l->position, 1, NULL};
    }
    golden_tensor *finals = golden_find(&c->golden, "shared/final");
    float *logits = check_new_logits(c, count);
    c->finals = finals ? calloc(count * (size_t)c->info.hidden + finals->count, sizeof *c->finals)
                       : NULL;
    if (check_eval(c, lanes, count, PC_VISIBLE_BY_POSITION, regime, logits, query,
                   finals != NULL)) {
        check_tensor(c, want, logits, count * (size_t)c->info.vocab);
        leaf_states(c, &leaf_rows[0], query[0]);
        if (finals)
            check_tensor(c, finals, c->finals, finals->count);
    }
    free(logits);
    free(c->finals);
    c->finals = NULL;
    forget(c);
    pc_segment_free(root);
    for (i = 0; i < 16; i++) {
        pc_segment_free(i < 8 ? mid[i] : NULL);
        pc_segment_free(suffix[i]);
        pc_segment_free(query[i]);
    }
}

/* ----------------------------------------------------------------- relocation */

static void read_and_compare(checking *c, const pc_segment *segment, int64_t start,
                             const char *name, int values)
{
    golden_tensor *want = golden_find(&c->golden, "relocate/%s", name);
    size_t one = want && c->info.layers ? want->count / (size_t)c->info.layers : 0;
    float *all = want ? calloc(want->count + 1, sizeof *all) : NULL;
    if (want && (size_t)want->shape[2] != pc_segment_tokens(segment, NULL))
        c->code = plain_error("%s: not as many tokens as relocate/ids", want->name);
    for (int32_t l = 0; want && l < c->info.layers && !c->code; l++)
        if (pc_segment_read(segment, l, start, values ? NULL : all + (size_t)l * one,
                            values ? all + (size_t)l * one : NULL)
            < 0)
            c->code = input_error("segment", NULL);
    if (want && !c->code)
        check_tensor(c, want, all, want->count);
    free(all);
}

static void relocate(checking *c)
{
    golden_tensor *ids = golden_find(&c->golden, "relocate/ids");
    json_t *about = json_object_get(json_object_get(c->golden.about, "inputs"), "relocate");
    int64_t from = json_integer_value(json_object_get(about, "from_pos")),
            to = json_integer_value(json_object_get(about, "to_pos"));
    int64_t positions[1024];
    uint64_t regime = golden_regime(&c->golden, "relocate");
    if (!ids || !about || ids->count > 1024)
        return;
    for (int pass = 0; pass < 2; pass++) {
        pc_segment *segment = NULL;
        pc_lane lane = {NULL, 0, ids->data, positions, ids->count, NULL};
        for (size_t i = 0; i < ids->count; i++)
            positions[i] = (pass ? to : from) + (int64_t)i;
        if (check_eval(c, &lane, 1, PC_VISIBLE_BY_POSITION, regime, NULL, &segment, 1)) {
            read_and_compare(c, segment, pass ? to : from, pass ? "k_fresh" : "k_from", 0);
            if (!pass && c->info.relocatable) {
                read_and_compare(c, segment, to, "k_moved", 0);
                read_and_compare(c, segment, to, "v", 1);
                compare_last(c, "relocate");
            }
        }
        pc_segment_free(segment);
        forget(c);
    }
}

/* ------------------------------------------------- a text with the maps of another */

/* The text `which` (x or y), with given maps or without; `suffix` ends the names of what comes out.
 */
static void with_maps(checking *c, char which, const float *const *const *maps, const char *suffix)
{
    golden_tensor *ids = golden_find(&c->golden, "mapreuse/%c_ids", which),
                  *want = golden_find(&c->golden, "mapreuse/%c_logits%s", which, suffix);
    int64_t positions[1024];
    float *logits = NULL;
    if (!ids || ids->count > 1024 || c->code)
        return;
    if (want && want->rank == 2)
        logits = check_new_logits(c, ids->count);
    for (size_t i = 0; i < ids->count; i++)
        positions[i] = (int64_t)i;
    pc_lane lane = {NULL, 0, ids->data, positions, ids->count, NULL};
    c->maps = maps;
    if (check_eval(c, &lane, 1, PC_VISIBLE_ALL, golden_regime(&c->golden, "mapreuse"), logits, NULL,
                   1)) {
        if (logits)
            check_tensor(c, want, logits, want->count);
        else
            compare_layers(c, want, DECODER_STAGES + 1);
        compare_layers(c, golden_find(&c->golden, "mapreuse/%c_hidden%s", which, suffix), 0);
        if (!maps)
            compare_layers(c, golden_find(&c->golden, "mapreuse/%c_probs", which), 4);
        else
            compare_routers(c, "mapreuse");
    }
    c->maps = NULL;
    free(logits);
    forget(c);
}

static void mapreuse(checking *c)
{
    golden_tensor *probs = golden_find(&c->golden, "mapreuse/x_probs");
    const float *layers[256];
    const float *const *lane = layers;
    if (!probs || c->info.layers > 256 || probs->integers || probs->rank != 4
        || probs->shape[0] != c->info.layers || probs->shape[1] != c->info.heads)
        return;
    for (int32_t l = 0; l < c->info.layers; l++)
        layers[l] = (const float *)probs->data + probs->count / (size_t)c->info.layers * (size_t)l;
    with_maps(c, 'x', NULL, "");
    with_maps(c, 'y', NULL, "");
    with_maps(c, 'y', &lane, "_reuse");
}

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

/* Whether a tensor has the model's sizes; the numbers of tokens are compared case by case. */
static int fits(const checking *c, const golden_tensor *t)
{
    const pc_model_info *m = &c->info;
    int64_t last = t->rank ? t->shape[t->rank - 1] : 0;
    if (is_states(t->name))
        return t->rank == 4 && t->shape[0] == m->layers && t->shape[1] == m->kv_heads
               && last == m->head_dim;
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
    plain(c, "plain");
    encoder(c, "plain");
    encoder(c, "padded");
    modular(c);
    plain(c, "joint");
    shared(c);
    relocate(c);
    mapreuse(c);
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
        {"golden", OPTION_FILE, &golden, "golden.safetensors (golden.json beside it says more)",
         NULL, 0, 0},
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
