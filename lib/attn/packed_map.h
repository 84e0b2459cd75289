/* A mapped file of packed weights. The sets of panels in it share the mapping, and the processes
 * that read the file share its memory. */
#ifndef PC_ATTN_PACKED_MAP_H
#define PC_ATTN_PACKED_MAP_H

#include "base/file.h"

typedef struct pc__packed_map pc__packed_map;

/* Maps an open file; errors name `path`. The mapping ends with its last holder. */
pc_status pc__packed_map_new(pc__packed_map **out, const pc_allocator *mem, int fd, size_t size,
                             const char *path);
pc__packed_map *pc__packed_map_hold(pc__packed_map *map);
void pc__packed_map_drop(pc__packed_map *map); /* NULL does nothing */
const pc__file *pc__packed_map_file(const pc__packed_map *map);

#endif
