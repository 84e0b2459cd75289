/* XML by expat, as a small tree. Expat's memory comes from the parse's allocator. */
#include "pml/xml.h"

#include <expat.h>
#include <stdio.h>
#include <string.h>

#include "text/utf8.h"

typedef struct parsing {
    const pc_allocator *mem;
    const char *where;
    XML_Parser parser;
    pc__element *root, *open;
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

static void stop_parsing(parsing *p, pc_status status)
{
    p->status = status;
    XML_StopParser(p->parser, XML_FALSE);
}

/* An empty node at the place that the parser has reached. */
static pc__element current_place(const parsing *p)
{
    return (pc__element){.where = p->where,
                         .line = XML_GetCurrentLineNumber(p->parser),
                         .column = XML_GetCurrentColumnNumber(p->parser) + 1};
}

static pc__element *add_child(parsing *p, const char *name)
{
    pc__element *node = pc__element_add(p->open, p->mem, name);
    pc__element at = current_place(p);
    if (!node)
        return NULL;
    node->where = at.where;
    node->line = at.line;
    node->column = at.column;
    if (!p->open)
        p->root = node;
    return node;
}

static pc_status add_attributes(parsing *p, pc__element *node, const char **attributes)
{
    for (const char **a = attributes; *a; a += 2)
        PC__TRY_RETURN(pc__element_set(node, p->mem, a[0], a[1], strlen(a[1])));
    return PC_OK;
}

static void on_start(void *user, const char *name, const char **attributes)
{
    parsing *p = user;
    if (p->status < 0)
        return;
    pc__element *node = add_child(p, name);
    if (!node || add_attributes(p, node, attributes) < 0)
        stop_parsing(p, PC_ERR_NOMEM);
    else if (++p->depth > PC__ELEMENT_DEPTH)
        stop_parsing(
            p, pc__element_fault(node, "elements are nested more than %d deep", PC__ELEMENT_DEPTH));
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
    pc__element *last = p->open->child_count ? p->open->children[p->open->child_count - 1] : NULL;
    if (!last || last->name)
        last = add_child(p, NULL);
    pc_status status = last ? pc__element_add_text(last, p->mem, text, (size_t)size) : PC_ERR_NOMEM;
    if (status < 0)
        stop_parsing(p, status);
}

static void on_doctype(void *user, const char *name, const char *system_id, const char *public_id,
                       int internal)
{
    parsing *p = user;
    pc__element at = current_place(p);
    (void)name, (void)system_id, (void)public_id, (void)internal;
    if (p->status >= 0)
        stop_parsing(p, pc__element_fault(&at, "a document type (<!DOCTYPE>) is not allowed"));
}

/* The cause of what expat calls an invalid token at `index`. */
static void invalid_token(char *out, size_t room, const char *text, size_t index)
{
    unsigned char here = (unsigned char)text[index];
    char before = index ? text[index - 1] : 0;
    if (here >= 0x80)
        snprintf(out, room, "byte 0x%02X is not valid UTF-8 (save the file as UTF-8)", here);
    else if (here < 32 && !pc__is_blank_text(text + index, 1))
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
    pc__element at = current_place(p);
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
    return pc__element_fault(&at, "%s", cause);
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
        return pc__place_fault(PC_ERR_PML, where, 1, 1,
                               "this is UTF-16 or UTF-32; PML is UTF-8 (save the file as UTF-8)");
    if (size == pc__utf8_mark(text, size))
        return pc__place_fault(PC_ERR_PML, where, 1, 1, "empty: a schema or prompt is needed");
    return PC_OK;
}

pc_status pc__xml_parse(pc__element **out, const pc_allocator *mem, const char *where,
                        const char *text, size_t size)
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
        pc__element_free(p.root, mem);
    else
        *out = p.root;
    return status;
}
