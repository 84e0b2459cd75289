/* A running request: what it holds of the host's, what it has sampled, its text. */
#ifndef PC_SERVE_SEQUENCE_H
#define PC_SERVE_SEQUENCE_H

#include "serve/generate.h"
#include "serve/placed_prompt.h"
#include "serve/prompt.h"
#include "serve/sampler.h"
#include "serve/text_stream.h"

/* Numbers the samples of a request: the sequence that pc_sequence_new made is 0, its copies count
 * up. */
typedef struct pc__sample_counter {
    atomic_size_t references;
    atomic_uint next;
} pc__sample_counter;

struct pc_sequence {
    const pc_allocator *mem;
    pc_prompt *prompt;
    pc_model *model; /* the prompt's */
    pc_cache *cache;
    pc__generation generation;
    pc__sample_counter *counter;
    uint32_t sample;
    /* What the model holds for it; its sequence is NULL before the first step and after the end.
     * next_position is that of the first pending token. */
    pc__placed_prompt placed;
    pc__request_regime regime;
    pc__sampler sampler;
    int32_t *tokens; /* behind the prompt: sampled and pushed */
    size_t count, capacity;
    /* the last of them that are not computed yet: usually the one that was sampled last */
    size_t pending;
    size_t turn;   /* tokens [turn, count) came after the last push: the text is theirs */
    int again;     /* before them, the prompt's last token is to be computed once more */
    float *logits; /* [vocab] with PC_GENERATE_LOGITS */
    int has_logits;
    size_t sampled;
    pc__text_stream text;
    uint32_t finish;  /* PC_FINISH_… */
    pc_status status; /* why it ended, if by an error */
    pc_stats stats;
    double started; /* when its first step began */
    double first_token;
    int asked_cancel; /* its callback said so */
    struct pc_batch *batch;
    int stepping; /* a step of its batch is under way */
};

/* Places, encodes and computes the prompt; logits [vocab] are those behind it. Nothing is sampled
 * yet. */
pc_status pc__sequence_prefill(pc_sequence *sequence, float *logits);
/* Samples from logits (which it changes), extends the text, decides whether that was the end. An
 * error ends the sequence. */
pc_status pc__sequence_sample(pc_sequence *sequence, float *logits);
/* Ends it with an error; returns that. */
pc_status pc__sequence_fail(pc_sequence *sequence, pc_status status);
/* A copy that samples on its own: `sampling` NULL keeps the generator's state; else seed +
 * seed_offset. */
pc_status pc__sequence_copy(pc_sequence **out, pc_sequence *sequence, const pc_sampling *sampling,
                            uint64_t seed_offset);
pc_status pc__sequence_make(pc_sequence **out, const pc_prompt *prompt, pc_cache *cache,
                            pc__generation *generation);

/* The rows that its next step computes: how many, and what they are. */
size_t pc__sequence_row_count(const pc_sequence *sequence);
size_t pc__sequence_rows(const pc_sequence *sequence, pc_step_row *rows);
/* How far it may go: to the end of the model's context, or of its regime of positions. */
int64_t pc__sequence_limit(const pc_sequence *sequence);
/* 1: they would reach beyond that. */
int pc__sequence_is_full(const pc_sequence *sequence);
/* They have been computed. */
void pc__sequence_rows_done(pc_sequence *sequence);
/* Its text becomes final and is handed out; the text of the next turn is empty. An error: of
 * on_text. */
pc_status pc__sequence_end_turn(pc_sequence *sequence);
/* Tokens of the prompt that the penalty counts. */
void pc__sequence_note_prompt(pc_sequence *sequence);

/* The first error of several, with its text. */
typedef struct pc__first_error {
    pc_status status;
    char text[512];
} pc__first_error;

void pc__first_error_note(pc__first_error *error,
                          pc_status status); /* right behind the call that gave it */
pc_status pc__first_error_status(const pc__first_error *error, pc_status otherwise);

/* Computes the next logits of sequences that run, all of one model, and takes them: one step of the
 * model for all that agree in regime and rule of visibility. logits [count][vocab], rows [count].
 * An error ends the sequences that it concerns; the first one is noted. */
void pc__sequences_step(pc_sequence *const *sequences, size_t count, pc_step_row *rows,
                        float *logits, pc__first_error *error);

#endif
