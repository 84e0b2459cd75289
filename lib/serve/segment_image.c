/* Tables of operations on payloads (pc__payload_ops): native runs as their pages, segments of an
 * application's model as the bytes that it exports, or layer by layer (segment_image_layers.c). A
 * segment gets its table when it is made. */
#include "serve/segment_image_internal.h"

#include <promptcache/cache.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "attn/kv_device.h"
#include "attn/kv_page.h"
#include "attn/kernels.h"
#include "model/model_states.h"
#include "serve/model_calls.h"
#include "serve/unit_keys.h"
#include "store/raw_states.h"

void pc__handle_drop_model(void *owner)
{
    pc__model_unref(owner);
}

void pc__model_ref_owner(void *owner)
{
    pc__model_ref(owner);
}

void pc__image_set_model(pc__image *image, const pc_model *model)
{
    const pc_model_info *info = &model->info;
    memcpy(image->form.model, info->fingerprint, sizeof image->form.model);
    memset(image->form.architecture, 0, sizeof image->form.architecture);
    memcpy(image->form.architecture, info->architecture,
           strnlen(info->architecture, sizeof image->form.architecture - 1));
    image->form.position_scheme = info->position_scheme;
    image->form.layout = pc__model_layout(model);
    image->form.shape = (pc__kv_shape){.dtype = info->compute};
}

/* NULL: a model with that fingerprint may have made it. Keys and pc__image_match tell the rest. */
static const char *wrong_in_image(const pc_model *model, const pc__image *image)
{
    if (memcmp(image->form.model, model->info.fingerprint, sizeof image->form.model) != 0)
        return "model";
    if (image->form.layout != pc__model_layout(model))
        return "layout";
    if (!image->tokens || image->tokens > UINT32_MAX || !image->block_bytes)
        return "number of tokens";
    return NULL;
}

pc_status pc__image_refuse(const char *wrong)
{
    return pc__fail(PC_ERR_MISMATCH, "the states of a record are not those of this model: %s",
                    wrong);
}

pc_status pc__image_check_model(const pc_model *model, const pc__image *image)
{
    const char *wrong = wrong_in_image(model, image);
    return wrong ? pc__image_refuse(wrong) : PC_OK;
}

void pc__handle_release(void *owner, void *payload)
{
    pc_model *model = owner;
    pc__model_enter(model, PC_OVERLAP_STATES);
    model->ops.release(model->user, payload);
    pc__model_leave(model, PC_OVERLAP_STATES);
}

/* Native models. */

/* Shape and kernels. */
static void set_native(pc__image *image, const pc__kv_shape *shape)
{
    image->form.shape = *shape;
    snprintf(image->kernels, sizeof image->kernels, "%s", pc__kernels_class());
}

/* All but the blocks. */
static pc_status describe_form(const pc_model *model, pc__kv *kv, pc__image *image)
{
    pc__image_set_model(image, model);
    set_native(image, &kv->shape);
    image->form.regime = kv->rope_regime;
    image->form.origin = pc__key_offset(model, kv->origin);
    image->tokens = kv->tokens;
    image->relative = kv->relative;
    image->block_count = (size_t)kv->shape.layers;
    image->block_bytes = pc__kv_sizes(kv);
    return image->block_bytes ? PC_OK : PC_ERR_NOMEM;
}

static pc_status describe_run(void *owner, void *payload, pc__image *image, void **release_me)
{
    const pc__kv *kv = payload;
    uint8_t **layers = kv->layer;
    *release_me = NULL;
    PC__TRY_RETURN(describe_form(owner, payload, image));
    if (kv->home) {
        PC__TRY_RETURN(pc__kv_fetch(kv, &layers));
        *release_me = layers;
    }
    image->blocks = layers;
    return PC_OK;
}

static pc_status check_run_image(const pc_model *model, const pc__image *image, pc__kv_shape *shape)
{
    size_t bytes;
    PC__TRY_RETURN(pc__image_check_model(model, image));
    *shape = pc__model_segment_shape(model);
    bytes = pc__kv_layer_bytes(shape, image->tokens);
    if (memcmp(&image->form.shape, shape, sizeof *shape) != 0
        || image->block_count != (size_t)shape->layers)
        return pc__image_refuse("shape");
    for (size_t b = 0; b < image->block_count; b++)
        if (!bytes || image->block_bytes[b] != bytes)
            return pc__image_refuse("size of a block");
    return PC_OK;
}

/* Without blocks the run gets memory of its own. */
static pc_status wrap_run(void *owner, const pc__image *image, const void *const *blocks,
                          void *memory_owner, void (*release_memory)(void *memory_owner),
                          void **payload)
{
    const pc_model *model = owner;
    const pc_allocator *mem = &model->context->mem;
    pc__kv_shape shape;
    pc__kv *kv;
    *payload = NULL;
    PC__TRY_RETURN(check_run_image(model, image, &shape));
    PC__TRY_RETURN(blocks ? pc__kv_wrap(&kv, mem, &shape, image->tokens, image->relative, blocks,
                                        memory_owner, release_memory)
                          : pc__kv_new_unset(&kv, mem, &shape, image->tokens, image->relative));
    kv->rope_regime = image->form.regime;
    kv->origin = image->form.origin;
    *payload = kv;
    return PC_OK;
}

static pc_status create_run(void *owner, const pc__image *image, void **payload, uint8_t **blocks)
{
    PC__TRY_RETURN(wrap_run(owner, image, NULL, NULL, NULL, payload));
    memcpy(blocks, ((pc__kv *)*payload)->layer, image->block_count * sizeof(*blocks));
    return PC_OK;
}

/* Lossy codecs and other writers may leave bytes behind the last token. */
static void clear_run_tail(void *owner, void *payload, size_t index)
{
    (void)owner;
    pc__kv_clear_tail(payload, index);
}

static void set_run_stream(void *owner, void *payload, pc__layer_stream *stream)
{
    (void)owner;
    atomic_store_explicit(&((pc__kv *)payload)->stream, stream, memory_order_release);
}

static void free_run_to_system(void *owner, void *payload)
{
    (void)owner;
    pc__kv_give_back(payload);
}

static void zero_run(void *owner, void *payload)
{
    (void)owner;
    pc__kv_zero(payload);
}

/* Any native model reads runs of native models. */
static int serves_native(const void *owner, const void *other)
{
    (void)owner, (void)other;
    return 1;
}

static pc_status show_run(void *owner, void *payload, pc_raw *raw)
{
    const pc_model *model = owner;
    pc__image image;
    uint8_t **layers;
    PC__TRY_RETURN(describe_form(owner, payload, &image));
    PC__TRY_RETURN(pc__kv_show(payload, &layers));
    image.blocks = layers;
    pc__image_raw(raw, &image);
    raw->model = model->info.fingerprint; /* lives as long as the model */
    raw->lossy = image.form.shape.dtype == PC_DTYPE_I8;
    return PC_OK;
}

static const pc__payload_ops native_payload = {
    .release = pc__handle_release,
    .drop_owner = pc__handle_drop_model,
    .describe = describe_run,
    .create = create_run,
    .wrap_memory = wrap_run,
    .block_ready = clear_run_tail,
    .set_layer_stream = set_run_stream,
    .zero_memory = zero_run,
    .free_to_system = free_run_to_system,
    .serves = serves_native,
    .raw = show_run,
};

/* An application's model. It manages its own memory; a handle of it is for that model only. */

enum { EXPORT_ROOM = 1 << 16 }; /* bytes of an export beside its states */

/* The bytes for ops.import_segment. */
typedef struct whole_import {
    pc__import base;
    uint8_t *bytes;
    size_t size;
} whole_import;

void pc__import_put(pc_model *model, pc__import *import)
{
    pthread_mutex_lock(&model->imports_lock);
    import->next = model->imports;
    model->imports = import;
    pthread_mutex_unlock(&model->imports_lock);
}

pc__import *pc__import_take(pc_model *model, const void *payload)
{
    pc__import **at, *found;
    pthread_mutex_lock(&model->imports_lock);
    for (at = &model->imports; *at && *at != payload;)
        at = &(*at)->next;
    found = *at;
    if (found)
        *at = found->next;
    pthread_mutex_unlock(&model->imports_lock);
    return found;
}

static void free_import(const pc_model *model, whole_import *i)
{
    memset(i->bytes, 0, i->size); /* another tenant may get the memory next */
    pc__free(&model->context->mem, i->bytes);
    pc__free(&model->context->mem, i);
}

static void release_handle(void *owner, void *payload)
{
    whole_import *pending = (whole_import *)pc__import_take(owner, payload);
    if (pending)
        free_import(owner, pending);
    else
        pc__handle_release(owner, payload);
}

/* Most bytes that a segment of an application's model may export: a record that claims more is not
 * believed. 0: the model does not tell what its states take, or the tokens are not known. */
static uint64_t most_exported(const pc_model *model, size_t tokens)
{
    const pc_model_info *info = &model->info;
    double shape = 2.0 * sizeof(float) * info->layers * info->kv_heads * info->head_dim,
           of_token = fmax(shape, (double)info->kv_bytes_per_token);
    return of_token > 0 && tokens
               ? (uint64_t)fmin(2 * of_token * (double)tokens, 0x1p62) + EXPORT_ROOM
               : 0;
}

/* In one allocation: the block's address, its size, then its bytes. */
typedef struct exported {
    uint8_t *block;
    uint64_t bytes;
} exported;

static pc_status export_payload(const pc_model *model, void *payload, uint64_t most, exported **out)
{
    const pc_allocator *mem = &model->context->mem;
    size_t size = 0, written = 0;
    int is_too_large;
    pc_status status;
    *out = NULL;
    pc__model_enter(model, PC_OVERLAP_STATES);
    status = model->ops.export_segment(model->user, payload, NULL, 0, &size);
    is_too_large = status >= 0 && most && size > most;
    if (status >= 0 && size > SIZE_MAX / 2)
        status = PC_ERR_LIMIT;
    if (status >= 0 && !is_too_large && !(*out = pc__alloc(mem, 64 + size)))
        status = PC_ERR_NOMEM;
    if (*out) {
        (*out)->block = (uint8_t *)*out + 64;
        (*out)->bytes = size;
        status = model->ops.export_segment(model->user, payload, (*out)->block, size, &written);
        if (status >= 0 && written != size)
            status = PC_ERR_LIMIT;
    }
    pc__model_leave(model, PC_OVERLAP_STATES);
    if (is_too_large)
        return pc__fail(PC_ERR_LIMIT,
                        "the model's export_segment gives %zu bytes; by kv_bytes_per_token and the "
                        "shape in its pc_model_info they are at most %llu",
                        size, (unsigned long long)most);
    if (status < 0) {
        pc__free(mem, *out);
        *out = NULL;
    }
    return pc__model_status(model, "export_segment", status);
}

static pc_status describe_handle(void *owner, void *payload, pc__image *image, void **release_me)
{
    const pc_model *model = owner;
    uint64_t most = most_exported(model, image->tokens);
    exported *e;
    *release_me = NULL;
    if (!model->ops.export_segment)
        return pc__fail(PC_ERR_UNSUPPORTED,
                        "the model's states cannot leave it (no ops.export_segment)");
    pc__image_set_model(image, model);
    PC__TRY_RETURN(export_payload(model, payload, most, &e));
    image->block_count = 1;
    image->blocks = &e->block;
    image->block_bytes = &e->bytes;
    *release_me = e;
    return PC_OK;
}

static pc_status create_import(void *owner, const pc__image *image, void **payload,
                               uint8_t **blocks)
{
    pc_model *model = owner;
    const char *wrong = wrong_in_image(model, image);
    const pc_allocator *mem = &model->context->mem;
    whole_import *i;
    *payload = NULL;
    if (!wrong && (image->block_count != 1 || image->block_bytes[0] > SIZE_MAX / 2))
        wrong = "number of blocks";
    if (wrong)
        return pc__image_refuse(wrong);
    if (!model->ops.import_segment)
        return pc__fail(PC_ERR_UNSUPPORTED,
                        "the model cannot import states (no ops.import_segment)");
    i = pc__calloc(mem, 1, sizeof *i);
    if (!i)
        return PC_ERR_NOMEM;
    i->size = (size_t)image->block_bytes[0];
    i->bytes = pc__alloc_aligned(mem, i->size, 64);
    if (!i->bytes) {
        pc__free(mem, i);
        return PC_ERR_NOMEM;
    }
    pc__import_put(model, &i->base);
    blocks[0] = i->bytes;
    *payload = i;
    return PC_OK;
}

static pc_status finish_import(void *owner, const pc__image *image, void **payload)
{
    pc_model *model = owner;
    whole_import *i = (whole_import *)pc__import_take(model, *payload);
    void *made = NULL;
    pc_status status;
    if (!i)
        return PC_OK; /* imported already */
    pc__model_enter(model, PC_OVERLAP_STATES);
    status = model->ops.import_segment(model->user, i->bytes, i->size, image->token_ids,
                                       image->tokens, &made);
    pc__model_leave(model, PC_OVERLAP_STATES);
    status = pc__model_status(model, "import_segment", status);
    if (status >= 0 && !made)
        status = pc__fail(PC_ERR_INTERNAL, "the model's import_segment gave no segment");
    if (status < 0) {
        pc__import_put(model, &i->base); /* the caller releases it */
        return status;
    }
    free_import(model, i);
    *payload = made;
    return PC_OK;
}

static const pc__payload_ops application_payload = {
    .release = release_handle,
    .drop_owner = pc__handle_drop_model,
    .describe = describe_handle,
    .create = create_import,
    .finish = finish_import,
};

const pc__payload_ops *pc__model_payload(const pc_model *model)
{
    return pc__model_is_native(model)    ? &native_payload
           : pc__model_has_layers(model) ? &pc__layers_payload
                                         : &application_payload;
}

const pc_model *pc__segment_model(const pc_segment *segment)
{
    return segment->ops->drop_owner == pc__handle_drop_model ? segment->owner : NULL;
}

/* ---- States that came from elsewhere */

static void drop_segment(void *segment)
{
    pc__segment_unref(segment);
}

/* Layers that may be read where they lie: aligned, with zeros behind the last token. */
static pc_status wrap_layers(pc__kv **out, const pc_model *model, const pc__image *image,
                             pc_segment *segment)
{
    int clear = 1;
    PC__TRY_RETURN(pc__kv_wrap(out, &model->context->mem, &image->form.shape, image->tokens,
                               image->relative, (const void *const *)image->blocks, segment,
                               drop_segment));
    pc__segment_ref(segment);
    for (size_t l = 0; l < image->block_count && clear; l++)
        clear = pc__kv_tail_is_clear(*out, l);
    if (clear)
        return PC_OK;
    pc__kv_unref(*out);
    return PC_ERR_MISMATCH;
}

static pc_status copy_layers(pc__kv **out, const pc_model *model, const pc__image *image)
{
    PC__TRY_RETURN(pc__kv_new_unset(out, &model->context->mem, &image->form.shape, image->tokens,
                                    image->relative));
    for (size_t l = 0; l < image->block_count; l++) {
        memcpy((*out)->layer[l], image->blocks[l], (size_t)image->block_bytes[l]);
        pc__kv_clear_tail(*out, l);
    }
    return PC_OK;
}

/* What the segment holds, as an image with blocks that the host sees. */
static pc_status show_segment(pc__image *image, pc_segment *segment)
{
    pc_raw raw = PC_RAW_INIT;
    pc__image described = {.tokens = segment->tokens};
    void *release_me = NULL;
    PC__TRY_RETURN(pc_segment_raw(segment, &raw));
    PC__TRY_RETURN(pc__raw_image(image, &raw, 0, "a segment"));
    image->blocks = (uint8_t *const *)(uintptr_t)raw.blocks;
    if (segment->ops == &native_payload)
        image->form.origin = ((const pc__kv *)segment->payload)->origin;
    else if (segment->ops->describe(segment->owner, segment->payload, &described, &release_me) >= 0)
        image->form.origin = described.form.origin;
    return PC_OK;
}

static pc_status check_other_image(const pc_model *model, const pc__image *image)
{
    const pc__kv_shape run = pc__model_run_shape(model), stored = pc__model_segment_shape(model);
    const char *wrong = wrong_in_image(model, image);
    if (!wrong && memcmp(&image->form.shape, &run, sizeof run) != 0
        && memcmp(&image->form.shape, &stored, sizeof stored) != 0)
        wrong = "shape";
    return wrong ? pc__image_refuse(wrong) : PC_OK;
}

pc_status pc__segment_of_model(pc_segment **out, const pc_model *model, pc_segment *segment)
{
    const pc__id *visibility = pc__segment_visibility(segment);
    pc__image image;
    pc__kv *kv = NULL;
    pc_status status;
    *out = NULL;
    if (pc__segment_model(segment) == model) {
        *out = pc__segment_ref(segment);
        return PC_OK;
    }
    if (!pc__model_is_native(model)
        || (segment->ops != &native_payload && segment->ops != &pc__raw_payload))
        return pc__image_refuse("model");
    PC__TRY_RETURN(show_segment(&image, segment));
    PC__TRY_RETURN(check_other_image(model, &image));
    status = wrap_layers(&kv, model, &image, segment);
    if (status == PC_ERR_MISMATCH)
        status = copy_layers(&kv, model, &image);
    if (status < 0)
        return status;
    kv->rope_regime = image.form.regime;
    kv->origin = image.form.origin;
    PC__TRY_RETURN(pc__wrap_segment(out, model, kv, 0, segment->token_ids, segment->tokens));
    (*out)->lossy = segment->lossy;
    (*out)->other_kernels = segment->other_kernels;
    atomic_store_explicit(&(*out)->tier, atomic_load_explicit(&segment->tier, memory_order_relaxed),
                          memory_order_relaxed);
    status = visibility ? pc__segment_set_visibility(*out, visibility) : PC_OK;
    if (status < 0) {
        pc__segment_unref(*out);
        *out = NULL;
    }
    return status;
}

pc_status pc__spans_of_model(pc_span **out, const pc_model *model, const pc_span *spans,
                             size_t count)
{
    pc_span *own;
    pc_status status;
    own = pc__calloc(&model->context->mem, count, sizeof *own);
    status = own ? PC_OK : PC_ERR_NOMEM;
    *out = NULL;
    for (size_t i = 0; i < count && status >= 0; i++) {
        pc_segment *segment = spans[i].segment, *own_segment = NULL;
        own[i] = spans[i];
        status = segment ? pc__segment_of_model(&own_segment, model, segment) : PC_OK;
        if (status < 0 && status != PC_ERR_NOMEM) { /* the caller says where it stands */
            own_segment = pc__segment_ref(segment);
            status = PC_OK;
        }
        own[i].segment = own_segment;
    }
    if (status < 0 && own)
        pc__spans_free(own, count, model);
    else
        *out = own;
    return status;
}

void pc__spans_free(pc_span *spans, size_t count, const pc_model *model)
{
    pc__spans_let_go(spans, sizeof *spans, count);
    pc__free(&model->context->mem, spans);
}

void pc__segment_image(pc__image *image, const pc_model *model, const pc__segment_facts *facts)
{
    memset(image, 0, sizeof *image);
    pc__image_set_model(image, model);
    image->block_count = 1;
    image->most_block = most_exported(model, facts->count);
    if (pc__model_is_native(model) || pc__model_has_layers(model)) {
        pc__kv_shape shape = pc__model_segment_shape(model);
        image->form.shape = shape;
        if (pc__model_is_native(model))
            set_native(image, &shape);
        image->block_count = (size_t)shape.layers;
        image->most_block = pc__kv_layer_bytes(&shape, facts->count);
    }
    image->key = *facts->key;
    image->salt = *facts->salt;
    image->has_content = facts->content != NULL;
    if (facts->content)
        image->content = *facts->content;
    image->has_parent = facts->parent != NULL;
    if (facts->parent)
        image->parent = *facts->parent;
    image->encoding = facts->encoding;
    image->form.regime = facts->regime;
    image->form.origin = pc__key_offset(model, facts->start);
    image->tokens = facts->count;
    image->token_ids = facts->tokens;
}

uint64_t pc__segment_bytes(const pc_model *model, size_t tokens)
{
    if (!pc__model_is_native(model))
        return tokens * model->info.kv_bytes_per_token;
    pc__kv_shape shape = pc__model_segment_shape(model);
    return sizeof(pc__kv) + pc__kv_layer_bytes(&shape, tokens) * (uint64_t)shape.layers;
}
