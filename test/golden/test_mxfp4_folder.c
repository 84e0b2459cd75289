/* Catches: experts of gpt-oss in MXFP4, as Hugging Face's files have them (codes and scales in two
 * tensors, gate and up in turn), that are read as other numbers than the same experts in fp32, one
 * matrix [in][out] each. */
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <promptcache/bench.h>
#include <promptcache/extend.h>

#include "testing.h"

enum { HIDDEN = 64, FFN = 32, EXPERTS = 4, HEADS = 4, DIM = 16, VOCAB = 32, TOKENS = 9 };

/* A file of safetensors while it is made. */
typedef struct draft {
    char header[1 << 14];
    uint8_t data[1 << 20];
    size_t header_size, size;
} draft;

static void *add(draft *d, const char *dtype, size_t bytes, const char *shape, const char *name)
{
    uint8_t *at = d->data + d->size;
    d->header_size += (size_t)snprintf(
        d->header + d->header_size, sizeof d->header - d->header_size,
        "%c\"%s\":{\"dtype\":\"%s\",\"shape\":[%s],\"data_offsets\":[%zu,%zu]}",
        d->header_size ? ',' : '{', name, dtype, shape, d->size, d->size + bytes);
    d->size += bytes;
    return at;
}

static void add_random(draft *d, pc_test_rng *rng, size_t rows, size_t cols, const char *name)
{
    char shape[32];
    snprintf(shape, sizeof shape, cols ? "%zu,%zu" : "%zu", rows, cols);
    size_t count = rows * (cols ? cols : 1);
    float *to = add(d, "F32", count * sizeof *to, shape, name);
    for (size_t i = 0; i < count; i++)
        to[i] = pc_test_normal(rng) / (cols ? sqrtf((float)cols) : 4.0f) + (cols ? 0.0f : 1.0f);
}

/* The matrices of all experts, [out][in] in MXFP4, or the same [in][out] in fp32. */
static void add_experts(draft *d, uint64_t seed, int packed, size_t out, size_t in,
                        const char *name)
{
    static const float levels[16] = {0, 0.5f,  1,  1.5f,  2,  3,  4,  6,
                                     0, -0.5f, -1, -1.5f, -2, -3, -4, -6};
    pc_test_rng rng = {seed};
    size_t blocks = EXPERTS * out * in / 32;
    char shape[48], codes_name[96], scales_name[96];
    uint8_t *codes = malloc(blocks * 16), *scales = malloc(blocks);
    for (size_t i = 0; i < blocks * 16; i++)
        codes[i] = (uint8_t)pc_test_bits(&rng);
    for (size_t i = 0; i < blocks; i++)
        scales[i] = (uint8_t)(121 + pc_test_bits(&rng) % 4);
    if (packed) {
        snprintf(codes_name, sizeof codes_name, "%s_blocks", name);
        snprintf(scales_name, sizeof scales_name, "%s_scales", name);
        snprintf(shape, sizeof shape, "%d,%zu,%zu,16", EXPERTS, out, in / 32);
        memcpy(add(d, "U8", blocks * 16, shape, codes_name), codes, blocks * 16);
        snprintf(shape, sizeof shape, "%d,%zu,%zu", EXPERTS, out, in / 32);
        memcpy(add(d, "U8", blocks, shape, scales_name), scales, blocks);
    } else {
        snprintf(shape, sizeof shape, "%d,%zu,%zu", EXPERTS, in, out);
        float *to = add(d, "F32", EXPERTS * out * in * sizeof *to, shape, name);
        for (size_t r = 0; r < EXPERTS * out; r++)
            for (size_t c = 0; c < in; c++) {
                size_t i = r * in + c;
                to[r / out * in * out + c * out + r % out] =
                    levels[codes[i / 2] >> (i % 2 * 4) & 15] * ldexpf(1, scales[i / 32] - 127);
            }
    }
    free(codes);
    free(scales);
}

static void fill(draft *d, int packed)
{
#define AT "model.layers.0."
    pc_test_rng rng = {11};
    add_random(d, &rng, VOCAB, HIDDEN, "model.embed_tokens.weight");
    add_random(d, &rng, VOCAB, HIDDEN, "lm_head.weight");
    add_random(d, &rng, HIDDEN, 0, "model.norm.weight");
    add_random(d, &rng, HIDDEN, 0, AT "input_layernorm.weight");
    add_random(d, &rng, HIDDEN, 0, AT "post_attention_layernorm.weight");
    add_random(d, &rng, HEADS, 0, AT "self_attn.sinks");
    static const char *const projections[] = {"q_proj", "k_proj", "v_proj", "o_proj"};
    for (int i = 0; i < 4; i++) {
        char name[96];
        snprintf(name, sizeof name, AT "self_attn.%s.weight", projections[i]);
        add_random(d, &rng, HIDDEN, HIDDEN, name);
        snprintf(name, sizeof name, AT "self_attn.%s.bias", projections[i]);
        add_random(d, &rng, HIDDEN, 0, name);
    }
    add_random(d, &rng, EXPERTS, HIDDEN, AT "mlp.router.weight");
    add_random(d, &rng, EXPERTS, 0, AT "mlp.router.bias");
    add_random(d, &rng, EXPERTS, 2 * FFN, AT "mlp.experts.gate_up_proj_bias");
    add_random(d, &rng, EXPERTS, HIDDEN, AT "mlp.experts.down_proj_bias");
    add_experts(d, 5, packed, 2 * FFN, HIDDEN, AT "mlp.experts.gate_up_proj");
    add_experts(d, 6, packed, HIDDEN, FFN, AT "mlp.experts.down_proj");
}

static void write_folder(const char *folder, int packed)
{
    char path[600], config[1024];
    draft *d = calloc(1, sizeof *d);
    uint64_t length;
    CHECK(!mkdir(folder, 0700));
    fill(d, packed);
    strcat(d->header, "}");
    length = strlen(d->header);
    uint8_t *file = malloc(8 + length + d->size);
    memcpy(file, &length, 8);
    memcpy(file + 8, d->header, length);
    memcpy(file + 8 + length, d->data, d->size);
    snprintf(path, sizeof path, "%s/model.safetensors", folder);
    pc_test_write(path, file, 8 + length + d->size);
    snprintf(config, sizeof config,
             "{\"model_type\":\"gpt_oss\",\"hidden_size\":%d,\"num_hidden_layers\":1,"
             "\"num_attention_heads\":%d,\"num_key_value_heads\":%d,\"head_dim\":%d,"
             "\"intermediate_size\":%d,\"num_local_experts\":%d,\"num_experts_per_tok\":2,"
             "\"vocab_size\":%d,\"max_position_embeddings\":512,\"sliding_window\":4%s}",
             HIDDEN, HEADS, HEADS, DIM, FFN, EXPERTS, VOCAB,
             packed ? ",\"quantization_config\":{\"quant_method\":\"mxfp4\"}" : "");
    snprintf(path, sizeof path, "%s/config.json", folder);
    pc_test_write(path, config, strlen(config));
    free(file);
    free(d);
}

static void answer(pc_context *context, const char *folder, uint32_t compute, float *logits)
{
    int32_t tokens[TOKENS];
    int64_t positions[TOKENS];
    pc_model *model = NULL;
    pc_model_options options = PC_MODEL_OPTIONS_INIT;
    pc_lane lane = {NULL, 0, tokens, positions, TOKENS, NULL, 0};
    pc_eval_args args = PC_EVAL_ARGS_INIT;
    for (int i = 0; i < TOKENS; i++) {
        tokens[i] = 3 * i % VOCAB;
        positions[i] = i;
    }
    options.compute = compute;
    args.lanes = &lane;
    args.lane_stride = sizeof(pc_lane);
    args.lane_count = 1;
    args.logits = logits;
    if (CHECK_OK(pc_model_load(&model, context, folder, &options)))
        CHECK_OK(pc_eval(model, &args));
    pc_model_free(model);
}

static void near(const float *got, const float *want, double limit)
{
    double largest = 0, worst = 0;
    for (int i = 0; i < TOKENS * VOCAB; i++) {
        largest = fmax(largest, fabs((double)want[i]));
        worst = fmax(worst, fabs((double)got[i] - (double)want[i]));
    }
    printf("off by %.1e of the largest logit\n", worst / largest);
    CHECK(largest > 0 && worst <= limit * largest);
}

int main(void)
{
    static float want[TOKENS * VOCAB], got[TOKENS * VOCAB];
    char plain[512], packed[512];
    pc_context *context = NULL;
    snprintf(plain, sizeof plain, "%s/plain", pc_test_folder());
    snprintf(packed, sizeof packed, "%s/packed", pc_test_folder());
    write_folder(plain, 0);
    write_folder(packed, 1);
    if (CHECK_OK(pc_context_new(&context, NULL))) {
        answer(context, plain, PC_DTYPE_F32, want);
        answer(context, packed, PC_DTYPE_F32, got); /* expanded: the same numbers */
        near(got, want, 1e-5);
        answer(context, packed, PC_DTYPE_I16, got); /* as stored */
        near(got, want, 1e-3);
    }
    pc_context_free(context);
    return pc_test_end();
}
