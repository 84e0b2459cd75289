/* The k nearest so far, in the caller's own arrays: a heap with the farthest on top, farther being
 * (distance, id) in this order. */
#ifndef PC_MEMO_NEAREST_H
#define PC_MEMO_NEAREST_H

#include <stddef.h>
#include <stdint.h>

void pc__nearest_start(float *distances, int64_t *ids,
                       size_t k); /* k >= 1; all infinitely far, nobody's (-1) */
/* Takes it in if it is nearer than the farthest. */
void pc__nearest_offer(float *distances, int64_t *ids, size_t k, float distance, int64_t id);
void pc__nearest_sort(float *distances, int64_t *ids, size_t k); /* nearest first; ends the heap */
/* Squared distances, nearest first -> distances, in the order of (distance, id) again where roots
 * have become equal. */
void pc__nearest_roots(float *distances, int64_t *ids, size_t k);

#endif
