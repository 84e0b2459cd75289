/* Lengths of prompts and answers as in real traffic. */
#ifndef LENGTHS_H
#define LENGTHS_H

#include <stddef.h>
#include <stdint.h>

typedef struct length_pair {
    long prompt, output; /* tokens */
} length_pair;

typedef struct lengths {
    length_pair *pairs; /* NULL: the built-in distribution */
    size_t count;
} lengths;

/* path: a file of lines "prompt,output"; NULL: the built-in distribution, a published joint
 * histogram of ShareGPT (first turn, Llama 2 tokens, prompts and answers of 4 to 1024). An exit
 * code. */
int lengths_open(lengths *l, const char *path);
void lengths_close(lengths *l);
length_pair lengths_draw(const lengths *l, uint64_t *state);

/* From low to high, log-uniform: every doubling is as likely. */
long lengths_between(long low, long high, uint64_t *state);

/* A length times a factor, rounded, at least 1. */
size_t lengths_scaled(double length, double scale);

/* Lengths of MMLU by published quantiles: of five examples of a subject, of one question. */
long lengths_mmlu_examples(uint64_t *state);
long lengths_mmlu_question(uint64_t *state);

#endif
