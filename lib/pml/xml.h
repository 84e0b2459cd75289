/* XML as a small tree in which every node has its place. Strict: no recovery, no document type, no
 * external entities. Comments and processing instructions vanish; CDATA and entities are text;
 * neighbouring texts are one node. */
#ifndef PC_PML_XML_H
#define PC_PML_XML_H

#include "base/context.h"

typedef struct pc__xml_attribute {
    char *name, *value;
} pc__xml_attribute;

typedef struct pc__xml pc__xml;
struct pc__xml {
    char *name; /* element; NULL: text */
    char *text;
    size_t size, text_capacity; /* of text */
    pc__xml_attribute *attributes;
    size_t attribute_count;
    pc__xml **children;
    size_t child_count, child_capacity;
    pc__xml *parent;
    const char *where;   /* of pc__xml_parse */
    size_t line, column; /* from 1 */
};

/* PC_ERR_PML "where:line:column: cause". `where` stands in error texts; it must outlive the tree.
 */
pc_status pc__xml_parse(pc__xml **out, const pc_allocator *mem, const char *where, const char *text,
                        size_t size);
void pc__xml_free(pc__xml *node, const pc_allocator *mem);
const char *pc__xml_attribute_of(const pc__xml *element, const char *name); /* NULL: none */
/* Nothing but XML blanks. */
int pc__xml_is_blank(const char *text, size_t size);
/* Bytes of a UTF-8 byte order mark at the start: 3, or 0. */
size_t pc__utf8_mark(const char *text, size_t size);
/* UTF-16 or UTF-32, by the byte order mark or zero bytes at its start. */
int pc__is_wide_text(const char *text, size_t size);

/* PC_ERR_PML with "where:line:column: " of `at` in front. */
pc_status pc__xml_fault(const pc__xml *at, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#endif
