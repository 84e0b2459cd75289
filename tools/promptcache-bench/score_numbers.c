/* Retrieval and counting: the share of the numbers in an answer that are the right one. */
#include <string.h>

#include "score.h"

double score_numbers(const char *answer, const char *wanted, size_t size)
{
    static const char digits[] = "0123456789";
    size_t all = 0, right = 0;
    for (const char *at = answer + strcspn(answer, digits); *at; at += strcspn(at, digits)) {
        size_t n = strspn(at, digits);
        all++;
        right += n == size && !memcmp(at, wanted, n);
        at += n;
    }
    return all ? (double)right / (double)all : 0;
}
