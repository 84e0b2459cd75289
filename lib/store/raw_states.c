/* Payloads of raw states, in our memory or elsewhere (raw_states.h). */
#include "store/raw_states.h"

#include <promptcache/cache.h>
#include <string.h>

#include "attn/kv.h"

/* This struct, its tables and, if we own them, the states are one block of memory. */
typedef struct raw_states {
    pc_allocator mem;
    pc__image image; /* points into this block; names are not set */
    /* The states in our memory, each block on its own cache lines; NULL: they are elsewhere. */
    uint8_t *own;
    size_t own_bytes;
    atomic_uint zero_memory, free_to_system;
    void (*release)(void *user); /* of states elsewhere; may be NULL */
    void *user;
} raw_states;

static void free_states(void *owner, void *payload)
{
    raw_states *s = payload;
    pc_allocator mem = s->mem;
    void (*release)(void *) = s->release;
    void *user = s->user;
    (void)owner;
    if (s->own && atomic_load_explicit(&s->zero_memory, memory_order_relaxed))
        memset(s->own, 0, s->own_bytes);
    (atomic_load_explicit(&s->free_to_system, memory_order_relaxed) ? pc__free_to_system
                                                                    : pc__free)(&mem, s->own);
    pc__free(&mem, s);
    if (release)
        release(user);
}

static void drop_context(void *owner)
{
    pc__context_unref(owner);
}

static size_t round_64(size_t size)
{
    return (size + 63) / 64 * 64;
}

/* All but the states; the tables of blocks are empty. */
static pc_status new_states(raw_states **out, const pc_allocator *mem, const pc__image *image)
{
    size_t relative_count = image->relative ? image->tokens : 0, blocks = image->block_count;
    uint8_t **table;
    uint64_t *sizes;
    raw_states *s = pc__calloc(mem, 1,
                               sizeof *s + relative_count * sizeof *image->relative
                                   + blocks * (sizeof *sizes + sizeof(*table)));
    *out = s;
    if (!s)
        return PC_ERR_NOMEM;
    s->mem = *mem;
    s->image = *image;
    s->image.token_ids = NULL; /* the segment's */
    sizes = (uint64_t *)(void *)(s + 1);
    table = (uint8_t **)(void *)(sizes + blocks);
    memcpy(sizes, image->block_bytes, blocks * sizeof *sizes);
    s->image.block_bytes = sizes;
    s->image.blocks = table;
    if (relative_count)
        s->image.relative = memcpy(table + blocks, image->relative,
                                   relative_count * sizeof *image->relative);
    return PC_OK;
}

static void set_blocks(raw_states *s, const void *const *blocks)
{
    memcpy((void *)(uintptr_t)s->image.blocks, blocks, s->image.block_count * sizeof *blocks);
}

static pc_status describe_states(void *owner, void *payload, pc__image *image, void **release_me)
{
    const raw_states *s = payload;
    (void)owner;
    *release_me = NULL;
    image->form = s->image.form;
    image->tokens = s->image.tokens;
    image->relative = s->image.relative;
    image->block_count = s->image.block_count;
    image->blocks = s->image.blocks;
    image->block_bytes = s->image.block_bytes;
    return PC_OK;
}

static pc_status states_bytes(const pc__image *image, size_t *total)
{
    *total = 0;
    for (size_t b = 0; b < image->block_count; b++)
        if (image->block_bytes[b] > SIZE_MAX / 2
            || __builtin_add_overflow(*total, round_64((size_t)image->block_bytes[b]), total))
            return pc__fail(PC_ERR_MISMATCH, "states of a record: block %zu of %llu bytes", b,
                            (unsigned long long)image->block_bytes[b]);
    return PC_OK;
}

static pc_status create_states(void *owner, const pc__image *image, void **payload,
                               uint8_t **blocks)
{
    const pc_context *context = owner;
    size_t total;
    raw_states *s;
    uint8_t *at;
    pc_status status = states_bytes(image, &total);
    *payload = NULL;
    if (status < 0 || (status = new_states(&s, &context->mem, image)) < 0)
        return status;
    s->own = at = pc__alloc_aligned(&context->mem, total, 64);
    s->own_bytes = total;
    if (!s->own) {
        free_states(owner, s);
        return PC_ERR_NOMEM;
    }
    for (size_t b = 0; b < image->block_count; b++)
        blocks[b] = pc__carve(&at, (size_t)image->block_bytes[b]);
    set_blocks(s, (const void *const *)blocks);
    *payload = s;
    return PC_OK;
}

static pc_status wrap_memory(void *owner, const pc__image *image, const void *const *blocks,
                             void *memory_owner, void (*release_memory)(void *memory_owner),
                             void **payload)
{
    const pc_context *context = owner;
    raw_states *s;
    pc_status status = new_states(&s, &context->mem, image);
    *payload = s;
    if (status < 0)
        return status;
    set_blocks(s, blocks);
    s->release = release_memory;
    s->user = memory_owner;
    return PC_OK;
}

/* The application zeroes and frees its own memory. */
static void free_to_system(void *owner, void *payload)
{
    (void)owner;
    atomic_store_explicit(&((raw_states *)payload)->free_to_system, 1, memory_order_relaxed);
}

static void zero_memory(void *owner, void *payload)
{
    (void)owner;
    atomic_store_explicit(&((raw_states *)payload)->zero_memory, 1, memory_order_relaxed);
}

/* Plain memory serves any context. */
static int serves_any(const void *owner, const void *other)
{
    (void)owner, (void)other;
    return 1;
}

void pc__image_raw(pc_raw *raw, const pc__image *image)
{
    const pc__image_form *form = &image->form;
    raw->model = form->model;
    memcpy(raw->architecture, form->architecture, sizeof raw->architecture);
    raw->position_scheme = form->position_scheme;
    raw->dtype = form->shape.dtype;
    raw->layout = form->layout;
    raw->layers = form->shape.layers;
    raw->kv_heads = form->shape.kv_heads;
    raw->k_dim = form->shape.k_dim;
    raw->v_dim = form->shape.v_dim;
    raw->rope_regime = form->regime;
    raw->relative = image->relative;
    raw->blocks = (const void *const *)image->blocks;
    raw->block_bytes = image->block_bytes;
    raw->block_count = image->block_count;
}

static pc_status show_raw(void *owner, void *payload, pc_raw *raw)
{
    (void)owner;
    pc__image_raw(raw, &((raw_states *)payload)->image);
    return PC_OK;
}

const pc__payload_ops pc__raw_payload = {
    .release = free_states,
    .drop_owner = drop_context,
    .describe = describe_states,
    .create = create_states,
    .wrap_memory = wrap_memory,
    .zero_memory = zero_memory,
    .free_to_system = free_to_system,
    .serves = serves_any,
    .raw = show_raw,
};

static pc__kv_shape shape_of(const pc_raw *r)
{
    return (pc__kv_shape){r->layers, r->kv_heads, r->k_dim,
                          r->v_dim,  r->dtype,    r->layout == PC_LAYOUT_LATENT};
}

static pc_status check_pages(const pc_raw *r, const char *call)
{
    pc__kv_shape shape = shape_of(r);
    if (r->layers < 1 || r->kv_heads < 1 || r->k_dim < 1 || r->v_dim < 1 || r->k_dim > PC__MAX_HEAD
        || r->v_dim > PC__MAX_HEAD || (shape.latent && r->v_dim > r->k_dim)
        || !pc__kv_dtype_known(r->dtype))
        return pc__fail(PC_ERR_INVALID,
                        "%s: pages of %d layers, %d K/V heads, dimensions %d and %d, dtype %u",
                        call, r->layers, r->kv_heads, r->k_dim, r->v_dim, r->dtype);
    if (r->block_count != (size_t)r->layers)
        return pc__fail(PC_ERR_INVALID, "%s: %zu blocks of pages, %d layers", call, r->block_count,
                        r->layers);
    for (size_t b = 0; b < r->block_count; b++)
        if (r->block_bytes[b] != pc__kv_layer_bytes(&shape, r->token_count))
            return pc__fail(PC_ERR_INVALID,
                            "%s: block %zu has %llu bytes, the pages of its %zu tokens %zu", call,
                            b, (unsigned long long)r->block_bytes[b], r->token_count,
                            pc__kv_layer_bytes(&shape, r->token_count));
    return PC_OK;
}

static pc_status check_blocks(const pc_raw *r, int expected, const char *call)
{
    if (!r->block_count || r->block_count > PC__MAX_BLOCKS || !r->block_bytes
        || (!expected && !r->blocks))
        return pc__fail(PC_ERR_INVALID,
                        "%s: %zu blocks (at most %d), or blocks or block_bytes is NULL", call,
                        r->block_count, PC__MAX_BLOCKS);
    for (size_t b = 0; b < r->block_count; b++)
        if (!r->block_bytes[b] || r->block_bytes[b] > SIZE_MAX / 2 || (!expected && !r->blocks[b]))
            return pc__fail(PC_ERR_INVALID, "%s: block %zu is NULL or has %llu bytes", call, b,
                            (unsigned long long)r->block_bytes[b]);
    return PC_OK;
}

static pc_status check_raw(const pc_raw *r, int expected, const char *call)
{
    pc_status status;
    if (!r->model || !r->tokens || !r->token_count || r->token_count > UINT32_MAX)
        return pc__fail(PC_ERR_INVALID,
                        "%s: raw.model or raw.tokens is NULL, or there are %zu tokens", call,
                        r->token_count);
    if (!memchr(r->architecture, 0, sizeof r->architecture)
        || r->position_scheme > PC_POSITION_LEARNED || r->lossy > 1)
        return pc__fail(
            PC_ERR_INVALID,
            "%s: raw.architecture has no NUL, or position_scheme %u or lossy %u is unknown", call,
            r->position_scheme, r->lossy);
    PC__TRY_RETURN(pc__check_kv_dtype(call, "raw.dtype", r->dtype));
    if (!pc__layout_is_ours(r->layout) && r->layout < PC_LAYOUT_APPLICATION)
        return pc__fail(PC_ERR_INVALID,
                        "%s: layout %u is neither one of pages nor an application's", call,
                        r->layout);
    if (r->layers < 0 || r->kv_heads < 0 || r->k_dim < 0 || r->v_dim < 0)
        return pc__fail(PC_ERR_INVALID, "%s: negative shape: %d, %d, %d, %d", call, r->layers,
                        r->kv_heads, r->k_dim, r->v_dim);
    for (size_t i = 0; r->relative && i < r->token_count; i++)
        if (r->relative[i] < 0 || (i && r->relative[i] <= r->relative[i - 1]))
            return pc__fail(PC_ERR_INVALID,
                            "%s: token %zu has relative position %lld; they increase from 0", call,
                            i, (long long)r->relative[i]);
    status = check_blocks(r, expected, call);
    return status < 0 || !pc__layout_has_pages(r->layout) ? status : check_pages(r, call);
}

pc_status pc__raw_image(pc__image *image, const pc_raw *raw, int expected, const char *call)
{
    pc_status status = check_raw(raw, expected, call);
    memset(image, 0, sizeof *image);
    if (status < 0)
        return status;
    memcpy(image->form.model, raw->model, sizeof image->form.model);
    strcpy(image->form.architecture, raw->architecture);
    image->form.position_scheme = raw->position_scheme;
    image->form.layout = raw->layout;
    image->form.regime = raw->rope_regime;
    image->form.shape = shape_of(raw);
    image->lossy = raw->lossy;
    image->tokens = raw->token_count;
    image->token_ids = raw->tokens;
    image->relative = raw->relative;
    image->block_count = raw->block_count;
    image->block_bytes = raw->block_bytes;
    return PC_OK;
}

pc_status pc__raw_check_segment(const pc_segment *segment, const pc__image *want)
{
    pc_raw raw = PC_RAW_INIT;
    pc__image have;
    pc_status status = pc_segment_raw(segment, &raw);
    if (status >= 0)
        status = pc__raw_image(&have, &raw, 1, "pc_cache_get");
    if (status < 0)
        return pc__fail_in(PC_ERR_MISMATCH, "the segment under this key");
    have.key = want->key;
    return pc__image_match(want, &have);
}

uint64_t pc__raw_copy_bytes(const pc__image *image)
{
    uint64_t bytes = sizeof(raw_states) + image->block_count * (sizeof(uint64_t) + sizeof(void *))
                     + (image->relative ? image->tokens * sizeof *image->relative : 0);
    for (size_t b = 0; b < image->block_count; b++)
        bytes += round_64((size_t)image->block_bytes[b]);
    return bytes;
}

pc_status pc__raw_copy(pc_segment **out, pc_context *context, const pc__image *image)
{
    const pc_allocator *mem = &context->mem;
    uint8_t **blocks = pc__calloc(mem, image->block_count, sizeof(*blocks));
    void *states = NULL;
    pc_status status = blocks ? create_states(context, image, &states, blocks) : PC_ERR_NOMEM;
    *out = NULL;
    for (size_t b = 0; b < image->block_count && status >= 0; b++)
        memcpy(blocks[b], image->blocks[b], (size_t)image->block_bytes[b]);
    if (status >= 0)
        status = pc__segment_new(out, mem, &pc__raw_payload, states, context,
                                 pc__raw_copy_bytes(image), image->token_ids, image->tokens);
    if (status >= 0) {
        pc__context_ref(context);
        (*out)->lossy = image->lossy;
    } else if (states) {
        free_states(NULL, states);
    }
    pc__free(mem, blocks);
    return status;
}

pc_status pc_segment_wrap(pc_segment **out, pc_context *context, const pc_raw *raw,
                          void (*release)(void *user), void *user)
{
    PC__HOLD(pc_context, context);
    pc_raw r;
    pc__image image;
    raw_states *s = NULL;
    pc_status status;
    if (!out)
        return pc__fail(PC_ERR_INVALID, "pc_segment_wrap: out is NULL");
    *out = NULL;
    if (!context || !raw)
        return pc__fail(PC_ERR_INVALID, "pc_segment_wrap: context or raw is NULL");
    PC__TRY(pc__options_read(&r, sizeof r, PC__V1_SIZE(pc_raw, block_count), raw, "pc_raw"), done);
    PC__TRY(pc__raw_image(&image, &r, 0, "pc_segment_wrap"), done);
    PC__TRY(new_states(&s, &context->mem, &image), done);
    set_blocks(s, r.blocks);
    /* What we allocate for it counts too. */
    PC__TRY(pc__segment_new(out, &context->mem, &pc__raw_payload, s, context,
                            sizeof *s + pc__image_bytes(&image), r.tokens, r.token_count),
            done);
    pc__context_ref(context);
    (*out)->lossy = r.lossy;
    s->release = release; /* set last: after a failure the memory is the caller's */
    s->user = user;
    s = NULL;
done:
    if (s)
        free_states(NULL, s);
    return status;
}

pc_status pc_segment_raw(const pc_segment *segment, pc_raw *raw)
{
    PC__HOLD(pc_segment, segment);
    pc_raw r = PC_RAW_INIT;
    if (!segment || !raw)
        return pc__fail(PC_ERR_INVALID, "pc_segment_raw: segment or raw is NULL");
    if (!segment->ops->raw)
        return pc__fail(PC_ERR_UNSUPPORTED,
                        "pc_segment_raw: the owner of this segment does not show its states");
    PC__TRY_RETURN(segment->ops->raw(segment->owner, segment->payload, &r));
    r.lossy |= segment->lossy;
    r.tokens = segment->token_ids;
    r.token_count = segment->tokens;
    return pc__result_write(raw, PC__V1_SIZE(pc_raw, block_count), &r, sizeof r, "pc_raw");
}
