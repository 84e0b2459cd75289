/* A request as it runs, and one that keeps no new text, for comparing their logits [vocab]. */
#ifndef PC_TEST_REQUEST_LOGITS_H
#define PC_TEST_REQUEST_LOGITS_H

#include "serve/gather.h"
#include "serve/request_internal.h"
#include "testing.h"

/* All new text is rows of one pass. */
static inline void request_by_rows(const pc_prompt *prompt, pc_cache *cache, pc__generation *g,
                                   float *logits)
{
    pc__request r = {0};
    pc__gather *gather = NULL;
    pc__placed_prompt out = {0};
    CHECK_OK(pc__request_init(&r, prompt, cache, g, 0));
    CHECK_OK(pc__gather_new(&gather, &r));
    CHECK_OK(pc__gather_find(gather));
    CHECK_OK(pc__gather_compute(gather));
    pc__gather_free(gather);
    pc__request_last_part(&r, &out.next_position);
    CHECK_OK(pc__request_assemble(&r, &out, logits));
    pc__placed_prompt_end(&out, r.model);
    pc__request_end(&r);
}

static inline pc_stats request_run(const pc_prompt *prompt, pc_cache *cache, pc__generation *g,
                                   float *logits)
{
    pc__request r = {0};
    pc__placed_prompt out = {0};
    pc_stats stats;
    CHECK_OK(pc__request_init(&r, prompt, cache, g, 0));
    CHECK_OK(pc__request_run(&r, &out, logits));
    stats = r.stats;
    CHECK_INT(stats.tokens_cached + stats.tokens_encoded + stats.tokens_repaired + stats.tokens_new,
              stats.tokens_prompt);
    pc__placed_prompt_end(&out, r.model);
    pc__request_end(&r);
    return stats;
}

#endif
