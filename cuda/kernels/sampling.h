/* Samples a token for each row of logits, as serve/sampler.c does: repetition penalty, greedy
 * choice or (temperature, top k, top p, draw). The random number comes from the host's generator.
 *
 * Tokens are ordered by logit, equal ones by id; a NaN counts as -infinity. The mass of a token is
 * exp((logit - largest) / temperature) in double, rounded to a multiple of 2^-40. So sums are
 * exact, in any order, and the token is the CPU's unless the random number, or top p, lies within
 * 2^-40 of the mass (times the number of tokens) beside a border between two tokens. A token with
 * less than 2^-41 of the largest mass is never drawn.
 *
 * pc__cuda_sample: a block of PC__CUDA_SAMPLE_THREADS threads and PC__CUDA_SAMPLE_SHARED bytes of
 * shared memory for each row. The first PC__CUDA_SAMPLE_LIST tokens are sorted; where top k and top
 * p leave more of them, their border is searched for bit by bit, which takes some milliseconds. */
#ifndef PC_CUDA_KERNELS_SAMPLING_H
#define PC_CUDA_KERNELS_SAMPLING_H

#include <stdint.h>

enum {
    PC__CUDA_SAMPLE_THREADS = 1024,
    PC__CUDA_SAMPLE_LIST = 4096,
    PC__CUDA_SAMPLE_SHARED = PC__CUDA_SAMPLE_LIST * 8 + 1024 * 4 + 512
};

typedef struct pc__cuda_sampling {
    double draw;        /* in [0, 1), of the host's generator */
    uint64_t penalised; /* device address of [vocab] bytes, 1: penalised; the token is noted there;
                         * 0: no penalty */
    float temperature;  /* below 1e-5: the largest logit */
    float top_p;        /* 0, 1: all */
    float penalty;      /* divides positive logits, multiplies others */
    uint32_t top_k;     /* 0: all */
} pc__cuda_sampling;

typedef struct pc__cuda_sample_task {
    float *logits;                    /* [rows][stride]; penalties change them */
    const pc__cuda_sampling *options; /* [rows] */
    int32_t *token;                   /* [rows]; -1: no logit is finite */
    uint64_t stride;                  /* floats */
    uint32_t rows, vocab;             /* vocab: at most 2^24, and at most the stride */
} pc__cuda_sample_task;

#endif
