/* Final answers, majorities, pass@k. */
#include "votes.h"

#include <ctype.h>
#include <regex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "program.h"

struct answer_rule {
    int has_pattern;
    regex_t pattern;
};

answer_rule *answer_rule_new(const char *pattern, const char *where)
{
    answer_rule *rule = calloc(1, sizeof *rule);
    char cause[256];
    int error = rule && pattern ? regcomp(&rule->pattern, pattern, REG_EXTENDED) : 0;
    if (!rule)
        plain_error("out of memory");
    if (error) {
        regerror(error, &rule->pattern, cause, sizeof cause);
        plain_error("%s: answer: %s", where, cause);
        free(rule);
        return NULL;
    }
    if (rule)
        rule->has_pattern = pattern != NULL;
    return rule;
}

void answer_rule_free(answer_rule *rule)
{
    if (rule && rule->has_pattern)
        regfree(&rule->pattern);
    free(rule);
}

/* The end of the number at `at`; NULL: there is none. Commas stand between three digits. */
static const char *number_end(const char *at)
{
    const char *end = at + (*at == '-');
    size_t digits = strspn(end, "0123456789");
    if (!digits)
        return NULL;
    end += digits;
    while (digits <= 3 && *end == ',' && strspn(end + 1, "0123456789") == 3)
        end += 4;
    if (*end == '.' && isdigit((unsigned char)end[1]))
        end += 1 + strspn(end + 1, "0123456789");
    return end;
}

/* The value of a number as text: 15 digits tell apart what is written in so many. */
static char *number_text(const char *from, const char *to)
{
    char *text = malloc((size_t)(to - from) + 32), *end = text;
    if (!text)
        return NULL;
    for (; from < to; from++)
        if (*from != ',')
            *end++ = *from;
    *end = 0;
    if (end - text <= 15) { /* else as it is written */
        double value = strtod(text, NULL);
        snprintf(text, 32, "%.15g", value == 0 ? 0 : value);
    }
    return text;
}

static int is_part_of_word(const char *text, const char *at)
{
    return at > text && (isalnum((unsigned char)at[-1]) || at[-1] == '_' || at[-1] == '.');
}

static char *last_number(const char *text)
{
    const char *from = NULL, *to = NULL, *end;
    for (const char *at = text; *at; at++) {
        if (*at == '-' && is_part_of_word(text, at)) /* "3-4" has a 4 */
            continue;
        if (!(end = number_end(at)))
            continue;
        from = at;
        to = end;
        at = end - 1;
    }
    return from ? number_text(from, to) : strdup("");
}

/* A text that is a number and no more, perhaps behind a "$", is its value. */
static char *trimmed(const char *from, const char *to)
{
    const char *number, *end;
    while (from < to && isspace((unsigned char)*from))
        from++;
    while (to > from && isspace((unsigned char)to[-1]))
        to--;
    number = from + (from < to && *from == '$');
    if ((end = number_end(number)) && end == to)
        return number_text(number, to);
    return strndup(from, (size_t)(to - from));
}

static char *last_match(const regex_t *pattern, const char *text)
{
    const char *from = NULL, *to = NULL;
    regmatch_t m[2];
    for (const char *at = text; !regexec(pattern, at, 2, m, at == text ? 0 : REG_NOTBOL);) {
        const regmatch_t *part = pattern->re_nsub && m[1].rm_so >= 0 ? &m[1] : &m[0];
        from = at + part->rm_so;
        to = at + part->rm_eo;
        at += m[0].rm_eo > 0 ? m[0].rm_eo : 1;
        if (!at[-1] || !*at)
            break;
    }
    return from ? trimmed(from, to) : strdup("");
}

char *final_answer(const answer_rule *rule, const char *text, int *failed)
{
    char *answer = rule->has_pattern ? last_match(&rule->pattern, text) : last_number(text);
    *failed = !answer;
    if (answer && !*answer) {
        free(answer);
        answer = NULL;
    }
    return answer;
}

const char *majority(const char *const *answers, size_t count)
{
    const char *best = NULL;
    size_t most = 0;
    for (size_t i = 0; i < count; i++) {
        size_t votes = 0;
        for (size_t j = i; answers[i] && j < count; j++)
            votes += answers[j] && !strcmp(answers[i], answers[j]);
        if (votes > most) {
            most = votes;
            best = answers[i];
        }
    }
    return best;
}

double majority_share(const char *const *answers, size_t count, size_t k, const char *wanted)
{
    size_t right = 0, groups = count / k;
    for (size_t i = 0; i < groups; i++) {
        const char *answer = majority(answers + i * k, k);
        right += answer && !strcmp(answer, wanted);
    }
    return (double)right / (double)groups;
}

double pass_at(size_t count, size_t right, size_t k)
{
    double all_wrong = 1;
    if (count - right < k)
        return 1;
    for (size_t i = count - right + 1; i <= count; i++)
        all_wrong *= 1 - (double)k / (double)i;
    return 1 - all_wrong;
}
