/* An application's model whose states leave it and come back layer by layer (ops.export_layer and
 * import_layer): PC_LAYOUT_MODEL_PAGES, a block of pages a layer, so that every codec takes them.
 *
 * A writer fetches one layer after the other, so one layer at a time is in memory beside the
 * segment. A reader's threads bring blocks in any order; whoever brings the next one gives it to
 * the model, with all behind it that are there, and frees them. */
#include <promptcache/attend.h>
#include <string.h>

#include "model/model_states.h"
#include "serve/segment_image_internal.h"

/* K and V of one layer as the model has them. */
typedef struct layer_room {
    uint8_t *k, *v;
} layer_room;

static size_t side_bytes(const pc__kv_shape *shape, size_t tokens, int32_t dim)
{
    size_t number = shape->dtype == PC_DTYPE_F32 ? sizeof(float) : sizeof(uint16_t);
    return tokens * (size_t)shape->kv_heads * (size_t)dim * number;
}

static size_t aligned(size_t bytes)
{
    return (bytes + 63) / 64 * 64;
}

static size_t room_bytes(const pc__kv_shape *shape, size_t tokens)
{
    return aligned(side_bytes(shape, tokens, shape->k_dim))
           + aligned(side_bytes(shape, tokens, shape->v_dim));
}

static layer_room room_at(const pc__kv_shape *shape, size_t tokens, uint8_t *at)
{
    return (layer_room){at, at + aligned(side_bytes(shape, tokens, shape->k_dim))};
}

/* Writes the room to pages, or reads it from there. */
static pc_status move_pages(pc_status (*move)(const pc_pages_args *args), const pc__kv_shape *shape,
                            size_t tokens, uint8_t *pages, const layer_room *room)
{
    const pc_attend_shape of = {.struct_size = sizeof of,
                                .heads = shape->kv_heads,
                                .kv_heads = shape->kv_heads,
                                .k_dim = shape->k_dim,
                                .v_dim = shape->v_dim,
                                .dtype = shape->dtype};
    const pc_pages_args args = {.struct_size = sizeof args,
                                .shape = &of,
                                .pages = pages,
                                .count = tokens,
                                .k = room->k,
                                .v = room->v,
                                .dtype = shape->dtype,
                                .layout = PC_KV_NHD};
    return move(&args);
}

static pc_layer_states states_of(const pc__kv_shape *shape, size_t layer, size_t tokens,
                                 const int32_t *ids, int64_t origin, const layer_room *room)
{
    return (pc_layer_states){.struct_size = sizeof(pc_layer_states),
                             .layer = (int32_t)layer,
                             .dtype = shape->dtype,
                             .kv_heads = shape->kv_heads,
                             .k_dim = shape->k_dim,
                             .v_dim = shape->v_dim,
                             .tokens = ids,
                             .count = tokens,
                             .origin = origin,
                             .k = room->k,
                             .v = room->v};
}

/* ------------------------------------------------------------------ out */

/* In one allocation with the sizes of blocks, one block, and the room of a layer. */
typedef struct layer_export {
    const pc_model *model;
    void *segment;
    pc__kv_shape shape;
    size_t tokens;
    const int32_t *ids;
    int64_t origin;
    uint8_t *block;
    layer_room room;
    uint64_t sizes[]; /* [layers] */
} layer_export;

static pc_status export_layer(void *from, size_t index, const void **data)
{
    layer_export *x = from;
    const pc_model *model = x->model;
    pc_layer_states states = states_of(&x->shape, index, x->tokens, x->ids, x->origin, &x->room);
    pc_status status;
    pc__model_enter(model, PC_OVERLAP_STATES);
    status = model->ops.export_layer(model->user, x->segment, &states);
    pc__model_leave(model, PC_OVERLAP_STATES);
    *data = x->block;
    if (status < 0)
        return pc__model_status(model, "export_layer", status);
    memset(x->block, 0, (size_t)x->sizes[index]); /* also what is behind the last token */
    return move_pages(pc_pages_write, &x->shape, x->tokens, x->block, &x->room);
}

/* Everything in it is for tokens [1, 2^32), so sizes do not wrap where size_t has 64 bits. */
static pc_status describe_layers(void *owner, void *payload, pc__image *image, void **release_me)
{
    const pc_model *model = owner;
    pc__kv_shape shape = pc__model_segment_shape(model);
    size_t layers = (size_t)shape.layers, bytes = pc__kv_layer_bytes(&shape, image->tokens),
           head = aligned(sizeof(layer_export) + layers * sizeof(uint64_t));
    layer_export *x;
    *release_me = NULL;
    if (!bytes)
        return pc__fail(PC_ERR_LIMIT, "a segment of %zu tokens has no layers", image->tokens);
    x = pc__alloc_aligned(&model->context->mem,
                          head + aligned(bytes) + room_bytes(&shape, image->tokens), 64);
    if (!x)
        return PC_ERR_NOMEM;
    *x = (layer_export){.model = model,
                        .segment = payload,
                        .shape = shape,
                        .tokens = image->tokens,
                        .ids = image->token_ids,
                        .origin = image->form.origin,
                        .block = (uint8_t *)x + head};
    x->room = room_at(&shape, image->tokens, x->block + aligned(bytes));
    for (size_t l = 0; l < layers; l++)
        x->sizes[l] = bytes;
    pc__image_set_model(image, model);
    image->form.shape = shape;
    image->block_count = layers;
    image->block_bytes = x->sizes;
    image->blocks = NULL;
    image->fetch = export_layer;
    image->fetch_from = x;
    *release_me = x;
    return PC_OK;
}

/* ------------------------------------------------------------------ in */

typedef struct layer_import {
    pc__import base;
    pc__kv_shape shape;
    size_t tokens, bytes; /* of a block */
    const int32_t *ids;   /* the image's, which lives as long as this */
    int64_t origin;
    pthread_mutex_t lock; /* of what follows */
    size_t done;          /* layers that the model has */
    int importing;        /* a thread is giving it layers */
    pc_status status;     /* of the layer that did not go in */
    void *segment;        /* the model's; NULL before the first layer */
    layer_room room;
    uint8_t *memory;  /* of room */
    uint8_t **blocks; /* [layers]; NULL: given to the model */
    uint8_t *ready;   /* [layers] */
} layer_import;

static void free_block(const pc_allocator *mem, layer_import *i, size_t layer)
{
    if (i->blocks && i->blocks[layer])
        memset(i->blocks[layer], 0, i->bytes); /* another tenant may get the memory next */
    if (i->blocks) {
        pc__free(mem, i->blocks[layer]);
        i->blocks[layer] = NULL;
    }
}

static void free_import(const pc_model *model, layer_import *i)
{
    const pc_allocator *mem = &model->context->mem;
    for (size_t l = 0; l < (size_t)i->shape.layers; l++)
        free_block(mem, i, l);
    if (i->memory)
        memset(i->memory, 0, room_bytes(&i->shape, i->tokens));
    pc__free(mem, i->memory);
    pc__free(mem, i->blocks);
    pc__free(mem, i->ready);
    pthread_mutex_destroy(&i->lock);
    pc__free(mem, i);
}

static pc_status check_blocks(const pc_model *model, const pc__image *image)
{
    pc__kv_shape shape = pc__model_segment_shape(model);
    size_t bytes = pc__kv_layer_bytes(&shape, image->tokens);
    PC__TRY_RETURN(pc__image_check_model(model, image));
    if (memcmp(&image->form.shape, &shape, sizeof shape) != 0
        || image->block_count != (size_t)shape.layers)
        return pc__image_refuse("shape");
    for (size_t b = 0; b < image->block_count; b++)
        if (!bytes || image->block_bytes[b] != bytes)
            return pc__image_refuse("size of a block");
    return PC_OK;
}

static pc_status reserve_import(const pc_model *model, layer_import *i)
{
    const pc_allocator *mem = &model->context->mem;
    size_t layers = (size_t)i->shape.layers;
    i->blocks = pc__calloc(mem, layers, sizeof(*i->blocks));
    i->ready = pc__calloc(mem, layers, 1);
    i->memory = pc__alloc_aligned(mem, room_bytes(&i->shape, i->tokens), 64);
    if (!i->blocks || !i->ready || !i->memory)
        return PC_ERR_NOMEM;
    i->room = room_at(&i->shape, i->tokens, i->memory);
    for (size_t l = 0; l < layers; l++)
        if (!(i->blocks[l] = pc__alloc_aligned(mem, i->bytes, 64)))
            return PC_ERR_NOMEM;
    return PC_OK;
}

static pc_status create_layers(void *owner, const pc__image *image, void **payload,
                               uint8_t **blocks)
{
    pc_model *model = owner;
    layer_import *i;
    *payload = NULL;
    PC__TRY_RETURN(check_blocks(model, image));
    i = pc__calloc(&model->context->mem, 1, sizeof *i);
    if (!i)
        return PC_ERR_NOMEM;
    pthread_mutex_init(&i->lock, NULL);
    i->shape = pc__model_segment_shape(model);
    i->tokens = image->tokens;
    i->bytes = (size_t)image->block_bytes[0];
    i->ids = image->token_ids;
    i->origin = image->form.origin;
    if (reserve_import(model, i) < 0) {
        free_import(model, i);
        return PC_ERR_NOMEM;
    }
    memcpy(blocks, i->blocks, image->block_count * sizeof(*blocks));
    pc__import_put(model, &i->base);
    *payload = i;
    return PC_OK;
}

static pc_status import_layer(const pc_model *model, layer_import *i, size_t layer)
{
    pc_layer_states states = states_of(&i->shape, layer, i->tokens, i->ids, i->origin, &i->room);
    pc_status status;
    PC__TRY_RETURN(move_pages(pc_pages_read, &i->shape, i->tokens, i->blocks[layer], &i->room));
    pc__model_enter(model, PC_OVERLAP_STATES);
    status = model->ops.import_layer(model->user, &states, &i->segment);
    pc__model_leave(model, PC_OVERLAP_STATES);
    status = pc__model_status(model, "import_layer", status);
    if (status >= 0 && !i->segment)
        status = pc__fail(PC_ERR_INTERNAL, "the model's import_layer gave no segment");
    if (status >= 0)
        free_block(&model->context->mem, i, layer);
    return status;
}

/* Under the lock, which it gives up while the model works. */
static void import_ready(const pc_model *model, layer_import *i)
{
    i->importing = 1;
    while (i->status >= 0 && i->done < (size_t)i->shape.layers && i->ready[i->done]) {
        pc_status status;
        pthread_mutex_unlock(&i->lock);
        status = import_layer(model, i, i->done);
        pthread_mutex_lock(&i->lock);
        if (status < 0)
            i->status = status;
        else
            i->done++;
    }
    i->importing = 0;
}

static void layer_ready(void *owner, void *payload, size_t index)
{
    layer_import *i = payload;
    pthread_mutex_lock(&i->lock);
    i->ready[index] = 1;
    if (!i->importing)
        import_ready(owner, i);
    pthread_mutex_unlock(&i->lock);
}

/* A layer that did not go in is tried once more, here, so that the error is this thread's. */
static pc_status finish_layers(void *owner, const pc__image *image, void **payload)
{
    pc_model *model = owner;
    layer_import *i = (layer_import *)pc__import_take(model, *payload);
    pc_status status;
    (void)image;
    if (!i)
        return PC_OK; /* imported already */
    pthread_mutex_lock(&i->lock);
    i->status = PC_OK;
    import_ready(model, i);
    status = i->status;
    pthread_mutex_unlock(&i->lock);
    if (status < 0) {
        pc__import_put(model, &i->base); /* the caller releases it */
        return status;
    }
    *payload = i->segment;
    free_import(model, i);
    return PC_OK;
}

static void release_layers(void *owner, void *payload)
{
    layer_import *i = (layer_import *)pc__import_take(owner, payload);
    if (!i) {
        pc__handle_release(owner, payload);
        return;
    }
    if (i->segment)
        pc__handle_release(owner, i->segment);
    free_import(owner, i);
}

const pc__payload_ops pc__layers_payload = {
    .release = release_layers,
    .drop_owner = pc__handle_drop_model,
    .describe = describe_layers,
    .create = create_layers,
    .block_ready = layer_ready,
    .finish = finish_layers,
};
