/* Chat tags (<system>, <user>, <assistant>): the template text around their content. */
#ifndef PC_PML_CHAT_TAG_H
#define PC_PML_CHAT_TAG_H

#include "pml/schema_tree.h"
#include "pml/element.h"

typedef struct pc__chat_tag {
    const char *open, *close;
    /* behind `close`: opens the answer; "" if the document gives the answer itself */
    const char *generation;
} pc__chat_tag;

/* *in_system: the chat tag before this one was a system prompt; the call updates it. PC_ERR_PML,
 * with the place: the chat template does not know this tag. */
pc_status pc__chat_tag_of(const pc__pml_env *env, const pc__element *element, int *in_system,
                          pc__chat_tag *out);

#endif
