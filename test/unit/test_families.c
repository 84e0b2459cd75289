/* Catches: models of families that cannot be read which are refused without their family and the
 * reason, or not at all; files and folders of other formats that are taken for models; reasons in
 * the table for models that are read after all. */
#include "model/load/families.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "gguf_bytes.h"
#include "model/load/arch.h"

#define RECURRENT " keeps a recurrent state of a fixed size, not keys and values of each token"
#define HYBRID                                                                                 \
    " has layers with a recurrent state, which cannot be made of modules, between its layers " \
    "with attention"
#define CROSS " is an encoder with a decoder that attends to it (cross-attention)"
#define VISION " is a vision tower: it works on pictures, not on text"
#define MULTIMODAL " takes pictures or sound beside text, and its text part is none that is read"
#define PYTORCH ": convert them to safetensors, in a folder with config.json"
#define TAKE "take the original model"

/* The error text is "<path>: <want>", exactly. */
static void check_text(const char *path, const char *want)
{
    const char *text = pc_error_text();
    size_t size = strlen(path);
    if (CHECK(!strncmp(text, path, size) && !strncmp(text + size, ": ", 2)))
        CHECK_STR(text + size + 2, want);
}

static void refuse(pc_context *context, const char *path, pc_status status, const char *named,
                   const char *want)
{
    pc_model *model = (pc_model *)context;
    CHECK_STATUS(pc_model_load(&model, context, path, NULL), status);
    CHECK(!model);
    check_text(named, want);
}

/* ---- config.json */

static const struct {
    const char *config, *want;
} configs[] = {
    {"\"model_type\":\"mamba\",\"state_size\":16", "Mamba (model_type 'mamba')" RECURRENT},
    {"\"model_type\":\"falcon_mamba\"", "Mamba (model_type 'falcon_mamba')" RECURRENT},
    {"\"model_type\":\"mamba2\"", "Mamba 2 (model_type 'mamba2')" RECURRENT},
    {"\"model_type\":\"rwkv\"", "RWKV (model_type 'rwkv')" RECURRENT},
    {"\"model_type\":\"rwkv7\"", "RWKV (model_type 'rwkv7')" RECURRENT},
    {"\"model_type\":\"jamba\"", "Jamba (model_type 'jamba')" HYBRID},
    {"\"model_type\":\"zamba2\"", "Zamba (model_type 'zamba2')" HYBRID},
    {"\"model_type\":\"falcon_h1\"", "Falcon-H1 (model_type 'falcon_h1')" HYBRID},
    {"\"model_type\":\"recurrent_gemma\"", "RecurrentGemma (model_type 'recurrent_gemma')" HYBRID},
    {"\"model_type\":\"qwen3_next\"", "Qwen3-Next (model_type 'qwen3_next')" HYBRID},
    {"\"model_type\":\"kimi_linear\"", "Kimi Linear (model_type 'kimi_linear')" HYBRID},
    {"\"model_type\":\"lfm2\"",
     "LFM2 (model_type 'lfm2') has layers of short convolutions, which keep a state, between its "
     "layers with attention"},
    {"\"model_type\":\"t5\",\"is_encoder_decoder\":true", "T5 (model_type 't5')" CROSS},
    {"\"model_type\":\"bart\",\"is_encoder_decoder\":true", "BART (model_type 'bart')" CROSS},
    {"\"model_type\":\"whisper\"", "Whisper (model_type 'whisper') works on sound, not on text: an "
                                   "encoder with a decoder that attends to it"},
    {"\"model_type\":\"clip\"", "CLIP (model_type 'clip')" VISION},
    {"\"model_type\":\"siglip_vision_model\"", "SigLIP (model_type 'siglip_vision_model')" VISION},
    {"\"model_type\":\"llava\",\"text_config\":{\"model_type\":\"mamba\"}",
     "LLaVA (model_type 'llava')" MULTIMODAL},
    {"\"model_type\":\"mllama\"", "Llama 3.2 Vision (model_type 'mllama') has layers that attend "
                                  "to pictures (cross-attention)"},
    {"\"model_type\":\"gptj\"",
     "GPT-J (model_type 'gptj') is not implemented: biases in its MLP and head alone, with "
     "attention and MLP in parallel"},
    {"\"model_type\":\"xlnet\"", "XLNet (model_type 'xlnet') orders tokens by permutations and "
                                 "attends in two streams"},
    {"\"model_type\":\"longformer\"",
     "Longformer (model_type 'longformer') has sparse attention by a pattern of its own"},
    {"\"model_type\":\"big_bird\"",
     "BigBird (model_type 'big_bird') has sparse attention by a pattern of its own"},
    {"\"model_type\":\"dbrx\"", "DBRX (model_type 'dbrx') is not implemented: experts in one "
                                "matrix beside clipped queries, keys and values"},
    {"\"model_type\":\"arctic\"", "Arctic (model_type 'arctic') is not implemented: a dense MLP "
                                  "beside the experts of each layer"},
    {"\"model_type\":\"internlm2\"", "InternLM (model_type 'internlm2') is not implemented: a "
                                     "fused Q, K and V (wqkv) with names of its own"},
    {"\"model_type\":\"minicpm3\"",
     "MiniCPM (model_type 'minicpm3') is not implemented: no reader was written for its "
     "configuration"},
    {"\"_class_name\":\"UNet2DConditionModel\"", "a part of an image generator (diffusers, "
                                                 "'UNet2DConditionModel'), not a language model"},
    {"\"model_type\":\"llama\",\"quantization_config\":{\"quant_method\":\"gptq\",\"bits\":4}",
     "key 'quantization_config': weights quantised by GPTQ are not read: use the original weights "
     "(safetensors) or a GGUF file"},
    {"\"model_type\":\"llama\",\"quantization_config\":{\"quant_method\":\"awq\"}",
     "key 'quantization_config': weights quantised by AWQ are not read: use the original weights "
     "(safetensors) or a GGUF file"},
    {"\"model_type\":\"llama\",\"quantization_config\":{\"quant_method\":\"bitsandbytes\"}",
     "key 'quantization_config': weights quantised by bitsandbytes are not read: use the original "
     "weights (safetensors) or a GGUF file"},
    {"\"model_type\":\"llama\",\"quantization_config\":{\"quant_method\":\"fp8\"}",
     "key 'quantization_config': weights quantised by FP8 are not read: use the original weights "
     "(safetensors) or a GGUF file"},
    {"\"model_type\":\"llama\",\"quantization\":{\"bits\":4}",
     "key 'quantization_config': weights quantised by MLX are not read: use the original weights "
     "(safetensors) or a GGUF file"},
};

static void config_files(pc_context *context, const char *folder)
{
    char path[512], text[512];
    snprintf(path, sizeof path, "%s/config.json", folder);
    for (size_t i = 0; i < sizeof configs / sizeof *configs; i++) {
        int size = snprintf(text, sizeof text, "{%s}", configs[i].config);
        pc_test_write(path, text, (size_t)size);
        refuse(context, folder, PC_ERR_UNSUPPORTED, path, configs[i].want);
    }
}

/* A type that the table does not have: the list of what is read. */
static void unknown(pc_context *context, const char *folder)
{
    static const char config[] = "{\"model_type\":\"novelty\"}";
    pc_model *model = NULL;
    char path[512];
    snprintf(path, sizeof path, "%s/config.json", folder);
    pc_test_write(path, config, sizeof config - 1);
    CHECK_STATUS(pc_model_load(&model, context, folder, NULL), PC_ERR_UNSUPPORTED);
    CHECK_ERROR_HAS("key 'model_type': 'novelty' is not supported (llama, mistral, qwen2, ");
    CHECK_ERROR_HAS(" are)");
    CHECK(!strchr(pc_error_text(), '\n'));
    unlink(path);
}

/* ---- GGUF */

static const struct {
    const char *architecture, *type, *want;
} ggufs[] = {
    {"mamba", NULL, "Mamba (general.architecture 'mamba')" RECURRENT},
    {"rwkv6", NULL, "RWKV (general.architecture 'rwkv6')" RECURRENT},
    {"jamba", NULL, "Jamba (general.architecture 'jamba')" HYBRID},
    {"lfm2", NULL,
     "LFM2 (general.architecture 'lfm2') has layers of short convolutions, which keep a state, "
     "between its layers with attention"},
    {"t5", NULL, "T5 (general.architecture 't5')" CROSS},
    {"t5encoder", NULL,
     "T5 (encoder) (general.architecture 't5encoder') adds learned biases by distance to its "
     "scores, which is not implemented for encoders"},
    {"clip", NULL, "CLIP (general.architecture 'clip')" VISION},
    {"whisper", NULL,
     "Whisper (general.architecture 'whisper') works on sound, not on text: an "
     "encoder with a decoder that attends to it"},
    {"flux", NULL,
     "an image generator (general.architecture 'flux') makes pictures or films: it "
     "is not a language model"},
    {"grok", NULL,
     "Grok (general.architecture 'grok') is not implemented: capped scores together "
     "with experts and outer norms"},
    {"chatglm", NULL,
     "ChatGLM (general.architecture 'chatglm') is not implemented: its configuration and names "
     "are its own; GLM-4 in the form of transformers is read"},
    {"baichuan", NULL,
     "Baichuan (general.architecture 'baichuan') is not implemented: a fused Q, "
     "K and V (W_pack), with ALiBi in the larger model"},
    {"xverse", NULL,
     "XVERSE (general.architecture 'xverse') is not implemented: no reader was "
     "written for its configuration"},
    {"llama", "adapter", "the file is an adapter (LoRA) alone: merge it into its model, llama"},
    {"clip", "mmproj",
     "the file is a vision tower (mmproj) alone: give the file of its language "
     "model"},
};

static void gguf_files(pc_context *context, const char *folder)
{
    static gguf_bytes g;
    static const float zeros[16];
    char path[512];
    snprintf(path, sizeof path, "%s/model.gguf", folder);
    for (size_t i = 0; i < sizeof ggufs / sizeof *ggufs; i++) {
        gguf_start(&g, 3);
        gguf_text(&g, "general.architecture", ggufs[i].architecture);
        if (ggufs[i].type)
            gguf_text(&g, "general.type", ggufs[i].type);
        gguf_tensor(&g, "token_embd.weight", 0, 4, 4, zeros, sizeof zeros);
        gguf_end(&g);
        pc_test_write(path, g.data, g.size);
        refuse(context, path, PC_ERR_UNSUPPORTED, path, ggufs[i].want);
    }
}

/* ---- other formats */

#define BYTES(text) text, sizeof(text) - 1

static const struct {
    const char *data;
    size_t size;
    const char *want;
} files[] = {
    {BYTES("PK\3\4\x14\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\7\0\0\0w/a.npy...."),
     "the file has arrays of NumPy (MLX)" PYTORCH},
    {BYTES("PK\3\4\0\0\x08\x08\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x10\0\0\0archive/data.pkl.."),
     "the file has weights of PyTorch" PYTORCH},
    {BYTES("\x80\2\x8a\nl\xfc"), "the file has weights of PyTorch" PYTORCH},
    {BYTES("tjgg\3\0\0\0\0\x7d\0\0"),
     "the file has the old format GGJT of ggml: convert the original to GGUF"},
    {BYTES("lmgg\0\x7d\0\0"), "the file has the old format GGML: convert the original to GGUF"},
    {BYTES("algg\1\0\0\0\x10\0\0\0"),
     "the file is a LoRA adapter in the old format GGLA: merge it into its model"},
    {BYTES("\x89HDF\r\n\x1a\n\0\0\0\0"), "the file has weights of Keras (HDF5)" PYTORCH},
    {BYTES("\x08\x08\x12\x07pytorch\x1a\x05"),
     "the file is a graph of ONNX: " TAKE ", as safetensors or GGUF"},
    {BYTES("\x08\x05\x12\x80\x04\x0a\x16\x0a\x05"),
     "the file is a model of Core ML: " TAKE ", as safetensors or GGUF"},
    {BYTES("ptrt\0\0\0\0\x18\0"), "the file is an engine of TensorRT, made for one GPU: " TAKE},
    {BYTES("\x1c\0\0\0TFL3\x14\0"), "the file is a graph of TensorFlow Lite: " TAKE},
};

static void foreign_files(pc_context *context, const char *folder)
{
    char path[512];
    snprintf(path, sizeof path, "%s/model.bin", folder);
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        pc_test_write(path, files[i].data, files[i].size);
        refuse(context, path, PC_ERR_FORMAT, path, files[i].want);
    }
}

static const struct {
    const char *file, *text, *want;
    int with_config;
} folders[] = {
    {"adapter_config.json",
     "{\"peft_type\":\"LORA\",\"base_model_name_or_path\":\"meta-llama/Llama-3.1-8B\"}",
     "the folder has an adapter (LORA) alone: merge it into its model, meta-llama/Llama-3.1-8B", 0},
    {"model_index.json", "{}",
     "the folder has an image generator (diffusers), not a language model", 0},
    {"Manifest.json", "{}", "the folder has a package of Core ML: " TAKE, 0},
    {"pytorch_model.bin", "x", "the folder has weights of PyTorch (pytorch_model.bin)" PYTORCH, 1},
    {"weights.npz", "x", "the folder has arrays of NumPy (MLX, weights.npz)" PYTORCH, 1},
    {"model.onnx", "x", "the folder has a graph of ONNX: " TAKE ", as safetensors or GGUF", 1},
    {"rank0.engine", "x", "the folder has an engine of TensorRT, made for one GPU: " TAKE, 1},
};

static void foreign_folders(pc_context *context, const char *folder)
{
    static const char llama[] = "{\"model_type\":\"llama\",\"hidden_size\":64,"
                                "\"num_hidden_layers\":1,\"num_attention_heads\":8,"
                                "\"intermediate_size\":96,\"vocab_size\":32,"
                                "\"max_position_embeddings\":64}";
    char file[512], config[512];
    snprintf(config, sizeof config, "%s/config.json", folder);
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
        snprintf(file, sizeof file, "%s/%s", folder, folders[i].file);
        pc_test_write(file, folders[i].text, strlen(folders[i].text));
        if (folders[i].with_config)
            pc_test_write(config, llama, sizeof llama - 1);
        refuse(context, folder, PC_ERR_UNSUPPORTED, folder, folders[i].want);
        unlink(file);
        unlink(config);
    }
}

/* Every type stands in one row, and none with a reason has a reader. */
static void table(void)
{
    size_t count;
    const pc__family *rows = pc__families(&count);
    for (size_t i = 0; i < count; i++) {
        char words[256], *next = words, *type;
        snprintf(words, sizeof words, "%s", rows[i].types);
        while ((type = strsep(&next, " "))) {
            char config[128];
            pc__arch arch;
            CHECK_STR(pc__family_of(type)->types, rows[i].types);
            int size = snprintf(config, sizeof config, "{\"model_type\":\"%s\"}", type);
            pc_status status = pc__arch_from_json(&arch, &pc__libc_allocator, config, (size_t)size,
                                                  "x");
            CHECK(status < 0);
            if (rows[i].reason)
                CHECK_ERROR_HAS(rows[i].reason);
        }
    }
    CHECK(pc__family_of("novelty") == NULL && pc__family_of("mam") == NULL);
}

int main(void)
{
    pc_context *context = NULL;
    char folder[256];
    CHECK_OK(pc_context_new(&context, NULL));
    snprintf(folder, sizeof folder, "%s/model", pc_test_folder());
    CHECK(mkdir(folder, 0700) == 0);
    config_files(context, folder);
    unknown(context, folder);
    gguf_files(context, folder);
    foreign_files(context, folder);
    foreign_folders(context, folder);
    table();
    pc_context_free(context);
    return pc_test_end();
}
