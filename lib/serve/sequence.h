/* A sequence: a running request, with its states in the model, its sampled tokens and their text.
 *
 * A step changes it only when nothing can fail any more, before the last callback. So a sequence
 * that a failed or cancelled step has finished is as it was before that step, and can go on from
 * there. Only the rows that the model has computed may be too many (`excess`). They are taken off
 * when the sequence is next used, for that may fail too. */
#ifndef PC_SERVE_SEQUENCE_H
#define PC_SERVE_SEQUENCE_H

#include <promptcache/sampling.h>
#include "base/task.h"
#include "serve/generate.h"
#include "serve/guide.h"
#include "serve/logprobs.h"
#include "serve/placed_prompt.h"
#include "serve/prompt.h"
#include "serve/sampler.h"
#include "serve/text_stream.h"

/* Numbers the samples of a request: 0 is the sequence from pc_sequence_new, its copies count up. */
typedef struct pc__sample_counter {
    atomic_size_t references;
    atomic_uint next;
} pc__sample_counter;

/* The members of a batch. A sequence leaves by this link, so it need not know its batch. */
typedef struct pc__batch_members {
    pc_sequence **items;
    size_t count, capacity;
    pc_sequence **changed; /* by the last step */
    size_t changed_count, changed_capacity;
} pc__batch_members;

/* An error with its text, which a thread's next error does not overwrite. */
typedef struct pc__kept_error {
    pc_status status;
    char text[sizeof((pc__error_state *)NULL)->text];
} pc__kept_error;

struct pc_sequence {
    atomic_size_t references; /* the caller's, and one of each call or task that runs */
    int freed;                /* the caller has freed it: no callback of it is called any more */
    const pc_allocator *mem;
    pc_prompt *prompt;
    pc_model *model; /* the prompt's */
    pc_cache *cache;
    pc__generation generation;
    pc__sample_counter *counter;
    uint32_t sample;
    /* placed.sequence is NULL before the first step and after the end; placed.next_position is that
     * of the first pending token. */
    pc__placed_prompt placed;
    struct pc__pieces *pieces; /* its prompt, while that is computed in pieces; or NULL */
    size_t rest;               /* tokens of its prompt that were left when the step began */
    int in_pass;               /* its next tokens are in the pass that is being put together */
    uint32_t waited;           /* steps in which its batch has had no room for it */
    pc__request_regime regime;
    pc__sampler sampler;
    pc__guide guide; /* of generation.options.grammar */
    int32_t *tokens; /* behind the prompt: sampled and pushed */
    size_t count, capacity;
    size_t pending; /* of them, at the end, not computed yet: usually the last sampled one */
    size_t turn;    /* tokens [turn, count) came after the last push: the text is theirs */
    int again;      /* the next step computes the prompt's last token once more */
    size_t excess;  /* rows at the end of the model's sequence that a failed step has left there */
    float *logits;  /* [vocab] of the model, with PC_GENERATE_LOGITS or on_token; for the latter,
                     * of tokens that the host draws */
    int has_logits; /* for pc_sequence_logits */
    size_t sampled;
    pc__text_stream text;
    uint32_t finish;      /* PC_FINISH_… */
    pc__kept_error error; /* that has finished it, or is about to (asked_cancel) */
    pc_stats stats;
    double started; /* when its first step began */
    double first_token;
    int asked_cancel;           /* its poll has cancelled; `error` says why */
    int changed;                /* by the last step of its batch */
    pc__batch_members *members; /* of its batch; NULL: it is in none */
    int stepping;               /* a step of its batch, or a push, is under way */
    atomic_int cancel;          /* set by any thread. A copy leaves out this and what follows */
    pc__task_link task;         /* the last one that has it */
};

void pc__sequence_ref(pc_sequence *sequence);
void pc__sequence_unref(pc_sequence *sequence); /* NULL does nothing */
PC__HOLDABLE(pc_sequence, pc__sequence_ref, pc__sequence_unref)

/* Room for the token that pc__sequence_prefill may draw. */
typedef struct pc__first_token {
    pc__drawn drawn;
    pc__likely likely[PC__MOST_LOGPROBS];
} pc__first_token;

/* How a backend that draws (pc__model_draws) draws its next token, but for the row. PC_MISS: its
 * logits are needed, for the host draws. */
pc_status pc__sequence_describe(pc_sequence *sequence, pc__draw *draw);
/* Places the prompt; logits [vocab] are those behind it. Samples nothing. An error ends it, and it
 * stays without a prompt. `drawn` (of a pc__first_token; NULL: the logits are wanted) may get its
 * first token instead: then its outcome is not PC__NOT_DRAWN. */
pc_status pc__sequence_prefill(pc_sequence *sequence, float *logits, pc__drawn *drawn);
/* The same in pieces (request_pieces.h). Starts, unless it has. An error ends it. */
pc_status pc__sequence_start(pc_sequence *sequence);
/* Its tokens up to the prompt's end are computed: it has its states, and the statistics so far. */
void pc__sequence_place(pc_sequence *sequence);
void pc__sequence_drop_pieces(pc_sequence *sequence);
/* Of logits behind its rows (and changes them), or of the token that was drawn from them (NULL or
 * PC__NOT_DRAWN: none): samples, extends the text, decides whether the sequence ends. An error ends
 * it, as it was before these rows. */
void pc__sequence_sample(pc_sequence *sequence, float *logits, const pc__drawn *drawn);
/* Ends it with an error, right behind the call that gave it. */
void pc__sequence_fail(pc_sequence *sequence, pc_status status);
void pc__sequence_keep_error(pc_sequence *sequence, pc_status status);
/* What its function of this name said: PC_OK to go on, PC_END to stop, or the error. */
pc_status pc__sequence_said(int32_t said, const char *function);
/* Ends one that asked_cancel, unless it has finished. */
void pc__sequence_end_cancelled(pc_sequence *sequence);
/* A copy that samples on its own. `sampling` NULL: from the original's seed + the copy's number. */
pc_status pc__sequence_copy(pc_sequence **out, pc_sequence *sequence, const pc_sampling *sampling);
pc_status pc__sequence_make(pc_sequence **out, const pc_prompt *prompt, pc_cache *cache,
                            pc__generation *generation);

/* Give logits to on_logits, and the last token to on_token. PC_END: the caller stops the sample. An
 * error: of the function. drawn: as of pc__sequence_sample, not PC__NOT_DRAWN. */
pc_status pc__sequence_ask_logits(pc_sequence *sequence, float *logits);
pc_status pc__sequence_give_token(pc_sequence *sequence, int64_t position, const pc__drawn *drawn);

/* The rows of its next step: how many, and which. */
size_t pc__sequence_row_count(const pc_sequence *sequence);
size_t pc__sequence_rows(const pc_sequence *sequence, pc_step_row *rows);
/* Where it has to end: with the model's context, or with its RoPE regime. */
int64_t pc__sequence_limit(const pc_sequence *sequence);
/* 1: the rows of its next step would reach beyond that. */
int pc__sequence_is_full(const pc_sequence *sequence);
/* Gives the rest of the turn's text to on_text, and begins an empty text. An error: of on_text. */
pc_status pc__sequence_end_turn(pc_sequence *sequence);
/* The text of tokens [turn, count). `out` is to be ended, on failure too. */
pc_status pc__sequence_rebuild_text(const pc_sequence *sequence, size_t turn, size_t count,
                                    pc__text_stream *out);
/* Own token number `n`: those of the prompt come first. */
int32_t pc__sequence_own_token(const pc_sequence *sequence, size_t n);
/* A reference to the attached segment with these states. NULL: there is none. */
struct pc__kv;
pc_segment *pc__sequence_attached(const pc_sequence *sequence, const struct pc__kv *states);
/* For calls that go on with it, or need its states. PC_ERR_STATE: a step is under way, it has
 * finished and kept nothing; `placed`: or its prompt is not computed. */
pc_status pc__sequence_check(pc_sequence *sequence, int placed, const char *call);
/* Leaves its batch; the members behind it move up. Without one: does nothing. */
void pc__sequence_leave(pc_sequence *sequence);

int pc__any_sequence_runs(pc_sequence *const *sequences, size_t count); /* not finished */
/* One step of sequences of one model: computes their next logits and samples. pieces [count], or
 * NULL: of one whose prompt is in pieces, so many of its next tokens; 0: a running one. Those that
 * agree in RoPE regime and visibility are one call of the model. logits [count][vocab]. An error of
 * a sequence ends that one. Returns PC_ERR_NOMEM of work memory: then nothing has changed. */
pc_status pc__sequences_step(pc_sequence *const *sequences, const size_t *pieces, size_t count,
                             float *logits);

#endif
