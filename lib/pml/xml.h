/* XML as a small tree in which every node has its place. Strict: no recovery, no document type, no
 * external entities. Comments and processing instructions vanish; CDATA and entities are text;
 * neighbouring texts are one node. */
#ifndef PC_PML_XML_H
#define PC_PML_XML_H

#include "pml/element.h"

/* PC_ERR_PML "where:line:column: cause". `where` stands in error texts; it must outlive the tree.
 */
pc_status pc__xml_parse(pc__element **out, const pc_allocator *mem, const char *where,
                        const char *text, size_t size);
/* Bytes of a UTF-8 byte order mark at the start: 3, or 0. */
size_t pc__utf8_mark(const char *text, size_t size);
/* UTF-16 or UTF-32, by the byte order mark or zero bytes at its start. */
int pc__is_wide_text(const char *text, size_t size);

#endif
