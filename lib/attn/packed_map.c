/* The mapping of packed weights, with a count of its holders. */
#include "attn/packed_map.h"

#include <stdatomic.h>

struct pc__packed_map {
    pc__file file;
    pc_allocator mem;
    atomic_size_t references;
};

pc_status pc__packed_map_new(pc__packed_map **out, const pc_allocator *mem, int fd, size_t size,
                             const char *path)
{
    pc__packed_map *map = pc__calloc(mem, 1, sizeof *map);
    *out = NULL;
    if (!map)
        return PC_ERR_NOMEM;
    map->mem = *mem;
    atomic_init(&map->references, 1);
    pc_status status = pc__file_map_open(&map->file, fd, size, path);
    if (status < 0) {
        pc__free(mem, map);
        return status;
    }
    *out = map;
    return PC_OK;
}

pc__packed_map *pc__packed_map_hold(pc__packed_map *map)
{
    atomic_fetch_add_explicit(&map->references, 1, memory_order_relaxed);
    return map;
}

void pc__packed_map_drop(pc__packed_map *map)
{
    if (!map || atomic_fetch_sub_explicit(&map->references, 1, memory_order_acq_rel) != 1)
        return;
    pc_allocator mem = map->mem;
    pc__file_unmap(&map->file);
    pc__free(&mem, map);
}

const pc__file *pc__packed_map_file(const pc__packed_map *map)
{
    return &map->file;
}
