/* A plain prompt of which the cache has nothing may be computed with the attention maps of a prompt
 * that resembles it, as pc_prefill does. The states are the sequence's own from the start: no
 * segment is made of them, so nothing of them is kept or shared. */
#ifndef PC_SERVE_REQUEST_MEMO_H
#define PC_SERVE_REQUEST_MEMO_H

#include "attn/kv.h"
#include "serve/placed_prompt.h"
#include "serve/request.h"

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

#endif
