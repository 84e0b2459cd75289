/* XML by expat, as a small tree. Expat's memory comes from the parse's allocator. */
#include "pml/xml.h"

#include <expat.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "text/utf8.h"

enum { DEPTH = 128 };

typedef struct parsing {
    const pc_allocator *mem;
    const char *where;
    XML_Parser parser;
    pc__xml *root, *open;
    size_t depth;
    pc_status status; /* negative: a handler has stopped the parser */
} parsing;

/* Expat's memory functions take no user pointer; a parse stays on one thread. */
static _Thread_local const pc_allocator *current;

static void *xml_alloc(size_t size)
{
    return pc__alloc(current, size);
}

static void *xml_realloc(void *ptr, size_t size)
{
    return pc__realloc(current, ptr, size);
}

static void xml_free(void *ptr)
{
    pc__free(current, ptr);
}

int pc__xml_is_blank(const char *text, size_t size)
{
    for (size_t i = 0; i < size; i++)
        if (!pc__is_blank(text[i]))
            return 0;
    return 1;
}

pc_status pc__xml_fault(const pc__xml *at, const char *format, ...)
{
    char text[480];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    return pc__fail(PC_ERR_PML, "%s:%zu:%zu: %s", at->where, at->line, at->column, text);
}

static void stop_parsing(parsing *p, pc_status status)
{
    p->status = status;
    XML_StopParser(p->parser, XML_FALSE);
}

/* An empty node at the place that the parser has reached. */
static pc__xml current_place(const parsing *p)
{
    return (pc__xml){.where = p->where,
                     .line = XML_GetCurrentLineNumber(p->parser),
                     .column = XML_GetCurrentColumnNumber(p->parser) + 1};
}

static pc__xml *add_child(parsing *p)
{
    pc__xml *node = pc__calloc(p->mem, 1, sizeof *node), *parent = p->open;
    if (!node)
        return NULL;
    *node = current_place(p);
    node->parent = parent;
    if (!parent) {
        p->root = node;
    } else if (pc__grow(p->mem, (void **)&parent->children, &parent->child_capacity,
                        parent->child_count + 1, sizeof *parent->children)
               < 0) {
        pc__free(p->mem, node);
        return NULL;
    } else {
        parent->children[parent->child_count++] = node;
    }
    return node;
}

static pc_status add_attributes(parsing *p, pc__xml *node, const char **attributes)
{
    size_t n = 0;
    while (attributes[2 * n])
        n++;
    if (!(node->attributes = pc__calloc(p->mem, n, sizeof *node->attributes)))
        return PC_ERR_NOMEM;
    for (size_t i = 0; i < n; i++) {
        pc__xml_attribute *a = &node->attributes[node->attribute_count++];
        a->name = pc__strdup(p->mem, attributes[2 * i]);
        a->value = pc__strdup(p->mem, attributes[2 * i + 1]);
        if (!a->name || !a->value)
            return PC_ERR_NOMEM;
    }
    return PC_OK;
}

static void on_start(void *user, const char *name, const char **attributes)
{
    parsing *p = user;
    if (p->status < 0)
        return;
    pc__xml *node = add_child(p);
    if (!node || !(node->name = pc__strdup(p->mem, name))
        || add_attributes(p, node, attributes) < 0)
        stop_parsing(p, PC_ERR_NOMEM);
    else if (++p->depth > DEPTH)
        stop_parsing(p, pc__xml_fault(node, "elements are nested more than %d deep", DEPTH));
    else
        p->open = node;
}

static void on_end(void *user, const char *name)
{
    parsing *p = user;
    (void)name;
    if (p->status >= 0) {
        p->open = p->open->parent;
        p->depth--;
    }
}

static void on_text(void *user, const char *text, int size)
{
    parsing *p = user;
    if (p->status < 0 || !p->open)
        return;
    pc__xml *last = p->open->child_count ? p->open->children[p->open->child_count - 1] : NULL;
    if (!last || last->name)
        last = add_child(p);
    if (!last) {
        stop_parsing(p, PC_ERR_NOMEM);
        return;
    }
    pc_status status = pc__grow(p->mem, (void **)&last->text, &last->text_capacity,
                                last->size + (size_t)size + 1, 1);
    if (status < 0) {
        stop_parsing(p, status);
        return;
    }
    memcpy(last->text + last->size, text, (size_t)size);
    last->size += (size_t)size;
    last->text[last->size] = 0;
}

static void on_doctype(void *user, const char *name, const char *system_id, const char *public_id,
                       int internal)
{
    parsing *p = user;
    pc__xml at = current_place(p);
    (void)name, (void)system_id, (void)public_id, (void)internal;
    if (p->status >= 0)
        stop_parsing(p, pc__xml_fault(&at, "a document type (<!DOCTYPE>) is not allowed"));
}

/* The cause of what expat calls an invalid token at `index`. */
static void invalid_token(char *out, size_t room, const char *text, size_t index)
{
    unsigned char here = (unsigned char)text[index];
    char before = index ? text[index - 1] : 0;
    if (here >= 0x80)
        snprintf(out, room, "byte 0x%02X is not valid UTF-8 (save the file as UTF-8)", here);
    else if (here < 32 && !pc__xml_is_blank(text + index, 1))
        snprintf(out, room, "XML does not allow control character 0x%02X", here);
    else if (here == '&' || before == '&')
        snprintf(out, room, "not well-formed: a bare '&' (write &amp; or use CDATA)");
    else if (here == '<' || before == '<')
        snprintf(out, room, "not well-formed: a bare '<' (write &lt; or use CDATA)");
    else if (before == '=')
        snprintf(out, room, "not well-formed: the value of an attribute needs quotes");
    else
        snprintf(out, room, "not well-formed: '%c' cannot stand here", here);
}

static pc_status syntax_error(const parsing *p, const char *text, size_t size)
{
    enum XML_Error code = XML_GetErrorCode(p->parser);
    pc__xml at = current_place(p);
    XML_Index index = XML_GetCurrentByteIndex(p->parser);
    char cause[160];
    snprintf(cause, sizeof cause, "%s", XML_ErrorString(code));
    if (code == XML_ERROR_NO_MEMORY)
        return PC_ERR_NOMEM;
    if (code == XML_ERROR_INVALID_TOKEN && index >= 0 && (size_t)index < size)
        invalid_token(cause, sizeof cause, text, (size_t)index);
    else if (code == XML_ERROR_UNDEFINED_ENTITY)
        snprintf(cause, sizeof cause,
                 "undefined entity: there are &amp; &lt; &gt; &quot; &apos; and numbers (&#233;)");
    else if (code == XML_ERROR_SYNTAX && !p->root)
        snprintf(cause, sizeof cause, "text outside of the root element");
    else if (code == XML_ERROR_JUNK_AFTER_DOC_ELEMENT)
        snprintf(cause, sizeof cause, "text or elements behind the end of the root element");
    else if (code == XML_ERROR_NO_ELEMENTS && !p->root)
        snprintf(cause, sizeof cause, "no element: a schema or prompt is needed");
    else if (code == XML_ERROR_NO_ELEMENTS && p->open)
        snprintf(cause, sizeof cause, "the document ends while <%.60s> of line %zu is open",
                 p->open->name, p->open->line);
    else if (code == XML_ERROR_TAG_MISMATCH && p->open)
        snprintf(cause, sizeof cause, "mismatched tag: <%.60s> of line %zu is still open",
                 p->open->name, p->open->line);
    return pc__xml_fault(&at, "%s", cause);
}

static pc_status parse_document(parsing *p, const char *text, size_t size)
{
    XML_SetUserData(p->parser, p);
    XML_SetElementHandler(p->parser, on_start, on_end);
    XML_SetCharacterDataHandler(p->parser, on_text);
    XML_SetStartDoctypeDeclHandler(p->parser, on_doctype);
    if (XML_Parse(p->parser, text, (int)size, 1) == XML_STATUS_OK && p->status >= 0)
        return PC_OK;
    return p->status < 0 ? p->status : syntax_error(p, text, size);
}

size_t pc__utf8_mark(const char *text, size_t size)
{
    return size >= 3 && !memcmp(text, "\xef\xbb\xbf", 3) ? 3 : 0;
}

int pc__is_wide_text(const char *text, size_t size)
{
    const unsigned char *s = (const unsigned char *)text;
    return size >= 2
           && (!s[0] || !s[1] || (s[0] == 0xfe && s[1] == 0xff) || (s[0] == 0xff && s[1] == 0xfe));
}

/* Cases that expat accepts, or refuses with a misleading cause. */
static pc_status check_document(const char *where, const char *text, size_t size)
{
    if (size > 1 << 28)
        return pc__fail(PC_ERR_LIMIT, "%s: %zu bytes are more than the limit of %d", where, size,
                        1 << 28);
    if (pc__is_wide_text(text, size))
        return pc__fail(PC_ERR_PML,
                        "%s:1:1: this is UTF-16 or UTF-32; PML is UTF-8 (save the file as UTF-8)",
                        where);
    if (size == pc__utf8_mark(text, size))
        return pc__fail(PC_ERR_PML, "%s:1:1: empty: a schema or prompt is needed", where);
    return PC_OK;
}

pc_status pc__xml_parse(pc__xml **out, const pc_allocator *mem, const char *where, const char *text,
                        size_t size)
{
    static const XML_Memory_Handling_Suite suite = {xml_alloc, xml_realloc, xml_free};
    parsing p = {.mem = mem, .where = where};
    const pc_allocator *outer = current;
    *out = NULL;
    PC__TRY_RETURN(check_document(where, text, size));
    current = mem;
    p.parser = XML_ParserCreate_MM("UTF-8", &suite, NULL);
    pc_status status = p.parser ? parse_document(&p, text, size) : PC_ERR_NOMEM;
    if (p.parser)
        XML_ParserFree(p.parser);
    current = outer;
    if (status < 0)
        pc__xml_free(p.root, mem);
    else
        *out = p.root;
    return status;
}

void pc__xml_free(pc__xml *node, const pc_allocator *mem)
{
    if (!node)
        return;
    for (size_t i = 0; i < node->child_count; i++)
        pc__xml_free(node->children[i], mem);
    for (size_t i = 0; i < node->attribute_count; i++) {
        pc__free(mem, node->attributes[i].name);
        pc__free(mem, node->attributes[i].value);
    }
    pc__free(mem, node->children);
    pc__free(mem, node->attributes);
    pc__free(mem, node->name);
    pc__free(mem, node->text);
    pc__free(mem, node);
}

const char *pc__xml_attribute_of(const pc__xml *element, const char *name)
{
    for (size_t i = 0; i < element->attribute_count; i++)
        if (!strcmp(element->attributes[i].name, name))
            return element->attributes[i].value;
    return NULL;
}
