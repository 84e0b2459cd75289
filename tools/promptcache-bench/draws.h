/* Draws samples of many prompts through a pc_batch, in several methods of sharing. Sample i of
 * prompt q has a seed of its own, so that every method draws the same ones. */
#ifndef DRAWS_H
#define DRAWS_H

#include <promptcache/sampling.h>

#include "eval.h"

typedef struct draw_method {
    const char *name;
    uint32_t baseline; /* PC_BASELINE_… */
    int keeps_context; /* of PC_BASELINE_COPIES: the tokens in front of the question stay shared */
    int forks;         /* the samples of a question fork behind its prompt */
    int cached;
    int alone; /* one request after the other */
    /* Methods with the same number hold the tokens in the same pieces: their answers are equal bit
     * for bit. Others sum in another order, so an answer may differ by rounding. */
    int pieces;
} draw_method;

enum { DRAW_METHODS = 6, DRAW_PIECES = 3 };
#define DRAW_METHOD_NAMES "two-levels one-level no-level per-row recompute one-by-one"
extern const draw_method draw_methods[DRAW_METHODS];

typedef struct draw_prompt {
    pc_prompt *prompt;
    uint64_t context; /* its tokens in front of the question's own */
    uint32_t max_tokens;
    const char *const *stops;
    size_t stop_count;
} draw_prompt;

typedef struct draw {
    int32_t *tokens; /* [count] */
    size_t count;
    char *text; /* ended by a NUL */
} draw;

/* What to draw, and the draws. */
typedef struct draws {
    pc_context *context;
    const pc_model *model;
    const draw_prompt *prompts; /* [prompt_count] */
    size_t prompt_count;
    size_t samples; /* of each prompt */
    size_t batch;   /* sequences at a time */
    uint64_t ram_bytes;
    pc_sampling sampling;
    draw *items; /* [prompt_count][samples] of the first run; others are compared with them */
    int is_drawn;
    uint64_t *digests[DRAW_PIECES]; /* of answers of the first run with these pieces */
    const char *what;               /* of the progress: "two-levels, run 1 of 3" */
} draws;

typedef struct draw_run {
    double seconds, cpu_seconds; /* from the first prompt to the last token */
    uint64_t generated;          /* tokens of all answers */
    uint64_t prompt, computed;   /* tokens of all prompts, and of them those that were computed */
    size_t different;            /* answers that are not those of the first run */
    size_t broken;               /* answers that differ though the library promises otherwise */
    size_t first_broken;         /* index of one; only if there are any */
} draw_run;

/* One run with an empty cache. An exit code. */
int draws_run(draws *d, const draw_method *how, draw_run *out);
/* Does once what a process does only once. An exit code. */
int draws_warm_up(const draws *d);
void draws_free(draws *d); /* what the runs have made */

#endif
