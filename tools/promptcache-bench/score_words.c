/* Splits texts into words: English between blanks, Chinese by character. Letters and lower case are
 * those of the C library's tables for UTF-8. */
#include "score_words.h"

#include <locale.h>
#include <stdlib.h>
#include <string.h>
#include <wctype.h>

/* What normalising removes besides ASCII punctuation from Chinese: LongBench's list. */
static const char chinese_signs[] = "！？｡。＂＃＄％＆＇（）＊＋，－／：；＜＝＞＠［＼］＾＿｀｛｜"
                                    "｝～｟｠｢｣､、〃》「」『』【】〔〕〖〗"
                                    "〘〙〚〛〜〝〞〟〰〾〿–—‘’‛“”„‟…‧﹏";

/* -------------------------------------------------------------- characters */

uint32_t words_character(const char *at, size_t *size)
{
    const unsigned char *p = (const unsigned char *)at;
    size_t more = p[0] >= 0xf0 ? 3 : p[0] >= 0xe0 ? 2 : p[0] >= 0xc2 ? 1 : 0;
    uint32_t c = more == 3 ? p[0] & 7u : more == 2 ? p[0] & 15u : more ? p[0] & 31u : p[0];
    *size = 1;
    for (size_t i = 1; i <= more; i++) {
        if ((p[i] & 0xc0) != 0x80)
            return p[0];
        c = c << 6 | (p[i] & 63u);
    }
    *size = more + 1;
    return c;
}

static size_t put_character(char *to, uint32_t c)
{
    if (c < 0x80) {
        to[0] = (char)c;
        return 1;
    }
    if (c < 0x800) {
        to[0] = (char)(0xc0 | c >> 6);
        to[1] = (char)(0x80 | (c & 63));
        return 2;
    }
    if (c < 0x10000) {
        to[0] = (char)(0xe0 | c >> 12);
        to[1] = (char)(0x80 | (c >> 6 & 63));
        to[2] = (char)(0x80 | (c & 63));
        return 3;
    }
    to[0] = (char)(0xf0 | c >> 18);
    to[1] = (char)(0x80 | (c >> 12 & 63));
    to[2] = (char)(0x80 | (c >> 6 & 63));
    to[3] = (char)(0x80 | (c & 63));
    return 4;
}

static int is_blank(uint32_t c)
{
    return c == ' ' || (c >= 9 && c <= 13) || (c >= 0x1c && c <= 0x1f) || c == 0x85 || c == 0xa0
           || c == 0x1680 || (c >= 0x2000 && c <= 0x200a) || c == 0x2028 || c == 0x2029
           || c == 0x202f || c == 0x205f || c == 0x3000;
}

static int is_ascii_sign(uint32_t c)
{
    return (c > ' ' && c < '0') || (c > '9' && c < 'A') || (c > 'Z' && c < 'a')
           || (c > 'z' && c < 0x7f);
}

/* Han, kana, hangul and their signs: from the radicals on. */
static int is_chinese(uint32_t c)
{
    return (c >= 0x2e80 && c < 0xfb00) || (c >= 0xfe30 && c < 0xfe50) || (c >= 0xff00 && c < 0xfff0)
           || (c >= 0x20000 && c < 0x40000);
}

static int is_chinese_sign(const char *at, size_t size)
{
    for (const char *sign = chinese_signs; *sign;) {
        size_t n;
        words_character(sign, &n);
        if (n == size && !memcmp(sign, at, n))
            return 1;
        sign += n;
    }
    return 0;
}

/* A locale that knows all letters; (locale_t)0: there is none, and ASCII must do. */
static locale_t letters(void)
{
    static locale_t found;
    static int tried;
    if (!tried)
        found = newlocale(LC_CTYPE_MASK, "C.UTF-8", (locale_t)0);
    tried = 1;
    return found;
}

static int is_letter(uint32_t c)
{
    if (c < 0x80)
        return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z')
               || c == '_';
    return letters() && iswalnum_l((wint_t)c, letters());
}

static uint32_t lower(uint32_t c)
{
    if (c < 0x80)
        return c >= 'A' && c <= 'Z' ? c + 32 : c;
    return letters() ? (uint32_t)towlower_l((wint_t)c, letters()) : c;
}

/* Writes the character in lower case. A byte that is not UTF-8 stays. */
static size_t put_lower(char *to, uint32_t c, size_t size)
{
    if (size > 1 || c < 0x80)
        return put_character(to, lower(c));
    *to = (char)c;
    return 1;
}

/* ------------------------------------------------------------------- lists */

/* Room for the words of `size` bytes. */
static int open_list(score_words *w, size_t size)
{
    *w = (score_words){.text = malloc(2 * size + 1)}; /* lower case may take more bytes */
    w->words = malloc((size + 1) * sizeof *w->words);
    if (w->text && w->words)
        return 1;
    words_free(w);
    return 0;
}

void words_free(score_words *w)
{
    free(w->text);
    free(w->words);
    *w = (score_words){NULL, NULL, 0};
}

static void add_word(score_words *w, const char *from, const char *end)
{
    w->words[w->count++] = (score_word){from, (size_t)(end - from), 0};
}

static int is_article(const char *from, const char *end)
{
    size_t n = (size_t)(end - from);
    return (n == 1 && *from == 'a') || (n == 2 && !memcmp(from, "an", 2))
           || (n == 3 && !memcmp(from, "the", 3));
}

int words_english(score_words *w, const char *text)
{
    char *to, *word, *run;
    size_t n = 0;
    if (!open_list(w, strlen(text)))
        return 0;
    /* word: what stands between blanks; run: the letters at its end */
    to = word = run = w->text;
    for (;;) {
        uint32_t c = *text ? words_character(text, &n) : ' ';
        int is_end = !*text;
        text += is_end ? 0 : n;
        if (is_ascii_sign(c))
            continue;
        if (!is_letter(c) && is_article(run, to)) {
            to = run; /* an article is a blank */
            if (to > word)
                add_word(w, word, to);
            word = to;
        }
        if (is_blank(c)) {
            if (to > word)
                add_word(w, word, to);
            word = run = to;
        } else {
            to += put_lower(to, c, n);
            run = is_letter(c) ? run : to;
        }
        if (is_end)
            return 1;
    }
}

int words_chinese(score_words *w, const char *text)
{
    char *to, *word;
    if (!open_list(w, strlen(text)))
        return 0;
    to = word = w->text;
    for (size_t n; *text; text += n) {
        uint32_t c = words_character(text, &n);
        int between = is_blank(c) || is_ascii_sign(c) || is_chinese_sign(text, n);
        if ((between || is_chinese(c)) && to > word) {
            add_word(w, word, to);
            word = to;
        }
        if (between)
            continue;
        to += put_lower(to, c, n);
        if (is_chinese(c)) {
            add_word(w, word, to);
            word = to;
        }
    }
    if (to > word)
        add_word(w, word, to);
    return 1;
}

int words_plain(score_words *w, const char *text, size_t size, int zh)
{
    char *end, *at, *word;
    if (!open_list(w, size))
        return 0;
    memcpy(w->text, text, size);
    w->text[size] = 0;
    at = word = w->text;
    end = at + size;
    for (size_t n; at < end; at += n) {
        uint32_t c = words_character(at, &n);
        int alone = zh && !is_blank(c)
                    && (is_chinese(c) || is_ascii_sign(c) || is_chinese_sign(at, n));
        if ((alone || is_blank(c)) && at > word)
            add_word(w, word, at);
        if (alone)
            add_word(w, at, at + n);
        if (alone || is_blank(c))
            word = at + n;
    }
    if (end > word)
        add_word(w, word, end);
    if (!w->count)
        add_word(w, end, end);
    return 1;
}

static int by_text(const void *a, const void *b)
{
    const score_word *x = *(score_word *const *)a, *y = *(score_word *const *)b;
    int order = memcmp(x->text, y->text, x->size < y->size ? x->size : y->size);
    return order ? order : (x->size > y->size) - (x->size < y->size);
}

int words_number(score_words *lists, size_t list_count, size_t *ids)
{
    size_t total = 0, at = 0;
    score_word **sorted;
    for (size_t i = 0; i < list_count; i++)
        total += lists[i].count;
    *ids = 0;
    if (!(sorted = malloc((total + 1) * sizeof *sorted)))
        return 0;
    for (size_t i = 0; i < list_count; i++)
        for (size_t j = 0; j < lists[i].count; j++)
            sorted[at++] = &lists[i].words[j];
    qsort(sorted, total, sizeof *sorted, by_text);
    for (size_t i = 0; i < total; i++)
        sorted[i]->id = i && !by_text(&sorted[i - 1], &sorted[i]) ? *ids - 1 : (*ids)++;
    free(sorted);
    return 1;
}
