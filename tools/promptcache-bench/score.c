/* Names of the measures, and which function computes each. */
#include "score.h"

#include <string.h>

const char *const score_names[SCORE_METRICS + 1] = {
    "f1",        "f1-zh", "rouge-l",        "rouge-l-zh", "exact", "exact-zh",
    "retrieval", "count", "classification", "code",       NULL};

/* The first number of the reference, as in "Paragraph 12". */
static const char *first_number(const char *reference, size_t *size)
{
    const char *at = reference + strcspn(reference, "0123456789");
    *size = strspn(at, "0123456789");
    return at;
}

double score_one(int metric, const score_item *item)
{
    const char *number;
    size_t size;
    switch (metric) {
    case SCORE_F1:
    case SCORE_F1_ZH:
        return score_f1(item->answer, item->reference, metric == SCORE_F1_ZH);
    case SCORE_ROUGE:
    case SCORE_ROUGE_ZH:
        return score_rouge(item->answer, item->reference, metric == SCORE_ROUGE_ZH);
    case SCORE_EXACT:
    case SCORE_EXACT_ZH:
        return score_exact(item->answer, item->reference, metric == SCORE_EXACT_ZH);
    case SCORE_RETRIEVAL:
        number = first_number(item->reference, &size);
        return score_numbers(item->answer, number, size);
    case SCORE_COUNT:
        return score_numbers(item->answer, item->reference, strlen(item->reference));
    case SCORE_CLASSES:
        return score_classes(item);
    default:
        return score_code(item->answer, item->reference);
    }
}

char *score_first_line(char *answer)
{
    answer += strspn(answer, "\n");
    answer[strcspn(answer, "\n")] = 0;
    return answer;
}

const char *score_refuses(int metric, const char *reference, size_t class_count)
{
    if (metric == SCORE_RETRIEVAL && !strpbrk(reference, "0123456789"))
        return "has no number, which the measure retrieval looks for";
    if (metric == SCORE_COUNT && reference[strspn(reference, "0123456789")])
        return "is not a number, which the measure count compares";
    if (metric == SCORE_CLASSES && !class_count)
        return "is a class, but all_classes does not list any";
    return NULL;
}
