/* K/V runs: their memory, growth, positions and references, and zeros beyond their tokens. The
 * pages are written by kv_page.c and the owners of runs. */
#include "attn/kv.h"

#include <string.h>

#include "attn/kv_device.h"
#include "attn/kv_mirror.h"
#include "attn/kv_page.h"

static size_t round_up(size_t x, size_t to)
{
    return (x + to - 1) / to * to;
}

int pc__kv_dtype_known(uint32_t dtype)
{
    return dtype >= PC_DTYPE_F32 && dtype <= PC_DTYPE_I8;
}

size_t pc__kv_k_bytes(const pc__kv_shape *shape)
{
    size_t dim = (size_t)shape->k_dim;
    switch (shape->dtype) {
    case PC_DTYPE_F32:
        return round_up(dim * PC__PAGE * 4, 64);
    case PC_DTYPE_I8:
        return round_up(pc__i8_k_scales(dim) + 2 * dim, 64);
    default:
        return round_up(round_up(dim, 2) * PC__PAGE * 2, 64);
    }
}

static size_t v_bytes(const pc__kv_shape *shape)
{
    size_t dim = (size_t)shape->v_dim;
    if (shape->latent)
        return 0;
    switch (shape->dtype) {
    case PC_DTYPE_F32:
        return round_up(dim * PC__PAGE * 4, 64);
    case PC_DTYPE_I8:
        return round_up(pc__i8_v_scales(dim) + 2 * PC__PAGE, 64);
    default:
        return round_up(dim * PC__PAGE * 2, 64);
    }
}

size_t pc__kv_page_bytes(const pc__kv_shape *shape)
{
    return pc__kv_k_bytes(shape) + v_bytes(shape);
}

size_t pc__kv_layer_page_bytes(const pc__kv_shape *shape)
{
    return pc__kv_page_bytes(shape) * (size_t)shape->kv_heads;
}

static size_t pages_of(size_t tokens)
{
    return tokens / PC__PAGE + (tokens % PC__PAGE != 0);
}

size_t pc__kv_layer_bytes(const pc__kv_shape *shape, size_t tokens)
{
    size_t bytes;
    return __builtin_mul_overflow(pages_of(tokens), pc__kv_layer_page_bytes(shape), &bytes) ? 0
                                                                                            : bytes;
}

size_t pc__kv_bytes(const pc__kv *kv)
{
    const pc__kv_device *device = kv->home ? atomic_load(&((pc__kv *)(uintptr_t)kv)->device) : NULL;
    size_t own = kv->release_owner || kv->home ? 0
                                               : kv->pages * pc__kv_layer_page_bytes(&kv->shape);
    return sizeof *kv + own * (size_t)kv->shape.layers + (device ? pc__kv_device_bytes(device) : 0)
           + (kv->relative ? kv->pages * PC__PAGE * sizeof *kv->relative : 0);
}

static pc_status check_kv_shape(const pc__kv_shape *s)
{
    if (s->layers < 1 || s->kv_heads < 1 || s->k_dim < 1 || s->v_dim < 1 || s->k_dim > PC__MAX_HEAD
        || s->v_dim > PC__MAX_HEAD)
        return pc__fail(PC_ERR_INVALID,
                        "K/V shape is invalid: %d layers, %d heads, %d and %d dimensions",
                        s->layers, s->kv_heads, s->k_dim, s->v_dim);
    if (s->latent && s->v_dim > s->k_dim)
        return pc__fail(PC_ERR_INVALID,
                        "K/V shape is invalid: %d latent values in keys of %d dimensions", s->v_dim,
                        s->k_dim);
    if (!pc__kv_dtype_known(s->dtype))
        return pc__fail(PC_ERR_UNSUPPORTED, "K/V of unknown dtype %u", s->dtype);
    return PC_OK;
}

/* If a layer cannot grow, kv->pages stays as it was; layers that already grew are merely larger. */
static pc_status grow_pages(pc__kv *kv, size_t pages)
{
    size_t old = kv->pages * pc__kv_layer_page_bytes(&kv->shape), bytes;
    if (pages <= kv->pages)
        return PC_OK;
    if (__builtin_mul_overflow(pages, pc__kv_layer_page_bytes(&kv->shape), &bytes))
        return pc__fail(PC_ERR_NOMEM, "out of memory (%zu pages)", pages);
    if (kv->relative) {
        int64_t *moved = pc__realloc(&kv->mem, kv->relative, pages * PC__PAGE * sizeof *moved);
        if (!moved)
            return PC_ERR_NOMEM;
        kv->relative = moved;
    }
    if (kv->home)
        return pc__kv_device_grow(kv, pages);
    for (int32_t l = 0; l < kv->shape.layers; l++) {
        uint8_t *moved = pc__alloc_aligned(&kv->mem, bytes, 64);
        if (!moved)
            return PC_ERR_NOMEM;
        if (old)
            memcpy(moved, kv->layer[l], old);
        memset(moved + old, 0, bytes - old); /* kernels read whole pages: padding must be finite */
        pc__free(&kv->mem, kv->layer[l]);
        kv->layer[l] = moved;
    }
    kv->pages = pages;
    return PC_OK;
}

static pc_status new_empty(pc__kv **out, const pc_allocator *mem, const pc__kv_shape *shape)
{
    pc__kv *kv;
    *out = NULL;
    PC__TRY_RETURN(check_kv_shape(shape));
    if (!(kv = pc__calloc(mem, 1, sizeof *kv)))
        return PC_ERR_NOMEM;
    atomic_init(&kv->references, 1);
    kv->mem = *mem;
    kv->shape = *shape;
    kv->layer = pc__calloc(mem, (size_t)shape->layers, sizeof *kv->layer);
    if (!kv->layer) {
        pc__kv_unref(kv);
        return PC_ERR_NOMEM;
    }
    *out = kv;
    return PC_OK;
}

static pc_status keep_or_drop(pc__kv **out, pc_status status)
{
    if (status < 0) {
        pc__kv_unref(*out);
        *out = NULL;
    }
    return status;
}

pc_status pc__kv_new(pc__kv **out, const pc_allocator *mem, const pc__kv_shape *shape,
                     size_t capacity_tokens)
{
    PC__TRY_RETURN(new_empty(out, mem, shape));
    return keep_or_drop(out, grow_pages(*out, pages_of(capacity_tokens)));
}

static pc_status allocate_positions(pc__kv *kv)
{
    kv->relative = pc__alloc(&kv->mem, kv->pages * PC__PAGE * sizeof *kv->relative);
    return kv->relative ? PC_OK : PC_ERR_NOMEM;
}

static pc_status copy_positions(pc__kv *kv, size_t tokens, const int64_t *relative)
{
    kv->tokens = tokens;
    if (!relative)
        return PC_OK;
    PC__TRY_RETURN(allocate_positions(kv));
    memcpy(kv->relative, relative, tokens * sizeof *relative);
    return PC_OK;
}

/* Checks and copies the given positions: ascending, none negative. */
static pc_status set_positions(pc__kv *kv, size_t tokens, const int64_t *relative)
{
    for (size_t i = 0; relative && i < tokens; i++)
        if (relative[i] < 0 || (i && relative[i] <= relative[i - 1]))
            return pc__fail(
                PC_ERR_MISMATCH,
                "K/V run: relative position %lld of token %zu is negative or not above the last",
                (long long)relative[i], i);
    return copy_positions(kv, tokens, relative);
}

/* One block, because it gets huge pages sooner: faulting in fresh memory page by page costs more
 * than reading into it. */
static pc_status allocate_slab(pc__kv *kv, size_t pages, size_t layers)
{
    size_t bytes, all;
    if (__builtin_mul_overflow(pages, pc__kv_layer_page_bytes(&kv->shape), &bytes)
        || __builtin_mul_overflow(bytes, layers, &all))
        return pc__fail(PC_ERR_NOMEM, "out of memory (%zu pages)", pages);
    kv->slab = pc__alloc_aligned(&kv->mem, all, 64);
    if (!kv->slab)
        return PC_ERR_NOMEM;
    for (size_t l = 0; l < (size_t)kv->shape.layers; l++)
        kv->layer[l] = kv->slab + l % layers * bytes;
    kv->pages = pages;
    return PC_OK;
}

pc_status pc__kv_new_unset(pc__kv **out, const pc_allocator *mem, const pc__kv_shape *shape,
                           size_t tokens, const int64_t *relative)
{
    PC__TRY_RETURN(new_empty(out, mem, shape));
    PC__TRY_RETURN(keep_or_drop(out, allocate_slab(*out, pages_of(tokens), (size_t)shape->layers)));
    return keep_or_drop(out, set_positions(*out, tokens, relative));
}

pc_status pc__kv_new_passing(pc__kv **out, const pc_allocator *mem, const pc__kv_shape *shape,
                             size_t tokens)
{
    PC__TRY_RETURN(new_empty(out, mem, shape));
    PC__TRY_RETURN(keep_or_drop(out, allocate_slab(*out, pages_of(tokens), 1)));
    (*out)->tokens = tokens;
    memset((*out)->slab, 0,
           (*out)->pages * pc__kv_layer_page_bytes(shape)); /* padding must be finite */
    return PC_OK;
}

pc_status pc__kv_wrap(pc__kv **out, const pc_allocator *mem, const pc__kv_shape *shape,
                      size_t tokens, const int64_t *relative, const void *const *pages, void *owner,
                      void (*release_owner)(void *owner))
{
    pc__kv *kv;
    pc_status status;
    PC__TRY_RETURN(new_empty(out, mem, shape));
    kv = *out;
    kv->pages = pages_of(tokens);
    status = set_positions(kv, tokens, relative);
    for (int32_t l = 0; status >= 0 && l < shape->layers; l++)
        if ((uintptr_t)pages[l] % 64)
            status = pc__fail(PC_ERR_MISMATCH, "K/V run: pages of layer %d are not 64-byte aligned",
                              l);
    if (status < 0)
        return keep_or_drop(out, status);
    for (int32_t l = 0; l < shape->layers; l++)
        kv->layer[l] = (uint8_t *)(uintptr_t)pages[l]; /* only pc__kv_clear_tail writes to them */
    kv->owner = owner;
    kv->release_owner = release_owner;
    return PC_OK;
}

const uint64_t *pc__kv_sizes(pc__kv *kv)
{
    size_t layers = (size_t)kv->shape.layers;
    uint64_t *sizes = atomic_load_explicit(&kv->sizes, memory_order_acquire), *none = NULL;
    if (sizes || !(sizes = pc__alloc(&kv->mem, layers * sizeof *sizes)))
        return sizes;
    for (size_t l = 0; l < layers; l++)
        sizes[l] = pc__kv_layer_bytes(&kv->shape, kv->tokens);
    if (atomic_compare_exchange_strong_explicit(&kv->sizes, &none, sizes, memory_order_acq_rel,
                                                memory_order_acquire))
        return sizes;
    pc__free(&kv->mem, sizes);
    return none;
}

void pc__kv_give_back(pc__kv *kv)
{
    atomic_store_explicit(&kv->give_back, 1, memory_order_relaxed);
}

void pc__kv_zero(pc__kv *kv)
{
    atomic_store_explicit(&kv->zero_at_end, 1, memory_order_relaxed);
}

pc_status pc__kv_like(pc__kv **out, const pc__kv *kv, uint32_t dtype)
{
    pc__kv *copy;
    pc__kv_shape shape = kv->shape;
    shape.dtype = dtype;
    PC__TRY_RETURN(pc__kv_new(out, &kv->mem, &shape, kv->tokens));
    copy = *out;
    copy->rope_regime = kv->rope_regime;
    copy->origin = kv->origin;
    copy->values_only = kv->values_only;
    return keep_or_drop(out, copy_positions(copy, kv->tokens, kv->relative));
}

pc_status pc__kv_copy(pc__kv **out, const pc__kv *kv)
{
    if (kv->home)
        return pc__kv_to_host(out, kv);
    pc_status status = pc__kv_like(out, kv, kv->shape.dtype);
    for (int32_t l = 0; status >= 0 && l < kv->shape.layers; l++)
        memcpy((*out)->layer[l], kv->layer[l], (*out)->pages * pc__kv_layer_page_bytes(&kv->shape));
    return status;
}

pc__kv *pc__kv_ref(pc__kv *kv)
{
    atomic_fetch_add_explicit(&kv->references, 1, memory_order_relaxed);
    return kv;
}

void pc__kv_unref(pc__kv *kv)
{
    if (!kv || atomic_fetch_sub_explicit(&kv->references, 1, memory_order_acq_rel) != 1)
        return;
    pc_allocator mem = kv->mem;
    void (*give)(const pc_allocator *, void *) = atomic_load_explicit(&kv->give_back,
                                                                      memory_order_relaxed)
                                                     ? pc__free_to_system
                                                     : pc__free;
    int own = !kv->release_owner,
        zeroed = own && atomic_load_explicit(&kv->zero_at_end, memory_order_relaxed);
    for (int32_t l = 0; own && kv->layer && l < kv->shape.layers; l++) {
        if (zeroed && kv->layer[l])
            memset(kv->layer[l], 0, kv->pages * pc__kv_layer_page_bytes(&kv->shape));
        if (!kv->slab)
            give(&mem, kv->layer[l]);
    }
    if (kv->slab)
        give(&mem, kv->slab);
    if (kv->home)
        pc__kv_device_free(atomic_load_explicit(&kv->device, memory_order_relaxed),
                           atomic_load_explicit(&kv->zero_at_end, memory_order_relaxed) != 0);
    else
        pc__kv_mirror_free(kv);
    if (!own)
        kv->release_owner(kv->owner);
    pc__free(&mem, kv->layer);
    pc__free(&mem, atomic_load_explicit(&kv->shown, memory_order_relaxed));
    pc__free(&mem, atomic_load_explicit(&kv->sizes, memory_order_relaxed));
    pc__free(&mem, kv->relative);
    pc__free(&mem, kv);
}

static int contiguous(const int64_t *relative, size_t first, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (relative[i] != (int64_t)(first + i))
            return 0;
    return 1;
}

static pc_status write_out_positions(pc__kv *kv)
{
    PC__TRY_RETURN(allocate_positions(kv));
    for (size_t i = 0; i < kv->tokens; i++)
        kv->relative[i] = (int64_t)i;
    return PC_OK;
}

static pc_status check_ascending(const pc__kv *kv, const int64_t *relative, size_t count)
{
    int64_t last = kv->tokens ? pc__kv_relative(kv, kv->tokens - 1) : INT64_MIN;
    for (size_t i = 0; i < count; i++) {
        if (relative[i] <= last)
            return pc__fail(PC_ERR_INVALID, "K/V run: relative position %lld is not above %lld",
                            (long long)relative[i], (long long)last);
        last = relative[i];
    }
    return PC_OK;
}

pc_status pc__kv_append(pc__kv *kv, const int64_t *relative, size_t count)
{
    size_t need = pages_of(kv->tokens + count);
    pc_status status;
    PC__TRY_RETURN(check_ascending(kv, relative, count));
    if (kv->shape.dtype == PC_DTYPE_I8)
        return pc__fail(PC_ERR_STATE, "K/V run: an int8 run cannot grow");
    if (kv->release_owner || kv->slab)
        return pc__fail(PC_ERR_STATE, "K/V run: a loaded or borrowed run cannot grow");
    if (need > kv->pages) {
        size_t grown = kv->pages + kv->pages / 2;
        PC__TRY_RETURN(grow_pages(kv, need > grown ? need : grown));
    }
    if (!kv->relative && !contiguous(relative, kv->tokens, count)
        && (status = write_out_positions(kv)) < 0)
        return status;
    if (kv->relative && count)
        memcpy(kv->relative + kv->tokens, relative, count * sizeof *relative);
    kv->tokens += count;
    return PC_OK;
}

/* Zeros the bytes, or (look) returns whether they are zero. */
static int zero(uint8_t *at, size_t size, int look)
{
    size_t i = 0;
    if (!look) {
        memset(at, 0, size);
        return 1;
    }
    while (i < size && !at[i])
        i++;
    return i == size;
}

/* Tokens [from, to) of V of one head: groups of `by` tokens are interleaved, element by element. */
static int zero_v(uint8_t *v, size_t dim, size_t from, size_t to, size_t by, int look)
{
    size_t size = 4 / by;
    int clear = 1;
    while (from < to && clear) {
        size_t place = from % by;
        uint8_t *group = v + from / by * dim * 4;
        if (!place && to - from >= by) {
            size_t groups = (to - from) / by;
            clear = zero(group, groups * dim * 4, look);
            from += groups * by;
            continue;
        }
        for (size_t d = 0; d < dim && clear; d++)
            clear = zero(group + (d * by + place) * size, size, look);
        from++;
    }
    return clear;
}

/* Tokens [from, to) of a page of one head. In every format a token has 4 bytes in a row of K. */
static int zero_page(const pc__kv_shape *shape, uint8_t *page, size_t from, size_t to, int look)
{
    size_t by = shape->dtype == PC_DTYPE_F32 ? 1 : shape->dtype == PC_DTYPE_I8 ? 4 : 2;
    size_t rows = ((size_t)shape->k_dim + by - 1) / by, dim = (size_t)shape->v_dim;
    uint8_t *v = page + pc__kv_k_bytes(shape);
    int clear = 1;
    for (size_t r = 0; r < rows && clear; r++)
        clear = zero(page + (r * PC__PAGE + from) * 4, (to - from) * 4, look);
    if (shape->latent)
        return clear;
    if (clear)
        clear = zero_v(v, dim, from, to, by, look);
    if (clear && shape->dtype == PC_DTYPE_I8)
        clear = zero(v + pc__i8_v_scales(dim) + 2 * from, 2 * (to - from), look);
    return clear;
}

void pc__page_zero(const pc__kv_shape *shape, uint8_t *page, size_t from, size_t to)
{
    for (size_t h = 0; h < (size_t)shape->kv_heads; h++)
        zero_page(shape, page + h * pc__kv_page_bytes(shape), from, to, 0);
}

static int zero_layer(const pc__kv *kv, size_t layer, size_t from, size_t to, int look)
{
    size_t bytes = pc__kv_page_bytes(&kv->shape), heads = (size_t)kv->shape.kv_heads;
    int clear = 1;
    for (size_t at = from, end; at < to && clear; at = end) {
        size_t page = at / PC__PAGE, first = page * PC__PAGE;
        end = to < first + PC__PAGE ? to : first + PC__PAGE;
        for (size_t h = 0; h < heads && clear; h++)
            clear = zero_page(&kv->shape, kv->layer[layer] + (page * heads + h) * bytes, at - first,
                              end - first, look);
    }
    return clear;
}

int pc__kv_tail_is_clear(const pc__kv *kv, size_t layer)
{
    return zero_layer(kv, layer, kv->tokens, pages_of(kv->tokens) * PC__PAGE, 1);
}

/* Borrowed pages are checked first: writing to a mapped file's page makes a private copy of it. */
void pc__kv_clear_tail(pc__kv *kv, size_t layer)
{
    if (!kv->release_owner || !pc__kv_tail_is_clear(kv, layer))
        zero_layer(kv, layer, kv->tokens, pages_of(kv->tokens) * PC__PAGE, 0);
}

void pc__kv_truncate(pc__kv *kv, size_t tokens)
{
    size_t old = kv->tokens;
    if (tokens >= old)
        return;
    kv->tokens = tokens;
    if (kv->home) {
        pc__kv_device_zero(kv, tokens, old);
        return;
    }
    for (size_t l = 0; !kv->release_owner && l < (size_t)kv->shape.layers; l++)
        zero_layer(kv, l, tokens, old, 0);
}

int64_t pc__kv_relative(const pc__kv *kv, size_t token)
{
    return kv->relative ? kv->relative[token] : (int64_t)token;
}

size_t pc__kv_upto(const pc__kv *kv, int64_t relative)
{
    size_t lo = 0, hi = kv->tokens;
    if (!kv->relative)
        return relative < 0 ? 0 : relative >= (int64_t)hi ? hi : (size_t)relative + 1;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        if (kv->relative[mid] <= relative)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}
