/* What the files of the Jinja interpreter share. The text is split once into segments: plain text,
 * prints, statements. Expressions are computed while they are parsed; with `skip` they are parsed
 * only, e.g. the other branch of a condition. All values live in an arena until the run ends. After
 * the first failure every read finds the end. */
#ifndef PC_TEXT_JINJA_INTERNAL_H
#define PC_TEXT_JINJA_INTERNAL_H

#include <string.h>

#include "text/jinja.h"
#include "text/utf8.h"

typedef enum pc__jkind {
    PC__J_UNDEFINED,
    PC__J_NONE,
    PC__J_BOOL,
    PC__J_INT,
    PC__J_STRING,
    PC__J_LIST,
    PC__J_MAP,
    PC__J_MACRO,   /* number: its segment */
    PC__J_FUNCTION /* text: its name */
} pc__jkind;

typedef struct pc__jlist pc__jlist;

typedef struct pc__jvalue {
    pc__jkind kind;
    int64_t number;
    pc__text text;
    /* of a map: with keys. Shared, not copied: changes of a namespace show everywhere */
    pc__jlist *list;
} pc__jvalue;

typedef struct pc__jentry {
    pc__jvalue key, value;
} pc__jentry;

struct pc__jlist {
    pc__jentry *items;
    size_t count, capacity;
};

typedef enum pc__jword {
    PC__JW_TEXT,  /* plain text */
    PC__JW_PRINT, /* {{ … }} */
    PC__JW_OTHER, /* a statement that is not known: an error when it is reached */
    PC__JW_SET_BLOCK,
    PC__JW_IF, /* from here on in the order of word_of */
    PC__JW_ELIF,
    PC__JW_ELSE,
    PC__JW_ENDIF,
    PC__JW_FOR,
    PC__JW_ENDFOR,
    PC__JW_SET,
    PC__JW_ENDSET,
    PC__JW_MACRO,
    PC__JW_ENDMACRO,
    PC__JW_GENERATION, /* marks an answer: ignored */
    PC__JW_ENDGENERATION,
    PC__JW_BREAK,
    PC__JW_CONTINUE
} pc__jword;

typedef struct pc__jsegment {
    pc__jword word;
    const char *begin, *end; /* of a statement: after its word */
} pc__jsegment;

typedef struct pc__jvariable {
    pc__text name;
    pc__jvalue value;
} pc__jvariable;

enum { PC__J_ARGUMENTS = 12 };

typedef struct pc__jarguments {
    pc__jvalue value[PC__J_ARGUMENTS];
    pc__text name[PC__J_ARGUMENTS]; /* empty: by position */
    size_t count;
} pc__jarguments;

typedef struct pc__jblock pc__jblock;

typedef struct pc__jinja {
    const pc_allocator *mem;
    const char *source, *source_end;
    pc__jsegment *segments;
    size_t segment_count, segment_capacity;
    pc__jblock *blocks; /* the arena */
    size_t arena_bytes;
    pc__jvariable *variables;
    size_t variable_count, variable_capacity;
    size_t frame; /* the first variable that `set` may change */
    pc__bytes *out;
    const char *at, *end; /* the expression that is being parsed */
    int skip, depth, leaving;
    uint64_t steps;
    pc_status status;
} pc__jinja;

/* Only the first failure counts; puts the line before its text. Returns the undefined value. */
pc__jvalue pc__j_fail(pc__jinja *j, pc_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Counts a step. 0: too many steps, or too deep, or the run has failed. */
int pc__j_step(pc__jinja *j);

/* Frees all memory of the run. */
void pc__j_end(pc__jinja *j);

/* ---- values */
void *pc__j_alloc(pc__jinja *j, size_t size); /* zeroed; NULL: the run has failed */
pc__jvalue pc__j_bool(int truth);
pc__jvalue pc__j_int(int64_t number);
pc__jvalue pc__j_string(pc__text text); /* borrowed */
pc__jvalue pc__j_copy(pc__jinja *j, pc__text text);
pc__jvalue pc__j_list(pc__jinja *j, pc__jkind kind); /* empty; LIST or MAP */
void pc__j_add(pc__jinja *j, pc__jvalue list, pc__jvalue value);
void pc__j_add_pair(pc__jinja *j, pc__jvalue map, pc__jvalue key, pc__jvalue value);
void pc__j_put(pc__jinja *j, pc__jvalue map, pc__text key, pc__jvalue value);
/* NULL: there is no such member, or `map` is no map. */
pc__jvalue *pc__j_member(const pc__jvalue *map, pc__text key);
int pc__j_is(const pc__jvalue *string, const char *text);
int pc__j_truth(const pc__jvalue *value); /* 1 or 0 */
int pc__j_equal(const pc__jvalue *a, const pc__jvalue *b);
int pc__j_contains(pc__jinja *j, const pc__jvalue *in, const pc__jvalue *what);
/* As print writes it. */
pc__jvalue pc__j_text(pc__jinja *j, pc__jvalue value);
pc__jvalue pc__j_join(pc__jinja *j, pc__jvalue a, pc__jvalue b); /* of two strings */
int64_t pc__j_length(const pc__jvalue *value);                   /* -1: it has none */
pc__jvalue pc__j_characters(pc__jinja *j, pc__jvalue string);

/* ---- variables */
/* The last variable of this name, among those from `first` on; NULL: none. */
pc__jvalue *pc__j_variable(pc__jinja *j, size_t first, pc__text name);
void pc__j_set(pc__jinja *j, pc__text name, pc__jvalue value);

/* ---- reading */
int pc__j_accept(pc__jinja *j, const char *mark);
int pc__j_accept_word(pc__jinja *j, const char *word);
pc__text pc__j_name(pc__jinja *j);                           /* empty: no name is here */
pc__text pc__j_expect_name(pc__jinja *j, const char *after); /* `after`: for the error text */
void pc__j_expect(pc__jinja *j, const char *mark);
void pc__j_expect_end(pc__jinja *j);
/* Whether another item of a list that ends with `close` follows, after the comma before it. */
int pc__j_goes_on(pc__jinja *j, int first, const char *close);
pc__jvalue pc__j_expression(pc__jinja *j);
pc__jvalue pc__j_or(pc__jinja *j); /* an expression that is not "a if b else c" */

/* ---- calls */
pc__jvalue pc__j_filter(pc__jinja *j, pc__jvalue name, pc__jvalue value, const pc__jarguments *a);
int pc__j_test(pc__jinja *j, pc__jvalue name, const pc__jvalue *value, const pc__jvalue *with);
pc__jvalue pc__j_method(pc__jinja *j, pc__jvalue self, pc__jvalue name, const pc__jarguments *a);
pc__jvalue pc__j_function(pc__jinja *j, pc__jvalue name, const pc__jarguments *a);
int pc__j_is_function(pc__text name);
pc__jvalue pc__j_macro(pc__jinja *j, size_t segment, const pc__jarguments *a);

#endif
