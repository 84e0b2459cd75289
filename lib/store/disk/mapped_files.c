/* Counts mapped files (mapped_files.h). */
#include "store/disk/mapped_files.h"

#include <stdatomic.h>

#include "store/disk/disk_root.h"
#include "store/tier.h"

#define LEAST_BYTES (UINT64_C(256) << 10) /* smaller files are read as fast */
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
    pc__mapped_files *mapped;
    *out = NULL;
    if (how == PC__MAP_NEVER || (how == PC__MAP_LOCAL && !(pc__file_system(folder) & PC__FS_LOCAL)))
        return PC_OK;
    mapped = pc__calloc(mem, 1, sizeof *mapped);
    if (!mapped)
        return PC_ERR_NOMEM;
    mapped->mem = *mem;
    mapped->least = how == PC__MAP_ALWAYS ? 1 : LEAST_BYTES;
    atomic_init(&mapped->references, 1);
    atomic_init(&mapped->count, 0);
    atomic_init(&mapped->bytes, 0);
    *out = mapped;
    return PC_OK;
}

pc__mapped_files *pc__mapped_files_ref(pc__mapped_files *mapped)
{
    atomic_fetch_add_explicit(&mapped->references, 1, memory_order_relaxed);
    return mapped;
}

void pc__mapped_files_unref(pc__mapped_files *mapped)
{
    if (mapped && atomic_fetch_sub_explicit(&mapped->references, 1, memory_order_acq_rel) == 1) {
        pc_allocator mem = mapped->mem;
        pc__free(&mem, mapped);
    }
}

int pc__mapped_files_reserve(pc__mapped_files *mapped, uint64_t bytes)
{
    if (bytes < mapped->least)
        return 0;
    if (atomic_fetch_add_explicit(&mapped->count, 1, memory_order_relaxed) >= MOST_MAPPED) {
        atomic_fetch_sub_explicit(&mapped->count, 1, memory_order_relaxed);
        return 0;
    }
    atomic_fetch_add_explicit(&mapped->bytes, bytes, memory_order_relaxed);
    return 1;
}

void pc__mapped_files_unreserve(pc__mapped_files *mapped, uint64_t bytes)
{
    atomic_fetch_sub_explicit(&mapped->count, 1, memory_order_relaxed);
    atomic_fetch_sub_explicit(&mapped->bytes, bytes, memory_order_relaxed);
}

uint64_t pc__mapped_files_bytes(const pc__mapped_files *mapped)
{
    return mapped ? atomic_load_explicit(&((pc__mapped_files *)(uintptr_t)mapped)->bytes,
                                         memory_order_relaxed)
                  : 0;
}
