/* The pages of a K/V run in the memory of a backend that the host does not see. A run is computed
 * either by the host (kv.home NULL), and may have a mirror there (kv_mirror.h), or by such a
 * backend, and has nothing on the host: pc__kv_to_host makes a copy.
 *
 * A table has the address of every page, so that a run grows without moving pages, and pages of
 * any size of block can be taken from the backend. Page i of layer l, with all its K/V heads, lies
 * at page[i] + l * layer_stride. */
#ifndef PC_ATTN_KV_DEVICE_H
#define PC_ATTN_KV_DEVICE_H

#include "attn/kv.h"

typedef struct pc__kv_device {
    pc__backend *backend;
    pc_allocator mem;
    uint8_t **page; /* [pages] */
    size_t pages, page_capacity;
    size_t layer_stride; /* bytes */
    void **block;        /* [block_count] memory of the backend */
    size_t *block_bytes;
    size_t block_count, block_capacity;
} pc__kv_device;

/* A run of the application, of one layer, whose pages are neighbours: pc__kv.home. */
static inline int pc__kv_is_view(const pc__kv *kv)
{
    return kv->home && !atomic_load(&((pc__kv *)(uintptr_t)kv)->device);
}

/* Where page `page` of layer 0 lies, in the backend's memory, and the bytes from there to the same
 * page in the next layer. */
static inline uint8_t *pc__kv_page_at(const pc__kv *kv, size_t page)
{
    const pc__kv_device *device = atomic_load(&((pc__kv *)(uintptr_t)kv)->device);
    return device ? device->page[page] : kv->layer[0] + page * pc__kv_layer_page_bytes(&kv->shape);
}

static inline size_t pc__kv_layer_stride(const pc__kv *kv)
{
    const pc__kv_device *device = atomic_load(&((pc__kv *)(uintptr_t)kv)->device);
    return device ? device->layer_stride : 0;
}

/* As pc__kv_new and pc__kv_new_passing (attn/kv.h), for runs that the backend computes. */
pc_status pc__kv_new_at(pc__kv **out, pc__backend *backend, const pc__kv_shape *shape,
                        size_t capacity_tokens);
pc_status pc__kv_new_passing_at(pc__kv **out, pc__backend *backend, const pc__kv_shape *shape,
                                size_t tokens);
/* Makes room for `pages`, zeroed; the pages so far stay where they are. */
pc_status pc__kv_device_grow(pc__kv *kv, size_t pages);
/* Zeros tokens [from, to) in all layers. */
pc_status pc__kv_device_zero(pc__kv *kv, size_t from, size_t to);

/* A table without pages; `size`: of the struct that begins with it. */
pc_status pc__kv_device_new(pc__kv_device **out, size_t size, pc__backend *backend,
                            size_t layer_stride);
/* Adds `pages` pages, `page_stride` bytes apart, in a block of `bytes` of the backend, which it
 * gives back if it fails. NULL: there was no memory. */
pc_status pc__kv_device_add(pc__kv_device *device, void *block, size_t bytes, size_t pages,
                            size_t page_stride);
size_t pc__kv_device_bytes(const pc__kv_device *device);
/* zero: overwrites the pages first. NULL does nothing. */
void pc__kv_device_free(pc__kv_device *device, int zero);

/* Copies all layers of such a run to the host: *layers [layers], each with the used pages, 64-byte
 * aligned, in one block of the run's allocator that begins with them. */
pc_status pc__kv_fetch(const pc__kv *kv, uint8_t ***layers);
/* Pages of all layers that the host can read as long as the run lives: its own, or a copy of a run
 * that no longer grows. Any thread. */
pc_status pc__kv_show(pc__kv *kv, uint8_t ***layers);
/* A run that the backend computes gets the tokens and pages of a finished one of the host, of the
 * same shape; it is empty before, and grows on. */
pc_status pc__kv_to_device(pc__kv *kv, const pc__kv *from);
/* A reference to the run itself if it is the host's, else a copy on the host. */
pc_status pc__kv_to_host(pc__kv **out, const pc__kv *kv);

#endif
