/* Opens a model: finds out what the path is, reads the architecture and the vocabulary, maps the
 * weights. */
#include <promptcache/admin.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "model/load/foreign_files.h"
#include "model/load/latent_join.h"
#include "model/load/llama2c.h"
#include "model/load/load_internal.h"
#include "model/load/quantised_rows.h"
#include "model/load/safetensors.h"
#include "model/load/sentence_config.h"
#include "model/load/unpermute.h"

void pc__close_model(pc__opened_model *o)
{
    if (o->gguf)
        pc__gguf_free(o->gguf);
    else
        pc__weights_free(o->weights);
    pc__arch_clear(o->mem, &o->arch);
    pc__tokenizer_free(o->tokenizer);
}

/* A model can compute without a tokenizer; a vocabulary needs one. */
static pc_status optional_tokenizer(const pc__opened_model *o, pc_status status)
{
    return status == PC_ERR_NOT_FOUND && !o->vocab_only ? PC_OK : status;
}

static int ends_all(pc_status status)
{
    return status == PC_ERR_NOMEM || status == PC_ERR_CANCELLED;
}

/* A description goes on after all that is wrong with a model, and keeps the first text. */
pc_status pc__describe_refusal(pc__opened_model *o, pc_status status)
{
    if (!o->describes || status >= 0 || ends_all(status))
        return status;
    if (o->refusal == PC_OK) {
        o->refusal = status;
        memcpy(o->reason, pc__fail_state()->text, sizeof o->reason);
    }
    return PC_OK;
}

/* A vocabulary-only load goes on without the architecture. */
static pc_status optional_arch(pc__opened_model *o, pc_status status)
{
    o->has_arch = status >= 0;
    return o->vocab_only && !ends_all(status) ? PC_OK : pc__describe_refusal(o, status);
}

/* Between the steps of opening a model, each of which takes a second at most. */
static pc_status next_step(const pc__opened_model *o, const char *what)
{
    return pc__load_tell(&o->progress, what, 0, 0);
}

/* A description of a file whose tensors cannot be read goes on with its keys. */
static pc_status open_gguf_tensors(pc__opened_model *o)
{
    pc_status status = pc__gguf_open(&o->gguf, o->mem, o->path);
    if (status >= 0 || !o->describes)
        return status;
    pc__error_state text = *pc__fail_state();
    pc_status keys = pc__gguf_open_keys(&o->gguf, o->mem, o->path);
    *pc__fail_state() = text;
    return keys < 0 ? status : pc__describe_refusal(o, status);
}

static pc_status open_gguf(pc__opened_model *o)
{
    o->kind = PC_MODEL_FILE_GGUF;
    o->naming = PC__NAMING_GGUF;
    PC__TRY_RETURN(next_step(o, "reading keys"));
    PC__TRY_RETURN(open_gguf_tensors(o));
    o->weights = pc__gguf_weights(o->gguf);
    PC__TRY_RETURN(optional_arch(o, pc__arch_from_gguf(&o->arch, o->mem, o->gguf)));
    PC__TRY_RETURN(next_step(o, "reading the vocabulary"));
    return pc__describe_refusal(
        o, optional_tokenizer(o, pc__gguf_tokenizer(&o->tokenizer, o->mem, o->gguf)));
}

/* What a folder without the files of a model has instead; else `status`, with its text. */
static pc_status explain_missing(const pc__opened_model *o, pc_status status, int has_config)
{
    pc__error_state text = *pc__fail_state();
    pc_status found = status == PC_ERR_NOT_FOUND ? pc__foreign_folder(o->mem, o->path, has_config)
                                                 : PC_OK;
    if (found < 0)
        return found;
    *pc__fail_state() = text;
    return status;
}

static void tie_by_file(pc__opened_model *o)
{
    if (o->has_arch && o->arch.tied_by_file && !pc__weights_find(o->weights, "lm_head.weight")
        && !pc__weights_find(o->weights, "language_model.lm_head.weight"))
        o->arch.tied = 1;
}

static pc_status open_model_folder(pc__opened_model *o)
{
    char *config = pc__path_join(o->mem, o->path, "config.json");
    pc_status status = PC_ERR_NOMEM;
    o->kind = PC_MODEL_FILE_FOLDER;
    o->naming = PC__NAMING_HF;
    if (!config)
        goto done;
    PC__TRY(next_step(o, "reading the configuration"), done);
    status = explain_missing(o, pc__arch_from_config(&o->arch, o->mem, config), 0);
    PC__TRY(optional_arch(o, status), done);
    PC__TRY(next_step(o, "reading the vocabulary"), done);
    status = optional_tokenizer(o, pc__tokenizer_from_folder(&o->tokenizer, o->mem, o->path));
    PC__TRY(pc__describe_refusal(o, status), done);
    if (o->vocab_only)
        goto done;
    status = pc__sentence_config(&o->pooling, o->mem, o->path);
    PC__TRY(pc__describe_refusal(o, status), done);
    PC__TRY(next_step(o, "reading the names of weights"), done);
    status = pc__safetensors_open_folder(&o->weights, o->mem, o->path);
    status = pc__describe_refusal(o, explain_missing(o, status, 1));
    if (status >= 0)
        tie_by_file(o);
done:
    pc__free(o->mem, config);
    return status;
}

static pc_status open_llama2c(pc__opened_model *o)
{
    char *folder = NULL, *vocabulary = NULL;
    pc_status status;
    o->kind = PC_MODEL_FILE_LLAMA2C;
    o->naming = PC__NAMING_HF;
    PC__TRY(next_step(o, "reading the checkpoint"), done);
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

pc_status pc__open_model(pc__opened_model *o)
{
    struct stat st;
    pc__file file = {0};
    if (!stat(o->path, &st) && S_ISDIR(st.st_mode))
        return open_model_folder(o);
    PC__TRY_RETURN(pc__file_map(&file, o->path));
    int is_gguf = file.size >= 4 && !memcmp(file.data, "GGUF", 4);
    const char *what = pc__foreign_file(file.data, file.size);
    pc__file_unmap(&file);
    if (what && !is_gguf)
        return pc__fail(PC_ERR_FORMAT, "%s: %s", o->path, what);
    return is_gguf ? open_gguf(o) : open_llama2c(o);
}

/* The number format of the largest tensor: most of the model is like it. 0: another one. */
static uint32_t dtype_of(const pc__weights *weights)
{
    const pc__tensor *largest = NULL;
    for (size_t i = 0; i < pc__weights_count(weights); i++) {
        const pc__tensor *tensor = pc__weights_at(weights, i);
        if (!largest || tensor->bytes > largest->bytes)
            largest = tensor;
    }
    pc__ttype type = largest ? largest->type : PC__T_F16;
    return type == PC__T_F32    ? PC_DTYPE_F32
           : type == PC__T_F16  ? PC_DTYPE_F16
           : type == PC__T_BF16 ? PC_DTYPE_BF16
                                : 0;
}

uint32_t pc__quantised_input_bits(const pc__backend *backend, const pc__weights *weights,
                                  const pc_model_options *options)
{
    const uint32_t asked = options->compute;
    if (asked != PC_DTYPE_I8 && asked != PC_DTYPE_I16
        && (asked != PC_DTYPE_DEFAULT || !backend->ops->keeps_quantised(backend)))
        return 0;
    for (size_t i = 0; i < pc__weights_count(weights); i++)
        if (pc__ttype_quantised(pc__weights_at(weights, i)->type).bits)
            return asked == PC_DTYPE_I16 ? 16 : 8;
    return 0;
}

/* Progress of binding. What was packed is not needed in the mapped files again: a model takes the
 * memory of its packed weights, and of one layer of the files while it is loaded. */
typedef struct bind_progress {
    const pc__weights *weights;
    const pc__load_progress *reports;
} bind_progress;

static int32_t release_packed(void *user, const char *what, uint64_t done, uint64_t total)
{
    const bind_progress *p = user;
    pc__weights_release(p->weights);
    return p->reports->call ? p->reports->call(p->reports->user, what, done, total) : 0;
}

pc_status pc__bind_model(pc__opened_model *o, pc_context *context, pc__backend *backend,
                         const pc_model_options *options, uint32_t input_bits,
                         struct pc__packed *packed, pc__native **out)
{
    bind_progress progress = {o->weights, &o->progress};
    pc__bind_options how = {pc__choose_compute(context, options->compute, dtype_of(o->weights)),
                            options->kv,
                            input_bits,
                            release_packed,
                            &progress,
                            backend,
                            packed};
    pc__arch arch;
    pc__tensor_names names;
    pc__unpermute unpermute;
    pc__latent_join join;
    pc__weight_provider provider, original;
    PC__TRY_RETURN(pc__tensor_names_open(&names, o->weights, &o->arch, o->naming));
    pc__tensor_names_provider(&names, &provider);
    if (o->arch.tied && pc__tensor_names_own_head(&names))
        o->arch.tied = 0;
    arch = o->arch; /* binding takes its allocations; the names keep reading the rest */
    o->arch.rope.short_factors = o->arch.rope.long_factors = NULL;
    if (arch.latent.rank && pc__tensor_names_has(&names, PC__ROLE_K_B, 0)) {
        original = provider;
        pc__latent_join_provider(&join, &original, &arch, &provider);
    }
    if (pc__is_permuted(&arch)) {
        original = provider;
        pc__unpermute_provider(&unpermute, o->mem, &original, &arch, &provider);
        arch.rope.interleaved = arch.local_rope.interleaved = 0;
    }
    PC__TRY_RETURN(pc__native_bind(out, context, &arch, &provider, &how));
    (*out)->pooling = o->pooling;
    return PC_OK;
}
