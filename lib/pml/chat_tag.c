/* Which pieces of the chat template stand around a tag, by its neighbours. */
#include "pml/chat_tag.h"

#include <string.h>

#include "pml/pml_names.h"

/* Whether the next element is the answer. Only blanks may stand before it. */
static int answer_follows(const pc__element *e)
{
    const pc__element *parent = e->parent;
    size_t i = 0;
    while (parent && i < parent->child_count && parent->children[i] != e)
        i++;
    for (i++; parent && i < parent->child_count; i++) {
        const pc__element *next = parent->children[i];
        if (next->name)
            return pc__is_chat_tag(next) && !strcmp(next->name, "assistant");
        if (!pc__element_is_layout(next))
            return 0;
    }
    return 0;
}

pc_status pc__chat_tag_of(const pc__pml_env *env, const pc__element *e, int *in_system,
                          pc__chat_tag *out)
{
    const pc__chat *chat = env->chat;
    const pc__chat_pieces *p = &chat->pieces;
    int system = !strcmp(e->name, "system"), empty = pc__element_is_empty(e);
    int joined = *in_system && chat->system_joins_user;
    pc_status status = pc__only_attributes(e, "");
    if (status >= 0 && pc__chat_check_role(chat, system && !empty ? "system" : "user") < 0)
        return pc__element_fault(e, "<%s>: %s", e->name, pc_error_text());
    *in_system = system && !empty;
    *out = (pc__chat_tag){joined ? "" : p->user_open, p->user_close,
                          answer_follows(e) ? "" : p->generation};
    if (system)
        *out = empty ? (pc__chat_tag){p->system_empty, "", ""}
                     : (pc__chat_tag){p->system_open, p->system_close, ""};
    else if (!strcmp(e->name, "assistant"))
        *out = (pc__chat_tag){p->assistant_open, p->assistant_close, ""};
    return status;
}
