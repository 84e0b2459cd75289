/* The model handle: its life, tokenising through it, and models of an application
 * (pc_model_from_ops). */
#include "model/model.h"

#include <math.h>
#include <string.h>

#include "base/options.h"
#include "model/forward/native.h"

pc_status pc__model_new(pc_model **out, pc_context *context)
{
    pc_model *model = pc__calloc(&context->mem, 1, sizeof *model);
    *out = NULL;
    if (!model)
        return PC_ERR_NOMEM;
    atomic_init(&model->references, 1);
    model->context = pc__context_ref(context);
    model->can_compute = 1;
    pthread_mutex_init(&model->ops_lock, NULL);
    pthread_mutex_init(&model->turn, NULL);
    pthread_mutex_init(&model->behind, NULL);
    pthread_mutex_init(&model->imports_lock, NULL);
    *out = model;
    return PC_OK;
}

pc_model *pc__model_ref(const pc_model *model)
{
    pc_model *counted = (pc_model *)(uintptr_t)model; /* only the count changes */
    atomic_fetch_add_explicit(&counted->references, 1, memory_order_relaxed);
    return counted;
}

void pc__model_unref(pc_model *model)
{
    if (!model || atomic_fetch_sub_explicit(&model->references, 1, memory_order_acq_rel) != 1)
        return;
    pc_context *context = model->context;
    pc__native_free(model->native);
    pc__tokenizer_free(model->tokenizer);
    pc__chat_free(model->chat, &context->mem);
    if (model->on_free)
        model->on_free(model->user);
    pthread_mutex_destroy(&model->ops_lock);
    pthread_mutex_destroy(&model->turn);
    pthread_mutex_destroy(&model->behind);
    pthread_mutex_destroy(&model->imports_lock);
    pc__free(&context->mem, model);
    pc__context_unref(context);
}

void pc_model_free(pc_model *model)
{
    pc__model_unref(model);
}

static _Thread_local char this_thread;

static int takes_turns(const pc_model *model, uint64_t overlap)
{
    return !model->native && !(model->ops.flags & overlap);
}

/* A function of the application's model may free objects of this model, which calls `drop` and
 * `release` within it: that takes no turn. */
static void take_turn(pc_model *model, uint64_t overlap)
{
    if (atomic_load_explicit(&model->ops_owner, memory_order_relaxed) != (uintptr_t)&this_thread) {
        if (overlap == PC_OVERLAP_STATES)
            pthread_mutex_lock(&model->behind);
        pthread_mutex_lock(&model->turn);
        pthread_mutex_lock(&model->ops_lock);
        pthread_mutex_unlock(&model->turn);
        model->ops_behind = overlap == PC_OVERLAP_STATES;
        atomic_store_explicit(&model->ops_owner, (uintptr_t)&this_thread, memory_order_relaxed);
    }
    model->ops_depth++;
}

static void end_turn(pc_model *model)
{
    int behind = model->ops_behind;
    if (--model->ops_depth)
        return;
    atomic_store_explicit(&model->ops_owner, 0, memory_order_relaxed);
    pthread_mutex_unlock(&model->ops_lock);
    if (behind)
        pthread_mutex_unlock(&model->behind);
}

void pc__model_enter(const pc_model *model, uint64_t overlap)
{
    if (takes_turns(model, overlap))
        take_turn((pc_model *)(uintptr_t)model, overlap);
    pc__callback_begin();
}

void pc__model_leave(const pc_model *model, uint64_t overlap)
{
    if (takes_turns(model, overlap))
        end_turn((pc_model *)(uintptr_t)model);
}

pc_status pc__model_status(const pc_model *model, const char *name, pc_status status)
{
    if (status >= 0 || model->native)
        return status;
    return pc__callback_failed(status, "the application's model: %s", name);
}

pc_status pc__model_can_compute(const pc_model *model)
{
    return model->can_compute
               ? PC_OK
               : pc__fail(PC_ERR_UNSUPPORTED, "the model was loaded for its vocabulary only");
}

pc_status pc__model_has_order(const pc_model *model)
{
    if (model->native && !model->native->arch.causal)
        return pc__fail(PC_ERR_UNSUPPORTED,
                        "%s is an encoder: every token sees the whole input, so no states of "
                        "a prefix can be stored (use pc_embed or pc_prefill)",
                        model->info.architecture);
    return PC_OK;
}

pc_status pc__model_can_go_on(const pc_model *model)
{
    PC__TRY_RETURN(pc__model_has_order(model));
    return pc__model_can_compute(model);
}

pc_status pc__model_check_row(const pc_model *model, const float *row, size_t count,
                              const char *what, const char *of, size_t number, int64_t position)
{
    const uint8_t *id = model->info.fingerprint;
    for (size_t i = 0; i < count; i++)
        if (isfinite(row[i]))
            return PC_OK;
    return pc__fail(PC_ERR_INTERNAL,
                    "%s %02x%02x%02x%02x: %s %zu, position %lld: no number of its %s is finite; "
                    "weights or states are too large to compute with",
                    *model->info.architecture ? model->info.architecture : "model", id[0], id[1],
                    id[2], id[3], of, number, (long long)position, what);
}

pc_status pc_model_get_info(const pc_model *model, pc_model_info *info)
{
    if (!model)
        return pc__fail(PC_ERR_INVALID, "pc_model_get_info: model is NULL");
    return pc__result_write(info, PC__V1_SIZE(pc_model_info, head_flops), &model->info,
                            sizeof model->info, "pc_model_info");
}

static pc_status tokenize_by_ops(const pc_model *model, const char *text, size_t size,
                                 uint64_t flags, int32_t *tokens, size_t capacity, size_t *count)
{
    if (!model->ops.tokenize)
        return pc__fail(
            PC_ERR_UNSUPPORTED,
            "the model has no tokenizer (a folder needs tokenizer.json or tokenizer.model)");
    pc__model_enter(model, PC_OVERLAP_TEXT);
    pc_status status = model->ops.tokenize(model->user, text, size, flags, tokens, capacity, count);
    pc__model_leave(model, PC_OVERLAP_TEXT);
    return pc__model_status(model, "tokenize", status);
}

pc_status pc_tokenize(const pc_model *model, const char *text, size_t size, uint64_t flags,
                      int32_t *tokens, size_t capacity, size_t *count)
{
    PC__HOLD(pc_model, model);
    if (!model || (!tokens && capacity) || !count)
        return pc__fail(PC_ERR_INVALID, "pc_tokenize: model, tokens or count is NULL");
    PC__TRY_RETURN(pc__check_array("pc_tokenize", "text", text, size, 1));
    PC__TRY_RETURN(pc__check_flags("pc_tokenize", flags, PC_TOKENIZE_SPECIAL | PC_TOKENIZE_BOS));
    *count = 0;
    if (model->tokenizer)
        return pc__text_to_tokens(model->tokenizer, text ? text : "", size, flags, tokens, capacity,
                                  count);
    return tokenize_by_ops(model, text ? text : "", size, flags, tokens, capacity, count);
}

pc_status pc_detokenize(const pc_model *model, const int32_t *tokens, size_t count, uint64_t flags,
                        char *text, size_t capacity, size_t *size)
{
    PC__HOLD(pc_model, model);
    if (!model || (!text && capacity) || !size)
        return pc__fail(PC_ERR_INVALID, "pc_detokenize: model, text or size is NULL");
    PC__TRY_RETURN(pc__check_array("pc_detokenize", "tokens", tokens, count, sizeof *tokens));
    PC__TRY_RETURN(pc__check_flags("pc_detokenize", flags, PC_TOKENIZE_SPECIAL));
    *size = 0;
    if (model->tokenizer)
        return pc__tokens_to_text(model->tokenizer, tokens, count, flags, text, capacity, size);
    if (!model->ops.detokenize)
        return pc__fail(PC_ERR_UNSUPPORTED, "the model has no detokenizer");
    pc__model_enter(model, PC_OVERLAP_TEXT);
    pc_status status = model->ops.detokenize(model->user, tokens, count, flags, text, capacity,
                                             size);
    pc__model_leave(model, PC_OVERLAP_TEXT);
    return pc__model_status(model, "detokenize", status);
}

size_t pc__model_drawn_vocabulary(const pc_model *model)
{
    size_t rows = (size_t)model->info.vocab;
    size_t known = model->tokenizer ? pc__tokenizer_count(model->tokenizer) : rows;
    return known < rows ? known : rows;
}

pc_status pc__model_tokens(const pc_model *model, const char *text, size_t size, uint64_t flags,
                           int32_t **tokens, size_t *count)
{
    const pc_allocator *mem = &model->context->mem;
    /* more tokens than this are rare; then the text is tokenised once more */
    size_t room = size / 2 + 16, need = 0;
    *count = 0;
    if (!(*tokens = pc__alloc(mem, room * sizeof **tokens)))
        return PC_ERR_NOMEM;
    pc_status status = pc_tokenize(model, text, size, flags, *tokens, room, &need);
    if (status == PC_ERR_LIMIT && need > room) {
        pc__free(mem, *tokens);
        if (!(*tokens = pc__alloc(mem, need * sizeof **tokens)))
            return PC_ERR_NOMEM;
        status = pc_tokenize(model, text, size, flags, *tokens, need, &need);
    }
    if (status < 0) {
        pc__free(mem, *tokens);
        *tokens = NULL;
        return status;
    }
    *count = need;
    return PC_OK;
}

static pc_status check_ops(const pc_model_ops *ops)
{
    const char *name = !ops->describe       ? "describe"
                       : !ops->encode       ? "encode"
                       : !ops->release      ? "release"
                       : !ops->sequence_new ? "sequence_new"
                       : !ops->attach       ? "attach"
                       : !ops->step         ? "step"
                       : !ops->drop         ? "drop"
                                            : NULL;
    if (name)
        return pc__fail(PC_ERR_INVALID, "pc_model_from_ops: ops.%s is NULL", name);
    PC__TRY_RETURN(pc__check_flags("pc_model_ops", ops->flags,
                                   PC_OVERLAP_TEXT | PC_OVERLAP_STATES | PC_CUTS_PROMPTS));
    name = !ops->export_segment && ops->import_segment   ? "export_segment"
           : ops->export_segment && !ops->import_segment ? "import_segment"
           : !ops->export_layer && ops->import_layer     ? "export_layer"
           : ops->export_layer && !ops->import_layer     ? "import_layer"
                                                         : NULL;
    if (name)
        return pc__fail(PC_ERR_INVALID,
                        "pc_model_from_ops: ops.%s is NULL, but its counterpart is set", name);
    return PC_OK;
}

/* Layers become pages of a known shape. */
static pc_status check_layers(const pc_model_ops *ops, const pc_model_info *info)
{
    if (ops->export_layer
        && (info->layers < 1 || info->kv_heads < 1 || info->head_dim < 1
            || info->head_dim > PC__MAX_HEAD || info->compute < PC_DTYPE_F32
            || info->compute > PC_DTYPE_F16))
        return pc__fail(PC_ERR_INVALID,
                        "pc_model_from_ops: export_layer needs layers, kv_heads, head_dim (at most "
                        "%d) and compute (F32, BF16 or F16); describe gave %d, %d, %d and %u",
                        PC__MAX_HEAD, info->layers, info->kv_heads, info->head_dim, info->compute);
    return PC_OK;
}

static pc_status describe_model(pc_model *model)
{
    pc_model_info info = PC_MODEL_INFO_INIT;
    info.token_bos = info.token_eos = info.token_unk = info.token_pad = -1;
    pc__callback_begin();
    pc_status status = model->ops.describe(model->user, &info);
    if (status < 0)
        return pc__model_status(model, "describe", status);
    info.struct_size = sizeof info;
    info.architecture[sizeof info.architecture - 1] = 0;
    if (info.vocab <= 0)
        return pc__fail(PC_ERR_INVALID, "pc_model_from_ops: describe gave a vocabulary of %d",
                        info.vocab);
    if (info.context_length < 0 || info.position_scheme > PC_POSITION_LEARNED
        || info.relocatable > 1)
        return pc__fail(PC_ERR_INVALID,
                        "pc_model_from_ops: describe gave context_length %d, position_scheme %u, "
                        "relocatable %u",
                        info.context_length, info.position_scheme, info.relocatable);
    PC__TRY_RETURN(check_layers(&model->ops, &info));
    model->info = info;
    return PC_OK;
}

/* The special tokens of a chat template family must be single tokens of the application's model. */
static pc_status check_family(const pc_model *model, const char *name)
{
    const pc__chat_template *form = pc__chat_family(name);
    const size_t most = form ? sizeof form->tokens / sizeof *form->tokens : 0;
    for (size_t i = 0; i < most && form->tokens[i] && model->ops.tokenize; i++) {
        size_t count;
        PC__TRY_RETURN(pc_tokenize(model, form->tokens[i], strlen(form->tokens[i]),
                                   PC_TOKENIZE_SPECIAL, NULL, 0, &count));
        if (count != 1)
            return pc__fail(PC_ERR_MISMATCH,
                            "pc_model_from_ops: chat template '%s' does not fit this model: '%s' "
                            "is %zu tokens, not one",
                            name, form->tokens[i], count);
    }
    return PC_OK;
}

/* The text of a special token, to be freed. NULL: there is none. */
static pc_status token_text(const pc_model *model, int32_t token, char **out)
{
    const uint64_t special = PC_TOKENIZE_SPECIAL;
    size_t size;
    *out = NULL;
    if (token < 0 || !model->ops.detokenize)
        return PC_OK;
    PC__TRY_RETURN(pc_detokenize(model, &token, 1, special, NULL, 0, &size));
    if (!(*out = pc__calloc(&model->context->mem, size + 1, 1)))
        return PC_ERR_NOMEM;
    pc_status status = pc_detokenize(model, &token, 1, special, *out, size, &size);
    if (status < 0) {
        pc__free(&model->context->mem, *out);
        *out = NULL;
    }
    return status;
}

/* Jinja text may write BOS and EOS. Families have texts of their own. */
static pc_status choose_chat(pc_model *model, const char *name)
{
    const pc_allocator *mem = &model->context->mem;
    pc__chat_ends ends = {NULL, NULL};
    char *bos = NULL, *eos = NULL;
    pc_status status;
    if (!name)
        return pc__chat_detect(&model->chat, mem, NULL);
    if (!pc__chat_family(name)) {
        PC__TRY(token_text(model, model->info.token_bos, &bos), done);
        PC__TRY(token_text(model, model->info.token_eos, &eos), done);
        ends = (pc__chat_ends){.bos = bos, .eos = eos};
    }
    PC__TRY(pc__chat_find(&model->chat, mem, NULL, &ends, name), done);
    status = check_family(model, name);
done:
    pc__free(mem, bos);
    pc__free(mem, eos);
    return status;
}

pc_status pc_model_from_ops(pc_model **out, pc_context *context, const pc_model_ops *ops,
                            void *user, void (*on_free)(void *user),
                            const pc_model_options *options)
{
    PC__HOLD(pc_context, context);
    pc_model_options o;
    pc_model *model = NULL;
    pc_status status;
    if (!out)
        return pc__fail(PC_ERR_INVALID, "pc_model_from_ops: out is NULL");
    *out = NULL;
    if (!context || !ops)
        return pc__fail(PC_ERR_INVALID, "pc_model_from_ops: context or ops is NULL");
    PC__TRY(pc__options_read(&o, sizeof o, PC__V1_SIZE(pc_model_options, packed_weights), options,
                             "pc_model_options"),
            done);
    if (o.kv || o.flags || o.compute)
        return pc__fail(
            PC_ERR_INVALID,
            "pc_model_from_ops: compute, kv and flags must be 0 for an application's model");
    PC__TRY(pc__model_new(&model, context), done);
    PC__TRY(pc__options_read(&model->ops, sizeof model->ops,
                             PC__V1_SIZE(pc_model_ops, import_layer), ops, "pc_model_ops"),
            done);
    PC__TRY(check_ops(&model->ops), done);
    model->user = user;
    PC__TRY(describe_model(model), done);
    PC__TRY(choose_chat(model, o.chat_template), done);
    model->on_free = on_free; /* only on success: until then the caller owns `user` */
    *out = model;
    model = NULL;
done:
    pc__model_unref(model);
    return status;
}
