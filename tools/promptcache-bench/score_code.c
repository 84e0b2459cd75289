/* Edit similarity of a line of code: the first line of the answer without a backquote, '#' or "//"
 * against the reference, by insertions and deletions of characters, in whole percent. */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "score.h"
#include "score_words.h"

typedef struct code_line {
    uint32_t *characters;
    size_t count;
} code_line;

/* 0: out of memory. */
static int read_characters(code_line *line, const char *text, size_t size)
{
    *line = (code_line){malloc((size + 1) * sizeof *line->characters), 0};
    for (size_t at = 0, n; line->characters && at < size; at += n)
        line->characters[line->count++] = words_character(text + at, &n);
    return line->characters != NULL;
}

static const char *code_of(const char *answer, size_t *size)
{
    for (answer += strspn(answer, "\n"); *answer; answer += *size + (answer[*size] == '\n')) {
        *size = strcspn(answer, "\n");
        const char *slashes = strstr(answer, "//");
        if (!memchr(answer, '`', *size) && !memchr(answer, '#', *size)
            && !(slashes && slashes < answer + *size))
            return answer;
    }
    *size = 0;
    return answer;
}

/* The longest common subsequence; row [b->count + 1] is zero. */
static size_t common_length(const code_line *a, const code_line *b, size_t *row)
{
    for (size_t i = 0; i < a->count; i++) {
        size_t diagonal = 0;
        for (size_t j = 1; j <= b->count; j++) {
            size_t above = row[j];
            if (a->characters[i] == b->characters[j - 1])
                row[j] = diagonal + 1;
            else
                row[j] = above > row[j - 1] ? above : row[j - 1];
            diagonal = above;
        }
    }
    return row[b->count];
}

double score_code(const char *answer, const char *reference)
{
    size_t size, *row = NULL;
    const char *text = code_of(answer, &size);
    code_line a = {NULL, 0}, b = {NULL, 0};
    double score = NAN;
    if (read_characters(&a, text, size) && read_characters(&b, reference, strlen(reference))
        && (row = calloc(b.count + 1, sizeof *row))) {
        double both = (double)(a.count + b.count);
        score = both > 0 ? nearbyint(100 * (2 * (double)common_length(&a, &b, row) / both)) / 100
                         : 1;
    }
    free(a.characters);
    free(b.characters);
    free(row);
    return score;
}
