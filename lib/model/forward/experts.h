/* The MLP of a layer with experts. Rows are gathered by expert, so that the weights of each used
 * expert are read once a block. Many experts form one job, so that threads wait for each other only
 * a few times a layer. */
#ifndef PC_MODEL_EXPERTS_H
#define PC_MODEL_EXPERTS_H

#include "model/forward/forward_internal.h"

/* h = shared MLP of h + sum over the chosen experts of weight * MLP of h. The result of a row
 * depends on that row alone, bit for bit: the sum runs over the shared MLP, then over experts in
 * ascending order. */
pc_status pc__experts_sublayer(pc__forward_work *work, int32_t layer);
/* Most (row, expert) pairs in one group, in blocks of up to `rows` rows. */
size_t pc__experts_entries(const pc__arch *arch, size_t rows);

#endif
