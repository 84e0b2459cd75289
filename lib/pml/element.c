/* Trees of elements and texts; errors with the place of one. */
#include "pml/element.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "text/utf8.h"

pc__element *pc__element_add(pc__element *parent, const pc_allocator *mem, const char *name)
{
    pc__element *element = pc__calloc(mem, 1, sizeof *element);
    if (!element)
        return NULL;
    if (name && !(element->name = pc__strdup(mem, name)))
        goto fail;
    if (!parent)
        return element;
    element->parent = parent;
    element->where = parent->where;
    element->origin = parent->origin;
    if (pc__grow(mem, (void **)&parent->children, &parent->child_capacity, parent->child_count + 1,
                 sizeof(*parent->children))
        < 0)
        goto fail;
    parent->children[parent->child_count++] = element;
    return element;
fail:
    pc__element_free(element, mem);
    return NULL;
}

void pc__element_drop_last(pc__element *parent, const pc_allocator *mem)
{
    pc__element_free(parent->children[--parent->child_count], mem);
}

pc_status pc__element_add_text(pc__element *text, const pc_allocator *mem, const char *data,
                               size_t size)
{
    PC__TRY_RETURN(
        pc__grow(mem, (void **)&text->text, &text->text_capacity, text->size + size + 1, 1));
    if (size)
        memcpy(text->text + text->size, data, size);
    text->size += size;
    text->text[text->size] = 0;
    return PC_OK;
}

pc_status pc__element_set(pc__element *e, const pc_allocator *mem, const char *name,
                          const char *value, size_t size)
{
    pc__attribute a = {.size = size};
    PC__TRY_RETURN(pc__grow(mem, (void **)&e->attributes, &e->attribute_capacity,
                            e->attribute_count + 1, sizeof *e->attributes));
    a.name = pc__strdup(mem, name);
    a.value = pc__strndup(mem, value, size);
    if (!a.name || !a.value) {
        pc__free(mem, a.name);
        pc__free(mem, a.value);
        return PC_ERR_NOMEM;
    }
    e->attributes[e->attribute_count++] = a;
    return PC_OK;
}

void pc__element_free(pc__element *e, const pc_allocator *mem)
{
    if (!e)
        return;
    for (size_t i = 0; i < e->child_count; i++)
        pc__element_free(e->children[i], mem);
    for (size_t i = 0; i < e->attribute_count; i++) {
        pc__free(mem, e->attributes[i].name);
        pc__free(mem, e->attributes[i].value);
    }
    pc__free(mem, e->children);
    pc__free(mem, e->attributes);
    pc__free(mem, e->name);
    pc__free(mem, e->text);
    pc__free(mem, e);
}

const char *pc__element_attribute(const pc__element *element, const char *name)
{
    for (size_t i = 0; i < element->attribute_count; i++)
        if (!strcmp(element->attributes[i].name, name))
            return element->attributes[i].value;
    return NULL;
}

int pc__is_blank_text(const char *text, size_t size)
{
    for (size_t i = 0; i < size; i++)
        if (!pc__is_blank(text[i]))
            return 0;
    return 1;
}

int pc__element_is_layout(const pc__element *e)
{
    return !e->name && e->origin == PC__FROM_XML && pc__is_blank_text(e->text, e->size);
}

int pc__element_is_empty(const pc__element *e)
{
    for (size_t i = 0; i < e->child_count; i++)
        if (e->children[i]->name || !pc__is_blank_text(e->children[i]->text, e->children[i]->size))
            return 0;
    return 1;
}

/* ------------------------------------------------------------------ places */

const char *pc__place(char out[PC__PLACE_SIZE], const char *where, size_t line, size_t column)
{
    if (column)
        snprintf(out, PC__PLACE_SIZE, "%.280s:%zu:%zu", where, line, column);
    else if (line)
        snprintf(out, PC__PLACE_SIZE, "%.280s: element %zu", where, line);
    else
        snprintf(out, PC__PLACE_SIZE, "%.280s", where);
    return out;
}

static void set_place(size_t line, size_t column)
{
    if (column)
        pc__fail_place(line, column);
}

pc_status pc__place_fault(pc_status status, const char *where, size_t line, size_t column,
                          const char *format, ...)
{
    char text[480], place[PC__PLACE_SIZE];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    pc__fail(status, "%s: %s", pc__place(place, where, line, column), text);
    set_place(line, column);
    return status;
}

pc_status pc__element_fault(const pc__element *at, const char *format, ...)
{
    char text[480];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    return pc__place_fault(PC_ERR_PML, at->where, at->line, at->column, "%s", text);
}

pc_status pc__place_in(pc_status status, const char *where, size_t line, size_t column)
{
    char place[PC__PLACE_SIZE];
    pc__fail_in(status, "%s", pc__place(place, where, line, column));
    set_place(line, column);
    return status;
}
