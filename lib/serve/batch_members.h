/* The members of a batch. A sequence leaves by this link, so it need not know its batch. */
#ifndef PC_SERVE_BATCH_MEMBERS_H
#define PC_SERVE_BATCH_MEMBERS_H

#include <promptcache.h>

typedef struct pc__batch_members {
    pc_sequence **items;
    size_t count, capacity;
} pc__batch_members;

/* Those behind it move up. */
static inline void pc__batch_members_remove(pc__batch_members *members, const pc_sequence *sequence)
{
    size_t i = 0;
    while (members->items[i] != sequence)
        i++;
    for (members->count--; i < members->count; i++)
        members->items[i] = members->items[i + 1];
}

#endif
