/* pc_model_load: opens the model (load_open.c), binds the weights, closes the file. */
#include "model/load/load.h"

#include "attn/packed_weights.h"
#include "model/load/load_internal.h"

/* Expanded and quantised weights, with inputs of 16 and of 8 bits, round differently: their states
 * are not interchangeable. */
static pc__id quantised_fingerprint(pc__id fingerprint, uint32_t bits)
{
    pc__digest digest;
    pc__digest_start(&digest, bits == 8 ? "on-grid-8/3" : "on-grid-16/3");
    pc__digest_bytes(&digest, fingerprint.bytes, sizeof fingerprint.bytes);
    return pc__digest_end(&digest);
}

/* NULL: packed weights are not kept. */
static pc__packed *open_packed(const pc__opened_model *o, pc_context *context,
                               const pc_model_options *settings)
{
    pc__packed_key key = {
        .folder = settings->packed_weights, .path = o->path, .compute = settings->compute};
    if (!key.folder || !pc__backend_of(context)->ops->packs_panels
        || !pc__weights_state(o->weights, &key.files, &key.changed))
        return NULL;
    return pc__packed_open(context, &key);
}

/* Digests the weights, unless a packed file knows them, and binds them. */
static pc_status bind_weights(pc__opened_model *o, pc_context *context,
                              const pc_model_options *settings, pc__id *fingerprint,
                              pc__native **out)
{
    pc__packed *packed = open_packed(o, context, settings);
    uint32_t input_bits = pc__quantised_input_bits(pc__backend_of(context), o->weights, settings);
    pc__id weights;
    pc_status status = PC_OK;
    if (!packed || !pc__packed_weights(packed, &weights))
        PC__TRY(pc__weights_digest(o->weights, context, &o->progress, &weights), done);
    *fingerprint = pc__model_fingerprint(&o->arch, weights);
    if (input_bits)
        *fingerprint = quantised_fingerprint(*fingerprint, input_bits);
    if (packed)
        pc__packed_begin(packed, &weights, fingerprint);
    status = pc__bind_model(o, context, NULL, settings, input_bits, packed, out);
done:
    pc__packed_close(packed, status >= 0);
    return status;
}

pc_status pc_model_load(pc_model **out, pc_context *context, const char *path,
                        const pc_model_options *options)
{
    PC__HOLD(pc_context, context);
    pc_model_options settings;
    pc_model *model = NULL;
    pc__opened_model o = {.path = path};
    pc__id fingerprint = {{0}};
    pc_status status;
    if (!out)
        return pc__fail(PC_ERR_INVALID, "pc_model_load: out is NULL");
    *out = NULL;
    if (!context || !path)
        return pc__fail(PC_ERR_INVALID, "pc_model_load: context or path is NULL");
    o.mem = &context->mem;
    PC__TRY(pc__load_options(&settings, options), done);
    o.vocab_only = (settings.flags & PC_MODEL_VOCAB_ONLY) != 0;
    o.progress = (pc__load_progress){settings.progress, settings.progress_user};
    PC__TRY(pc__open_model(&o), done);
    PC__TRY(pc__model_new(&model, context), done);
    if (!o.vocab_only)
        PC__TRY(bind_weights(&o, context, &settings, &fingerprint, &model->native), done);
    PC__TRY(pc__load_tell(&o.progress, "reading the chat template", 0, 0), done);
    model->tokenizer = o.tokenizer;
    o.tokenizer = NULL;
    PC__TRY(
        pc__model_finish(model, o.has_arch ? &o.arch : NULL, &fingerprint, settings.chat_template),
        done);
    *out = model;
    model = NULL;
done:
    pc__model_unref(model);
    pc__close_model(&o);
    return status;
}
