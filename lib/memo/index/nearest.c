/* The heap of the nearest neighbours found so far. */
#include "memo/index/nearest.h"

#include <math.h>

static int farther(float distance, int64_t id, float than, int64_t than_id)
{
    return distance > than || (distance == than && id > than_id);
}

/* Puts an entry on top of a heap of n, and moves it down. */
static void sift_neighbour(float *distances, int64_t *ids, size_t n, float distance, int64_t id)
{
    size_t at = 0, child;
    while ((child = 2 * at + 1) < n) {
        if (child + 1 < n
            && farther(distances[child + 1], ids[child + 1], distances[child], ids[child]))
            child++;
        if (!farther(distances[child], ids[child], distance, id))
            break;
        distances[at] = distances[child];
        ids[at] = ids[child];
        at = child;
    }
    distances[at] = distance;
    ids[at] = id;
}

void pc__nearest_start(float *distances, int64_t *ids, size_t k)
{
    for (size_t i = 0; i < k; i++) {
        distances[i] = INFINITY;
        ids[i] = -1;
    }
}

void pc__nearest_offer(float *distances, int64_t *ids, size_t k, float distance, int64_t id)
{
    if (farther(*distances, *ids, distance, id))
        sift_neighbour(distances, ids, k, distance, id);
}

void pc__nearest_sort(float *distances, int64_t *ids, size_t k)
{
    while (k > 1) {
        float top = *distances;
        int64_t top_id = *ids;
        k--;
        sift_neighbour(distances, ids, k, distances[k], ids[k]);
        distances[k] = top;
        ids[k] = top_id;
    }
}

void pc__nearest_roots(float *distances, int64_t *ids, size_t k)
{
    for (size_t i = 0; i < k; i++) {
        float distance = sqrtf(distances[i]);
        int64_t id = ids[i];
        size_t at = i;
        for (; at && farther(distances[at - 1], ids[at - 1], distance, id); at--) {
            distances[at] = distances[at - 1];
            ids[at] = ids[at - 1];
        }
        distances[at] = distance;
        ids[at] = id;
    }
}
