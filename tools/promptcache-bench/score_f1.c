/* F1 over words: precision and recall of the words that both texts have, each as often as in the
 * text that has it less often. And equality of normalised texts. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "score.h"
#include "score_words.h"

static int split(score_words *two, const char *answer, const char *reference, int zh)
{
    int (*words)(score_words *, const char *) = zh ? words_chinese : words_english;
    two[0] = two[1] = (score_words){NULL, NULL, 0};
    return words(&two[0], answer) && words(&two[1], reference);
}

static void release(score_words *two)
{
    words_free(&two[0]);
    words_free(&two[1]);
}

/* -1: out of memory. */
static double common_words(score_words *two)
{
    size_t ids, common = 0, *left;
    if (!words_number(two, 2, &ids) || !(left = calloc(ids + 1, sizeof *left)))
        return -1;
    for (size_t i = 0; i < two[1].count; i++)
        left[two[1].words[i].id]++;
    for (size_t i = 0; i < two[0].count; i++)
        if (left[two[0].words[i].id]) {
            left[two[0].words[i].id]--;
            common++;
        }
    free(left);
    return (double)common;
}

double score_f1(const char *answer, const char *reference, int zh)
{
    score_words two[2];
    double common, score = NAN;
    if (split(two, answer, reference, zh) && (common = common_words(two)) >= 0) {
        double precision = common / (double)two[0].count, recall = common / (double)two[1].count;
        score = common > 0 ? 2 * precision * recall / (precision + recall) : 0;
    }
    release(two);
    return score;
}

double score_exact(const char *answer, const char *reference, int zh)
{
    score_words two[2];
    double score = NAN;
    if (split(two, answer, reference, zh)) {
        score = two[0].count == two[1].count;
        for (size_t i = 0; i < two[0].count && score > 0; i++)
            score = two[0].words[i].size == two[1].words[i].size
                    && !memcmp(two[0].words[i].text, two[1].words[i].text, two[0].words[i].size);
    }
    release(two);
    return score;
}
