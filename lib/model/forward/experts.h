/* The MLP part of a layer with experts: rows are gathered by expert, so that the weights of each
 * that is used are read once for a block, and many experts are one piece of work, so that threads
 * wait for each other a few times a layer. */
#ifndef PC_MODEL_EXPERTS_H
#define PC_MODEL_EXPERTS_H

#include "model/forward/forward_internal.h"

/* h = shared MLP of h + sum over the chosen experts of weight * MLP of h. A row's result depends on
 * that row alone, bit for bit: its sum runs over the shared MLP, then the experts in ascending
 * number. */
pc_status pc__experts_sublayer(pc__forward_work *work, int32_t layer);
/* Most (row, expert) pairs that are worked on together in blocks of up to `rows` rows. */
size_t pc__experts_entries(const pc__arch *arch, size_t rows);

#endif
