/* The tiles of a plan's calls (kernels/attend.h): tiles that wait for arithmetic spread evenly
 * among those that wait for memory, so that each multiprocessor has both at any time. They are
 * written in one pass: one cursor goes over the heavy ones, one over the light ones. */
#include "cuda/kernels/attend.h"

/* The next tile of one kind. */
typedef struct tile_cursor {
    uint32_t call, vector;
    int heavy;
} tile_cursor;

typedef struct tile_list {
    const pc__cuda_call *calls;
    size_t count;
    uint32_t group, most, light;
} tile_list;

/* Goes to the first tile of its kind at or behind the cursor; 0: there is none. */
static int find_tile(const tile_list *list, tile_cursor *at)
{
    for (; at->call < list->count; at->call++, at->vector = 0) {
        uint32_t vectors = list->calls[at->call].pairs * list->group;
        for (; at->vector < vectors; at->vector += list->most) {
            uint32_t left = vectors - at->vector, own = left < list->most ? left : list->most;
            if ((own > list->light) == at->heavy)
                return 1;
        }
    }
    return 0;
}

static size_t count_tiles(const tile_list *list, int heavy)
{
    tile_cursor at = {.heavy = heavy};
    size_t count = 0;
    for (; find_tile(list, &at); at.vector += list->most)
        count++;
    return count;
}

size_t pc__cuda_make_tiles(const pc__cuda_call *calls, size_t call_count, uint32_t group,
                           uint32_t format, uint32_t v_dim, pc__cuda_tile *tiles)
{
    tile_list list = {calls, call_count, group, pc__cuda_tile_vectors(format, v_dim),
                      pc__cuda_light_vectors(format)};
    size_t heavy = count_tiles(&list, 1), all = heavy + count_tiles(&list, 0), done = 0;
    tile_cursor heavy_at = {.heavy = 1}, light_at = {.heavy = 0};
    for (size_t i = 0; tiles && i < all; i++) {
        /* heavy tile j stands at j * all / heavy: the first in front, none at the end */
        tile_cursor *at = done < heavy && done * all <= i * heavy ? &heavy_at : &light_at;
        find_tile(&list, at);
        tiles[i] = (pc__cuda_tile){at->call, at->vector};
        at->vector += list.most;
        done += at == &heavy_at;
    }
    return all;
}
