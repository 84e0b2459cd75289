/* Catches: quantised experts that are computed with the rows, scales or groups of another expert,
 * that depend on the rows beside them, or that get the block format of a neighbour of another type;
 * routers that are rounded. The weights are random, with llama.cpp's names, in three-dimensional
 * tensors and, as in older files, in one tensor per expert. The same file, expanded to fp32, gives
 * the expected values. */
#include <promptcache/extend.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define GGUF_ROOM (1 << 22)
#include "attn/half.h"
#include "gguf_bytes.h"
#include "golden_lanes.h"
#include "levels.h"

enum {
    HIDDEN = 256,
    WIDTH = 256,
    SHARED = 512,
    EXPERTS = 5,
    LAYERS = 2,
    VOCAB = 512 /* the largest tensor is fp32, like everything that is not quantised */,
    TOKENS = 24
};
enum { F32 = 0, Q4_0 = 2, Q8_0 = 8, Q4_K = 12, Q6_K = 14 }; /* ggml's numbers */

static pc_test_rng rng;

static void half_at(uint8_t *out, float value)
{
    uint16_t half = pc__half_of(value);
    memcpy(out, &half, sizeof half);
}

/* `count` values of a type, about as large as those of a matrix of 256 inputs. */
static size_t fill(uint32_t type, size_t count, uint8_t *out)
{
    static const struct {
        uint32_t type;
        size_t block, bytes, scale_at;
        float scale;
    } kinds[] = {{Q4_0, 32, 18, 0, 0.0125f},
                 {Q8_0, 32, 34, 0, 0.0009f},
                 {Q4_K, 256, 144, 0, 0.0004f},
                 {Q6_K, 256, 210, 208, 0.00005f}};
    for (size_t i = 0; type == F32 && i < count; i++) {
        float value = 0.06f * pc_test_normal(&rng);
        memcpy(out + 4 * i, &value, sizeof value);
    }
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        if (kinds[k].type != type)
            continue;
        size_t blocks = count / kinds[k].block;
        for (size_t b = 0; b < blocks; b++) {
            uint8_t *block = out + b * kinds[k].bytes;
            for (size_t i = 0; i < kinds[k].bytes; i++)
                block[i] = (uint8_t)pc_test_bits(&rng);
            half_at(block + kinds[k].scale_at, kinds[k].scale * (0.5f + pc_test_uniform(&rng)));
            if (type == Q4_K) /* minimums that leave the values around zero */
                half_at(block + 2, 0.003f);
        }
        return blocks * kinds[k].bytes;
    }
    return 4 * count;
}

static void tensor(gguf_bytes *g, const char *name, uint32_t type, size_t planes, size_t rows,
                   size_t cols)
{
    static uint8_t data[4 * VOCAB * HIDDEN + 2 * EXPERTS * HIDDEN * WIDTH];
    size_t bytes = fill(type, (planes ? planes : 1) * (rows ? rows : 1) * cols, data);
    gguf_cube(g, name, type, planes, rows, cols, data, bytes);
}

static void of_layer(gguf_bytes *g, int layer, const char *name, uint32_t type, size_t planes,
                     size_t rows, size_t cols)
{
    char full[128];
    snprintf(full, sizeof full, "blk.%d.%s.weight", layer, name);
    tensor(g, full, type, planes, rows, cols);
}

static void gains(gguf_bytes *g, const char *name)
{
    float ones[HIDDEN];
    for (int i = 0; i < HIDDEN; i++)
        ones[i] = 1.0f;
    gguf_tensor(g, name, F32, 0, HIDDEN, ones, sizeof ones);
}

static void numbered(gguf_bytes *g, int layer, const char *name, size_t rows, size_t cols)
{
    char full[64];
    for (int e = 0; e < EXPERTS; e++) { /* in the second layer one of them has another type */
        snprintf(full, sizeof full, "%s.%d", name, e);
        of_layer(g, layer, full, layer && e == 3 ? Q4_0 : Q8_0, 0, rows, cols);
    }
}

static void layer_of(gguf_bytes *g, int layer, int old)
{
    char name[64];
    snprintf(name, sizeof name, "blk.%d.attn_norm.weight", layer);
    gains(g, name);
    snprintf(name, sizeof name, "blk.%d.ffn_norm.weight", layer);
    gains(g, name);
    of_layer(g, layer, "attn_q", Q8_0, 0, HIDDEN, HIDDEN);
    of_layer(g, layer, "attn_k", Q8_0, 0, HIDDEN / 2, HIDDEN);
    of_layer(g, layer, "attn_v", Q8_0, 0, HIDDEN / 2, HIDDEN);
    of_layer(g, layer, "attn_output", Q8_0, 0, HIDDEN, HIDDEN);
    of_layer(g, layer, "ffn_gate_inp", F32, 0, EXPERTS, HIDDEN);
    if (old) {
        numbered(g, layer, "ffn_gate", WIDTH, HIDDEN);
        numbered(g, layer, "ffn_up", WIDTH, HIDDEN);
        numbered(g, layer, "ffn_down", HIDDEN, WIDTH);
        return;
    }
    of_layer(g, layer, "ffn_gate_exps", Q4_K, EXPERTS, WIDTH, HIDDEN);
    of_layer(g, layer, "ffn_up_exps", Q4_K, EXPERTS, WIDTH, HIDDEN);
    of_layer(g, layer, "ffn_down_exps", layer ? Q6_K : Q8_0, EXPERTS, HIDDEN, WIDTH);
    of_layer(g, layer, "ffn_gate_shexp", Q4_0, 0, SHARED, HIDDEN);
    of_layer(g, layer, "ffn_up_shexp", Q4_0, 0, SHARED, HIDDEN);
    of_layer(g, layer, "ffn_down_shexp", Q8_0, 0, HIDDEN, SHARED);
    of_layer(g, layer, "ffn_gate_inp_shexp", F32, 0, 0, HIDDEN);
}

static void key(gguf_bytes *g, int old, const char *name, uint32_t value)
{
    char full[64];
    snprintf(full, sizeof full, "%s.%s", old ? "llama" : "qwen2moe", name);
    gguf_u32(g, full, value);
}

static const char *write_model(int old)
{
    static gguf_bytes g;
    rng.state = 11;
    gguf_start(&g, 3);
    gguf_text(&g, "general.architecture", old ? "llama" : "qwen2moe");
    key(&g, old, "block_count", LAYERS);
    key(&g, old, "context_length", 128);
    key(&g, old, "embedding_length", HIDDEN);
    key(&g, old, "feed_forward_length", old ? WIDTH : 2 * WIDTH);
    key(&g, old, "attention.head_count", 8);
    key(&g, old, "attention.head_count_kv", 4);
    key(&g, old, "expert_count", EXPERTS);
    key(&g, old, "expert_used_count", 2);
    if (!old) {
        key(&g, old, "expert_feed_forward_length", WIDTH);
        key(&g, old, "expert_shared_feed_forward_length", SHARED);
    }
    gguf_f32(&g,
             old ? "llama.attention.layer_norm_rms_epsilon"
                 : "qwen2moe.attention.layer_norm_rms_epsilon",
             1e-6f);
    tensor(&g, "token_embd.weight", F32, 0, VOCAB, HIDDEN);
    for (int layer = 0; layer < LAYERS; layer++)
        layer_of(&g, layer, old);
    gains(&g, "output_norm.weight");
    gguf_end(&g);
    return gguf_file(&g);
}

/* [TOKENS][VOCAB]: each token a sequence of its own, `at_once` of them in a pass. */
static int logits_of(const pc_model *model, size_t at_once, float *out)
{
    int32_t tokens[TOKENS];
    int64_t positions[TOKENS];
    pc_lane lanes[TOKENS];
    for (int i = 0; i < TOKENS; i++) {
        tokens[i] = (i * 37 + 11) % VOCAB;
        positions[i] = i;
        lanes[i] = (pc_lane){.tokens = &tokens[i], .positions = &positions[i], .count = 1};
    }
    for (size_t first = 0; first < TOKENS; first += at_once) {
        pc_eval_args args = PC_EVAL_ARGS_INIT;
        args.lanes = lanes + first;
        args.lane_stride = sizeof(pc_lane);
        args.lane_count = at_once;
        args.logits = out + first * VOCAB;
        if (!CHECK_OK(pc_eval(model, &args)))
            return 0;
    }
    return 1;
}

static pc_model *load(pc_context *context, const char *path, uint32_t compute, pc_model_info *info)
{
    pc_model_options options = PC_MODEL_OPTIONS_INIT;
    pc_model *model = NULL;
    options.compute = compute;
    options.kv = PC_DTYPE_F32;
    *info = (pc_model_info)PC_MODEL_INFO_INIT;
    if (CHECK_OK(pc_model_load(&model, context, path, &options)))
        CHECK_OK(pc_model_get_info(model, info));
    return model;
}

/* The number of rows that differ by more than `limit` of their largest logit. *middle: the median
 * difference. */
static int rows_off(const float *a, const float *b, double limit, double *middle)
{
    double off[TOKENS];
    int count = 0;
    for (int t = 0; t < TOKENS; t++, a += VOCAB, b += VOCAB) {
        double worst = 0, most = 0;
        int at = t;
        for (int i = 0; i < VOCAB; i++) {
            worst = fmax(worst, fabs((double)a[i] - (double)b[i]));
            most = fmax(most, fabs((double)b[i]));
        }
        CHECK(most > 0.1 && isfinite(most));
        count += !(worst <= limit * most);
        for (; at && off[at - 1] > worst / most; at--)
            off[at] = off[at - 1];
        off[at] = worst / most;
    }
    *middle = off[TOKENS / 2];
    return count;
}

static void compare(pc_context *context, int old)
{
    static float exact[TOKENS * VOCAB], whole[TOKENS * VOCAB], narrow[TOKENS * VOCAB],
        one[TOKENS * VOCAB], some[TOKENS * VOCAB];
    const char *path = write_model(old);
    pc_model_info of_exact, of_whole, of_narrow;
    pc_model *expanded = load(context, path, PC_DTYPE_F32, &of_exact),
             *quantised = load(context, path, PC_DTYPE_I16, &of_whole),
             *bytes = load(context, path, PC_DTYPE_I8, &of_narrow);
    if (expanded && quantised && bytes && logits_of(expanded, TOKENS, exact)
        && logits_of(quantised, TOKENS, whole) && logits_of(bytes, TOKENS, narrow)) {
        double a, b;
        CHECK_INT(rows_off(whole, exact, 1e-3, &a), 0);
        CHECK(rows_off(narrow, exact, 0.05, &b)
              <= TOKENS / 8); /* where an input's rounding chooses another expert */
        printf("%s: with inputs of 16 bits %.1e, of 8 bits %.1e; %llu, %llu bytes\n",
               old ? "numbered" : "in three dimensions", a, b,
               (unsigned long long)of_whole.weight_bytes,
               (unsigned long long)of_exact.weight_bytes);
        CHECK(of_narrow.weight_bytes < of_exact.weight_bytes * (old ? 7 : 5) / 10);
        /* Inputs that differ in their last bits may be rounded another way. */
        if (logits_of(bytes, 1, one) && logits_of(bytes, 8, some))
            same_rows(context, "inputs of 8 bits, 8 rows", one, some, TOKENS * VOCAB, 2e-2);
        if (logits_of(quantised, 1, one) && logits_of(quantised, TOKENS, some))
            same_rows(context, "all rows", one, some, TOKENS * VOCAB, 2e-4);
    }
    pc_model_free(expanded);
    pc_model_free(quantised);
    pc_model_free(bytes);
}

int main(void)
{
    pc_context *context;
    pc_test_need_level();
    if (!CHECK_OK(pc_context_new(&context, NULL)))
        return pc_test_end();
    compare(context, 0);
    compare(context, 1);
    pc_context_free(context);
    return pc_test_end();
}
