/* Draws a token for each row of logits, as attn/draw.h says: changes; the largest logit, or min p,
 * top k and top p and a random number of the host; log-probabilities where they are wanted.
 *
 * Tokens are ordered by logit, equal ones by id; a NaN counts as -infinity. The mass of a token is
 * exp((logit - largest) / temperature) in double, rounded to a multiple of 2^-40. So sums are
 * exact, in any order, and the token is the CPU's unless the random number, or top p, lies within
 * 2^-40 of the mass (times the number of tokens) beside a border between two tokens. A token with
 * less than 2^-41 of the largest mass is never drawn. Log-probabilities are sums in double, in
 * another order than the CPU's.
 *
 * pc__cuda_sample: a block of PC__CUDA_SAMPLE_THREADS threads and PC__CUDA_SAMPLE_SHARED bytes of
 * shared memory for each row. The first PC__CUDA_SAMPLE_LIST tokens are sorted; where top k and top
 * p leave more of them, their border is searched for bit by bit, which takes some milliseconds. */
#ifndef PC_CUDA_KERNELS_SAMPLING_H
#define PC_CUDA_KERNELS_SAMPLING_H

#include "attn/draw.h"

enum {
    PC__CUDA_SAMPLE_THREADS = 1024,
    PC__CUDA_SAMPLE_LIST = 4096,
    PC__CUDA_SAMPLE_SHARED = PC__CUDA_SAMPLE_LIST * 8 + 1024 * 4 + 1024
};

typedef struct pc__cuda_sampling { /* a row */
    double random;
    double log_min_p;             /* -infinity: no min p */
    uint64_t row;                 /* of the logits */
    uint64_t changes;             /* index of the first one in the task's */
    uint64_t changed;             /* index of its row in the task's; not read without changes */
    uint32_t change_count, vocab; /* vocab: at most 2^24, and at most the stride */
    float temperature;            /* 0: the largest logit */
    float top_p;                  /* 0, 1: all */
    uint32_t top_k;               /* 0: all */
    uint32_t logprob, likely;
    uint32_t unused;
} pc__cuda_sampling;

typedef struct pc__cuda_sample_task {
    const float *logits;             /* [any][stride] */
    float *changed;                  /* [rows with changes][stride] scratch */
    const pc__cuda_sampling *rows;   /* [rows] */
    const pc__logit_change *changes; /* those of all rows */
    uint8_t *drawn;                  /* [rows][drawn_bytes]: a pc__drawn, and its
                                      * pc__likely */
    uint64_t stride;                 /* floats */
    uint32_t count, drawn_bytes;     /* count: rows */
} pc__cuda_sample_task;

#endif
