/* Steps of a request that have files of their own; request_run.c calls them in order. */
#ifndef PC_SERVE_REQUEST_INTERNAL_H
#define PC_SERVE_REQUEST_INTERNAL_H

#include "attn/kv.h"
#include "serve/request.h"

/* The prompt's last token by position: its part, SIZE_MAX if there is none, and the position behind
 * it. */
size_t pc__request_last_part(const pc__request *request, int64_t *next_position);
/* As if nothing had been gathered, but for the time that it took since `started`. */
void pc__request_reset(pc__request *request, double started, uint32_t stream_failure);

/* A plain prompt of which the cache has nothing may be computed with the attention maps of a prompt
 * that resembles it, as pc_prefill does (request_memo.c). The states are the sequence's own from
 * the start: no segment is made of them, so nothing of them is stored or shared. */
typedef struct pc__memo_answer {
    pc__kv *states;  /* of the whole prompt, counted; NULL: the memo had no hit */
    int approximate; /* maps of another prompt were used */
} pc__memo_answer;

/* Whether the request asks its memo; stats.memo_reason says why not. */
int pc__request_asks_memo(pc__request *request);
/* On a hit logits [vocab] are those behind the prompt. */
pc_status pc__request_ask_memo(pc__request *request, float *logits, pc__memo_answer *out);
/* Makes the sequence of a hit. Takes the states over, on failure too. */
pc_status pc__request_use_memo(pc__request *request, pc__memo_answer *answer,
                               pc__placed_prompt *out);

/* Which tokens of reused segments are computed again, so that they see what stands before them in
 * this prompt (request_repair.c).
 * PC_REPAIR_FIRST: the first repair_tokens of every module. */
pc_status pc__request_repair_first(pc__request *request);
/* PC_REPAIR_TOP: the repair_percent of tokens whose states deviate most, as the model tells. */
pc_status pc__request_repair_top(pc__request *request);

/* The rows of a prompt without states, on their way into its sequence. */
typedef struct pc__assembly {
    pc__prompt_row *rows; /* [count] */
    size_t count;
    size_t
        last; /* the row of the highest position, of equal ones the last: the answer starts there */
    int distinct; /* as pc__request_rows */
    size_t computed;
} pc__assembly;

/* Makes the sequence and attaches the segments; sets all of *out but as pc__request_assemble says.
 * To be ended, on failure too. */
pc_status pc__assembly_begin(pc__assembly *assembly, pc__request *request, pc__placed_prompt *out);
void pc__assembly_end(pc__assembly *assembly, const pc_allocator *mem);
/* How many rows one call may have next; 0: all are computed. The next `count` of them; 1: one of
 * them wants logits. The caller counts those that are computed. */
size_t pc__assembly_left(const pc__assembly *assembly);
size_t pc__assembly_rows(const pc__assembly *assembly, void *sequence, size_t count,
                         pc_step_row *to);

/* Makes the sequence: attaches segments, computes the rest. Sets all of *out; next_position is
 * changed by PC_BASELINE_CONTIGUOUS only. On failure the caller frees *out. */
pc_status pc__request_assemble(pc__request *request, pc__placed_prompt *out, float *logits);

#endif
