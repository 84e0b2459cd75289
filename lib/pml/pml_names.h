/* Names of schemas, modules and parameters. In XML: [a-zA-Z_][a-zA-Z0-9_.-]*, and a tag of PML is
 * no module name. In a builder: any text without '/', which separates names in paths. */
#ifndef PC_PML_NAMES_H
#define PC_PML_NAMES_H

#include "pml/element.h"

/* The element's name= attribute; NULL and an error if it is missing or malformed. `what`: "module",
 * …; `as_tag`: prompts use the name as a tag. */
const char *pc__name_attribute(const pc__element *element, const char *what, int as_tag);
/* PC_ERR_PML for an attribute that is not in `allowed`: names between blanks. */
pc_status pc__only_attributes(const pc__element *element, const char *allowed);
/* Adds a name to a list between commas, in quotes if `quote` is one; "..." where it does not fit.
 */
void pc__list_name(char *out, size_t size, const char *quote, const char *name);
int pc__is_chat_tag(const pc__element *element);
int pc__is_tag(const char *name); /* of PML, chat tags included */

#endif
