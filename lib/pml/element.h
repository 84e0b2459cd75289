/* A schema or prompt as a tree of elements and texts: what its reader has found in XML (xml.h), or
 * what an application has put together with a builder. Schemas (schema_tree.h) and prompts
 * (resolve.h) are made of it. */
#ifndef PC_PML_ELEMENT_H
#define PC_PML_ELEMENT_H

#include "base/context.h"

typedef struct pc__attribute {
    char *name, *value;
    size_t size; /* of value */
} pc__attribute;

/* How an element came to be there. */
typedef enum pc__element_origin {
    PC__FROM_XML,
    /* By a builder: texts are exact, names are free of the rules of XML. */
    PC__BUILT,
    /* The same, and it refers to a module, whatever its name. */
    PC__BUILT_USE,
    /* The same for a module around one that is used: others may name it, too. */
    PC__BUILT_AROUND
} pc__element_origin;

typedef struct pc__element pc__element;
struct pc__element {
    char *name; /* NULL: text */
    char *text;
    size_t size, text_capacity; /* of text */
    int special;                /* text: special tokens in it count */
    pc__element_origin origin;
    pc__attribute *attributes;
    size_t attribute_count, attribute_capacity;
    pc__element **children;
    size_t child_count, child_capacity;
    pc__element *parent;
    const char
        *where; /* in error texts: name of the file, or of what is built; outlives the tree */
    /* From 1. What was built has a number in place of a line, and column 0. */
    size_t line, column;
};

enum { PC__ELEMENT_DEPTH = 128 }; /* how deep elements may be nested */

/* An element (name NULL: text) behind the other children of `parent` (NULL: a root), with the
 * parent's `where` and origin. `name` is copied. NULL: no memory; then nothing has changed. */
pc__element *pc__element_add(pc__element *parent, const pc_allocator *mem, const char *name);
/* Takes the last child away again. */
void pc__element_drop_last(pc__element *parent, const pc_allocator *mem);
/* Appends to the text of a text element. */
pc_status pc__element_add_text(pc__element *text, const pc_allocator *mem, const char *data,
                               size_t size);
pc_status pc__element_set(pc__element *element, const pc_allocator *mem, const char *name,
                          const char *value, size_t size);
void pc__element_free(pc__element *element, const pc_allocator *mem);

const char *pc__element_attribute(const pc__element *element, const char *name); /* NULL: none */
/* Nothing but XML blanks. */
int pc__is_blank_text(const char *text, size_t size);
/* Blanks of a document between elements: layout of the file. */
int pc__element_is_layout(const pc__element *element);
/* Nothing but blanks in it. */
int pc__element_is_empty(const pc__element *element);

/* "where:line:column", or "where: element number" of what was built. */
enum { PC__PLACE_SIZE = 320 };
const char *pc__place(char out[PC__PLACE_SIZE], const char *where, size_t line, size_t column);
/* Sets the error text, with the place in front, and pc_error_place. */
pc_status pc__place_fault(pc_status status, const char *where, size_t line, size_t column,
                          const char *format, ...) __attribute__((format(printf, 5, 6)));
/* PC_ERR_PML at the place of `at`. */
pc_status pc__element_fault(const pc__element *at, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* Puts the place before the error text of a callee. */
pc_status pc__place_in(pc_status status, const char *where, size_t line, size_t column);

#endif
