/* Catches: GGUF files whose counts, types, offsets or metadata crash the reader, the vocabulary,
 * the configuration, the check of the weights or a first forward pass of a model that was accepted.
 */
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"
#include "model/config.h"
#include "model/gguf.h"

enum { SAMPLE = 256 * 4 };

static void read_tensors(const pc__weights *weights, const char *path)
{
    static float values[SAMPLE];
    for (size_t i = 0; i < pc__weights_count(weights); i++) {
        const pc__tensor *tensor = pc__weights_at(weights, i);
        uint64_t elements = tensor->bytes / pc__ttype_block_bytes(tensor->type) *
                            pc__ttype_block(tensor->type);
        FUZZ_CHECK(pc__weights_find(weights, tensor->name) == tensor);
        if (fuzz_ok(pc__tensor_check(tensor, path)))
            pc__tensor_floats(tensor, 0, elements < SAMPLE ? elements : SAMPLE, values);
    }
}

static void read_parts(const char *path)
{
    pc__gguf *gguf;
    pc__arch arch;
    pc__tokenizer *tokenizer;
    if (!fuzz_ok(pc__gguf_open(&gguf, &fuzz_memory, path))) {
        FUZZ_CHECK(!gguf);
        return;
    }
    read_tensors(pc__gguf_weights(gguf), path);
    (void)fuzz_ok(pc__arch_from_gguf(&arch, &fuzz_memory, gguf));
    pc__arch_clear(&fuzz_memory, &arch);
    if (fuzz_ok(pc__gguf_tokenizer(&tokenizer, &fuzz_memory, gguf)))
        fuzz_round(tokenizer, "the <s>a\xff b", 10, PC_TOKENIZE_SPECIAL, 0);
    pc__tokenizer_free(tokenizer);
    pc__gguf_free(gguf);
}

/* Two tokens through a model that has been accepted; no weight of it is NaN, so no result may read
 * foreign memory. */
static void compute(const pc_model *model)
{
    static const int64_t positions[] = {0, 1};
    pc_model_info info = PC_MODEL_INFO_INIT;
    pc_eval_args args = PC_EVAL_ARGS_INIT;
    FUZZ_CHECK(pc_model_get_info(model, &info) == PC_OK);
    if (info.vocab > 1 << 16)
        return;
    const int32_t tokens[] = {0, info.vocab - 1};
    pc_lane lane = {NULL, 0, tokens, positions, 2};
    args.lanes = &lane;
    args.lane_count = 1;
    args.logits = malloc(2 * (size_t)info.vocab * sizeof(float));
    if (args.logits)
        (void)fuzz_ok(pc_eval(model, &args));
    free(args.logits);
}

static void load(const char *path)
{
    pc_context_options options = PC_CONTEXT_OPTIONS_INIT;
    pc_model_options model_options = PC_MODEL_OPTIONS_INIT;
    pc_context *context;
    pc_model *model;
    options.allocator = &fuzz_memory;
    options.threads = 1;
    model_options.compute = PC_DTYPE_F32;
    FUZZ_CHECK(fuzz_ok(pc_context_new(&context, &options)));
    if (fuzz_ok(pc_model_load(&model, context, path, &model_options)))
        compute(model);
    else
        FUZZ_CHECK(!model);
    pc_model_free(model);
    pc_context_free(context);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    size_t blocks = fuzz_blocks();
    const char *path = fuzz_file(data, size, "");
    read_parts(path);
    if (size > 4 && !memcmp(data, "GGUF", 4))
        load(path);
    fuzz_no_leak(blocks);
    return 0;
}
