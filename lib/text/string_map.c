/* Hash tables with linear probing. Keys are borrowed. */
#include "text/string_map.h"

#include <string.h>

/* FNV-1a by bytes, with a final mix. */
#define HASH_START UINT64_C(0xcbf29ce484222325)

static uint64_t hash_step(uint64_t h, char byte)
{
    return (h ^ (unsigned char)byte) * UINT64_C(0x100000001b3);
}

static size_t hash_end(uint64_t h)
{
    return (size_t)(h ^ h >> 29);
}

static size_t hash_bytes(const char *key, size_t size)
{
    uint64_t h = HASH_START;
    for (size_t i = 0; i < size; i++)
        h = hash_step(h, key[i]);
    return hash_end(h);
}

static size_t table_size(size_t expected)
{
    size_t size = 16;
    while (size < expected * 2)
        size *= 2;
    return size;
}

pc_status pc__string_map_new(pc__string_map *map, const pc_allocator *mem, size_t expected)
{
    size_t size = table_size(expected);
    *map = (pc__string_map){mem, pc__calloc(mem, size, sizeof *map->slots), size - 1, 0};
    return map->slots ? PC_OK : PC_ERR_NOMEM;
}

static pc__string_map_slot *find_hashed(const pc__string_map *map, size_t hash, const char *key,
                                        size_t size)
{
    size_t i = hash & map->mask;
    while (map->slots[i].key
           && (map->slots[i].size != size || memcmp(map->slots[i].key, key, size)))
        i = (i + 1) & map->mask;
    return &map->slots[i];
}

static pc__string_map_slot *find_key(const pc__string_map *map, const char *key, size_t size)
{
    return find_hashed(map, hash_bytes(key, size), key, size);
}

static pc_status grow_table(pc__string_map *map)
{
    pc__string_map larger;
    PC__TRY_RETURN(pc__string_map_new(&larger, map->mem, map->count * 2));
    for (size_t i = 0; i <= map->mask; i++)
        if (map->slots[i].key)
            *find_key(&larger, map->slots[i].key, map->slots[i].size) = map->slots[i];
    larger.count = map->count;
    pc__string_map_free(map);
    *map = larger;
    return PC_OK;
}

pc_status pc__string_map_add(pc__string_map *map, const char *key, size_t size, int32_t value)
{
    if (size > UINT32_MAX)
        return pc__fail(PC_ERR_LIMIT, "a token has %zu bytes; at most 2^32 - 1 are allowed", size);
    if (map->count * 4 > map->mask * 3)
        PC__TRY_RETURN(grow_table(map));
    pc__string_map_slot *slot = find_key(map, key, size);
    if (!slot->key) {
        *slot = (pc__string_map_slot){key, (uint32_t)size, value};
        map->count++;
    }
    return PC_OK;
}

int32_t pc__string_map_get(const pc__string_map *map, const char *key, size_t size)
{
    const pc__string_map_slot *slot = map->slots ? find_key(map, key, size) : NULL;
    return slot && slot->key ? slot->value : -1;
}

int32_t pc__string_map_longest(const pc__string_map *map, const char *text, size_t size,
                               int (*accept)(const void *user, int32_t value), const void *user)
{
    uint64_t h = HASH_START;
    int32_t best = -1;
    for (size_t n = 1; map->slots && n <= size; n++) {
        h = hash_step(h, text[n - 1]);
        const pc__string_map_slot *slot = find_hashed(map, hash_end(h), text, n);
        if (slot->key && (!accept || accept(user, slot->value)))
            best = slot->value;
    }
    return best;
}

void pc__string_map_free(pc__string_map *map)
{
    if (map->slots)
        pc__free(map->mem, map->slots);
    map->slots = NULL;
}

pc_status pc__pair_map_new(pc__pair_map *map, const pc_allocator *mem, size_t expected)
{
    size_t size = table_size(expected);
    *map = (pc__pair_map){mem, pc__alloc(mem, size * sizeof *map->slots), size - 1, 0};
    for (size_t i = 0; map->slots && i < size; i++)
        map->slots[i].left = -1;
    return map->slots ? PC_OK : PC_ERR_NOMEM;
}

static pc__pair_map_slot *find_pair(const pc__pair_map *map, int32_t left, int32_t right)
{
    uint64_t h = ((uint64_t)(uint32_t)left << 32 | (uint32_t)right) * UINT64_C(0x9e3779b97f4a7c15);
    size_t i = (size_t)(h >> 24) & map->mask;
    while (map->slots[i].left != -1 && (map->slots[i].left != left || map->slots[i].right != right))
        i = (i + 1) & map->mask;
    return &map->slots[i];
}

void pc__pair_map_add(pc__pair_map *map, int32_t left, int32_t right, int32_t rank, int32_t merged)
{
    pc__pair_map_slot *slot = find_pair(map, left, right);
    if (slot->left == -1)
        *slot = (pc__pair_map_slot){left, right, rank, merged};
}

const pc__pair_map_slot *pc__pair_map_get(const pc__pair_map *map, int32_t left, int32_t right)
{
    const pc__pair_map_slot *slot = find_pair(map, left, right);
    return slot->left == -1 ? NULL : slot;
}

void pc__pair_map_free(pc__pair_map *map)
{
    if (map->slots)
        pc__free(map->mem, map->slots);
    map->slots = NULL;
}
