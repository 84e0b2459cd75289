/* Catches: a description of a model that differs from the loaded model: sizes, bytes of weights and
 * of K and V, what stays quantised; a description that reads weights, or fails where loading does
 * not, or says nothing of a model that is refused; leaks when memory runs out. */
#include <promptcache/admin.h>
#include <stdlib.h>
#include <string.h>

#include "counted_context.h"
#include "gguf_bytes.h"
#include "golden_models.h"

typedef struct described {
    pc_model_file *file;
    pc_model_file_info info;
    pc_model_info model;
} described;

static int describe(described *d, pc_context *context, const char *path,
                    const pc_model_options *options)
{
    d->info = (pc_model_file_info)PC_MODEL_FILE_INFO_INIT;
    d->model = (pc_model_info)PC_MODEL_INFO_INIT;
    if (!CHECK_OK(pc_model_file_open(&d->file, context, path, options)))
        return 0;
    CHECK_OK(pc_model_file_get_info(d->file, &d->info));
    return CHECK_OK(pc_model_get_info(pc_model_file_model(d->file), &d->model));
}

static int near(uint64_t got, uint64_t want)
{
    double least = (double)want * 0.98, most = (double)want * 1.02;
    return (double)got >= least && (double)got <= most;
}

/* All fields but the fingerprint; bytes of weights within 2 %. */
static void compare(const char *path, const pc_model_info *got, const pc_model_info *want)
{
    pc_model_info a = *got, b = *want;
    CHECK(near(a.weight_bytes, b.weight_bytes) && near(a.expert_bytes, b.expert_bytes)
          && near(a.token_bytes, b.token_bytes) && near(a.head_bytes, b.head_bytes));
    a.weight_bytes = b.weight_bytes;
    a.expert_bytes = b.expert_bytes;
    a.token_bytes = b.token_bytes;
    a.head_bytes = b.head_bytes;
    memcpy(a.fingerprint, b.fingerprint, sizeof a.fingerprint);
    if (!CHECK(!memcmp(&a, &b, sizeof a)))
        printf("%s\n", path);
}

static void like_loaded(pc_context *context, const char *path, uint32_t compute, uint32_t kv)
{
    pc_model_options options = PC_MODEL_OPTIONS_INIT;
    pc_model_info info = PC_MODEL_INFO_INIT;
    pc_model *model = NULL;
    described d;
    options.compute = compute;
    options.kv = kv;
    if (!path || !describe(&d, context, path, &options))
        return;
    pc_status status = pc_model_load(&model, context, path, &options);
    CHECK_INT(d.info.refusal, status);
    if (status >= 0) {
        CHECK_STR(d.info.reason, "");
        CHECK_OK(pc_model_get_info(model, &info));
        compare(path, &d.model, &info);
        CHECK_INT(d.info.kv_bytes[0], info.kv_bytes_per_token);
        CHECK_INT(d.info.kv_bytes[kv ? kv : info.compute], info.kv_bytes_per_token);
        CHECK(!*d.info.fixed == (info.relocatable == 1));
    } else {
        CHECK_STR(d.info.reason, pc_error_text());
    }
    pc_model_free(model);
    pc_model_file_free(d.file);
}

static void golden(pc_context *context)
{
    static const char *const encoders[] = {"bert", "roberta", "deberta", "deberta_v2_conv"};
    static const char *const ggufs[] = {"llama-f16",    "llama-q4_0", "llama-q8_0",
                                        "llama-q4_k_m", "llama-q6_k", "llama-iq4_xs"};
    char path[128];
    for (size_t i = 0; i < GOLDEN_MODELS; i++) {
        snprintf(path, sizeof path, "golden/%s", golden_models[i]);
        for (uint32_t kv = 0; kv <= PC_DTYPE_I8; kv++)
            like_loaded(context, pc_test_data(path), kv & 1 ? PC_DTYPE_BF16 : PC_DTYPE_F32, kv);
    }
    for (size_t i = 0; i < sizeof encoders / sizeof *encoders; i++) {
        snprintf(path, sizeof path, "golden/%s", encoders[i]);
        like_loaded(context, pc_test_data(path), 0, 0);
    }
    for (size_t i = 0; i < sizeof ggufs / sizeof *ggufs; i++) {
        snprintf(path, sizeof path, "golden/gguf/%s.gguf", ggufs[i]);
        like_loaded(context, pc_test_data(path), 0, 0);
        like_loaded(context, pc_test_data(path), PC_DTYPE_I8, PC_DTYPE_I8);
        like_loaded(context, pc_test_data(path), PC_DTYPE_F32, 0);
    }
    like_loaded(context, pc_test_data("data/stories260k/checkpoint_v1.bin"), 0, 0);
}

/* Values that are known from the folder's own files. */
static void facts(pc_context *context)
{
    described d;
    pc_model_options options = PC_MODEL_OPTIONS_INIT;
    pc_model_file_type type = PC_MODEL_FILE_TYPE_INIT;
    if (!describe(&d, context, pc_test_data("golden/llama_rope_yarn"), NULL))
        return;
    CHECK_INT(d.info.kind, PC_MODEL_FILE_FOLDER);
    CHECK_STR(d.info.family, "Llama");
    CHECK_STR(d.info.rope_scaling, "yarn");
    CHECK(d.info.rope_factor == 4 && d.info.rope_length == 32 && d.info.rope_dims == 16);
    CHECK_STR(d.info.fixed, "");
    CHECK_STR(d.info.tokenizer, "");
    CHECK_STR(d.info.chat, "");
    CHECK(*d.info.chat_reason && !d.info.system_role);
    CHECK_INT(pc_model_file_type_count(d.file), 1);
    CHECK_OK(pc_model_file_get_type(d.file, 0, &type));
    CHECK_STR(type.name, "F32");
    CHECK(type.tensors == d.info.tensors && type.parameters == d.info.parameters
          && type.bytes == 4 * type.parameters && !type.kept);
    CHECK(d.info.file_bytes > type.bytes && d.info.file_bytes < type.bytes + 100000);
    CHECK_STATUS(pc_model_file_get_type(d.file, 1, &type), PC_ERR_NOT_FOUND);
    pc_model_file_free(d.file);
    options.compute = PC_DTYPE_F32;
    if (describe(&d, context, pc_test_data("golden/gguf/llama-f16.gguf"), &options)) {
        CHECK_OK(pc_model_file_get_type(d.file, 0, &type));
        CHECK_STR(type.name, "F16"); /* kept in 16 bits, or expanded to 32 */
        CHECK_INT(type.kept, 2 * d.model.weight_bytes < 3 * d.info.file_bytes);
    }
    pc_model_file_free(d.file);
    if (describe(&d, context, pc_test_data("golden/gpt2"), NULL)) {
        CHECK(strstr(d.info.fixed, "learned positions") != NULL);
        CHECK_STR(d.info.rope_scaling, "");
    }
    pc_model_file_free(d.file);
    if (describe(&d, context, pc_test_data("golden/mistral_swa"), NULL))
        CHECK(d.info.window == 20 && d.info.window_layers == 2);
    pc_model_file_free(d.file);
    if (describe(&d, context, pc_test_data("golden/deepseek_v1"), NULL))
        CHECK(d.info.expert_layers == 2 && d.model.experts == 8 && d.model.experts_used == 3);
    pc_model_file_free(d.file);
}

/* A refused model: its family, its sizes, and the text that loading gives. */
static void refused(pc_context *context)
{
    static gguf_bytes g;
    static const float zeros[64];
    pc_model *model = NULL;
    described d;
    gguf_start(&g, 3);
    gguf_text(&g, "general.architecture", "mamba");
    gguf_u32(&g, "mamba.block_count", 48);
    gguf_u32(&g, "mamba.embedding_length", 1024);
    gguf_tensor(&g, "token_embd.weight", 0, 8, 8, zeros, sizeof zeros);
    gguf_end(&g);
    if (!describe(&d, context, gguf_file(&g), NULL))
        return;
    CHECK_STATUS(pc_model_load(&model, context, gguf_file(&g), NULL), d.info.refusal);
    CHECK_STR(d.info.reason, pc_error_text());
    CHECK_STR(d.info.family, "Mamba");
    CHECK_STR(d.model.architecture, "mamba");
    CHECK(d.model.layers == 48 && d.model.hidden == 1024 && !d.model.relocatable);
    CHECK_INT(d.info.parameters, 64);
    CHECK_INT(d.model.weight_bytes, 0);
    pc_model_file_free(d.file);
}

/* Files whose tensors cannot be read: their keys are known all the same. */
static void unreadable(pc_context *context)
{
    static gguf_bytes g;
    static const float zeros[64];
    static const char *const reasons[] = {"type IQ2_XXS", "is split into 2 files"};
    described d;
    for (uint32_t split = 0; split < 2; split++) {
        gguf_start(&g, 3);
        gguf_text(&g, "general.architecture", "llama");
        gguf_u32(&g, "llama.block_count", 32);
        if (split)
            gguf_u32(&g, "split.count", 2);
        gguf_tensor(&g, "token_embd.weight", split ? 0 : 16, 8, 8, zeros, sizeof zeros);
        gguf_end(&g);
        if (!describe(&d, context, gguf_file(&g), NULL))
            return;
        CHECK(d.info.refusal < 0 && strstr(d.info.reason, reasons[split]));
        CHECK_STR(d.info.family, "Llama");
        CHECK(d.model.layers == 32 && d.info.file_bytes == g.size && !d.info.tensors);
        pc_model_file_free(d.file);
    }
}

static void arguments(pc_context *context)
{
    pc_model_file *file = (pc_model_file *)context;
    pc_model_options options = PC_MODEL_OPTIONS_INIT;
    pc_model_file_info info = PC_MODEL_FILE_INFO_INIT;
    CHECK_STATUS(pc_model_file_open(NULL, context, "x", NULL), PC_ERR_INVALID);
    CHECK_STATUS(pc_model_file_open(&file, context, NULL, NULL), PC_ERR_INVALID);
    CHECK(!file);
    CHECK_STATUS(pc_model_file_open(&file, context, "/nonexistent", NULL), PC_ERR_NOT_FOUND);
    CHECK_ERROR_HAS("/nonexistent");
    CHECK_STATUS(pc_model_file_open(&file, context, pc_test_folder(), NULL), PC_ERR_NOT_FOUND);
    CHECK_ERROR_HAS("config.json");
    options.flags = PC_MODEL_VOCAB_ONLY;
    CHECK_STATUS(pc_model_file_open(&file, context, "x", &options), PC_ERR_INVALID);
    CHECK_STATUS(pc_model_file_get_info(NULL, &info), PC_ERR_INVALID);
    CHECK(!file && !pc_model_file_model(NULL) && !pc_model_file_type_count(NULL));
    pc_model_file_free(NULL);
}

static void out_of_memory(const char *path)
{
    pc_status status = PC_ERR_NOMEM;
    for (uint64_t at = 1; status == PC_ERR_NOMEM && at < 20000; at++) {
        pc_test_memory memory = {0};
        pc_context *context = pc_test_counted_context(&memory, 1);
        pc_model_file *file = NULL;
        memory.fail_at = memory.calls + at;
        status = pc_model_file_open(&file, context, path, NULL);
        CHECK((status >= 0) == (file != NULL));
        pc_model_file_free(file);
        pc_context_free(context);
        if (!CHECK_INT(memory.live_blocks, 0))
            break;
    }
    CHECK_OK(status);
}

int main(void)
{
    pc_context *context = NULL;
    setenv("PC_LINEAR", "own", 1); /* oneDNN pads layers that are as small as these */
    CHECK_OK(pc_context_new(&context, NULL));
    arguments(context);
    refused(context);
    unreadable(context);
    golden(context);
    facts(context);
    out_of_memory(pc_test_data("golden/llama_gqa"));
    out_of_memory(pc_test_data("golden/phi3_longrope_long"));
    out_of_memory(pc_test_data("golden/deberta_v2_conv"));
    if (pc_test_data("data/stories260k"))
        out_of_memory(pc_test_data("data/stories260k/checkpoint_v1.bin"));
    pc_context_free(context);
    return pc_test_end();
}
