/* The k nearest so far, in the caller's arrays: a heap with the farthest on top, by (distance, id).
 */
#ifndef PC_MEMO_NEAREST_H
#define PC_MEMO_NEAREST_H

#include <stddef.h>
#include <stdint.h>

void pc__nearest_start(float *distances, int64_t *ids,
                       size_t k); /* k >= 1; all are infinitely far, with id -1 */
/* Takes the vector if it is nearer than the farthest. */
void pc__nearest_offer(float *distances, int64_t *ids, size_t k, float distance, int64_t id);
void pc__nearest_sort(float *distances, int64_t *ids, size_t k); /* nearest first; ends the heap */
/* Takes the roots of sorted squared distances, and sorts by id where roots are equal. */
void pc__nearest_roots(float *distances, int64_t *ids, size_t k);

#endif
