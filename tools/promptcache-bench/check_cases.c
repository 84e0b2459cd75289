/* The cases of golden vectors: one text, an encoder's text, modules, relocation, reused maps. */
#include <stdlib.h>
#include <string.h>

#include "check.h"

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

int check_eval(checking *c, const pc_lane *lanes, size_t count, uint32_t visibility,
               uint64_t rope_length, float *logits, pc_segment **segments, int trace)
{
    pc_eval_args args = PC_EVAL_ARGS_INIT;
    args.lanes = lanes;
    args.lane_stride = sizeof(pc_lane);
    args.lane_count = count;
    args.visibility = visibility;
    args.rope_regime_length = rope_length;
    args.logits = logits;
    args.segments = segments;
    args.trace = trace ? check_keep : NULL;
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

/* Greedy ids behind `spans`, whose last token stands at `position`, one token a pass. `first` is
 * known from earlier logits. */
static void greedy(checking *c, const char *prefix, pc_span *spans, size_t span_count,
                   int32_t first, int64_t position, uint64_t rope_length, uint32_t visibility)
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
        pc_lane lane = {spans, span_count, &ids[i - 1], &at, 1, NULL, sizeof(pc_span)};
        if (!check_eval(c, &lane, 1, visibility, rope_length, logits, &segment, 0))
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

/* Computes one lane of new tokens over given spans, and compares all traced stages. The file may
 * have logits of the last tokens only. */
static void run_case(checking *c, const char *prefix, pc_span *spans, size_t span_count,
                     const tokens *t, uint32_t visibility, uint64_t rope_length)
{
    golden_tensor *want = golden_find(&c->golden, "%s/logits", prefix);
    float *logits = check_new_logits(c, t->count);
    pc_segment *segment = NULL;
    pc_lane lane = {spans, span_count, t->ids, t->positions, t->count, NULL, sizeof(pc_span)};
    size_t vocab = (size_t)c->info.vocab, rows = want ? want->count / vocab : 0;
    if (check_eval(c, &lane, 1, visibility, rope_length, logits, &segment, 1)) {
        for (size_t s = 0; s < FIRST_OF_ROUTER; s++)
            check_stage(c, prefix, s);
        check_routers(c, prefix);
        if (want)
            check_tensor(c, want, logits + (rows <= t->count ? t->count - rows : 0) * vocab,
                         (rows <= t->count ? rows : t->count) * vocab);
        spans[span_count] = (pc_span){segment, t->positions[0], 0, 0};
        greedy(c, prefix, spans, span_count + 1,
               check_largest(logits + (t->count - 1) * vocab, vocab), t->positions[t->count - 1],
               rope_length, visibility);
    }
    pc_segment_free(segment);
    free(logits);
    check_forget(c);
}

void check_plain(checking *c, const char *prefix)
{
    tokens t = tokens_of(c, prefix);
    pc_span spans[80];
    if (t.count)
        run_case(c, prefix, spans, 0, &t, PC_VISIBLE_BY_POSITION,
                 golden_rope_length(&c->golden, prefix));
    free(t.positions);
}

/* ------------------------------------------------ encoders: a text, padded or not */

/* Maps of the file may have columns for padding behind the text: adds zeros. */
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

/* The lane has the text without the padding. */
void check_encoder(checking *c, const char *prefix)
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
    pc_lane lane = {NULL, 0, ids->data, positions, count, types ? types->data : NULL, 0};
    if (check_eval(c, &lane, 1, PC_VISIBLE_ALL, 0, NULL, NULL, 1)) {
        if (maps && c->stages[4].layers)
            widen(c, maps);
        for (size_t s = 0; s < sizeof stages / sizeof *stages; s++)
            check_stage(c, prefix, stages[s]);
    }
    check_forget(c);
}

static pc_segment *module(checking *c, const char *prefix, uint64_t rope_length, int64_t *start)
{
    tokens t = tokens_of(c, prefix);
    pc_segment *segment = NULL;
    pc_lane lane = {NULL, 0, t.ids, t.positions, t.count, NULL, 0};
    if (t.count
        && check_eval(c, &lane, 1, PC_VISIBLE_BY_POSITION, rope_length, NULL, &segment, 1)) {
        *start = t.positions[0];
        check_stage(c, prefix, 2);
        check_stage(c, prefix, 3);
        for (size_t s = FIRST_OF_LATENT; s < FIRST_OF_ROUTER; s++)
            check_stage(c, prefix, s);
        check_last_hidden(c, prefix);
        check_routers(c, prefix);
    }
    check_forget(c);
    free(t.positions);
    return segment;
}

void check_modular(checking *c)
{
    tokens t = tokens_of(c, "modular/new");
    pc_span spans[80];
    size_t count = 0;
    uint64_t rope_length = golden_rope_length(&c->golden, "modular_all");
    for (char name[] = "modular/m0"; count < 8; name[9]++, count++) {
        int64_t start = 0;
        pc_segment *segment = module(c, name, rope_length, &start);
        if (!segment)
            break;
        spans[count] = (pc_span){segment, start, 0, 0};
    }
    if (t.count && count && !c->code) {
        run_case(c, "modular_all", spans, count, &t, PC_VISIBLE_ALL, rope_length);
        run_case(c, "modular_pos", spans, count, &t, PC_VISIBLE_BY_POSITION,
                 golden_rope_length(&c->golden, "modular_pos"));
    }
    for (size_t i = 0; i < count; i++)
        pc_segment_free(spans[i].segment);
    free(t.positions);
}

/* ----------------------------------------------------------------- relocation */

/* Of latent attention the file has only the part of a key that turns: [layer][token][dims], the
 * last dimensions of every head. all: [want->count], freed. */
static void compare_turned(checking *c, const pc_segment *segment, int64_t start,
                           const golden_tensor *want, float *all)
{
    size_t count = (size_t)want->shape[1], dims = (size_t)want->shape[2],
           head = (size_t)c->info.head_dim;
    float *keys = calloc((size_t)c->info.kv_heads * count * head + 1, sizeof *keys);
    for (int32_t l = 0; keys && all && l < c->info.layers && !c->code; l++) {
        if (pc_segment_read(segment, l, start, keys, NULL) < 0)
            c->code = input_error("segment", NULL);
        for (size_t t = 0; t < count && dims <= head; t++)
            memcpy(all + ((size_t)l * count + t) * dims, keys + (t + 1) * head - dims,
                   dims * sizeof *all);
    }
    if (keys && all && !c->code)
        check_tensor(c, want, all, want->count);
    free(keys);
    free(all);
}

static void read_and_compare(checking *c, const pc_segment *segment, int64_t start,
                             const char *name, int values)
{
    golden_tensor *want = golden_find(&c->golden, "relocate/%s", name);
    size_t one = want && c->info.layers ? want->count / (size_t)c->info.layers : 0;
    size_t count;
    pc_segment_tokens(segment, &count);
    float *all = want ? calloc(want->count + 1, sizeof *all) : NULL;
    if (want && (size_t)want->shape[want->rank - 2] != count)
        c->code = plain_error("%s: not as many tokens as relocate/ids", want->name);
    if (want && want->rank == 3) {
        compare_turned(c, segment, start, want, all);
        return;
    }
    for (int32_t l = 0; want && l < c->info.layers && !c->code; l++)
        if (pc_segment_read(segment, l, start, values ? NULL : all + (size_t)l * one,
                            values ? all + (size_t)l * one : NULL)
            < 0)
            c->code = input_error("segment", NULL);
    if (want && !c->code)
        check_tensor(c, want, all, want->count);
    free(all);
}

void check_relocate(checking *c)
{
    golden_tensor *ids = golden_find(&c->golden, "relocate/ids");
    json_t *about = json_object_get(json_object_get(c->golden.about, "inputs"), "relocate");
    int64_t from = json_integer_value(json_object_get(about, "from_pos")),
            to = json_integer_value(json_object_get(about, "to_pos"));
    int64_t positions[1024];
    uint64_t rope_length = golden_rope_length(&c->golden, "relocate");
    if (!ids || !about || ids->count > 1024)
        return;
    for (int pass = 0; pass < 2; pass++) {
        pc_segment *segment = NULL;
        pc_lane lane = {NULL, 0, ids->data, positions, ids->count, NULL, 0};
        for (size_t i = 0; i < ids->count; i++)
            positions[i] = (pass ? to : from) + (int64_t)i;
        if (check_eval(c, &lane, 1, PC_VISIBLE_BY_POSITION, rope_length, NULL, &segment, 1)) {
            read_and_compare(c, segment, pass ? to : from, pass ? "k_fresh" : "k_from", 0);
            if (!pass && c->info.relocatable) {
                read_and_compare(c, segment, to, "k_moved", 0);
                read_and_compare(c, segment, to, "v", 1);
                check_stage(c, "relocate", LATENT);
                check_last_hidden(c, "relocate");
            }
        }
        pc_segment_free(segment);
        check_forget(c);
    }
}

/* ------------------------------------------------- a text with the maps of another */

/* The text `which` (x or y), with or without given maps; `suffix` ends the names of the results. */
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
    pc_lane lane = {NULL, 0, ids->data, positions, ids->count, NULL, 0};
    c->maps = maps;
    if (check_eval(c, &lane, 1, PC_VISIBLE_ALL, golden_rope_length(&c->golden, "mapreuse"), logits,
                   NULL, 1)) {
        if (logits)
            check_tensor(c, want, logits, want->count);
        else
            check_layers(c, want, DECODER_STAGES + 1);
        check_layers(c, golden_find(&c->golden, "mapreuse/%c_hidden%s", which, suffix), 0);
        if (!maps)
            check_layers(c, golden_find(&c->golden, "mapreuse/%c_probs", which), 4);
        else
            check_routers(c, "mapreuse");
    }
    c->maps = NULL;
    free(logits);
    check_forget(c);
}

void check_map_reuse(checking *c)
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
