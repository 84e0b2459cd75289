/* pc_model_load: finds out what the path is, reads the architecture, binds the weights, closes the
 * file. */
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "model/load/arch.h"
#include "model/load/gguf.h"
#include "model/load/llama2c.h"
#include "model/load/load.h"
#include "model/load/quantised_rows.h"
#include "model/load/safetensors.h"
#include "model/load/sentence_config.h"
#include "model/load/tensor_names.h"
#include "model/load/unpermute.h"

/* An open model file or folder. */
typedef struct opened_model {
    const pc_allocator *mem;
    const char *path;
    int vocab_only;
    pc__tensor_naming naming;
    pc__gguf *gguf;       /* owns the weights if set */
    pc__weights *weights; /* NULL: vocabulary only */
    pc__arch arch;
    int has_arch;
    pc__tokenizer *tokenizer; /* NULL: none */
    pc__pooling pooling;
} opened_model;

static void close_file(opened_model *o)
{
    if (o->gguf)
        pc__gguf_free(o->gguf);
    else
        pc__weights_free(o->weights);
    pc__arch_clear(o->mem, &o->arch);
    pc__tokenizer_free(o->tokenizer);
}

/* A model can compute without a tokenizer; a vocabulary needs one. */
static pc_status optional_tokenizer(const opened_model *o, pc_status status)
{
    return status == PC_ERR_NOT_FOUND && !o->vocab_only ? PC_OK : status;
}

/* A vocabulary-only load goes on without the architecture; only lack of memory stops it. */
static pc_status optional_arch(opened_model *o, pc_status status)
{
    o->has_arch = status >= 0;
    return o->vocab_only && status != PC_ERR_NOMEM ? PC_OK : status;
}

static pc_status open_gguf(opened_model *o)
{
    o->naming = PC__NAMING_GGUF;
    PC__TRY_RETURN(pc__gguf_open(&o->gguf, o->mem, o->path));
    o->weights = pc__gguf_weights(o->gguf);
    PC__TRY_RETURN(optional_arch(o, pc__arch_from_gguf(&o->arch, o->mem, o->gguf)));
    return optional_tokenizer(o, pc__gguf_tokenizer(&o->tokenizer, o->mem, o->gguf));
}

static pc_status open_model_folder(opened_model *o)
{
    char *config = pc__path_join(o->mem, o->path, "config.json");
    pc_status status = PC_ERR_NOMEM;
    o->naming = PC__NAMING_HF;
    if (!config)
        goto done;
    PC__TRY(optional_arch(o, pc__arch_from_config(&o->arch, o->mem, config)), done);
    PC__TRY(optional_tokenizer(o, pc__tokenizer_from_folder(&o->tokenizer, o->mem, o->path)), done);
    if (o->vocab_only)
        goto done;
    PC__TRY(pc__sentence_config(&o->pooling, o->mem, o->path), done);
    status = pc__safetensors_open_folder(&o->weights, o->mem, o->path);
done:
    pc__free(o->mem, config);
    return status;
}

static pc_status open_llama2c(opened_model *o)
{
    char *folder = NULL, *vocabulary = NULL;
    pc_status status;
    o->naming = PC__NAMING_HF;
    PC__TRY(pc__llama2c_open(&o->weights, &o->arch, o->mem, o->path), done);
    o->has_arch = 1;
    status = PC_ERR_NOMEM;
    folder = pc__path_folder(o->mem, o->path);
    vocabulary = folder ? pc__path_join(o->mem, folder, "tokenizer.bin") : NULL;
    if (!vocabulary)
        goto done;
    status = PC_OK;
    if (!access(vocabulary, R_OK))
        status = pc__tokenizer_from_llama2c(&o->tokenizer, o->mem, vocabulary,
                                            (size_t)o->arch.vocab);
    else if (o->vocab_only)
        status = pc__fail(PC_ERR_NOT_FOUND, "%s: tokenizer.bin is missing in its folder", o->path);
done:
    pc__free(o->mem, folder);
    pc__free(o->mem, vocabulary);
    return status;
}

/* Whether the first bytes may be ASCII or UTF-8 text. */
static int is_text(const uint8_t *data, size_t size)
{
    for (size_t i = 0; i < size && i < 1024; i++)
        if (data[i] == 127 || data[i] > 0xf7
            || (data[i] < 32 && (data[i] < '\t' || data[i] > '\r')))
            return 0;
    return 1;
}

static int file_begins(const pc__file *file, const void *with, size_t size)
{
    return file->size >= size && !memcmp(file->data, with, size);
}

/* Names files that are often mistaken for models; NULL: it may be one. Checkpoints of llama2.c
 * begin with small numbers, so with zeros among the first bytes. */
static const char *no_model(const pc__file *file)
{
    static const char pointer[] = "version https://git-lfs.";
    if (!file->size)
        return "the file is empty";
    if (file_begins(file, pointer, sizeof pointer - 1))
        return "the file is a pointer of Git LFS: fetch the file itself (git lfs pull)";
    if (file_begins(file, "PK\3\4", 4) || file_begins(file, "\x80\2", 2))
        return "the file has weights of PyTorch: convert them to safetensors, in a folder with "
               "config.json";
    if (file->size > 9 && !memcmp(file->data + 4, "\0\0\0\0{\"", 6))
        return "the file is one of safetensors: give its folder, with config.json";
    return is_text(file->data, file->size) ? "the file is text, not a model" : NULL;
}

static pc_status open_any(opened_model *o)
{
    struct stat st;
    pc__file file = {0};
    if (!stat(o->path, &st) && S_ISDIR(st.st_mode))
        return open_model_folder(o);
    PC__TRY_RETURN(pc__file_map(&file, o->path));
    int is_gguf = file_begins(&file, "GGUF", 4);
    const char *what = no_model(&file);
    pc__file_unmap(&file);
    if (what && !is_gguf)
        return pc__fail(PC_ERR_FORMAT, "%s: %s", o->path, what);
    return is_gguf ? open_gguf(o) : open_llama2c(o);
}

/* Whether the largest tensor is fp32: most of the model is like it. */
static int is_f32(const pc__weights *weights)
{
    const pc__tensor *largest = NULL;
    for (size_t i = 0; i < pc__weights_count(weights); i++) {
        const pc__tensor *tensor = pc__weights_at(weights, i);
        if (!largest || tensor->bytes > largest->bytes)
            largest = tensor;
    }
    return largest && largest->type == PC__T_F32;
}

/* Bits of the inputs of quantised matrices, 16 or 8; 0: no matrix stays quantised. They do unless
 * the caller asks for a number format. */
static uint32_t quantised_input_bits(const pc__backend *backend, const pc__weights *weights,
                                     const pc_model_options *options)
{
    int narrow = options->compute == PC_DTYPE_I8;
    if (!narrow
        && (options->compute != PC_DTYPE_DEFAULT || !backend->ops->keeps_quantised(backend)))
        return 0;
    for (size_t i = 0; i < pc__weights_count(weights); i++)
        if (pc__ttype_quantised(pc__weights_at(weights, i)->type).bits)
            return narrow ? 8 : 16;
    return 0;
}

/* Expanded and quantised weights, with inputs of 16 and of 8 bits, round differently: their states
 * are not interchangeable. */
static pc__id quantised_fingerprint(pc__id fingerprint, uint32_t bits)
{
    pc__digest digest;
    pc__digest_start(&digest, bits == 8 ? "on-grid-8/1" : "on-grid/1");
    pc__digest_bytes(&digest, fingerprint.bytes, sizeof fingerprint.bytes);
    return pc__digest_end(&digest);
}

static pc_status bind_file(opened_model *o, const pc_model_options *options, uint32_t input_bits,
                           pc_model *model)
{
    pc__bind_options how = {pc__choose_compute(options->compute, is_f32(o->weights)), options->kv,
                            input_bits, options->progress, options->progress_user};
    pc__arch arch;
    pc__tensor_names names;
    pc__unpermute unpermute;
    pc__weight_provider provider, original;
    PC__TRY_RETURN(pc__tensor_names_open(&names, o->weights, &o->arch, o->naming));
    pc__tensor_names_provider(&names, &provider);
    arch = o->arch; /* binding takes its allocations; the names keep reading the rest */
    o->arch.rope.short_factors = o->arch.rope.long_factors = NULL;
    if (o->naming == PC__NAMING_GGUF && pc__is_permuted(&arch)) {
        original = provider;
        pc__unpermute_provider(&unpermute, o->mem, &original, &arch, &provider);
        arch.rope.interleaved = 0;
    }
    PC__TRY_RETURN(pc__native_bind(&model->native, model->context, &arch, &provider, &how));
    model->native->pooling = o->pooling;
    return PC_OK;
}

pc_status pc_model_load(pc_model **out, pc_context *context, const char *path,
                        const pc_model_options *options)
{
    pc_model_options settings;
    pc_model *model = NULL;
    opened_model o = {.path = path};
    pc__id fingerprint = {{0}};
    pc_status status;
    if (!out)
        return pc__fail(PC_ERR_INVALID, "pc_model_load: out is NULL");
    *out = NULL;
    if (!context || !path)
        return pc__fail(PC_ERR_INVALID, "pc_model_load: context or path is NULL");
    o.mem = &context->mem;
    PC__TRY(pc__model_options(&settings, options), done);
    o.vocab_only = (settings.flags & PC_MODEL_VOCAB_ONLY) != 0;
    PC__TRY(open_any(&o), done);
    PC__TRY(pc__model_new(&model, context), done);
    if (!o.vocab_only) {
        PC__TRY(pc__weights_digest(o.weights, context, &fingerprint), done);
        uint32_t input_bits = quantised_input_bits(pc__backend_of(context), o.weights, &settings);
        fingerprint = pc__model_fingerprint(&o.arch, fingerprint);
        if (input_bits)
            fingerprint = quantised_fingerprint(fingerprint, input_bits);
        PC__TRY(bind_file(&o, &settings, input_bits, model), done);
    }
    model->tokenizer = o.tokenizer;
    o.tokenizer = NULL;
    PC__TRY(
        pc__model_finish(model, o.has_arch ? &o.arch : NULL, &fingerprint, settings.chat_template),
        done);
    *out = model;
    model = NULL;
done:
    pc__model_unref(model);
    close_file(&o);
    return status;
}
