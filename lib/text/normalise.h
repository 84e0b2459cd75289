/* A normaliser: a list of steps that change a text before it is split and encoded. They come from
 * tokenizer.json (normalise_json.c) or from SentencePiece's settings. */
#ifndef PC_TEXT_NORMALISE_H
#define PC_TEXT_NORMALISE_H

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "text/charsmap.h"

typedef enum pc__step_kind {
    PC__STEP_MAP_CLUSTERS, /* a charsmap as in `tokenizers`: by grapheme clusters of up to 5
                              bytes, else by characters; the shortest match */
    PC__STEP_MAP_LONGEST,  /* a charsmap as in SentencePiece: the longest match at every place */
    PC__STEP_UNICODE,      /* a normal form; `option`: of utf8proc */
    PC__STEP_LOWERCASE,
    PC__STEP_STRIP_MARKS, /* general category M */
    PC__STEP_STRIP,       /* blanks at the ends: `option` 1: left, 2: right, 3: both */
    PC__STEP_ONE_BLANK,   /* runs of U+0020 become one, none at the ends */
    PC__STEP_CONTROLS,    /* as NMT: drops control characters, other blanks become U+0020 */
    PC__STEP_REPLACE,     /* `from` by `to` */
    PC__STEP_EXPRESSION,  /* matches of `expression` by `to` */
    PC__STEP_PREPEND      /* `to`, unless the text is empty */
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
    pc__id id; /* digest of all steps */
} pc__steps;

pc_status pc__steps_new(pc__steps **out, const pc_allocator *mem);
void pc__steps_free(pc__steps *steps); /* NULL does nothing */
pc_status pc__steps_add(pc__steps *steps, pc__step_kind kind, int option);
pc_status pc__steps_add_map(pc__steps *steps, pc__step_kind kind, const void *bytes, size_t size,
                            const char *where);
/* REPLACE; EXPRESSION, `from` NUL-terminated; PREPEND, `from` empty. */
pc_status pc__steps_add_texts(pc__steps *steps, pc__step_kind kind, pc__text from, pc__text to,
                              const char *where);

/* Runs all steps in order. `out` needs an allocator; its content is replaced. Bytes that are not
 * UTF-8 stay as they are. PC_ERR_LIMIT: the text grows too much, or an expression searches too
 * long.
 */
pc_status pc__steps_run(const pc__steps *steps, const char *text, size_t size, pc__bytes *out);

/* Appends a normal form of UTF-8 (`option`: of utf8proc); other bytes as they are. */
pc_status pc__normal_form(int option, const char *text, size_t size, pc__bytes *out);

#endif
