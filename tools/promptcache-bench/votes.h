/* What samples of one question are worth together: final answers, majorities, pass@k. */
#ifndef VOTES_H
#define VOTES_H

#include <stddef.h>

typedef struct answer_rule answer_rule;

/* pattern: a POSIX extended regular expression; NULL: the last number. NULL after a message that
 * begins with `where`. */
answer_rule *answer_rule_new(const char *pattern, const char *where);
void answer_rule_free(answer_rule *rule);
/* The final answer of a text: what the last match of the expression, or of its first group, holds,
 * without blanks at its ends; of numbers their value, so that "1,000", "$1000" and "1000.0" are
 * one. NULL: there is none (*failed is 0), or out of memory (1). The caller frees it. */
char *final_answer(const answer_rule *rule, const char *text, int *failed);

/* The answer that most of `count` have; of equally many, the one that came first. NULL: no sample
 * has an answer. */
const char *majority(const char *const *answers, size_t count);
/* How often the majority of k answers in a row is `wanted`: the mean over the count / k groups. */
double majority_share(const char *const *answers, size_t count, size_t k, const char *wanted);
/* How likely at least one of k samples is right, if `right` of `count` are: 1 - C(count - right, k)
 * / C(count, k) (Chen et al. 2021, section 2.1). k <= count. */
double pass_at(size_t count, size_t right, size_t k);

#endif
