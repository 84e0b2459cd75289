/* Look-ups in a double array. Owns copies of the trie and of the replacements. */
#include "text/charsmap.h"

#include <string.h>

#include "base/little_endian.h"
#include "base/mem.h"

pc_status pc__charsmap_new(pc__charsmap *map, const pc_allocator *mem, const void *bytes,
                           size_t size, const char *where)
{
    const uint8_t *at = bytes;
    size_t trie = size < 4 ? 0 : pc__get_u32(at);
    *map = (pc__charsmap){0};
    if (size < 4 || trie % 4 || !trie || trie > size - 4)
        return pc__fail(PC_ERR_FORMAT,
                        "%s: precompiled_charsmap has %zu bytes, its trie claims %zu", where, size,
                        trie);
    map->count = trie / 4;
    map->size = size - 4 - trie;
    map->units = pc__alloc(mem, trie);
    map->texts = pc__alloc(mem, map->size + 1);
    if (!map->units || !map->texts) {
        pc__charsmap_free(map, mem);
        return PC_ERR_NOMEM;
    }
    for (size_t i = 0; i < map->count; i++)
        map->units[i] = pc__get_u32(at + 4 + 4 * i);
    memcpy(map->texts, at + 4 + trie, map->size);
    map->texts[map->size] = 0;
    return PC_OK;
}

void pc__charsmap_free(pc__charsmap *map, const pc_allocator *mem)
{
    pc__free(mem, map->units);
    pc__free(mem, map->texts);
    *map = (pc__charsmap){0};
}

static size_t children(uint32_t unit)
{
    return (size_t)(unit >> 10) << (unit & 0x200 ? 8 : 0);
}

size_t pc__charsmap_find(const pc__charsmap *map, const char *text, size_t size, int shortest,
                         pc__text *replacement)
{
    size_t place = map->count ? children(map->units[0]) : 0, found = 0, value = 0;
    for (size_t i = 0; i < size && text[i] && !(found && shortest); i++) {
        uint8_t byte = (uint8_t)text[i];
        place ^= byte;
        if (place >= map->count || (map->units[place] & 0x800000ff) != byte)
            break;
        int ends = (map->units[place] & 0x100) != 0;
        place ^= children(map->units[place]);
        if (ends && place < map->count && (map->units[place] & 0x7fffffff) < map->size) {
            value = map->units[place] & 0x7fffffff;
            found = i + 1;
        }
    }
    if (found)
        *replacement = (pc__text){map->texts + value, strlen(map->texts + value)};
    return found;
}
