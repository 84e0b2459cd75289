/* Words of a text, for the measures that compare words. */
#ifndef SCORE_WORDS_H
#define SCORE_WORDS_H

#include <stddef.h>
#include <stdint.h>

typedef struct score_word {
    const char *text;
    size_t size;
    size_t id; /* equal words of numbered lists have equal ids */
} score_word;

typedef struct score_words {
    char *text; /* that the words lie in */
    score_word *words;
    size_t count;
} score_words;

/* Normalised: in lower case, without ASCII punctuation, without a, an, the; between blanks. 0: out
 * of memory. */
int words_english(score_words *w, const char *text);
/* Normalised: in lower case. Each Chinese character is a word, and each run of other letters and
 * digits; punctuation of both scripts is between words. */
int words_chinese(score_words *w, const char *text);
/* Not normalised, between blanks; zh: each Chinese character, and each sign, is a word, too. A text
 * of blanks alone, and an empty one, is one empty word. */
int words_plain(score_words *w, const char *text, size_t size, int zh);
void words_free(score_words *w);
/* Numbers the words of all lists: equal words get equal ids, from 0. *ids: how many there are. 0:
 * out of memory. */
int words_number(score_words *lists, size_t list_count, size_t *ids);

/* The character at `at`, which is not the end; a byte that is not UTF-8 stands for itself. */
uint32_t words_character(const char *at, size_t *size);

#endif
