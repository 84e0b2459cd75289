/* A request on its way from a resolved prompt to its first logits: the state that its steps share.
 * request_run.c has their order.
 *
 * Every part of the prompt either has a segment or its tokens are computed. Single tokens of a
 * segment may be computed again, so that they see what stands before them in this prompt. */
#ifndef PC_SERVE_REQUEST_H
#define PC_SERVE_REQUEST_H

#include "attn/draw.h"
#include "serve/fetch.h"
#include "serve/generate.h"
#include "serve/placed_prompt.h"
#include "serve/prompt.h"

/* Statistics of a request that has not begun. */
/* clang-format off */
#define PC__STATS_START {.struct_size = sizeof(pc_stats), .memo_record = -1}
/* clang-format on */

typedef struct pc__request_part {
    pc_segment *segment; /* counted; NULL: none */
    pc__id key;          /* of its segment, where gathering has named one */
    size_t first;        /* index of the part's first token in `again` */
    uint32_t hit;        /* the segment came from the cache */
    uint32_t tier;       /* PC_TIER_… that it came from */
} pc__request_part;

typedef struct pc__request {
    const pc_prompt *prompt;
    const pc_model *model;
    pc_cache *cache;                  /* NULL: nothing is looked up or stored */
    const pc__generation *generation; /* the next two are its */
    const pc_generate_options *options;
    const pc_bench_options *bench;
    pc__request_regime regime;
    size_t tokens;           /* of all parts */
    pc__request_part *parts; /* [part_count + 1] */
    uint8_t *again;          /* [tokens] 1: compute this token of a segment again */
    /* 1: its rows are computed with those of others (pc__request_gather): no layer may come late */
    int together;
    int lets_others;         /* 1: it does not wait for loads at once (pc__gather_waits) */
    const pc__draws *draws;  /* of its first token, the only row; NULL: logits are wanted */
    pc__fetch streams;       /* loads of segments whose layers may still be coming */
    uint32_t stream_failure; /* PC_REASON_… a layer came too late: no streams any more */
    size_t missed_part;      /* the first part that was not reused: miss_reason is its */
    pc_stats stats;          /* seconds_ttft and what follows are the sequence's */
} pc__request;

/* `pushed`: how many tokens follow the prompt before anything is sampled. PC_ERR_LIMIT: prompt and
 * pushed tokens do not fit. */
pc_status pc__request_init(pc__request *request, const pc_prompt *prompt, pc_cache *cache,
                           const pc__generation *generation, size_t pushed);
void pc__request_end(pc__request *request); /* zeroed: does nothing */
/* Gathers segments, repairs, attaches and computes. *out holds all of the result, and the request
 * may be ended; logits [vocab] are those behind the last token. On failure *out is zeroed. */
pc_status pc__request_run(pc__request *request, pc__placed_prompt *out, float *logits);
/* For requests whose rows are computed together, by the caller (prefill_embed.c). Of a schema's
 * prompt, parts get their segments, as by pc__request_run; of a prompt without PML, those that the
 * cache has. Nothing else is computed. Statistics are complete. */
pc_status pc__request_gather(pc__request *request);
/* A token that is to be computed. */
typedef struct pc__prompt_row {
    int64_t position;
    int32_t token;
    uint32_t part;
} pc__prompt_row;
/* Tokens without states, for the caller to free: rows [count] in the order in which a sequence
 * takes them, *last the one behind which the answer starts. *distinct 0: two claim the same
 * position, so they stand by part, and each part is a step of its own. */
pc_status pc__request_rows(const pc__request *request, pc__prompt_row **rows, size_t *count,
                           size_t *last, int *distinct);
/* Attaches its segments to the sequence. */
pc_status pc__request_attach(const pc__request *request, void *sequence);
/* PC_ERR_CANCELLED if the caller wants no more. */
pc_status pc__request_poll(const pc__request *request);
/* The same question, for functions that ask by `cancelled` and cancel_user. */
int32_t pc__request_must_stop(void *request);

/* Whose states they are, by its options. */
pc__request_owners pc__request_owners_of(const pc__request *request);
/* An empty sequence of the model, for this request. */
pc_status pc__request_sequence_new(const pc__request *request, void **sequence);

/* Nothing comes from the cache or goes there: PC_BASELINE_PLAN, repair FULL. */
int pc__request_is_fresh(const pc__request *request);
/* No segments at all: PC_BASELINE_PREFILL, PC_BASELINE_CONTIGUOUS. */
int pc__request_reuses_nothing(const pc__request *request);
/* All states have seen what stands before them in this prompt. */
int pc__request_sees_all(const pc__request *request);

/* Statistics (request_stats.c). The part was not reused; the first such part gives the reason. */
void pc__request_missed(pc__request *request, size_t part, uint32_t reason);
/* After all parts have their segments: parts that are never cached, and the caller's own wish. */
void pc__request_judge(pc__request *request);
/* After repair: where the tokens came from, and whether rounded states are among them. */
void pc__request_count(pc__request *request);

#endif
