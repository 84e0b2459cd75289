/* A linear classifier over embeddings (multinomial logistic regression), for encoders without a
 * head. */
#ifndef LINEAR_HEAD_H
#define LINEAR_HEAD_H

#include <stddef.h>
#include <stdint.h>

typedef struct linear_head {
    size_t width, classes;
    /* [classes][width + 1], of standardised embeddings; the last one is the bias. */
    double *weights;
    double *mean, *scale; /* [width] */
} linear_head;

/* Same seed, same weights. 0: out of memory. */
int head_train(linear_head *head, const float *embeddings, const size_t *labels, size_t count,
               size_t width, size_t classes, uint64_t seed);
size_t head_class(const linear_head *head, const float *embedding);
void head_free(linear_head *head);

#endif
