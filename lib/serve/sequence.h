/* A sequence: a running request, with its states in the model, its sampled tokens and their text.
 */
#ifndef PC_SERVE_SEQUENCE_H
#define PC_SERVE_SEQUENCE_H

#include "serve/generate.h"
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
} pc__batch_members;

struct pc_sequence {
    size_t references; /* the caller's, and one of each call that runs */
    int freed;         /* the caller has freed it: no callback of it is called any more */
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
    pc__request_regime regime;
    pc__sampler sampler;
    int32_t *tokens; /* behind the prompt: sampled and pushed */
    size_t count, capacity;
    size_t pending; /* of them, at the end, not computed yet: usually the last sampled one */
    size_t turn;    /* tokens [turn, count) came after the last push: the text is theirs */
    int again;      /* the next step computes the prompt's last token once more */
    float *logits;  /* [vocab] with PC_GENERATE_LOGITS */
    int has_logits;
    size_t sampled;
    pc__text_stream text;
    uint32_t finish;  /* PC_FINISH_… */
    pc_status status; /* why it ended, if by an error */
    pc_stats stats;
    double started; /* when its first step began */
    double first_token;
    int asked_cancel;           /* its callback has cancelled */
    pc__batch_members *members; /* of its batch; NULL: it is in none */
    int stepping;               /* a step of its batch, or a push, is under way */
};

void pc__sequence_ref(pc_sequence *sequence);
void pc__sequence_unref(pc_sequence *sequence); /* NULL does nothing */
PC__HOLDABLE(pc_sequence, pc__sequence_ref, pc__sequence_unref)

/* Places the prompt; logits [vocab] are those behind it. Samples nothing. */
pc_status pc__sequence_prefill(pc_sequence *sequence, float *logits);
/* Samples from logits (and changes them), extends the text, decides whether the sequence ends. An
 * error ends it. */
pc_status pc__sequence_sample(pc_sequence *sequence, float *logits);
/* Ends it with an error, and returns that. */
pc_status pc__sequence_fail(pc_sequence *sequence, pc_status status);
/* A copy that samples on its own. `sampling` NULL: with the generator's state; else from seed +
 * seed_offset. */
pc_status pc__sequence_copy(pc_sequence **out, pc_sequence *sequence, const pc_sampling *sampling,
                            uint64_t seed_offset);
pc_status pc__sequence_make(pc_sequence **out, const pc_prompt *prompt, pc_cache *cache,
                            pc__generation *generation);

/* The rows of its next step: how many, and which. */
size_t pc__sequence_row_count(const pc_sequence *sequence);
size_t pc__sequence_rows(const pc_sequence *sequence, pc_step_row *rows);
/* Where it has to end: with the model's context, or with its RoPE regime. */
int64_t pc__sequence_limit(const pc_sequence *sequence);
/* 1: the rows of its next step would reach beyond that. */
int pc__sequence_is_full(const pc_sequence *sequence);
/* The rows are computed. */
void pc__sequence_rows_done(pc_sequence *sequence);
/* Gives the rest of the turn's text to on_text, and begins an empty text. An error: of on_text. */
pc_status pc__sequence_end_turn(pc_sequence *sequence);
/* Penalises the new tokens of the prompt. */
void pc__sequence_note_prompt(pc_sequence *sequence);
/* Leaves its batch; the members behind it move up. Without one: does nothing. */
void pc__sequence_leave(pc_sequence *sequence);

/* The first error of several calls, with its text: error texts are of the last call. */
typedef struct pc__first_error {
    pc_status status;
    char text[512];
} pc__first_error;

/* Right behind the call that gave `status`, while its text holds. */
void pc__first_error_note(pc__first_error *error, pc_status status);
/* Sets that text and returns that status; `otherwise` if there was no error. */
pc_status pc__first_error_status(const pc__first_error *error, pc_status otherwise);

int pc__any_sequence_runs(pc_sequence *const *sequences, size_t count); /* not finished */
/* One step of running sequences of one model: computes their next logits and samples. Those that
 * agree in RoPE regime and visibility are one call of the model. logits [count][vocab]. An error
 * ends the sequences that it concerns; the first one is noted. */
void pc__sequences_step(pc_sequence *const *sequences, size_t count, float *logits,
                        pc__first_error *error);

#endif
