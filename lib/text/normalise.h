/* What is done to a text before it is cut and encoded, as a list of steps: those of
 * tokenizer.json's normalizers and of SentencePiece's own. */
#ifndef PC_TEXT_NORMALISE_H
#define PC_TEXT_NORMALISE_H

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "text/charsmap.h"

typedef enum pc__step_kind {
    PC__STEP_MAP_CLUSTERS, /* a map of characters as `tokenizers` uses it: grapheme clusters of up
                              to 5 bytes, else characters; the shortest string there */
    PC__STEP_MAP_LONGEST,  /* as SentencePiece does: the longest string at every place */
    PC__STEP_UNICODE,      /* a normal form: utf8proc's options are in `option` */
    PC__STEP_LOWERCASE,
    PC__STEP_STRIP_MARKS, /* general category M */
    PC__STEP_STRIP,       /* blanks at the ends: `option` 1: left, 2: right, 3: both */
    PC__STEP_ONE_BLANK,   /* runs of U+0020 become one, none at the ends */
    PC__STEP_CONTROLS,    /* NMT's: control characters away, odd blanks become U+0020 */
    PC__STEP_REPLACE,     /* `from` by `to` */
    PC__STEP_EXPRESSION,  /* what `expression` matches by `to` */
    PC__STEP_PREPEND      /* `to`, to a text that is not empty */
} pc__step_kind;

typedef struct pc__step {
    pc__step_kind kind;
    int option;
    char *from, *to;
    size_t from_size, to_size;
    pc__charsmap map;
    pcre2_code *expression;
} pc__step;

typedef struct pc__steps {
    pc_allocator mem;
    pc__step *list;
    size_t count, capacity;
    pcre2_general_context *regex_memory;
    pc__id id; /* of all that they do */
} pc__steps;

pc_status pc__steps_new(pc__steps **out, const pc_allocator *mem);
void pc__steps_free(pc__steps *steps); /* NULL does nothing */
pc_status pc__steps_add(pc__steps *steps, pc__step_kind kind, int option);
pc_status pc__steps_add_map(pc__steps *steps, pc__step_kind kind, const void *bytes, size_t size,
                            const char *where);
/* REPLACE, or EXPRESSION, whose `from` ends with a NUL; PREPEND takes no `from`. */
pc_status pc__steps_add_texts(pc__steps *steps, pc__step_kind kind, pc__text from, pc__text to,
                              const char *where);

/* All steps, one after the other. `out` has an allocator and may have been used before. Bytes that
 * are no UTF-8 stay as they are. PC_ERR_LIMIT: a text that has grown out of all proportion, or an
 * expression that searches without end. */
pc_status pc__steps_run(const pc__steps *steps, const char *text, size_t size, pc__bytes *out);

/* Appends a normal form of UTF-8 (`option`: of utf8proc); other bytes as they are. */
pc_status pc__normal_form(int option, const char *text, size_t size, pc__bytes *out);

#endif
