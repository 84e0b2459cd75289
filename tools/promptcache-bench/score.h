/* Scores of an answer against reference answers, by the published definitions of LongBench: from 0
 * to 1. Each measure is in the file of its name. doc/evaluation.md defines them. */
#ifndef SCORE_H
#define SCORE_H

#include <stddef.h>

/* In the order of score_names. */
enum {
    SCORE_F1,
    SCORE_F1_ZH,
    SCORE_ROUGE,
    SCORE_ROUGE_ZH,
    SCORE_EXACT,
    SCORE_EXACT_ZH,
    SCORE_RETRIEVAL,
    SCORE_COUNT,
    SCORE_CLASSES,
    SCORE_CODE,
    SCORE_METRICS
};
#define SCORE_CHOICES \
    "f1 f1-zh rouge-l rouge-l-zh exact exact-zh retrieval count classification code"
extern const char *const score_names[SCORE_METRICS + 1]; /* ends with NULL */

/* All texts are UTF-8. Each gives NaN if it is out of memory. */
typedef struct score_item {
    const char *answer, *reference;
    const char *const *classes; /* [class_count] of SCORE_CLASSES: the names of all classes */
    size_t class_count;
} score_item;
double score_one(int metric, const score_item *item);

/* The first line of an answer that is not empty, for tasks of which an answer is one line. Cuts in
 * place. */
char *score_first_line(char *answer);
/* Whether `reference` can be scored against: NULL, or why not. */
const char *score_refuses(int metric, const char *reference, size_t class_count);

/* The measures. zh: 1 for Chinese. */
double score_f1(const char *answer, const char *reference, int zh);
double score_rouge(const char *answer, const char *reference, int zh);
double score_exact(const char *answer, const char *reference, int zh);
double score_numbers(const char *answer, const char *wanted, size_t size); /* wanted: digits */
double score_classes(const score_item *item);
double score_code(const char *answer, const char *reference);

#endif
