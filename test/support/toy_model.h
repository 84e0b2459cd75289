/* A small, real transformer as an application would bring it: its own tokenizer, weights, K/V and
 * kernels, reached through pc_model_ops only. Two layers, two heads, plain loops. K is stored
 * without rotation, and every score is rotated by the distance, so that a segment at another place
 * gives the same bits. It counts what it has, and its functions can be made to fail. */
#ifndef PC_TOY_MODEL_H
#define PC_TOY_MODEL_H

#include <promptcache.h>
#include <promptcache/extend.h>

enum { TOY_UNK = 0, TOY_BOS = 1, TOY_EOS = 2, TOY_BYTES = 3, TOY_WORDS = 259, TOY_VOCAB = 299 };

typedef struct pc_toy pc_toy;

typedef struct pc_toy_counts {
    int64_t live_segments, live_sequences;
    uint64_t encode_calls, encoded_tokens, step_calls, stepped_rows, attached, polls;
    uint64_t exports, import_calls;
    uint64_t layer_calls, fail_layer_at; /* of both functions for layers */
    uint64_t fail_encode_at, fail_step_at,
        fail_import_at;    /* the call with this number (from 1) fails; 0: none */
    uint64_t largest_step; /* sequences in one step */
    uint64_t failed_step;  /* sequences in the step that was made to fail */
    uint64_t pool; /* tokens that segments, and a step beside them, have room for; 0: any number */
    uint64_t live_tokens; /* of segments */
    uint64_t full;        /* calls that found no room (PC_ERR_LIMIT) */
} pc_toy_counts;

/* learned: 1 adds absolute positions, so that segments cannot be moved. context_length 0: no limit.
 */
pc_toy *pc_toy_new(uint64_t seed, int learned, int32_t context_length);
void pc_toy_free(void *toy);
/* Borrowed; to be read and set between calls. */
pc_toy_counts *pc_toy_count(pc_toy *toy);
/* All operations but those for layers. */
pc_model_ops pc_toy_ops(void);
/* The same with those for layers, and without those for whole segments. */
pc_model_ops pc_toy_layer_ops(void);

/* The last row's logits [TOY_VOCAB] of an ordinary prefill, without any of the operations' segments
 * or sequences. */
void pc_toy_reference(pc_toy *toy, const int32_t *tokens, const int64_t *positions, size_t count,
                      float *logits);

#endif
