/* Tables of pages in a backend's memory, and copies from and to the host. */
#include "attn/kv_device.h"

#include <string.h>

#include "attn/backend.h"
#include "attn/kv_page.h"

static pc__kv_device *device_of(const pc__kv *kv)
{
    return atomic_load_explicit(&((pc__kv *)(uintptr_t)kv)->device, memory_order_acquire);
}

pc_status pc__kv_device_new(pc__kv_device **out, size_t size, pc__backend *backend,
                            size_t layer_stride)
{
    const pc_allocator *mem = &backend->context->mem;
    pc__kv_device *device = *out = pc__calloc(mem, 1, size);
    if (!device)
        return PC_ERR_NOMEM;
    device->backend = backend;
    pc__context_ref(backend->context);
    device->mem = *mem;
    device->layer_stride = layer_stride;
    return PC_OK;
}

void pc__kv_device_free(pc__kv_device *device, int zero)
{
    if (!device)
        return;
    pc_allocator mem = device->mem;
    for (size_t i = 0; i < device->block_count; i++) {
        if (zero)
            pc__backend_zero(device->backend, device->block[i], device->block_bytes[i]);
        device->backend->ops->give(device->backend, device->block[i]);
    }
    pc__free(&mem, device->page);
    pc__free(&mem, device->block);
    pc__free(&mem, device->block_bytes);
    pc__context_unref(device->backend->context);
    pc__free(&mem, device);
}

size_t pc__kv_device_bytes(const pc__kv_device *device)
{
    size_t bytes = 0;
    for (size_t i = 0; i < device->block_count; i++)
        bytes += device->block_bytes[i];
    return bytes;
}

/* Room in both lists of blocks, and in the table. */
static pc_status reserve_lists(pc__kv_device *d, size_t pages)
{
    size_t capacity = d->block_capacity;
    PC__TRY_RETURN(
        pc__grow(&d->mem, (void **)&d->block, &capacity, d->block_count + 1, sizeof *d->block));
    PC__TRY_RETURN(pc__grow(&d->mem, (void **)&d->block_bytes, &d->block_capacity,
                            d->block_count + 1, sizeof *d->block_bytes));
    return pc__grow(&d->mem, (void **)&d->page, &d->page_capacity, pages, sizeof(*d->page));
}

pc_status pc__kv_device_add(pc__kv_device *d, void *block, size_t bytes, size_t pages,
                            size_t page_stride)
{
    pc_status status = block ? reserve_lists(d, d->pages + pages) : PC_ERR_NOMEM;
    if (status < 0) {
        d->backend->ops->give(d->backend, block);
        return status;
    }
    d->block[d->block_count] = block;
    d->block_bytes[d->block_count++] = bytes;
    for (size_t i = 0; i < pages; i++)
        d->page[d->pages++] = (uint8_t *)block + i * page_stride;
    return PC_OK;
}

static pc_status add_zeroed(pc__kv_device *d, size_t bytes, size_t pages, size_t page_stride)
{
    void *block = d->backend->ops->take(d->backend, bytes);
    pc_status status = block ? pc__backend_zero(d->backend, block, bytes) : PC_OK;
    if (status < 0) {
        d->backend->ops->give(d->backend, block);
        return status;
    }
    return pc__kv_device_add(d, block, bytes, pages, page_stride);
}

pc_status pc__kv_device_grow(pc__kv *kv, size_t pages)
{
    pc__kv_device *d = device_of(kv);
    size_t each = pc__kv_layer_page_bytes(&kv->shape),
           layers = d->layer_stride ? (size_t)kv->shape.layers : 1;
    size_t bytes;
    if (pages <= d->pages)
        return PC_OK;
    if (__builtin_mul_overflow(pages - d->pages, each * layers, &bytes))
        return pc__fail(PC_ERR_NOMEM, "out of memory (%zu pages)", pages);
    PC__TRY_RETURN(add_zeroed(d, bytes, pages - d->pages, each * layers));
    kv->pages = d->pages;
    return PC_OK;
}

/* `layer_stride` 0: all layers share the pages. */
static pc_status new_at(pc__kv **out, pc__backend *backend, const pc__kv_shape *shape,
                        size_t tokens, size_t layer_stride)
{
    pc__kv_device *device = NULL;
    pc_status status;
    PC__TRY_RETURN(pc__kv_new(out, &backend->context->mem, shape, 0));
    PC__TRY(pc__kv_device_new(&device, sizeof *device, backend, layer_stride), failed);
    (*out)->home = backend;
    atomic_store_explicit(&(*out)->device, device, memory_order_release);
    PC__TRY(pc__kv_device_grow(*out, tokens / PC__PAGE + (tokens % PC__PAGE != 0)), failed);
    return PC_OK;
failed:
    pc__kv_unref(*out);
    *out = NULL;
    return status;
}

pc_status pc__kv_new_at(pc__kv **out, pc__backend *backend, const pc__kv_shape *shape,
                        size_t capacity_tokens)
{
    if (pc__host_sees(backend))
        return pc__kv_new(out, &backend->context->mem, shape, capacity_tokens);
    return new_at(out, backend, shape, capacity_tokens, pc__kv_layer_page_bytes(shape));
}

pc_status pc__kv_new_passing_at(pc__kv **out, pc__backend *backend, const pc__kv_shape *shape,
                                size_t tokens)
{
    if (pc__host_sees(backend))
        return pc__kv_new_passing(out, &backend->context->mem, shape, tokens);
    PC__TRY_RETURN(new_at(out, backend, shape, tokens, 0));
    (*out)->tokens = tokens;
    return PC_OK;
}

/* Zeros tokens of one page by way of the host: this is rare. */
static pc_status zero_tokens(pc__kv_device *d, const pc__kv_shape *shape, uint8_t *page,
                             uint8_t *scratch, size_t from, size_t to)
{
    size_t each = pc__kv_layer_page_bytes(shape);
    PC__TRY_RETURN(pc__backend_copy(d->backend, scratch, page, each));
    pc__page_zero(shape, scratch, from, to);
    return pc__backend_copy(d->backend, page, scratch, each);
}

pc_status pc__kv_device_zero(pc__kv *kv, size_t from, size_t to)
{
    pc__kv_device *d = device_of(kv);
    size_t layers = d->layer_stride ? (size_t)kv->shape.layers : 1;
    uint8_t *scratch = pc__alloc_aligned(&kv->mem, pc__kv_layer_page_bytes(&kv->shape), 64);
    pc_status status = scratch ? PC_OK : PC_ERR_NOMEM;
    for (size_t at = from, end; at < to && status >= 0; at = end) {
        size_t page = at / PC__PAGE, first = page * PC__PAGE;
        end = to < first + PC__PAGE ? to : first + PC__PAGE;
        for (size_t l = 0; l < layers && status >= 0; l++)
            status = zero_tokens(d, &kv->shape, d->page[page] + l * d->layer_stride, scratch,
                                 at - first, end - first);
    }
    pc__free(&kv->mem, scratch);
    return status;
}

static size_t used_pages(const pc__kv *kv)
{
    return (kv->tokens + PC__PAGE - 1) / PC__PAGE;
}

/* Copies the used pages of all layers to host memory. */
static pc_status fetch_layers(const pc__kv *kv, uint8_t *const *layers)
{
    const pc__kv_device *d = device_of(kv);
    size_t each = pc__kv_layer_page_bytes(&kv->shape);
    pc__stream *stream = pc__backend_stream(d->backend);
    for (size_t l = 0; l < (size_t)kv->shape.layers; l++)
        for (size_t p = 0; p < used_pages(kv); p++)
            stream->ops->copy(stream, layers[l] + p * each, d->page[p] + l * d->layer_stride, each);
    return pc__backend_stream_end(stream);
}

pc_status pc__kv_fetch(const pc__kv *kv, uint8_t ***layers)
{
    size_t count = (size_t)kv->shape.layers, table = (count * sizeof(**layers) + 63) / 64 * 64,
           bytes = pc__kv_layer_bytes(&kv->shape, kv->tokens);
    uint8_t *memory = pc__alloc_aligned(&kv->mem, table + count * bytes, 64);
    pc_status status = memory ? PC_OK : PC_ERR_NOMEM;
    *layers = (uint8_t **)(void *)memory;
    for (size_t l = 0; l < count && memory; l++)
        (*layers)[l] = memory + table + l * bytes;
    if (memory)
        status = fetch_layers(kv, *layers);
    if (status < 0) {
        pc__free(&kv->mem, memory);
        *layers = NULL;
    }
    return status;
}

pc_status pc__kv_show(pc__kv *kv, uint8_t ***layers)
{
    uint8_t **none = NULL;
    *layers = kv->home ? atomic_load_explicit(&kv->shown, memory_order_acquire) : kv->layer;
    if (*layers)
        return PC_OK;
    PC__TRY_RETURN(pc__kv_fetch(kv, layers));
    if (!atomic_compare_exchange_strong_explicit(&kv->shown, &none, *layers, memory_order_acq_rel,
                                                 memory_order_acquire)) {
        pc__free(&kv->mem, *layers);
        *layers = none;
    }
    return PC_OK;
}

pc_status pc__kv_to_device(pc__kv *kv, const pc__kv *from)
{
    size_t each = pc__kv_layer_page_bytes(&kv->shape);
    for (size_t i = 0; i < from->tokens; i++) {
        int64_t relative = pc__kv_relative(from, i);
        PC__TRY_RETURN(pc__kv_append(kv, &relative, 1));
    }
    pc__stream *stream = pc__backend_stream(kv->home);
    for (size_t page = 0; page < used_pages(from); page++)
        for (size_t l = 0; l < (size_t)kv->shape.layers; l++)
            stream->ops->copy(stream, pc__kv_page_at(kv, page) + l * pc__kv_layer_stride(kv),
                              from->layer[l] + page * each, each);
    return pc__backend_stream_end(stream);
}

pc_status pc__kv_to_host(pc__kv **out, const pc__kv *kv)
{
    pc_status status;
    if (!kv->home) {
        *out = pc__kv_ref((pc__kv *)(uintptr_t)kv);
        return PC_OK;
    }
    PC__TRY_RETURN(pc__kv_like(out, kv, kv->shape.dtype));
    status = fetch_layers(kv, (*out)->layer);
    if (status < 0) {
        pc__kv_unref(*out);
        *out = NULL;
    }
    return status;
}
