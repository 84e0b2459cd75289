/* Catches: files taken for another kind, weights with NaN, pc_model_info that differs from the
 * file, a vocabulary that pretends to compute, lost chat templates, leaks or half-loaded models
 * when memory runs out, or when the application cancels a load at any of its steps; steps that do
 * not ask it. */
#include "model/load/load.h"

#include <promptcache/admin.h>
#include <promptcache/bench.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "counted_context.h"

static pc_status load(pc_model **out, pc_context *context, const char *path, uint64_t flags,
                      uint32_t compute)
{
    pc_model_options options = PC_MODEL_OPTIONS_INIT;
    options.flags = flags;
    options.compute = compute;
    return pc_model_load(out, context, path, &options);
}

static void arguments(pc_context *context)
{
    pc_model *model = (pc_model *)context;
    pc_model_options options = PC_MODEL_OPTIONS_INIT;
    CHECK_STATUS(pc_model_load(NULL, context, "x", NULL), PC_ERR_INVALID);
    CHECK_STATUS(pc_model_load(&model, context, NULL, NULL), PC_ERR_INVALID);
    CHECK(!model);
    CHECK_STATUS(pc_model_load(&model, context, "/nonexistent/model.gguf", NULL), PC_ERR_NOT_FOUND);
    CHECK_ERROR_HAS("/nonexistent/model.gguf");
    options.flags = UINT64_C(1) << 33;
    CHECK_STATUS(pc_model_load(&model, context, "x", &options), PC_ERR_INVALID);
    options.flags = 0;
    options.compute = PC_DTYPE_F16;
    CHECK_STATUS(pc_model_load(&model, context, "x", &options), PC_ERR_UNSUPPORTED);
    options.compute = 0;
    options.kv = PC_DTYPE_I16 + 1;
    CHECK_STATUS(pc_model_new_shape(&model, context, "llama-1b", 0, &options), PC_ERR_INVALID);
    CHECK_ERROR_HAS("kv is 6");
    CHECK_STATUS(pc_model_new_shape(&model, context, "no-such-shape", 0, NULL), PC_ERR_NOT_FOUND);
    CHECK_ERROR_HAS("llama-1b");
    CHECK(!model);
}

static void no_models(pc_context *context)
{
    char path[256];
    pc_model *model = NULL;
    snprintf(path, sizeof path, "%s/noise.bin", pc_test_folder());
    pc_test_write(path, "this is no model", 16);
    CHECK_STATUS(pc_model_load(&model, context, path, NULL), PC_ERR_FORMAT);
    pc_test_write(path, "", 0);
    CHECK_STATUS(pc_model_load(&model, context, path, NULL), PC_ERR_FORMAT);
    pc_test_write(path, "GGUF", 4);
    CHECK_STATUS(pc_model_load(&model, context, path, NULL), PC_ERR_FORMAT);
    CHECK_STATUS(pc_model_load(&model, context, pc_test_folder(), NULL), PC_ERR_NOT_FOUND);
    CHECK_ERROR_HAS("config.json");
    CHECK(!model);
}

static void compute_dtype(const pc_context *context)
{
    static const uint32_t weights[] = {PC_DTYPE_F32, PC_DTYPE_BF16, PC_DTYPE_F16, 0};
    uint32_t halves = pc__choose_compute(context, PC_DTYPE_DEFAULT, PC_DTYPE_BF16);
    CHECK(halves == PC_DTYPE_F32 || halves == PC_DTYPE_BF16);
    CHECK_INT(pc__choose_compute(context, PC_DTYPE_DEFAULT, PC_DTYPE_F32), PC_DTYPE_F32);
    CHECK_INT(pc__choose_compute(context, PC_DTYPE_DEFAULT, PC_DTYPE_F16), halves);
    CHECK_INT(pc__choose_compute(context, PC_DTYPE_DEFAULT, 0), halves);
    CHECK_INT(pc__choose_compute(context, PC_DTYPE_I8, 0), halves);
    for (size_t i = 0; i < 4; i++) {
        CHECK_INT(pc__choose_compute(context, PC_DTYPE_F32, weights[i]), PC_DTYPE_F32);
        CHECK_INT(pc__choose_compute(context, PC_DTYPE_BF16, weights[i]), PC_DTYPE_BF16);
    }
}

/* A file with other RoPE settings is another model; loading a file twice gives the same
 * fingerprint. */
static void information(pc_context *context)
{
    const char *path = pc_test_data("golden/llama_gqa"), *other = pc_test_data("golden/llama_mha");
    pc_model_info a = PC_MODEL_INFO_INIT, b = PC_MODEL_INFO_INIT;
    pc_model *model = NULL;
    for (int i = 0; i < 3; i++) {
        if (!CHECK_OK(load(&model, context, i < 2 ? path : other, 0, PC_DTYPE_F32)))
            return;
        CHECK_OK(pc_model_get_info(model, i ? &b : &a));
        if (i == 1)
            CHECK(!memcmp(a.fingerprint, b.fingerprint, sizeof a.fingerprint));
        CHECK_STATUS(pc_tokenize(model, "a", 1, 0, NULL, 0, &(size_t){0}), PC_ERR_UNSUPPORTED);
        pc_model_free(model);
    }
    CHECK(memcmp(a.fingerprint, b.fingerprint, sizeof a.fingerprint) != 0);
    CHECK_STR(a.architecture, "llama");
    CHECK_INT(a.layers, 3);
    CHECK_INT(a.heads, 4);
    CHECK_INT(a.kv_heads, 2);
    CHECK_INT(a.head_dim, 16);
    CHECK_INT(a.hidden, 64);
    CHECK_INT(a.vocab, 320);
    CHECK_INT(a.position_scheme, PC_POSITION_ROPE);
    CHECK_INT(a.relocatable, 1);
    CHECK_INT(a.compute, PC_DTYPE_F32);
    CHECK_INT(a.kv_bytes_per_token, 3 * 2 * 2 * 16 * 4);
    CHECK_INT(a.token_bos, 1);
    CHECK_INT(a.token_eos, 2);
    CHECK(a.weight_bytes > 100000);
}

static void vocabulary(pc_context *context)
{
    const char *path = pc_test_data("data/ggml-vocab/ggml-vocab-llama-spm.gguf");
    pc_model *model = NULL;
    pc_model_info info = PC_MODEL_INFO_INIT;
    size_t count = 0;
    if (!path || !CHECK_OK(load(&model, context, path, PC_MODEL_VOCAB_ONLY, 0)))
        return;
    CHECK_OK(pc_model_get_info(model, &info));
    CHECK_INT(info.vocab, 32000);
    CHECK_INT(info.weight_bytes, 0);
    CHECK_OK(pc_tokenize(model, "Hello", 5, 0, NULL, 0, &count));
    CHECK_INT(count, 1);
    CHECK_STATUS(pc__model_can_compute(model), PC_ERR_UNSUPPORTED);
    CHECK(model->chat != NULL);
    pc_model_free(model);
    CHECK_STATUS(load(&model, context, pc_test_data("golden/llama_gqa"), PC_MODEL_VOCAB_ONLY, 0),
                 PC_ERR_NOT_FOUND);
}

static void copy(const char *from, const char *to, int spoil)
{
    size_t size;
    char *data = pc_test_read(from, &size);
    if (spoil)
        memcpy(data + size - 64, "\0\0\xc0\x7f", 4); /* a quiet NaN in the last tensor */
    pc_test_write(to, data, size);
    free(data);
}

static void not_a_number(pc_context *context)
{
    char path[256], from[512];
    pc_model *model = NULL;
    snprintf(from, sizeof from, "%s/config.json", pc_test_data("golden/llama_mha"));
    snprintf(path, sizeof path, "%s/config.json", pc_test_folder());
    copy(from, path, 0);
    snprintf(from, sizeof from, "%s/model.safetensors", pc_test_data("golden/llama_mha"));
    snprintf(path, sizeof path, "%s/model.safetensors", pc_test_folder());
    copy(from, path, 1);
    CHECK_STATUS(load(&model, context, pc_test_folder(), 0, PC_DTYPE_F32), PC_ERR_FORMAT);
    CHECK_ERROR_HAS("model.");
    CHECK(!model);
}

static void out_of_memory(const char *path)
{
    pc_status status = PC_ERR_NOMEM;
    for (uint64_t at = 1; status == PC_ERR_NOMEM && at < 20000; at++) {
        pc_test_memory memory = {0};
        pc_context *context = pc_test_counted_context(&memory, 1);
        pc_model *model = NULL;
        memory.fail_at = memory.calls + at;
        status = load(&model, context, path, 0, PC_DTYPE_F32);
        CHECK((status >= 0) == (model != NULL));
        pc_model_free(model);
        pc_context_free(context);
        if (!CHECK_INT(memory.live_blocks, 0))
            break;
    }
    CHECK_OK(status);
}

/* Asks for an end at one call of progress. */
typedef struct stopping {
    pthread_t thread;
    size_t calls, stop_at; /* from 1; 0: never */
    int checks, loads, vocabularies;
    int is_late; /* asked when all weights were loaded: the end is not taken */
} stopping;

static int32_t count_call(void *user, const char *what, uint64_t done, uint64_t total)
{
    stopping *s = user;
    CHECK(pthread_equal(s->thread, pthread_self()) && done <= total);
    s->checks += !strcmp(what, "checking weights");
    s->loads += !strcmp(what, "loading weights");
    s->vocabularies += !strcmp(what, "reading the vocabulary");
    if (++s->calls != s->stop_at)
        return 0;
    s->is_late = !strcmp(what, "loading weights") && done == total;
    return 1;
}

static pc_status open_counted(pc_context *context, const char *path, stopping *s, int describe)
{
    pc_model_options options = PC_MODEL_OPTIONS_INIT;
    pc_model *model = NULL;
    pc_model_file *file = NULL;
    options.progress = count_call;
    options.progress_user = s;
    pc_status status = describe ? pc_model_file_open(&file, context, path, &options)
                                : pc_model_load(&model, context, path, &options);
    CHECK((status >= 0) == (model || file));
    pc_model_free(model);
    pc_model_file_free(file);
    return status;
}

static void cancelled(const char *path)
{
    for (int describe = 0; describe < 2; describe++) {
        stopping all = {.thread = pthread_self()};
        pc_test_memory memory = {0};
        pc_context *context = pc_test_counted_context(&memory, 1);
        int64_t blocks = memory.live_blocks;
        CHECK_OK(open_counted(context, path, &all, describe));
        CHECK(all.calls > 4 && all.loads > 1 && all.vocabularies == 1
              && all.checks > (describe ? -1 : 1));
        for (size_t i = 1; i <= all.calls; i++) {
            stopping s = {.thread = pthread_self(), .stop_at = i};
            pc_status status = open_counted(context, path, &s, describe);
            CHECK_STATUS(status, s.is_late ? PC_OK : PC_ERR_CANCELLED);
            if (!s.is_late) {
                CHECK_INT(s.calls, i);
                CHECK_ERROR_HAS("cancelled while");
            }
            CHECK_INT(memory.live_blocks, blocks);
        }
        pc_context_free(context);
    }
}

int main(void)
{
    pc_context *context = NULL;
    CHECK_OK(pc_context_new(&context, NULL));
    arguments(context);
    compute_dtype(context);
    no_models(context);
    information(context);
    vocabulary(context);
    cancelled(pc_test_data("golden/llama_gqa"));
    cancelled(PC_SOURCE_DIR "/models/demo/demo.gguf");
    not_a_number(context);
    out_of_memory(pc_test_data("golden/llama_gqa"));
    out_of_memory(pc_test_data("golden/phi3_longrope_long"));
    if (pc_test_data("data/stories260k"))
        out_of_memory(pc_test_data("data/stories260k/checkpoint_v1.bin"));
    pc_context_free(context);
    return pc_test_end();
}
