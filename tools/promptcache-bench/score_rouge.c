/* ROUGE-L of a whole answer, as the Python package `rouge` computes it, which LongBench uses:
 * sentences end at full stops; of every pair of a sentence of the reference and one of the answer,
 * the words of their longest common subsequence are joined into one set. Its size over the number
 * of different words of either text gives recall and precision; the score is their F. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "score.h"
#include "score_words.h"

typedef struct rouge_text {
    score_words *sentences;
    size_t count;
} rouge_text;

static void close_text(rouge_text *t)
{
    for (size_t i = 0; i < t->count; i++)
        words_free(&t->sentences[i]);
}

/* Sentences are what stands between full stops, unless it is empty. 0: out of memory. */
static int read_sentences(rouge_text *t, const char *text, int zh)
{
    for (const char *at = text; *at;) {
        size_t size = strcspn(at, ".");
        if (size && !words_plain(&t->sentences[t->count], at, size, zh))
            return 0;
        t->count += size > 0;
        at += size + (at[size] == '.');
    }
    return 1;
}

static size_t different_words(const rouge_text *t, unsigned char *seen, size_t ids)
{
    size_t count = 0;
    memset(seen, 0, ids);
    for (size_t i = 0; i < t->count; i++)
        for (size_t j = 0; j < t->sentences[i].count; j++) {
            count += !seen[t->sentences[i].words[j].id];
            seen[t->sentences[i].words[j].id] = 1;
        }
    return count;
}

/* Where the longest common subsequence of the first i and the first j words goes on. */
enum { BOTH, SHORTER_REFERENCE, SHORTER_ANSWER };

/* Adds the words of the longest common subsequence to `seen`. Of several, it is the one that the
 * package finds: from the ends, the reference gets shorter only where that is longer. 0: out of
 * memory. */
static int join_common(const score_words *reference, const score_words *answer, unsigned char *seen)
{
    size_t n = reference->count, m = answer->count, i, j;
    unsigned char *step = malloc((n + 1) * (m + 1));
    size_t *row = calloc(m + 1, sizeof *row); /* lengths */
    int done = step && row;
    for (i = 1; done && i <= n; i++) {
        size_t diagonal = 0; /* row i - 1, column j - 1 */
        for (j = 1; j <= m; j++) {
            size_t above = row[j];
            unsigned char *to = &step[i * (m + 1) + j];
            if (reference->words[i - 1].id == answer->words[j - 1].id) {
                row[j] = diagonal + 1;
                *to = BOTH;
            } else if (above > row[j - 1]) {
                *to = SHORTER_REFERENCE;
            } else {
                row[j] = row[j - 1];
                *to = SHORTER_ANSWER;
            }
            diagonal = above;
        }
    }
    for (i = n, j = m; done && i && j;) {
        unsigned char way = step[i * (m + 1) + j];
        if (way == BOTH)
            seen[reference->words[i - 1].id] = 1;
        i -= way != SHORTER_ANSWER;
        j -= way != SHORTER_REFERENCE;
    }
    free(step);
    free(row);
    return done;
}

static double compare(const rouge_text *answer, const rouge_text *reference, unsigned char *seen,
                      size_t ids)
{
    double of_answer = (double)different_words(answer, seen, ids);
    double of_reference = (double)different_words(reference, seen, ids);
    double precision, recall, common = 0;
    memset(seen, 0, ids);
    for (size_t i = 0; i < reference->count; i++)
        for (size_t j = 0; j < answer->count; j++)
            if (!join_common(&reference->sentences[i], &answer->sentences[j], seen))
                return NAN;
    for (size_t i = 0; i < ids; i++)
        common += seen[i];
    precision = common / of_answer;
    recall = common / of_reference;
    return 2 * (precision * recall / (precision + recall + 1e-8));
}

double score_rouge(const char *answer, const char *reference, int zh)
{
    size_t most = strlen(answer) + strlen(reference) + 2, ids;
    score_words *sentences = calloc(most, sizeof *sentences);
    rouge_text a = {sentences, 0}, r = {sentences, 0};
    unsigned char *seen = NULL;
    double score = NAN;
    if (sentences && read_sentences(&a, answer, zh)) {
        r.sentences = sentences + a.count; /* one array, whose words are numbered together */
        if (read_sentences(&r, reference, zh) && words_number(sentences, a.count + r.count, &ids)
            && (seen = malloc(ids + 1)))
            score = a.count && r.count ? compare(&a, &r, seen, ids) : 0;
    }
    close_text(&a);
    close_text(&r);
    free(seen);
    free(sentences);
    return score;
}
