/* What the files of expansion share: forward_expand_choose.c lists the rows of each form,
 * forward_expand.c makes the runs that they attend to. */
#ifndef PC_MODEL_FORWARD_EXPAND_INTERNAL_H
#define PC_MODEL_FORWARD_EXPAND_INTERNAL_H

#include "model/forward/forward_expand.h"
#include "model/forward/pass_build.h"

/* Adds the run of a span, or widens what is seen of it; runs.last becomes its index. */
pc_status pc__expand_note(const pc_allocator *mem, pc__expanded_runs *runs,
                          const pc__kv_span *span);
size_t pc__expand_pages(const pc__expanded_run *run); /* that are seen */
/* Makes the temporary runs of expanded rows, and puts them into their spans. */
pc_status pc__expand_runs(pc__forward_work *work, pc__pass_build *rows);

#endif
