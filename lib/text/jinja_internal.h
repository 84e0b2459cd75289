/* What the files of the Jinja interpreter share. A text is read once into a tree of nodes; runs
 * evaluate the tree. Nodes and values live in an arena: those of the text as long as the object,
 * those of a run until it ends. After the first failure nothing more is done. */
#ifndef PC_TEXT_JINJA_INTERNAL_H
#define PC_TEXT_JINJA_INTERNAL_H

#include <string.h>

#include "text/jinja.h"
#include "text/utf8.h"

/* ---- values */
typedef enum pc__jkind {
    PC__J_UNDEFINED, /* text: its name */
    PC__J_NONE,
    PC__J_BOOL,
    PC__J_INT,
    PC__J_STRING,
    PC__J_LIST,
    PC__J_TUPLE,
    PC__J_RANGE,
    PC__J_VIEW,     /* what items(), keys() and values() of a mapping give */
    PC__J_ITERATOR, /* what filters such as map() give: it can be used once */
    PC__J_MAP,
    PC__J_NAMESPACE,
    PC__J_LOOP,
    PC__J_MACRO,
    PC__J_FUNCTION, /* text: its name */
    PC__J_REAL      /* of JSON. text: as it is printed */
} pc__jkind;

typedef struct pc__jnode pc__jnode;
typedef struct pc__jframe pc__jframe;
typedef struct pc__jlist pc__jlist;

typedef struct pc__jloop {
    const pc__jlist *items;
    size_t at;
} pc__jloop;

typedef struct pc__jvalue {
    pc__jkind kind;
    /* Of a string: PC__ORIGIN_… of each byte. NULL: all are the template's. */
    const unsigned char *origin;
    int64_t number;
    pc__text text;
    union {
        pc__jlist *list; /* of a map: with keys. Shared, not copied */
        const pc__jloop *loop;
        const pc__jnode *macro;
    };
    pc__jframe *frame; /* where a macro was defined */
} pc__jvalue;

typedef struct pc__jentry {
    pc__jvalue key, value;
} pc__jentry;

struct pc__jlist {
    pc__jentry *items;
    size_t count, capacity;
    int used; /* of an iterator */
};

typedef struct pc__jvariable {
    pc__text name;
    pc__jvalue value;
} pc__jvariable;

struct pc__jframe {
    pc__jframe *parent;
    pc__jvariable *items;
    size_t count, capacity;
    int is_held; /* by a macro that was defined in it */
};

/* ---- nodes */
typedef enum pc__jop {
    PC__JO_CONST,
    PC__JO_REFUSED, /* a part of the language that is not known: an error when it is reached */
    PC__JO_NAME,
    PC__JO_TUPLE, /* of[0]: the first of its items, a chain */
    PC__JO_LIST,
    PC__JO_MAP,       /* a chain of pairs: of[0] key, of[1] value */
    PC__JO_CONDITION, /* of[0] test, of[1] value, of[2] other or NULL */
    PC__JO_OR,
    PC__JO_AND,
    PC__JO_NOT,
    PC__JO_COMPARE,    /* of[0] first, of[1]: a chain; of each: `sign` and of[0] */
    PC__JO_ARITHMETIC, /* `sign`, of[0], of[1] */
    PC__JO_CONCAT,     /* a chain */
    PC__JO_SIGN,       /* `sign`: '-' or '+' */
    PC__JO_ATTRIBUTE,  /* of[0], name */
    PC__JO_ELEMENT,    /* of[0], of[1] */
    PC__JO_SLICE,      /* of[0], of[1] to of[3] or NULL */
    PC__JO_CALL,       /* of[0], arguments of[1]: a chain with names */
    PC__JO_FILTER,     /* of[0], name, arguments of[1] */
    PC__JO_TEST,
    /* statements */
    PC__JO_TEXT,
    PC__JO_PRINT,
    PC__JO_IF,        /* of[0] test, of[1] body, of[2] the next branch, of[3] body of else */
    PC__JO_FOR,       /* of[0] iterable, of[1] body, of[2] else, of[3] target, of[4] condition */
    PC__JO_SET,       /* of[0] target, of[1] value */
    PC__JO_SET_BLOCK, /* of[0] target, of[1] body */
    PC__JO_MACRO, /* name, of[1] body, of[0] parameters: a chain; of each: name, of[0] default */
    PC__JO_BLOCK, /* of[1]: a body with a frame of its own */
    PC__JO_BREAK,
    PC__JO_CONTINUE,
    /* parts of others */
    PC__JO_MEMBER, /* a target: of the namespace `name` the member `value` */
    PC__JO_PART    /* a pair, an operand, an argument, a parameter */
} pc__jop;

/* Signs of comparisons; others are their character. */
enum { PC__JS_EQUAL = 1, PC__JS_UNEQUAL, PC__JS_LESS, PC__JS_LESS_EQUAL, PC__JS_GREATER };
enum { PC__JS_GREATER_EQUAL = PC__JS_GREATER + 1, PC__JS_IN, PC__JS_NOT_IN };
enum { PC__JS_POWER = 'p', PC__JS_QUOTIENT = 'q' }; /* of arithmetic: two characters */

struct pc__jnode {
    pc__jop op;
    int sign;
    const char *at; /* in the text */
    pc__text name;
    pc__jvalue value;
    pc__jnode *of[5];
    pc__jnode *next; /* in a chain */
};

enum { PC__J_ARGUMENTS = 12 };

typedef struct pc__jarguments {
    pc__jvalue value[PC__J_ARGUMENTS];
    pc__text name[PC__J_ARGUMENTS]; /* empty: by position */
    size_t count;
} pc__jarguments;

/* ---- tokens */
typedef enum pc__jtoken_kind {
    PC__JT_END,
    PC__JT_TEXT,
    PC__JT_PRINT,
    PC__JT_PRINT_END,
    PC__JT_BLOCK,
    PC__JT_BLOCK_END,
    PC__JT_NAME,
    PC__JT_STRING, /* text: between its quotes */
    PC__JT_INTEGER,
    PC__JT_NUMBER, /* not a decimal integer */
    PC__JT_SIGN
} pc__jtoken_kind;

typedef struct pc__jtoken {
    pc__jtoken_kind kind;
    pc__text text;
    const char *at;
} pc__jtoken;

enum { PC__J_BRACKETS = 64 };

typedef struct pc__jlexer {
    const char *at;
    const char *tag; /* the open one; NULL: outside */
    char brackets[PC__J_BRACKETS];
    size_t bracket_count;
    pc__jtoken now, next;
} pc__jlexer;

typedef struct pc__jblock pc__jblock;

struct pc__jinja {
    const pc_allocator *mem;
    char *source; /* with line breaks as Jinja makes them */
    const char *end;
    pc__jlexer lexer;
    pc__text unknown; /* a filter or test of the statement that Jinja does not have */
    int conditional;  /* inside a condition, where Jinja lets such names pass */
    int in_loop;      /* whether break and continue are allowed */
    int64_t largest_number;
    pc__jnode *body;
    const char *at;    /* what is being read or run, for error texts */
    pc__jnode scratch; /* takes what is read after a failure */
    pc__jblock *blocks;
    size_t arena_bytes, most_bytes, most_output;
    uint64_t work, most_work;
    int depth, leaving;
    int64_t now;   /* pc__jinja_input */
    int filtering; /* > 0: in the condition of a loop, which Jinja evaluates later */
    pc__jframe *frame;
    int dated;
    pc__bytes *out, *out_origins; /* the latter may be NULL */
    int out_content;              /* something of another origin than the template was printed */
    pc_status status;
};

/* Only the first failure counts; puts the line before its text. Returns the undefined value. */
pc__jvalue pc__j_fail(pc__jinja *j, pc_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Counts work. 0: too much, or the run has failed. */
int pc__j_charge(pc__jinja *j, size_t bytes);
int pc__j_step(pc__jinja *j);  /* the price of a step */
int pc__j_enter(pc__jinja *j); /* a step one level deeper; j->depth-- ends it. 0: failed */

/* ---- memory */
void *pc__j_alloc(pc__jinja *j, size_t size);      /* zeroed; NULL: it has failed */
pc__jblock *pc__j_mark(pc__jinja *j);              /* what is allocated from here on ... */
void pc__j_forget(pc__jinja *j, pc__jblock *mark); /* ... is freed */

/* ---- values */
pc__jvalue pc__j_bool(int truth);
pc__jvalue pc__j_int(int64_t number);
pc__jvalue pc__j_string(pc__text text); /* borrowed */
/* The same of the caller, for the origins of bytes; its first `marked` bytes are marked. */
pc__jvalue pc__j_given(pc__jinja *j, const char *text, size_t size, size_t marked);
pc__jvalue pc__j_copy(pc__jinja *j, pc__jvalue string); /* in the arena */
/* A part of a string, borrowed from it; or the empty string. */
pc__jvalue pc__j_part(const pc__jvalue *of, pc__text text);
pc__jvalue pc__j_list(pc__jinja *j, pc__jkind kind); /* empty */
void pc__j_add(pc__jinja *j, pc__jvalue list, pc__jvalue value);
/* Of a map; replaces what is there. */
void pc__j_put(pc__jinja *j, pc__jvalue map, pc__jvalue key, pc__jvalue value);
/* NULL: there is no such member, or `map` is none. */
pc__jvalue *pc__j_member(pc__jinja *j, const pc__jvalue *map, const pc__jvalue *key);
int pc__j_is(pc__text text, const char *word);
int pc__j_is_listed(const char *words, pc__text name); /* separated by blanks */
int pc__j_is_number(const pc__jvalue *v);
void pc__j_look(pc__jinja *j, const pc__jvalue *value); /* the work of reading a string */
int pc__j_truth(const pc__jvalue *value);               /* 1 or 0 */
int pc__j_equal(pc__jinja *j, const pc__jvalue *a, const pc__jvalue *b);
int pc__j_contains(pc__jinja *j, const pc__jvalue *in, const pc__jvalue *what);
pc__jvalue pc__j_text(pc__jinja *j, pc__jvalue value);           /* as print writes it */
pc__jvalue pc__j_join(pc__jinja *j, pc__jvalue a, pc__jvalue b); /* of two strings */
int64_t pc__j_length(pc__jinja *j, const pc__jvalue *value);     /* -1: it has none */
/* What a loop over the value goes through. */
pc__jvalue pc__j_items(pc__jinja *j, pc__jvalue value);

/* ---- variables */
pc__jframe *pc__j_frame(pc__jinja *j);                   /* a new one inside the current one */
pc__jvalue *pc__j_variable(pc__jinja *j, pc__text name); /* NULL: none */
void pc__j_set(pc__jinja *j, pc__text name, pc__jvalue value);

/* ---- reading */
void pc__j_start_lexer(pc__jinja *j);
void pc__j_advance(pc__jinja *j);                         /* to the next token */
size_t pc__j_blank_size(const char *at, const char *end); /* of white space at `at`; 0: none */
int pc__j_at_sign(const pc__jinja *j, const char *sign);
int pc__j_at_name(const pc__jinja *j, const char *name);
int pc__j_accept(pc__jinja *j, const char *sign);
int pc__j_accept_name(pc__jinja *j, const char *name);
void pc__j_expect(pc__jinja *j, const char *sign);
pc__text pc__j_expect_name(pc__jinja *j);        /* any name */
pc__jnode *pc__j_node(pc__jinja *j, pc__jop op); /* never NULL: a scratch node after a failure */
pc__jnode *pc__j_read_expression(pc__jinja *j);
/* Expressions between commas are a tuple. */
enum { PC__J_NO_CONDITION = 1, PC__J_PARENTHESES = 2, PC__J_TARGET = 4, PC__J_MEMBERS = 8 };
pc__jnode *pc__j_read_tuple(pc__jinja *j, int how);
pc__jnode *pc__j_read_statements(pc__jinja *j); /* the whole text */

/* ---- running */
pc__jvalue pc__j_eval(pc__jinja *j, const pc__jnode *node);
pc__jvalue pc__j_call_macro(pc__jinja *j, const pc__jvalue *macro, const pc__jarguments *a);
pc__jvalue pc__j_element(pc__jinja *j, const pc__jvalue *of, const pc__jvalue *index);
int pc__j_compare(pc__jinja *j, int sign, const pc__jvalue *a, const pc__jvalue *b);

/* ---- calls */
pc__jvalue pc__j_filter(pc__jinja *j, pc__text name, pc__jvalue value, const pc__jarguments *a);
int pc__j_test(pc__jinja *j, pc__text name, const pc__jvalue *value, const pc__jarguments *a);
pc__jvalue pc__j_method(pc__jinja *j, pc__jvalue self, pc__text name, const pc__jarguments *a);
pc__jvalue pc__j_function(pc__jinja *j, pc__text name, const pc__jarguments *a);
int pc__j_is_function(pc__text name);
int pc__j_is_method(const pc__jvalue *of, pc__text name); /* Python has an attribute so named */
int pc__j_knows(pc__text name, int is_test); /* whether Jinja has such a filter or test */

/* ---- JSON */
pc__jvalue pc__j_from_json(pc__jinja *j, const struct json_t *json);
size_t pc__j_json_size(const struct json_t *json); /* of what it takes; NULL: 0 */
pc__jvalue pc__j_to_json(pc__jinja *j, const pc__jvalue *value, const pc__jarguments *a);

/* Brings arguments in the order of `names` (separated by blanks, of which the first `least` are
 * needed): values not given stay undefined and have no bit in the result. -1: they do not fit. */
enum { PC__J_MOST_ARGUMENTS = 4 };
int pc__j_arguments(pc__jinja *j, const pc__jarguments *a, pc__text of, const char *names,
                    size_t least, pc__jvalue out[]);

/* ---- strings */
enum { PC__J_LEFT = 1, PC__J_RIGHT = 2 };
enum { PC__J_UPPER, PC__J_LOWER, PC__J_CAPITAL, PC__J_TITLE, PC__J_TITLE_FILTER };
/* `set` none: white space. */
pc__jvalue pc__j_strip(pc__jinja *j, pc__jvalue text, const pc__jvalue *set, int sides);
pc__jvalue pc__j_change_case(pc__jinja *j, pc__jvalue text, int how);
pc__jvalue pc__j_split(pc__jinja *j, pc__jvalue text, const pc__jvalue *at, int64_t most);
pc__jvalue pc__j_replace(pc__jinja *j, pc__jvalue text, pc__jvalue old, pc__jvalue new,
                         int64_t most);
pc__jvalue pc__j_join_list(pc__jinja *j, pc__jvalue list, pc__jvalue between);
/* Where `part` is; NULL: nowhere. */
const char *pc__j_find(pc__jinja *j, pc__text text, pc__text part);

#endif
