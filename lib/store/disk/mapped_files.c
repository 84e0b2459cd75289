#include "store/disk/mapped_files.h"

#include <stdatomic.h>

#include "store/disk/file_system.h"
#include "store/tier.h"

#define LEAST_BYTES (UINT64_C(256) << 10) /* less is read as fast */
enum { MOST_MAPPED = 16384 };

struct pc__mapped_files {
    pc_allocator mem;
    atomic_size_t references;
    uint64_t least;
    atomic_size_t count;
    atomic_uint_fast64_t bytes;
};

pc_status pc__mapped_files_new(pc__mapped_files **out, const pc_allocator *mem, int folder,
                               uint32_t how)
{
    pc__mapped_files *maps;
    *out = NULL;
    if (how == PC__MAP_NEVER || (how == PC__MAP_LOCAL && !(pc__file_system(folder) & PC__FS_LOCAL)))
        return PC_OK;
    maps = pc__calloc(mem, 1, sizeof *maps);
    if (!maps)
        return PC_ERR_NOMEM;
    maps->mem = *mem;
    maps->least = how == PC__MAP_ALWAYS ? 1 : LEAST_BYTES;
    atomic_init(&maps->references, 1);
    atomic_init(&maps->count, 0);
    atomic_init(&maps->bytes, 0);
    *out = maps;
    return PC_OK;
}

pc__mapped_files *pc__mapped_files_ref(pc__mapped_files *maps)
{
    atomic_fetch_add_explicit(&maps->references, 1, memory_order_relaxed);
    return maps;
}

void pc__mapped_files_unref(pc__mapped_files *maps)
{
    if (maps && atomic_fetch_sub_explicit(&maps->references, 1, memory_order_acq_rel) == 1) {
        pc_allocator mem = maps->mem;
        pc__free(&mem, maps);
    }
}

int pc__mapped_files_reserve(pc__mapped_files *maps, uint64_t bytes)
{
    if (bytes < maps->least)
        return 0;
    if (atomic_fetch_add_explicit(&maps->count, 1, memory_order_relaxed) >= MOST_MAPPED) {
        atomic_fetch_sub_explicit(&maps->count, 1, memory_order_relaxed);
        return 0;
    }
    atomic_fetch_add_explicit(&maps->bytes, bytes, memory_order_relaxed);
    return 1;
}

void pc__mapped_files_unreserve(pc__mapped_files *maps, uint64_t bytes)
{
    atomic_fetch_sub_explicit(&maps->count, 1, memory_order_relaxed);
    atomic_fetch_sub_explicit(&maps->bytes, bytes, memory_order_relaxed);
}

uint64_t pc__mapped_files_bytes(const pc__mapped_files *maps)
{
    return maps ? atomic_load_explicit(&((pc__mapped_files *)(uintptr_t)maps)->bytes,
                                       memory_order_relaxed)
                : 0;
}
