/* The rules for names and attributes of PML. */
#include "pml/pml_names.h"

#include <stdio.h>
#include <string.h>

#include "text/utf8.h"

static int is_well_formed(const char *name)
{
    if (!pc__is_letter(*name))
        return 0;
    for (const char *c = name; *c; c++)
        if (!pc__is_letter(*c) && !(*c >= '0' && *c <= '9') && *c != '.' && *c != '-')
            return 0;
    return 1;
}

void pc__list_name(char *out, size_t size, const char *quote, const char *name)
{
    size_t n = strlen(out);
    if (n + strlen(name) + 8 < size)
        snprintf(out + n, size - n, "%s%s%s%s", n ? ", " : "", quote, name, quote);
    else if (n < 3 || strcmp(out + n - 3, "..."))
        snprintf(out + n, size - n, "%s...", n ? ", " : "");
}

static int names_role(const char *name)
{
    return pc__is_listed("system user assistant", name);
}

int pc__is_chat_tag(const pc__element *element)
{
    return element->origin <= PC__BUILT && names_role(element->name);
}

int pc__is_tag(const char *name)
{
    return pc__is_listed("schema module union parameter param scaffold prompt", name)
           || names_role(name);
}

const char *pc__name_attribute(const pc__element *element, const char *what, int as_tag)
{
    const char *name = pc__element_attribute(element, "name");
    if (!name)
        pc__element_fault(element, "<%s> has no name", what);
    else if (element->origin != PC__FROM_XML && !strchr(name, '/') && *name)
        return name;
    else if (element->origin != PC__FROM_XML)
        pc__element_fault(element,
                          "'%.60s' cannot name a %s: it is empty, or has a '/', which separates "
                          "the names of a path",
                          name, what);
    else if (!is_well_formed(name))
        pc__element_fault(
            element,
            "'%.60s' cannot name a %s: begin with a letter or '_', go on with letters, "
            "digits, '_', '.', '-'",
            name, what);
    else if (as_tag && pc__is_tag(name))
        pc__element_fault(element, "'%s' is a tag of PML and cannot name a %s", name, what);
    else
        return name;
    return NULL;
}

pc_status pc__only_attributes(const pc__element *element, const char *allowed)
{
    for (size_t i = 0; i < element->attribute_count; i++)
        if (!pc__is_listed(allowed, element->attributes[i].name))
            return pc__element_fault(element, "<%.60s> has no attribute '%.60s'%s%s", element->name,
                                     element->attributes[i].name, *allowed ? "; allowed: " : "",
                                     allowed);
    return PC_OK;
}
