/* One request on its way from a resolved prompt to its first logits.
 *
 * Gathering gives every part either a segment (from the store, or encoded now) or none (its tokens
 * are computed as new rows). Repair marks single tokens of segments to be computed again. Then the
 * prefill attaches what is not marked and computes the rest, in position order, in one step. */
#ifndef PC_SERVE_REQUEST_H
#define PC_SERVE_REQUEST_H

#include "base/clock.h"
#include "serve/model_calls.h"
#include "serve/fetch.h"
#include "serve/prompt.h"

/* Statistics of a request that has not begun. */
/* clang-format off */
#define PC__STATS_START {.struct_size = sizeof(pc_stats), .memo.record = -1}
/* clang-format on */

typedef struct pc__request {
    const pc_prompt *prompt;
    const pc_model *model;
    pc_cache *cache; /* NULL: nothing is looked up or kept */
    const pc_generate_options *options;
    pc__request_regime regime;
    uint64_t pushed;       /* tokens that are to follow it before anything is sampled */
    size_t tokens;         /* of all parts */
    pc_segment **segments; /* [parts] counted, or NULL */
    uint8_t *hit;          /* [parts] its segment came from the store */
    uint8_t *tier;         /* [parts] PC_TIER_… that it came from, of hits */
    size_t *first;         /* [parts + 1] a part's first token in `again` */
    uint8_t *again;        /* [tokens] 1: compute this token of a segment again */
    size_t missed_part;    /* the first part that was not reused: stats.miss_reason is its */
    int64_t next_position; /* of the first generated token */
    int32_t *own;          /* [own_count] tokens that the prefill computed, in its order */
    size_t own_count;
    int64_t own_last; /* position of the last one; -1: not the one behind which all goes on */
    pc__fetch flows;  /* what was taken while its layers were still coming */
    uint32_t broke;  /* PC_REASON_…: that did not come in time, so nothing is taken so any more */
    float *logits;   /* [vocab] the caller's, of pc__request_run */
    int asks_memo;   /* if the cache gives nothing */
    pc__kv *run;     /* the whole prompt, computed by way of the memo; `logits` are there */
    int approximate; /* it has maps of another one */
    pc_stats stats;  /* seconds_ttft and what follows are the sequence's */
} pc__request;

/* `pushed`: how many tokens follow the prompt before anything is sampled. */
pc_status pc__request_init(pc__request *request, const pc_prompt *prompt, pc_cache *cache,
                           const pc_generate_options *options, size_t pushed);
void pc__request_end(pc__request *request); /* zeroed: does nothing */

/* Looks up, encodes, places and computes: *sequence is the host's sequence, logits [vocab] those
 * behind the last token. The request's segments must outlive the sequence. */
pc_status pc__request_run(pc__request *request, void **sequence, float *logits);

/* Nothing of it is taken from the store or kept: PC_BASELINE_PLAN, repair FULL. */
int pc__request_is_fresh(const pc__request *request);
/* PC_ERR_CANCELLED if the caller wants no more. */
pc_status pc__request_poll(const pc__request *request);
/* Part `part` was not reused; the first such part gives the reason. */
void pc__request_missed(pc__request *request, size_t part, uint32_t reason);

/* May it wait for loads? Not again, after it has begun in vain. */
int pc__request_may_wait(const pc__request *request);
/* May states be taken whose layers are still coming? Not where they are copied, and not for a
 * host's model. */
int pc__request_may_flow(const pc__request *request);
/* Takes all parts below `count` that are still pending so, and the fetch over into the request's.
 * 0: one of them has just broken, and nothing is as it was not before. */
int pc__request_take_early(pc__request *request, pc__fetch *fetch, size_t count);
/* Fill in segments: independent, sink and joint states (gather_units.c); states that saw all before
 * them (gather_exact.c). */
pc_status pc__gather_units(pc__request *request);
pc_status pc__gather_exact(pc__request *request, pc_cache *cache);
/* Attaches and computes (assemble.c). */
pc_status pc__assemble(pc__request *request, void **sequence, float *logits);
/* The memo (request_memo.c): whether it is asked, and why not; asks it, and sets `run` on a hit;
 * makes a sequence of that. */
void pc__request_judge_memo(pc__request *request);
pc_status pc__request_ask_memo(pc__request *request);
pc_status pc__request_go_on(pc__request *request, void **sequence);
/* Mark tokens (repair.c). */
pc_status pc__repair_first(pc__request *request);
pc_status pc__repair_top(pc__request *request);

#endif
