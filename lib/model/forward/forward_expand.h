/* Latent attention over expanded keys and values, for the rows where that costs less
 * (latent_cost.h): for a group of heads at a time, the runs that these rows see become temporary
 * runs of ordinary shape, whose memory is bounded, and the rows attend to these.
 *
 * The form is chosen for neighbouring rows that write one run, so for what one text adds in the
 * pass, however the pass is cut into blocks: a row's bits do not depend on what is computed beside
 * it. */
#ifndef PC_MODEL_FORWARD_EXPAND_H
#define PC_MODEL_FORWARD_EXPAND_H

#include "model/forward/forward_internal.h"

/* Chooses the form of every row of the pass. */
pc_status pc__expand_choose(pc__forward_work *work);
void pc__expand_free(pc__forward_work *work);

/* The next neighbouring rows of the block, from *row on, that attend in this form; count 0: none.
 * A trace shows the maps of absorbed queries: with it every row is absorbed too. */
pc__row_range pc__expand_next(const pc__forward_work *work, int expanded, size_t *row);

/* Plans of the block for both forms: work->plan is of absorbed rows alone, one behind the other;
 * NULL: there are none. */
pc_status pc__expand_plan(pc__forward_work *work);
void pc__expand_end(pc__forward_work *work);

/* latent.values of the expanded rows. Does nothing if there are none. */
pc_status pc__expand_attend(pc__forward_work *work, const pc__attn_layer *what);

#endif
