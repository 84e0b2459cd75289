/* A prompt in a sequence of the model: the result of a request. */
#ifndef PC_SERVE_PLACED_PROMPT_H
#define PC_SERVE_PLACED_PROMPT_H

#include "model/model.h"
#include "store/segment.h"

/* Tokens that were computed as rows of the sequence, in that order. */
typedef struct pc__own_tokens {
    int32_t *tokens;
    size_t count;
    int64_t last; /* position of the prompt's last token; -1: that was not the last row */
} pc__own_tokens;

typedef struct pc__placed_prompt {
    void *sequence;        /* the model's; NULL: none */
    pc_segment **segments; /* [segment_count] counted: those that the sequence reads */
    size_t segment_count;
    int64_t next_position; /* behind it */
    pc__own_tokens own;
} pc__placed_prompt;

/* Drops the sequence, then what it reads. Zeroed: does nothing. */
void pc__placed_prompt_end(pc__placed_prompt *placed, const pc_model *model);
/* A fork of the sequence that reads the same segments. `to` is to be ended, on failure too. */
pc_status pc__placed_prompt_fork(pc__placed_prompt *to, const pc__placed_prompt *from,
                                 const pc_model *model, pc_cache *cache);

#endif
