/* pc_model_file: what a model is, without its weights. It is opened as for loading and bound to a
 * backend that only measures, so that nothing here repeats what loading does. */
#include <promptcache/admin.h>
#include <stdlib.h>
#include <string.h>

#include "base/options.h"
#include "model/forward/native.h"
#include "model/load/families.h"
#include "model/load/load_internal.h"
#include "model/load/measuring_backend.h"
#include "model/load/quantised_rows.h"

enum { MAX_TYPES = 64 };

struct pc_model_file {
    const pc_allocator *mem; /* of the model's context */
    pc_model *model;
    pc_model_file_info info;
    pc_model_file_type types[MAX_TYPES];
    size_t type_count;
    char reason[sizeof((pc__opened_model *)0)->reason];
};

static int32_t count_layers(const pc__layer_set *set, int32_t layers)
{
    int32_t count = 0;
    for (int32_t l = 0; l < layers; l++)
        count += pc__layer_in(set, l);
    return count;
}

static const char *scaling_name(const pc__arch *arch)
{
    static const char *const names[] = {"plain",  "linear",   "dynamic", "yarn",
                                        "llama3", "longrope", "factors"};
    return arch->position_scheme == PC_POSITION_ROPE ? names[arch->rope.scaling] : "";
}

static void describe_rope(pc_model_file_info *info, const pc__arch *arch)
{
    info->rope_scaling = scaling_name(arch);
    if (!*info->rope_scaling)
        return;
    info->rope_theta = arch->rope.theta;
    info->rope_dims = arch->rope.dims;
    if (arch->local_rope.dims)
        info->window_theta = arch->local_rope.theta;
    info->plain_layers = count_layers(&arch->unrotated, arch->layers);
    if (arch->rope.scaling == PC__ROPE_PLAIN)
        return;
    info->rope_factor = arch->rope.factor;
    info->rope_length = arch->rope.original_length;
}

static void describe_arch(pc_model_file_info *info, const pc__arch *arch)
{
    const char *fixed = pc__fixed_reason(arch);
    describe_rope(info, arch);
    info->fixed = fixed ? fixed : "";
    info->value_dim = arch->v_dim;
    info->window = arch->window;
    info->window_layers = arch->window ? count_layers(&arch->windowed, arch->layers) : 0;
    info->chunk = arch->chunk;
    info->chunk_layers = arch->chunk ? count_layers(&arch->chunked, arch->layers) : 0;
    info->latent = arch->latent.rank;
    info->latent_rotated = arch->latent.rank ? arch->latent.rotated : 0;
    info->query_norms = arch->qk_norm != PC__QK_NONE;
    info->sinks = arch->sinks;
    for (int32_t l = 0; l < arch->layers; l++)
        info->expert_layers += pc__has_experts(arch, l) != 0;
}

static int by_bytes(const void *a, const void *b)
{
    const pc_model_file_type *x = a, *y = b;
    return x->bytes != y->bytes ? x->bytes < y->bytes ? 1 : -1 : strcmp(x->name, y->name);
}

static void describe_weights(pc_model_file *file, const pc__weights *weights, uint32_t input_bits)
{
    pc_model_file_type by_type[MAX_TYPES] = {{0}};
    pc_model_file_info *info = &file->info;
    info->file_bytes = pc__weights_file_bytes(weights);
    info->tensors = pc__weights_count(weights);
    for (size_t i = 0; i < info->tensors; i++) {
        const pc__tensor *tensor = pc__weights_at(weights, i);
        const pc__ttype_info *type = &pc__ttypes[tensor->type];
        pc_model_file_type *t = &by_type[tensor->type];
        t->name = type->name;
        t->tensors++;
        t->bytes += tensor->bytes;
        t->parameters += tensor->bytes / type->block_bytes * type->block;
        t->kept = input_bits && pc__ttype_quantised(tensor->type).bits;
    }
    for (size_t i = 0; i < MAX_TYPES; i++) {
        info->parameters += by_type[i].parameters;
        if (by_type[i].tensors)
            file->types[file->type_count++] = by_type[i];
    }
    qsort(file->types, file->type_count, sizeof *file->types, by_bytes);
}

static const char *tokenizer_kind(const pc__tokenizer *tokenizer)
{
    static const char *const kinds[] = {"SentencePiece BPE", "byte-level BPE", "WordPiece",
                                        "SentencePiece Unigram"};
    return tokenizer ? kinds[pc__tokenizer_kind(tokenizer)] : "";
}

static void describe_vocabulary(pc_model_file_info *info, const pc_model *model)
{
    const pc__chat *chat = model->chat;
    const char *why = chat->unknown ? chat->unknown : chat->no_system;
    info->tokenizer = tokenizer_kind(model->tokenizer);
    info->vocabulary = model->tokenizer ? (int32_t)pc__tokenizer_count(model->tokenizer) : 0;
    info->chat = chat->unknown ? "" : chat->name;
    info->chat_reason = why ? why : "";
    info->system_role = !why;
}

/* Marks the formats of 16 bits that layers keep. */
static void mark_halves(pc_model_file *file, uint32_t halves)
{
    static const pc__ttype types[] = {[PC_DTYPE_BF16] = PC__T_BF16, [PC_DTYPE_F16] = PC__T_F16};
    for (uint32_t dtype = PC_DTYPE_BF16; dtype <= PC_DTYPE_F16; dtype++)
        for (size_t i = 0; halves >> dtype & 1 && i < file->type_count; i++)
            if (!strcmp(file->types[i].name, pc__ttypes[types[dtype]].name))
                file->types[i].kept = 1;
}

/* Binds the model without its weights, for its sizes. */
static pc_status measure(pc_model_file *file, pc__opened_model *o, const pc_model_options *options,
                         uint32_t input_bits)
{
    pc_context *context = file->model->context;
    pc__measuring measuring;
    pc__native *native = NULL;
    pc_status status;
    PC__TRY_RETURN(pc__measuring_begin(&measuring, pc__backend_of(context)));
    pc__weights_forget(o->weights);
    status = pc__bind_model(o, context, &measuring.base, options, input_bits, NULL, &native);
    if (status >= 0) {
        pc__native_info(&file->model->info, native);
        file->info.quantised_bytes = measuring.quantised_bytes;
        mark_halves(file, measuring.halves);
        file->info.kv_bytes[PC_DTYPE_DEFAULT] = file->model->info.kv_bytes_per_token;
        for (uint32_t dtype = PC_DTYPE_F32; dtype <= PC_DTYPE_I8; dtype++)
            file->info.kv_bytes[dtype] = pc__native_kv_bytes(native, dtype);
    }
    pc__native_free(native);
    pc__measuring_end(&measuring);
    return pc__describe_refusal(o, status);
}

/* The model's vocabulary and name, and what its architecture says. */
static pc_status finish_model(pc_model_file *file, pc__opened_model *o, const char *chat_template)
{
    const pc__id fingerprint = {{0}};
    pc__arch outline;
    const pc__arch *arch = &o->arch;
    PC__TRY_RETURN(pc__load_tell(&o->progress, "reading the chat template", 0, 0));
    if (!o->has_arch) {
        PC__TRY_RETURN(pc__outline_model(o, &outline));
        if (!outline.name[0] && !o->weights && !o->tokenizer) {
            memcpy(pc__fail_state()->text, o->reason, sizeof o->reason);
            return o->refusal;
        }
        arch = &outline;
    }
    file->model->tokenizer = o->tokenizer;
    o->tokenizer = NULL;
    PC__TRY_RETURN(pc__model_finish(file->model, arch, &fingerprint, chat_template));
    const pc__family *family = pc__family_of(arch->name);
    file->info.family = family ? family->words : "";
    if (o->has_arch)
        describe_arch(&file->info, arch);
    else
        file->model->info.relocatable = 0;
    describe_vocabulary(&file->info, file->model);
    return PC_OK;
}

static pc_status describe(pc_model_file *file, pc__opened_model *o, const pc_model_options *options)
{
    pc_model_file_info *info = &file->info;
    uint32_t input_bits = 0;
    *info = (pc_model_file_info)PC_MODEL_FILE_INFO_INIT;
    info->kind = o->kind;
    info->rope_scaling = info->fixed = "";
    info->backend = pc__backend_of(file->model->context)->ops->name;
    PC__TRY_RETURN(finish_model(file, o, options->chat_template));
    if (o->weights) {
        input_bits = pc__quantised_input_bits(pc__backend_of(file->model->context), o->weights,
                                              options);
        describe_weights(file, o->weights, input_bits);
    }
    if (o->refusal == PC_OK && o->weights)
        PC__TRY_RETURN(measure(file, o, options, input_bits));
    memcpy(file->reason, o->reason, sizeof file->reason);
    info->refusal = o->refusal;
    info->reason = file->reason;
    return PC_OK;
}

pc_status pc_model_file_open(pc_model_file **out, pc_context *context, const char *path,
                             const pc_model_options *options)
{
    PC__HOLD(pc_context, context);
    pc_model_options settings;
    pc__opened_model o = {.path = path, .describes = 1};
    pc_model_file *file = NULL;
    pc_status status;
    if (!out)
        return pc__fail(PC_ERR_INVALID, "pc_model_file_open: out is NULL");
    *out = NULL;
    if (!context || !path)
        return pc__fail(PC_ERR_INVALID, "pc_model_file_open: context or path is NULL");
    o.mem = &context->mem;
    PC__TRY(pc__load_options(&settings, options), done);
    PC__TRY(pc__check_flags("pc_model_file_open", settings.flags, 0), done);
    o.progress = (pc__load_progress){settings.progress, settings.progress_user};
    PC__TRY(pc__open_model(&o), done);
    file = pc__calloc(&context->mem, 1, sizeof *file);
    PC__TRY(file ? PC_OK : PC_ERR_NOMEM, done);
    PC__TRY(pc__model_new(&file->model, context), done);
    file->mem = &file->model->context->mem;
    PC__TRY(describe(file, &o, &settings), done);
    *out = file;
    file = NULL;
done:
    if (file && !file->model)
        pc__free(&context->mem, file);
    else
        pc_model_file_free(file);
    pc__close_model(&o);
    return status;
}

void pc_model_file_free(pc_model_file *file)
{
    if (!file)
        return;
    pc_model *model = file->model; /* its context owns the memory of `file` */
    pc__free(file->mem, file);
    pc__model_unref(model);
}

pc_status pc_model_file_get_info(const pc_model_file *file, pc_model_file_info *info)
{
    if (!file || !info)
        return pc__fail(PC_ERR_INVALID, "pc_model_file_get_info: file or info is NULL");
    return pc__result_write(info, PC__V1_SIZE(pc_model_file_info, window_theta), &file->info,
                            sizeof file->info, "pc_model_file_info");
}

const pc_model *pc_model_file_model(const pc_model_file *file)
{
    return file ? file->model : NULL;
}

size_t pc_model_file_type_count(const pc_model_file *file)
{
    return file ? file->type_count : 0;
}

pc_status pc_model_file_get_type(const pc_model_file *file, size_t index, pc_model_file_type *type)
{
    if (!file || !type)
        return pc__fail(PC_ERR_INVALID, "pc_model_file_get_type: file or type is NULL");
    if (index >= file->type_count)
        return pc__fail(PC_ERR_NOT_FOUND, "pc_model_file_get_type: number format %zu of %zu", index,
                        file->type_count);
    return pc__result_write(type, PC__V1_SIZE(pc_model_file_type, reserved), &file->types[index],
                            sizeof *type, "pc_model_file_type");
}
