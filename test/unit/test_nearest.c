/* Catches: one of the k nearest that is dropped, a wrong order, ties that are not ordered by id,
 * also where only the roots are equal. */
#include "memo/index/nearest.h"

#include <math.h>
#include <stdlib.h>

#include "testing.h"

enum { OFFERS = 300, MOST = 320 };

typedef struct pair {
    float distance;
    int64_t id;
} pair;

static int order(const void *a, const void *b)
{
    const pair *x = a, *y = b;
    if (x->distance != y->distance)
        return x->distance < y->distance ? -1 : 1;
    return (x->id > y->id) - (x->id < y->id);
}

static void compare(size_t k, pc_test_rng *rng)
{
    pair all[OFFERS];
    float distances[MOST];
    int64_t ids[MOST];
    size_t wrong = 0;
    pc__nearest_start(distances, ids, k);
    for (size_t i = 0; i < OFFERS; i++) { /* few values: many ties */
        all[i] = (pair){(float)(pc_test_bits(rng) % 40), (int64_t)((i * 7919) % OFFERS)};
        pc__nearest_offer(distances, ids, k, all[i].distance, all[i].id);
    }
    pc__nearest_sort(distances, ids, k);
    qsort(all, OFFERS, sizeof *all, order);
    for (size_t i = 0; i < k; i++)
        wrong += i < OFFERS ? distances[i] != all[i].distance || ids[i] != all[i].id
                            : !isinf(distances[i]) || ids[i] != -1;
    CHECK_INT(wrong, 0);
}

static void equal_roots(void)
{
    float a = nextafterf(2.0f, 1.0f), distances[4] = {a, nextafterf(a, 3.0f), 9.0f, INFINITY};
    int64_t ids[4] = {8, 5, 1, -1};
    CHECK(sqrtf(distances[0]) == sqrtf(distances[1]));
    pc__nearest_roots(distances, ids, 4);
    CHECK_INT(ids[0], 5);
    CHECK_INT(ids[1], 8);
    CHECK(distances[2] == 3.0f && ids[2] == 1 && isinf(distances[3]) && ids[3] == -1);
}

int main(void)
{
    pc_test_rng rng = {3};
    static const size_t sizes[] = {1, 2, 3, 10, 31, 299, 300, 301, MOST};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        compare(sizes[i], &rng);
    equal_roots();
    return pc_test_end();
}
